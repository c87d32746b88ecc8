// Methods that depend on a locale or on the time zone, on top of `Intl`.
//
// Called once, after the prelude, with its `native`. `Intl` itself is made when it is first used.
export default function locale(native) {
  "use strict";

  const { Array, BigInt, Date, Error, Number, Reflect, RangeError, RegExp, String, TypeError, Uint8Array } = globalThis;
  const { apply, defineProperty, getOwnPropertyDescriptor, getPrototypeOf } = Reflect;
  const uncurry = (method) => (self, ...args) => apply(method, self, args);
  const hide = (target, name, value) =>
    defineProperty(target, name, { __proto__: null, value, writable: true, enumerable: false, configurable: true });
  const stackOf = uncurry(getOwnPropertyDescriptor(Error.prototype, "stack").get);
  const numberValue = uncurry(Number.prototype.valueOf);
  const bigValue = uncurry(BigInt.prototype.valueOf);
  const time = uncurry(Date.prototype.getTime);
  const lower = uncurry(String.prototype.toLowerCase);
  const upper = uncurry(String.prototype.toUpperCase);

  // What the scripts of `Intl` and `Temporal` know of each other: `temporalOf` gives what a value of `Temporal` holds.
  const shared = { __proto__: null, temporalOf: () => undefined, intl: () => intl(), temporal: () => temporal() };
  let made, madeTemporal;
  const intl = () => (made ??= native.intl(shared));
  const temporal = () => {
    if (madeTemporal === undefined) { madeTemporal = native.temporal(shared); native.temporalShown = madeTemporal.shown; }
    return madeTemporal;
  };
  const onFirstUse = (name, make) => defineProperty(globalThis, name, {
    __proto__: null,
    get() { const value = make()[name]; hide(globalThis, name, value); return value; },
    set(value) { hide(globalThis, name, value); },
    enumerable: false,
    configurable: true,
  });
  onFirstUse("Intl", intl);
  onFirstUse("Temporal", temporal);
  hide(Date.prototype, "toTemporalInstant", { toTemporalInstant() { return temporal().instantOf(time(this)); } }.toTemporalInstant);

  // ── Numbers and dates ──────────────────────────────────────────────────────────────────────

  const methods = {
    numberText(locales = undefined, options = undefined) { return intl().numberText(numberValue(this), locales, options); },
    bigText(locales = undefined, options = undefined) { return intl().numberText(bigValue(this), locales, options); },
    toLocaleString(locales = undefined, options = undefined) { return intl().dateText(time(this), locales, options, "all"); },
    toLocaleDateString(locales = undefined, options = undefined) { return intl().dateText(time(this), locales, options, "date"); },
    toLocaleTimeString(locales = undefined, options = undefined) { return intl().dateText(time(this), locales, options, "time"); },
  };
  const named = (method, name) => { defineProperty(method, "name", { __proto__: null, value: name, configurable: true }); return method; };
  hide(Number.prototype, "toLocaleString", named(methods.numberText, "toLocaleString"));
  hide(BigInt.prototype, "toLocaleString", named(methods.bigText, "toLocaleString"));
  for (const name of ["toLocaleString", "toLocaleDateString", "toLocaleTimeString"]) hide(Date.prototype, name, methods[name]);
  const zoneName = native.isUtc ? () => "Coordinated Universal Time" : (date) => intl().zoneName(time(date));
  for (const name of ["toString", "toTimeString"]) {
    const plain = uncurry(Date.prototype[name]);
    hide(Date.prototype, name, { [name]() { const shown = plain(this); return shown === "Invalid Date" ? shown : shown + " (" + zoneName(this) + ")"; } }[name]);
  }

  // ── Lists ──────────────────────────────────────────────────────────────────────────────────

  const listText = {
    toLocaleString(locales = undefined, options = undefined) {
      let shown = "";
      for (let i = 0; i < this.length; i++) {
        const item = this[i];
        shown += (i > 0 ? "," : "") + (item === undefined || item === null ? "" : item.toLocaleString(locales, options));
      }
      return shown;
    },
  }.toLocaleString;
  hide(Array.prototype, "toLocaleString", listText);
  hide(getPrototypeOf(Uint8Array).prototype, "toLocaleString", listText);

  // ── Texts ──────────────────────────────────────────────────────────────────────────────────

  const text = (self, name) => {
    if (self === undefined || self === null) throw new TypeError(name + " is called on a text");
    return "" + self;
  };
  /// Comparisons that are looked at: numbers and dates in texts are not in the order of their characters.
  let comparisons = 3000;
  hide(String.prototype, "localeCompare", {
    localeCompare(that, locales = undefined, options = undefined) {
      const own = text(this, "localeCompare"), other = "" + that;
      // Most programs sort by identifiers and names that are alike.
      if (own === other && locales === undefined && options === undefined) return 0;
      const order = intl().compare(own, other, locales, options);
      if (comparisons > 0) {
        comparisons--;
        if (native.compared(own, other, order)) {
          comparisons = 0;
          native.tellCompared(own, other, order, stackOf(new Error()));
        }
      }
      return order;
    },
  }.localeCompare);
  const caseMethod = (name, change, operation) => hide(String.prototype, name, {
    [name](locales = undefined) {
      const own = text(this, name);
      return locales === undefined ? change(own) : intl().changeCase(own, locales, change, operation);
    },
  }[name]);
  caseMethod("toLocaleLowerCase", lower, "lower");
  caseMethod("toLocaleUpperCase", upper, "upper");

  // ── What the engine lacks without a word ───────────────────────────────────────────────────

  for (const name of ["$1", "$2", "$3", "$4", "$5", "$6", "$7", "$8", "$9", "lastMatch", "$&", "lastParen", "$+", "leftContext", "$`", "rightContext", "$'", "input", "$_"]) {
    const get = () => { throw new RangeError("RegExp[\"" + name + "\"] is not supported here: use what match() or exec() gives"); };
    defineProperty(RegExp, name, { __proto__: null, get, set: undefined, enumerable: false, configurable: true });
  }
}
