// Methods of lists: the order that sorting gives, and callbacks and elements that a method cannot do right with.
//
// Called once, after the prelude, with the same `native` and with what the prelude gives back. A callback that is an async function gives a promise, which a
// test takes for true and a comparison for NaN: the methods that would go on with it throw.
export default function lists(native, prelude) {
  "use strict";

  const { Array, Boolean, Error, Object, Promise, Reflect, TypeError, Uint8Array } = globalThis;
  const { apply, construct, defineProperty, getOwnPropertyDescriptor, getPrototypeOf } = Reflect;
  const isArray = Array.isArray;
  const uncurry = (method) => (self, ...args) => apply(method, self, args);
  const hide = (target, name, value) =>
    defineProperty(target, name, { __proto__: null, value, writable: true, enumerable: false, configurable: true });
  const { stackOf } = prelude;
  const then = uncurry(Promise.prototype.then);
  const toNumber = (value) => +value;
  const AsyncFunction = getPrototypeOf(async () => {});
  const isAsync = (callback) => typeof callback === "function" && getPrototypeOf(callback) === AsyncFunction;

  // ── Sorting ────────────────────────────────────────────────────────────────────────────────

  // With a comparator, the order is Node's also if the comparator is not consistent; see `sort.rs`.
  const { sort: engineSort, toSorted: engineToSorted } = Array.prototype;
  const refuseComparator = (comparator, name) => {
    if (isAsync(comparator)) {
      throw new TypeError(name + " was given an async comparator, whose promises have no order: get what it compares first, as in " +
        "`const keyed = await Promise.all(list.map(async (item) => ({ item, key: await … })))`, and sort that");
    }
  };
  /// Without a comparator, numbers are in the order of their texts: 1, 10, 2.
  const checkNumbers = (sorted, name) => {
    const { length } = sorted;
    const kind = typeof native.firstOwn(sorted);
    if (kind === "string") {
      if (length > 1) native.lookAtSorted(name, sorted, stackOf(new Error()));
      return sorted;
    }
    if (kind !== "number") return sorted;
    let isAscending = true;
    for (let i = 0; i < length; i++) {
      if (typeof sorted[i] !== "number") return sorted;
      if (i > 0 && sorted[i] < sorted[i - 1]) isAscending = false;
    }
    if (!isAscending) native.warn(name + "() without a comparator orders numbers as texts, such as 10 before 9: use " + name + "((a, b) => a - b)");
    return sorted;
  };
  const checkOrder = (outcome, name) => {
    if (outcome === "unsorted") native.tellUnsorted(name, stackOf(new Error()));
  };
  hide(Array.prototype, "sort", {
    sort(comparator) {
      if (comparator === undefined && isArray(this)) return checkNumbers(apply(engineSort, this, []), "sort");
      refuseComparator(comparator, "sort");
      const outcome = typeof comparator === "function" && isArray(this) ? native.sort(this, comparator, toNumber) : "refused";
      if (outcome === "refused") return apply(engineSort, this, [comparator]);
      checkOrder(outcome, "sort");
      return this;
    },
  }.sort);
  hide(Array.prototype, "toSorted", {
    toSorted(comparator) {
      if (comparator === undefined && isArray(this)) return checkNumbers(apply(engineToSorted, this, []), "toSorted");
      refuseComparator(comparator, "toSorted");
      if (typeof comparator !== "function" || !isArray(this)) return apply(engineToSorted, this, [comparator]);
      const copy = [];
      for (let i = 0; i < this.length; i++) copy[i] = this[i];
      checkOrder(native.sort(copy, comparator, toNumber), "toSorted");
      return copy;
    },
  }.toSorted);

  // Typed arrays; see `sort_typed.rs`.
  const typed = getPrototypeOf(Uint8Array).prototype;
  const { sort: engineSortTyped, toSorted: engineToSortedTyped } = typed;
  const typedLength = uncurry(getOwnPropertyDescriptor(typed, "length").get);
  const kindOf = uncurry(getOwnPropertyDescriptor(typed, Symbol.toStringTag).get);
  const sortElements = (array, comparator) => {
    const elements = [];
    const length = typedLength(array);
    for (let i = 0; i < length; i++) elements[i] = array[i];
    return native.sortTyped(elements, comparator, toNumber);
  };
  hide(typed, "sort", {
    sort(comparator) {
      if (typeof comparator !== "function" || kindOf(this) === undefined) return apply(engineSortTyped, this, [comparator]);
      refuseComparator(comparator, "sort");
      const sorted = sortElements(this, comparator);
      // The comparator may have changed the buffer.
      const length = typedLength(this);
      for (let i = 0; i < sorted.length && i < length; i++) this[i] = sorted[i];
      return this;
    },
  }.sort);
  hide(typed, "toSorted", {
    toSorted(comparator) {
      const kind = kindOf(this);
      if (typeof comparator !== "function" || kind === undefined) return apply(engineToSortedTyped, this, [comparator]);
      refuseComparator(comparator, "toSorted");
      return construct(views[kind], [sortElements(this, comparator)]);
    },
  }.toSorted);
  const views = { __proto__: null };
  for (const name of ["Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array",
    "Float16Array", "Float32Array", "Float64Array", "BigInt64Array", "BigUint64Array"]) views[name] = globalThis[name];

  // ── Callbacks ──────────────────────────────────────────────────────────────────────────────

  const always = {
    filter: "every element is kept", some: "it gives true", every: "it gives true", find: "it gives the first element",
    findIndex: "it gives the first index", findLast: "it gives the last element", findLastIndex: "it gives the last index",
  };
  for (const name of Object.keys(always)) {
    const engine = Array.prototype[name];
    const method = {
      [name](callback, self) {
        if (isAsync(callback)) {
          throw new TypeError(name + " was given an async function, and the promise it gives counts as true: " + always[name] +
            "; first `const flags = await Promise.all(list.map(async …))`, then `list." + name + "((_, i) => flags[i])`");
        }
        // Of `filter(Boolean)`, the condition stands nowhere in the program.
        if (callback === Boolean && isArray(this) && typeof native.firstOwn(this) === "string") native.lookAtTruths(name, this, stackOf(new Error()));
        return apply(engine, this, [callback, self]);
      },
    }[name];
    hide(method, "length", 1);
    hide(Array.prototype, name, method);
  }

  const engineForEach = Array.prototype.forEach;
  hide(Array.prototype, "forEach", {
    forEach(callback, self = undefined) {
      if (!isAsync(callback)) return apply(engineForEach, this, [callback, self]);
      // Nobody waits for the promises: what has not ended with the program is told.
      const loop = native.beginLoop(stackOf(new Error()));
      const end = () => native.endLoop(loop);
      const fail = (reason) => { end(); throw reason; };
      return apply(engineForEach, this, [function (item, index, all) {
        native.continueLoop(loop);
        then(apply(callback, self, [item, index, all]), end, fail);
      }]);
    },
  }.forEach);

  // ── Sums ───────────────────────────────────────────────────────────────────────────────────

  const isObject = (value) => typeof value === "object" && value !== null;
  for (const name of ["reduce", "reduceRight"]) {
    const engine = Array.prototype[name];
    const method = {
      [name](callback, initial) {
        if (arguments.length < 2) {
          const result = apply(engine, this, [callback]);
          if (typeof result === "string" && isArray(this) && isObject(this[0])) {
            native.warn(name + " was given no initial value, so it began with an element, which is an object, and gave a text: write `" + name + "((sum, item) => …, 0)`");
          }
          return result;
        }
        const result = apply(engine, this, [callback, initial]);
        if (typeof result === "string" && typeof initial === "number") native.strung(name, stackOf(new Error()), result);
        return result;
      },
    }[name];
    hide(method, "length", 1);
    hide(Array.prototype, name, method);
  }
}
