// Methods that depend on a locale. The engine has them in part: it takes no notice of a locale or of options, and
// compares texts by their code units. Here they are right for English, and whatever is not honoured throws and says what works.
//
// Called once, after the prelude.
export default function locale() {
  "use strict";

  const { Array, BigInt, Date, Map, Number, Object, Reflect, RangeError, String, TypeError, Uint8Array } = globalThis;
  const { apply, defineProperty, getPrototypeOf, ownKeys } = Reflect;
  const uncurry = (method) => (self, ...args) => apply(method, self, args);
  const hide = (target, name, value) =>
    defineProperty(target, name, { __proto__: null, value, writable: true, enumerable: false, configurable: true });
  const isArray = Array.isArray;
  const push = uncurry(Array.prototype.push);
  const mapGet = uncurry(Map.prototype.get);
  const charCode = uncurry(String.prototype.charCodeAt);
  const slice = uncurry(String.prototype.slice);
  const indexOf = uncurry(String.prototype.indexOf);
  const lower = uncurry(String.prototype.toLowerCase);
  const upper = uncurry(String.prototype.toUpperCase);
  const normalize = uncurry(String.prototype.normalize);
  const numberValue = uncurry(Number.prototype.valueOf);
  const bigValue = uncurry(BigInt.prototype.valueOf);
  const getters = {};
  for (const name of ["Time", "FullYear", "Month", "Date", "Hours", "Minutes", "Seconds"]) {
    getters[name] = uncurry(Date.prototype[name === "Time" ? "getTime" : "getUTC" + name]);
  }

  /// The first of the locales that were asked for, in lower case.
  const asked = (locales) => {
    const first = isArray(locales) ? locales[0] : locales;
    if (first === undefined) return "en";
    if (typeof first !== "string") throw new TypeError("a locale is a text such as \"en-US\"");
    return lower(first);
  };
  const refuse = (what, instead) => { throw new RangeError(what + " is not supported here: " + instead); };
  /// The options that were given, of which only these are known.
  const known = (options, names, method, instead) => {
    const given = { __proto__: null };
    if (options === undefined || options === null) return given;
    if (typeof options !== "object") throw new TypeError("the options of " + method + " are an object");
    for (const name of ownKeys(options)) {
      if (typeof name !== "string" || options[name] === undefined) continue;
      if (indexOf(names, " " + name + " ") < 0) refuse("the option `" + name + "` of " + method, instead);
      given[name] = options[name];
    }
    return given;
  };

  // ── Numbers ────────────────────────────────────────────────────────────────────────────────

  const numberAdvice = "use English (\"en-US\") with minimumFractionDigits and maximumFractionDigits, or toFixed() and your own text";
  const count = (value, otherwise) => {
    if (value === undefined) return otherwise;
    const number = +value;
    if (!(number >= 0 && number <= 100)) throw new RangeError("a number of digits is from 0 to 100");
    return number - number % 1;
  };
  /// The decimal digits of a finite number without its sign, before and after the point.
  const digits = (value) => {
    const text = "" + value;
    const e = indexOf(text, "e");
    let mantissa = e < 0 ? text : slice(text, 0, e), shift = e < 0 ? 0 : +slice(text, e + 1);
    const point = indexOf(mantissa, ".");
    let whole = point < 0 ? mantissa : slice(mantissa, 0, point), part = point < 0 ? "" : slice(mantissa, point + 1);
    for (; shift > 0; shift--) { whole += part === "" ? "0" : part[0]; part = slice(part, 1); }
    for (; shift < 0; shift++) { part = (whole === "" ? "0" : whole[whole.length - 1]) + part; whole = slice(whole, 0, -1); }
    return [whole, part];
  };
  /// Rounded half away from zero to at most `most` digits, with at least `least`.
  const rounded = ([whole, part], least, most) => {
    if (part.length > most) {
      const up = charCode(part, most) >= 53;
      let all = whole + slice(part, 0, most), i = all.length - 1;
      if (up) {
        let carried = "";
        for (; i >= 0 && all[i] === "9"; i--) carried += "0";
        all = (i < 0 ? "1" : slice(all, 0, i) + String.fromCharCode(charCode(all, i) + 1)) + carried;
      }
      whole = slice(all, 0, all.length - most);
      part = most === 0 ? "" : slice(all, all.length - most);
    }
    while (part.length > least && part[part.length - 1] === "0") part = slice(part, 0, -1);
    while (part.length < least) part += "0";
    while (whole.length > 1 && whole[0] === "0") whole = slice(whole, 1);
    return [whole === "" ? "0" : whole, part];
  };
  const grouped = (whole) => {
    let text = "";
    for (let i = 0; i < whole.length; i++) text += (i > 0 && (whole.length - i) % 3 === 0 ? "," : "") + whole[i];
    return text;
  };
  const numberText = (value, isNegative, locales, options) => {
    const place = asked(locales);
    if (place !== "en" && place !== "en-us") refuse("the locale `" + place + "` of toLocaleString", numberAdvice);
    const given = known(options, " minimumFractionDigits maximumFractionDigits useGrouping ", "toLocaleString", numberAdvice);
    const least = count(given.minimumFractionDigits, 0);
    const most = count(given.maximumFractionDigits, least > 3 ? least : 3);
    if (least > most) throw new RangeError("minimumFractionDigits is greater than maximumFractionDigits");
    const [whole, part] = rounded(digits(value), least, most);
    const shown = given.useGrouping === false ? whole : grouped(whole);
    return (isNegative ? "-" : "") + (part === "" ? shown : shown + "." + part);
  };
  hide(Number.prototype, "toLocaleString", {
    toLocaleString(locales, options) {
      const value = numberValue(this);
      const isNegative = value < 0 || (value === 0 && 1 / value < 0);
      if (value !== value) { numberText(0, false, locales, options); return "NaN"; }
      if (value === Infinity || value === -Infinity) { numberText(0, false, locales, options); return isNegative ? "-∞" : "∞"; }
      return numberText(isNegative ? -value : value, isNegative, locales, options);
    },
  }.toLocaleString);
  hide(BigInt.prototype, "toLocaleString", {
    toLocaleString(locales, options) {
      const value = bigValue(this);
      return numberText(value < 0n ? -value : value, value < 0n, locales, options);
    },
  }.toLocaleString);

  // ── Dates ──────────────────────────────────────────────────────────────────────────────────

  const dateAdvice = "use English (\"en-US\") in UTC without further options, or toISOString() and the getUTC… methods";
  const zones = " UTC GMT Etc/UTC Etc/GMT ";
  const two = (value) => (value < 10 ? "0" : "") + value;
  const day = (date) => (getters.Month(date) + 1) + "/" + getters.Date(date) + "/" + getters.FullYear(date);
  const time = (date) => {
    const hours = getters.Hours(date);
    return (hours % 12 || 12) + ":" + two(getters.Minutes(date)) + ":" + two(getters.Seconds(date)) + (hours < 12 ? " AM" : " PM");
  };
  const dateMethod = (name, show) => hide(Date.prototype, name, {
    [name](locales, options) {
      const value = getters.Time(this);
      const place = asked(locales);
      if (place !== "en" && place !== "en-us") refuse("the locale `" + place + "` of " + name, dateAdvice);
      const given = known(options, " timeZone ", name, dateAdvice);
      if (given.timeZone !== undefined && indexOf(zones, " " + given.timeZone + " ") < 0) refuse("the time zone `" + given.timeZone + "` of " + name, dateAdvice);
      return value !== value ? "Invalid Date" : show(this);
    },
  }[name]);
  dateMethod("toLocaleDateString", day);
  dateMethod("toLocaleTimeString", time);
  dateMethod("toLocaleString", (date) => day(date) + ", " + time(date));
  for (const name of ["toString", "toTimeString"]) {
    const plain = uncurry(Date.prototype[name]);
    hide(Date.prototype, name, { [name]() { const shown = plain(this); return shown === "Invalid Date" ? shown : shown + " (Coordinated Universal Time)"; } }[name]);
  }

  // ── What the engine lacks without a word ───────────────────────────────────────────────────

  for (const name of ["$1", "$2", "$3", "$4", "$5", "$6", "$7", "$8", "$9", "lastMatch", "$&", "lastParen", "$+", "leftContext", "$`", "rightContext", "$'", "input", "$_"]) {
    const get = () => refuse("RegExp[\"" + name + "\"]", "use what match() or exec() gives");
    defineProperty(globalThis.RegExp, name, { __proto__: null, get, set: undefined, enumerable: false, configurable: true });
  }

  // ── Lists ──────────────────────────────────────────────────────────────────────────────────

  const listText = {
    toLocaleString(locales, options) {
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

  // ── Letters ────────────────────────────────────────────────────────────────────────────────

  // In these, an upper case letter is another one than elsewhere.
  const special = " tr az lt ";
  const caseMethod = (name, change) => hide(String.prototype, name, {
    [name](locales) {
      const place = asked(locales);
      if (indexOf(special, " " + slice(place, 0, 2) + " ") >= 0) refuse("the locale `" + place + "` of " + name, "leave it out, and replace the letters that differ");
      return change(this);
    },
  }[name]);
  caseMethod("toLocaleLowerCase", lower);
  caseMethod("toLocaleUpperCase", upper);

  // The order of letters in the root of the Unicode collation, as far as Latin, Greek, Cyrillic, Han and the usual signs
  // go. What differs only in the second place, as an accent does, is behind a `*`.
  const groups = "_ ‗ -‐‑ ‒ – — ― , ; : ! ¡ ? ¿ .․ ‥ … · '*‘’‚‛ \"*“”„‟ « » ( ) [ ] { } ‖ § ¶ @ * / \\ & # % † ‡ • ‣ ` ´ ^ ¯ ¨ ¸ ° © ® ← → ↑ ↓ + ± ÷ × < = > ¬ | ¦ ~ ✓ ✔ ✕ ✖ ✗ ¤ ¢ $ £ ¥ ₠ ₡ ₢ ₣ ₤ ₥ ₦ ₩ ₪ ₫ € ₭ ₮ ₯ ₰ ₱ ₲ ₳ ₴ ₵ ₶ ₷ ₸ ₹ ₺ ₻ ₼ ₽ ₾ ₿ 0 1¹ 2² 3³ 4 5 6 7 8 9 aA bB cC dD*đĐðÐ eE fF gG hH*ħĦ iI ı jJ kK lL*łŁ mM nN ŋŊ oOº*øØ pP qQ ĸ rR sS tT ŧŦ uU vV wW xX yY zZ þÞ αΑ βΒ γΓ δΔ εΕ ζΖ ηΗ θΘ ιΙ κΚ λΛ μµΜ νΝ ξΞ οΟ πΠ ρΡ σΣς τΤ υΥ φΦ χΧ ψΨ ωΩ аА бБ вВ гГ*ґҐ дД ђЂ еЕ єЄ жЖ зЗ ѕЅ иИ іІ йЙ јЈ кК лЛ љЉ мМ нН њЊ оО пП рР сС тТ ћЋ уУ фФ хХ цЦ чЧ џЏ шШ щЩ ъЪ ыЫ ьЬ эЭ юЮ яЯ";
  const marks = "\u0301\u0300\u0306\u0302\u030c\u030a\u0342\u0308\u030b\u0303\u0307\u0338\u0327\u0328\u0304\u0309\u030f\u0311\u031b\u0323\u0324\u0325\u0326\u032d\u032e\u0330\u0331";
  const expanded = { __proto__: null, "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ß": "ss", "ẞ": "SS" };
  // Made on first use: most programs compare nothing.
  let weights;
  const make = () => {
    weights = new Map();
    const spaces = ["\t", "\n", "\v", "\f", "\r", " "];
    for (let i = 0; i < 6; i++) weights.set(spaces[i], [i + 1, 0, 0, 0]);
    weights.set("\u00a0", [6, 0, 1, 0]);
    let primary = 7;
    for (const group of groups.split(" ")) {
      const [plain, accented] = group === "*" ? ["*", ""] : group.split("*");
      let rank = 0;
      for (const letter of plain) weights.set(letter, [primary, 0, rank++, lower(letter) === letter ? 0 : 1]);
      let accent = 100;
      for (const letter of accented ?? "") {
        const isUpper = lower(letter) !== letter;
        weights.set(letter, [primary, isUpper ? accent : ++accent, isUpper ? 1 : 0, isUpper ? 1 : 0]);
      }
      primary++;
    }
  };
  const keys = (value, numeric) => {
    weights ?? make();
    const first = [], second = [], third = [], fourth = [];
    const letters = normalize(value, "NFD");
    const add = (letter, accent) => {
      const weight = mapGet(weights, letter);
      if (weight === undefined) {
        const code = charCode(letter, 0);
        // Han characters stand behind all letters, in the order of their numbers.
        if (code >= 0x4e00 && code <= 0x9fff) { push(first, 100000 + code); push(second, 0); push(third, 0); push(fourth, 0); return; }
        refuse("localeCompare of `" + letter + "`", "compare with `<`, or by a key of your own");
      }
      push(first, weight[0]); push(second, accent || weight[1]); push(third, weight[2]); push(fourth, weight[3]);
    };
    for (let i = 0; i < letters.length; i++) {
      let letter = letters[i];
      const code = charCode(letter, 0);
      const mark = indexOf(marks, letter);
      if (mark >= 0) { push(second, mark + 1); continue; }
      // и with a breve is a letter of its own.
      if ((letter === "и" || letter === "И") && letters[i + 1] === "\u0306") { add(letter === "и" ? "й" : "Й"); i++; continue; }
      if (code >= 0xd800 && code < 0xdc00) letter += letters[++i] ?? "";
      // What cannot be seen does not count.
      if (code < 9 || (code > 13 && code < 32) || code === 0x7f || code === 0xad || (code >= 0x200b && code <= 0x200f) || code === 0xfeff) continue;
      if (numeric && code >= 48 && code <= 57) {
        let end = i;
        while (end < letters.length && charCode(letters, end) >= 48 && charCode(letters, end) <= 57) end++;
        while (i < end - 1 && letters[i] === "0") i++;
        push(first, mapGet(weights, "0")[0]); push(first, end - i); push(second, 0); push(third, 0); push(fourth, 0);
        for (; i < end; i++) push(first, charCode(letters, i));
        i--;
        continue;
      }
      const parts = expanded[letter];
      if (parts === undefined) add(letter);
      else { add(parts[0], 100); add(parts[1], 100); }
    }
    return [first, second, third, fourth];
  };
  const order = (a, b) => {
    for (let i = 0; i < a.length && i < b.length; i++) if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1;
    return a.length === b.length ? 0 : a.length < b.length ? -1 : 1;
  };
  const compareAdvice = "use English with the options numeric and sensitivity, or a comparison of your own";
  // The languages whose order is that of the root.
  const plainOrder = " en de fr it pt nl id und ";
  const levels = { __proto__: null, base: [0], accent: [0, 1], case: [0, 3], variant: [0, 1, 2] };
  hide(String.prototype, "localeCompare", {
    localeCompare(that, locales, options) {
      if (this === undefined || this === null) throw new TypeError("localeCompare is called on a text");
      const a = "" + this, b = "" + that;
      const place = asked(locales);
      const language = slice(place, 0, indexOf(place + "-", "-"));
      if (indexOf(plainOrder, " " + language + " ") < 0 || place === "fr-ca" || indexOf(place, "-u-") >= 0) {
        refuse("the locale `" + place + "` of localeCompare", compareAdvice);
      }
      const given = known(options, " numeric sensitivity ", "localeCompare", compareAdvice);
      const compared = levels[given.sensitivity ?? "variant"];
      if (compared === undefined) throw new RangeError("the sensitivity of localeCompare is base, accent, case or variant");
      if (a === b) return 0;
      const left = keys(a, !!given.numeric), right = keys(b, !!given.numeric);
      for (let i = 0; i < compared.length; i++) {
        const result = order(left[compared[i]], right[compared[i]]);
        if (result !== 0) return result;
      }
      return 0;
    },
  }.localeCompare);
}
