// Has two implementations of Temporal answer the cases that the worker's is compared with: Node's own and temporal-polyfill,
// which share no code. Run by scripts/intl-data with a Node that has Temporal. Cases on which the two differ are left out.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const [packages, target] = process.argv.slice(2);
const require = createRequire(`${packages}/`);
const { Temporal: Polyfill } = require("temporal-polyfill/full/implementation");
const { version } = JSON.parse(readFileSync(`${packages}/temporal-polyfill/package.json`, "utf8"));

const cases = [];
const add = (...texts) => cases.push(...texts);
/// Each combination of the lists, in the places `$1`, `$2`, ….
const each = (template, ...lists) => {
  if (lists.length === 0) return add(template);
  const place = `$${lists.length}`;
  for (const value of lists.at(-1)) each(template.replaceAll(place, () => value), ...lists.slice(0, -1));
};
/// Every nth of the combinations.
const some = (n, template, ...lists) => {
  const start = cases.length;
  each(template, ...lists);
  const made = cases.splice(start);
  cases.push(...made.filter((_, index) => index % n === 0));
};
const quoted = (values) => values.map((value) => JSON.stringify(value));

const DATES = quoted(["2026-03-01", "2024-02-29", "2023-12-31", "1999-01-31", "-000001-06-15", "+010000-10-10", "1970-01-01"]);
const TIMES = quoted(["00:00", "09:30:15.123456789", "23:59:59.999999999", "12:00:00"]);
const DATE_TIMES = quoted(["2026-03-29T02:30:00", "2024-02-29T23:59:59.999999999", "2023-01-01T00:00", "1999-12-31T12:34:56.789"]);
const ZONES = ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC", "+05:30", "Africa/Casablanca", "America/Sao_Paulo"];
const ZONED = quoted(["2026-03-29T01:30:00+01:00[Europe/Berlin]", "2025-11-02T01:30:00-05:00[America/New_York]", "2024-07-01T00:00:00+05:30[Asia/Kolkata]",
  "2024-04-07T01:45:00+10:30[Australia/Lord_Howe]", "1900-01-01T00:00:00+00:00[UTC]", "2030-12-31T23:59:59.999999999-03:00[America/Sao_Paulo]"]);
