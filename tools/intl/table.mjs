// Writes the table that `crates/pml-worker/src/intl/table.rs` reads.
//
// A locale is a map from keys to texts. Only what differs from the locale's parent is written. All numbers are little-endian:
//
//   "PMLCLDR2", u32 number of keys, u32 number of locales, u32 offset of the pool
//   keys, sorted:    u32 offset into the pool each
//   locales, sorted: u32 name in the pool, u32 parent (its index, or 0xffffffff), u32 number of entries, u32 offset of the entries
//   entries of a locale: u16 key each, sorted; then an offset into the pool of three bytes each
//   pool: texts, each with its length in front: one byte, or 0xff and u32
import { Buffer } from "node:buffer";

const NONE = 0xffffffff;

export function write(locales) {
  const names = [...locales.keys()].sort(compare);
  const keys = [...new Set(names.flatMap((name) => [...locales.get(name).entries.keys()]))].sort(compare);
  if (keys.length > 0xffff) throw new Error(`${keys.length} keys`);
  const keyIndex = new Map(keys.map((key, i) => [key, i]));
  const pool = new Pool();

  const keyTable = Buffer.alloc(4 * keys.length);
  keys.forEach((key, i) => keyTable.writeUInt32LE(pool.add(key), 4 * i));
  const entriesStart = 20 + keyTable.length + 16 * names.length;
  const localeTable = Buffer.alloc(16 * names.length);
  const entries = [];
  let offset = entriesStart;
  names.forEach((name, i) => {
    const { parent, entries: own } = locales.get(name);
    const sorted = [...own].map(([key, text]) => [keyIndex.get(key), pool.add(text)]).sort((a, b) => a[0] - b[0]);
    const keyBytes = 2 * sorted.length;
    const block = Buffer.alloc(keyBytes + 3 * sorted.length);
    sorted.forEach(([key, text], at) => {
      block.writeUInt16LE(key, 2 * at);
      block.writeUIntLE(text, keyBytes + 3 * at, 3); // throws if it does not fit
    });
    localeTable.writeUInt32LE(pool.add(name), 16 * i);
    localeTable.writeUInt32LE(parent === undefined ? NONE : names.indexOf(parent), 16 * i + 4);
    localeTable.writeUInt32LE(sorted.length, 16 * i + 8);
    localeTable.writeUInt32LE(offset, 16 * i + 12);
    entries.push(block);
    offset += block.length;
  });
  const header = Buffer.alloc(20);
  header.write("PMLCLDR2");
  header.writeUInt32LE(keys.length, 8);
  header.writeUInt32LE(names.length, 12);
  header.writeUInt32LE(offset, 16);
  return Buffer.concat([header, keyTable, localeTable, ...entries, pool.bytes()]);
}

// By code units of UTF-8, as the reader compares; names and keys are ASCII.
export const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

class Pool {
  #offsets = new Map();
  #parts = [];
  #length = 0;

  add(text) {
    if (this.#offsets.has(text)) return this.#offsets.get(text);
    const bytes = Buffer.from(text);
    const length = bytes.length < 0xff ? Buffer.from([bytes.length]) : Buffer.alloc(5, 0xff);
    if (length.length === 5) length.writeUInt32LE(bytes.length, 1);
    const offset = this.#length;
    this.#offsets.set(text, offset);
    this.#parts.push(length, bytes);
    this.#length += length.length + bytes.length;
    return offset;
  }

  bytes() {
    return Buffer.concat(this.#parts);
  }
}
