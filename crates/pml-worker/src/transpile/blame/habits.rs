//! What other languages and libraries call things, and what they are called here.

use super::shape::Shape;

/// Names that no value of this kind has, and what to write instead. `§` is the value.
type Table = &'static [(&'static [&'static str], &'static str)];

const LISTS: Table = &[
    (&["contains", "has", "include", "in"], "`§.includes(…)`"),
    (&["append", "add"], "`§.push(…)`"),
    (&["extend", "addAll"], "`§.push(...items)`"),
    (&["len", "size", "count", "length"], "`§.length`, which is no function"),
    (&["first", "head"], "`§[0]`"),
    (&["last", "tail"], "`§.at(-1)`"),
    (&["remove", "delete", "where", "select", "reject"], "`§.filter((it) => …)`"),
    (&["groupBy", "group_by"], "`Object.groupBy(§, (it) => …)`"),
    (&["flatten"], "`§.flat()`"),
    (&["each"], "`§.forEach((it) => …)`"),
    (&["isEmpty", "empty"], "`§.length === 0`"),
    (&["sum"], "`§.reduce((sum, it) => sum + it, 0)`"),
    (&["max"], "`Math.max(...§)`"),
    (&["min"], "`Math.min(...§)`"),
    (&["uniq", "unique", "distinct"], "`[...new Set(§)]`"),
    (&["sortBy", "orderBy", "order_by", "sorted"], "`§.toSorted((a, b) => …)`"),
    (&["toArray", "to_list", "toList", "collect"], "`§` itself: it is an array"),
    (
        &["split", "trim", "toLowerCase", "toUpperCase", "replace", "match", "startsWith", "substring"],
        "`§.map((it) => …)`, or take an element first: `§[0]`",
    ),
    (&["get"], "`§[index]`"),
];

const TEXTS: Table = &[
    (&["contains", "has"], "`§.includes(…)`"),
    (&["len", "size", "length", "count"], "`§.length`, which is no function"),
    (&["strip"], "`§.trim()`"),
    (&["lstrip"], "`§.trimStart()`"),
    (&["rstrip"], "`§.trimEnd()`"),
    (&["upper"], "`§.toUpperCase()`"),
    (&["lower"], "`§.toLowerCase()`"),
    (&["capitalize", "title"], "`§[0].toUpperCase() + §.slice(1)`"),
    (&["startswith"], "`§.startsWith(…)`"),
    (&["endswith"], "`§.endsWith(…)`"),
    (&["format"], "a template: `` `… ${value}` ``"),
    (&["splitlines", "lines"], "`§.split(\"\\n\")`"),
    (&["find"], "`§.indexOf(…)`, or `§.split(\"\\n\").find((line) => …)`"),
    (&["reverse"], "`[...§].reverse().join(\"\")`"),
    (&["toFixed", "toPrecision"], "`Number(§).toFixed(…)`: it is a text"),
    (
        &[
            "getTime",
            "toISOString",
            "getFullYear",
            "getMonth",
            "getDate",
            "getDay",
            "getHours",
            "valueOf",
            "toLocaleDateString",
            "toLocaleTimeString",
        ],
        "`new Date(§)` first: it is a text",
    ),
    (&["json", "toJSON", "parse"], "`JSON.parse(§)`"),
    (&["toNumber", "toInt", "toFloat"], "`Number(§)`"),
    (&["test"], "`/…/.test(§)`"),
    (
        &["push", "pop", "join", "sort", "reduce", "forEach", "map", "filter", "some", "every", "flatMap", "entries"],
        "`§.split(\"\\n\")` first: it is a text",
    ),
];

const NUMBERS: Table = &[
    (
        &[
            "padStart",
            "padEnd",
            "split",
            "slice",
            "substring",
            "trim",
            "includes",
            "startsWith",
            "endsWith",
            "replace",
            "toLowerCase",
            "toUpperCase",
            "charAt",
            "length",
            "concat",
            "match",
        ],
        "`String(§)` first: it is a number",
    ),
    (
        &["getTime", "toISOString", "getFullYear", "getMonth", "getDate", "toLocaleDateString", "toLocaleTimeString"],
        "`new Date(§)` first: it is a number",
    ),
    (&["round", "floor", "ceil", "abs"], "`Math.round(§)` and the like"),
];

const OBJECTS: Table = &[
    (&["keys"], "`Object.keys(§)`"),
    (&["values"], "`Object.values(§)`"),
    (&["entries", "items"], "`Object.entries(§)`"),
    (&["has", "hasKey", "has_key", "contains", "includes"], "`\"name\" in §`"),
    (&["get"], "`§[key]`"),
    (&["set", "put"], "`§[key] = value`"),
    (&["length", "size", "len", "count"], "`Object.keys(§).length`"),
    (&["json"], "`§` itself: it is parsed already"),
    (&["update", "merge"], "`Object.assign(§, other)`"),
    (
        &[
            "map", "forEach", "filter", "reduce", "find", "some", "every", "sort", "join", "flatMap", "slice", "flat",
            "at", "push",
        ],
        "`Object.values(§)` or `Object.entries(§)` first: it is an object",
    ),
    (
        &[
            "toLowerCase",
            "toUpperCase",
            "trim",
            "split",
            "startsWith",
            "replace",
            "match",
            "localeCompare",
            "substring",
        ],
        "one of its properties: it is an object",
    ),
];

const SETS: Table = &[
    (&["push", "append"], "`§.add(…)`"),
    (&["includes", "contains"], "`§.has(…)`"),
    (&["length", "count", "len"], "`§.size`"),
    (
        &["map", "filter", "find", "reduce", "some", "every", "sort", "join", "slice", "at", "flatMap", "pop"],
        "`[...§]` first: it is a Set",
    ),
];