const INSTANTS = quoted(["2026-03-01T00:00:00Z", "1969-12-31T23:59:59.999999999Z", "2024-02-29T12:34:56.789+05:30", "-271821-04-20T00:00Z"]);
const DURATIONS = ["{ days: 3 }", "{ months: 1 }", "{ years: 1, months: 2, weeks: 3, days: 4 }", "{ hours: 36, minutes: 90 }", "{ days: -40 }", "'P1Y2M3DT4H5M6.789S'", "'-PT1.5H'", "{ nanoseconds: 1 }", "'P1W'"];
const UNITS = quoted(["year", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond", "nanosecond"]);
const MODES = quoted(["ceil", "floor", "expand", "trunc", "halfCeil", "halfFloor", "halfExpand", "halfTrunc", "halfEven"]);
const FIELDS = "['era', 'eraYear', 'year', 'month', 'monthCode', 'day', 'dayOfWeek', 'dayOfYear', 'weekOfYear', 'yearOfWeek', 'daysInWeek', 'daysInMonth', 'daysInYear', 'monthsInYear', 'inLeapYear', 'calendarId']";
const CALENDARS = quoted(["gregory", "buddhist", "chinese", "coptic", "dangi", "ethiopic", "ethioaa", "hebrew", "indian", "islamic-civil", "islamic-tbla", "islamic-umalqura", "japanese", "persian", "roc"]);

// Dates
each("Temporal.PlainDate.from($1).$2($3)", DATES, ["add", "subtract"], DURATIONS);
each("Temporal.PlainDate.from($1).$2($3, { largestUnit: $4 })", DATES.slice(0, 4), ["until", "since"], DATES, UNITS.slice(0, 4));
some(2, "Temporal.PlainDate.from($1).until($2, { largestUnit: 'year', smallestUnit: $3, roundingMode: $4, roundingIncrement: 2 })", DATES.slice(0, 3), DATES.slice(2, 5), UNITS.slice(0, 4), MODES);
each(`(d => ${FIELDS}.map((name) => d[name]))(Temporal.PlainDate.from($1))`, DATES);
each(`(d => ${FIELDS}.map((name) => d[name]))(Temporal.PlainDate.from($1).withCalendar($2))`, DATES.slice(0, 4), CALENDARS);
each("Temporal.PlainDate.from($1).withCalendar($2).add({ years: 1, months: 1 }).toString()", DATES.slice(0, 4), CALENDARS);
each("Temporal.PlainDate.from($1).withCalendar($2).until(Temporal.PlainDate.from('2030-05-05').withCalendar($2), { largestUnit: 'year' })", DATES.slice(0, 3), CALENDARS);
each("Temporal.PlainDate.from($1).withCalendar($2).toPlainYearMonth()", DATES.slice(0, 2), CALENDARS);
each("Temporal.PlainDate.from($1).withCalendar($2).toPlainMonthDay()", DATES.slice(0, 2), CALENDARS);
each("Temporal.PlainDate.compare($1, $2)", DATES, DATES.slice(0, 3));
each("Temporal.PlainDate.from($1).with($2)", DATES.slice(0, 4), ["{ day: 31 }", "{ month: 2 }", "{ year: 2025 }", "{ monthCode: 'M05' }", "{ day: 0 }", "{ month: 13 }", "{}", "{ calendar: 'iso8601' }", "{ month: 3, monthCode: 'M04' }"]);
each("Temporal.PlainDate.from($1).with($2, { overflow: 'reject' })", DATES.slice(0, 4), ["{ day: 31 }", "{ month: 2 }", "{ day: 32 }"]);
each("Temporal.PlainDate.from($1).toString({ calendarName: $2 })", DATES.slice(0, 2), quoted(["auto", "always", "never", "critical", "other"]));
each("Temporal.PlainDate.from($1).toZonedDateTime($2)", DATES.slice(0, 3), [...quoted(ZONES), "{ timeZone: 'Asia/Tokyo', plainTime: '10:00' }"]);
each("Temporal.PlainDate.from($1).toPlainDateTime($2)", DATES.slice(0, 3), [...TIMES, ""]);
each("Temporal.PlainDate.from($1)", [...quoted(["2026-02-30", "2026-13-01", "20260301", "2026-03-01T25:00", "2026-03-01T10:00[Europe/Berlin]", "2026-03-01T10:00Z", "", "x", "2026-3-1", "2026-03-01[u-ca=hebrew]", "2026-03-01[u-ca=nope]", "2026-03-01[!foo=bar]",
  "+275760-09-13", "+275760-09-14", "-271821-04-19", "-271821-04-18", "-000000-01-01", "2026-03-01T00:00:00.1234567891", "−002026-03-01", "2026-W10-1"]), "20260301", "null", "undefined", "true", "{}", "{ year: 2026, month: 3 }", "{ year: 2026, month: 3, day: 40 }", "{ year: 2026.9, month: '3', day: 1 }",
  "{ year: Infinity, month: 3, day: 1 }", "{ year: 1e9, month: 3, day: 1 }", "{ year: 2026, monthCode: 'M02L', day: 1 }", "{ year: 2026, monthCode: 3, day: 1 }", "{ year: 2026, month: -1, day: 1 }", "{ year: 2026, month: 3, day: 1, calendar: 'japanese' }",
  "{ era: 'reiwa', eraYear: 6, month: 3, day: 1, calendar: 'japanese' }", "{ year: 5784, monthCode: 'M05L', day: 1, calendar: 'hebrew' }", "{ year: 5785, monthCode: 'M05L', day: 1, calendar: 'hebrew' }", "Symbol()", "5n"]);
each("new Temporal.PlainDate($1)", ["2026, 3, 1", "2026, 2, 30", "2026, 13, 1", "1e300, 1, 1", "NaN, 1, 1", "2026", "2026, 3, 1, 'hebrew'", "2026, 3, 1, 'HEBREW'", "2026, 3, 1, 5", "2026, 3, 1, '2020-01-01'", "275760, 9, 14", "'2026', '3', '1'", "2026.7, 3.9, 1.1", "2026, -1, 1", "2026, 0, 1", "2026, 300, 1"]);

// Times
each("Temporal.PlainTime.from($1).$2($3)", TIMES, ["add", "subtract"], DURATIONS);
some(2, "Temporal.PlainTime.from($1).$2($3, { largestUnit: $4 })", TIMES, ["until", "since"], TIMES, UNITS.slice(3));
some(2, "Temporal.PlainTime.from($1).round({ smallestUnit: $2, roundingMode: $3 })", TIMES.slice(1, 3), UNITS.slice(3), MODES);
each("Temporal.PlainTime.from($1).round({ smallestUnit: $2, roundingIncrement: $3 })", TIMES.slice(1, 2), quoted(["hour", "minutes", "second", "millisecond"]), ["1", "5", "7", "15", "30", "60", "0", "1e10", "NaN"]);
each("Temporal.PlainTime.from($1).toString($2)", TIMES.slice(1, 3), ["", "{ smallestUnit: 'minute' }", "{ fractionalSecondDigits: 3 }", "{ fractionalSecondDigits: 0 }", "{ fractionalSecondDigits: 10 }", "{ fractionalSecondDigits: 'auto' }", "{ fractionalSecondDigits: '3' }", "{ smallestUnit: 'second', roundingMode: 'ceil' }", "{ smallestUnit: 'hour' }", "{ smallestUnit: 'day' }"]);
each("Temporal.PlainTime.from($1)", [...quoted(["24:00", "12:60", "12", "1234", "T12", "12:34:60", "2026-03-01", "2026-03-01T10:11", "10:00Z", "10:00+01:00", "", "1230[u-ca=iso8601]"]), "{ hour: 25 }", "{ hour: -1 }", "{ hours: 1 }", "{ hour: 1, minute: 61 }", "12"]);
each("Temporal.PlainTime.from($1, { overflow: 'reject' })", ["{ hour: 25 }", "{ hour: -1 }", "{ hour: 1, minute: 61 }", "{ hour: 1 }", "{ millisecond: 70000 }"]);
each("Temporal.PlainTime.from($1).with($2)", TIMES.slice(1, 2), ["{ hour: 1 }", "{ minute: 99 }", "{}", "{ nanosecond: -1 }", "'10:00'"]);
each("new Temporal.PlainTime($1)", ["", "1, 2, 3, 4, 5, 6", "24", "-1", "1.9", "NaN", "1, 60", "'5'", "1e300"]);

// Dates with times
each("Temporal.PlainDateTime.from($1).$2($3)", DATE_TIMES, ["add", "subtract"], DURATIONS);
some(2, "Temporal.PlainDateTime.from($1).$2($3, { largestUnit: $4 })", DATE_TIMES, ["until", "since"], DATE_TIMES, UNITS);
some(3, "Temporal.PlainDateTime.from($1).until($2, { largestUnit: 'year', smallestUnit: $3, roundingMode: $4 })", DATE_TIMES.slice(0, 2), DATE_TIMES.slice(2), UNITS, MODES);
some(2, "Temporal.PlainDateTime.from($1).round({ smallestUnit: $2, roundingMode: $3 })", DATE_TIMES.slice(0, 2), UNITS, MODES.slice(0, 7));
each("Temporal.PlainDateTime.from($1).toZonedDateTime($2, { disambiguation: $3 })", [...DATE_TIMES.slice(0, 2), "'2026-10-25T02:30'"], quoted(ZONES), quoted(["compatible", "earlier", "later", "reject"]));
each("Temporal.PlainDateTime.from($1).toString($2)", DATE_TIMES, ["", "{ smallestUnit: 'minute' }", "{ fractionalSecondDigits: 2, roundingMode: 'halfExpand' }", "{ calendarName: 'always' }"]);
each("Temporal.PlainDateTime.from($1)", [...quoted(["2026-03-01", "2026-03-01 10:11", "2026-03-01t10:11:12,5", "2026-03-01T10:11Z", "2026-03-01T10:11+02:00", "2026-03-01T10:11+02:00[Europe/Berlin][u-ca=gregory]", "10:11", "2016-12-31T23:59:60"]), "{ year: 2026, month: 2, day: 30, hour: 25 }", "{ year: 2026, month: 3 }", "{ hour: 1 }"]);

// Months
each("Temporal.PlainYearMonth.from($1).$2($3)", quoted(["2026-03", "2024-02", "1999-12"]), ["add", "subtract"], DURATIONS);
each("Temporal.PlainYearMonth.from($1).$2($3, { largestUnit: $4 })", quoted(["2026-03", "2024-02"]), ["until", "since"], quoted(["2020-11", "2026-03", "2030-01"]), UNITS.slice(0, 3));
each("Temporal.PlainYearMonth.from($1)", [...quoted(["2026-03", "202603", "2026-03-15", "2026-13", "2026-03[u-ca=hebrew]", "2026-03-01[u-ca=hebrew]", "--03-01", "2026-03-15T10:00Z"]), "{ year: 2026 }", "{ year: 2026, month: 14 }", "{ year: 2026, monthCode: 'M04' }", "5"]);
each("(m => [m.year, m.month, m.monthCode, m.daysInMonth, m.daysInYear, m.monthsInYear, m.inLeapYear, m.calendarId, m.toPlainDate({ day: 31 }), m.with({ month: 2 }), JSON.stringify(m)])(Temporal.PlainYearMonth.from($1))", quoted(["2026-03", "2024-02", "1900-02"]));
each("new Temporal.PlainYearMonth($1)", ["2026, 3", "2026, 13", "2026", "2026, 3, 'iso8601', 15", "2026, 3, 'gregory', 15", "275760, 10", "2026, 2, 'iso8601', 30"]);
each("Temporal.PlainMonthDay.from($1)", [...quoted(["03-01", "0301", "--03-01", "02-29", "02-30", "2026-02-28", "2026-03-01[u-ca=hebrew]", "03-01[u-ca=gregory]", "13-01"]), "{ month: 2, day: 30 }", "{ monthCode: 'M02', day: 29 }", "{ day: 1 }", "{ month: 2, day: 29, year: 2023 }", "{ monthCode: 'M02', day: 29, calendar: 'gregory' }", "{ monthCode: 'M05L', day: 1, calendar: 'hebrew' }"]);
each("(d => [d.monthCode, d.day, d.calendarId, d.toPlainDate({ year: 2023 }), d.with({ day: 5 }), JSON.stringify(d), d.equals('02-29')])(Temporal.PlainMonthDay.from($1))", quoted(["02-29", "12-25"]));
each("new Temporal.PlainMonthDay($1)", ["3, 1", "2, 30", "13, 1", "2, 29", "2, 29, 'iso8601', 2023", "3"]);

// Instants
each("Temporal.Instant.from($1).$2($3)", INSTANTS, ["add", "subtract"], DURATIONS);
some(2, "Temporal.Instant.from($1).$2($3, { largestUnit: $4 })", INSTANTS.slice(0, 3), ["until", "since"], INSTANTS.slice(0, 3), UNITS.slice(3));
some(2, "Temporal.Instant.from($1).round({ smallestUnit: $2, roundingMode: $3 })", INSTANTS.slice(0, 3), UNITS.slice(3), MODES.slice(0, 7));
each("Temporal.Instant.from($1).toString($2)", INSTANTS.slice(0, 3), ["", "{ timeZone: 'Asia/Tokyo' }", "{ timeZone: '+01:00', smallestUnit: 'minute' }", "{ fractionalSecondDigits: 4 }", "{ timeZone: 'No/Where' }"]);
each("(i => [i.epochMilliseconds, i.epochNanoseconds, i.toZonedDateTimeISO('Europe/Paris'), JSON.stringify(i)])(Temporal.Instant.from($1))", INSTANTS);
each("Temporal.Instant.$1", ["fromEpochMilliseconds(1.5)", "fromEpochMilliseconds(8.64e15)", "fromEpochMilliseconds(8.64e15 + 1)", "fromEpochMilliseconds('5')", "fromEpochNanoseconds(5n)", "fromEpochNanoseconds(5)", "from('2026-03-01')", "from('2026-03-01T10:00')", "from('2026-03-01T10:00[Europe/Berlin]')", "from(5)", "from({})", "compare('2026-03-01T00:00Z', '2026-03-01T01:00+01:00')", "from('2016-12-31T23:59:60Z')"]);

// Zones
each("Temporal.ZonedDateTime.from($1).$2($3)", ZONED, ["add", "subtract"], DURATIONS);
some(2, "Temporal.ZonedDateTime.from($1).$2($3, { largestUnit: $4 })", ZONED.slice(0, 3), ["until", "since"], ZONED.slice(0, 3).map((zoned) => `Temporal.ZonedDateTime.from(${zoned}).add({ months: 14, days: 3, hours: 5 })`), UNITS);
each("Temporal.ZonedDateTime.from($1).withTimeZone($2)", ZONED, quoted(ZONES));
some(2, "Temporal.ZonedDateTime.from($1).round({ smallestUnit: $2, roundingMode: $3 })", ZONED, UNITS.slice(2), MODES.slice(0, 4));
each("(z => [z.hoursInDay, z.offset, z.offsetNanoseconds, z.startOfDay(), z.timeZoneId, z.getTimeZoneTransition('next'), z.getTimeZoneTransition('previous'), z.epochMilliseconds, z.epochNanoseconds, z.toPlainDate(), z.toPlainTime(), z.toPlainDateTime(), z.toInstant(), z.hour, z.dayOfWeek])(Temporal.ZonedDateTime.from($1))", ZONED);
each("Temporal.ZonedDateTime.from($1, { offset: $2 })", quoted(["2026-07-01T12:00:00+01:00[Europe/Berlin]", "2026-07-01T12:00:00+02:00[Europe/Berlin]", "2026-07-01T12:00:00Z[Europe/Berlin]", "2026-03-29T02:30:00+01:00[Europe/Berlin]"]), quoted(["prefer", "use", "ignore", "reject"]));
each("Temporal.ZonedDateTime.from($1, { disambiguation: $2 })", quoted(["2026-03-29T02:30:00[Europe/Berlin]", "2026-10-25T02:30:00[Europe/Berlin]", "2024-04-07T01:45[Australia/Lord_Howe]"]), quoted(["compatible", "earlier", "later", "reject"]));
each("Temporal.ZonedDateTime.from($1).with($2)", ZONED.slice(0, 3), ["{ hour: 2, minute: 30 }", "{ day: 31 }", "{ offset: '+02:00' }", "{ timeZone: 'UTC' }", "{ year: 2020, offset: 'x' }"]);
each("Temporal.ZonedDateTime.from($1).toString($2)", ZONED.slice(0, 3), ["{ offset: 'never' }", "{ timeZoneName: 'never' }", "{ timeZoneName: 'critical', calendarName: 'always' }", "{ smallestUnit: 'minute' }", "{ fractionalSecondDigits: 3 }"]);
each("Temporal.ZonedDateTime.from($1).withPlainTime($2)", ZONED.slice(0, 3), [...TIMES, "", "'02:30'"]);
each("Temporal.ZonedDateTime.from($1)", [...quoted(["2026-03-01T00:00", "2026-03-01T00:00Z", "2026-03-01[Europe/Berlin]", "2026-03-01T00:00[europe/berlin]", "2026-03-01T00:00[No/Where]", "2026-03-01T00:00[+01:00]", "2026-03-01T00:00[+01:00:30]", "2026-03-01T00:00+00:00:30[UTC]", "+300000-01-01T00:00[UTC]"]),
  "{ year: 2026, month: 3, day: 1, timeZone: 'Asia/Tokyo' }", "{ year: 2026, month: 3, day: 1 }", "{ year: 2026, month: 3, day: 1, timeZone: 'Asia/Tokyo', offset: '+08:00' }", "{ year: 2026, month: 3, day: 1, timeZone: 5 }"]);
each("Temporal.ZonedDateTime.from('2026-03-01T00:00[Asia/Kolkata]').equals($1)", quoted(["2026-03-01T00:00[Asia/Calcutta]", "2026-03-01T00:00+05:30[+05:30]", "2026-03-01T00:00[Asia/Kolkata]"]));
each("new Temporal.ZonedDateTime($1)", ["0n, 'UTC'", "0n, 'Etc/UTC'", "0n, 'Etc/GMT'", "0n, 'europe/paris'", "0n", "0, 'UTC'", "10n ** 30n, 'UTC'", "0n, '2020-01-01T00:00[UTC]'", "0n, 'UTC', 'gregory'"]);
each("Temporal.ZonedDateTime.from('2026-03-01T00:00[$1]').getTimeZoneTransition($2)", ZONES, ["'next'", "{ direction: 'previous' }", "'other'", ""]);
each("Temporal.Instant.from('$2').toZonedDateTimeISO('$1').toString()", ["Europe/Amsterdam", "America/Caracas", "Pacific/Apia", "Asia/Pyongyang", "Africa/Monrovia", "America/Anchorage"], ["1890-01-01T00:00Z", "1945-06-01T00:00Z", "2011-12-30T12:00Z", "2015-08-20T00:00Z", "2050-07-01T00:00Z"]);

// Durations
each("Temporal.Duration.from($1)", [...DURATIONS, ...quoted(["P", "PT", "P1", "1Y", "P1.5D", "PT1.5H", "PT0.0000000001S", "p1y", "P1Y1Y", "+P1D", "−P1D", "PT1,5S", "P4294967296Y", "PT9007199254740992S", "PT9007199254740991.999999999S"]), "{}", "{ day: 1 }", "{ days: 1.5 }", "{ days: '3' }", "{ days: 1, hours: -1 }", "5", "null", "{ nanoseconds: 9007199254740991e9 }", "{ years: 1e10 }", "{ seconds: Infinity }"]);
each("Temporal.Duration.from($1).$2", DURATIONS, ["negated()", "abs()", "sign", "blank", "toJSON()", "with({ hours: 1 })"]);
each("Temporal.Duration.from($1).$2($3)", DURATIONS, ["add", "subtract"], DURATIONS.slice(3, 7));
some(2, "Temporal.Duration.from($1).round({ largestUnit: $2, relativeTo: '2026-01-31' })", DURATIONS, UNITS);
some(2, "Temporal.Duration.from($1).round({ smallestUnit: $2, relativeTo: '2026-03-28T00:00[Europe/Berlin]', roundingMode: $3 })", DURATIONS, UNITS, MODES.slice(0, 4));
some(2, "Temporal.Duration.from($1).total({ unit: $2, relativeTo: $3 })", DURATIONS, UNITS, ["'2026-01-31'", "'2026-03-28T00:00[Europe/Berlin]'", "undefined"]);
each("Temporal.Duration.from($1).$2", ["{ hours: 36, minutes: 90 }", "'PT1H30M15.5S'"], ["total('hours')", "total({ unit: 'days' })", "total('months')", "total()", "total({})", "round('hour')", "round({ largestUnit: 'days' })", "round({ smallestUnit: 'minute', roundingIncrement: 15 })", "round()", "round({})", "round({ smallestUnit: 'week' })", "toString({ fractionalSecondDigits: 2 })", "toString({ smallestUnit: 'minute' })", "toString({ smallestUnit: 'millisecond' })", "round({ largestUnit: 'hour', smallestUnit: 'day' })"]);
each("Temporal.Duration.compare($1, $2, { relativeTo: $3 })", DURATIONS.slice(0, 4), DURATIONS.slice(1, 5), ["'2026-02-01'", "undefined", "Temporal.ZonedDateTime.from('2026-03-28T00:00[Europe/Berlin]')", "{ year: 2024, month: 2, day: 1 }"]);
each("new Temporal.Duration($1)", ["", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10", "1.5", "1, -1", "NaN", "-0", "0, 0, 0, 0, 0, 0, 0, 0, 0, 1e300", "2 ** 32", "2 ** 32 - 1"]);
each("Temporal.Duration.from({ microseconds: $1, nanoseconds: 1 }).toString()", ["2 ** 53", "9007199254740991", "1e15", "123456789012345678"]);

// Objects
each("Temporal.$1 < Temporal.$1", ["PlainDate.from('2026-03-01')", "Duration.from('PT1H')", "Instant.from('2026-03-01T00:00Z')"]);
each("`${Temporal.$1}`", ["PlainDate.from('2026-03-01')", "Duration.from('PT1H')", "Instant.from('2026-03-01T00:00Z')", "PlainMonthDay.from('03-01')"]);
each("JSON.stringify({ value: Temporal.$1 })", ["PlainDate.from('2026-03-01')", "Duration.from('PT1H')", "PlainTime.from('10:00')", "ZonedDateTime.from('2026-03-01T00:00[Europe/Berlin]')"]);
each("Object.prototype.toString.call(Temporal.$1)", ["PlainDate.from('2026-03-01')", "Duration.from('PT1H')", "Now"]);
each("Temporal.$1('2026-03-01')", ["PlainDate", "PlainTime", "Instant"]);
each("Object.getPrototypeOf(Temporal.PlainDate).$1.call({})", ["toString"]);
each("Temporal.PlainDate.prototype.$1.call({})", ["toString", "add", "toJSON"]);
each("Object.getOwnPropertyNames(Temporal.$1.prototype).sort().join()", ["PlainDate", "PlainTime", "PlainDateTime", "PlainYearMonth", "PlainMonthDay", "Instant", "ZonedDateTime", "Duration"]);
each("Object.getOwnPropertyNames(Temporal.$1).filter((name) => name !== 'prototype').sort().join()", ["PlainDate", "PlainTime", "PlainDateTime", "PlainYearMonth", "PlainMonthDay", "Instant", "ZonedDateTime", "Duration", "Now"]);
each("[Temporal.$1.length, Temporal.$1.name]", ["PlainDate", "PlainTime", "PlainDateTime", "PlainYearMonth", "PlainMonthDay", "Instant", "ZonedDateTime", "Duration"]);

const show = (value) => (Array.isArray(value) ? value.map(show) : value === undefined || value === null ? null : typeof value === "object" || typeof value === "bigint" ? String(value) : Number.isNaN(value) ? "NaN" : value);
const answer = (Temporal, text) => {
  try { return JSON.parse(JSON.stringify(show(new Function("Temporal", `return ${text}`)(Temporal)))); } catch (error) { return error.name; }
};
const agreed = [], different = [];
for (const text of new Set(cases)) {
  const [own, other] = [answer(Temporal, text), answer(Polyfill, text)];
  if (JSON.stringify(own) === JSON.stringify(other)) agreed.push([text, own]);
  else different.push([text, own, other]);
}
const head = { node: process.version, polyfill: version, different: different.length };
writeFileSync(target, `${JSON.stringify(head).slice(0, -1)},"cases":[\n${agreed.map((entry) => JSON.stringify(entry)).join(",\n")}\n]}\n`);
console.log(`${agreed.length} cases, ${different.length} on which Node and the polyfill differ`);
if (process.env.SHOW) for (const [text, own, other] of different) console.log(text, JSON.stringify(own), JSON.stringify(other));
