//! What to send instead of a text that is no program, as far as the text tells.

/// Marks that come in place of code when it was copied from somewhere: what the place begins with, and what to do.
const CHARACTERS: [(&[char], &str); 9] = [
    (&['“', '”', '‘', '’', '„', '«', '»'], "the quotes are typographic: write \" or '"),
    (&['…'], "the `…` stands for code that was left out: write that code"),
    (&['–', '—', '−'], "the dash is typographic: write `-`"),
    (&['×', '·', '∗'], "write `*` to multiply"),
    (&['÷', '∕'], "write `/` to divide"),
    (&['→', '⇒'], "the arrow is typographic: write `=>`"),
    (&['≠', '≤', '≥'], "write `!==`, `<=` or `>=`"),
    (&['（', '）', '；', '，', '：', '｛', '｝', '［', '］', '＝'], "the character is full-width: write the ASCII one"),
    (&['\u{200b}', '\u{feff}', '\u{2028}', '\u{200d}'], "the character is invisible: leave it out"),
];

/// Words that begin a line or stand at the place, of languages that models mix up with this one.
const PYTHON_LINES: [(&str, &str); 13] = [
    ("def ", "it reads like Python: write `function name() { … }`"),
    ("elif ", "it reads like Python: write `else if (…) { … }`"),
    ("except", "it reads like Python: write `try { … } catch (error) { … }`"),
    ("try:", "it reads like Python: write `try { … } catch (error) { … }`"),
    ("else:", "it reads like Python: write `else { … }`"),
    (
        "from ",
        "it reads like Python: programs are TypeScript, and tools need no import: `await mcp.server.tool({ … })`",
    ),
    ("with ", "it reads like Python: programs are TypeScript, and there are no files to open: call an MCP tool"),
    ("async def ", "it reads like Python: write `async function name() { … }`"),
    ("lambda ", "it reads like Python: write `(x) => …`"),
    ("print ", "write `console.log(…)`"),
    ("for ", "write `for (const item of list) { … }`"),
    ("while ", "write `while (…) { … }`"),
    ("pass", "it reads like Python: leave `pass` out"),
];

/// How declarations begin in languages that put the type first.
const TYPES_FIRST: [&str; 12] = [
    "string ", "String ", "int ", "float ", "double ", "bool ", "boolean ", "List<", "Map<", "auto ", "char ", "long ",
];

/// What to do about the mistake that the parser found at `offset`, and what it called it.
pub(super) fn advice(text: &str, offset: usize, message: &str) -> Option<String> {
    let offset = text.floor_char_boundary(offset.min(text.len()));
    let start = text[..offset].rfind('\n').map_or(0, |newline| newline + 1);
    let end = text[offset..].find('\n').map_or(text.len(), |newline| offset + newline);
    let place = Place { text, line: &text[start..end], before: &text[start..offset], after: &text[offset..end] };
    place
        .copied()
        .or_else(|| place.character())
        .or_else(|| place.placeholder())
        .or_else(|| place.python(message))
        .or_else(|| place.foreign())
        .or_else(|| place.prose())
        .or_else(|| unclosed(text, message))
        .or_else(|| place.closed_twice(message))
        .or_else(|| place.separator(message))
        .or_else(|| word(message))
}

/// What the parser's own help says, unless a semicolon would not help.
pub(super) fn help(help: String) -> Option<String> {
    let is_guess = help.contains("inserting a semicolon");
    let help = help.lines().next().unwrap_or_default().to_owned();
    match is_guess {
        true => Some("two things stand side by side that cannot: an operator, a comma, a bracket or a line break is missing, or the text is not TypeScript".to_owned()),
        false => Some(help).filter(|help| !help.is_empty()),
    }
}

struct Place<'t> {
    text: &'t str,
    /// The line of the mistake, and its parts before and behind the place.
    line: &'t str,
    before: &'t str,
    after: &'t str,
}

