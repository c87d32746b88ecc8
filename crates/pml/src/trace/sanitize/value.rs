//! Is the value next to a telling name a secret, or only what stands where a secret would be: a placeholder, a type, a
//! reference to a variable, a sentence?

use super::{
    finding::Kind,
    keys::{Strength, Telling},
    shape::{Mix, is_digest, is_random, is_uuid},
};

/// Is the whole text the value of a name that tells this? For values whose ends are known: JSON, quoted literals.
pub(super) fn is_secret(telling: &Telling, value: &str) -> bool {
    let value = value.trim();
    if is_placeholder(value) || is_prose(value) {
        return false;
    }
    let is_password = telling.kind == Kind::secret("password");
    match telling.strength {
        Strength::Certain => {
            is_password
                || value.len() >= 3
                    && !(is_reference(value) || is_identifier(value) || is_short_word(value) && is_vocabulary(value))
        }
        Strength::Likely => {
            let least = if is_password { 3 } else { 6 };
            value.len() >= least && !value.contains(' ') && !is_short_word(value) && !is_reference(value)
        }
        Strength::Weak => {
            is_random(value.as_bytes())
                && !is_uuid(value.as_bytes())
                && !is_digest(value.as_bytes())
                && !is_resource(value.as_bytes())
                && !is_reference(value)
        }
    }
}

/// Could the text hardly be anything but a secret, also in a sentence? Cases and digits are mixed, or there are signs.
pub(super) fn is_strong(value: &str) -> bool {
    let mix = Mix::of(value.as_bytes());
    let has_sign = value.bytes().any(|byte| b"!@#$%^&*?~".contains(&byte));
    let is_mixed = mix.lower > 0 && mix.upper > 0;
    value.len() >= 8
        && value.len() <= 256
        && !value.contains(|c: char| c.is_whitespace() || matches!(c, '/' | '\\' | '(' | '<' | '[' | '{' | '='))
        && !value.contains("::")
        && (mix.digits > 0 && is_mixed
            || has_sign && (mix.digits > 0 && mix.lower + mix.upper > 0 || is_mixed)
            || mix.digits >= 2 && mix.lower + mix.upper >= 5 && (value.contains('_') || mix.other == 0))
        && !is_technical(value)
        && !is_template(value)
        && !is_uuid(value.as_bytes())
}

/// Words with digits that name a thing: `sha256`, `OAuth2-based`, `v1.2.3`.
pub(super) fn is_technical(value: &str) -> bool {
    const WORDS: &[&str] = &[
        "sha1",
        "sha2",
        "sha3",
        "sha5",
        "base64",
        "base32",
        "base58",
        "utf8",
        "oauth",
        "http",
        "ed25519",
        "curve25519",
        "x25519",
        "x509",
        "rs256",
        "hs256",
        "es256",
        "aes",
        "rsa",
        "md5",
        "ipv4",
        "ipv6",
        "bcrypt",
        "argon2",
        "pbkdf2",
        "scrypt",
        "pkcs",
        "totp",
        "uuid",
        "saml",
        "oidc",
        "openid",
        "jwt",
        "2fa",
        "s3",
        "ec2",
        "k8s",
        "hmac",
        "crc32",
        "latin1",
        "iso8859",
        "unicode",
        "python",
        "node",
        "windows",
        "version",
        "chapter",
        "section",
    ];
    let lower = value.to_ascii_lowercase();
    let is_version = lower.trim_start_matches('v').bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && (lower.starts_with('v') || lower.contains('.'));
    let is_word = |part: &str| WORDS.iter().any(|word| part.starts_with(word) && part.len() <= word.len() + 4);
    is_version || lower.ends_with("-bit") || lower.split(|c: char| !c.is_ascii_alphanumeric()).any(is_word)
}

/// Text that people or programs write in the place of a secret.
pub(super) fn is_placeholder(value: &str) -> bool {
    is_template(value) || is_vocabulary(value.trim()) || is_instruction(value.trim())
}

/// A placeholder by its form, where a word could be a secret as well: `<password>`, `${PASSWORD}`, `****`.
pub(super) fn is_template(value: &str) -> bool {
    let value = value.trim();
    let Some(first) = value.bytes().next() else { return true };
    let last = value.as_bytes()[value.len() - 1];
    let is_wrapped = match first {
        b'<' => last == b'>',
        b'{' => last == b'}',
        b'[' => last == b']',
        b'$' => {
            let rest = value[1..].trim_start_matches(['{', '(']);
            let name = rest.bytes().take_while(|byte| byte.is_ascii_uppercase() || *byte == b'_').count();
            value[1..].starts_with(['{', '(']) || name >= 3 || (name > 0 && name == rest.len())
        }
        b'%' => last == b'%' || value.starts_with("%(") || matches!(value, "%s" | "%v" | "%d"),
        b'#' => value.starts_with("#{"),
        b'!' => {
            value[1..].bytes().take_while(u8::is_ascii_alphabetic).count() >= 3 && value.contains(' ')
                || matches!(value, "!Ref" | "!Sub" | "!vault" | "!secret" | "!reference" | "!env")
        }
        _ => false,
    };
    is_wrapped || is_repeated(value)
}

