//! `Intl` and `Temporal` of the worker beside others: `intl/cases.json` has questions and Node's answers, `intl/later.json`
//! those of a later Node for what the first lacks, and `intl/temporal.json` programs with the value that Node and a polyfill
//! agree on. `tools/intl` makes them.
//!
//! Without arguments this is a host that asks a worker for each group of cases; with `worker` it is that worker. With
//! `SHOW=group` it prints where that group differs.

#![expect(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods, reason = "a test program of its own")]
#![expect(clippy::unwrap_used, reason = "a failure is the answer")]

mod support;

use std::{env, process::ExitCode};

use pml_wire::{
    Kind,
    message::{ExecutionComplete, Init, Limits},
};
use serde_json::{Value, json, value::to_raw_value};
use support::{LIMITS, Worker};

const CASES: [&str; 2] = [include_str!("intl/cases.json"), include_str!("intl/later.json")];
const TEMPORAL: &str = include_str!("intl/temporal.json");

/// Groups in which answers differ from Node's, in how many, and why.
const EXCEPTIONS: [(&str, usize, &str); 15] = [
    ("currency", 4, "Turkish: Node shows `£` and the name, and has another pattern for accounting than CLDR 48.2"),
    ("date styles", 4, "Persian: Node joins date and time in the Persian calendar without a comma, CLDR 48.2 with one"),
    ("date fields", 4, "Persian: the same"),
    ("date parts", 1, "Persian: the same"),
    ("date methods", 1, "Persian: the same"),
    ("ranges", 4, "Chinese: Node's ranges do not follow dateStyle. Russian: Node leaves out years that differ"),
    ("comparing", 1, "Lithuanian: `y` and `i` are alike in a search by CLDR 49, which ICU4X has"),
    ("plurals", 13, "CLDR 49 has new rules for Spanish and Bulgarian ordinals and for Vietnamese"),
    ("calendars", 104, "Taiwan's: but in Chinese and Japanese, the names of its eras are those of CLDR 28"),
    ("number ranges", 5, "Turkish: as with currencies"),
    (
        "duration options",
        22,
        "Node has the separator of minutes and seconds where the units before the seconds are words",
    ),
    (
        "temporal dates",
        4,
        "Chinese and Japanese: Node's dates of Temporal do not follow their options, those of Date do",
    ),
    ("temporal dates and times", 1, "Chinese: the same"),
    ("temporal zones", 23, "Node writes hours with two digits, unlike those of a Date with the same options"),
    ("segments", 3, "Thai: ICU4X's dictionary lacks a name that Node's has"),
];

