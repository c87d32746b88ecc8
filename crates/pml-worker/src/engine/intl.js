// `Intl`, as ECMA-402 describes it: constructors that read options, over one native function that formats.
//
// Called once, when a program first uses something of it. A formatter holds its resolved options as JSON: `format` takes that
// text each time, and the native side keeps the last few that it has understood.
export default function intl(native, zone, shared) {
  "use strict";

  const { Array, BigInt, Date, JSON, Math, Number, Object, RangeError, Reflect, String, Symbol, TypeError, WeakMap } = globalThis;
  const { apply, defineProperty } = Reflect;
  const uncurry = (method) => (self, ...args) => apply(method, self, args);
  const hide = (target, name, value) =>
    defineProperty(target, name, { __proto__: null, value, writable: true, enumerable: false, configurable: true });
  const stringify = JSON.stringify;
  const slotsGet = uncurry(WeakMap.prototype.get), slotsSet = uncurry(WeakMap.prototype.set);
  const push = uncurry(Array.prototype.push);
  const includes = uncurry(Array.prototype.includes);
  const upperCase = uncurry(String.prototype.toUpperCase);
  const test = uncurry(globalThis.RegExp.prototype.test);
  const { isArray } = Array;
  const isObject = (value) => (typeof value === "object" && value !== null) || typeof value === "function";
  const bare = (values) => ({ __proto__: null, ...values });

  // ── Options ────────────────────────────────────────────────────────────────────────────────

  const optionsObject = (options) => {
    if (options === undefined) return { __proto__: null };
    if (!isObject(options)) throw new TypeError("the options are an object");
    return options;
  };
  const coercedOptions = (options) => {
    if (options === undefined) return { __proto__: null };
    if (options === null) throw new TypeError("the options are an object, and not null");
    return Object(options);
  };
  const shown = (value) => { const text = "" + value; return text.length > 60 ? text.slice(0, 60) + "…" : text; };
  const outOfRange = (value, name) => new RangeError("Value " + shown(value) + " out of range for Intl options property " + name);
  /// An option that is a text, one of `values` if there are any.
  const option = (options, name, values, otherwise) => {
    let value = options[name];
    if (value === undefined) return otherwise;
    value = "" + value;
    if (values !== undefined && !includes(values, value)) throw outOfRange(value, name);
    return value;
  };
  const flag = (options, name, otherwise) => { const value = options[name]; return value === undefined ? otherwise : !!value; };
  const whole = (value, least, most, otherwise, name) => {
    if (value === undefined) return otherwise;
    const number = +value;
    if (!(number >= least && number <= most)) throw new RangeError(name + " value is out of range.");
    return Math.floor(number);
  };
  const wholeOption = (options, name, least, most, otherwise) => whole(options[name], least, most, otherwise, name);
  /// A keyword's value, such as `nu`: parts of three to eight letters or digits.
  const typeOption = (options, name) => {
    const value = option(options, name);
    if (value === undefined) return undefined;
    if (value.length > 100 || !test(/^[a-z0-9]{3,8}(-[a-z0-9]{3,8})*$/i, value)) throw new RangeError("Invalid " + name + " : " + shown(value));
    return value.toLowerCase();
  };

  /// Remembers what `make` gave last, since methods such as localeCompare are called in a loop with the same locale and options.
  /// The options are read once, in the order of `names`; what is not a plain value is never remembered.
  const remembered = (names, make) => {
    let lastKey, last;
    return (locales, options) => {
      if (options !== undefined && !isObject(options)) return make(locales, options);
      let key = locales === undefined ? "?" : typeof locales === "string" ? locales : undefined;
      if (key === undefined && isArray(locales) && locales.length === 1 && typeof locales[0] === "string") key = locales[0];
      let copy;
      if (options !== undefined) {
        copy = { __proto__: null };
        for (let i = 0; i < names.length; i++) {
          const value = copy[names[i]] = options[names[i]];
          if (key !== undefined) key = isObject(value) || typeof value === "symbol" ? undefined : key + "|" + typeof value + value;
        }
      }
      if (key === undefined) return make(locales, copy);
      if (key !== lastKey) { last = make(locales, copy); lastKey = key; }
      return last;
    };
  };

  // ── Locales ────────────────────────────────────────────────────────────────────────────────

  const MAX_LOCALES = 1000;
  const localeSlots = new WeakMap();
  const canonicalOne = (tag) => {
    if (isObject(tag)) { const slots = slotsGet(localeSlots, tag); if (slots !== undefined) return slots.tag; }
    if (typeof tag !== "string" && !isObject(tag)) throw new TypeError("Incorrect locale information provided");
    return native("canonical", "", "" + tag, undefined);
  };
  const localeList = (locales) => {
    if (locales === undefined) return [];
    if (typeof locales === "string" || (isObject(locales) && slotsGet(localeSlots, locales) !== undefined)) return [canonicalOne(locales)];
    if (locales === null) throw new TypeError("Incorrect locale information provided");
    const list = Object(locales), tags = [];
    const length = Math.min(Math.max(Math.trunc(+list.length) || 0, 0), Number.MAX_SAFE_INTEGER);
    if (length > MAX_LOCALES) throw new RangeError("Incorrect locale information provided: more than " + MAX_LOCALES + " locales");
    for (let i = 0; i < length; i++) {
      if (!(i in list)) continue;
      const tag = canonicalOne(list[i]);
      if (!includes(tags, tag)) push(tags, tag);
    }
    return tags;
  };
  const resolve = (service, locales, keywords) => native("resolve", stringify(bare({ service, locales: localeList(locales), keywords: bare(keywords) })), undefined, undefined);
  const matcher = (options) => option(options, "localeMatcher", ["lookup", "best fit"], "best fit");

  // ── Constructors ───────────────────────────────────────────────────────────────────────────

  /// Gives a constructor its methods, getters and name.
  const define = (constructor, name, methods, getters) => {
    const { prototype } = constructor;
    defineProperty(constructor, "prototype", { __proto__: null, writable: false });
    for (const key of Reflect.ownKeys(methods)) hide(prototype, key, methods[key]);
    for (const key of Reflect.ownKeys(getters ?? {})) {
      const { get } = Reflect.getOwnPropertyDescriptor(getters, key);
      defineProperty(prototype, key, { __proto__: null, get, set: undefined, enumerable: false, configurable: true });
    }
    defineProperty(prototype, Symbol.toStringTag, { __proto__: null, value: "Intl." + name, configurable: true });
    defineProperty(constructor, "length", { __proto__: null, value: 0, configurable: true });
    if (name !== "Locale") {
      hide(constructor, "supportedLocalesOf", {
        supportedLocalesOf(locales, options = undefined) {
          const tags = localeList(locales);
          matcher(coercedOptions(options));
          return native("supported", "", tags, undefined);
        },
      }.supportedLocalesOf);
    }
    hide(Intl, name, constructor);
  };
  const slotsOf = (slots, self, name) => {
    const own = isObject(self) ? slotsGet(slots, self) : undefined;
    if (own === undefined) throw new TypeError("Method Intl." + name + ".prototype called on incompatible receiver");
    return own;
  };
  const needNew = (target, name) => { if (target === undefined) throw new TypeError("Constructor Intl." + name + " requires 'new'"); };
  /// A getter whose function is bound to the formatter.
  const bound = (slots, make) => (slots.bound ??= make());
  const partObjects = (flat, note) => {
    const parts = [];
    for (let i = 0; i < flat.length; i += 3) {
      const part = { type: flat[i], value: flat[i + 1] };
      if (note !== undefined && flat[i + 2] !== undefined && flat[i + 2] !== null) part[note] = flat[i + 2];
      push(parts, part);
    }
    return parts;
  };
  /// The options that are defined, in this order.
  const resolvedOf = (pairs) => {
    const resolved = {};
    for (let i = 0; i < pairs.length; i += 2) if (pairs[i + 1] !== undefined) resolved[pairs[i]] = pairs[i + 1];
    return resolved;
  };
  const Intl = {};
  defineProperty(Intl, Symbol.toStringTag, { __proto__: null, value: "Intl", configurable: true });

  // ── Numbers ────────────────────────────────────────────────────────────────────────────────

  const INCREMENTS = [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 2500, 5000];
  const MODES = ["ceil", "floor", "expand", "trunc", "halfCeil", "halfFloor", "halfExpand", "halfTrunc", "halfEven"];
  const digitOptions = (options, leastDefault, mostDefault, notation) => {
    const minimumIntegerDigits = wholeOption(options, "minimumIntegerDigits", 1, 21, 1);
    let leastFraction = options.minimumFractionDigits, mostFraction = options.maximumFractionDigits;
    let leastDigits = options.minimumSignificantDigits, mostDigits = options.maximumSignificantDigits;
    const roundingIncrement = wholeOption(options, "roundingIncrement", 1, 5000, 1);
    if (!includes(INCREMENTS, roundingIncrement)) throw new RangeError("roundingIncrement value is out of range.");
    const roundingMode = option(options, "roundingMode", MODES, "halfExpand");
    let roundingPriority = option(options, "roundingPriority", ["auto", "morePrecision", "lessPrecision"], "auto");
    const trailingZeroDisplay = option(options, "trailingZeroDisplay", ["auto", "stripIfInteger"], "auto");
    if (roundingIncrement !== 1) mostDefault = leastDefault;
    const hasDigits = leastDigits !== undefined || mostDigits !== undefined;
    const hasFraction = leastFraction !== undefined || mostFraction !== undefined;
    let needsDigits = true, needsFraction = true;
    if (roundingPriority === "auto") {
      needsDigits = hasDigits;
      if (needsDigits || (!hasFraction && notation === "compact")) needsFraction = false;
    }
    if (needsDigits) {
      leastDigits = hasDigits ? whole(leastDigits, 1, 21, 1, "minimumSignificantDigits") : 1;
      mostDigits = hasDigits ? whole(mostDigits, leastDigits, 21, 21, "maximumSignificantDigits") : 21;
    }
    if (needsFraction) {
      if (hasFraction) {
        leastFraction = whole(leastFraction, 0, 100, undefined, "minimumFractionDigits");
        mostFraction = whole(mostFraction, 0, 100, undefined, "maximumFractionDigits");
        if (leastFraction === undefined) leastFraction = Math.min(leastDefault, mostFraction);
        else if (mostFraction === undefined) mostFraction = Math.max(mostDefault, leastFraction);
        else if (leastFraction > mostFraction) throw new RangeError("maximumFractionDigits value is out of range.");
      } else { leastFraction = leastDefault; mostFraction = mostDefault; }
    }
    if (!needsDigits && !needsFraction) {
      leastFraction = 0; mostFraction = 0; leastDigits = 1; mostDigits = 2;
      roundingPriority = "morePrecision";
      needsDigits = true; needsFraction = true;
    }
    const isByFraction = needsFraction && !needsDigits;
    if (roundingIncrement !== 1) {
      if (!isByFraction) throw new TypeError("roundingIncrement needs a number of fraction digits alone");
      if (mostFraction !== leastFraction) throw new RangeError("roundingIncrement needs maximumFractionDigits to be minimumFractionDigits");
    }
    return bare({
      minimumIntegerDigits,
      minimumFractionDigits: needsFraction ? leastFraction : null,
      maximumFractionDigits: needsFraction ? mostFraction : null,
      minimumSignificantDigits: needsDigits ? leastDigits : null,
      maximumSignificantDigits: needsDigits ? mostDigits : null,
      roundingIncrement, roundingMode, roundingPriority, trailingZeroDisplay,
    });
  };
  const digitPairs = (digits) => ["minimumIntegerDigits", digits.minimumIntegerDigits,
    "minimumFractionDigits", digits.minimumFractionDigits ?? undefined, "maximumFractionDigits", digits.maximumFractionDigits ?? undefined,
    "minimumSignificantDigits", digits.minimumSignificantDigits ?? undefined, "maximumSignificantDigits", digits.maximumSignificantDigits ?? undefined];
  const roundingPairs = (digits) => ["roundingIncrement", digits.roundingIncrement, "roundingMode", digits.roundingMode,
    "roundingPriority", digits.roundingPriority, "trailingZeroDisplay", digits.trailingZeroDisplay];

  const UNITS = "acre bit byte celsius centimeter day degree fahrenheit fluid-ounce foot gallon gigabit gigabyte gram hectare hour inch kilobit kilobyte kilogram kilometer liter megabit megabyte meter microsecond mile mile-scandinavian milliliter millimeter millisecond minute month nanosecond ounce percent petabyte pound second stone terabit terabyte week yard year".split(" ");
  const isUnit = (unit) => {
    if (includes(UNITS, unit)) return true;
    const at = unit.indexOf("-per-");
    return at > 0 && includes(UNITS, unit.slice(0, at)) && includes(UNITS, unit.slice(at + 5));
  };
  const numberSlots = new WeakMap();
  const numberOptions = (locales, given) => {
    const tags = localeList(locales), options = coercedOptions(given);
    matcher(options);
    const nu = typeOption(options, "numberingSystem");
    const found = resolve("number", tags, nu === undefined ? {} : { nu });
    const style = option(options, "style", ["decimal", "percent", "currency", "unit"], "decimal");
    let currency = option(options, "currency");
    if (currency === undefined) { if (style === "currency") throw new TypeError("Currency code is required with currency style."); }
    else if (!test(/^[a-z]{3}$/i, currency)) throw new RangeError("Invalid currency code : " + shown(currency));
    else currency = upperCase(currency);
    const currencyDisplay = option(options, "currencyDisplay", ["code", "symbol", "narrowSymbol", "name"], "symbol");
    const currencySign = option(options, "currencySign", ["standard", "accounting"], "standard");
    const unit = option(options, "unit");
    if (unit === undefined) { if (style === "unit") throw new TypeError("Required unit is missing when style is \"unit\"."); }
    else if (!isUnit(unit)) throw new RangeError("Invalid unit argument for Intl.NumberFormat() '" + shown(unit) + "'");
    const unitDisplay = option(options, "unitDisplay", ["short", "narrow", "long"], "short");
    const notation = option(options, "notation", ["standard", "scientific", "engineering", "compact"], "standard");
    let least = 0, most = style === "percent" ? 0 : 3;
    if (style === "currency" && notation === "standard") least = most = native("currencyDigits", "", currency, undefined);
    const digits = digitOptions(options, least, most, notation);
    const compactDisplay = option(options, "compactDisplay", ["short", "long"], "short");
    let useGrouping = options.useGrouping;
    const otherwise = notation === "compact" ? "min2" : "auto";
    if (useGrouping === undefined || useGrouping === "true" || useGrouping === "false") useGrouping = otherwise;
    else if (useGrouping === true) useGrouping = "always";
    else if (!useGrouping) useGrouping = false;
    else { useGrouping = "" + useGrouping; if (!includes(["min2", "auto", "always"], useGrouping)) throw outOfRange(useGrouping, "useGrouping"); }
    const signDisplay = option(options, "signDisplay", ["auto", "never", "always", "exceptZero", "negative"], "auto");
    const spec = stringify(bare({
      data: found.data, numberingSystem: found.nu, style, currency: style === "currency" ? currency : "", currencyDisplay, currencySign,
      unit: style === "unit" ? unit : "", unitDisplay, notation, compactDisplay, signDisplay,
      useGrouping: useGrouping === false ? "never" : useGrouping, digits,
    }));
    return { spec, found, style, currency, currencyDisplay, currencySign, unit, unitDisplay, notation, compactDisplay, signDisplay, useGrouping, digits };
  };
  /// What a program wants formatted, as a number or as a text of digits that is kept exactly.
  const numeric = (value) => {
    if (typeof value === "number" || typeof value === "bigint") return value;
    if (isObject(value)) {
      const convert = value[Symbol.toPrimitive];
      if (convert !== undefined && convert !== null) value = apply(convert, value, ["number"]);
      else { const plain = value.valueOf(); value = isObject(plain) ? value.toString() : plain; }
    }
    if (typeof value === "string" || typeof value === "bigint") return value;
    return +value;
  };
  const numberRange = (self, operation, from, to) => {
    const { spec } = slotsOf(numberSlots, self, "NumberFormat");
    if (from === undefined || to === undefined) throw new TypeError("a range has two numbers");
    return native(operation, spec, numeric(from), numeric(to));
  };
  function NumberFormat(locales, options) {
    if (new.target === undefined) return new NumberFormat(locales, options);
    slotsSet(numberSlots, this, numberOptions(locales, options));
  }
  define(NumberFormat, "NumberFormat", {
    formatToParts(value) { return partObjects(native("numberParts", slotsOf(numberSlots, this, "NumberFormat").spec, numeric(value), undefined)); },
    formatRange(from, to) { return numberRange(this, "numberRange", from, to); },
    formatRangeToParts(from, to) { return partObjects(numberRange(this, "numberRangeParts", from, to), "source"); },
    resolvedOptions() {
      const s = slotsOf(numberSlots, this, "NumberFormat");
      const isCurrency = s.style === "currency", isUnitStyle = s.style === "unit";
      return resolvedOf(["locale", s.found.locale, "numberingSystem", s.found.nu, "style", s.style,
        "currency", isCurrency ? s.currency : undefined, "currencyDisplay", isCurrency ? s.currencyDisplay : undefined,
        "currencySign", isCurrency ? s.currencySign : undefined, "unit", isUnitStyle ? s.unit : undefined,
        "unitDisplay", isUnitStyle ? s.unitDisplay : undefined, ...digitPairs(s.digits), "useGrouping", s.useGrouping, "notation", s.notation,
        "compactDisplay", s.notation === "compact" ? s.compactDisplay : undefined, "signDisplay", s.signDisplay, ...roundingPairs(s.digits)]);
    },
  }, {
    get format() {
      const slots = slotsOf(numberSlots, this, "NumberFormat");
      return bound(slots, () => (value) => native("number", slots.spec, numeric(value), undefined));
    },
  });
  const numberSpec = remembered(["localeMatcher", "numberingSystem", "style", "currency", "currencyDisplay", "currencySign", "unit", "unitDisplay", "notation",
    "minimumIntegerDigits", "minimumFractionDigits", "maximumFractionDigits", "minimumSignificantDigits", "maximumSignificantDigits", "roundingIncrement", "roundingMode",
    "roundingPriority", "trailingZeroDisplay", "compactDisplay", "useGrouping", "signDisplay"], (locales, options) => numberOptions(locales, options).spec);
  const numberText = (value, locales, options) => native("number", numberSpec(locales, options), value, undefined);

  // ── Plurals ────────────────────────────────────────────────────────────────────────────────

  const pluralSlots = new WeakMap();
  function PluralRules(locales, given) {
    needNew(new.target, "PluralRules");
    const tags = localeList(locales), options = coercedOptions(given);
    matcher(options);
    const type = option(options, "type", ["cardinal", "ordinal"], "cardinal");
    const digits = digitOptions(options, 0, 3, "standard");
    const found = resolve("plain", tags, {});
    slotsSet(pluralSlots, this, { found, type, digits, spec: stringify(bare({ type, number: bare({ data: found.data, digits }) })) });
  }
  define(PluralRules, "PluralRules", {
    select(value) { return native("plural", slotsOf(pluralSlots, this, "PluralRules").spec, +value, undefined); },
    selectRange(from, to) {
      const { spec } = slotsOf(pluralSlots, this, "PluralRules");
      if (from === undefined || to === undefined) throw new TypeError("a range has two numbers");
      return native("pluralRange", spec, +from, +to);
    },
    resolvedOptions() {
      const s = slotsOf(pluralSlots, this, "PluralRules");
      return resolvedOf(["locale", s.found.locale, "type", s.type, ...digitPairs(s.digits),
        "pluralCategories", native("pluralCategories", s.spec, undefined, undefined), ...roundingPairs(s.digits)]);
    },
  });

  // ── Dates ──────────────────────────────────────────────────────────────────────────────────

  const dateSlots = new WeakMap();
  const FIELDS = [
    ["weekday", ["narrow", "short", "long"]], ["era", ["narrow", "short", "long"]], ["year", ["2-digit", "numeric"]],
    ["month", ["2-digit", "numeric", "narrow", "short", "long"]], ["day", ["2-digit", "numeric"]], ["dayPeriod", ["narrow", "short", "long"]],
    ["hour", ["2-digit", "numeric"]], ["minute", ["2-digit", "numeric"]], ["second", ["2-digit", "numeric"]],
  ];
  const ZONE_NAMES = ["short", "long", "shortOffset", "longOffset", "shortGeneric", "longGeneric"];
  const STYLES = ["full", "long", "medium", "short"];
  /// `ownZone` is that of a value that is shown.
  const dateOptions = (locales, given, required, defaults, ownZone) => {
    const tags = localeList(locales), options = coercedOptions(given);
    matcher(options);
    const keywords = {};
    const ca = typeOption(options, "calendar"), nu = typeOption(options, "numberingSystem");
    if (ca !== undefined) keywords.ca = ca;
    if (nu !== undefined) keywords.nu = nu;
    const hour12 = flag(options, "hour12", undefined);
    const hourCycle = option(options, "hourCycle", ["h11", "h12", "h23", "h24"], undefined);
    if (hourCycle !== undefined && hour12 === undefined) keywords.hc = hourCycle;
    const found = resolve("date", tags, keywords);
    let timeZone = options.timeZone;
    if (timeZone !== undefined && ownZone !== undefined) throw new TypeError("the value has a time zone: use withTimeZone() for another");
    timeZone = timeZone === undefined ? ownZone ?? zone : native("zone", "", "" + timeZone, undefined);
    const spec = { __proto__: null };
    let hasField = false;
    for (const [name, values] of FIELDS) {
      const value = option(options, name, values, undefined);
      if (value !== undefined) { spec[name] = value; hasField = true; }
    }
    const fraction = wholeOption(options, "fractionalSecondDigits", 1, 3, undefined);
    if (fraction !== undefined) { spec.fractionalSecondDigits = fraction; hasField = true; }
    const timeZoneName = option(options, "timeZoneName", ZONE_NAMES, undefined);
    if (timeZoneName !== undefined) { spec.timeZoneName = timeZoneName; hasField = true; }
    option(options, "formatMatcher", ["basic", "best fit"], "best fit");
    const dateStyle = option(options, "dateStyle", STYLES, undefined), timeStyle = option(options, "timeStyle", STYLES, undefined);
    const fields = { __proto__: null, ...spec };
    if (dateStyle !== undefined || timeStyle !== undefined) {
      if (hasField) throw new TypeError("Can't set option " + Object.keys(spec)[0] + " when " + (dateStyle !== undefined ? "dateStyle" : "timeStyle") + " is used");
      if (required === "date" && timeStyle !== undefined) throw new TypeError("Invalid option : timeStyle");
      if (required === "time" && dateStyle !== undefined) throw new TypeError("Invalid option : dateStyle");
    } else {
      const has = (names) => names.some((name) => spec[name] !== undefined);
      let needsDefaults = true;
      if (required !== "time" && has(["weekday", "year", "month", "day"])) needsDefaults = false;
      if (required !== "date" && has(["dayPeriod", "hour", "minute", "second", "fractionalSecondDigits"])) needsDefaults = false;
      if (needsDefaults && defaults !== "time") spec.year = spec.month = spec.day = "numeric";
      if (needsDefaults && defaults !== "date") spec.hour = spec.minute = spec.second = "numeric";
      if (needsDefaults && ownZone !== undefined) spec.timeZoneName ??= "short";
    }
    let cycle = hourCycle ?? found.hc ?? found.hours;
    const isJapan = found.region === "JP";
    if (hour12 === true) cycle = found.hours === "h11" || found.hours === "h12" ? found.hours : isJapan ? "h11" : "h12";
    if (hour12 === false) cycle = found.hours === "h23" || found.hours === "h24" ? found.hours : "h23";
    const hasHour = spec.hour !== undefined || timeStyle !== undefined;
    spec.hourCycle = cycle;
    if (dateStyle !== undefined) spec.dateStyle = dateStyle;
    if (timeStyle !== undefined) spec.timeStyle = timeStyle;
    spec.data = found.data;
    spec.locale = found.base;
    spec.calendar = found.ca;
    spec.numberingSystem = found.nu;
    spec.timeZone = timeZone;
    return { spec: stringify(spec), found, timeZone, hourCycle: hasHour ? cycle : undefined, cycle, dateStyle, timeStyle, fields, kinds: { __proto__: null } };
  };
  const timeOf = (value) => (value === undefined ? Date.now() : +value);

  // What is shown of a value of `Temporal`: the fields that it has, of those that are asked for.
  const ALL_FIELDS = ["weekday", "year", "month", "day", "era", "dayPeriod", "hour", "minute", "second", "fractionalSecondDigits"];
  const DAY_FIELDS = ["weekday", "year", "month", "day"], CLOCK_FIELDS = ["dayPeriod", "hour", "minute", "second", "fractionalSecondDigits"];
  const KINDS = {
    __proto__: null,
    PlainDate: { wanted: DAY_FIELDS, defaults: ["year", "month", "day"], styles: ["dateStyle"], hasEra: true },
    PlainTime: { wanted: CLOCK_FIELDS, defaults: ["hour", "minute", "second"], styles: ["timeStyle"], hasEra: false },
    PlainDateTime: { wanted: [...DAY_FIELDS, ...CLOCK_FIELDS], defaults: ["year", "month", "day", "hour", "minute", "second"], styles: ["dateStyle", "timeStyle"], hasEra: true },
    PlainYearMonth: { wanted: ["year", "month"], defaults: ["year", "month"], styles: ["dateStyle"], hasEra: true },
    PlainMonthDay: { wanted: ["month", "day"], defaults: ["month", "day"], styles: ["dateStyle"], hasEra: false },
    Instant: { wanted: [...DAY_FIELDS, ...CLOCK_FIELDS], defaults: ["year", "month", "day", "hour", "minute", "second"], styles: ["dateStyle", "timeStyle"], hasEra: true },
  };
  const kindSpec = (slots, kind) => {
    const { wanted, defaults, styles, hasEra } = KINDS[kind], isPart = kind === "PlainYearMonth" || kind === "PlainMonthDay";
    const common = { data: slots.found.data, locale: slots.found.base, calendar: slots.found.ca, numberingSystem: slots.found.nu, hourCycle: slots.cycle, timeZone: kind === "Instant" ? slots.timeZone : "UTC" };
    const none = () => new TypeError("the options of the format show nothing that a Temporal." + kind + " has");
    const spec = bare(common);
    let { fields } = slots;
    if (slots.dateStyle !== undefined || slots.timeStyle !== undefined) {
      const own = styles.filter((style) => slots[style] !== undefined);
      if (own.length === 0) throw none();
      if (!isPart) { for (const style of own) spec[style] = slots[style]; return stringify(spec); }
      fields = native("dateFields", stringify(bare({ ...common, dateStyle: slots.dateStyle })), undefined, undefined);
    }
    let needsDefaults = true;
    for (const name of wanted) if (fields[name] !== undefined) { spec[name] = fields[name]; needsDefaults = false; }
    if (hasEra && fields.era !== undefined) spec.era = fields.era;
    if (kind === "Instant" && fields.timeZoneName !== undefined) spec.timeZoneName = fields.timeZoneName;
    if (needsDefaults) {
      if (kind !== "Instant" && ALL_FIELDS.some((name) => fields[name] !== undefined)) throw none();
      for (const name of defaults) spec[name] = "numeric";
    }
    return stringify(spec);
  };
  const setYear = uncurry(Date.prototype.setUTCFullYear), setHours = uncurry(Date.prototype.setUTCHours);
  const utc = (year, month, day, hour, minute, second, millisecond) => { const date = new Date(0); setYear(date, year, month - 1, day); return setHours(date, hour, minute, second, millisecond); };
  const millisecondsOf = (nanoseconds) => {
    const whole = BigInt(nanoseconds), quotient = whole / 1000000n;
    return Number(whole % 1000000n < 0n ? quotient - 1n : quotient);
  };
  const temporalTime = ({ kind, value }) => {
    if (kind === "Instant") return millisecondsOf(value);
    if (kind === "ZonedDateTime") return millisecondsOf(value[0]);
    if (kind === "PlainTime") return utc(1970, 1, 1, value[0], value[1], value[2], value[3]);
    if (kind === "PlainDateTime") return utc(value[0], value[1], value[2], value[3], value[4], value[5], value[6]);
    return utc(value[0], value[1], value[2], 12, 0, 0, 0);
  };
  const checkCalendar = (slots, { kind, value }) => {
    if (kind === "PlainTime" || kind === "Instant") return;
    const own = value[value.length - 1], isPart = kind === "PlainYearMonth" || kind === "PlainMonthDay";
    if (own !== slots.found.ca && (isPart || own !== "iso8601")) {
      throw new RangeError("the calendar of the value is " + own + ", that of the format " + slots.found.ca + (isPart ? ": pass { calendar: \"" + own + "\" }" : ""));
    }
  };
  /// The options and the time with which the native side shows a date, a number or a value of `Temporal`.
  const shownAs = (slots, date) => {
    const held = isObject(date) ? shared.temporalOf(date) : undefined;
    if (held === undefined) return [slots.spec, timeOf(date), "Date"];
    if (KINDS[held.kind] === undefined) throw new TypeError("Intl.DateTimeFormat does not show a Temporal." + held.kind + ": use its toLocaleString()");
    checkCalendar(slots, held);
    return [(slots.kinds[held.kind] ??= kindSpec(slots, held.kind)), temporalTime(held), held.kind];
  };
  const showDate = (slots, operation, date) => { const [spec, time] = shownAs(slots, date); return native(operation, spec, time, undefined); };
  /// What toLocaleString of a value of `Temporal` gives.
  const temporalText = (held, locales, options) => {
    const { kind } = held;
    if (kind === "ZonedDateTime") {
      const slots = dateOptions(locales, options, "any", "all", held.value[1]);
      checkCalendar(slots, held);
      return native("date", slots.spec, temporalTime(held), undefined);
    }
    const required = kind === "Instant" || kind === "PlainDateTime" ? "any" : kind === "PlainTime" ? "time" : "date";
    const slots = dateOptions(locales, options, required, required === "any" ? "all" : required);
    checkCalendar(slots, held);
    return native("date", kindSpec(slots, kind), temporalTime(held), undefined);
  };
  function DateTimeFormat(locales, options) {
    if (new.target === undefined) return new DateTimeFormat(locales, options);
    slotsSet(dateSlots, this, dateOptions(locales, options, "any", "date"));
  }
  const dateRange = (self, operation, from, to) => {
    const slots = slotsOf(dateSlots, self, "DateTimeFormat");
    if (from === undefined || to === undefined) throw new TypeError("startDate or endDate cannot be undefined");
    const [spec, start, kind] = shownAs(slots, from), [, end, otherKind] = shownAs(slots, to);
    if (kind !== otherKind) throw new TypeError("a range is between two values of one kind, and not a " + kind + " and a " + otherKind);
    return native(operation, spec, start, end);
  };
  define(DateTimeFormat, "DateTimeFormat", {
    formatToParts(date) { return partObjects(showDate(slotsOf(dateSlots, this, "DateTimeFormat"), "dateParts", date)); },
    formatRange(from, to) { return dateRange(this, "dateRange", from, to); },
    formatRangeToParts(from, to) { return partObjects(dateRange(this, "dateRangeParts", from, to), "source"); },
    resolvedOptions() {
      const s = slotsOf(dateSlots, this, "DateTimeFormat");
      const fields = s.dateStyle === undefined && s.timeStyle === undefined ? native("dateFields", s.spec, undefined, undefined) : {};
      return resolvedOf(["locale", s.found.locale, "calendar", s.found.ca, "numberingSystem", s.found.nu, "timeZone", s.timeZone,
        "hourCycle", s.hourCycle, "hour12", s.hourCycle === undefined ? undefined : s.hourCycle === "h11" || s.hourCycle === "h12",
        ...Object.entries(fields).flat(), "dateStyle", s.dateStyle, "timeStyle", s.timeStyle]);
    },
  }, {
    get format() {
      const slots = slotsOf(dateSlots, this, "DateTimeFormat");
      return bound(slots, () => (date) => showDate(slots, "date", date));
    },
  });
  const dateSpec = (required, defaults) => remembered(["localeMatcher", "calendar", "numberingSystem", "hour12", "hourCycle", "timeZone",
    ...FIELDS.map(([name]) => name), "fractionalSecondDigits", "timeZoneName", "formatMatcher", "dateStyle", "timeStyle"],
  (locales, options) => dateOptions(locales, options, required, defaults).spec);
  const dateSpecs = { __proto__: null, all: dateSpec("any", "all"), date: dateSpec("date", "date"), time: dateSpec("time", "time") };
  /// `kind` is what is shown if the options do not say.
  const dateText = (time, locales, options, kind) => {
    const spec = dateSpecs[kind](locales, options);
    return time !== time ? "Invalid Date" : native("date", spec, time, undefined);
  };

  // ── The order of texts ─────────────────────────────────────────────────────────────────────

  const collatorSlots = new WeakMap();
  const collatorOptions = (locales, given) => {
    const tags = localeList(locales), options = coercedOptions(given);
    const usage = option(options, "usage", ["sort", "search"], "sort");
    matcher(options);
    const co = typeOption(options, "collation"), numericOption = flag(options, "numeric", undefined);
    const caseFirst = option(options, "caseFirst", ["upper", "lower", "false"], undefined);
    const keywords = {};
    if (co !== undefined) keywords.co = co;
    if (numericOption !== undefined) keywords.kn = "" + numericOption;
    if (caseFirst !== undefined) keywords.kf = caseFirst;
    const found = resolve("collator", tags, keywords);
    const sensitivity = option(options, "sensitivity", ["base", "accent", "case", "variant"], "variant");
    const ignorePunctuation = flag(options, "ignorePunctuation", found.ignorePunctuation);
    const slots = bare({ locale: found.base, usage, sensitivity, ignorePunctuation, numeric: found.kn, caseFirst: found.kf, collation: found.co });
    return { ...slots, found, spec: stringify(slots) };
  };
  function Collator(locales, options) {
    if (new.target === undefined) return new Collator(locales, options);
    slotsSet(collatorSlots, this, collatorOptions(locales, options));
  }
  define(Collator, "Collator", {
    resolvedOptions() {
      const s = slotsOf(collatorSlots, this, "Collator");
      return resolvedOf(["locale", s.found.locale, "usage", s.usage, "sensitivity", s.sensitivity, "ignorePunctuation", s.ignorePunctuation,
        "collation", s.collation, "numeric", s.numeric, "caseFirst", s.caseFirst]);
    },
  }, {
    get compare() {
      const slots = slotsOf(collatorSlots, this, "Collator");
      return bound(slots, () => (x, y) => native("compare", slots.spec, "" + x, "" + y));
    },
  });
  const collatorSpec = remembered(["usage", "localeMatcher", "collation", "numeric", "caseFirst", "sensitivity", "ignorePunctuation"],
    (locales, options) => collatorOptions(locales, options).spec);
  const compare = (own, other, locales, options) => native("compare", collatorSpec(locales, options), own, other);
  const changeCase = (text, locales, change, operation) => {
    const [tag] = localeList(locales);
    return tag !== undefined && includes(["tr", "az", "lt", "el", "hy"], tag.slice(0, 2)) && (tag.length === 2 || tag[2] === "-")
      ? native(operation, "", text, tag) : change(text);
  };

  // ── Lists, relative times, names ───────────────────────────────────────────────────────────

  const listSlots = new WeakMap();
  const texts = (list) => {
    const items = [];
    if (list === undefined) return items;
    for (const item of list) {
      if (typeof item !== "string") throw new TypeError("Iterable yielded " + shown(typeof item === "symbol" ? "a symbol" : item) + " which is not a string");
      push(items, item);
    }
    return items;
  };
  function ListFormat(locales, given) {
    needNew(new.target, "ListFormat");
    const tags = localeList(locales), options = optionsObject(given);
    matcher(options);
    const type = option(options, "type", ["conjunction", "disjunction", "unit"], "conjunction");
    const style = option(options, "style", ["long", "short", "narrow"], "long");
    const found = resolve("plain", tags, {});
    slotsSet(listSlots, this, { found, type, style, spec: stringify(bare({ data: found.data, type, style })) });
  }
  define(ListFormat, "ListFormat", {
    format(list) { const { spec } = slotsOf(listSlots, this, "ListFormat"); return native("list", spec, texts(list), undefined); },
    formatToParts(list) { const { spec } = slotsOf(listSlots, this, "ListFormat"); return partObjects(native("listParts", spec, texts(list), undefined)); },
    resolvedOptions() {
      const s = slotsOf(listSlots, this, "ListFormat");
      return { locale: s.found.locale, type: s.type, style: s.style };
    },
  });

  const relativeSlots = new WeakMap();
  function RelativeTimeFormat(locales, given) {
    needNew(new.target, "RelativeTimeFormat");
    const tags = localeList(locales), options = coercedOptions(given);
    matcher(options);
    const nu = typeOption(options, "numberingSystem");
    const found = resolve("number", tags, nu === undefined ? {} : { nu });
    const style = option(options, "style", ["long", "short", "narrow"], "long");
    const kind = option(options, "numeric", ["always", "auto"], "always");
    const number = bare({ data: found.data, numberingSystem: found.nu });
    slotsSet(relativeSlots, this, { found, style, numeric: kind, spec: stringify(bare({ style, numeric: kind, number })) });
  }
  const relative = (self, operation, value, unit) => {
    const { spec } = slotsOf(relativeSlots, self, "RelativeTimeFormat");
    return native(operation, spec, +value, "" + unit);
  };
  define(RelativeTimeFormat, "RelativeTimeFormat", {
    format(value, unit) { return relative(this, "relative", value, unit); },
    formatToParts(value, unit) { return partObjects(relative(this, "relativeParts", value, unit), "unit"); },
    resolvedOptions() {
      const s = slotsOf(relativeSlots, this, "RelativeTimeFormat");
      return { locale: s.found.locale, style: s.style, numeric: s.numeric, numberingSystem: s.found.nu };
    },
  });

  // ── Durations ──────────────────────────────────────────────────────────────────────────────

  const durationSlots = new WeakMap();
  const LENGTHS = ["years", "months", "weeks", "days", "hours", "minutes", "seconds", "milliseconds", "microseconds", "nanoseconds"];
  const WORDS = ["long", "short", "narrow"], NUMERIC = ["numeric", "2-digit"];
  const isNumeric = (style) => style === "numeric" || style === "2-digit";
  /// How a unit is shown, which depends on the one before.
  const lengthOptions = (options, unit, index, base, before) => {
    const styles = index < 4 ? WORDS : index < 7 ? [...WORDS, ...NUMERIC] : [...WORDS, "numeric"];
    let style = option(options, unit, styles, undefined), otherwise = "always";
    if (style === undefined) {
      if (base === "digital") { style = index < 4 ? "short" : "numeric"; if (index < 4 || index > 6) otherwise = "auto"; }
      else if (before === "fractional" || isNumeric(before)) { style = "numeric"; if (unit !== "minutes" && unit !== "seconds") otherwise = "auto"; }
      else { style = base; otherwise = "auto"; }
    }
    if (style === "numeric" && index > 6) { style = "fractional"; otherwise = "auto"; }
    const display = option(options, unit + "Display", ["auto", "always"], otherwise);
    const fits = !(style === "fractional" && display === "always") && !(before === "fractional" && style !== "fractional")
      && !(isNumeric(before) && style !== "fractional" && !isNumeric(style));
    if (!fits) throw new RangeError("Value " + style + " out of range for Intl.DurationFormat options property " + unit);
    if ((unit === "minutes" || unit === "seconds") && isNumeric(before)) style = "2-digit";
    return { style, display };
  };
  const durationOptions = (locales, given) => {
    const tags = localeList(locales), options = optionsObject(given);
    matcher(options);
    const nu = typeOption(options, "numberingSystem");
    const found = resolve("number", tags, nu === undefined ? {} : { nu });
    const style = option(options, "style", ["long", "short", "narrow", "digital"], "short");
    const lengths = [];
    let before = "";
    for (let i = 0; i < LENGTHS.length; i++) {
      push(lengths, lengthOptions(options, LENGTHS[i], i, style, before));
      if (i >= 4 && i <= 8) before = lengths[i].style;
    }
    return { found, style, lengths, fractionalDigits: wholeOption(options, "fractionalDigits", 0, 9, undefined) };
  };
  const durationNumber = (slots, options) => numberOptions(slots.found.locale, { __proto__: null, ...options, numberingSystem: slots.found.nu }).spec;
  const DIGITS = { __proto__: null, seconds: 1000000000n, milliseconds: 1000000n, microseconds: 1000n };
  /// The length of a unit together with all that are smaller, as decimal digits.
  const fractional = (values, unit) => {
    const scale = DIGITS[unit], from = LENGTHS.indexOf(unit);
    let whole = 0n;
    for (let i = from; i < 10; i++) whole = whole * (i === from ? 1n : 1000n) + BigInt(values[i]);
    const size = whole < 0n ? -whole : whole, digits = "" + (size % scale);
    const width = ("" + scale).length - 1;
    return (whole < 0n ? "-" : "") + size / scale + "." + "0".repeat(width - digits.length) + digits;
  };
  const isZero = (value) => +value === 0;
  /// The parts of each unit: lists of kind, text and unit.
  const durationElements = (slots, values) => {
    const { lengths, fractionalDigits } = slots, elements = [];
    const isNegative = values.some((value) => value < 0);
    let showsSign = true;
    const shownNumber = (value, unit, options) => {
      const sign = showsSign ? {} : { signDisplay: "never" };
      if (showsSign) { showsSign = false; if (isZero(value) && isNegative) value = -0; }
      const single = unit.slice(0, -1), parts = partObjects(native("numberParts", durationNumber(slots, { ...options, ...sign }), value, undefined));
      for (const part of parts) part.unit = single;
      return parts;
    };
    const digits = { maximumFractionDigits: fractionalDigits ?? 9, minimumFractionDigits: fractionalDigits ?? 0, roundingMode: "trunc" };
    for (let i = 0; i < LENGTHS.length; i++) {
      const unit = LENGTHS[i], { style, display } = lengths[i];
      if (isNumeric(style)) { const parts = clockParts(slots, values, i, shownNumber, digits); if (parts.length > 0) push(elements, parts); break; }
      let value = values[i], options = {}, isLast = false;
      if (i >= 6 && i <= 8 && lengths[i + 1].style === "fractional") { value = fractional(values, unit); options = digits; isLast = true; }
      if (display === "always" || !isZero(value)) push(elements, shownNumber(value, unit, { ...options, style: "unit", unit: unit.slice(0, -1), unitDisplay: style }));
      if (isLast) break;
    }
    return elements;
  };
  /// Hours, minutes and seconds with separators between them.
  const clockParts = (slots, values, first, shownNumber, digits) => {
    const { lengths } = slots, parts = [], seconds = fractional(values, "seconds");
    const isShown = (value, index) => !isZero(value) || lengths[index].display !== "auto";
    const hasHours = first === 4 && isShown(values[4], 4), hasSeconds = isShown(seconds, 6);
    const hasMinutes = first <= 5 && ((hasHours && hasSeconds) || isShown(values[5], 5));
    const add = (isWanted, value, index, isBehind, options) => {
      if (!isWanted) return;
      if (isBehind) push(parts, { type: "literal", value: native("timeSeparator", durationNumber(slots, {}), undefined, undefined) });
      const least = lengths[index].style === "2-digit" ? { minimumIntegerDigits: 2 } : {};
      for (const part of shownNumber(value, LENGTHS[index], { useGrouping: false, ...least, ...options })) push(parts, part);
    };
    add(hasHours, values[4], 4, false, {});
    add(hasMinutes, values[5], 5, hasHours, {});
    add(hasSeconds, seconds, 6, hasMinutes, digits);
    return parts;
  };
  const durationParts = (slots, values) => {
    const elements = durationElements(slots, values), parts = [];
    const spec = stringify(bare({ data: slots.found.data, type: "unit", style: slots.style === "digital" ? "short" : slots.style }));
    const flat = native("listParts", spec, elements.map((element) => element.map((part) => part.value).join("")), undefined);
    for (let i = 0, at = 0; i < flat.length; i += 3) {
      if (flat[i] === "element") for (const part of elements[at++]) push(parts, part);
      else push(parts, { type: flat[i], value: flat[i + 1] });
    }
    return parts;
  };
  const durationOf = (value) => { shared.temporal(); return shared.toDuration(value); };
  const partsText = (parts) => { let text = ""; for (let i = 0; i < parts.length; i++) text += parts[i].value; return text; };
  function DurationFormat(locales, options) {
    needNew(new.target, "DurationFormat");
    slotsSet(durationSlots, this, durationOptions(locales, options));
  }
  define(DurationFormat, "DurationFormat", {
    format(duration) { return partsText(durationParts(slotsOf(durationSlots, this, "DurationFormat"), durationOf(duration))); },
    formatToParts(duration) { return durationParts(slotsOf(durationSlots, this, "DurationFormat"), durationOf(duration)); },
    resolvedOptions() {
      const s = slotsOf(durationSlots, this, "DurationFormat"), pairs = [];
      LENGTHS.forEach((unit, i) => push(pairs, unit, s.lengths[i].style === "fractional" ? "numeric" : s.lengths[i].style, unit + "Display", s.lengths[i].display));
      return resolvedOf(["locale", s.found.locale, "numberingSystem", s.found.nu, "style", s.style, ...pairs, "fractionalDigits", s.fractionalDigits]);
    },
  });
  const durationText = (values, locales, options) => partsText(durationParts(durationOptions(locales, options), values));

  const nameSlots = new WeakMap();
  function DisplayNames(locales, given) {
    needNew(new.target, "DisplayNames");
    const tags = localeList(locales);
    if (!isObject(given)) throw new TypeError("the options of Intl.DisplayNames are an object with a `type`");
    matcher(given);
    const style = option(given, "style", ["narrow", "short", "long"], "long");
    const type = option(given, "type", ["language", "region", "script", "currency", "calendar", "dateTimeField"], undefined);
    if (type === undefined) throw new TypeError("Required option \"type\" must not be undefined");
    const fallback = option(given, "fallback", ["code", "none"], "code");
    const languageDisplay = option(given, "languageDisplay", ["dialect", "standard"], "dialect");
    const found = resolve("plain", tags, {});
    slotsSet(nameSlots, this, { found, style, type, fallback, languageDisplay, spec: stringify(bare({ data: found.data, style, type, languageDisplay })) });
  }
  define(DisplayNames, "DisplayNames", {
    of(code) {
      const { spec, fallback } = slotsOf(nameSlots, this, "DisplayNames");
      const [name, canonical] = native("name", spec, "" + code, undefined);
      return name ?? (fallback === "code" ? canonical : undefined);
    },
    resolvedOptions() {
      const s = slotsOf(nameSlots, this, "DisplayNames");
      return resolvedOf(["locale", s.found.locale, "style", s.style, "type", s.type, "fallback", s.fallback,
        "languageDisplay", s.type === "language" ? s.languageDisplay : undefined]);
    },
  });

  // ── Segments ───────────────────────────────────────────────────────────────────────────────

  const segmenterSlots = new WeakMap(), segmentsSlots = new WeakMap();
  /// How many units of a text are looked at in one go, at first.
  const WINDOW = 2048;
  /// The segments from a boundary on: where each ends, twice, and one more if it is a word.
  const endsFrom = (text, granularity, from) => {
    for (let size = WINDOW; ; size *= 4) {
      const to = Math.min(from + size, text.length);
      const ends = native("segment", stringify(granularity), text.slice(from, to), undefined);
      if (to === text.length) return ends;
      // What comes next may belong to the last ones, so they are not taken.
      if (ends.length > 16) { ends.length -= 8; return ends; }
    }
  };
  const segmentAt = (slots, start, end) => {
    const segment = { segment: slots.text.slice(start, Math.floor(end / 2)), index: start, input: slots.text };
    if (slots.granularity === "word") segment.isWordLike = end % 2 === 1;
    return segment;
  };
  const eachSegment = function* (slots) {
    for (let from = 0; from < slots.text.length;) {
      const ends = endsFrom(slots.text, slots.granularity, from), base = from;
      for (let i = 0; i < ends.length; i++) {
        yield segmentAt(slots, from, ends[i] + 2 * base);
        from = base + Math.floor(ends[i] / 2);
      }
    }
  };
  const SegmentsPrototype = {
    containing(index) {
      const slots = slotsOf(segmentsSlots, this, "Segments");
      const at = Math.trunc(+index) || 0;
      if (at < 0 || at >= slots.text.length) return undefined;
      for (const segment of eachSegment(slots)) if (at < segment.index + segment.segment.length) return segment;
    },
    [Symbol.iterator]() { return eachSegment(slotsOf(segmentsSlots, this, "Segments")); },
  };
  for (const key of Reflect.ownKeys(SegmentsPrototype)) hide(SegmentsPrototype, key, SegmentsPrototype[key]);
  function Segmenter(locales, given) {
    needNew(new.target, "Segmenter");
    const tags = localeList(locales), options = optionsObject(given);
    matcher(options);
    const granularity = option(options, "granularity", ["grapheme", "word", "sentence"], "grapheme");
    slotsSet(segmenterSlots, this, { found: resolve("plain", tags, {}), granularity });
  }
  define(Segmenter, "Segmenter", {
    segment(text) {
      const { granularity } = slotsOf(segmenterSlots, this, "Segmenter");
      const segments = Object.create(SegmentsPrototype);
      slotsSet(segmentsSlots, segments, { text: "" + text, granularity });
      return segments;
    },
    resolvedOptions() {
      const s = slotsOf(segmenterSlots, this, "Segmenter");
      return { locale: s.found.locale, granularity: s.granularity };
    },
  });

  // ── Locale ─────────────────────────────────────────────────────────────────────────────────

  const KEYWORDS = [["calendar", "ca"], ["collation", "co"], ["hourCycle", "hc"], ["caseFirst", "kf"], ["numeric", "kn"], ["numberingSystem", "nu"]];
  function Locale(tag, given) {
    needNew(new.target, "Locale");
    if (typeof tag !== "string" && !isObject(tag)) throw new TypeError("First argument to Intl.Locale constructor can't be empty or missing");
    const options = coercedOptions(given), changes = { __proto__: null, keywords: { __proto__: null } };
    const base = canonicalOne(tag);
    for (const name of ["language", "script", "region"]) { const value = option(options, name); if (value !== undefined) changes[name] = value; }
    for (const [name, key] of KEYWORDS) {
      let value;
      if (name === "hourCycle") value = option(options, name, ["h11", "h12", "h23", "h24"], undefined);
      else if (name === "caseFirst") value = option(options, name, ["upper", "lower", "false"], undefined);
      else if (name === "numeric") { value = flag(options, name, undefined); if (value !== undefined) value = "" + value; }
      else value = typeOption(options, name);
      if (value !== undefined) changes.keywords[key] = value;
    }
    slotsSet(localeSlots, this, native("locale", stringify(changes), base, undefined));
  }
  const localeOf = (self) => slotsOf(localeSlots, self, "Locale");
  const keyword = (self, key) => localeOf(self).keywords[key] ?? undefined;
  const customs = (self) => native("customs", "", localeOf(self).tag, undefined);
  const weekInfo = (self) => customs(self).week;
  define(Locale, "Locale", {
    toString() { return localeOf(this).tag; },
    maximize() { return new Locale(native("maximize", "", localeOf(this).tag, undefined)); },
    minimize() { return new Locale(native("minimize", "", localeOf(this).tag, undefined)); },
    getCalendars() { return customs(this).calendars; },
    getCollations() { return customs(this).collations ?? []; },
    getHourCycles() { return customs(this).hourCycles; },
    getNumberingSystems() { return customs(this).numberingSystems; },
    getTextInfo() { return { direction: customs(this).direction }; },
    getTimeZones() { return customs(this).timeZones ?? undefined; },
    getWeekInfo() { return weekInfo(this); },
  }, {
    get baseName() { return localeOf(this).base; },
    get language() { return localeOf(this).language; },
    get script() { return localeOf(this).script ?? undefined; },
    get region() { return localeOf(this).region ?? undefined; },
    get calendar() { return keyword(this, "ca"); },
    get collation() { return keyword(this, "co"); },
    get hourCycle() { return keyword(this, "hc"); },
    get caseFirst() { return keyword(this, "kf"); },
    get numeric() { return keyword(this, "kn") === "true"; },
    get numberingSystem() { return keyword(this, "nu"); },
    get textInfo() { return { direction: customs(this).direction }; },
    get weekInfo() { return weekInfo(this); },
    get calendars() { return customs(this).calendars; },
    get collations() { return customs(this).collations ?? []; },
    get hourCycles() { return customs(this).hourCycles; },
    get numberingSystems() { return customs(this).numberingSystems; },
    get timeZones() { return customs(this).timeZones ?? undefined; },
  });
  defineProperty(Locale, "length", { __proto__: null, value: 1, configurable: true });

  const values = {
    getCanonicalLocales(locales) { return localeList(locales); },
    supportedValuesOf(key) { key = "" + key; return key === "unit" ? UNITS.slice() : native("values", "", key, undefined); },
  };
  for (const name of ["getCanonicalLocales", "supportedValuesOf"]) hide(Intl, name, values[name]);

  return { Intl, numberText, dateText, temporalText, durationText, compare, changeCase, zoneName: (time) => native("zoneName", "", time, zone) };
}
