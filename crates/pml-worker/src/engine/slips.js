// Values that a program takes for something else: promises that were not awaited, Maps and Sets used as objects.
//
// Called once, after the prelude, with the same `native` and with what the prelude gives back.
export default function slips(native, prelude) {
  "use strict";

  const { Array, Map, Object, Promise, Reflect, Set, TypeError } = globalThis;
  const { apply, defineProperty, get: reflectGet, getOwnPropertyDescriptor, set: reflectSet, setPrototypeOf } = Reflect;
  const uncurry = (method) => (self, ...args) => apply(method, self, args);
  const hide = (target, name, value) =>
    defineProperty(target, name, { __proto__: null, value, writable: true, enumerable: false, configurable: true });
  const { disguise, enginePrototype, stackOf, unwatched } = prelude;

  // ── Properties ─────────────────────────────────────────────────────────────────────────────

  const maxNoted = 20;
  /// Has reads, and writes, of properties that values of a kind do not have noted.
  const watch = (prototype, kind, isOne) => {
    let noted = 0;
    const note = (name, value, subject) => {
      if (typeof name === "symbol" || unwatched[name] || noted >= maxNoted) return;
      // Subclasses may have properties of their own.
      if (typeof value !== "object" || value === null || enginePrototype(value) !== prototype || !isOne(value)) return;
      noted++;
      native.missed("", name, value, subject, stackOf(new Error()));
    };
    setPrototypeOf(prototype, disguise(new Proxy(Object.prototype, {
      __proto__: null,
      get(target, name, receiver) {
        const value = reflectGet(target, name, receiver);
        if (value === undefined) note(name, receiver, kind);
        return value;
      },
      set(target, name, value, receiver) {
        if (kind !== "promise") note(name, receiver, kind + " set");
        return reflectSet(target, name, value, receiver);
      },
    }), Object.prototype));
  };
  const sized = (prototype) => {
    const size = uncurry(getOwnPropertyDescriptor(prototype, "size").get);
    return (value) => { try { size(value); return true; } catch { return false; } };
  };
  const isMap = sized(Map.prototype), isSet = sized(Set.prototype);
  watch(Map.prototype, "map", isMap);
  watch(Set.prototype, "set", isSet);
  watch(Promise.prototype, "promise", native.isPromise);

  // ── Texts and numbers ──────────────────────────────────────────────────────────────────────

  hide(Promise.prototype, Symbol.toPrimitive, function (hint) {
    const what = hint === "number" ? "a number" : hint === "string" ? "a text" : "a text or number";
    throw new TypeError("a promise was used as " + what + ": await it first");
  });

  // ── Keys ───────────────────────────────────────────────────────────────────────────────────

  const ordinary = Object.prototype, array = Array.prototype;
  /// Why the keys of a value are not what the program looks for.
  const instead = (value) => {
    if (typeof value === "string") return value.length > 1 ? "a text gives its characters one by one: take the text apart first" : undefined;
    if (typeof value !== "object" || value === null) return undefined;
    const prototype = enginePrototype(value);
    if (prototype === ordinary || prototype === array) return undefined;
    if (prototype === Promise.prototype) return native.isPromise(value) ? "a promise gives nothing: await it first" : undefined;
    if (prototype === Map.prototype) return isMap(value) && value.size > 0 ? "a Map gives nothing: use [...map.keys()], [...map.values()] or [...map]" : undefined;
    if (prototype === Set.prototype) return isSet(value) && value.size > 0 ? "a Set gives nothing: use [...set]" : undefined;
    return undefined;
  };
  for (const name of ["keys", "values", "entries"]) {
    const engine = Object[name];
    hide(Object, name, {
      [name](value) {
        const slip = instead(value);
        if (slip !== undefined) native.warn("Object." + name + " of " + slip);
        return engine(value);
      },
    }[name]);
  }
}