fn main() -> ExitCode {
    if env::args().nth(1).is_some_and(|command| command == pml_worker::COMMAND) {
        pml_worker::main(env::args_os().skip(2));
    }
    let cases = CASES.map(|cases| serde_json::from_str::<Value>(cases).unwrap());
    let shown = env::var("SHOW").unwrap_or_default();
    let (mut asked, mut different, mut failed) = (0, 0, 0);
    let temporal = temporal();
    println!("{} programs with Temporal, {} failures", temporal.0, temporal.1.len());
    temporal.1.iter().for_each(|failure| eprintln!("{failure}"));
    failed += temporal.1.len();
    for group in cases.iter().flat_map(|cases| cases["groups"].as_array().unwrap()) {
        let name = group["name"].as_str().unwrap();
        let answers = group["answers"].as_array().unwrap();
        asked += answers.len();
        let expected = EXCEPTIONS.iter().find(|(other, ..)| *other == name).map_or(0, |(_, count, _)| *count);
        let actual = match run("UTC0", QUESTIONS, group) {
            Ok(actual) => actual,
            Err(error) => {
                eprintln!("{name}: {error}");
                failed += 1;
                continue;
            }
        };
        let mut count = 0;
        for (index, (actual, expected)) in actual.as_array().unwrap().iter().zip(answers).enumerate() {
            if spaced(actual) != spaced(expected) {
                count += 1;
                if shown == name || shown == "all" {
                    println!("{name} {}\n  is   {actual}\n  Node {expected}", question(group, index));
                }
            }
        }
        different += count;
        if count != expected {
            eprintln!("{name}: {count} of {} answers differ from Node's, {expected} are known", answers.len());
            failed += 1;
        }
    }
    for (program, expected) in properties() {
        let actual = run("UTC0", program, &Value::Null);
        if actual.as_ref() != Ok(&expected) {
            eprintln!("{program}\n  is       {actual:?}\n  expected {expected}");
            failed += 1;
        }
    }
    for (zone, program, expected) in zones() {
        let actual = run(zone, program, &Value::Null);
        if actual.as_ref() != Ok(&expected) {
            eprintln!("{zone}: {program}\n  is       {actual:?}\n  expected {expected}");
            failed += 1;
        }
    }
    println!("{asked} cases, {different} differ from Node, {failed} failures");
    if failed == 0 && asked >= 3000 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How many programs with `Temporal` were run, and which gave another value than they should.
fn temporal() -> (usize, Vec<String>) {
    let file: Value = serde_json::from_str(TEMPORAL).unwrap();
    let cases = file["cases"].as_array().unwrap();
    let mut failures = Vec::new();
    for chunk in cases.chunks(500) {
        let programs: Vec<&Value> = chunk.iter().map(|case| &case[0]).collect();
        match run("UTC0", PROGRAMS, &json!(programs)) {
            Ok(answers) => {
                for (case, answer) in chunk.iter().zip(answers.as_array().unwrap()) {
                    if *answer != case[1] {
                        failures.push(format!("{}\n  is       {answer}\n  expected {}", case[0], case[1]));
                    }
                }
            }
            Err(error) => failures.push(error),
        }
    }
    assert!(cases.len() >= 3000, "there are programs");
    (cases.len(), failures)
}

/// Evaluates programs. An exception's name is an answer.
const PROGRAMS: &str = r#"
    const show = (value) => (Array.isArray(value) ? value.map(show) : value === undefined || value === null ? null : typeof value === "object" || typeof value === "bigint" ? String(value) : Number.isNaN(value) ? "NaN" : value);
    return args.map((text) => { try { return show((0, eval)(`(${text})`)) } catch (error) { return error.name } })
"#;

/// Node shows a narrow no-break space before "PM" in parts and ranges, and a plain one in whole dates. Here it is always plain.
fn spaced(answer: &Value) -> String {
    answer.to_string().replace('\u{202f}', " ")
}

/// Asks all questions of a group. An exception is an answer.
const QUESTIONS: &str = r#"
    const ask = (0, eval)(args.code);
    const values = args.values.map((value) => (value?.number === undefined ? value : Number(value.number)));
    const tried = (...question) => { try { return ask(...question) } catch (error) { return String(error) } };
    const answers = args.locales.flatMap((locale) => args.options.flatMap((option) => values.map((value) => tried(locale, option, value))));
    return JSON.parse(JSON.stringify(answers, (_, value) => value ?? null))
"#;

/// What the question with this number was.
fn question(group: &Value, index: usize) -> String {
    let of = |name: &str| group[name].as_array().unwrap();
    let (options, values) = (of("options").len(), of("values").len());
    let value = &of("values")[index % values];
    let value = if value.to_string().len() > 100 { &Value::Null } else { value };
    format!("{} {} {value}", of("locales")[index / values / options], of("options")[index / values % options])
}

/// What holds whatever the answers are.
#[rustfmt::skip]
fn properties() -> Vec<(&'static str, Value)> {
    vec![
        // Parts are the whole.
        ("const wrong = []; for (const locale of Intl.NumberFormat.supportedLocalesOf(['en', 'de', 'ar-EG', 'ja', 'fa', 'hi', 'pl', 'he']))
            for (const options of [{}, { style: 'percent' }, { style: 'currency', currency: 'CHF' }, { style: 'unit', unit: 'liter', unitDisplay: 'long' }, { notation: 'compact' }, { notation: 'scientific' }])
                for (const value of [0, -1.5, 1234567.891, NaN, -Infinity]) {
                    const format = new Intl.NumberFormat(locale, options);
                    if (format.formatToParts(value).map((part) => part.value).join('') !== format.format(value)) wrong.push([locale, options, value]);
                }
          return wrong", json!([])),
        ("const wrong = []; for (const locale of ['en', 'de', 'ar-EG', 'ja', 'fa', 'th', 'ar-SA']) for (const options of [{}, { dateStyle: 'full', timeStyle: 'full' }, { era: 'long' }, { hour: 'numeric', dayPeriod: 'long' }])
                for (const time of [0, -1, 1720537445678, -8.64e15, 8.64e15]) {
                    const format = new Intl.DateTimeFormat(locale, options);
                    const join = (parts) => parts.map((part) => part.value).join('');
                    if (join(format.formatToParts(time)) !== format.format(time)) wrong.push([locale, options, time]);
                    if (join(format.formatRangeToParts(time, 0)) !== format.formatRange(time, 0)) wrong.push([locale, options, time, 'range']);
                }
          return wrong", json!([])),
        // An order is one: it does not matter what it starts from.
        ("const words = ['b', 'a', 'Ä', 'ä', 'z', '10', '9', '', ' ', 'ß', 'ss', 'é', 'e\\u0301', '日', '\\ud800', 'á', 'A', 'co-op', 'coop'];
          const wrong = []; for (const locale of ['en', 'sv', 'ja', 'de-u-co-phonebk']) { const { compare } = new Intl.Collator(locale);
            for (const a of words) for (const b of words) { if (compare(a, b) !== -compare(b, a) + 0) wrong.push([a, b]);
              for (const c of words) if (compare(a, b) <= 0 && compare(b, c) <= 0 && compare(a, c) > 0) wrong.push([a, b, c]); } }
          return wrong", json!([])),
        // What a zone shows is the time.
        ("const wrong = []; for (const timeZone of Intl.supportedValuesOf('timeZone')) for (const time of [0, 1720537445000, 1766622659000, -3e12]) {
            const format = new Intl.DateTimeFormat('en-US', { timeZone, hourCycle: 'h23', year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit', second: '2-digit', era: 'short', timeZoneName: 'longOffset' });
            const part = Object.fromEntries(format.formatToParts(time).map(({ type, value }) => [type, value]));
            const [, sign, hours, minutes, seconds] = /^GMT(?:([+-])(\\d\\d):(\\d\\d)(?::(\\d\\d))?)?$/.exec(part.timeZoneName);
            const offset = sign === undefined ? 0 : (sign + 1) * (3600 * hours + 60 * minutes + +(seconds ?? 0));
            const shown = Date.UTC(part.year, part.month - 1, part.day, part.hour, part.minute, part.second);
            if (shown - 1000 * offset !== time) wrong.push([timeZone, time, part.timeZoneName]);
          }
          return wrong", json!([])),
        // Words of a long text are those of its pieces, and all of it.
        ("const text = 'Some words, and 日本語 too. '.repeat(2000); const segments = [...new Intl.Segmenter('en', { granularity: 'word' }).segment(text)];
          return [segments.map((s) => s.segment).join('') === text, segments.filter((s) => s.isWordLike).length % 2000, segments.every((s, i) => i === 0 || s.index === segments[i - 1].index + segments[i - 1].segment.length)]",
            json!([true, 0, true])),
        // Hostile options cost little, and are refused as the standard says.
        ("const names = []; for (const attempt of [
            () => new Intl.NumberFormat('a'.repeat(1e6)), () => new Intl.NumberFormat('en-' + 'abcde-'.repeat(1e5)), () => new Intl.NumberFormat('en-x-' + 'a-'.repeat(1e5)), () => new Intl.NumberFormat(Array(1e6).fill('en')),
            () => new Intl.NumberFormat('en', { maximumFractionDigits: 1e9 }), () => new Intl.NumberFormat('en', { currency: 'x'.repeat(1e6), style: 'currency' }), () => new Intl.NumberFormat('en', { unit: 'meter-per-'.repeat(1e5), style: 'unit' }),
            () => new Intl.DateTimeFormat('en', { timeZone: 'x'.repeat(1e6) }), () => new Intl.DateTimeFormat('en', { calendar: 'abc-'.repeat(1e5) }), () => new Intl.DisplayNames('en', { type: 'language' }).of('en-' + 'abcde-'.repeat(1e5)),
            () => new Intl.NumberFormat('en').format('1e999999999'), () => new Intl.NumberFormat('en').format('9'.repeat(1e5)), () => new Intl.ListFormat('en').format({ length: 3 }),
            () => new Intl.NumberFormat('en').formatRange('1e999999999', 1), () => new Intl.NumberFormat('en').formatRange(NaN, 1), () => new Intl.DurationFormat('en').format({ hours: 1e300 }), () => new Intl.DurationFormat('en').format('PT' + '9'.repeat(1e5) + 'S'), () => new Intl.DurationFormat('en', { fractionalDigits: 1e9 }),
          ]) try { names.push(typeof attempt()) } catch (error) { names.push(error.name) }
          return [...new Set(names)].sort()", json!(["RangeError", "TypeError"])),
        ("const many = []; for (let i = 0; i < 10000; i++) many.push(new Intl.NumberFormat(i % 2 ? 'en' : 'de', { minimumFractionDigits: i % 20 })); return [many[0].format(1.5), many[9999].format(1.5)]", json!(["1,5", "1.5000000000000000000"])),
        ("return new Intl.ListFormat('en').format(Array(100000).fill('a')).length", json!(300_002)),
        // What a program does to the realm before it first formats is its own affair, and no way out: whatever it gets, it formats.
        ("let got; WeakMap.prototype.set = function (_, value) { got = value }; JSON.stringify = (value) => { got = value; return 'x'.repeat(10) }; try { return (1234.5).toLocaleString('de') } catch (e) { return e.name }", json!("TypeError")),
        // Not there, and said so.
        ("return ['haw', 'xx-YY'].map((tag) => { try { return new Intl.NumberFormat(tag).format(1) } catch (e) { return e.name + /is not supported here/.test(e.message) } })", json!(["RangeErrortrue", "RangeErrortrue"])),
        // Values of Temporal: hostile ones are refused and cost little, and what cannot be computed is an error of the program.
        ("const names = []; const T = Temporal; for (const attempt of [
            () => T.PlainDate.from('x'.repeat(1e7)), () => T.PlainDate.from('2026-03-01' + '[a=b]'.repeat(1e5)), () => T.PlainDate.from({ year: 1e308, month: 1, day: 1 }), () => T.PlainDate.from('2026-03-01').add({ years: 1e300 }), () => T.PlainDate.from('2026-03-01').add({ days: Number.MAX_SAFE_INTEGER }),
            () => T.Duration.from({ nanoseconds: 1e308 }), () => new T.Duration(0, 0, 0, 0, 0, 0, 0, 0, Number.MAX_VALUE, Number.MAX_VALUE), () => T.Duration.from('P' + '9'.repeat(1e5) + 'Y'), () => T.Duration.from('PT0.' + '9'.repeat(100) + 'S'), () => T.Instant.fromEpochNanoseconds(10n ** 10000n), () => T.Instant.fromEpochMilliseconds(1e300),
            () => T.PlainDate.from('+275760-09-13').add({ days: 1 }), () => T.PlainDate.from('-271821-04-19').subtract({ months: 1 }), () => T.PlainDate.from('-271821-04-19').toZonedDateTime('Pacific/Apia'), () => T.ZonedDateTime.from('+275760-09-13T00:00[UTC]').add({ nanoseconds: 1 }),
            () => T.Duration.from({ years: 4294967295 }).round({ largestUnit: 'days', relativeTo: '2026-01-01' }), () => T.Duration.from({ days: 104249991374 }).total({ unit: 'months', relativeTo: '2026-01-01' }), () => T.PlainDate.from({ year: -5e5, month: 1, day: 1, calendar: 'chinese' }), () => T.PlainDate.from({ year: 2e5, monthCode: 'M13', day: 1, calendar: 'islamic-umalqura' }),
            () => T.Now.plainDateISO('x'.repeat(1e6)), () => T.PlainTime.from({ hour: 1 }).round({ smallestUnit: 'hour', roundingIncrement: 1e9 }), () => T.PlainDate.from(new Proxy({}, { get() { throw new RangeError('mine') } })), () => T.PlainDate.prototype.year, () => T.PlainDate.from('2026-03-01') > 1,
          ]) try { names.push(String(attempt())) } catch (error) { names.push(error.name) }
          return [...new Set(names)].sort()", json!(["RangeError", "TypeError"])),
        ("const wrong = []; for (const calendar of ['buddhist', 'chinese', 'coptic', 'dangi', 'ethioaa', 'ethiopic', 'gregory', 'hebrew', 'indian', 'islamic-civil', 'islamic-tbla', 'islamic-umalqura', 'japanese', 'persian', 'roc'])
            for (const text of ['-271821-04-19', '+275760-09-13', '-200000-01-01', '+200000-12-31', '0000-01-01', '2026-03-01']) for (const step of [{ days: 1 }, { months: -1 }, { years: 1 }, { years: -1, months: 13 }]) {
                const date = Temporal.PlainDate.from(text).withCalendar(calendar);
                try { const other = date.add(step); if (date.until(other).days === 0 && step.months === undefined) wrong.push([calendar, text]); if (Temporal.PlainDate.from({ year: other.year, monthCode: other.monthCode, day: other.day, calendar }).equals(other) !== true) wrong.push([calendar, text, step]); } catch (error) { if (error.name !== 'RangeError') wrong.push([calendar, text, String(error)]); }
            }
          return wrong", json!([])),
        // A moment is what its parts are, in every zone, around each change of the clock.
        ("const wrong = []; for (const name of Intl.supportedValuesOf('timeZone')) { let at = Temporal.Instant.from('1970-01-01T00:00Z').toZonedDateTimeISO(name);
            for (let i = 0; i < 4 && at !== null; i++, at = at.getTimeZoneTransition('next')) for (const step of [-1, 0, 1]) {
                const moment = at.add({ seconds: step }); const again = moment.toPlainDateTime().toZonedDateTime(name, { disambiguation: 'earlier' }), later = moment.toPlainDateTime().toZonedDateTime(name, { disambiguation: 'later' });
                if (!again.equals(moment) && !later.equals(moment)) wrong.push([name, String(moment)]);
                if (!Temporal.ZonedDateTime.from(String(moment)).equals(moment)) wrong.push([name, String(moment), 'text']);
            } }
          return wrong", json!([])),
        ("return [typeof Temporal, Object.keys(Temporal), Temporal.Now.timeZoneId(), Math.abs(Temporal.Now.instant().epochMilliseconds - Date.now()) < 5000, JSON.stringify([Temporal.PlainDate.from('2026-03-01')]), Temporal.PlainDate.from('2026-03-01')]",
            json!(["object", [], "UTC", true, "[\"2026-03-01\"]", "2026-03-01"])),
        ("return ['coptic', 'chinese'].map((calendar) => { try { return new Intl.DateTimeFormat('en', { calendar }).format(0) } catch (e) { return e.name + /is not supported here/.test(e.message) } })", json!(["RangeErrortrue", "RangeErrortrue"])),
        ("return ['coptic', 'islamic-rgsa'].map((calendar) => { try { return new Intl.DateTimeFormat('en', { calendar }).format(0) } catch (e) { return /Temporal/.test(e.message) } })", json!([true, false])),
        ("return ['coptic', 'islamic', 'islamic-rgsa'].map((calendar) => { try { return Temporal.PlainDate.from({ year: 1740, month: 1, day: 1, calendar }).calendarId } catch (e) { return e.name } })", json!(["coptic", "islamic-civil", "RangeError"])),
        ("return Object.keys(globalThis).concat(typeof Intl, Object.keys(Intl))", json!(["object"])),
    ]
}

/// Programs in a zone that the host names.
#[rustfmt::skip]
fn zones() -> Vec<(&'static str, &'static str, Value)> {
    let all = "const d = new Date(1720537445678); return [d.getHours(), d.getTimezoneOffset(), String(d), d.toLocaleString('en-US'), Intl.DateTimeFormat().resolvedOptions().timeZone, new Date(2025, 0, 1).toISOString(), new Date('2025-07-01T00:00').toISOString()]";
    vec![
        ("UTC0", all, json!([15, 0, "Tue Jul 09 2024 15:04:05 GMT+0000 (Coordinated Universal Time)", "7/9/2024, 3:04:05 PM", "UTC", "2025-01-01T00:00:00.000Z", "2025-07-01T00:00:00.000Z"])),
        ("Europe/Berlin", all, json!([17, -120, "Tue Jul 09 2024 17:04:05 GMT+0200 (Central European Summer Time)", "7/9/2024, 5:04:05 PM", "Europe/Berlin", "2024-12-31T23:00:00.000Z", "2025-06-30T22:00:00.000Z"])),
        ("america/new_york", all, json!([11, 240, "Tue Jul 09 2024 11:04:05 GMT-0400 (Eastern Daylight Time)", "7/9/2024, 11:04:05 AM", "America/New_York", "2025-01-01T05:00:00.000Z", "2025-07-01T04:00:00.000Z"])),
        ("Asia/Kathmandu", all, json!([20, -345, "Tue Jul 09 2024 20:49:05 GMT+0545 (Nepal Time)", "7/9/2024, 8:49:05 PM", "Asia/Kathmandu", "2024-12-31T18:15:00.000Z", "2025-06-30T18:15:00.000Z"])),
        ("Europe/Berlin", "return new Date(4090000000000).getTimezoneOffset()", json!(-120)),
        ("Europe/Berlin", "const now = Temporal.Now.zonedDateTimeISO(); return [Temporal.Now.timeZoneId(), now.timeZoneId, Temporal.Now.plainDateISO().equals(now.toPlainDate()), new Date(0).toTemporalInstant().toZonedDateTimeISO(Temporal.Now.timeZoneId()).toString(), Temporal.Instant.from('2026-07-01T00:00Z').toLocaleString('en')]",
            json!(["Europe/Berlin", "Europe/Berlin", true, "1970-01-01T01:00:00+01:00[Europe/Berlin]", "7/1/2026, 2:00:00 AM"])),
        ("No/Where", "return new Date(0).getTimezoneOffset()", json!(0)),
        ("/etc/passwd", "return Intl.DateTimeFormat().resolvedOptions().timeZone", json!("UTC")),
    ]
}

/// The result of a program in a worker of its own, or why there is none.
fn run(time_zone: &str, code: &str, args: &Value) -> Result<Value, String> {
    let mut worker = Worker::start(time_zone);
    assert_eq!(worker.receive().kind, Kind::Ready);
    let limits = Limits { timeout_ms: 60_000, ..LIMITS };
    let args = to_raw_value(args).unwrap();
    worker.send(Kind::Init, 0, &json!(Init { name: "agent.ts".to_owned(), code: code.to_owned(), args, limits }));
    let mut value = Value::Null;
    loop {
        let frame = worker.receive();
        match frame.kind {
            Kind::Value => value = serde_json::from_slice(&frame.body).unwrap(),
            Kind::ExecutionComplete => {
                let complete: ExecutionComplete = serde_json::from_slice(&frame.body).unwrap();
                return complete.error.map_or(Ok(value), |error| Err(format!("{error:?}")));
            }
            _ => {}
        }
    }
}
