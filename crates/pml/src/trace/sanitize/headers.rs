//! Credentials of HTTP and of commands: `Authorization: …`, `Bearer …`, `Basic …`, `curl -u user:password`, `mysql -p…`.

use std::ops::Range;

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};

use super::{
    finding::Kind,
    keys::{self, Strength},
    scan::Scan,
    shape::{BASE64, TOKEN68, is_uuid},
    value::{has_signs, is_placeholder, is_template},
};

/// Schemes of the header `Authorization` whose credentials follow behind a space.
const SCHEMES: [&str; 18] = [
    "bearer",
    "basic",
    "token",
    "apikey",
    "api-key",
    "digest",
    "negotiate",
    "ntlm",
    "aws4-hmac-sha256",
    "hawk",
    "splunk",
    "ssws",
    "genie-key",
    "key",
    "sharedaccesssignature",
    "sharedkey",
    "oauth",
    "dpop",
];

/// Those of them whose credentials are several, with names and commas.
const SEVERAL: [&str; 6] = ["digest", "aws4-hmac-sha256", "hawk", "oauth", "sharedkey", "sharedaccesssignature"];
/// Longest credential that is looked for the end of.
const MAX_CREDENTIAL: usize = 8 * 1024;

/// Is this the name of a scheme?
pub(super) fn is_scheme(word: &str) -> bool {
    SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
}

/// The secret in the value of an `Authorization` header that begins at `at`. The scheme stays.
pub(super) fn credentials(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let mut start = at;
    let mut quote = None;
    let slashes = bytes.get(start..)?.iter().take(4).take_while(|byte| **byte == b'\\').count();
    if let Some(found @ (b'"' | b'\'' | b'`')) = bytes.get(start + slashes) {
        quote = Some(*found);
        start += slashes + 1;
    }
    let word = bytes.get(start..)?.iter().take(32).position(|byte| *byte == b' ').map(|end| start..start + end);
    let scheme = word.and_then(|word| text.get(word)).filter(|word| is_scheme(word));
    if let Some(scheme) = scheme {
        start += scheme.len();
        start += bytes[start..].iter().take(8).take_while(|byte| **byte == b' ').count();
    }
    // What is behind the credential in a sentence or a command is no part of it, unless the scheme has several.
    let has_several = scheme.is_some_and(|scheme| SEVERAL.iter().any(|several| scheme.eq_ignore_ascii_case(several)));
    let is_end = |byte: &u8| match byte {
        b'\n' | b'\r' => true,
        byte if has_several => quote == Some(*byte),
        byte => matches!(byte, b'"' | b'\'' | b'`' | b'\\' | b'<' | b' ' | b',' | b')' | b';'),
    };
    let rest = &bytes[start..bytes.len().min(start + MAX_CREDENTIAL)];
    let end = start + rest.iter().position(is_end).unwrap_or(rest.len());
    let secret = text.get(start..end)?;
    let is_literal = !is_placeholder(secret) && !secret.contains("${") && !secret.contains("{{") && secret.len() >= 6;
    let is_credential = match scheme {
        Some(_) => secret.len() >= 8 && !secret.starts_with('+'),
        None => has_signs(secret) && !secret.contains('('),
    };
    (is_literal && is_credential).then_some(start..end)
}

/// Is there anything in the value of a `Cookie` header beside settings, such as `theme=dark`?
pub(super) fn holds_session(cookies: &str) -> bool {
    const ATTRIBUTES: [&str; 6] = ["path", "domain", "expires", "max-age", "samesite", "version"];
    cookies.split(';').filter_map(|pair| pair.trim().split_once('=')).any(|(name, value)| {
        let is_attribute = ATTRIBUTES.iter().any(|attribute| name.eq_ignore_ascii_case(attribute));
        let is_word = value.len() <= 12
            && value.bytes().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_'))
            || value.len() <= 2;
        let is_setting = is_word && keys::classify(name).is_none_or(|telling| telling.strength == Strength::Weak);
        !is_attribute && !is_setting
    })
}