impl Place<'_> {
    /// Text that was escaped, numbered or marked on its way here.
    fn copied(&self) -> Option<String> {
        let next = self.after.chars().next();
        let advice = if self.before.ends_with('\\') && matches!(next, Some('n' | 't' | 'r' | '"' | '\'')) {
            "the line breaks or quotes are escaped twice: send the code with real ones"
        } else if ["=&gt;", "&amp;&amp;", "&lt;", "&quot;", "&gt;", "&#39;"].iter().any(|it| self.text.contains(it)) {
            "the code is escaped as HTML: send `=>`, `&&`, `<` and quotes as they are"
        } else if self.has_line_numbers() {
            "the lines begin with their numbers: send the code without them"
        } else if self.is_diff() && self.prose().is_none() {
            "the text is a diff: send the code as it is to run, without `+`, `-` and `@@`"
        } else if self.text.lines().any(|line| line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ")) {
            "the text has the marks of a merge conflict: keep one side, and leave out the lines with `<<<<<<<`, `=======` and `>>>>>>>`"
        } else if self.line.trim_start().starts_with("<!--") {
            "write comments as `// …` or `/* … */`"
        } else {
            return None;
        };
        Some(advice.to_owned())
    }

    fn has_line_numbers(&self) -> bool {
        let lines = || self.text.lines().filter(|line| !line.trim().is_empty());
        let is_numbered = |(index, line): (usize, &str)| {
            let line = line.trim_start();
            let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let number: Option<usize> = line[..digits].parse().ok();
            let rest = line[digits..].trim_start_matches(' ');
            let is_marked = rest.is_empty() || rest.starts_with(['|', ':', '\t', '.', ')', '→', '│']);
            number.is_some_and(|number| number >= index) && is_marked
        };
        lines().count() > 0 && lines().enumerate().all(is_numbered)
    }

    fn is_diff(&self) -> bool {
        let lines = || self.text.lines().filter(|line| !line.trim().is_empty());
        let is_marked = |line: &str| line.starts_with(['+', '-']) && !line.starts_with("++") && !line.starts_with("--");
        let has_hunk = lines().any(|line| line.starts_with("@@ ") || line.starts_with("diff --git"));
        let is_statement = |line: &str| {
            let rest = line[1..].trim_start();
            ["const ", "let ", "return", "await ", "for ", "if ", "}", "import "].iter().any(|it| rest.starts_with(it))
        };
        has_hunk || lines().any(|line| is_marked(line) && is_statement(line))
    }

    fn character(&self) -> Option<String> {
        let nearby = [self.after.chars().next(), self.before.chars().next_back()];
        // The parser may stop before the character.
        let next = self.after.trim_start().chars().next();
        let mut found = nearby.into_iter().flatten().chain(next);
        let advice = found.find_map(|c| CHARACTERS.iter().find(|(characters, _)| characters.contains(&c)))?;
        Some(advice.1.to_owned())
    }

    /// Something that stands for code.
    fn placeholder(&self) -> Option<String> {
        let (before, after) = (self.before.trim_end(), self.after.trim_start());
        let is_dots = self.line.trim() == "..."
            || before.ends_with("...") && after.starts_with([')', '}', ']', ',', ';'])
            || after.starts_with("...") && after[3..].trim_start().starts_with([')', '}', ']', ',', ';']);
        // `...` and then the next line.
        let last = self.text[..self.text.len() - self.after.len()].trim_end().lines().next_back();
        if is_dots || last.is_some_and(|line| line.trim() == "...") {
            return Some("the `...` stands for code that was left out: write that code".to_owned());
        }
        let is_name = |text: &str| {
            let name = text.split('>').next().unwrap_or_default();
            text.contains('>') && !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || " _-".contains(c))
        };
        let has_placeholder = self
            .line
            .match_indices('<')
            .any(|(at, _)| is_name(&self.line[at + 1..]) && self.line[..at].trim_end().ends_with([':', '=', '(', ',']));
        if has_placeholder {
            return Some("a name in `<…>` stands for a value: write the value".to_owned());
        }
        let is_empty = before.ends_with("*/") && after.starts_with([';', ',', ')'])
            || before.ends_with('=') && after.starts_with(';');
        is_empty.then(|| "a value is missing here: write it".to_owned())
    }

    fn python(&self, message: &str) -> Option<String> {
        let line = self.line.trim_start();
        let is_block = line.trim_end().ends_with(':');
        let next: String = self.after.trim_start().chars().take_while(|c| c.is_alphanumeric()).collect();
        // In prose the same words stand.
        let starts = ["if ", "elif ", "while ", "for ", "return ", "assert ", "not "];
        let is_code = line.contains(['=', '(', '[', '{', '"', '\'']) || starts.iter().any(|it| line.starts_with(it));
        let word = |text: &str| is_code && text == next;
        let advice = if line.starts_with('#') {
            "write comments as `// …`".to_owned()
        } else if line.starts_with("import ") && !line.contains(['\'', '"']) || message.starts_with("Expected `from`") {
            "it reads like Python: programs are TypeScript, and tools need no import: `await mcp.server.tool({ … })`"
                .to_owned()
        } else if self.line.contains("\"\"\"") || self.line.contains("'''") {
            "write a text of several lines as a template: `` `…` ``".to_owned()
        } else if (self.before.ends_with('f') || self.before.ends_with("f ")) && self.after.starts_with(['"', '\'']) {
            "write a text with values as a template: `` `… ${value}` ``".to_owned()
        } else if line.contains("->") && !line.contains("=>") && !line.contains("-->") {
            "write a function as `(x) => …`".to_owned()
        } else if line.contains(":=") {
            "write `const name = value`".to_owned()
        } else if TYPES_FIRST.iter().any(|start| line.starts_with(start)) {
            "a declaration begins with `const` or `let`: `const name = value`".to_owned()
        } else if line.starts_with("unless ") {
            "write `if (!…) { … }`".to_owned()
        } else if line.starts_with("else") && !is_block {
            "an `else` stands right behind the block of its `if`".to_owned()
        } else if word("and")
            || word("or")
            || self.before.trim_end().ends_with(" not")
            || self.before.trim_end().ends_with("(not")
        {
            "write `&&`, `||` and `!` for `and`, `or` and `not`".to_owned()
        } else if word("is") {
            "write `===`".to_owned()
        } else if word("in") && !line.starts_with("for") {
            "write `list.includes(value)`, or `key in object`".to_owned()
        } else if word("if") && line.contains(" else ") {
            "write `condition ? value : other`".to_owned()
        } else if word("then") || word("elseif") || word("elsif") {
            "write `if (…) { … } else if (…) { … }`".to_owned()
        } else if line.contains(" elif ") || line.contains("}elif") || line.contains("elseif") {
            "write `else if (…) { … }`".to_owned()
        } else if line.contains("lambda ") {
            "write a function as `(x) => …`".to_owned()
        } else if message.contains("Expected `]` but found `:`") {
            "write a part of a list or a text as `list.slice(from, to)`".to_owned()
        } else {
            let found = PYTHON_LINES.iter().find(|(start, _)| line.starts_with(start))?;
            let is_sure = is_block || !matches!(found.0, "for " | "while " | "from " | "with " | "print " | "pass");
            let is_bare =
                matches!(found.0, "for " | "while ") && !line[found.0.len()..].trim_start().starts_with(['(', 'a']);
            if !is_sure && !is_bare && !matches!(found.0, "from " | "print ") {
                return None;
            }
            found.1.to_owned()
        };
        Some(advice)
    }

    /// What is no program of any kind.
    fn foreign(&self) -> Option<String> {
        let first = self.text.split_whitespace().next().unwrap_or_default();
        let advice = match first {
            "SELECT" | "INSERT" | "UPDATE" | "DELETE" | "CREATE" | "WITH" | "select" => {
                "the text is SQL: pass it to a tool, as in `return await mcp.server.query({ sql: \"…\" })`"
            }
            "curl" | "wget" | "npm" | "npx" | "git" | "cd" | "ls" | "cat" | "pip" | "python" | "echo" | "sudo"
            | "$" => {
                "the text is a shell command: programs are TypeScript, and reach files, network and processes through MCP tools"
            }
            _ => return None,
        };
        Some(advice.to_owned())
    }

    fn prose(&self) -> Option<String> {
        let words: Vec<_> = self.line.split_whitespace().collect();
        let is_word = |word: &&str| {
            let word = word.trim_end_matches([',', '.', ':', '!']);
            !word.is_empty() && word.chars().all(|c| c.is_alphabetic() || c == '\'' || c == '’')
        };
        let is_prose = words.len() >= 3 && words.iter().filter(|word| is_word(word)).count() * 4 >= words.len() * 3;
        is_prose.then(|| "send the code alone, without text around it".to_owned())
    }

    /// A bracket that closes nothing.
    fn closed_twice(&self, message: &str) -> Option<String> {
        let place = self.text.len() - self.text[self.before.as_ptr() as usize - self.text.as_ptr() as usize..].len()
            + self.before.len();
        let next = self.after.chars().next().filter(|c| matches!(c, ')' | ']' | '}'))?;
        let is_meant = message.contains("Unexpected token") || message.contains("semicolon");
        let is_extra = brackets(&self.text[..place]).last().is_none_or(|(_, open)| closing(*open) != next);
        (is_meant && is_extra).then(|| {
            format!("this `{next}` closes nothing that is open here: leave it out, or open the bracket before")
        })
    }

    /// Two members or arguments without a comma, or an object in the place of a function's body.
    fn separator(&self, message: &str) -> Option<String> {
        if message.contains("semicolon") && self.before.contains("=> {") && self.before.contains(':') {
            return Some("a function that returns an object has it in parentheses: `(x) => ({ … })`".to_owned());
        }
        let is_list =
            message.starts_with("Expected `,` or") && !message.contains("EOF") && !message.contains("found `;`");
        if is_list {
            let is_object = message.starts_with("Expected `,` or `}`");
            return Some(match is_object {
                true => "write a comma between the two, or a colon behind the name".to_owned(),
                false => "write a comma between the two".to_owned(),
            });
        }
        let open = message.strip_prefix("Expected `,` or `")?.chars().next()?;
        Some(format!("a `{open}` is missing before this place"))
    }
}

