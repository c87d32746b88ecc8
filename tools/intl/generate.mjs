// Makes crates/pml-worker/src/intl/cldr.bin of the CLDR packages that package.json pins. Run by scripts/intl-data.
//
// What each key holds is said where it is written; lists are joined with U+001F, lists of lists with U+001E.
// A list of plural forms has the order of `PLURALS`; a form that is not there is empty and means `other`.
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { compare, write } from "./table.mjs";

const [packages, target] = process.argv.slice(2);
const read = (path) => JSON.parse(readFileSync(`${packages}/${path}`, "utf8"));
const supplemental = (name) => read(`cldr-core/supplemental/${name}.json`).supplemental;

const UNIT = "\u001f", RECORD = "\u001e";
const list = (values) => values.map((value) => value ?? "").join(UNIT);
const PLURALS = ["zero", "one", "two", "few", "many", "other"];
const plurals = (from, prefix, suffix = "") => {
  const forms = PLURALS.map((form) => from?.[`${prefix}-count-${form}${suffix}`] ?? "");
  const other = forms[5];
  const shown = forms.map((form) => (form === other ? "" : form));
  shown[5] = other;
  return shown.slice(0, 5).every((form) => form === "") ? other : shown.join(UNIT);
};

// The units of ECMA-402, and the compounds that CLDR has a name of its own for.
const UNITS = `acre bit byte celsius centimeter day degree fahrenheit fluid-ounce foot gallon gigabit gigabyte gram hectare hour inch
  kilobit kilobyte kilogram kilometer liter megabit megabyte meter microsecond mile mile-scandinavian milliliter millimeter millisecond
  minute month nanosecond ounce percent petabyte pound second stone terabit terabyte week yard year
  kilometer-per-hour mile-per-hour meter-per-second liter-per-kilometer mile-per-gallon`.split(/\s+/);
const FIELDS = ["year", "quarter", "month", "week", "day", "hour", "minute", "second"];
const DAY_PERIODS = ["am", "pm", "midnight", "noon", "morning1", "morning2", "afternoon1", "afternoon2", "evening1", "evening2", "night1", "night2"];
const DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const STYLES = ["full", "long", "medium", "short"];
const SYMBOLS = ["decimal", "group", "percentSign", "plusSign", "minusSign", "exponential", "superscriptingExponent", "infinity", "nan",
  "timeSeparator", "approximatelySign", "currencyDecimal", "currencyGroup"];
const MAGNITUDES = Array.from({ length: 12 }, (_, i) => "1" + "0".repeat(i + 3));

