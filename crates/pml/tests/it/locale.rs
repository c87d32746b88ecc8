//! Methods that depend on a locale or a time zone, in the real sandbox. `pml-worker/tests/intl.rs` has what they say in detail.

use pml::sandbox::{Mode, Options, TimeZone};
use pml_wire::ErrorCode;
use serde_json::json;

use crate::support::{Sandbox, options};

/// Each value is what Node 20 (ICU 78) gives in UTC.
#[tokio::test]
async fn english_is_right() {
    let table = [
        (
            "[0, -0, 1234, -1234567.891, 0.0005, 1.0005, 999.9995, 1e21, 1e-7, NaN, -Infinity].map((n) => n.toLocaleString())",
            json!([
                "0",
                "-0",
                "1,234",
                "-1,234,567.891",
                "0.001",
                "1.001",
                "1,000",
                "1,000,000,000,000,000,000,000",
                "0",
                "NaN",
                "-∞"
            ]),
        ),
        (
            "[5, 1234.5, 0.005].map((n) => n.toLocaleString('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 }))",
            json!(["5.00", "1,234.50", "0.01"]),
        ),
        (
            "[(1234.5).toLocaleString('en', { useGrouping: false }), 12345678901234567890n.toLocaleString()]",
            json!(["1234.5", "12,345,678,901,234,567,890"]),
        ),
        ("[1234.5, null, 'x', new Date(0)].toLocaleString()", json!("1,234.5,,x,1/1/1970, 12:00:00 AM")),
        (
            "const d = new Date(1709847296000); [d.toLocaleString(), d.toLocaleDateString('en-US'), d.toLocaleTimeString([], { timeZone: 'UTC' }), `${d}`]",
            json!([
                "3/7/2024, 9:34:56 PM",
                "3/7/2024",
                "9:34:56 PM",
                "Thu Mar 07 2024 21:34:56 GMT+0000 (Coordinated Universal Time)"
            ]),
        ),
        ("new Date(NaN).toLocaleString()", json!("Invalid Date")),
        (
            "['zoe', 'Äpfel', 'apple', 'Zoë', 'éclair', 'B', 'a', 'Østby', 'O’Neil', \"O'Neil\", 'Straße', 'strasse', '10', '9', '_x', 'Иван', 'йод', 'и'].sort((a, b) => a.localeCompare(b))",
            json!([
                "_x", "10", "9", "a", "Äpfel", "apple", "B", "éclair", "O'Neil", "O’Neil", "Østby", "strasse",
                "Straße", "zoe", "Zoë", "и", "Иван", "йод"
            ]),
        ),
        (
            "['a10', 'a2', 'A1'].sort((a, b) => a.localeCompare(b, 'en', { numeric: true, sensitivity: 'base' }))",
            json!(["A1", "a2", "a10"]),
        ),
        (
            "['base', 'accent', 'case', 'variant'].map((sensitivity) => ['a'.localeCompare('A', 'de', { sensitivity }), 'a'.localeCompare('á', undefined, { sensitivity })])",
            json!([[0, 0], [0, -1], [-1, 0], [-1, -1]]),
        ),
        ("['İ'.toLocaleLowerCase('en').length, 'ß'.toLocaleUpperCase()]", json!([2, "SS"])),
        ("'é'.normalize('NFD').length + 'é'.normalize().length", json!(3)),
    ];
    let sandbox = Sandbox::start();
    for (program, expected) in table {
        assert_eq!(sandbox.value(program).await, expected, "{program}");
    }
    sandbox.stop().await;
}

/// Each value is what Node 22 gives.
#[tokio::test]
async fn other_languages_and_zones_are_right() {
    let table = [
        (
            "[(1234567.891).toLocaleString('de-DE'), (5).toLocaleString('en', { style: 'currency', currency: 'USD' })]",
            json!(["1.234.567,891", "$5.00"]),
        ),
        (
            "new Date(0).toLocaleString('fr-FR', { timeZone: 'Europe/Oslo', dateStyle: 'long', timeStyle: 'short' })",
            json!("1 janvier 1970 à 01:00"),
        ),
        ("['z', 'ä', 'a'].sort((a, b) => a.localeCompare(b, 'sv'))", json!(["a", "z", "ä"])),
        ("'I'.toLocaleLowerCase('tr')", json!("ı")),
        ("Intl.DateTimeFormat().resolvedOptions().timeZone", json!("UTC")),
    ];
    let sandbox = Sandbox::start();
    for (program, expected) in table {
        assert_eq!(sandbox.value(program).await, expected, "{program}");
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn programs_are_in_the_zone_that_the_settings_name() {
    for mode in [Mode::Worker, Mode::Subprocess] {
        let time_zone = TimeZone::parse("America/New_York").unwrap();
        let sandbox = Sandbox::with(Options { time_zone, ..options(env!("CARGO_BIN_EXE_pml"), mode) });
        let program = "const d = new Date(2026, 6, 4, 9); [d.toISOString(), `${d}`, d.toLocaleTimeString('en-US'), d.getTimezoneOffset()]";
        let expected = json!([
            "2026-07-04T13:00:00.000Z",
            "Sat Jul 04 2026 09:00:00 GMT-0400 (Eastern Daylight Time)",
            "9:00:00 AM",
            240
        ]);
        assert_eq!(sandbox.value(program).await, expected, "{mode:?}");
        sandbox.stop().await;
    }
}

#[tokio::test]
async fn what_is_not_there_throws_and_says_what_works() {
    let table = [
        ("(5).toLocaleString('haw')", "the locale `haw` is not supported here", "supportedLocalesOf()"),
        ("new Date(0).toLocaleDateString('en', { calendar: 'coptic' })", "the calendar `coptic`", "gregory"),
        ("Temporal.PlainDate.from('1 March')", "cannot parse `1 March` as a Temporal.PlainDate", ""),
        (
            "Temporal.PlainDate.from('2026-03-01') < Temporal.PlainDate.from('2026-03-02')",
            "has no order",
            "PlainDate.compare()",
        ),
        ("Temporal.PlainDate.from('2026-03-01').add({ day: 1 })", "in the plural", "`days`"),
        ("/(a)/.test('a'); RegExp.$1", "RegExp[\"$1\"]", "exec()"),
        ("structuredClone(new ArrayBuffer(1), { transfer: [new ArrayBuffer(1)] })", "does not transfer", ""),
    ];
    let sandbox = Sandbox::start();
    for (program, expected, instead) in table {
        let error = sandbox.run(program).await.result.unwrap_err();
        assert_eq!(error.code, ErrorCode::Exception, "{program}: {error:?}");
        assert!(error.message.contains(expected) && error.message.contains(instead), "{program}: {error:?}");
    }
    sandbox.stop().await;
}