/// A bracket, a text or a template that is open at the end.
fn unclosed(text: &str, message: &str) -> Option<String> {
    if message.contains("Unterminated multiline comment") {
        return Some("close the comment with `*/`".to_owned());
    }
    if message.contains("Unterminated string") && text.matches('`').count() % 2 == 1 {
        return Some("a backtick opens or closes nothing: close the template, or leave the backtick out".to_owned());
    }
    if message.contains("Unterminated string") {
        return Some(
            "close the text with the quote that opened it; a text of several lines is a template: `` `…` ``".to_owned(),
        );
    }
    if message.contains("Unterminated template") {
        return Some("close the template with a backtick".to_owned());
    }
    if message.starts_with("Invalid regular expression") {
        return Some("escape brackets and other signs that are meant as they are: `\\(`, `\\[`, `\\/`".to_owned());
    }
    if !message.contains("EOF") && !message.contains("Unterminated") {
        // `${name;`
        let is_hole = message.contains("Expected `}` but found `;`") && text.contains("${");
        return is_hole.then(|| "close the value in the template with `}`: `${name}`".to_owned());
    }
    let (offset, open) = brackets(text).last().copied()?;
    let line = text[..offset].matches('\n').count() + 1;
    Some(format!("the `{open}` on line {line} is never closed: add a `{}`", closing(open)))
}