function numbers(put, locale) {
  const { numbers } = read(`cldr-numbers-full/main/${locale}/numbers.json`).main[locale];
  put("n.system", numbers.defaultNumberingSystem);
  put("n.native", numbers.otherNumberingSystems?.native ?? "");
  put("n.grouping", numbers.minimumGroupingDigits);
  for (const key of Object.keys(numbers)) {
    const system = /^symbols-numberSystem-(.+)$/.exec(key)?.[1];
    if (system === undefined) continue;
    const of = (kind) => numbers[`${kind}-numberSystem-${system}`] ?? numbers[`${kind}-numberSystem-latn`];
    put(`n.symbols.${system}`, list(SYMBOLS.map((name) => numbers[key][name])));
    const decimal = of("decimalFormats"), currency = of("currencyFormats"), misc = of("miscPatterns");
    put(`n.patterns.${system}`, list([decimal.standard, of("percentFormats").standard, of("scientificFormats").standard,
      currency.standard, currency.accounting, currency["standard-alphaNextToNumber"], currency["accounting-alphaNextToNumber"],
      misc.range, misc.approximately]));
    const spacing = currency.currencySpacing ?? numbers["currencyFormats-numberSystem-latn"].currencySpacing;
    put(`n.spacing.${system}`, list(["beforeCurrency", "afterCurrency"].flatMap((side) =>
      [spacing[side].currencyMatch, spacing[side].surroundingMatch, spacing[side].insertBetween])));
    put(`n.currency-unit.${system}`, plurals(currency, "unitPattern"));
    const compact = (formats, suffix = "") => {
      const patterns = MAGNITUDES.map((size) => plurals(formats, size, suffix));
      return patterns.every((pattern) => pattern === "") ? "" : patterns.join(RECORD);
    };
    put(`n.compact-short.${system}`, compact(decimal.short?.decimalFormat));
    put(`n.compact-long.${system}`, compact(decimal.long?.decimalFormat));
    put(`n.compact-currency.${system}`, compact(currency.short?.standard));
    put(`n.compact-currency-alpha.${system}`, compact(currency.short?.standard, "-alphaNextToNumber"));
  }
  if (locale === "und") {
    // The symbols that go with the digits, whatever the language; the packages have them with languages only.
    for (const [system, language] of [["arab", "ar"], ["arabext", "ur"]]) {
      const symbols = read(`cldr-numbers-full/main/${language}/numbers.json`).main[language].numbers[`symbols-numberSystem-${system}`];
      const latin = numbers["symbols-numberSystem-latn"];
      put(`n.symbols.${system}`, list(SYMBOLS.map((name) => (name === "nan" ? latin[name] : symbols[name]))));
    }
  }
  const { currencies } = read(`cldr-numbers-full/main/${locale}/currencies.json`).main[locale].numbers;
  for (const [code, names] of Object.entries(currencies)) {
    // Name, symbol and narrow symbol, then the plural forms.
    // A single form that is the name is left out.
    const name = names.displayName ?? "", symbol = names.symbol ?? "", forms = plurals(names, "displayName");
    put(`c.${code}`, list([name === code ? "" : name, symbol === code ? "" : symbol, names["symbol-alt-narrow"] ?? "", forms === name ? "" : forms]));
  }
  const { units } = read(`cldr-units-full/main/${locale}/units.json`).main[locale];
  for (const width of ["long", "short", "narrow"]) {
    for (const [key, unit] of Object.entries(units[width])) {
      const name = key.replace(/^[a-z]+-/, "");
      if (UNITS.includes(name)) put(`u.${width}.${name}`, [unit.perUnitPattern ?? "", plurals(unit, "unitPattern")].join(RECORD));
    }
    put(`u.${width}.per`, units[width].per.compoundUnitPattern);
  }
}

// The names and patterns of one calendar, under a prefix.
function calendar(put, prefix, data, months) {
  calendarNames(put, prefix, data, months);
  calendarPatterns(put, prefix, data);
}

function calendarNames(put, prefix, data, months) {
  for (const [form, short] of [["format", "f"], ["stand-alone", "s"]]) {
    for (const width of ["abbreviated", "narrow", "wide"]) {
      const names = data.months?.[form][width];
      // The seventh month of the Hebrew calendar has another name in leap years, which comes last.
      if (names !== undefined) put(`${prefix}.months.${short}.${width}`, list([...Array.from({ length: months }, (_, i) => names[i + 1]), ...(months === 13 ? [names["7-yeartype-leap"]] : [])]));
    }
  }
  if (data.eras !== undefined) {
    for (const [kind, width] of [["eraNames", "wide"], ["eraAbbr", "abbreviated"], ["eraNarrow", "narrow"]]) {
      const eras = data.eras[kind];
      put(`${prefix}.eras.${width}`, list(Object.keys(eras).filter((era) => /^\d+$/.test(era) && (prefix !== "j" || era >= 232)).sort((a, b) => a - b).map((era) => eras[era])));
    }
  }
}

function calendarPatterns(put, prefix, data) {
  put(`${prefix}.date`, list(STYLES.map((style) => text(data.dateFormats[style]))));
  put(`${prefix}.glue`, list(STYLES.map((style) => text(data.dateTimeFormats[style]))));
  const at = data["dateTimeFormats-atTime"]?.standard ?? data.dateTimeFormats;
  put(`${prefix}.glue-at`, list(STYLES.map((style) => text(at[style]))));
  const { availableFormats, appendItems, intervalFormats } = data.dateTimeFormats;
  for (const [skeleton, pattern] of Object.entries(availableFormats)) {
    if (!/-(alt|count)-/.test(skeleton) && !/[QwWY]/.test(skeleton)) put(`${prefix}.available.${skeleton}`, text(pattern));
  }
  put(`${prefix}.append`, list(["Era", "Year", "Month", "Day-Of-Week", "Day", "Hour", "Minute", "Second", "Timezone"].map((name) => appendItems[name])));
  for (const [skeleton, patterns] of Object.entries(intervalFormats)) {
    if (skeleton === "intervalFormatFallback") put(`${prefix}.between`, patterns);
    else if (!/[QwWY]/.test(skeleton)) {
      const shown = Object.entries(patterns).filter(([field]) => !field.includes("-alt-"));
      put(`${prefix}.interval.${skeleton}`, list(shown.sort(([a], [b]) => compare(a, b)).flat()));
    }
  }
}