/// `Bearer …` without a header in front. `at` is behind the word and its space.
pub(super) fn bearer(scan: &mut Scan<'_>, at: usize) {
    let end = TOKEN68.run(scan.bytes, at, 16 * 1024);
    // Passwords with other signs are sent as well.
    let more = &scan.bytes[end..scan.bytes.len().min(end + 64)];
    let is_more =
        |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'`' | b'<' | b'>' | b',' | b')' | b'\\');
    let end = if end > at + 4 { end + more.iter().take_while(|byte| is_more(byte)).count() } else { end };
    let Some(token) = scan.text.get(at..end) else { return };
    let token = token.trim_end_matches(['.', ':', ';', '}', ']', '&', '|']);
    if token.len() >= 8
        && has_signs(token)
        && (token.len() >= 12 || token.bytes().filter(u8::is_ascii_digit).count() >= 3)
        && !is_placeholder(token)
    {
        scan.add(at..at + token.len(), Kind::secret("bearer-token"));
    }
}

/// `Basic …`: base64 of `user:password`.
pub(super) fn basic(scan: &mut Scan<'_>, at: usize) {
    let end = BASE64.run(scan.bytes, at, 2048);
    let Some(token) = scan.text.get(at..end).filter(|token| token.len() >= 8) else { return };
    let decoded = STANDARD_NO_PAD.decode(token.trim_end_matches('=')).unwrap_or_default();
    if decoded.contains(&b':') && decoded.iter().all(|byte| (0x20..0x7f).contains(byte) || *byte >= 0x80) {
        scan.add(at..end, Kind::secret("basic-auth"));
    }
}

/// Commands whose `-u` takes `user:password`.
const USER_COMMANDS: [&str; 6] = ["curl", "http", "https", "wget", "xh", "httpie"];
/// Commands whose `-p` takes a password, as the next word or in the same.
const PASSWORD_COMMANDS: [&str; 4] = ["sshpass", "mongo", "mongosh", "mongodump"];
/// Commands whose `-p` takes a password in the same word; without one they ask for it.
const GLUED_COMMANDS: [&str; 5] = ["mysql", "mysqldump", "mysqladmin", "mariadb", "7z"];
/// Commands whose `-p` takes a password if they log in; otherwise it may be a port.
const LOGIN_COMMANDS: [&str; 9] = ["docker", "podman", "nerdctl", "buildah", "skopeo", "helm", "oras", "az", "oc"];

/// What the words of a command line so far say about the next ones.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CommandLine {
    takes_user: bool,
    takes_password: bool,
    takes_glued: bool,
    may_log_in: bool,
    logs_in: bool,
    /// The flag in front of a password or of a user with one, and what separates those.
    flag: Option<(&'static str, Option<char>)>,
}

/// Commands with a flag of their own.
const FLAGS: [(&str, &str, Option<char>); 9] = [
    ("ldapsearch", "-w", None),
    ("ldapmodify", "-w", None),
    ("ldapadd", "-w", None),
    ("ldapwhoami", "-w", None),
    ("zip", "-P", None),
    ("unzip", "-P", None),
    ("smbclient", "-U", Some('%')),
    ("rpcclient", "-U", Some('%')),
    ("lftp", "-u", Some(',')),
];

impl CommandLine {
    /// Reads the next word; the part of it that is a password. `is_glued` says that it follows without a space.
    pub(super) fn password(&mut self, flag: &str, word: &str, is_glued: bool) -> Option<Range<usize>> {
        let program = word.rsplit('/').next().unwrap_or(word);
        self.takes_user |= USER_COMMANDS.contains(&program);
        self.takes_password |= PASSWORD_COMMANDS.contains(&program);
        self.takes_glued |= GLUED_COMMANDS.contains(&program);
        self.may_log_in |= LOGIN_COMMANDS.contains(&program);
        self.logs_in |= self.may_log_in && word == "login";
        if let Some((_, flag, separator)) = FLAGS.iter().find(|(name, ..)| *name == program) {
            self.flag = Some((flag, *separator));
        }
        if let Some((known, separator)) = self.flag
            && flag == known
            && !is_template(word)
        {
            let start = separator.map_or(Some(0), |separator| word.find(separator).map(|at| at + 1));
            return start.map(|start| start..word.len()).filter(|found| !found.is_empty());
        }
        let takes_next = self.takes_password || self.logs_in;
        let by_user = || user_password(flag, word).filter(|_| self.takes_user);
        let by_flag = || {
            let found = short_password(flag, word)?;
            let is_next = found.start == 0;
            (takes_next || self.takes_glued && (!is_next || is_glued)).then_some(found)
        };
        by_user().or_else(by_flag)
    }
}

