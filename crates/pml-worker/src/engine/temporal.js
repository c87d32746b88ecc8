// `Temporal`, as its specification describes it: classes that read fields and options, over one native function that computes.
//
// Called once, when a program first uses something of it. An object holds its value as an array that goes to the native side as
// JSON: a day of the ISO calendar and the name of a calendar, the fields of a time, nanoseconds as digits.
export default function temporal(native, now, zone, shared) {
  "use strict";

  const { Array, BigInt, JSON, Math, Number, Object, RangeError, Reflect, String, Symbol, TypeError, WeakMap } = globalThis;
  const { apply, defineProperty, getOwnPropertyDescriptor, ownKeys } = Reflect;
  const uncurry = (method) => (self, ...args) => apply(method, self, args);
  const hide = (target, name, value) =>
    defineProperty(target, name, { __proto__: null, value, writable: true, enumerable: false, configurable: true });
  const stringify = JSON.stringify;
  const slotsGet = uncurry(WeakMap.prototype.get), slotsSet = uncurry(WeakMap.prototype.set);
  const slice = uncurry(Array.prototype.slice), push = uncurry(Array.prototype.push), includes = uncurry(Array.prototype.includes);
  const test = uncurry(globalThis.RegExp.prototype.test);
  const create = Object.create;
  const isObject = (value) => (typeof value === "object" && value !== null) || typeof value === "function";
  const compute = (operation, ...args) => native(operation, stringify(args));

  // ── Values ─────────────────────────────────────────────────────────────────────────────────

  const slots = new WeakMap();
  const held = (value, kind) => {
    const own = isObject(value) ? slotsGet(slots, value) : undefined;
    return own !== undefined && (kind === undefined || own.kind === kind) ? own : undefined;
  };
  const keep = (object, kind, value) => { slotsSet(slots, object, { __proto__: null, kind, value, fields: undefined, local: undefined }); return object; };
  const own = (self, kind) => {
    const found = held(self, kind);
    if (found === undefined) throw new TypeError("a method or getter of Temporal." + kind + " is called on another value");
    return found;
  };
  const value = (self, kind) => own(self, kind).value;
  const prototypes = { __proto__: null };
  const make = (kind, state) => keep(create(prototypes[kind]), kind, state);

  // ── What programs pass ─────────────────────────────────────────────────────────────────────

  const shown = (value) => {
    if (typeof value === "symbol" || isObject(value)) return "a " + typeof value;
    const text = "" + value;
    return text.length > 60 ? text.slice(0, 60) + "…" : text;
  };
  const whole = (value, name) => {
    const number = +value;
    if (!Number.isFinite(number)) throw new RangeError(name + " is not a finite number: " + shown(value));
    return Math.trunc(number) + 0;
  };
  const positive = (value, name) => {
    const number = whole(value, name);
    if (number < 1) throw new RangeError(name + " is less than 1: " + shown(value));
    return number;
  };
  const integral = (value, name) => {
    const number = +value;
    if (!Number.isInteger(number)) throw new RangeError(name + " of a duration is not a whole number: " + shown(value));
    return number + 0;
  };
  const primitive = (value) => {
    if (!isObject(value)) return value;
    const convert = value[Symbol.toPrimitive];
    if (convert !== undefined && convert !== null) {
      const plain = apply(convert, value, ["string"]);
      if (isObject(plain)) throw new TypeError("a text is missing");
      return plain;
    }
    const text = typeof value.toString === "function" ? value.toString() : value;
    return isObject(text) ? value.valueOf() : text;
  };
  const text = (value, name) => {
    const plain = primitive(value);
    if (typeof plain !== "string") throw new TypeError(name + " is not a text: " + shown(plain));
    return plain;
  };
  const code = (value, name) => {
    const found = text(value, name);
    if (!test(/^M[0-9]{2}L?$/, found)) throw new RangeError(name + " is not a month code: " + shown(found));
    return found;
  };

  const optionsObject = (options) => {
    if (options === undefined) return { __proto__: null };
    if (!isObject(options)) throw new TypeError("the options are an object");
    return options;
  };
  const option = (options, name, values) => {
    let found = options[name];
    if (found === undefined) return undefined;
    found = "" + found;
    if (!includes(values, found)) throw new RangeError("Value " + shown(found) + " out of range for options property " + name);
    return found;
  };
  const MODES = ["ceil", "floor", "expand", "trunc", "halfCeil", "halfFloor", "halfExpand", "halfTrunc", "halfEven"];
  const DATE_UNITS = ["year", "month", "week", "day"], TIME_UNITS = ["hour", "minute", "second", "millisecond", "microsecond", "nanosecond"];
  const UNITS = [...DATE_UNITS, ...TIME_UNITS];
  const unit = (options, name, extra) => {
    let found = options[name];
    if (found === undefined) return undefined;
    found = "" + found;
    const single = found.endsWith("s") ? found.slice(0, -1) : found;
    if (!includes(UNITS, single) && found !== extra) throw new RangeError("Value " + shown(found) + " out of range for options property " + name);
    return found === extra ? found : single;
  };
  const increment = (options) => {
    const found = options.roundingIncrement;
    if (found === undefined) return undefined;
    const number = whole(found, "roundingIncrement");
    if (number < 1 || number > 1e9) throw new RangeError("roundingIncrement is out of range: " + shown(found));
    return number;
  };
  const roundingMode = (options) => option(options, "roundingMode", MODES);
  const fraction = (options) => {
    const found = options.fractionalSecondDigits;
    if (found === undefined) return undefined;
    if (typeof found !== "number") {
      if ("" + found !== "auto") throw new RangeError("fractionalSecondDigits is `auto` or 0 to 9: " + shown(found));
      return undefined;
    }
    const digits = Math.floor(found);
    if (!(digits >= 0 && digits <= 9)) throw new RangeError("fractionalSecondDigits is `auto` or 0 to 9: " + shown(found));
    return digits;
  };
  const overflow = (options) => ({ overflow: option(optionsObject(options), "overflow", ["constrain", "reject"]) });
  const difference = (given, allowed) => {
    const options = optionsObject(given);
    const largestUnit = unit(options, "largestUnit", "auto"), roundingIncrement = increment(options), mode = roundingMode(options);
    const smallestUnit = unit(options, "smallestUnit");
    for (const found of [largestUnit, smallestUnit]) {
      if (found !== undefined && found !== "auto" && !includes(allowed, found)) throw new RangeError("the unit " + found + " does not fit what is compared");
    }
    return { largestUnit, roundingIncrement, roundingMode: mode, smallestUnit };
  };
  /// The options of `round`, or a unit alone.
  const roundOptions = (given) => {
    if (given === undefined) throw new TypeError("round() needs a unit, or options with smallestUnit");
    if (typeof given === "string") return { __proto__: null, smallestUnit: given };
    return optionsObject(given);
  };
  const rounding = (given) => {
    const options = roundOptions(given);
    const roundingIncrement = increment(options), mode = roundingMode(options), smallestUnit = unit(options, "smallestUnit");
    if (smallestUnit === undefined) throw new RangeError("smallestUnit is missing");
    return { roundingIncrement, roundingMode: mode, smallestUnit };
  };
  const CALENDAR_NAMES = ["auto", "always", "never", "critical"];
  const textOptions = (options) => {
    const fractionalSecondDigits = fraction(options), mode = roundingMode(options), smallestUnit = unit(options, "smallestUnit");
    if (smallestUnit !== undefined && (smallestUnit === "hour" || !includes(TIME_UNITS, smallestUnit))) {
      throw new RangeError("Value " + smallestUnit + " out of range for options property smallestUnit");
    }
    return { fractionalSecondDigits, roundingMode: mode, smallestUnit };
  };

  const calendarOf = (value) => {
    const found = held(value);
    if (found !== undefined && found.kind !== "PlainTime" && found.kind !== "Instant" && found.kind !== "Duration") return found.value[found.value.length - 1];
    if (typeof value !== "string") throw new TypeError("a calendar is the name of one: " + shown(value));
    return compute("calendar.text", value);
  };
  const calendarName = (value) => {
    if (value === undefined) return "iso8601";
    if (typeof value !== "string") throw new TypeError("a calendar is the name of one: " + shown(value));
    return compute("calendar.id", value);
  };
  const zoneOf = (value) => {
    const found = held(value, "ZonedDateTime");
    if (found !== undefined) return found.value[1];
    if (typeof value !== "string") throw new TypeError("a time zone is the name of one: " + shown(value));
    return compute("zone.text", value);
  };
  const bagCalendar = (bag) => { const found = bag.calendar; return found === undefined ? "iso8601" : calendarOf(found); };

  const FIELDS = {
    __proto__: null, day: positive, era: (value) => "" + value, eraYear: whole, hour: whole, microsecond: whole, millisecond: whole, minute: whole,
    month: positive, monthCode: code, nanosecond: whole, offset: text, second: whole, timeZone: zoneOf, year: whole,
  };
  const ORDER = ownKeys(FIELDS);
  const TIME_FIELDS = ["hour", "minute", "second", "millisecond", "microsecond", "nanosecond"];
  /// The fields of an object, those of `names` that are there. In the ISO calendar there are no eras.
  const readBag = (bag, names, calendar) => {
    const fields = { __proto__: null };
    let isEmpty = true;
    for (let i = 0; i < ORDER.length; i++) {
      const name = ORDER[i];
      if (!includes(names, name) && (calendar === "iso8601" || !(name === "era" || name === "eraYear") || !includes(names, "year"))) continue;
      const found = bag[name];
      if (found === undefined) continue;
      fields[name] = FIELDS[name](found, name);
      isEmpty = false;
    }
    if (isEmpty) throw new TypeError("an object with at least one of " + names.join(", ") + " is missing");
    return fields;
  };
  /// What a method such as `with` takes: an object of fields, and nothing else that has a calendar or zone.
  const partial = (bag) => {
    if (!isObject(bag)) throw new TypeError("an object of fields is missing");
    if (held(bag) !== undefined || bag.calendar !== undefined || bag.timeZone !== undefined) throw new TypeError("the fields to change come without a calendar or time zone");
    return bag;
  };

  // ── Conversions ────────────────────────────────────────────────────────────────────────────

  const DATE = ["day", "month", "monthCode", "year"];
  const dateOf = (dateTime) => [dateTime[0], dateTime[1], dateTime[2], dateTime[9]];
  const timeOf = (dateTime) => slice(dateTime, 3, 9);
  const combined = (date, time) => compute("dateTime.new", [date[0], date[1], date[2], ...time, date[3]]);
  const MIDNIGHT = [0, 0, 0, 0, 0, 0];
  const local = (slot) => (slot.local ??= compute("zoned.local", slot.value));
  /// The local date and time of a value that has one.
  const dateTimeIn = (slot) => (slot.kind === "ZonedDateTime" ? local(slot).dateTime : slot.value);

  const badType = (item, kind) => new TypeError("cannot make a Temporal." + kind + " of " + shown(item));
  const toDate = (item, options) => {
    if (isObject(item)) {
      const slot = held(item);
      if (slot?.kind === "PlainDate") { overflow(options); return slot.value; }
      if (slot?.kind === "ZonedDateTime" || slot?.kind === "PlainDateTime") { const found = dateOf(dateTimeIn(slot)); overflow(options); return found; }
      const calendar = bagCalendar(item), fields = readBag(item, DATE, calendar);
      return compute("date.from", calendar, fields, overflow(options));
    }
    if (typeof item !== "string") throw badType(item, "PlainDate");
    const found = compute("date.parse", item);
    overflow(options);
    return found;
  };
  const toTime = (item, options) => {
    if (isObject(item)) {
      const slot = held(item);
      if (slot?.kind === "PlainTime") { overflow(options); return slot.value; }
      if (slot?.kind === "ZonedDateTime" || slot?.kind === "PlainDateTime") { const found = timeOf(dateTimeIn(slot)); overflow(options); return found; }
      const fields = readBag(item, TIME_FIELDS, "iso8601");
      return compute("time.from", fields, overflow(options));
    }
    if (typeof item !== "string") throw badType(item, "PlainTime");
    const found = compute("time.parse", item);
    overflow(options);
    return found;
  };
  const toDateTime = (item, options) => {
    if (isObject(item)) {
      const slot = held(item);
      if (slot?.kind === "PlainDateTime") { overflow(options); return slot.value; }
      if (slot?.kind === "ZonedDateTime") { const found = dateTimeIn(slot); overflow(options); return found; }
      if (slot?.kind === "PlainDate") { overflow(options); return combined(slot.value, MIDNIGHT); }
      const calendar = bagCalendar(item), fields = readBag(item, [...DATE, ...TIME_FIELDS], calendar);
      return compute("dateTime.from", calendar, fields, overflow(options));
    }
    if (typeof item !== "string") throw badType(item, "PlainDateTime");
    const found = compute("dateTime.parse", item);
    overflow(options);
    return found;
  };
  const YEAR_MONTH = ["month", "monthCode", "year"];
  const toYearMonth = (item, options) => {
    if (isObject(item)) {
      const slot = held(item, "PlainYearMonth");
      if (slot !== undefined) { overflow(options); return slot.value; }
      const calendar = bagCalendar(item), fields = readBag(item, YEAR_MONTH, calendar);
      return compute("yearMonth.from", calendar, fields, overflow(options));
    }
    if (typeof item !== "string") throw badType(item, "PlainYearMonth");
    const found = compute("yearMonth.parse", item);
    overflow(options);
    return found;
  };
  const toMonthDay = (item, options) => {
    if (isObject(item)) {
      const slot = held(item, "PlainMonthDay");
      if (slot !== undefined) { overflow(options); return slot.value; }
      const calendar = bagCalendar(item), fields = readBag(item, DATE, calendar);
      return compute("monthDay.from", calendar, fields, overflow(options));
    }
    if (typeof item !== "string") throw badType(item, "PlainMonthDay");
    const found = compute("monthDay.parse", item);
    overflow(options);
    return found;
  };
  const toInstant = (item) => {
    const slot = held(item);
    if (slot?.kind === "Instant") return slot.value;
    if (slot?.kind === "ZonedDateTime") return slot.value[0];
    const plain = primitive(item);
    if (typeof plain !== "string") throw badType(plain, "Instant");
    return compute("instant.parse", plain);
  };
  const DISAMBIGUATIONS = ["compatible", "earlier", "later", "reject"], OFFSETS = ["prefer", "use", "ignore", "reject"];
  const zonedOptions = (given) => {
    const options = optionsObject(given);
    const disambiguation = option(options, "disambiguation", DISAMBIGUATIONS), offset = option(options, "offset", OFFSETS);
    return { disambiguation, offset, overflow: option(options, "overflow", ["constrain", "reject"]) };
  };
  const ZONED = [...DATE, ...TIME_FIELDS, "offset"];
  const zonedFromBag = (item, options) => {
    const calendar = bagCalendar(item), { timeZone, ...fields } = readBag(item, [...ZONED, "timeZone"], calendar);
    if (timeZone === undefined) throw new TypeError("`timeZone` is missing");
    return compute("zoned.from", calendar, timeZone, fields, zonedOptions(options));
  };
  const toZoned = (item, options) => {
    if (isObject(item)) {
      const slot = held(item, "ZonedDateTime");
      if (slot !== undefined) { zonedOptions(options); return slot.value; }
      return zonedFromBag(item, options);
    }
    if (typeof item !== "string") throw badType(item, "ZonedDateTime");
    // A text that is none is told before options that are none.
    compute("zoned.parse", item, { offset: "ignore" });
    return compute("zoned.parse", item, zonedOptions(options));
  };
  const LENGTHS = ["years", "months", "weeks", "days", "hours", "minutes", "seconds", "milliseconds", "microseconds", "nanoseconds"];
  const SORTED_LENGTHS = ["days", "hours", "microseconds", "milliseconds", "minutes", "months", "nanoseconds", "seconds", "weeks", "years"];
  const readLengths = (item, before) => {
    const lengths = slice(before);
    let isEmpty = true;
    for (let i = 0; i < SORTED_LENGTHS.length; i++) {
      const name = SORTED_LENGTHS[i], found = item[name];
      if (found === undefined) continue;
      lengths[LENGTHS.indexOf(name)] = integral(found, name);
      isEmpty = false;
    }
    if (isEmpty) {
      const singular = LENGTHS.find((name) => item[name.slice(0, -1)] !== undefined);
      throw new TypeError(singular === undefined ? "an object with at least one of " + LENGTHS.join(", ") + " is missing"
        : "the fields of a duration are in the plural: `" + singular + "`, not `" + singular.slice(0, -1) + "`");
    }
    return compute("duration.new", lengths);
  };
  const NOTHING = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
  const toDuration = (item) => {
    if (isObject(item)) return held(item, "Duration")?.value ?? readLengths(item, NOTHING);
    if (typeof item !== "string") throw badType(item, "Duration");
    return compute("duration.parse", item);
  };
  const relativeTo = (options) => {
    const item = options.relativeTo;
    if (item === undefined) return null;
    if (isObject(item)) {
      const slot = held(item);
      if (slot?.kind === "ZonedDateTime") return { zoned: slot.value };
      if (slot?.kind === "PlainDate") return { date: slot.value };
      if (slot?.kind === "PlainDateTime") return { date: dateOf(slot.value) };
      const calendar = bagCalendar(item), { timeZone, ...fields } = readBag(item, [...ZONED, "timeZone"], calendar);
      return timeZone === undefined ? { date: compute("date.from", calendar, fields, {}) } : { zoned: compute("zoned.from", calendar, timeZone, fields, {}) };
    }
    if (typeof item !== "string") throw badType(item, "PlainDate");
    compute("duration.relative", { text: item });
    return { text: item };
  };
  const sameCalendar = (one, other) => {
    if (one[one.length - 1] !== other[other.length - 1]) throw new RangeError("the calendars are different: " + one[one.length - 1] + " and " + other[other.length - 1]);
  };
  const order = (one, other, length) => {
    for (let i = 0; i < length; i++) if (one[i] !== other[i]) return one[i] < other[i] ? -1 : 1;
    return 0;
  };
  const isSame = (one, other) => {
    for (let i = 0; i < one.length; i++) if (one[i] !== other[i]) return false;
    return true;
  };
  const floorDivide = (value, by) => { const quotient = value / by; return value % by < 0n ? quotient - 1n : quotient; };
  const milliseconds = (nanoseconds) => Number(floorDivide(BigInt(nanoseconds), 1000000n));
  const nanosecondsOf = (value) => {
    if (typeof value === "number") throw new TypeError("nanoseconds are a bigint: " + shown(value));
    return "" + BigInt(value);
  };

  // ── Classes ────────────────────────────────────────────────────────────────────────────────

  const DATE_GETTERS = ["era", "eraYear", "year", "month", "monthCode", "day", "dayOfWeek", "dayOfYear", "weekOfYear", "yearOfWeek", "daysInWeek", "daysInMonth", "daysInYear", "monthsInYear", "inLeapYear"];
  const getter = (prototype, name, read) => {
    const { get } = getOwnPropertyDescriptor({ get [name]() { return read(this); } }, name);
    defineProperty(prototype, name, { __proto__: null, get, set: undefined, enumerable: false, configurable: true });
  };
  /// Getters of a calendar's fields, which are computed together when the first is read.
  const fieldGetters = (kind, names, compute) => {
    for (const name of names) getter(prototypes[kind], name, (self) => { const slot = own(self, kind); return (slot.fields ??= compute(slot))[name] ?? undefined; });
  };
  const noOrder = (kind, instead) => {
    const valueOf = { valueOf() { throw new TypeError("a Temporal." + kind + " has no order by < and >: use " + instead); } }.valueOf;
    hide(prototypes[kind], "valueOf", valueOf);
  };
  const Temporal = {};
  defineProperty(Temporal, Symbol.toStringTag, { __proto__: null, value: "Temporal", configurable: true });
  const define = (constructor, length) => {
    const kind = constructor.name, { prototype } = constructor;
    prototypes[kind] = prototype;
    defineProperty(prototype, Symbol.toStringTag, { __proto__: null, value: "Temporal." + kind, configurable: true });
    defineProperty(constructor, "length", { __proto__: null, value: length, configurable: true });
    noOrder(kind, kind === "PlainMonthDay" ? "equals()" : "Temporal." + kind + ".compare()");
    hide(Temporal, kind, constructor);
  };
  const localText = (kind, state, locales, options) => shared.intl().temporalText({ kind, value: state }, locales, options);
  const withCalendarOf = (state, calendar) => { const copy = slice(state); copy[copy.length - 1] = calendarOf(calendar); return copy; };

  class PlainDate {
    constructor(year, month, day, calendar = undefined) {
      const fields = [whole(year, "year"), whole(month, "month"), whole(day, "day")];
      keep(this, "PlainDate", compute("date.new", [...fields, calendarName(calendar)]));
    }
    static from(item, options = undefined) { return make("PlainDate", toDate(item, options)); }
    static compare(one, two) { return order(toDate(one), toDate(two), 3); }
    get calendarId() { return value(this, "PlainDate")[3]; }
    with(fields, options = undefined) {
      const state = value(this, "PlainDate"), bag = readBag(partial(fields), DATE, state[3]);
      return make("PlainDate", compute("date.with", state, bag, overflow(options)));
    }
    withCalendar(calendar) { return make("PlainDate", withCalendarOf(value(this, "PlainDate"), calendar)); }
    add(duration, options = undefined) { const state = value(this, "PlainDate"), lengths = toDuration(duration); return make("PlainDate", compute("date.add", state, lengths, overflow(options))); }
    subtract(duration, options = undefined) { const state = value(this, "PlainDate"), lengths = toDuration(duration); return make("PlainDate", compute("date.subtract", state, lengths, overflow(options))); }
    until(other, options = undefined) { return dateDifference("until", this, other, options); }
    since(other, options = undefined) { return dateDifference("since", this, other, options); }
    equals(other) { return isSame(value(this, "PlainDate"), toDate(other)); }
    toPlainYearMonth() { return make("PlainYearMonth", compute("date.yearMonth", value(this, "PlainDate"))); }
    toPlainMonthDay() { return make("PlainMonthDay", compute("date.monthDay", value(this, "PlainDate"))); }
    toPlainDateTime(time = undefined) { const state = value(this, "PlainDate"); return make("PlainDateTime", combined(state, time === undefined ? MIDNIGHT : toTime(time))); }
    toZonedDateTime(item) {
      const state = value(this, "PlainDate");
      let timeZone = item, time;
      if (isObject(item) && held(item, "ZonedDateTime") === undefined && item.timeZone !== undefined) { timeZone = item.timeZone; time = item.plainTime; }
      const name = zoneOf(timeZone);
      return make("ZonedDateTime", compute("date.zoned", state, name, time === undefined ? null : toTime(time)));
    }
    toString(options = undefined) { const state = value(this, "PlainDate"); return compute("date.text", state, { calendarName: option(optionsObject(options), "calendarName", CALENDAR_NAMES) }); }
    toJSON() { return compute("date.text", value(this, "PlainDate"), {}); }
    toLocaleString(locales = undefined, options = undefined) { return localText("PlainDate", value(this, "PlainDate"), locales, options); }
  }
  define(PlainDate, 3);
  fieldGetters("PlainDate", DATE_GETTERS, (slot) => compute("date.fields", slot.value));
  const dateDifference = (operation, self, other, options) => {
    const one = value(self, "PlainDate"), two = toDate(other);
    sameCalendar(one, two);
    return make("Duration", compute("date." + operation, one, two, difference(options, DATE_UNITS)));
  };

  class PlainTime {
    constructor(hour = 0, minute = 0, second = 0, millisecond = 0, microsecond = 0, nanosecond = 0) {
      const fields = [whole(hour, "hour"), whole(minute, "minute"), whole(second, "second"), whole(millisecond, "millisecond"), whole(microsecond, "microsecond"), whole(nanosecond, "nanosecond")];
      keep(this, "PlainTime", compute("time.new", fields));
    }
    static from(item, options = undefined) { return make("PlainTime", toTime(item, options)); }
    static compare(one, two) { return order(toTime(one), toTime(two), 6); }
    with(fields, options = undefined) {
      const state = value(this, "PlainTime"), bag = readBag(partial(fields), TIME_FIELDS, "iso8601");
      return make("PlainTime", compute("time.with", state, bag, overflow(options)));
    }
    add(duration) { return make("PlainTime", compute("time.add", value(this, "PlainTime"), toDuration(duration))); }
    subtract(duration) { return make("PlainTime", compute("time.subtract", value(this, "PlainTime"), toDuration(duration))); }
    until(other, options = undefined) { return timeDifference("until", this, other, options); }
    since(other, options = undefined) { return timeDifference("since", this, other, options); }
    round(options) { return make("PlainTime", compute("time.round", value(this, "PlainTime"), rounding(options))); }
    equals(other) { return isSame(value(this, "PlainTime"), toTime(other)); }
    toString(options = undefined) { const state = value(this, "PlainTime"); return compute("time.text", state, textOptions(optionsObject(options))); }
    toJSON() { return compute("time.text", value(this, "PlainTime"), {}); }
    toLocaleString(locales = undefined, options = undefined) { return localText("PlainTime", value(this, "PlainTime"), locales, options); }
  }
  define(PlainTime, 0);
  TIME_FIELDS.forEach((name, index) => getter(PlainTime.prototype, name, (self) => value(self, "PlainTime")[index]));
  const timeDifference = (operation, self, other, options) => {
    const one = value(self, "PlainTime"), two = toTime(other);
    return make("Duration", compute("time." + operation, one, two, difference(options, TIME_UNITS)));
  };

  class PlainDateTime {
    constructor(year, month, day, hour = 0, minute = 0, second = 0, millisecond = 0, microsecond = 0, nanosecond = 0, calendar = undefined) {
      const fields = [whole(year, "year"), whole(month, "month"), whole(day, "day"), whole(hour, "hour"), whole(minute, "minute"), whole(second, "second"), whole(millisecond, "millisecond"), whole(microsecond, "microsecond"), whole(nanosecond, "nanosecond")];
      keep(this, "PlainDateTime", compute("dateTime.new", [...fields, calendarName(calendar)]));
    }
    static from(item, options = undefined) { return make("PlainDateTime", toDateTime(item, options)); }
    static compare(one, two) { return order(toDateTime(one), toDateTime(two), 9); }
    get calendarId() { return value(this, "PlainDateTime")[9]; }
    with(fields, options = undefined) {
      const state = value(this, "PlainDateTime"), bag = readBag(partial(fields), [...DATE, ...TIME_FIELDS], state[9]);
      return make("PlainDateTime", compute("dateTime.with", state, bag, overflow(options)));
    }
    withPlainTime(time = undefined) { const state = value(this, "PlainDateTime"); return make("PlainDateTime", combined(dateOf(state), time === undefined ? MIDNIGHT : toTime(time))); }
    withCalendar(calendar) { return make("PlainDateTime", withCalendarOf(value(this, "PlainDateTime"), calendar)); }
    add(duration, options = undefined) { const state = value(this, "PlainDateTime"), lengths = toDuration(duration); return make("PlainDateTime", compute("dateTime.add", state, lengths, overflow(options))); }
    subtract(duration, options = undefined) { const state = value(this, "PlainDateTime"), lengths = toDuration(duration); return make("PlainDateTime", compute("dateTime.subtract", state, lengths, overflow(options))); }
    until(other, options = undefined) { return dateTimeDifference("until", this, other, options); }
    since(other, options = undefined) { return dateTimeDifference("since", this, other, options); }
    round(options) { return make("PlainDateTime", compute("dateTime.round", value(this, "PlainDateTime"), rounding(options))); }
    equals(other) { return isSame(value(this, "PlainDateTime"), toDateTime(other)); }
    toZonedDateTime(timeZone, options = undefined) {
      const state = value(this, "PlainDateTime"), name = zoneOf(timeZone);
      return make("ZonedDateTime", compute("dateTime.zoned", state, name, { disambiguation: option(optionsObject(options), "disambiguation", DISAMBIGUATIONS) }));
    }
    toPlainDate() { return make("PlainDate", dateOf(value(this, "PlainDateTime"))); }
    toPlainTime() { return make("PlainTime", timeOf(value(this, "PlainDateTime"))); }
    toString(given = undefined) {
      const state = value(this, "PlainDateTime"), options = optionsObject(given);
      return compute("dateTime.text", state, { calendarName: option(options, "calendarName", CALENDAR_NAMES), ...textOptions(options) });
    }
    toJSON() { return compute("dateTime.text", value(this, "PlainDateTime"), {}); }
    toLocaleString(locales = undefined, options = undefined) { return localText("PlainDateTime", value(this, "PlainDateTime"), locales, options); }
  }
  define(PlainDateTime, 3);
  fieldGetters("PlainDateTime", DATE_GETTERS, (slot) => compute("date.fields", dateOf(slot.value)));
  TIME_FIELDS.forEach((name, index) => getter(PlainDateTime.prototype, name, (self) => value(self, "PlainDateTime")[3 + index]));
  const dateTimeDifference = (operation, self, other, options) => {
    const one = value(self, "PlainDateTime"), two = toDateTime(other);
    sameCalendar(one, two);
    return make("Duration", compute("dateTime." + operation, one, two, difference(options, UNITS)));
  };

  class PlainYearMonth {
    constructor(year, month, calendar = undefined, referenceDay = 1) {
      const fields = [whole(year, "year"), whole(month, "month")], name = calendarName(calendar);
      keep(this, "PlainYearMonth", compute("yearMonth.new", [...fields, whole(referenceDay, "referenceISODay"), name]));
    }
    static from(item, options = undefined) { return make("PlainYearMonth", toYearMonth(item, options)); }
    static compare(one, two) { return order(toYearMonth(one), toYearMonth(two), 3); }
    get calendarId() { return value(this, "PlainYearMonth")[3]; }
    with(fields, options = undefined) {
      const state = value(this, "PlainYearMonth"), bag = readBag(partial(fields), YEAR_MONTH, state[3]);
      return make("PlainYearMonth", compute("yearMonth.with", state, bag, overflow(options)));
    }
    add(duration, options = undefined) { const state = value(this, "PlainYearMonth"), lengths = toDuration(duration); return make("PlainYearMonth", compute("yearMonth.add", state, lengths, overflow(options))); }
    subtract(duration, options = undefined) { const state = value(this, "PlainYearMonth"), lengths = toDuration(duration); return make("PlainYearMonth", compute("yearMonth.subtract", state, lengths, overflow(options))); }
    until(other, options = undefined) { return monthDifference("until", this, other, options); }
    since(other, options = undefined) { return monthDifference("since", this, other, options); }
    equals(other) { return isSame(value(this, "PlainYearMonth"), toYearMonth(other)); }
    toPlainDate(fields) {
      const state = value(this, "PlainYearMonth");
      if (!isObject(fields)) throw new TypeError("an object with a `day` is missing");
      const bag = readBag(fields, ["day"], "iso8601");
      return make("PlainDate", compute("yearMonth.date", state, bag));
    }
    toString(options = undefined) { const state = value(this, "PlainYearMonth"); return compute("yearMonth.text", state, { calendarName: option(optionsObject(options), "calendarName", CALENDAR_NAMES) }); }
    toJSON() { return compute("yearMonth.text", value(this, "PlainYearMonth"), {}); }
    toLocaleString(locales = undefined, options = undefined) { return localText("PlainYearMonth", value(this, "PlainYearMonth"), locales, options); }
  }
  define(PlainYearMonth, 2);
  fieldGetters("PlainYearMonth", ["era", "eraYear", "year", "month", "monthCode", "daysInMonth", "daysInYear", "monthsInYear", "inLeapYear"], (slot) => compute("yearMonth.fields", slot.value));
  const monthDifference = (operation, self, other, options) => {
    const one = value(self, "PlainYearMonth"), two = toYearMonth(other);
    sameCalendar(one, two);
    return make("Duration", compute("yearMonth." + operation, one, two, difference(options, ["year", "month"])));
  };

  class PlainMonthDay {
    constructor(month, day, calendar = undefined, referenceYear = 1972) {
      const fields = [whole(month, "month"), whole(day, "day")], name = calendarName(calendar);
      keep(this, "PlainMonthDay", compute("monthDay.new", [whole(referenceYear, "referenceISOYear"), ...fields, name]));
    }
    static from(item, options = undefined) { return make("PlainMonthDay", toMonthDay(item, options)); }
    get calendarId() { return value(this, "PlainMonthDay")[3]; }
    with(fields, options = undefined) {
      const state = value(this, "PlainMonthDay"), bag = readBag(partial(fields), DATE, state[3]);
      return make("PlainMonthDay", compute("monthDay.with", state, bag, overflow(options)));
    }
    equals(other) { return isSame(value(this, "PlainMonthDay"), toMonthDay(other)); }
    toPlainDate(fields) {
      const state = value(this, "PlainMonthDay");
      if (!isObject(fields)) throw new TypeError("an object with a `year` is missing");
      return make("PlainDate", compute("monthDay.date", state, readBag(fields, ["year"], state[3])));
    }
    toString(options = undefined) { const state = value(this, "PlainMonthDay"); return compute("monthDay.text", state, { calendarName: option(optionsObject(options), "calendarName", CALENDAR_NAMES) }); }
    toJSON() { return compute("monthDay.text", value(this, "PlainMonthDay"), {}); }
    toLocaleString(locales = undefined, options = undefined) { return localText("PlainMonthDay", value(this, "PlainMonthDay"), locales, options); }
  }
  define(PlainMonthDay, 2);
  fieldGetters("PlainMonthDay", ["monthCode", "day"], (slot) => compute("monthDay.fields", slot.value));

  class Instant {
    constructor(epochNanoseconds) { keep(this, "Instant", compute("instant.new", nanosecondsOf(epochNanoseconds))); }
    static from(item) { return make("Instant", toInstant(item)); }
    static fromEpochMilliseconds(epochMilliseconds) { return instantOf(+epochMilliseconds); }
    static fromEpochNanoseconds(epochNanoseconds) { return make("Instant", compute("instant.new", nanosecondsOf(epochNanoseconds))); }
    static compare(one, two) { const first = BigInt(toInstant(one)), second = BigInt(toInstant(two)); return first < second ? -1 : first > second ? 1 : 0; }
    get epochMilliseconds() { return milliseconds(value(this, "Instant")); }
    get epochNanoseconds() { return BigInt(value(this, "Instant")); }
    add(duration) { return make("Instant", compute("instant.add", value(this, "Instant"), toDuration(duration))); }
    subtract(duration) { return make("Instant", compute("instant.subtract", value(this, "Instant"), toDuration(duration))); }
    until(other, options = undefined) { return instantDifference("until", this, other, options); }
    since(other, options = undefined) { return instantDifference("since", this, other, options); }
    round(options) { return make("Instant", compute("instant.round", value(this, "Instant"), rounding(options))); }
    equals(other) { return value(this, "Instant") === toInstant(other); }
    toZonedDateTimeISO(timeZone) { return make("ZonedDateTime", compute("zoned.new", [value(this, "Instant"), zoneOf(timeZone), "iso8601"])); }
    toString(given = undefined) {
      const state = value(this, "Instant"), options = optionsObject(given), shown = textOptions(options), { timeZone } = options;
      return compute("instant.text", state, timeZone === undefined ? null : zoneOf(timeZone), shown);
    }
    toJSON() { return compute("instant.text", value(this, "Instant"), null, {}); }
    toLocaleString(locales = undefined, options = undefined) { return localText("Instant", value(this, "Instant"), locales, options); }
  }
  define(Instant, 1);
  const instantOf = (time) => {
    if (!Number.isInteger(time)) throw new RangeError("the time is not a whole number of milliseconds: " + shown(time));
    return make("Instant", compute("instant.new", "" + BigInt(time) * 1000000n));
  };
  const instantDifference = (operation, self, other, options) => {
    const one = value(self, "Instant"), two = toInstant(other);
    return make("Duration", compute("instant." + operation, one, two, difference(options, TIME_UNITS)));
  };

  class ZonedDateTime {
    constructor(epochNanoseconds, timeZone, calendar = undefined) {
      const nanoseconds = nanosecondsOf(epochNanoseconds);
      if (typeof timeZone !== "string") throw new TypeError("a time zone is the name of one: " + shown(timeZone));
      const name = compute("zone.id", timeZone);
      keep(this, "ZonedDateTime", compute("zoned.new", [nanoseconds, name, calendarName(calendar)]));
    }
    static from(item, options = undefined) { return make("ZonedDateTime", toZoned(item, options)); }
    static compare(one, two) { const first = BigInt(toZoned(one)[0]), second = BigInt(toZoned(two)[0]); return first < second ? -1 : first > second ? 1 : 0; }
    get calendarId() { return value(this, "ZonedDateTime")[2]; }
    get timeZoneId() { return value(this, "ZonedDateTime")[1]; }
    get epochMilliseconds() { return milliseconds(value(this, "ZonedDateTime")[0]); }
    get epochNanoseconds() { return BigInt(value(this, "ZonedDateTime")[0]); }
    get offset() { return local(own(this, "ZonedDateTime")).offset; }
    get offsetNanoseconds() { return local(own(this, "ZonedDateTime")).offsetNanoseconds; }
    get hoursInDay() { return compute("zoned.hoursInDay", value(this, "ZonedDateTime")); }
    with(fields, options = undefined) {
      const state = value(this, "ZonedDateTime"), bag = readBag(partial(fields), ZONED, state[2]), chosen = zonedOptions(options);
      return make("ZonedDateTime", compute("zoned.with", state, bag, { ...chosen, offset: chosen.offset ?? "prefer" }));
    }
    withPlainTime(time = undefined) { const state = value(this, "ZonedDateTime"); return make("ZonedDateTime", compute("zoned.withTime", state, time === undefined ? null : toTime(time))); }
    withTimeZone(timeZone) { const state = value(this, "ZonedDateTime"); return make("ZonedDateTime", compute("zoned.new", [state[0], zoneOf(timeZone), state[2]])); }
    withCalendar(calendar) { return make("ZonedDateTime", withCalendarOf(value(this, "ZonedDateTime"), calendar)); }
    add(duration, options = undefined) { const state = value(this, "ZonedDateTime"), lengths = toDuration(duration); return make("ZonedDateTime", compute("zoned.add", state, lengths, overflow(options))); }
    subtract(duration, options = undefined) { const state = value(this, "ZonedDateTime"), lengths = toDuration(duration); return make("ZonedDateTime", compute("zoned.subtract", state, lengths, overflow(options))); }
    until(other, options = undefined) { return zonedDifference("until", this, other, options); }
    since(other, options = undefined) { return zonedDifference("since", this, other, options); }
    round(options) { return make("ZonedDateTime", compute("zoned.round", value(this, "ZonedDateTime"), rounding(options))); }
    equals(other) { return compute("zoned.equals", value(this, "ZonedDateTime"), toZoned(other)); }
    startOfDay() { return make("ZonedDateTime", compute("zoned.startOfDay", value(this, "ZonedDateTime"))); }
    getTimeZoneTransition(given) {
      const state = value(this, "ZonedDateTime");
      if (given === undefined) throw new TypeError("a direction is missing: `next` or `previous`");
      const options = typeof given === "string" ? { __proto__: null, direction: given } : optionsObject(given);
      const direction = option(options, "direction", ["next", "previous"]);
      if (direction === undefined) throw new RangeError("a direction is missing: `next` or `previous`");
      const found = compute("zoned.transition", state, direction);
      return found === null ? null : make("ZonedDateTime", found);
    }
    toInstant() { return make("Instant", value(this, "ZonedDateTime")[0]); }
    toPlainDate() { return make("PlainDate", dateOf(dateTimeIn(own(this, "ZonedDateTime")))); }
    toPlainTime() { return make("PlainTime", timeOf(dateTimeIn(own(this, "ZonedDateTime")))); }
    toPlainDateTime() { return make("PlainDateTime", dateTimeIn(own(this, "ZonedDateTime"))); }
    toString(given = undefined) {
      const state = value(this, "ZonedDateTime"), options = optionsObject(given);
      const calendarName = option(options, "calendarName", CALENDAR_NAMES), fractionalSecondDigits = fraction(options);
      const offset = option(options, "offset", ["auto", "never"]), mode = roundingMode(options);
      const { smallestUnit } = textOptions({ smallestUnit: options.smallestUnit });
      const timeZoneName = option(options, "timeZoneName", ["auto", "never", "critical"]);
      return compute("zoned.text", state, { calendarName, fractionalSecondDigits, offset, roundingMode: mode, smallestUnit, timeZoneName });
    }
    toJSON() { return compute("zoned.text", value(this, "ZonedDateTime"), {}); }
    toLocaleString(locales = undefined, options = undefined) {
      const slot = own(this, "ZonedDateTime");
      return localText("ZonedDateTime", slot.value, locales, options);
    }
  }
  define(ZonedDateTime, 2);
  fieldGetters("ZonedDateTime", DATE_GETTERS, (slot) => compute("date.fields", dateOf(dateTimeIn(slot))));
  TIME_FIELDS.forEach((name, index) => getter(ZonedDateTime.prototype, name, (self) => dateTimeIn(own(self, "ZonedDateTime"))[3 + index]));
  const zonedDifference = (operation, self, other, options) => {
    const one = value(self, "ZonedDateTime"), two = toZoned(other);
    sameCalendar(one, two);
    return make("Duration", compute("zoned." + operation, one, two, difference(options, UNITS)));
  };

  class Duration {
    constructor(years = 0, months = 0, weeks = 0, days = 0, hours = 0, minutes = 0, seconds = 0, milliseconds = 0, microseconds = 0, nanoseconds = 0) {
      const given = [years, months, weeks, days, hours, minutes, seconds, milliseconds, microseconds, nanoseconds];
      for (let i = 0; i < given.length; i++) given[i] = integral(given[i], LENGTHS[i]);
      keep(this, "Duration", compute("duration.new", given));
    }
    static from(item) { return make("Duration", toDuration(item)); }
    static compare(one, two, options = undefined) {
      const first = toDuration(one), second = toDuration(two);
      return compute("duration.compare", first, second, relativeTo(optionsObject(options)));
    }
    get sign() { for (const length of value(this, "Duration")) if (length !== 0) return length < 0 ? -1 : 1; return 0; }
    get blank() { return isSame(value(this, "Duration"), NOTHING); }
    with(fields) {
      const state = value(this, "Duration");
      if (!isObject(fields)) throw new TypeError("an object of lengths is missing");
      return make("Duration", readLengths(fields, state));
    }
    negated() { return make("Duration", value(this, "Duration").map((length) => 0 - length)); }
    abs() { return make("Duration", value(this, "Duration").map((length) => Math.abs(length))); }
    add(other) { return make("Duration", compute("duration.add", value(this, "Duration"), toDuration(other))); }
    subtract(other) { return make("Duration", compute("duration.subtract", value(this, "Duration"), toDuration(other))); }
    round(given) {
      const state = value(this, "Duration"), options = roundOptions(given);
      const largestUnit = unit(options, "largestUnit", "auto"), relative = relativeTo(options);
      const roundingIncrement = increment(options), mode = roundingMode(options), smallestUnit = unit(options, "smallestUnit");
      if (largestUnit === undefined && smallestUnit === undefined) throw new RangeError("smallestUnit or largestUnit is missing");
      return make("Duration", compute("duration.round", state, { largestUnit, roundingIncrement, roundingMode: mode, smallestUnit }, relative));
    }
    total(given) {
      const state = value(this, "Duration");
      if (given === undefined) throw new TypeError("total() needs a unit");
      const options = typeof given === "string" ? { __proto__: null, unit: given } : optionsObject(given);
      const relative = relativeTo(options), smallestUnit = unit(options, "unit");
      if (smallestUnit === undefined) throw new RangeError("unit is missing");
      return compute("duration.total", state, { smallestUnit }, relative);
    }
    toString(options = undefined) { const state = value(this, "Duration"); return compute("duration.text", state, textOptions(durationText(optionsObject(options)))); }
    toJSON() { return compute("duration.text", value(this, "Duration"), {}); }
    toLocaleString(locales = undefined, options = undefined) { return shared.intl().durationText(value(this, "Duration"), locales, options); }
  }
  /// The text of a duration shows no fewer than seconds.
  const durationText = (options) => {
    const given = { fractionalSecondDigits: options.fractionalSecondDigits, roundingMode: options.roundingMode, smallestUnit: options.smallestUnit };
    if (given.smallestUnit !== undefined && includes(["minute", "minutes"], "" + given.smallestUnit)) throw new RangeError("Value minute out of range for options property smallestUnit");
    return given;
  };
  define(Duration, 0);
  LENGTHS.forEach((name, index) => getter(Duration.prototype, name, (self) => value(self, "Duration")[index]));

  // ── Now ────────────────────────────────────────────────────────────────────────────────────

  const here = (timeZone) => { const name = timeZone === undefined ? zone : zoneOf(timeZone); return compute("zoned.new", [now(), name, "iso8601"]); };
  const localNow = (timeZone) => compute("zoned.local", here(timeZone)).dateTime;
  const Now = {};
  const clock = {
    timeZoneId() { return zone; },
    instant() { return make("Instant", compute("instant.new", now())); },
    zonedDateTimeISO(timeZone = undefined) { return make("ZonedDateTime", here(timeZone)); },
    plainDateTimeISO(timeZone = undefined) { return make("PlainDateTime", localNow(timeZone)); },
    plainDateISO(timeZone = undefined) { return make("PlainDate", dateOf(localNow(timeZone))); },
    plainTimeISO(timeZone = undefined) { return make("PlainTime", timeOf(localNow(timeZone))); },
  };
  for (const name of ownKeys(clock)) hide(Now, name, clock[name]);
  defineProperty(Now, Symbol.toStringTag, { __proto__: null, value: "Temporal.Now", configurable: true });
  hide(Temporal, "Now", Now);

  /// For `Intl`: the kind of a value and what it holds, and the lengths of what stands for a duration.
  shared.temporalOf = (value) => held(value);
  shared.toDuration = (value) => toDuration(value);

  const OPERATIONS = { __proto__: null, PlainDate: "date", PlainTime: "time", PlainDateTime: "dateTime", PlainYearMonth: "yearMonth", PlainMonthDay: "monthDay", ZonedDateTime: "zoned", Duration: "duration" };
  /// What the console prints, whatever the program has done to the methods.
  const printed = (value) => {
    const slot = held(value);
    if (slot === undefined) return undefined;
    const text = slot.kind === "Instant" ? compute("instant.text", slot.value, null, {}) : compute(OPERATIONS[slot.kind] + ".text", slot.value, {});
    return "Temporal." + slot.kind + " " + text;
  };

  return { Temporal, instantOf, shown: printed };
}
