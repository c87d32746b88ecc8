//! What to do about an error, as far as its message tells.

use crate::transpile::MODULE_EXPORTS;

/// Names that programs expect from other places, and what to do here instead.
const ABSENT: [(&[&str], &str); 17] = [
    (&MODULE_EXPORTS, "is in the module \"pml\": import it from there, or write `pml.` in front"),
    (
        &["fetch", "XMLHttpRequest", "WebSocket", "EventSource", "Request", "Response", "FormData"],
        "is not available here; call an MCP tool instead",
    ),
    (
        &["require", "module", "exports", "__dirname", "__filename", "importScripts"],
        "is not available here; there are no packages: call an MCP tool, or write the function yourself",
    ),
    (
        &[
            "process",
            "Deno",
            "Bun",
            "global",
            "window",
            "self",
            "document",
            "navigator",
            "localStorage",
            "sessionStorage",
            "Worker",
            "MessageChannel",
            "BroadcastChannel",
        ],
        "is not available here; programs see `mcp`, `pml`, `args` and standard JavaScript, and reach files, network and processes through MCP tools",
    ),
    (
        &[
            "ReadableStream",
            "WritableStream",
            "TransformStream",
            "TextDecoderStream",
            "TextEncoderStream",
            "CompressionStream",
            "DecompressionStream",
            "File",
        ],
        "is not available here; a Blob or a Uint8Array holds bytes",
    ),
    (&["WebAssembly"], "is not available in this engine"),
    (
        &[
            "fs",
            "path",
            "os",
            "util",
            "http",
            "https",
            "net",
            "child_process",
            "execSync",
            "exec",
            "spawn",
            "readFile",
            "writeFile",
            "readFileSync",
            "writeFileSync",
            "sqlite3",
            "subprocess",
        ],
        "is not available here: there are no modules of Node; reach files, network and processes through MCP tools",
    ),
    (
        &["axios", "got", "request", "requests", "superagent", "ky", "urllib", "jQuery"],
        "is not available here; there are no packages and no network: call an MCP tool instead",
    ),
    (
        &[
            "_", "lodash", "R", "ramda", "z", "zod", "cheerio", "yaml", "uuid", "uuidv4", "Papa", "XLSX", "np", "pd",
            "re",
        ],
        "is not available here; there are no packages: write it with standard JavaScript, such as `Object.groupBy`, `toSorted`, `crypto.randomUUID()`",
    ),
    (
        &["moment", "dayjs", "luxon", "DateTime", "datetime", "dateFns", "format", "parseISO", "addDays", "timedelta"],
        "is not available here; there are no packages: use `Temporal`, `Date` and `Intl.DateTimeFormat`",
    ),
    (
        &["alert", "confirm", "prompt"],
        "is not available here: nobody sees a window; use `console.log(…)`, and `return` what is to be the result",
    ),
    (
        &[
            "tools",
            "client",
            "Client",
            "codemode",
            "use_mcp_tool",
            "call_tool",
            "callMcpTool",
            "invokeTool",
            "runTool",
            "executeTool",
            "mcp_client",
            "mcpClient",
            "servers",
            "mcpServers",
            "session",
            "context",
            "ctx",
        ],
        "is not available here; call a tool with `await mcp.server.tool({ … })`, or `await pml.callTool(\"server:tool\", { … })`",
    ),
    (
        &["input", "inputs", "params", "parameters", "arguments", "argv", "event", "payload"],
        "is not available here; what the program was given is in `args`",
    ),
    (&["print", "println", "puts"], "is not JavaScript; use `console.log(…)`, and `return` what is to be the result"),
    (&["None", "nil", "NULL", "Null"], "is not JavaScript; write `null`"),
    (&["True", "False", "TRUE", "FALSE"], "is not JavaScript; write `true` or `false`"),
    (
        &["len", "str", "dict", "range", "enumerate", "zip", "sorted", "sum", "elif", "json", "asyncio", "isinstance"],
        "is not JavaScript: programs are TypeScript, as in `list.length`, `String(value)`, `JSON.stringify(value)`",
    ),
];