const text = (pattern) => (typeof pattern === "string" ? pattern : pattern._value);

function dates(put, locale) {
  const gregorian = read(`cldr-dates-full/main/${locale}/ca-gregorian.json`).main[locale].dates.calendars.gregorian;
  calendar(put, "g", gregorian, 12);
  put("g.time", list(STYLES.map((style) => text(gregorian.timeFormats[style]))));
  for (const [form, short] of [["format", "f"], ["stand-alone", "s"]]) {
    for (const width of ["abbreviated", "narrow", "short", "wide"]) put(`g.days.${short}.${width}`, list(DAYS.map((day) => gregorian.days[form][width][day])));
    for (const width of ["abbreviated", "narrow", "wide"]) {
      const names = gregorian.dayPeriods[form][width];
      put(`g.periods.${short}.${width}`, list(DAY_PERIODS.map((period) => names[period])));
    }
  }
  // Calendars without patterns of their own have these.
  const generic = read(`cldr-dates-full/main/${locale}/ca-generic.json`).main[locale].dates.calendars.generic;
  calendar(put, "x", { ...generic, months: undefined, eras: undefined }, 0);
  for (const [name, prefix] of [["buddhist", "b"], ["islamic", "i"], ["japanese", "j"], ["persian", "p"]]) {
    const directory = [locale, locale === "und" ? "root" : ""].find((at) => existsSync(`${packages}/cldr-cal-${name}-full/main/${at}/ca-${name}.json`));
    if (directory === undefined || directory === "") continue;
    const own = read(`cldr-cal-${name}-full/main/${directory}/ca-${name}.json`).main[directory].dates.calendars[name];
    calendar(put, prefix, own, 12);
  }
  // Calendars that mostly have the generic patterns. That of Taiwan has the months of the Gregorian one, and its package is an
  // old one: only the patterns of Chinese and Japanese are still as they were.
  for (const [name, prefix] of [["hebrew", "h"], ["roc", "r"]]) {
    const directory = [locale, locale === "und" ? "root" : ""].find((at) => existsSync(`${packages}/cldr-cal-${name}-full/main/${at}/ca-${name}.json`));
    if (directory === undefined || directory === "") continue;
    const own = read(`cldr-cal-${name}-full/main/${directory}/ca-${name}.json`).main[directory].dates.calendars[name];
    calendarNames(put, prefix, { ...own, months: name === "roc" ? undefined : own.months }, 13);
    if ((name === "hebrew" || /^(zh|ja)/.test(locale)) && STYLES.some((style) => text(own.dateFormats[style]) !== text(generic.dateFormats[style]))) calendarPatterns(put, prefix, own);
  }

  const fields = read(`cldr-dates-full/main/${locale}/dateFields.json`).main[locale].dates.fields;
  for (const name of FIELDS) {
    for (const width of ["", "-short", "-narrow"]) {
      // What -2 to 2 are called, then the plural forms of the future and of the past.
      const field = fields[name + width];
      put(`r.${name}${width}`, [
        list([-2, -1, 0, 1, 2].map((offset) => field[`relative-type-${offset}`])),
        plurals(field["relativeTime-type-future"], "relativeTimePattern"),
        plurals(field["relativeTime-type-past"], "relativeTimePattern"),
      ].join(RECORD));
    }
  }
  for (const name of [...FIELDS, "era", "weekday", "dayperiod", "zone"]) {
    put(`f.${name}`, list(["", "-short", "-narrow"].map((width) => fields[name + width].displayName)));
  }

  const zones = read(`cldr-dates-full/main/${locale}/timeZoneNames.json`).main[locale].dates.timeZoneNames;
  put("z.formats", list([zones.gmtFormat, zones.gmtZeroFormat, zones.hourFormat, zones.regionFormat,
    zones["regionFormat-type-standard"], zones["regionFormat-type-daylight"], zones.fallbackFormat]));
  // A zone's or metazone's names: long generic, standard, daylight, then short.
  const names = (zone) => list(["long", "short"].flatMap((width) => ["generic", "standard", "daylight"].map((kind) => zone[width]?.[kind])));
  for (const [metazone, entry] of Object.entries(zones.metazone ?? {})) put(`z.meta.${metazone}`, names(entry));
  const walk = (name, node) => {
    if (node._type === "zone" || node.exemplarCity !== undefined || node.long !== undefined || node.short !== undefined) {
      if (node.exemplarCity !== undefined) put(`z.city.${name}`, node.exemplarCity);
      if (node.long !== undefined || node.short !== undefined) put(`z.zone.${name}`, names(node));
      return;
    }
    for (const [key, child] of Object.entries(node)) if (typeof child === "object") walk(name === "" ? key : `${name}/${key}`, child);
  };
  walk("", zones.zone);
}

