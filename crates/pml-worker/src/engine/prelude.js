// The globals that the engine lacks, and the way to tools.
//
// Compiled when pml is built (build.rs) and called once, before any program, with `native`: an
// object of Rust functions that exists only in this closure. What a program can reach from here is exactly what is put on
// `globalThis` or in the "pml" module at the end.
//
// A program may replace any intrinsic. So the path of a tool call looks none up at run time: what
// it needs is taken here, while the realm is still ours, and called through `uncurry`. Elsewhere
// (iterating URL parameters, say) a program that breaks an intrinsic breaks only its own use of it.
export default function prelude(native) {
  "use strict";

  const { Array, ArrayBuffer, DataView, Date, DOMException, Error, Map, Object, Proxy, Reflect } = globalThis;
  const { RangeError, RegExp, Set, String, Symbol, TypeError, Uint8Array, WeakMap } = globalThis;
  const { apply, construct, defineProperty, get: reflectGet, getPrototypeOf, ownKeys } = Reflect;
  const { create, freeze, getOwnPropertyDescriptor, setPrototypeOf } = Object;
  const isArray = Array.isArray;
  const isView = ArrayBuffer.isView;
  const uncurry = (method) => (self, ...args) => apply(method, self, args);
  const getter = (prototype, name) => uncurry(getOwnPropertyDescriptor(prototype, name).get);

  const push = uncurry(Array.prototype.push);
  const splice = uncurry(Array.prototype.splice);
  const sort = uncurry(Array.prototype.sort);
  const slice = uncurry(Array.prototype.slice);
  const dateValue = uncurry(Date.prototype.getTime);
  const symbolText = uncurry(Symbol.prototype.toString);
  const unboxers = [Number, String, Boolean, BigInt].map(({ prototype }) => uncurry(prototype.valueOf));
  const dateText = uncurry(Date.prototype.toISOString);
  const mapGet = uncurry(Map.prototype.get);
  const mapSet = uncurry(Map.prototype.set);
  const mapEach = uncurry(Map.prototype.forEach);
  const setAdd = uncurry(Set.prototype.add);
  const setEach = uncurry(Set.prototype.forEach);
  const weakGet = uncurry(WeakMap.prototype.get);
  const weakSet = uncurry(WeakMap.prototype.set);
  const bufferSlice = uncurry(ArrayBuffer.prototype.slice);
  const bufferLength = getter(ArrayBuffer.prototype, "byteLength");
  const TypedArray = getPrototypeOf(Uint8Array);
  const viewBuffer = getter(TypedArray.prototype, "buffer");
  const viewOffset = getter(TypedArray.prototype, "byteOffset");
  const viewBytes = getter(TypedArray.prototype, "byteLength");
  const viewTag = getter(TypedArray.prototype, Symbol.toStringTag);
  const dataBuffer = getter(DataView.prototype, "buffer");
  const dataOffset = getter(DataView.prototype, "byteOffset");
  const dataBytes = getter(DataView.prototype, "byteLength");
  const charCode = uncurry(String.prototype.charCodeAt);
  const substring = uncurry(String.prototype.slice);
  const indexOf = uncurry(String.prototype.indexOf);
  const lower = uncurry(String.prototype.toLowerCase);
  const trim = uncurry(String.prototype.trim);
  const regexFlags = getter(RegExp.prototype, "flags");
  const regexSource = getter(RegExp.prototype, "source");
  const stackOf = getter(Error.prototype, "stack");
  const isSafeInteger = Number.isSafeInteger;
  const parseJson = JSON.parse, stringify = JSON.stringify;
  const { asyncIterator: symbolAsyncIterator, iterator: symbolIterator, toStringTag: symbolTag } = Symbol;

  /// A property like those of the standard library: writable, not enumerable.
  const hide = (target, name, value) =>
    defineProperty(target, name, { __proto__: null, value, writable: true, enumerable: false, configurable: true });
  /// An ordinary property, made without asking any setter.
  const put = (target, name, value) =>
    defineProperty(target, name, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
  const tag = (constructor, name) =>
    defineProperty(constructor.prototype, symbolTag, { __proto__: null, value: name, configurable: true });
  // Not template strings: the engine makes them with `String.prototype.concat`, which is the
  // program's to replace. `+` is nobody's.
  const text = (value) => "" + value;

  // ── Reads of what is not there ─────────────────────────────────────────────────────────────

  // A program that reads a property which a result does not have goes on with `undefined`, and gives a wrong value. So the
  // objects of results have a prototype that is asked last, when neither the object nor the standard library has the
  // property, and notes the read. What the object has is read as fast as ever.

  /// What a program sees as the prototype of values that have one of ours.
  const disguises = new WeakMap();
  /// Reads of one name that are noted, of one kind of value.
  const maxNoted = 20;
  /// Reads of all names. A table that is asked for many keys it does not have would take long otherwise.
  const maxNotes = 300;
  // Names that the language, and code that tells kinds of values apart, ask of any value.
  const unwatched = { __proto__: null, then: true, toJSON: true, constructor: true, inspect: true, nodeType: true, $$typeof: true,
    asymmetricMatch: true, "@@iterator": true, valueOf: true };
  /// A prototype that has what `parent` has, looks like `shown`, and tells `note` of names that are not there.
  const watch = (parent, shown, note) => {
    const counts = { __proto__: null };
    let notes = 0;
    const proxy = new Proxy(parent, {
      __proto__: null,
      get(target, name, receiver) {
        const value = reflectGet(target, name, receiver);
        if (value !== undefined || typeof name === "symbol" || unwatched[name]) return value;
        const first = charCode(name, 0);
        if (first >= 48 && first <= 57 && isArray(receiver)) return undefined; // an index
        if (notes >= maxNotes) return undefined;
        const count = counts[name] ?? 0;
        if (count < maxNoted) {
          counts[name] = count + 1;
          notes++;
          note(name, receiver, stackOf(new Error()));
        }
        return undefined;
      },
    });
    weakSet(disguises, proxy, shown);
    return proxy;
  };
  /// The same, with what is asked of most values in front: `JSON.stringify` asks each for its `toJSON`.
  const front = (parent, shown, note) => {
    const prototype = create(watch(parent, shown, note));
    hide(prototype, "toJSON", undefined);
    weakSet(disguises, prototype, shown);
    return prototype;
  };
  const shownPrototype = (prototype) => (prototype === null ? null : weakGet(disguises, prototype) ?? prototype);
  const protoAccessor = getOwnPropertyDescriptor(Object.prototype, "__proto__");
  const engineGetPrototypeOf = Object.getPrototypeOf;
  hide(Object, "getPrototypeOf", { getPrototypeOf(value) { return shownPrototype(engineGetPrototypeOf(value)); } }.getPrototypeOf);
  hide(Reflect, "getPrototypeOf", { getPrototypeOf(value) { return shownPrototype(getPrototypeOf(value)); } }.getPrototypeOf);
  const shownProto = { get __proto__() { return shownPrototype(apply(protoAccessor.get, this, [])); } };
  defineProperty(Object.prototype, "__proto__", {
    __proto__: null, get: getOwnPropertyDescriptor(shownProto, "__proto__").get, set: protoAccessor.set, enumerable: false, configurable: true,
  });

  /// In a text, a structured result is its JSON text.
  const resultObject = create(Object.prototype), resultArray = create(Array.prototype);
  const objectText = uncurry(Object.prototype.toString), arrayText = uncurry(Array.prototype.toString);
  const jsonText = (value, fallback) => { try { return stringify(value) ?? fallback(value); } catch { return fallback(value); } };
  hide(resultObject, "toString", { toString() { return jsonText(this, objectText); } }.toString);
  hide(resultArray, "toString", {
    toString() {
      for (let i = 0; i < this.length; i++) if (typeof this[i] === "object" && this[i] !== null) return jsonText(this, arrayText);
      return arrayText(this);
    },
  }.toString);

  /// Results as a whole, as opposed to what is in them.
  const wholes = new WeakMap();
  const envelopes = new WeakMap();
  const watchers = { __proto__: null };
  /// The prototypes of the values that a tool returns.
  const watched = (tool) => {
    const known = watchers[tool];
    if (known !== undefined) return known;
    const note = (name, value, stack) => native.missed(tool, name, value, weakGet(wholes, value) ? "whole" : "part", stack);
    const noteEnvelope = (name, value, stack) => native.missed(tool, name, value, "envelope", stack);
    const made = {
      __proto__: null,
      object: front(resultObject, Object.prototype, note),
      array: front(resultArray, Array.prototype, note),
      // Its `length` has a warning of its own.
      textObject: front(textObject, Object.prototype, (name, value, stack) => { if (name !== "length") note(name, value, stack); }),
      textArray: front(textArray, Array.prototype, note),
      envelope: front(resultObject, Object.prototype, noteEnvelope),
      // What the program parses itself has the texts that any object has.
      parsedObject: front(Object.prototype, Object.prototype, note),
      parsedArray: front(Array.prototype, Array.prototype, note),
    };
    weakSet(envelopes, made.envelope, true);
    native.noteTextPrototypes(made.textObject, made.textArray);
    native.notePrototypes(tool, made.object, made.array, made.textObject, made.textArray);
    native.notePrototypes(tool, made.parsedObject, made.parsedArray, made.parsedObject, made.parsedArray);
    return (watchers[tool] = made);
  };
  /// Members of a result that are looked at for arrays.
  const maxMembers = 4000;
  /// Has the arrays in a result watched, the outer ones first. The objects have their prototypes already.
  const watchArrays = (value, array) => {
    const found = [value];
    let left = maxMembers;
    for (let at = 0; at < found.length; at++) {
      const it = found[at];
      const keys = isArray(it) ? undefined : ownKeys(it);
      const length = keys === undefined ? it.length : keys.length;
      for (let i = 0; i < length; i++) {
        if (left-- === 0) return;
        const member = it[keys === undefined ? i : keys[i]];
        if (typeof member !== "object" || member === null || weakGet(tokens, member) !== undefined) continue;
        if (isArray(member) && getPrototypeOf(member) === Array.prototype) setPrototypeOf(member, array);
        found[found.length] = member;
      }
    }
  };
  /// Has the result of a tool watched. The objects in it have their prototypes already.
  const markResult = (value, tool) => {
    mark(value, tool, watched(tool));
  };
  const mark = (value, tool, { object, array }) => {
    hasResults = true;
    if (typeof value !== "object" || value === null) return notePrimitive(value, tool);
    if (weakGet(tokens, value) !== undefined) return;
    weakSet(wholes, value, true);
    native.noteWhole(value);
    if (isArray(value)) {
      if (getPrototypeOf(value) === Array.prototype) setPrototypeOf(value, array);
    } else if (getPrototypeOf(value) === Object.prototype) {
      setPrototypeOf(value, object);
    }
    watchArrays(value, array);
  };

  // Results that are texts, numbers or booleans, by what tells them from others.
  const primitives = { __proto__: null };
  let primitiveCount = 0, hasResults = false;
  const maxPrimitives = 200;
  const primitiveKey = (value) => (typeof value === "string" ? value.length + ":" + substring(value, 0, 60) : typeof value + " " + text(value));
  const notePrimitive = (value, tool) => {
    if (value === null || value === undefined || primitiveCount >= maxPrimitives) return;
    primitiveCount++;
    primitives[primitiveKey(value)] = tool;
    if (typeof value === "string" && value.length < maxPart) noteJson(value, tool);
  };
  /// The JSON in texts of tools, also behind other text, by what tells it from other texts. What a program parses of it is watched as
  /// any result is.
  const jsonParts = { __proto__: null };
  const maxPart = 1000000;
  const noteJson = (value, tool) => {
    const bracket = indexOf(value, "["), brace = indexOf(value, "{");
    const start = bracket < 0 || (brace >= 0 && brace < bracket) ? brace : bracket;
    if (start >= 0) jsonParts[primitiveKey(trim(substring(value, start)))] = tool;
  };
  const watchPrimitives = (prototype) => setPrototypeOf(prototype, watch(Object.prototype, Object.prototype, (name, value, stack) => {
    // A pattern takes a boxed one apart.
    if (typeof value === "object") for (let i = 0; i < 3; i++) try { value = unboxers[i](value); break; } catch {}
    if (typeof value === "object" || typeof value === "function") return;
    const tool = primitives[primitiveKey(value)];
    if (tool !== undefined) native.missed(tool, name, value, "whole", stack);
    else if (hasResults) native.missed("", name, value, "primitive", stack);
  }));
  watchPrimitives(String.prototype);
  watchPrimitives(Number.prototype);
  watchPrimitives(Boolean.prototype);

  // ── Tools ──────────────────────────────────────────────────────────────────────────────────

  class ToolError extends Error {
    constructor(message, details = {}) {
      super(message);
      put(this, "code", details.code);
      put(this, "tool", details.tool);
      put(this, "retryable", details.retryable === true);
      if (details.outcome !== undefined) put(this, "outcome", details.outcome);
      if (details.data !== undefined) put(this, "data", details.data);
      if (details.rpcCode !== undefined) put(this, "rpcCode", details.rpcCode);
    }
  }
  hide(ToolError.prototype, "name", "ToolError");
  // Frozen, so that making one runs nothing of the program's.
  freeze(ToolError);
  freeze(ToolError.prototype);

  // The errors that the host really sent, with what it said. A program can make or change a
  // ToolError, but not this record, so reports tell the truth.
  const genuine = new WeakMap();
  const makeToolError = (code, message, tool, retryable, outcome, data, rpcCode, stack) => {
    const error = new ToolError(message, { code, tool, retryable, outcome, data, rpcCode });
    weakSet(genuine, error, freeze({ __proto__: null, code, tool, stack }));
    return error;
  };
  const makeSuccess = (result, tool) => ({ __proto__: watched(tool).envelope, success: true, result });
  // In a text, the error of an envelope is its message.
  const failurePrototype = create(Object.prototype);
  hide(failurePrototype, "toString", { toString() { return text(this.message); } }.toString);
  const makeFailure = (code, message, tool, retryable, outcome, data, rpcCode) => {
    const error = { __proto__: failurePrototype, code, message, tool, retryable, outcome };
    if (data !== undefined) put(error, "data", data);
    if (rpcCode !== undefined) put(error, "rpcCode", rpcCode);
    return { __proto__: watched(tool).envelope, success: false, error };
  };

  // A stack frame would give a program the functions it was called through, ours included.
  Error.prepareStackTrace = (_, sites) => sites;
  const site = getPrototypeOf(new Error().stack[0]);
  Error.prepareStackTrace = undefined;
  for (const name of ["getFunction", "getThis"]) delete site[name];

  // Names that JavaScript itself asks for. A server or tool called so is reached by `callTool`.
  const reserved = { __proto__: null };
  for (const name of native.reserved) reserved[name] = true;

  /// An object without content of its own, whose properties come from `find` and names from `list`.
  const view = (find, list, label) => {
    const cache = { __proto__: null };
    const lookup = (name) => {
      if (typeof name !== "string" || reserved[name]) return undefined;
      return (cache[name] ??= find(name));
    };
    // Made once: the names do not change during a run.
    let all, known;
    const names = () => (all ??= list());
    const listed = (name) => {
      if (known === undefined) {
        known = { __proto__: null };
        for (let i = 0; i < names().length; i++) known[all[i]] = true;
      }
      return typeof name === "string" && known[name] === true;
    };
    const refuse = () => { throw new TypeError(`${label} is read-only`); };
    return new Proxy({ __proto__: null }, {
      __proto__: null,
      get: (_, name) => (name === symbolTag ? label : lookup(name)),
      has: (_, name) => listed(name),
      ownKeys: () => names(),
      getOwnPropertyDescriptor: (_, name) =>
        listed(name) ? { value: lookup(name), enumerable: true, configurable: true, writable: false } : undefined,
      getPrototypeOf: () => null,
      set: refuse, defineProperty: refuse, deleteProperty: refuse, setPrototypeOf: refuse, preventExtensions: refuse,
    });
  };

  // Asked of the host on first use: most programs never enumerate, and pay nothing.
  let known;
  const names = () => (known ??= native.names());
  const serverNames = () => {
    const all = [];
    for (const server of ownKeys(names())) if (!reserved[server]) push(all, server);
    return all;
  };
  const toolNames = (server) => {
    const tools = getOwnPropertyDescriptor(names(), server)?.value;
    const all = [];
    if (tools) for (let i = 0; i < tools.length; i++) if (!reserved[tools[i]]) push(all, tools[i]);
    return all;
  };
  const makeTool = (server, tool) => {
    const target = server + ":" + tool;
    // The answer comes from outside any code of the program, so the place is noted now.
    const call = (args) => native.call(target, args, false, stackOf(new Error()), false);
    hide(call, "name", tool);
    return freeze(call);
  };
  // Functions that programs look for on `mcp`, unless a server is called so.
  const notListed = () => {
    throw new TypeError("tools are listed by Object.keys(mcp) and Object.keys(mcp.server), and found by searchTools(\"what they do\") of \"pml\"");
  };
  const lookedFor = { __proto__: null, callTool: (...args) => callTool(...args), call: (...args) => callTool(...args),
    callToolsBatch: (calls) => callToolsBatch(calls), searchTools: (...args) => searchTools(...args), listTools: notListed, list_tools: notListed };
  const isServer = (name) => getOwnPropertyDescriptor(names(), name) !== undefined;
  const mcp = view(
    (server) => lookedFor[server] !== undefined && !isServer(server) ? freeze(lookedFor[server]) : view((tool) => makeTool(server, tool), () => toolNames(server), "mcp." + server),
    serverNames,
    "mcp",
  );

  /// A call as it is to be written.
  const writtenCall = (name, args) => {
    let shown = "{ … }";
    try { shown = stringify(args ?? {}) ?? shown; } catch {}
    return "callTool(" + native.quote(text(name)) + ", " + (shown.length > 200 ? "{ … }" : shown) + ")";
  };
  const refuseCall = (name, args) => {
    if (typeof name === "object" && name !== null) {
      const tool = name.name ?? name.tool;
      if (typeof tool === "string") {
        const given = name.arguments ?? name.args ?? name.params ?? name.input ?? args;
        const server = typeof name.server === "string" && indexOf(tool, ":") < 0 ? name.server + ":" : "";
        throw new TypeError("callTool takes the name and the arguments, not an object: " + writtenCall(server + tool, given));
      }
    }
    throw new TypeError("callTool takes a tool name, `server:tool`, and its arguments");
  };
  const callTool = (name, args, options) => {
    if (typeof name !== "string") refuseCall(name, args);
    if (typeof args === "string") {
      const tool = name + ":" + args;
      throw new TypeError("callTool takes one name and the arguments: " + writtenCall(tool, options));
    }
    return native.call(name, args, wantsRaw(options), stackOf(new Error()), true);
  };
  /// Reads `{ raw: true }`.
  const symbolOrText = (key) => (typeof key === "symbol" ? symbolText(key) : key);
  const wantsRaw = (options) => {
    if (options === undefined || options === null) return false;
    if (typeof options !== "object") throw new TypeError("the options of a call are an object: { raw: true }");
    const keys = ownKeys(options);
    for (let i = 0; i < keys.length; i++) {
      if (keys[i] !== "raw") throw new TypeError("there is no such option of a call: `" + symbolOrText(keys[i]) + "`; there is `raw`");
    }
    const raw = options.raw;
    if (raw !== undefined && typeof raw !== "boolean") throw new TypeError("`raw` is true or false");
    return raw === true;
  };
  const callToolsBatch = async (calls) => {
    if (!isArray(calls)) throw new TypeError("callToolsBatch takes an array of { name, args, raw? }");
    const running = [];
    for (let i = 0; i < calls.length; i++) {
      const call = calls[i] ?? {};
      const { name, args, raw } = call;
      if (typeof name !== "string" || (args === undefined && (call.arguments ?? call.params ?? call.input) !== undefined)) {
        const keys = ownKeys(call);
        let given = "";
        for (let k = 0; k < keys.length; k++) given += (k > 0 ? ", " : "") + "`" + symbolOrText(keys[k]) + "`";
        throw new TypeError("callToolsBatch takes an array of { name, args, raw? }, and element " + i + " has " + (given || "nothing") +
          ": write { name: \"server:tool\", args: { … } }");
      }
      push(running, callTool(name, args, { raw }));
    }
    const answers = [];
    for (let i = 0; i < running.length; i++) push(answers, await running[i]);
    return answers;
  };
  const searchTools = (query, limit, threshold) => {
    const isNumber = (value) => value === undefined || value === null || typeof value === "number";
    if (typeof query !== "string" || !isNumber(limit) || !isNumber(threshold)) {
      throw new TypeError('searchTools takes a text, and optionally a limit and a threshold: searchTools("create an issue", 5, 0.2)');
    }
    return native.search(query, limit ?? undefined, threshold ?? undefined, stackOf(new Error()));
  };
  const executeWorkflow = (workflow, args) => {
    if (typeof workflow === "string") return native.call("pml:execute_workflow", { intent: workflow }, false, stackOf(new Error()), false);
    if (typeof workflow !== "object" || workflow === null) {
      throw new TypeError("executeWorkflow takes an intent, a workflow { tasks: [...] } and its arguments, or { accept, args }");
    }
    const asked = workflow.tasks === undefined ? workflow : { workflow, args: args ?? undefined };
    return native.call("pml:execute_workflow", asked, false, stackOf(new Error()), false);
  };
  const isName = (value) => value === undefined || typeof value === "string";
  // Whose each link is that a tool has returned.
  const owners = new WeakMap();
  const maxLinks = 200;
  const noteLinks = (blocks, server) => {
    for (let i = 0; i < blocks.length && i < maxLinks; i++) {
      const block = blocks[i];
      if (typeof block !== "object" || block === null) continue;
      const type = getOwnPropertyDescriptor(block, "type")?.value;
      if (type === "resource_link" || type === "resource") weakSet(owners, block, server);
    }
  };
  const readResource = async (resource, server) => {
    // A link in a result of a tool has its address in `uri`, an embedded resource in `resource.uri`.
    const uri = typeof resource === "object" && resource !== null ? (resource.uri ?? resource.resource?.uri) : resource;
    if (typeof uri !== "string" || !isName(server)) {
      throw new TypeError('readResource takes an address or a link, and optionally a server: readResource("file:///notes.md", "files")');
    }
    const owner = typeof resource === "object" ? weakGet(owners, resource) : undefined;
    const parts = await native.readResource(uri, server ?? owner, stackOf(new Error()));
    // One file is its handle.
    return isArray(parts) && parts.length === 1 && weakGet(tokens, parts[0]) !== undefined ? parts[0] : parts;
  };
  const listResources = (server) => {
    if (!isName(server)) throw new TypeError('listResources takes the name of a server, or nothing: listResources("files")');
    return native.listResources(server, stackOf(new Error()));
  };
  const getPrompt = (server, name, args = {}) => {
    if (typeof server !== "string" || typeof name !== "string" || typeof args !== "object" || args === null) {
      throw new TypeError('getPrompt takes a server, the name of a prompt and its arguments: getPrompt("git", "review", { branch: "main" })');
    }
    return native.getPrompt(server, name, args, stackOf(new Error()));
  };
  const progress = (value, total, message) => {
    if (typeof value !== "number" || value !== value) throw new TypeError("progress takes a number, and optionally a total and a message");
    native.progress(value, typeof total === "number" ? total : undefined, message === undefined ? undefined : text(message));
  };

  // ── Values that the host keeps ─────────────────────────────────────────────────────────────

  /// What each handle stands for, in words for the host alone.
  const tokens = new WeakMap();
  const tokenOf = (handle) => {
    const token = weakGet(tokens, handle);
    if (token === undefined) throw new TypeError("this method belongs to a ResultHandle");
    return token;
  };
  const isPlace = (value) => isSafeInteger(value) && value >= 0;
  const handleKey = native.handleKey;
  const chunkBytes = 1024 * 1024;
  const chunks = async function* (token, size, stack) {
    for (let from = 0; from < size;) {
      const part = await native.chunk(token, from, from + chunkBytes < size ? from + chunkBytes : size, stack);
      yield part.text;
      from = part.next;
    }
  };
  class ResultHandle {
    constructor() { throw new TypeError("a ResultHandle is made by a tool call only"); }
    slice(from = 0, to = this.size) {
      const token = tokenOf(this);
      if (!isPlace(from) || !isPlace(to)) throw new TypeError("slice takes two places in the text, whole numbers from 0 on");
      return native.slice(token, from, to, stackOf(new Error()));
    }
    json(path = "") {
      const token = tokenOf(this);
      if (typeof path !== "string") throw new TypeError("json takes a path such as `items[3].name`");
      return native.json(token, path, stackOf(new Error()));
    }
    [symbolAsyncIterator]() { return chunks(tokenOf(this), this.size, stackOf(new Error())); }
    toString() {
      tokenOf(this);
      throw new TypeError("a handle of " + kindOfHandle(this) + " is no text: " + handleUse(this));
    }
    // What `JSON.stringify` gives. Results and arguments have the value that the handle stands for.
    toJSON() {
      tokenOf(this);
      native.warn("JSON.stringify gives the description of a handle of " + kindOfHandle(this) + ", not its content: " + handleUse(this));
      return { ...this };
    }
  }
  const kindOfHandle = (handle) => {
    const { type } = handle;
    return type === "image" ? "an image" : type === "audio" ? "audio" : type === "resource" ? "a resource" : "a large " + type + " result";
  };
  const handleUse = (handle) =>
    handle.type === "json" ? "read a part of it with `await handle.json(\"items[3].name\")`, or return or pass on the handle itself"
      : handle.type === "text" ? "read it with `await handle.slice()`, or return or pass on the handle itself"
        : "return or pass on the handle itself, or read its base64 text with `await handle.slice()`";
  const handleMarker = (handle) => ({ [handleKey]: tokenOf(handle) });
  tag(ResultHandle, "ResultHandle");
  setPrototypeOf(ResultHandle.prototype, watch(Object.prototype, Object.prototype, (name, handle, stack) => {
    if (weakGet(tokens, handle) === undefined) return;
    native.missed("", name, handle, "handle", stack, kindOfHandle(handle) + ": " + handleUse(handle));
  }));
  freeze(ResultHandle);
  freeze(ResultHandle.prototype);
  const makeHandle = (token, type, size, mimeType, uri) => {
    const handle = create(ResultHandle.prototype);
    put(handle, "type", type);
    put(handle, "size", size);
    if (mimeType !== undefined) put(handle, "mimeType", mimeType);
    if (uri !== undefined) put(handle, "uri", uri);
    weakSet(tokens, handle, token);
    return freeze(handle);
  };

  /// A result that was kept when it was too long to be shown.
  const result = (id) => {
    if (typeof id !== "string") throw new TypeError('result takes the id of a result that was kept: await result("r_…")');
    return native.recall(id, stackOf(new Error()));
  };

  // ── Values that were read from JSON text ───────────────────────────────────────────────────

  // A text that is a JSON object or array arrives as that value. The value is an ordinary one but for its prototype, which
  // makes it its text where a text is meant, and says so where the program takes it for a string.

  /// Such values: the text, and the tool that returned it.
  const texts = new WeakMap();
  /// Is the value still what the text says, however deep one looks?
  const isUnchanged = (value, source) => {
    if (native.isUnchanged(value, source)) return true;
    // Of a key that the text has twice, the last counts.
    try { return stringify(value) === stringify(parseJson(source)); } catch { return false; }
  };
  /// The text that the value is now; `undefined` if it was not read from one.
  const textOf = (value) => {
    const origin = weakGet(texts, value);
    if (origin === undefined) return undefined;
    return isUnchanged(value, origin.text) ? origin.text : stringify(value);
  };
  native.textOf = (value) => (typeof value === "object" && value !== null ? textOf(value) : undefined);
  const originalText = (value) => {
    const origin = weakGet(texts, value);
    return origin !== undefined && isUnchanged(value, origin.text) ? origin.text : undefined;
  };
  const kindOf = (value) => (isArray(value) ? "an array" : "an object");
  const waysOut = (tool) =>
    "for the text use String(value), or callTool(" + native.quote(tool) + ", args, { raw: true }); " +
    "`parse_json = false` for the server or the tool in pml.toml gives texts always";
  /// The methods of strings that programs use, and that could not be keys.
  const stringMethods = ["charAt", "charCodeAt", "codePointAt", "concat", "endsWith", "includes", "indexOf", "lastIndexOf",
    "localeCompare", "match", "matchAll", "padEnd", "padStart", "repeat", "replace", "replaceAll", "search", "slice", "split",
    "startsWith", "substr", "substring", "toLowerCase", "toLocaleLowerCase", "toLocaleUpperCase", "toUpperCase", "trim",
    "trimEnd", "trimStart"];
  const refuseMethod = (name) => {
    const fail = (value) => {
      const origin = value !== null && typeof value === "object" ? weakGet(texts, value) : undefined;
      if (origin === undefined) throw new TypeError(name + " is not a function");
      throw new TypeError("`" + name + "` is a method of strings, and the result of `" + origin.tool + "` is " + kindOf(value) +
        ", since its text is JSON; " + waysOut(origin.tool));
    };
    const method = { [name]() { fail(this); } }[name];
    hide(method, Symbol.toPrimitive, () => { throw new TypeError(name + " is undefined: the result has no such key"); });
    // A key of that name that is not there must look like one that is not there.
    return native.undetectable(freeze(method));
  };
  const fallbackText = { object: uncurry(Object.prototype.toString), array: uncurry(Array.prototype.toString) };
  const textPrototype = (parent, fallback) => {
    const prototype = create(parent);
    const toText = (value) => textOf(value) ?? fallback(value);
    hide(prototype, "toString", { toString() { return toText(this); } }.toString);
    hide(prototype, Symbol.toPrimitive, function (hint) { return hint === "number" ? NaN : toText(this); });
    for (let i = 0; i < stringMethods.length; i++) {
      const name = stringMethods[i];
      if (!(name in parent)) hide(prototype, name, refuseMethod(name));
    }
    return prototype;
  };
  const textArray = textPrototype(Array.prototype, fallbackText.array);
  const textObject = textPrototype(Object.prototype, fallbackText.object);
  defineProperty(textObject, "length", {
    __proto__: null, configurable: true, enumerable: false,
    get() {
      const origin = weakGet(texts, this);
      if (origin !== undefined) {
        native.warn("`length` was read of the result of `" + origin.tool + "`, which is an object, since its text is JSON; " + waysOut(origin.tool));
      }
      return undefined;
    },
    // Else it could not be assigned to.
    set(value) { put(this, "length", value); },
  });
  const markText = (value, source, tool) => {
    weakSet(texts, value, freeze({ __proto__: null, text: source, tool }));
    return setPrototypeOf(value, isArray(value) ? watched(tool).textArray : watched(tool).textObject);
  };

  // ── Numbers as they came ───────────────────────────────────────────────────────────────────

  /// How some numbers of an array or object are to be written: JSON text, by key or index.
  const numbers = new WeakMap();
  const noteNumbers = (object, noted) => { weakSet(numbers, object, noted); };
  const numbersOf = (object) => weakGet(numbers, object);

  // ── Values that JSON loses ─────────────────────────────────────────────────────────────────

  // `JSON.stringify` asks each value for its `toJSON`, and makes `{}` of these. A replacer may make something else.
  let hasReplacer = false;
  hide(JSON, "stringify", {
    stringify(value, replacer, space) {
      if (typeof replacer !== "function" && !isArray(replacer)) return stringify(value, replacer, space);
      const before = hasReplacer;
      hasReplacer = true;
      try { return stringify(value, replacer, space); } finally { hasReplacer = before; }
    },
  }.stringify);
  for (const [prototype, isOne, warning] of [
    [Map.prototype, (value) => getter(Map.prototype, "size")(value) > 0, "JSON.stringify makes {} of a Map: use Object.fromEntries(map), or [...map]"],
    [Set.prototype, (value) => getter(Set.prototype, "size")(value) > 0, "JSON.stringify makes {} of a Set: use [...set]"],
    [Promise.prototype, native.isPromise, "JSON.stringify makes {} of a promise: await it first"],
    [Error.prototype, (value) => native.isError(value) && !getOwnPropertyDescriptor(value, "message")?.enumerable,
      "JSON.stringify leaves the message out of an error: use String(error), or { message: error.message }"],
  ]) {
    defineProperty(prototype, "toJSON", {
      __proto__: null, enumerable: false, configurable: true,
      get() {
        let isLost = false;
        if (!hasReplacer) try { isLost = isOne(this); } catch {}
        if (isLost) native.warnStringify(warning);
        return undefined;
      },
      set(value) { put(this, "toJSON", value); },
    });
  }
  /// Of an object without properties of its own: what it is, and what to use instead.
  const formless = (value) => {
    let name = "";
    try { name = substring(objectText(value), 8, -1); } catch {}
    const end = (suffix) => name.length >= suffix.length && substring(name, -suffix.length) === suffix;
    if (name === "AsyncGenerator" || end("Async Iterator")) return ["an async iterator", "collect it with `for await (const item of it) list.push(item)`"];
    if (end("Iterator") || name === "Generator" || name === "Iterator Helper") return ["an iterator", "use [...it]"];
    if (name === "URLSearchParams" || name === "Headers") return ["a " + name + " object", "use Object.fromEntries(it)"];
    if (name === "RegExp") return ["a regular expression", "use String(regex)"];
    if (name === "ArrayBuffer" || name === "SharedArrayBuffer" || name === "DataView") return ["an object of bytes (" + name + ")", "use [...new Uint8Array(buffer)], or Buffer.from(buffer).toString(\"base64\")"];
    if (name === "WeakRef") return ["a WeakRef", "use ref.deref()"];
    if (name === "WeakMap" || name === "WeakSet") return ["a " + name, "keep its keys in a Map or Set"];
    if (name === "Blob") return ["a Blob", "use await blob.text()"];
    if (substring(name, 0, 5) === "Intl.") return ["an " + name + " object", "use what its methods give, such as format(value)"];
    if (name === "URL" || name === "Event" || name === "AbortSignal" || name === "AbortController" || name === "EventTarget") return ["an object of the class " + name, "use its properties"];
    return undefined;
  };

  // ── The module ─────────────────────────────────────────────────────────────────────────────

  // ── Texts that are no JSON ─────────────────────────────────────────────────────────────────

  const excerpt = (source) => native.quote(source.length > 40 ? substring(source, 0, 40) + "…" : source);
  const isJson = (source) => { try { parseJson(source); return true; } catch { return false; } };
  /// What to do with a text that is not JSON as a whole.
  const insteadOfParsing = (source) => {
    const trimmed = trim(source);
    let start = indexOf(source, "[");
    const brace = indexOf(source, "{");
    if (start < 0 || (brace >= 0 && brace < start)) start = brace;
    if (start > 0 && isJson(substring(source, start))) {
      return "the JSON begins after some text: JSON.parse(text.slice(text.indexOf(\"" + source[start] + "\")))";
    }
    const newline = indexOf(trimmed, "\n");
    if (newline > 0 && (start === 0 || indexOf(trimmed, "{") === 0) && isJson(substring(trimmed, 0, newline))) {
      return "it has a JSON value on each line: text.trim().split(\"\\n\").map((line) => JSON.parse(line))";
    }
    return noJson;
  };
  const noJson = "it is no JSON: use it as a text";
  /// The result of a tool that has JSON in it, and of which no JSON was read.
  let unparsed;
  hide(JSON, "parse", {
    parse(source, reviver) {
      if (typeof source === "object" && source !== null && weakGet(texts, source) === undefined) {
        if (native.isPromise(source)) throw new SyntaxError("JSON.parse was given a promise, not a text: await it first");
        const prototype = getPrototypeOf(source);
        const isResult = prototype !== null && weakGet(disguises, prototype) !== undefined;
        const block = isResult && getOwnPropertyDescriptor(source, "type")?.value === "text" ? getOwnPropertyDescriptor(source, "text")?.value : undefined;
        if (typeof block === "string" && isJson(block)) {
          native.warn("JSON.parse was given a content block of type text, and parsed its text: write JSON.parse(block.text)");
          return reviver === undefined ? parseJson(block) : parseJson(block, reviver);
        }
        if (isResult && weakGet(envelopes, prototype)) {
          throw new SyntaxError("JSON.parse was given what callTool returns, { success, result, error }, and not a text: use its `result`");
        }
        if (isResult) {
          if (typeof reviver !== "function") {
            native.warn("JSON.parse was given the result of a tool, which is " + kindOf(source) + " already, and not a text: use it without JSON.parse");
            return source;
          }
          source = stringify(source);
        } else if (isArray(source) || prototype === Object.prototype) {
          throw new SyntaxError("JSON.parse was given " + kindOf(source) + ", not a text: use it without JSON.parse");
        }
      }
      if (source === undefined) throw new SyntaxError("JSON.parse was given undefined, not a text");
      const json = text(source);
      try {
        const tool = reviver === undefined && json.length < maxPart ? jsonParts[primitiveKey(trim(json))] : undefined;
        const made = tool === undefined ? undefined : watched(tool);
        const part = tool === undefined ? undefined : native.parsePart(json, tool, made.parsedObject);
        if (part !== undefined) mark(part, tool, { object: made.parsedObject, array: made.parsedArray });
        const value = part ?? (reviver === undefined ? parseJson(json) : parseJson(json, reviver));
        if (unparsed !== undefined && indexOf(unparsed, json) >= 0) {
          unparsed = undefined;
          native.noteUnparsed("", "");
        }
        return value;
      } catch (error) {
        if (!(error instanceof SyntaxError) || isJson(json)) throw error;
        const tool = primitives[primitiveKey(json)];
        const whose = ": the text" + (tool === undefined ? "" : ", the result of " + tool + ",");
        const instead = trim(json) === "" ? " is empty" : " begins with " + excerpt(json) + "; " + insteadOfParsing(json);
        if (tool !== undefined && trim(json) !== "" && insteadOfParsing(json) !== noJson) {
          unparsed = json;
          native.noteUnparsed(tool + ": the text" + instead, stackOf(new Error()));
        }
        throw new SyntaxError(error.message + whose + instead);
      }
    },
  }.parse);

  const exported = { searchTools, callTool, callToolsBatch, executeWorkflow, readResource, listResources, getPrompt, progress, result, ToolError, ResultHandle };
  const pml = freeze({ __proto__: null, ...exported });
  const namespace = freeze({ __proto__: null, default: pml, mcp, ...exported });
  /// `import(…)`: the compiler puts it in the place of the engine's own.
  const dynamicImport = async (specifier) => {
    const name = text(specifier);
    if (name !== "pml") throw new TypeError(native.importRefusal(name));
    return namespace;
  };
  const imports = { __proto__: null, "*": namespace, "import()": dynamicImport, "require()": () => namespace, default: pml, mcp, ...exported };

  // ── Console ────────────────────────────────────────────────────────────────────────────────

  const console = {};
  const counts = new Map();
  const clocks = new Map();
  let indent = 0;
  const log = (level, args) => native.log(level, args, indent);
  for (const [name, level] of [["log", 2], ["info", 1], ["debug", 0], ["warn", 3], ["error", 4], ["dir", 2], ["table", 2]]) {
    hide(console, name, { [name]: (...args) => log(level, name === "dir" || name === "table" ? [args[0]] : args) }[name]);
  }
  hide(console, "trace", (...args) => { const trace = new Error(); hide(trace, "name", "Trace"); log(0, [...args, trace]); });
  hide(console, "assert", (condition, ...args) => { if (!condition) log(4, ["Assertion failed:", ...args]); });
  hide(console, "group", (...args) => { if (args.length) log(2, args); indent++; });
  hide(console, "groupCollapsed", console.group);
  hide(console, "dirxml", console.log);
  // There is no screen to clear.
  hide(console, "clear", () => {});
  hide(console, "groupEnd", () => { if (indent > 0) indent--; });
  hide(console, "count", (label = "default") => {
    const count = (mapGet(counts, text(label)) ?? 0) + 1;
    mapSet(counts, text(label), count);
    log(2, [`${label}: ${count}`]);
  });
  hide(console, "countReset", (label = "default") => { mapSet(counts, text(label), 0); });
  hide(console, "time", (label = "default") => { mapSet(clocks, text(label), native.now()); });
  hide(console, "timeLog", (label = "default", ...args) => {
    const start = mapGet(clocks, text(label));
    if (start === undefined) log(3, [`console.time("${label}") was not called`]);
    else log(2, [`${label}: ${native.now() - start} ms`, ...args]);
  });
  hide(console, "timeEnd", (label = "default") => { console.timeLog(label); mapSet(clocks, text(label), undefined); });
  defineProperty(console, symbolTag, { __proto__: null, value: "console", configurable: true });

  // ── Timers ─────────────────────────────────────────────────────────────────────────────────

  const timer = (name, repeat) => (callback, delay, ...args) => {
    if (typeof callback !== "function") throw new TypeError(`${name} takes a function`);
    return native.setTimer(args.length ? () => apply(callback, undefined, args) : callback, +delay || 0, repeat);
  };
  const setTimeout = timer("setTimeout", false);
  const setImmediate = (callback, ...args) => setTimeout(callback, 0, ...args);
  const setInterval = timer("setInterval", true);
  const clearTimer = (id) => { if (typeof id === "number") native.clearTimer(id); };

  // ── Bytes and text ─────────────────────────────────────────────────────────────────────────

  /// The bytes behind a buffer or view, copied.
  const bytesOf = (value, what) => {
    if (isView(value)) {
      if (viewTag(value) !== undefined) return bufferSlice(viewBuffer(value), viewOffset(value), viewOffset(value) + viewBytes(value));
      return bufferSlice(dataBuffer(value), dataOffset(value), dataOffset(value) + dataBytes(value));
    }
    try { return bufferSlice(value, 0); } catch { throw new TypeError(`${what} takes an ArrayBuffer or a view of one`); }
  };

  class TextEncoder {
    get encoding() { return "utf-8"; }
    encode(input = "") { return new Uint8Array(native.utf8Encode(text(input))); }
    encodeInto(input, target) {
      // Whole characters only, as many as fit.
      let read = 0, written = 0;
      const source = text(input), room = viewBytes(target);
      while (read < source.length) {
        const unit = charCode(source, read);
        const pair = unit >= 0xd800 && unit < 0xdc00 && read + 1 < source.length;
        const bytes = new Uint8Array(native.utf8Encode(substring(source, read, read + (pair ? 2 : 1))));
        if (written + bytes.length > room) break;
        for (let i = 0; i < bytes.length; i++) target[written++] = bytes[i];
        read += pair ? 2 : 1;
      }
      return { read, written };
    }
  }
  tag(TextEncoder, "TextEncoder");

  const encodings = { __proto__: null, "utf-8": "utf-8", utf8: "utf-8", "unicode-1-1-utf-8": "utf-8", "utf-16le": "utf-16le", "utf-16": "utf-16le",
    latin1: "windows-1252", "iso-8859-1": "windows-1252", ascii: "windows-1252", "us-ascii": "windows-1252", "windows-1252": "windows-1252" };
  class TextDecoder {
    #encoding; #fatal; #ignoreBOM; #rest = new ArrayBuffer(0); #started = false;
    constructor(label = "utf-8", options = {}) {
      this.#encoding = encodings[lower(trim(text(label)))];
      if (this.#encoding === undefined) throw new RangeError(`the encoding "${label}" is not supported; use utf-8, utf-16le or latin1`);
      this.#fatal = !!options.fatal;
      this.#ignoreBOM = !!options.ignoreBOM;
    }
    get encoding() { return this.#encoding; }
    get fatal() { return this.#fatal; }
    get ignoreBOM() { return this.#ignoreBOM; }
    decode(input, options = {}) {
      const stream = !!options.stream;
      const bytes = input === undefined ? new ArrayBuffer(0) : bytesOf(input, "decode");
      const before = this.#rest;
      this.#rest = new ArrayBuffer(0); // also if the bytes are refused
      const [output, rest] = native.decode(this.#encoding, before, bytes, this.#fatal, stream);
      this.#rest = rest;
      const bom = !this.#ignoreBOM && !this.#started && charCode(output, 0) === 0xfeff;
      this.#started = stream && (this.#started || output.length > 0);
      return bom ? substring(output, 1) : output;
    }
  }
  tag(TextDecoder, "TextDecoder");

  // ── Events and cancelling ──────────────────────────────────────────────────────────────────

  let isStopped;
  class Event {
    #type; #prevented = false;
    constructor(type, options = {}) {
      this.#type = text(type); this.bubbles = !!options?.bubbles; this.cancelable = !!options?.cancelable; this.target = null; this.currentTarget = null;
    }
    get type() { return this.#type; }
    get defaultPrevented() { return this.#prevented; }
    preventDefault() { if (this.cancelable) this.#prevented = true; }
    #stopped = false;
    stopPropagation() {}
    stopImmediatePropagation() { this.#stopped = true; }
    static { isStopped = (event) => event.#stopped; }
  }
  tag(Event, "Event");
  class CustomEvent extends Event {
    #detail;
    constructor(type, options = {}) { super(type, options); this.#detail = options?.detail ?? null; }
    get detail() { return this.#detail; }
  }
  tag(CustomEvent, "CustomEvent");
  class EventTarget {
    #listeners = [];
    addEventListener(type, callback, options) {
      if (callback == null) return;
      const entry = { type: text(type), callback, once: !!(options && options.once) };
      for (const other of this.#listeners) if (other.type === entry.type && other.callback === callback) return;
      if (options && options.signal) {
        if (options.signal.aborted) return;
        options.signal.addEventListener("abort", () => this.removeEventListener(entry.type, callback), { once: true });
      }
      push(this.#listeners, entry);
    }
    removeEventListener(type, callback) {
      for (let i = 0; i < this.#listeners.length; i++) {
        const entry = this.#listeners[i];
        if (entry.type === text(type) && entry.callback === callback) { entry.removed = true; splice(this.#listeners, i, 1); return; }
      }
    }
    dispatchEvent(event) {
      event.target = event.currentTarget = this;
      const handler = this[`on${event.type}`];
      if (typeof handler === "function") this.#deliver(handler, event);
      for (const entry of slice(this.#listeners)) {
        if (isStopped(event)) break;
        if (entry.type !== event.type || entry.removed) continue;
        if (entry.once) this.removeEventListener(entry.type, entry.callback);
        this.#deliver(typeof entry.callback === "function" ? entry.callback : (e) => entry.callback.handleEvent(e), event);
      }
      return !event.defaultPrevented;
    }
    #deliver(callback, event) {
      // One listener's failure is not another's.
      try { apply(callback, this, [event]); } catch (error) { log(4, ["in an event listener:", error]); }
    }
  }
  tag(EventTarget, "EventTarget");

  let makingSignal = false;
  let abortSignal;
  class AbortSignal extends EventTarget {
    #aborted = false; #reason = undefined;
    constructor() {
      if (!makingSignal) throw new TypeError("an AbortSignal is made by an AbortController");
      super();
      this.onabort = null;
    }
    get aborted() { return this.#aborted; }
    get reason() { return this.#reason; }
    throwIfAborted() { if (this.#aborted) throw this.#reason; }
    static {
      abortSignal = (signal, reason) => {
        if (signal.#aborted) return;
        signal.#aborted = true;
        signal.#reason = reason === undefined ? new DOMException("the operation was aborted", "AbortError") : reason;
        signal.dispatchEvent(new Event("abort"));
      };
    }
    static abort(reason) { const signal = makeSignal(); abortSignal(signal, reason); return signal; }
    static timeout(delay) {
      const signal = makeSignal();
      setTimeout(() => abortSignal(signal, new DOMException("the operation timed out", "TimeoutError")), delay);
      return signal;
    }
    static any(signals) {
      const signal = makeSignal();
      for (const other of [...signals]) {
        if (other.aborted) { abortSignal(signal, other.reason); break; }
        other.addEventListener("abort", () => abortSignal(signal, other.reason), { once: true });
      }
      return signal;
    }
  }
  tag(AbortSignal, "AbortSignal");
  const makeSignal = () => { makingSignal = true; try { return new AbortSignal(); } finally { makingSignal = false; } };
  class AbortController {
    #signal = makeSignal();
    get signal() { return this.#signal; }
    abort(reason) { abortSignal(this.#signal, reason); }
  }
  tag(AbortController, "AbortController");

  // ── URL ────────────────────────────────────────────────────────────────────────────────────

  let bindParams, refreshParams;
  class URLSearchParams {
    #pairs = []; #changed = null;
    static {
      bindParams = (params, changed) => { params.#changed = changed; return params; };
      refreshParams = (params, query) => { params.#pairs = native.parseQuery(substring(query, 1)); };
    }
    constructor(init = "") {
      if (init !== null && typeof init === "object") {
        if (init instanceof URLSearchParams) this.#pairs = slice(init.#pairs);
        else if (init[symbolIterator] !== undefined) for (const pair of init) {
          const [name, value, ...more] = pair;
          if (value === undefined || more.length) throw new TypeError("each pair of URLSearchParams has a name and a value");
          push(this.#pairs, [text(name), text(value)]);
        }
        else for (const name of ownKeys(init)) {
          if (typeof name === "string" && getOwnPropertyDescriptor(init, name)?.enumerable) push(this.#pairs, [name, text(init[name])]);
        }
      } else {
        const query = text(init);
        this.#pairs = native.parseQuery(charCode(query, 0) === 63 ? substring(query, 1) : query);
      }
    }
    #touch() { if (this.#changed) this.#changed(this.toString()); }
    get size() { return this.#pairs.length; }
    append(name, value) { push(this.#pairs, [text(name), text(value)]); this.#touch(); }
    delete(name, value) {
      const kept = [];
      for (const pair of this.#pairs) if (pair[0] !== text(name) || (value !== undefined && pair[1] !== text(value))) push(kept, pair);
      this.#pairs = kept;
      this.#touch();
    }
    get(name) { for (const pair of this.#pairs) if (pair[0] === text(name)) return pair[1]; return null; }
    getAll(name) { const all = []; for (const pair of this.#pairs) if (pair[0] === text(name)) push(all, pair[1]); return all; }
    has(name, value) { for (const pair of this.#pairs) if (pair[0] === text(name) && (value === undefined || pair[1] === text(value))) return true; return false; }
    set(name, value) {
      const kept = [];
      let done = false;
      for (const pair of this.#pairs) {
        if (pair[0] !== text(name)) push(kept, pair);
        else if (!done) { done = true; push(kept, [pair[0], text(value)]); }
      }
      if (!done) push(kept, [text(name), text(value)]);
      this.#pairs = kept;
      this.#touch();
    }
    sort() { sort(this.#pairs, (a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0)); this.#touch(); }
    forEach(callback, self) { for (const [name, value] of this.#pairs) apply(callback, self, [value, name, this]); }
    *entries() { for (const [name, value] of this.#pairs) yield [name, value]; }
    *keys() { for (const pair of this.#pairs) yield pair[0]; }
    *values() { for (const pair of this.#pairs) yield pair[1]; }
    [symbolIterator]() { return this.entries(); }
    toString() { return native.formatQuery(this.#pairs); }
  }
  tag(URLSearchParams, "URLSearchParams");

  class URL {
    #parts; #params;
    constructor(url, base) {
      this.#parts = native.parseUrl(text(url), base === undefined ? undefined : text(base));
      if (this.#parts === undefined) throw new TypeError(`${native.quote(text(url))} is not a valid URL`);
    }
    static canParse(url, base) { return native.parseUrl(text(url), base === undefined ? undefined : text(base)) !== undefined; }
    static parse(url, base) { return URL.canParse(url, base) ? new URL(url, base) : null; }
    static {
      const fields = ["href", "origin", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash"];
      for (let i = 0; i < fields.length; i++) {
        const field = fields[i];
        defineProperty(this.prototype, field, {
          __proto__: null, enumerable: true, configurable: true,
          get() { return this.#parts[i]; },
          set: field === "origin" ? undefined : function (value) {
            const parts = native.setUrl(this.#parts[0], field, text(value));
            if (parts === undefined) { if (field === "href") throw new TypeError(`${native.quote(text(value))} is not a valid URL`); return; }
            this.#parts = parts;
            if (this.#params && (field === "href" || field === "search")) refreshParams(this.#params, parts[9]);
          },
        });
      }
    }
    get searchParams() {
      return (this.#params ??= bindParams(new URLSearchParams(this.#parts[9]), (query) => {
        this.#parts = native.setUrl(this.#parts[0], "search", query) ?? this.#parts;
      }));
    }
    toString() { return this.#parts[0]; }
    toJSON() { return this.#parts[0]; }
  }
  tag(URL, "URL");

  // ── structuredClone ────────────────────────────────────────────────────────────────────────

  const errors = { __proto__: null, Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };
  const brandCheck = (check) => (value) => { try { check(value); return true; } catch { return false; } };
  const isDate = brandCheck(dateValue);
  const isMap = brandCheck(getter(Map.prototype, "size"));
  const isSet = brandCheck(getter(Set.prototype, "size"));
  const isBuffer = brandCheck(bufferLength);
  const isRegex = native.isRegex;
  const isError = native.isError;
  const refuseClone = (what) => { throw new DOMException(`${what} cannot be cloned`, "DataCloneError"); };
  const clone = (value, seen) => {
    if (typeof value === "function") refuseClone("a function");
    if (typeof value === "symbol") refuseClone("a symbol");
    if (typeof value !== "object" || value === null) return value;
    if (weakGet(tokens, value) !== undefined) return value; // frozen, so that no copy is needed
    if (native.temporalShown?.(value) !== undefined) refuseClone("a value of Temporal");
    const before = mapGet(seen, value);
    if (before !== undefined) return before;
    const keep = (copy) => { mapSet(seen, value, copy); return copy; };
    if (isArray(value)) {
      const copy = keep(new Array(value.length));
      for (const key of ownKeys(value)) if (key !== "length" && typeof key === "string") put(copy, key, clone(value[key], seen));
      return likeText(value, copy);
    }
    if (isDate(value)) return keep(new Date(dateValue(value)));
    if (isRegex(value)) return keep(new RegExp(regexSource(value), regexFlags(value)));
    if (isMap(value)) {
      const copy = keep(new Map());
      mapEach(value, (item, key) => { mapSet(copy, clone(key, seen), clone(item, seen)); });
      return copy;
    }
    if (isSet(value)) {
      const copy = keep(new Set());
      setEach(value, (item) => { setAdd(copy, clone(item, seen)); });
      return copy;
    }
    if (isBuffer(value)) return keep(bufferSlice(value, 0));
    if (isView(value)) {
      const name = viewTag(value);
      const buffer = clone(name === undefined ? dataBuffer(value) : viewBuffer(value), seen);
      if (name === undefined) return keep(new DataView(buffer, dataOffset(value), dataBytes(value)));
      return keep(construct(views[name], [buffer, viewOffset(value), value.length]));
    }
    if (isError(value)) {
      const copy = keep(new (errors[value.name] ?? Error)(value.message));
      hide(copy, "stack", value.stack);
      if ("cause" in value) hide(copy, "cause", clone(value.cause, seen));
      return copy;
    }
    for (let i = 0; i < 4; i++) try { return keep(Object(unboxers[i](value))); } catch {}
    if (native.isExotic(value)) refuseClone("this kind of object");
    const copy = keep({});
    for (const key of ownKeys(value)) {
      if (typeof key === "string" && getOwnPropertyDescriptor(value, key).enumerable) put(copy, key, clone(value[key], seen));
    }
    return likeText(value, copy);
  };
  /// The copy of a value that was read from JSON text is one too, and its numbers are those that came.
  const likeText = (value, copy) => {
    const noted = weakGet(numbers, value);
    if (noted !== undefined) weakSet(numbers, copy, noted);
    const origin = weakGet(texts, value);
    return origin === undefined ? copy : markText(copy, origin.text, origin.tool);
  };
  const views = { __proto__: null };
  for (const name of ["Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array",
    "Float16Array", "Float32Array", "Float64Array", "BigInt64Array", "BigUint64Array"]) views[name] = globalThis[name];
  const structuredClone = (value, options) => {
    if (options?.transfer?.length) throw new DOMException("structuredClone copies, and does not transfer", "DataCloneError");
    return clone(value, new Map());
  };

  // ── Chance and time ────────────────────────────────────────────────────────────────────────

  const crypto = {
    getRandomValues(array) {
      const kind = isView(array) ? viewTag(array) : undefined;
      if (kind === undefined || indexOf(kind, "Float") === 0) throw new TypeError("getRandomValues takes an integer typed array");
      const length = viewBytes(array);
      if (length > 65536) throw new DOMException("at most 65536 bytes at a time", "QuotaExceededError");
      const target = new Uint8Array(viewBuffer(array), viewOffset(array), length);
      const random = new Uint8Array(native.randomBytes(length));
      for (let i = 0; i < length; i++) target[i] = random[i];
      return array;
    },
    randomUUID: () => native.randomUuid(),
  };
  defineProperty(crypto, symbolTag, { __proto__: null, value: "Crypto", configurable: true });
  const performance = { now: () => native.now() };

  // ── What a program sees ────────────────────────────────────────────────────────────────────

  const globals = { mcp, pml, console, setTimeout, setInterval, setImmediate, clearTimeout: clearTimer, clearInterval: clearTimer, clearImmediate: clearTimer,
    TextEncoder, TextDecoder, Event, CustomEvent, EventTarget, AbortSignal, AbortController, URL, URLSearchParams, structuredClone, crypto, performance };
  for (const name of ownKeys(globals)) hide(globalThis, name, globals[name]);
  // The engine's own is seeded before workers are forked, so all of them would draw the same.
  hide(Math, "random", { random: () => native.random() }.random);

  return {
    imports,
    names,
    makeToolError,
    makeSuccess,
    makeFailure,
    makeHandle,
    noteLinks,
    watched: (tool) => watched(tool).object,
    markResult,
    handlePrototype: ResultHandle.prototype,
    handleMarker,
    formless,
    markText,
    originalText,
    noteNumbers,
    numbersOf,
    genuine: (error) => weakGet(genuine, error),
    isArray,
    stackOf,
    unwatched,
    enginePrototype: getPrototypeOf,
    /// Has a prototype of ours look like another.
    disguise: (prototype, shown) => { weakSet(disguises, prototype, shown); return prototype; },
    toNumber: (value) => +value,
    /// The primitive in a boxed one.
    unbox: (value) => {
      for (let i = 0; i < 4; i++) try { return unboxers[i](value); } catch {}
    },
    /// The text of a date, regular expression or symbol, for printing.
    /// The text of a value of `Temporal`, undefined for others.
    temporal: (value) => native.temporalShown?.(value),
    describe: (value) => {
      if (typeof value === "symbol") return symbolText(value);
      if (isRegex(value)) return `/${regexSource(value)}/${regexFlags(value)}`;
      return dateValue(value) === dateValue(value) ? dateText(value) : "Invalid Date";
    },
    /// Flat keys and values of a Map, or values of a Set, for printing.
    entries: (value) => {
      const all = [];
      if (isMap(value)) mapEach(value, (item, key) => { push(all, key); push(all, item); });
      else setEach(value, (item) => { push(all, item); });
      return all;
    },
  };
}