/// Beginnings or ends of the engine's messages, and what to do.
const MESSAGES: [(&str, &str); 39] = [
    (
        "Date value is NaN",
        "the date is invalid: `new Date(…)` was given no date; test it with `Number.isNaN(date.getTime())`, and see what it was made of",
    ),
    ("invalid repeat count", "`repeat` takes a count from 0: use `Math.max(0, count)`"),
    ("invalid array length", "the length of an array is a whole number from 0: see what it was computed from"),
    (
        "cannot convert BigInt to number",
        "numbers and BigInts do not mix: convert one of them, `Number(big)` or `BigInt(number)`",
    ),
    ("cannot convert to BigInt: not an integer", "round it first: `BigInt(Math.round(number))`"),
    ("invalid BigInt literal", "the text is no whole number: test it, or use `Number(text)`"),
    (
        "BigInt are forbidden in JSON.stringify",
        "convert it: `JSON.stringify(value, (key, it) => (typeof it === \"bigint\" ? String(it) : it))`",
    ),
    ("cannot convert symbol to string", "use `String(symbol)` or `symbol.description`"),
    ("circular reference", "the value contains itself: stringify only the parts that are needed"),
    (
        "expecting hex digit",
        "a `%` in the text is not followed by two hex digits: it is not URI-encoded, or was decoded already",
    ),
    ("malformed UTF-8", "the text is not URI-encoded UTF-8: use it as it is"),
    ("regexp must have the 'g' flag", "write the flag: `/…/g`, or use `replace`"),
    (
        "invalid 'instanceof' right operand",
        "the right side of `instanceof` must be a class: interfaces and types do not exist at run time",
    ),
    ("this is not initialized", "call `super(…)` before `this` is used in the constructor"),
    ("no setter for property", "the property has only a getter: set what the getter reads"),
    ("class constructors must be invoked with 'new'", "write `new` in front"),
    ("invalid value used as WeakMap key", "only objects can be its keys: use a `Map`"),
    ("invalid value used in WeakSet", "only objects can be in it: use a `Set`"),
    ("cannot block in this thread", "wait with `await new Promise((done) => setTimeout(done, 100))`"),
    (
        "DateTime parsing",
        "a date without a time zone is read from `2026-01-31` or `2026-01-31T12:00`; a text that ends with `Z` is a `Temporal.Instant`",
    ),
    (
        "not an object",
        "an object was expected: `Object.fromEntries`, `new Map` and destructuring of entries take pairs, `[key, value]`, and an iterator's `next` returns `{ value, done }`",
    ),
    ("is not extensible", "the object is frozen or sealed: change a copy, `{ ...object, name: value }`"),
    (
        "could not delete property",
        "the object is frozen or sealed: leave the property out of a copy, `const { name, ...rest } = object`",
    ),
    ("toFixed() digits argument must be between 0 and 100", "give the number of decimals, as in `value.toFixed(2)`"),
    ("invalid number of digits", "give a number of decimals from 0 to 100, as in `value.toFixed(2)`"),
    ("setTimeout takes a function", "write `setTimeout(() => …, ms)`"),
    ("setInterval takes a function", "write `setInterval(() => …, ms)`"),
    ("Promise() needs a function, and got no argument", "write `new Promise((resolve, reject) => …)`"),
    (
        "Invalid time zone specified",
        "use a name of the IANA database, such as `Europe/Oslo` or `America/New_York`, or an offset such as `+02:00`",
    ),
    ("Incorrect locale information provided", "use a language tag with `-`, such as `en-US` or `de`"),
    ("Invalid currency code", "use a code of three letters, such as `EUR` or `USD`"),
    ("Currency code is required", "give the code: `{ style: \"currency\", currency: \"EUR\" }`"),
    (
        "Invalid unit argument",
        "use a unit in the singular, such as `megabyte`, `kilometer-per-hour`; relative times have second, minute, hour, day, week, month, quarter, year",
    ),
    ("when dateStyle is used", "use either `dateStyle` and `timeStyle`, or `year`, `month`, `day` and the like"),
    (
        "decode takes an ArrayBuffer",
        "a text needs no decoding; base64 is decoded with `Buffer.from(text, \"base64\").toString()`",
    ),
    ("digest takes an ArrayBuffer", "turn the text into bytes: `new TextEncoder().encode(text)`"),
    ("unexpected end", "the pattern is not closed: escape `[`, `(` and `\\` that are meant as they are"),
    ("a function cannot be cloned", "only data can be cloned: leave functions out"),
    (
        "The string to be decoded is not correctly encoded",
        "the text is not base64: text that is none needs no decoding",
    ),
];

/// Parts of the messages of `JSON.parse`, and what to do.
const NOT_JSON: [(&str, &str); 4] = [
    (
        "begins with \"```",
        "the JSON is in a code fence: parse what is between the fences, `text.slice(text.indexOf(\"\\n\"), text.lastIndexOf(\"```\"))`",
    ),
    ("begins with \"[{'", PYTHON),
    ("begins with \"{'", PYTHON),
    ("begins with \"['", PYTHON),
];
const PYTHON: &str = "the text is a value as Python prints it, with single quotes, None and True: ask the tool for JSON, or replace these before it is parsed";

/// What to do about an error with this message.
pub(super) fn for_message(message: &str) -> Option<String> {
    let not_json = NOT_JSON.iter().find(|(part, _)| message.contains(part)).map(|(_, hint)| (*hint).to_owned());
    absent(message).or(not_json).or_else(|| {
        let found = MESSAGES.iter().find(|(part, _)| {
            message.starts_with(part)
                || message.ends_with(part)
                || message.contains("Invalid unit argument") && *part == "Invalid unit argument"
        });
        found.map(|(_, hint)| (*hint).to_owned())
    })
}

/// What to do instead of using a global that other places have.
pub(super) fn absent(message: &str) -> Option<String> {
    let name = message.strip_suffix(" is not defined")?.trim_matches('\'');
    ABSENT.iter().find(|(names, _)| names.contains(&name)).map(|(_, advice)| format!("{name} {advice}"))
}

#[cfg(test)]
mod tests {
    use super::absent;

    #[test]
    fn known_absent_globals_get_a_hint() {
        let fetch = "fetch is not available here; call an MCP tool instead";
        assert_eq!(absent("fetch is not defined").as_deref(), Some(fetch));
        assert_eq!(absent("'fetch' is not defined").as_deref(), Some(fetch));
        assert_eq!(absent("foo is not defined"), None);
        assert_eq!(absent("fetch failed"), None);
    }
}