function words(put, locale) {
  const { listPatterns } = read(`cldr-misc-full/main/${locale}/listPatterns.json`).main[locale];
  for (const [key, patterns] of Object.entries(listPatterns)) {
    put(`l.${key.replace("listPattern-type-", "")}`, list([patterns["2"], patterns.start, patterns.middle, patterns.end]));
  }
  if (locale === "und") return put("dn.patterns", list(["{0} ({1})", "{0}, {1}"]));
  const names = (file) => read(`cldr-localenames-full/main/${locale}/${file}.json`).main[locale].localeDisplayNames;
  for (const [key, prefix] of [["languages", "dn.l"], ["territories", "dn.r"], ["scripts", "dn.s"]]) {
    for (const [code, name] of Object.entries(names(key)[key])) {
      if (/-alt-(?!short$)/.test(code) || name === code) continue;
      put(`${prefix}.${code.replace("-alt-short", ".short")}`, name);
    }
  }
  const { localeDisplayPattern, types } = names("localeDisplayNames");
  put("dn.patterns", list([localeDisplayPattern.localePattern, localeDisplayPattern.localeSeparator]));
  for (const [code, name] of Object.entries(types?.calendar ?? {})) if (!code.includes("-alt-")) put(`dn.c.${code}`, name);
}

// What holds for all locales, in the locale `~`.
function everywhere() {
  const entries = new Map();
  const put = (key, value) => entries.set(key, value);
  const { fractions } = supplemental("currencyData").currencyData;
  put("digits", Object.entries(fractions).map(([code, { _digits }]) => `${code}${_digits}`).join(UNIT));
  for (const [system, { _digits, _type }] of Object.entries(supplemental("numberingSystems").numberingSystems)) {
    if (_type === "numeric") put(`system.${system}`, _digits);
  }
  for (const [region, { _preferred, _allowed }] of Object.entries(supplemental("timeData").timeData)) {
    put(`hours.${region.replace("_", "-")}`, list([_preferred, _allowed]));
  }
  for (const [region, calendars] of Object.entries(supplemental("calendarPreferenceData").calendarPreferenceData)) put(`calendars.${region}`, list(calendars));
  const { weekData } = supplemental("weekData");
  for (const kind of ["minDays", "firstDay", "weekendStart", "weekendEnd"]) {
    for (const [region, value] of Object.entries(weekData[kind])) if (!region.includes("-alt-")) put(`week.${kind}.${region}`, value);
  }
  const minutes = (time) => String(time.split(":").reduce((sum, part) => 60 * sum + Number(part), 0));
  for (const [language, rules] of Object.entries(supplemental("dayPeriods").dayPeriodRuleSet)) {
    put(`periods.${language}`, list(Object.entries(rules).flatMap(([name, { _at, _from, _before }]) =>
      [name, minutes(_at ?? _from), _at === undefined ? minutes(_before) : "at"])));
  }
  const { metazoneInfo, metazones } = supplemental("metaZones").metaZones;
  const walk = (name, node) => {
    if (Array.isArray(node)) {
      const stamp = (time) => (time === undefined ? "" : String(Date.parse(`${time.replace(" ", "T")}Z`) / 1000));
      put(`meta.${name}`, list(node.flatMap(({ usesMetazone }) => [usesMetazone._mzone, stamp(usesMetazone._from), stamp(usesMetazone._to)])));
      return;
    }
    for (const [key, child] of Object.entries(node)) walk(name === "" ? key : `${name}/${key}`, child);
  };
  walk("", metazoneInfo.timezone);
  for (const { mapZone } of metazones) put(`golden.${mapZone._other}.${mapZone._territory}`, mapZone._type);
  for (const [region, zone] of Object.entries(supplemental("primaryZones").primaryZones)) put(`primary.${region}`, zone);
  const zones = read("cldr-bcp47/bcp47/timezone.json").keyword.u.tz;
  const count = new Map();
  const canonical = [];
  for (const [short, zone] of Object.entries(zones)) {
    if (short.startsWith("_") || zone._alias === undefined || zone._deprecated) continue;
    const [name, ...aliases] = zone._alias.split(" ");
    const region = zone._region ?? (short.length === 5 ? short.slice(0, 2).toUpperCase() : "");
    canonical.push([name, region, aliases, zone._iana ?? ""]);
    if (/^[A-Z]{2}$/.test(region)) count.set(region, (count.get(region) ?? 0) + 1);
  }
  for (const [name, region, aliases, iana] of canonical) {
    // The region, whether it has no other zone, and the name that the zone's own database prefers.
    put(`zone.${name}`, list([region, count.get(region) === 1 ? "1" : "", iana]));
    for (const alias of aliases) put(`alias.${alias}`, name);
  }
  for (const [language, ranges] of Object.entries(supplemental("pluralRanges").plurals)) {
    put(`ranges.${language}`, list(Object.entries(ranges).map(([key, value]) => `${key.replace("pluralRange-start-", "").replace("-end-", " ")} ${value}`)));
  }
  return { parent: undefined, entries };
}