fn closing(open: char) -> char {
    match open {
        '(' => ')',
        '[' => ']',
        _ => '}',
    }
}

/// The brackets that are open at the end of a text, outside of texts and comments, as far as can be told without a parser.
fn brackets(text: &str) -> Vec<(usize, char)> {
    let mut open = Vec::new();
    let mut quote = None;
    let mut characters = text.char_indices().peekable();
    while let Some((offset, character)) = characters.next() {
        match (quote, character) {
            (Some(_), '\\') => {
                characters.next();
            }
            (Some(ends), character) if character == ends || character == '\n' && ends != '`' => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'' | '`') => quote = Some(character),
            (None, '/') if characters.peek().is_some_and(|(_, next)| *next == '/') => quote = Some('\n'),
            (None, '(' | '[' | '{') => open.push((offset, character)),
            (None, ')' | ']' | '}') if open.last().is_some_and(|(_, last)| closing(*last) == character) => {
                open.pop();
            }
            _ => {}
        }
    }
    open
}

/// What the parser's message alone tells.
fn word(message: &str) -> Option<String> {
    let advice = [
        ("has already been declared", "give one of them another name, or assign to the first without `const` or `let`"),
        ("reserved word", "choose another name"),
        ("Cannot use `await` as an identifier", "choose another name"),
        ("Cannot assign to this expression", "assign to a variable or a property, without `?.`"),
        ("Use of undefined label", "write the label in front of the loop: `outer: for (…)`"),
        (
            "Delete of an unqualified identifier",
            "set the variable to `undefined`, or delete a property: `delete object.name`",
        ),
        ("'with' statements", "name the object: `object.name`"),
        (
            "`await` is only allowed",
            "write `async` in front of the function that has this `await`; in callbacks of `map` also `await Promise.all(…)` around, and a `for … of` loop in place of `forEach`",
        ),
        ("for await` loops are only", "write `async` in front of the function that has this loop"),
        ("Expected `{` but found", "put what belongs to it into braces: `{ … }`"),
        ("Expected function name", "give the function a name, or write it as `(x) => …`"),
        ("Illegal continue", "in a callback, write `return` for `continue`; a `for … of` loop has both"),
        (
            "Illegal break",
            "only loops and `switch` have `break`: a program ends with `return`, and a callback cannot stop `forEach`: use `for … of`",
        ),
    ];
    advice.iter().find(|(part, _)| message.contains(part)).map(|(_, advice)| (*advice).to_owned())
}