/// `****`, `xxxx-xxxx`, `••••`, `...`
fn is_repeated(value: &str) -> bool {
    let mut characters = value.chars().filter(|c| !matches!(c, '-' | ' ' | '_' | '"' | '\''));
    let Some(first) = characters.next() else { return true };
    matches!(first, '*' | 'x' | 'X' | '.' | '•' | '●' | '…' | '#' | '?') && characters.all(|c| c == first)
        // A hint at what was there: `****1234`, `sk-...abcd`.
        || value.starts_with("***")
        || value.contains("...") && value.len() < 24
        || value.contains('…') && value.chars().count() < 24
}

/// Words of types, states and settings.
fn is_vocabulary(value: &str) -> bool {
    const WORDS: &[&str] = &[
        "null",
        "none",
        "nil",
        "undefined",
        "true",
        "false",
        "string",
        "str",
        "number",
        "integer",
        "int",
        "boolean",
        "bool",
        "object",
        "array",
        "any",
        "unknown",
        "void",
        "bytes",
        "byte",
        "text",
        "float",
        "never",
        "required",
        "optional",
        "redacted",
        "masked",
        "hidden",
        "filtered",
        "empty",
        "n/a",
        "na",
        "todo",
        "tbd",
        "unset",
        "missing",
        "invalid",
        "valid",
        "expired",
        "yes",
        "no",
        "on",
        "off",
        "ok",
        "enabled",
        "disabled",
        "default",
        "auto",
        "basic",
        "bearer",
        "oauth",
        "oauth2",
        "jwt",
        "apikey",
        "api_key",
        "api-key",
        "digest",
        "negotiate",
        "header",
        "query",
        "cookie",
        "inline",
        "env",
        "char",
        "varchar",
        "uuid",
        "password",
        "token",
        "secret",
        "key",
        "value",
        "username",
        "option",
        "option<string>",
        "optional[str]",
        "secretstr",
        "&str",
        "sensitive",
        "confidential",
        "private",
        "public",
        "self",
        "this",
        "input",
        "prompt",
        "stdin",
        "file",
        "same",
        "incorrect",
        "wrong",
        "failed",
        "success",
        "passed",
        "fail",
        "pass",
        "changed",
        "updated",
        "not",
        "is",
        "and",
        "or",
        "the",
        "a",
        "to",
        "for",
        "in",
        "with",
        "from",
        "of",
        "if",
        "must",
        "should",
        "your",
        "you",
        "please",
        "enter",
        "that",
        "will",
        "can",
        "has",
        "was",
        "are",
        "be",
        "reset",
        "new",
        "await",
        "async",
        "function",
        "return",
        "const",
        "let",
        "var",
        "typeof",
        "unknown,",
        "refresh",
        "access",
        "id",
    ];
    value.len() <= 16 && WORDS.iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// `YOUR_API_KEY`, `insert-token-here`
fn is_instruction(value: &str) -> bool {
    const STARTS: [&str; 7] = ["your", "insert", "enter", "replace", "put", "paste", "example_"];
    let has = |start: &&str| value.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start));
    let is_start = STARTS.iter().find(|start| has(start)).is_some_and(|start| {
        value.as_bytes().get(start.len()).is_none_or(|next| !next.is_ascii_alphanumeric() || start.ends_with('_'))
    });
    let lower_end = value.len() >= 5
        && value
            .get(value.len() - 5..)
            .is_some_and(|end| end.eq_ignore_ascii_case("_here") || end.eq_ignore_ascii_case("-here"));
    (is_start || lower_end) && !value.bytes().any(|byte| byte.is_ascii_digit())
}

/// Something that leads to the secret: a variable, a path, an address.
pub(super) fn is_reference(value: &str) -> bool {
    const STARTS: [&str; 25] = [
        "process.env",
        "os.environ",
        "os.getenv",
        "env.",
        "env:",
        "ENV[",
        "secrets.",
        "vault:",
        "op://",
        "ssm:",
        "arn:aws",
        "file:",
        "secret://",
        "import.meta",
        "Deno.env",
        "System.getenv",
        "projects/",
        "keychain:",
        "ref+",
        "http://",
        "https://",
        "./",
        "~/",
        "../",
        "std::env",
    ];
    STARTS.iter().any(|start| value.starts_with(start)) || is_path(value) || is_file(value)
}

/// `AC0123…`: the id of a resource of Twilio, two capitals and 32 hexadecimal digits.
fn is_resource(value: &[u8]) -> bool {
    value.len() == 34 && value[..2].iter().all(u8::is_ascii_uppercase) && value[2..].iter().all(u8::is_ascii_hexdigit)
}