// These languages, in all their regions. A language more costs about 60 KB.
const LANGUAGES = new Set(`af ar az be bg bn bs ca cs cy da de el en es et eu fa fi fil fr ga gl gu he hi hr hu hy id is it ja ka kk km kn ko lo lt lv
  mk ml mr ms my nb ne nl nn no pa pl pt ro ru si sk sl sq sr sv sw ta te th tr uk ur uz vi zh zu`.split(/\s+/));
const available = readdirSync(`${packages}/cldr-numbers-full/main`);
const chosen = available.filter((locale) => locale === "und" || LANGUAGES.has(locale.split("-")[0]))
  .filter((locale) => locale === "und" || existsSync(`${packages}/cldr-localenames-full/main/${locale}/languages.json`));
const { parentLocale } = supplemental("parentLocales").parentLocales;
const parentOf = (locale) => {
  if (locale === "und") return undefined;
  const explicit = parentLocale[locale];
  if (explicit !== undefined) return explicit === "root" ? "und" : explicit;
  const cut = locale.lastIndexOf("-");
  const parent = cut < 0 ? "und" : locale.slice(0, cut);
  return parent === "und" || chosen.includes(parent) ? parent : parentOf(parent);
};

const whole = new Map();
for (const locale of chosen) {
  const entries = new Map();
  // An item that is not there is empty, also at the end of a list.
  const put = (key, value) => entries.set(key, (value ?? "").replace(/\u001f+$/, ""));
  numbers(put, locale);
  dates(put, locale);
  words(put, locale);
  whole.set(locale, entries);
}
const locales = new Map([["~", everywhere()]]);
for (const [locale, entries] of whole) {
  const parent = parentOf(locale);
  const inherited = parent === undefined ? new Map() : whole.get(parent);
  if (inherited === undefined) throw new Error(`${locale} has no parent ${parent}`);
  const own = new Map([...entries].filter(([key, value]) => inherited.get(key) !== value));
  // Symbols that go with digits are for all languages; what else a parent has and a child lacks is not there.
  for (const key of inherited.keys()) if (!entries.has(key) && !key.startsWith("n.symbols.")) own.set(key, "");
  locales.set(locale, { parent, entries: own });
}
const bytes = write(locales);
writeFileSync(target, bytes);
console.log(`${locales.size} locales, ${bytes.length} bytes`);
if (process.env.SIZES) {
  const sizes = {};
  for (const { entries } of locales.values()) for (const [key, value] of entries) {
    const kind = key.split(".").slice(0, key.startsWith("dn") ? 2 : 1).join(".");
    sizes[kind] = (sizes[kind] ?? 0) + Buffer.byteLength(value) + 6;
  }
  console.log(sizes);
}