/// Looks for passwords among the words of a command line that starts at `at`.
pub(super) fn command(scan: &mut Scan<'_>, at: usize) {
    let bytes = scan.bytes;
    let end =
        at + bytes[at..].iter().take(4096).position(|byte| *byte == b'\n').unwrap_or((bytes.len() - at).min(4096));
    scan.commands_until = end;
    let mut command = CommandLine::default();
    let mut takes_auth = false;
    let mut previous = "";
    for span in (Words { bytes: &bytes[..end], at }) {
        let Some(word) = scan.text.get(span.clone()) else { continue };
        let program = word.rsplit('/').next().unwrap_or(word);
        takes_auth |= program == "redis-cli"; // `redis-cli -a …`
        let is_glued = matches!(bytes[..span.start], [.., before, b'"' | b'\''] if !before.is_ascii_whitespace());
        if let Some(found) = command.password(previous, word, is_glued) {
            scan.add(span.start + found.start..span.start + found.end, Kind::secret("password"));
        }
        if takes_auth && previous == "-a" && !is_placeholder(word) {
            scan.add(span.clone(), Kind::secret("password"));
        }
        previous = word;
    }
}

/// The password in `user:password` behind `-u`, or in `-uuser:password`.
fn user_password(flag: &str, word: &str) -> Option<Range<usize>> {
    let start = match flag {
        "-u" | "--user" | "--proxy-user" | "-U" | "-a" | "--auth" => 0,
        _ => ["--user=", "--proxy-user=", "--auth=", "-u"].iter().find(|flag| word.starts_with(**flag))?.len(),
    };
    let colon = start + word.get(start..)?.find(':')?;
    let password = word.get(colon + 1..)?;
    (!is_template(password) && !password.starts_with("//") && !is_uuid(password.as_bytes()))
        .then_some(colon + 1..word.len())
}

/// The password behind `-p`, or in `-phunter2`.
fn short_password(flag: &str, word: &str) -> Option<Range<usize>> {
    let start = match word.strip_prefix("-p") {
        _ if flag == "-p" && !word.starts_with('-') => 0,
        Some(rest)
            if !rest.is_empty()
                && !rest.starts_with('-')
                && !word.starts_with("-port")
                && !word.starts_with("-pass") =>
        {
            2
        }
        _ => return None,
    };
    (!is_template(&word[start..])).then_some(start..word.len())
}

/// The words of a command line, without their quotes.
struct Words<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Iterator for Words<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        while self.bytes.get(self.at)?.is_ascii_whitespace() || self.bytes[self.at] == b'\\' {
            self.at += 1;
        }
        if let quote @ (b'"' | b'\'') = self.bytes[self.at] {
            let start = self.at + 1;
            let end =
                start + self.bytes[start..].iter().position(|byte| *byte == quote).unwrap_or(self.bytes.len() - start);
            self.at = end + 1;
            return Some(start..end);
        }
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(|byte| {
            !byte.is_ascii_whitespace() && !matches!(byte, b'"' | b'\'' | b'`' | b'|' | b';' | b')')
        }) {
            self.at += 1;
        }
        if self.at == start {
            self.at += 1;
        }
        Some(start..self.at.min(self.bytes.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_stays_and_the_credential_goes() {
        let table = [
            ("Bearer abc123def456", Some("abc123def456")),
            ("\"Bearer abc123def456\", x", Some("abc123def456")),
            ("Bearer ${token}", None),
            ("Token 9f8a7b6c5d", Some("9f8a7b6c5d")),
            ("a1b2c3d4e5", Some("a1b2c3d4e5")),
            ("required", None),
            ("\"Bearer \" + token", None),
            ("Digest username=\"x\", response=\"0123\"", Some("username=\"x\", response=\"0123\"")),
        ];
        for (text, expected) in table {
            assert_eq!(credentials(text, 0).map(|span| &text[span]), expected, "{text}");
        }
    }

    #[test]
    fn passwords_of_commands() {
        assert_eq!(user_password("-u", "bob:s3cret"), Some(4..10));
        assert_eq!(user_password("", "-ubob:s3cret"), Some(6..12));
        assert_eq!(user_password("-u", "bob"), None);
        assert_eq!(short_password("-p", "hunter2"), Some(0..7));
        assert_eq!(short_password("", "-phunter2"), Some(2..9));
        assert_eq!(short_password("", "-p"), None);
    }
}