/// `OPENAI_API_KEY`, `_DSAPrivateKey`: the name of a variable or a type.
fn is_identifier(value: &str) -> bool {
    const ENDS: [&str; 8] = ["key", "token", "secret", "password", "pat", "credentials", "keys", "tokens"];
    let is_name = value.len() <= 48 && value.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let lower = value.to_ascii_lowercase();
    is_name && ENDS.iter().any(|end| lower.ends_with(end)) && (value.contains('_') || lower != value)
}

/// `uploads/2026/01/file.png`
fn is_file(value: &str) -> bool {
    let Some((folders, name)) = value.rsplit_once('/') else { return false };
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    (2..=5).contains(&extension.len())
        && extension.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && folders.split('/').chain([name]).all(|part| part.len() < 32 && !is_random(part.as_bytes()))
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte))
}

fn is_path(value: &str) -> bool {
    let mut parts = value.split('/');
    value.starts_with('/')
        && parts.next() == Some("")
        && value.matches('/').count() >= 2
        && parts.all(|part| {
            part.len() < 32
                && !is_random(part.as_bytes())
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        })
}

/// A sentence or a label, not a passphrase.
pub(super) fn is_prose(value: &str) -> bool {
    const WORDS: &[&str] = &[
        "the", "a", "an", "is", "are", "was", "must", "should", "your", "you", "this", "that", "for", "of", "to", "in",
        "with", "be", "can", "will", "not", "and", "or", "has", "have", "by", "from", "at", "on", "if", "it", "please",
        "enter", "invalid", "required", "password", "token", "key", "secret", "forgot", "reset", "confirm", "new",
        "current", "we", "no", "use", "used", "as", "see",
    ];
    value.contains(' ')
        && value.split_whitespace().any(|word| {
            let word = word.trim_matches(|c: char| !c.is_alphanumeric());
            WORDS.iter().any(|known| word.eq_ignore_ascii_case(known))
        })
        && !value.split_whitespace().any(|word| word.len() >= 16 && is_random(word.as_bytes()))
}

/// Letters only, and not many.
pub(super) fn is_short_word(value: &str) -> bool {
    let longest = value.split(|c: char| !c.is_alphanumeric()).map(str::len).max().unwrap_or_default();
    longest < 16
        && value.chars().all(|c| c.is_alphabetic() || matches!(c, '-' | '_' | '.' | ' ' | ':' | '/'))
        && !(value.bytes().any(|byte| byte.is_ascii_lowercase()) && has_inner_capitals(value))
}

/// `kJdfLpQz`: more changes of case than words have.
fn has_inner_capitals(value: &str) -> bool {
    let bytes = value.as_bytes();
    bytes.windows(2).filter(|pair| pair[0].is_ascii_uppercase() && pair[1].is_ascii_uppercase()).count() > 0
        && bytes.windows(2).filter(|pair| pair[0].is_ascii_uppercase() != pair[1].is_ascii_uppercase()).count() > 3
}

/// Does the text have what passwords have and words have not: a digit, a sign, cases mixed?
pub(super) fn has_signs(value: &str) -> bool {
    let has_letter = value.bytes().any(|byte| byte.is_ascii_alphabetic());
    let has_digit = value.bytes().any(|byte| byte.is_ascii_digit());
    let has_sign = value.bytes().any(|byte| b"!@#$%^&*+=?~".contains(&byte));
    has_letter && (has_digit || has_sign)
        || value.len() >= 4 && has_digit && value.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::{super::keys::classify, *};

    #[test]
    fn values_of_telling_names() {
        #[rustfmt::skip]
        let table = [
            ("password", "hunter2", true), ("password", "correct horse battery staple", true), ("password", "swordfish", true),
            ("password", "", false), ("password", "********", false), ("password", "${DB_PASSWORD}", false), ("password", "<password>", false), ("password", "string", false),
            ("password", "Must be at least 8 characters", false), ("password", "[REDACTED:password]", false), ("password", "$2b$10$abc", true), ("password", "$ecret9", true),
            ("api_key", "YOUR_API_KEY", false), ("api_key", "0a1b2c3d", true), ("token", "hello", false), ("token", "a8f5f167f44f4964", true),
            ("token", "https://example.org/token", false), ("key", "PROJ-123", false), ("key", "f3Kd9xQ2mZpL7vBn4Ty8", true), ("session_id", "550e8400-e29b-41d4-a716-446655440000", false),
            ("client_secret", "/run/secrets/client", false), ("secret", "process.env.SECRET", false),
        ];
        for (key, value, expected) in table {
            let telling = classify(key).unwrap();
            assert_eq!(is_secret(&telling, value), expected, "{key}={value}");
        }
    }
}