const MAPS: Table = &[
    (&["length", "count", "len"], "`§.size`"),
    (&["contains", "includes", "hasKey"], "`§.has(key)`"),
    (&["put", "add"], "`§.set(key, value)`"),
    (&["push"], "`(§.get(key) ?? []).push(…)`, and `§.set(key, list)` first"),
    (
        &["map", "filter", "find", "reduce", "some", "every", "sort", "join", "slice", "at", "flatMap", "items"],
        "`[...§]` first, which has pairs `[key, value]`: it is a Map",
    ),
];

const DATES: Table = &[
    (
        &["addDays", "addHours", "addMinutes", "add", "subtract", "plus", "minus", "addMonths"],
        "`new Date(§.getTime() + ms)`, or use `Temporal`",
    ),
    (
        &["format", "strftime", "toFormat"],
        "`§.toISOString().slice(0, 10)`, or `§.toLocaleDateString(\"en-US\", { … })`",
    ),
    (&["diff", "since", "until"], "`§.getTime() - other.getTime()`, which is milliseconds"),
    (&["now", "today"], "`Date.now()`, or `new Date()`"),
    (&["isBefore", "isAfter", "isSame", "before", "after"], "`§ < other`"),
    (
        &["year", "month", "day", "isoformat", "toDate", "unix", "timestamp"],
        "`§.getFullYear()`, `§.getTime()`, `§.toISOString()` and the like",
    ),
    (
        &["slice", "split", "substring", "startsWith", "replace", "includes", "localeCompare"],
        "`§.toISOString()` first: it is a Date",
    ),
];

/// Names that programs expect of a global, and what to write instead.
const GLOBALS: &[(&str, &[&str], &str)] = &[
    ("Date", &["today", "utcnow", "Now"], "`Date.now()`, or `new Date()`"),
    (
        "Object",
        &["map", "filter", "forEach", "reduce", "length", "size"],
        "`Object.entries(object)` first: that is an array",
    ),
    ("Object", &["merge", "extend"], "`{ ...one, ...other }`"),
    ("String", &["format", "join"], "a template: `` `… ${value}` ``"),
    ("JSON", &["loads", "load", "decode", "fromString"], "`JSON.parse(text)`"),
    ("JSON", &["dumps", "dump", "encode", "toString"], "`JSON.stringify(value)`"),
    ("console", &["print", "write", "println", "success", "notice"], "`console.log(…)`"),
    ("Promise", &["delay", "sleep", "wait", "timeout"], "`await new Promise((done) => setTimeout(done, ms))`"),
    ("Promise", &["map", "each", "series"], "`await Promise.all(list.map(async (it) => …))`"),
    ("Math", &["average", "mean", "avg", "median"], "`list.reduce((sum, it) => sum + it, 0) / list.length`"),
    ("Math", &["sum"], "`list.reduce((sum, it) => sum + it, 0)`"),
    ("Number", &["parse", "format", "toFixed"], "`Number(text)`, or `number.toFixed(2)`"),
    ("Array", &["range", "fill"], "`Array.from({ length: n }, (_, index) => index)`"),
    (
        "pml",
        &["call", "run", "execute", "invoke", "tool", "call_tool", "useTool"],
        "`await pml.callTool(\"server:tool\", { … })`",
    ),
    (
        "pml",
        &["search", "searchTool", "findTools", "listTools", "tools"],
        "`await pml.searchTools(\"what the tool does\")`",
    ),
    ("pml", &["log", "print", "debug"], "`console.log(…)`"),
    ("pml", &["batch", "callTools", "callBatch", "parallel"], "`await pml.callToolsBatch([{ name, args }])`"),
    ("pml", &["mcp", "servers"], "`mcp`, which is a global: `await mcp.server.tool({ … })`"),
    ("pml", &["args", "input", "params"], "`args`, which is a global"),
    ("pml", &["return", "output", "done", "finish"], "`return value`"),
];

/// What to write instead of a member `name` that the global `global` does not have.
pub(super) fn of_global(global: &str, name: Option<&str>) -> Option<String> {
    let name = name?;
    let found = GLOBALS.iter().find(|(of, names, _)| *of == global && names.contains(&name));
    found.map(|(.., instead)| format!("write {instead}"))
}

/// What to write instead of a method `name` of a value that is called `text` and has no such method.
pub(super) fn instead(shape: Option<&Shape>, text: &str, name: &str) -> Option<String> {
    let tables: &[Table] = match shape {
        Some(Shape::Array(..)) => &[LISTS],
        Some(Shape::Text(_)) => &[TEXTS],
        Some(Shape::Number) => &[NUMBERS],
        Some(Shape::Instance("Set")) => &[SETS],
        Some(Shape::Instance("Map")) => &[MAPS],
        Some(Shape::Instance("Date")) => &[DATES],
        Some(Shape::Object(_) | Shape::Other) => &[OBJECTS],
        Some(_) => &[],
        // Names that nothing here has.
        None if FOREIGN.contains(&name) => &[LISTS, TEXTS, OBJECTS],
        None => &[],
    };
    let found = tables.iter().copied().flatten().find(|(names, _)| names.contains(&name));
    found.map(|(_, instead)| format!("write {}", instead.replace('§', text)))
}

const FOREIGN: [&str; 21] = [
    "contains",
    "append",
    "extend",
    "len",
    "isEmpty",
    "groupBy",
    "flatten",
    "each",
    "uniq",
    "sortBy",
    "strip",
    "lstrip",
    "rstrip",
    "upper",
    "lower",
    "capitalize",
    "startswith",
    "endswith",
    "format",
    "splitlines",
    "items",
];
