// Bytes as models handle them: `Buffer` as far as its usual encodings go, `Blob`, `Headers`, and the part of
// `crypto.subtle` that hashes.
//
// Called once, after the prelude, with the same `native`.
export default function bytes(native) {
  "use strict";

  const { Array, ArrayBuffer, DOMException, DataView, Map, Object, Reflect, String, Symbol, TypeError, RangeError, Uint8Array, WeakMap } = globalThis;
  const { apply, defineProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
  const uncurry = (method) => (self, ...args) => apply(method, self, args);
  const hide = (target, name, value) =>
    defineProperty(target, name, { __proto__: null, value, writable: true, enumerable: false, configurable: true });
  const tag = (constructor, name) =>
    defineProperty(constructor.prototype, Symbol.toStringTag, { __proto__: null, value: name, configurable: true });
  const lower = uncurry(String.prototype.toLowerCase);
  const fromCharCode = String.fromCharCode;

  /// The bytes of a buffer or a view, copied.
  const copyOf = (value, what) => {
    if (ArrayBuffer.isView(value)) return value.buffer.slice(value.byteOffset, value.byteOffset + value.byteLength);
    if (value instanceof ArrayBuffer) return value.slice(0);
    throw new TypeError(what + " takes an ArrayBuffer or a view of one");
  };
  const utf8 = (text) => new Uint8Array(native.utf8Encode(text));
  const utf8Text = (view) => native.decode("utf-8", new ArrayBuffer(0), copyOf(view, "toString"), false, false)[0];

  // ── Buffer ─────────────────────────────────────────────────────────────────────────────────

  const names = { __proto__: null, utf8: "utf8", "utf-8": "utf8", hex: "hex", base64: "base64", base64url: "base64url",
    latin1: "latin1", binary: "latin1", ascii: "ascii", ucs2: "utf16le", "ucs-2": "utf16le", utf16le: "utf16le", "utf-16le": "utf16le" };
  const encodingOf = (encoding) => {
    const name = names[lower("" + (encoding ?? "utf8"))];
    if (name === undefined) throw new TypeError("unknown encoding `" + encoding + "`: use utf8, base64, base64url, hex, latin1, ascii or utf16le");
    return name;
  };
  /// As Node does it: what is no digit is passed over, and a group that is cut off gives what it has.
  const fromBase64 = (text) => {
    const out = [];
    let bits = 0, held = 0;
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      if (code === 61) break;
      const digit = code >= 65 && code <= 90 ? code - 65 : code >= 97 && code <= 122 ? code - 71 : code >= 48 && code <= 57 ? code + 4
        : code === 43 || code === 45 ? 62 : code === 47 || code === 95 ? 63 : -1;
      if (digit < 0) continue;
      held = (held << 6 | digit) & 0xffff;
      bits += 6;
      if (bits >= 8) { bits -= 8; out.push(held >> bits & 255); }
    }
    return out;
  };
  const fromHex = (text) => {
    const out = [];
    for (let i = 0; i + 1 < text.length; i += 2) {
      const pair = text.slice(i, i + 2);
      if (!/^[0-9a-fA-F]{2}$/.test(pair)) break;
      out.push(parseInt(pair, 16));
    }
    return out;
  };
  const encode = (text, encoding) => {
    switch (encodingOf(encoding)) {
      case "utf8": return utf8(text);
      case "hex": return fromHex(text);
      case "base64": case "base64url": return fromBase64(text);
      case "utf16le": {
        const out = [];
        for (let i = 0; i < text.length; i++) { const code = text.charCodeAt(i); out.push(code & 255, code >> 8); }
        return out;
      }
      default: {
        const out = [];
        for (let i = 0; i < text.length; i++) out.push(text.charCodeAt(i) & 255);
        return out;
      }
    }
  };
  const decode = (view, encoding) => {
    const name = encodingOf(encoding);
    const plain = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
    switch (name) {
      case "utf8": return utf8Text(plain);
      case "hex": return plain.toHex();
      case "base64": return plain.toBase64();
      case "base64url": return plain.toBase64({ alphabet: "base64url", omitPadding: true });
      default: {
        let text = "";
        if (name === "utf16le") for (let i = 0; i + 1 < plain.length; i += 2) text += fromCharCode(plain[i] | plain[i + 1] << 8);
        else for (let i = 0; i < plain.length; i++) text += fromCharCode(name === "ascii" ? plain[i] & 127 : plain[i]);
        return text;
      }
    }
  };

  class Buffer extends Uint8Array {
    static from(value, encoding, length) {
      if (typeof value === "string") { const all = encode(value, encoding); const made = new Buffer(all.length); made.set(all); return made; }
      if (value instanceof ArrayBuffer) return new Buffer(value, encoding, length);
      if (value?.type === "Buffer" && Array.isArray(value.data)) return Buffer.from(value.data);
      if (value === null || typeof value !== "object" || typeof value.length !== "number") throw new TypeError("Buffer.from takes a text, an array of bytes or a buffer");
      const made = new Buffer(value.length);
      for (let i = 0; i < value.length; i++) made[i] = value[i];
      return made;
    }
    static of(...items) { return Buffer.from(items); }
    static alloc(size, fill, encoding) { const made = new Buffer(size); return fill === undefined ? made : made.fill(fill, 0, size, encoding); }
    static allocUnsafe(size) { return new Buffer(size); }
    static isBuffer(value) { return value instanceof Buffer; }
    static isEncoding(encoding) { return typeof encoding === "string" && names[lower(encoding)] !== undefined; }
    static byteLength(value, encoding) {
      if (typeof value === "string") return encode(value, encoding).length;
      if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return value.byteLength;
      const source = native.textOf(value);
      if (source === undefined) throw new TypeError("Buffer.byteLength takes a string, a Buffer or an ArrayBuffer");
      return encode(source, encoding).length;
    }
    static concat(list, total) {
      let size = 0;
      for (const item of list) size += item.length;
      const made = Buffer.alloc(total ?? size);
      let at = 0;
      for (const item of list) { if (at >= made.length) break; made.set(item.subarray(0, made.length - at), at); at += item.length; }
      return made;
    }
    static compare(a, b) {
      for (let i = 0; i < a.length && i < b.length; i++) if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1;
      return a.length === b.length ? 0 : a.length < b.length ? -1 : 1;
    }
    toString(encoding, start = 0, end = this.length) { return decode(this.subarray(start, end), encoding); }
    toJSON() { return { type: "Buffer", data: Array.from(this) }; }
    equals(other) { return Buffer.compare(this, other) === 0; }
    compare(other) { return Buffer.compare(this, other); }
    slice(start, end) { return this.subarray(start, end); }
    fill(value, start, end, encoding) {
      if (typeof value !== "string") return super.fill(value, start, end);
      const all = encode(value, typeof start === "string" ? start : encoding);
      const from = typeof start === "number" ? start : 0, to = typeof end === "number" ? end : this.length;
      for (let i = from; i < to && all.length; i++) this[i] = all[(i - from) % all.length];
      return this;
    }
    write(text, offset = 0, length, encoding) {
      if (typeof offset === "string") [offset, encoding] = [0, offset];
      else if (typeof length === "string") [length, encoding] = [undefined, length];
      const all = encode(text, encoding);
      const size = Math.min(all.length, length ?? Infinity, this.length - offset);
      for (let i = 0; i < size; i++) this[offset + i] = all[i];
      return size;
    }
    copy(target, at = 0, start = 0, end = this.length) {
      const part = this.subarray(start, Math.min(end, start + target.length - at));
      target.set(part, at);
      return part.length;
    }
    indexOf(value, from = 0, encoding) {
      if (typeof value === "number") return super.indexOf(value, from);
      const all = typeof value === "string" ? encode(value, encoding) : value;
      for (let i = from; i + all.length <= this.length; i++) {
        let same = 0;
        while (same < all.length && this[i + same] === all[same]) same++;
        if (same === all.length) return i;
      }
      return -1;
    }
    includes(value, from, encoding) { return this.indexOf(value, from, encoding) >= 0; }
  }
  for (const name of ["readUInt8", "readUInt16LE", "readUInt16BE", "readUInt32LE", "readUInt32BE", "readInt8", "readInt16LE", "readInt16BE", "readInt32LE",
    "readInt32BE", "readFloatLE", "readFloatBE", "readDoubleLE", "readDoubleBE", "readBigUInt64LE", "readBigUInt64BE", "writeUInt8", "writeUInt16LE", "writeUInt16BE",
    "writeUInt32LE", "writeUInt32BE", "writeInt32LE", "writeInt32BE", "writeDoubleLE", "writeDoubleBE", "swap16", "swap32", "swap64", "lastIndexOf"]) {
    hide(Buffer.prototype, name, { [name]() { throw new TypeError("Buffer." + name + " is not supported here: use a DataView of buffer.buffer"); } }[name]);
  }

  // ── Blob ───────────────────────────────────────────────────────────────────────────────────

  class Blob {
    #bytes; #type;
    constructor(parts = [], options = {}) {
      if (typeof parts !== "object" || parts === null || parts[Symbol.iterator] === undefined) throw new TypeError("Blob takes an array of parts");
      const all = [];
      for (const part of parts) {
        all.push(part instanceof Blob ? part.#bytes : typeof part === "object" && part !== null && (ArrayBuffer.isView(part) || part instanceof ArrayBuffer)
          ? new Uint8Array(copyOf(part, "Blob")) : utf8("" + part));
      }
      let size = 0;
      for (const part of all) size += part.length;
      this.#bytes = new Uint8Array(size);
      let at = 0;
      for (const part of all) { this.#bytes.set(part, at); at += part.length; }
      this.#type = /[^\x20-\x7e]/.test("" + (options?.type ?? "")) ? "" : lower("" + (options?.type ?? ""));
    }
    get size() { return this.#bytes.length; }
    get type() { return this.#type; }
    async text() { return utf8Text(this.#bytes); }
    async arrayBuffer() { return copyOf(this.#bytes, "Blob"); }
    async bytes() { return new Uint8Array(copyOf(this.#bytes, "Blob")); }
    slice(start, end, type = "") { return new Blob([this.#bytes.slice(start, end)], { type }); }
    stream() { throw new TypeError("Blob.stream is not supported here: use text(), bytes() or arrayBuffer()"); }
    // Not in the standard, where the JSON of a Blob is {} without a word.
    toJSON() { return { size: this.size, type: this.type }; }
  }
  tag(Blob, "Blob");
  hide(Blob.prototype, "toJSON", Blob.prototype.toJSON);

  // ── Headers ────────────────────────────────────────────────────────────────────────────────

  const headerName = (name) => {
    const text = "" + name;
    if (!/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(text)) throw new TypeError("`" + text + "` is not a name of a header");
    return lower(text);
  };
  const headerValue = (value) => {
    const text = ("" + value).replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, "");
    if (/[\0\r\n]/.test(text)) throw new TypeError("the value of a header is one line");
    return text;
  };
  class Headers {
    #list = new Map();
    constructor(init) {
      if (init === undefined || init === null) return;
      if (typeof init !== "object") throw new TypeError("Headers takes an object, an array of pairs or Headers");
      if (init[Symbol.iterator] !== undefined) for (const pair of init) {
        const [name, value, ...more] = pair;
        if (value === undefined || more.length) throw new TypeError("each pair of Headers has a name and a value");
        this.append(name, value);
      }
      else for (const name of ownKeys(init)) {
        if (typeof name === "string" && getOwnPropertyDescriptor(init, name)?.enumerable) this.append(name, init[name]);
      }
    }
    append(name, value) { const key = headerName(name); this.#list.set(key, [...(this.#list.get(key) ?? []), headerValue(value)]); }
    set(name, value) { this.#list.set(headerName(name), [headerValue(value)]); }
    delete(name) { this.#list.delete(headerName(name)); }
    has(name) { return this.#list.has(headerName(name)); }
    get(name) { return this.#list.get(headerName(name))?.join(", ") ?? null; }
    getSetCookie() { return [...(this.#list.get("set-cookie") ?? [])]; }
    forEach(callback, self) { for (const [name, value] of this) apply(callback, self, [value, name, this]); }
    *entries() {
      for (const name of [...this.#list.keys()].sort()) {
        if (name === "set-cookie") for (const value of this.#list.get(name)) yield [name, value];
        else yield [name, this.get(name)];
      }
    }
    *keys() { for (const [name] of this) yield name; }
    *values() { for (const [, value] of this) yield value; }
    [Symbol.iterator]() { return this.entries(); }
    // Not in the standard, where the JSON of Headers is {} without a word.
    toJSON() { return Object.fromEntries(this); }
  }
  tag(Headers, "Headers");

  // ── Hashes ─────────────────────────────────────────────────────────────────────────────────

  const unsupported = (what) => new DOMException(what + " is not supported here: there are digest() with SHA-1, SHA-256, SHA-384 and SHA-512, and HMAC with importKey(\"raw\"), generateKey, exportKey(\"raw\"), sign and verify", "NotSupportedError");
  const blocks = { __proto__: null, "SHA-1": 64, "SHA-256": 64, "SHA-384": 128, "SHA-512": 128 };
  const hashName = (algorithm) => {
    const name = ("" + (typeof algorithm === "string" ? algorithm : algorithm?.name)).toUpperCase();
    if (blocks[name] === undefined) throw unsupported("the hash `" + name + "`");
    return name;
  };
  const isHmac = (algorithm) => ("" + (typeof algorithm === "string" ? algorithm : algorithm?.name)).toUpperCase() === "HMAC";
  const keys = new WeakMap();
  class CryptoKey {
    constructor() { throw new TypeError("a CryptoKey is made by crypto.subtle"); }
    get type() { return "secret"; }
    get extractable() { return keyOf(this).extractable; }
    get usages() { return [...keyOf(this).usages]; }
    get algorithm() { const { hash, secret } = keyOf(this); return { name: "HMAC", hash: { name: hash }, length: secret.byteLength * 8 }; }
  }
  tag(CryptoKey, "CryptoKey");
  const keyOf = (key) => {
    const found = typeof key === "object" && key !== null ? keys.get(key) : undefined;
    if (found === undefined) throw new TypeError("this takes a CryptoKey of importKey or generateKey");
    return found;
  };
  const makeKey = (secret, algorithm, extractable, usages) => {
    if (!isHmac(algorithm)) throw unsupported("a key for `" + (algorithm?.name ?? algorithm) + "`");
    for (const usage of usages) if (usage !== "sign" && usage !== "verify") throw new DOMException("a key for HMAC is to sign and to verify", "SyntaxError");
    const key = Object.create(CryptoKey.prototype);
    keys.set(key, { secret, hash: hashName(algorithm.hash), extractable: !!extractable, usages: [...usages] });
    return key;
  };
  const usable = (key, usage) => {
    const found = keyOf(key);
    if (!found.usages.includes(usage)) throw new DOMException("the key may not be used to " + usage, "InvalidAccessError");
    return found;
  };
  const code = (key, data) => native.hmac(key.hash, key.secret, copyOf(data, "HMAC"));
  const subtle = {
    async digest(algorithm, data) { return native.digest(hashName(algorithm), copyOf(data, "digest")); },
    async importKey(format, data, algorithm, extractable, usages) {
      if (format !== "raw") throw unsupported("the format `" + format + "`");
      return makeKey(copyOf(data, "importKey"), algorithm, extractable, usages);
    },
    async generateKey(algorithm, extractable, usages) {
      const size = algorithm?.length === undefined ? blocks[hashName(algorithm?.hash)] : algorithm.length / 8;
      return makeKey(native.randomBytes(size), algorithm, extractable, usages);
    },
    async exportKey(format, key) {
      const { secret, extractable } = keyOf(key);
      if (format !== "raw") throw unsupported("the format `" + format + "`");
      if (!extractable) throw new DOMException("the key is not extractable", "InvalidAccessError");
      return secret.slice(0);
    },
    async sign(algorithm, key, data) {
      if (!isHmac(algorithm)) throw unsupported("signing with `" + (algorithm?.name ?? algorithm) + "`");
      return code(usable(key, "sign"), data);
    },
    async verify(algorithm, key, signature, data) {
      if (!isHmac(algorithm)) throw unsupported("verifying with `" + (algorithm?.name ?? algorithm) + "`");
      const right = new Uint8Array(code(usable(key, "verify"), data)), given = new Uint8Array(copyOf(signature, "verify"));
      let difference = right.length ^ given.length;
      for (let i = 0; i < right.length; i++) difference |= right[i] ^ given[i];
      return difference === 0;
    },
  };
  for (const name of ["encrypt", "decrypt", "deriveKey", "deriveBits", "wrapKey", "unwrapKey"]) subtle[name] = async () => { throw unsupported(name); };
  for (const name of ownKeys(subtle)) hide(subtle, name, subtle[name]);
  defineProperty(subtle, Symbol.toStringTag, { __proto__: null, value: "SubtleCrypto", configurable: true });
  hide(globalThis.crypto, "subtle", subtle);
  for (const [name, instead] of [["createHash", "await crypto.subtle.digest(\"SHA-256\", bytes)"], ["createHmac", "crypto.subtle.importKey and sign"],
    ["randomBytes", "crypto.getRandomValues(new Uint8Array(n))"]]) {
    hide(globalThis.crypto, name, { [name]() { throw new TypeError("crypto." + name + " is not supported here: use " + instead); } }[name]);
  }

  const globals = { Buffer, Blob, Headers, CryptoKey };
  for (const name of ownKeys(globals)) hide(globalThis, name, globals[name]);
}
