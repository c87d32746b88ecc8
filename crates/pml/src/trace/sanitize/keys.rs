//! Names that tell that a value is a secret, and those that only look as if they did.
//!
//! A name is cut into words, and its last word decides, with the words in front of it: `access_token` holds a token,
//! `next_page_token` a page, `token_type` a type, `max_tokens` a number. A substring decides nothing.

use super::finding::Kind;

/// How sure a name makes that its value is a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strength {
    /// The value must look random.
    Weak,
    /// The value must not be an ordinary word.
    Likely,
    /// Any value is one.
    Certain,
}

/// What the name of a value says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Telling {
    pub(super) kind: Kind,
    pub(super) strength: Strength,
}

/// Words without which no name is telling. The automaton looks for them.
pub(super) const STEMS: &[&str] = &[
    "pass",
    "pw",
    "secret",
    "token",
    "key",
    "cred",
    "auth",
    "cookie",
    "session",
    "sid",
    "sess",
    "signature",
    "sig",
    "otp",
    "pin",
    "cvv",
    "cvc",
    "csc",
    "code",
    "codes",
    "mnemonic",
    "seed",
    "phrase",
    "jwt",
    "bearer",
    "connection",
    "connstr",
    "dsn",
    "kennwort",
    "contrase",
    "senha",
    "mot de passe",
    "mdp",
    "парол",
    "密码",
    "密碼",
    "パスワード",
    "wachtwoord",
    "parola",
    "ssn",
    "social",
    "phone",
    "mobile",
    "tel",
    "fax",
    "cell",
    "msisdn",
    "whatsapp",
    "card",
    "pan",
    "iban",
    "email",
    "mail",
    "login",
    "pat",
    "privkey",
    "hmac",
    "crumb",
    "nonce_secret",
    "hasło",
    "lösenord",
    "비밀번호",
    "şifre",
    "salasana",
    "jelszó",
    "heslo",
    "adgangskode",
    "passord",
    "口令",
    "令牌",
    "密钥",
    "密鑰",
    "トークン",
];

const MAX_WORDS: usize = 12;

/// The words of a name, in lower case.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut previous = ' ';
    let mut characters = name.chars().peekable();
    while let Some(character) = characters.next() {
        let starts_word = match character {
            c if !c.is_alphanumeric() => {
                previous = ' ';
                continue;
            }
            _ if !previous.is_alphanumeric() => true,
            c if c.is_uppercase() => {
                // `APIKey` is `API` and `Key`.
                previous.is_lowercase()
                    || previous.is_numeric()
                    || characters.peek().is_some_and(|next| next.is_lowercase())
            }
            c => c.is_numeric() != previous.is_numeric(),
        };
        if starts_word {
            if words.len() == MAX_WORDS {
                words.remove(0);
            }
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.extend(character.to_lowercase());
        }
        previous = character;
    }
    words
}

/// What a name says about its value; `None` if nothing.
pub(super) fn classify(name: &str) -> Option<Telling> {
    if name.len() > 256 {
        return None;
    }
    classify_words(&words(name))
}

pub(super) fn classify_words(all: &[String]) -> Option<Telling> {
    let mut words: Vec<&str> = all.iter().map(String::as_str).collect();
    // `API_KEY_PROD`, `password2`, `tokenValue`: what is behind says which one, not what.
    while words.len() > 1
        && words.last().is_some_and(|last| SUFFIXES.contains(last) || last.bytes().all(|byte| byte.is_ascii_digit()))
    {
        words.pop();
    }
    let (&last, before) = words.split_last()?;
    let previous = before.last().copied().unwrap_or_default();
    let secret = |kind, strength| Some(Telling { kind: Kind::secret(kind), strength });
    let person = |kind| Some(Telling { kind, strength: Strength::Certain });
    use Strength::{Certain, Likely, Weak};
    if matches!(
        before.first().copied(),
        Some(
            "has"
                | "is"
                | "no"
                | "needs"
                | "require"
                | "requires"
                | "show"
                | "hide"
                | "forgot"
                | "max"
                | "min"
                | "num"
                | "total"
                | "count"
                | "n"
        )
    ) {
        return None;
    }
    match last {
        "password" | "passwd" | "passphrase" | "passcode" | "pwd" | "passwort" | "kennwort" | "contraseña"
        | "contrasena" | "senha" | "mdp" | "пароль" | "пароля" | "密码" | "密碼" | "パスワード" | "wachtwoord"
        | "parola" | "passwords" | "pword" | "userpass" | "dbpass" | "requirepass" | "masterauth" | "hasło"
        | "lösenord" | "비밀번호" | "şifre" | "şifresi" | "salasana" | "jelszó" | "heslo" | "adgangskode"
        | "passord" | "口令" => secret("password", Certain),
        "令牌" | "密钥" | "密鑰" | "トークン" => secret("token", Likely),
        "passe" if previous == "de" => secret("password", Certain),
        "pass" | "pw" => match previous {
            "boarding" | "season" | "by" | "first" | "second" | "all" | "did" | "test" | "render" | "compiler" => None,
            "" => secret("password", Likely),
            _ => secret("password", Certain),
        },
        "secret" | "clientsecret" | "appsecret" | "secretkey" => secret("secret", Certain),
        "secrets" | "passphrases" => secret("secret", Likely),
        "key" | "keys" => key(before),
        "apikey" | "apikeys" | "accesskey" | "privatekey" | "privkey" | "authkey" | "masterkey" | "accountkey"
        | "sharedaccesskey" | "encryptionkey" | "signingkey" | "licensekey" | "appkey" | "servicekey" | "hmackey"
        | "sharedkey" => secret("api-key", Certain),
        "token" | "tokens" => token(last, before),
        "accesstoken"
        | "authtoken"
        | "apitoken"
        | "refreshtoken"
        | "bearertoken"
        | "idtoken"
        | "sessiontoken"
        | "bottoken"
        | "usertoken"
        | "csrftoken"
        | "csrfmiddlewaretoken"
        | "xsrftoken"
        | "securitytoken"
        | "authenticitytoken"
        | "ssotoken"
        | "oauthtoken"
        | "logintoken" => secret("token", Certain),
        "pat" if !before.is_empty() => secret("token", Likely),
        "jwt" | "bearer" => secret("token", Likely),
        "credential" | "credentials" | "cred" | "creds" => secret("credential", Likely),
        "authorization" | "proxyauthorization" => secret("authorization", Certain),
        "auth" | "authentication" => secret(
            "authorization",
            if before.is_empty() || previous == "basic" || previous == "http" { Weak } else { Likely },
        ),
        "basicauth" | "httpauth" => secret("authorization", Likely),
        "cookie" | "cookies" => secret("cookie", Certain),
        "id" if matches!(previous, "session" | "sess") => secret("session", Weak),
        "id" if previous == "secret" => secret("secret", Weak),
        "id" if previous == "key" && before.iter().any(|word| matches!(*word, "access" | "api")) => {
            secret("api-key", Weak)
        }
        "sessionid" | "jsessionid" | "phpsessid" | "sessid" | "sessionkey" | "sessiontoken2" => {
            secret("session", Certain)
        }
        "sid" if matches!(previous, "connect" | "session") => secret("session", Certain),
        "session" | "sess" | "sid" => secret("session", Weak),
        "signature" | "sig" => {
            secret("signature", if before.contains(&"amz") || before.contains(&"goog") { Certain } else { Weak })
        }
        "otp" | "totp" | "cvv" | "cvc" | "cvv2" | "csc" | "mnemonic" | "otpauth" => secret("code", Certain),
        "pin"
            if before.is_empty()
                || matches!(
                    previous,
                    "card"
                        | "user"
                        | "access"
                        | "security"
                        | "sim"
                        | "atm"
                        | "account"
                        | "debit"
                        | "login"
                        | "personal"
                ) =>
        {
            secret("code", Certain)
        }
        "code" | "codes"
            if matches!(
                previous,
                "security"
                    | "reset"
                    | "verification"
                    | "recovery"
                    | "backup"
                    | "mfa"
                    | "otp"
                    | "pin"
                    | "access"
                    | "auth"
                    | "authorization"
                    | "passcode"
                    | "unlock"
                    | "2fa"
                    | "fa"
                    | "device"
                    | "activation"
                    | "scratch"
                    | "sms"
                    | "login"
                    | "cvv"
                    | "card"
            ) =>
        {
            let is_list = matches!(previous, "recovery" | "backup" | "scratch");
            secret("code", if is_list { Certain } else { Likely })
        }
        "phrase" if matches!(previous, "seed" | "recovery" | "pass" | "secret" | "mnemonic" | "backup") => {
            secret("mnemonic", Certain)
        }
        "words" if matches!(previous, "seed" | "recovery" | "mnemonic") => secret("mnemonic", Certain),
        "seed" if matches!(previous, "wallet" | "secret" | "private" | "totp" | "otp" | "bip") => {
            secret("mnemonic", Certain)
        }
        "answer" if matches!(previous, "security" | "secret") => secret("code", Certain),
        "string" | "str" | "uri" | "url" if matches!(previous, "connection" | "conn") => {
            secret("connection-string", Weak)
        }
        "string" | "binary" if previous == "secret" => secret("secret", Certain),
        "connectionstring" | "connstr" => secret("connection-string", Weak),
        "hash" | "digest" | "salt"
            if before.iter().any(|word| matches!(*word, "password" | "passwd" | "pwd" | "passphrase")) =>
        {
            secret("password-hash", Certain)
        }
        "pem" | "p12" | "pfx" if before.contains(&"private") || before.contains(&"key") => {
            secret("private-key", Certain)
        }
        "crumb" => secret("token", Likely),
        "ssn" | "sin" if last == "ssn" || previous == "canadian" => person(Kind::Ssn),
        "security" if previous == "social" => person(Kind::Ssn),
        "number" | "no" | "num" | "nr" => match previous {
            "ssn" => person(Kind::Ssn),
            "security" if before.contains(&"social") => person(Kind::Ssn),
            "phone" | "telephone" | "mobile" | "cell" | "cellphone" | "fax" | "tel" | "whatsapp" | "contact"
            | "sms" => person(Kind::Phone),
            "card" | "cc" | "pan" | "creditcard" => person(Kind::Card),
            "iban" => person(Kind::Iban),
            "pin" => secret("code", Certain),
            _ => None,
        },
        "phone" | "telephone" | "cellphone" | "msisdn" | "whatsapp" | "mobile" | "fax" | "tel" | "phones"
        | "phonenumber" | "mobilenumber" | "telefon" | "téléphone" | "telefono" | "teléfono" | "handy" => {
            person(Kind::Phone)
        }
        "cell" if previous.is_empty() || matches!(previous, "home" | "work") => person(Kind::Phone),
        "cardnumber" | "creditcard" | "ccnumber" | "creditcardnumber" | "pan" => person(Kind::Card),
        "card" if matches!(previous, "credit" | "debit" | "payment") => person(Kind::Card),
        "iban" => person(Kind::Iban),
        _ => compound(last),
    }
}

/// `OPENAI_KEY`, `private_key`, `primary_key`: it depends on what kind of key.
fn key(before: &[&str]) -> Option<Telling> {
    let secret = |kind, strength| Some(Telling { kind: Kind::secret(kind), strength });
    let has = |word: &str| before.contains(&word);
    let previous = before.last().copied().unwrap_or_default();
    match previous {
        "private" => secret("private-key", Strength::Certain),
        "api" | "secret" | "encryption" | "signing" | "master" | "auth" | "authentication" | "account" | "storage"
        | "license" | "licence" | "subscription" | "hmac" | "shared" | "deploy" | "admin" | "jwt" | "service"
        | "app" | "application" | "consumer" | "server" | "webhook" | "session" | "security" | "decryption"
        | "cipher" | "aes" | "rsa" | "ssh" | "psk" | "wifi" | "wpa" | "restricted" | "write" | "ingestion"
        | "ingest" | "management" | "root" | "recovery" | "stream" | "activation" | "product" | "registration"
        | "function" | "host" | "client" | "instrumentation" | "preshared" | "wireguard" | "tls" | "ssl"
        | "refresh" => {
            let strength = match previous {
                "api" | "secret" | "encryption" | "signing" | "master" | "account" | "hmac" | "jwt"
                | "subscription" | "auth" | "decryption" | "preshared" => Strength::Certain,
                _ => Strength::Likely,
            };
            secret("api-key", strength)
        }
        "access" => secret("api-key", Strength::Certain),
        "public" | "primary" | "foreign" | "sort" | "partition" | "cache" | "unique" | "hash" | "object"
        | "idempotency" | "row" | "group" | "lookup" | "translation" | "issue" | "project" | "i18n" | "composite"
        | "websocket" | "natural" | "surrogate" | "range" | "index" | "message" | "label" | "s3" | "ui" | "react"
        | "config" | "data" | "dict" | "map" | "json" | "field" | "column" | "routing" | "binding" | "sorting"
        | "item" | "record" | "entity" | "parent" | "child" | "node" | "etag" | "dedup" => None,
        _ if has("aws") || has("gcp") || has("azure") || has("secret") || has("api") || has("private") => {
            secret("api-key", Strength::Likely)
        }
        "openai" | "anthropic" | "stripe" | "github" | "gitlab" | "slack" | "twilio" | "sendgrid" | "google"
        | "maps" | "datadog" | "algolia" | "mailgun" | "heroku" | "cloudflare" | "firebase" | "supabase"
        | "huggingface" | "cohere" | "mistral" | "groq" | "deepgram" | "elevenlabs" | "pinecone" | "sentry"
        | "relic" | "pagerduty" | "shopify" | "paypal" | "square" | "plaid" | "notion" | "linear" | "figma"
        | "airtable" | "discord" | "telegram" => secret("api-key", Strength::Likely),
        _ => secret("api-key", Strength::Weak),
    }
}

/// `access_token`, `next_page_token`, `eos_token`: it depends on what kind of token.
fn token(last: &str, before: &[&str]) -> Option<Telling> {
    let previous = before.last().copied().unwrap_or_default();
    let strength = match previous {
        "page" | "next" | "previous" | "prev" | "continuation" | "continue" | "pagination" | "cursor" | "sync"
        | "cancellation" | "cancel" | "abort" | "eos" | "bos" | "pad" | "padding" | "unk" | "stop" | "mask" | "sep"
        | "cls" | "sub" | "start" | "end" | "special" | "first" | "last" | "progress" | "resume" | "change"
        | "delta" | "skip" | "design" | "idempotency" | "concurrency" | "input" | "output" | "prompt"
        | "completion" | "reasoning" | "cached" | "max" | "min" | "total" | "used" | "remaining" | "current"
        | "per" | "new" | "lex" | "syntax" | "word" | "text" | "image" | "audio" | "thinking" | "budget"
        | "placeholder" | "separator" | "watch" | "scroll" | "position" | "marker" | "request" | "top" | "by"
        | "each" | "every" | "the" | "one" | "single" | "expected" | "unexpected" | "optional" | "invalid" => {
            return None;
        }
        "" => Strength::Likely,
        "access" | "auth" | "api" | "refresh" | "bearer" | "id" | "session" | "bot" | "user" | "csrf" | "xsrf"
        | "security" | "secret" | "personal" | "oauth" | "app" | "service" | "authentication" | "authorization"
        | "reset" | "verification" | "admin" | "private" | "vault" | "github" | "gitlab" | "slack" | "npm"
        | "registration" | "impersonation" | "deploy" | "root" => Strength::Certain,
        _ => Strength::Likely,
    };
    if last == "tokens" && before.is_empty() {
        return Some(Telling { kind: Kind::secret("token"), strength: Strength::Weak });
    }
    Some(Telling { kind: Kind::secret("token"), strength })
}

/// Words that were written together: `PGPASSWORD`, `mysqlpwd`, `myapikey`.
fn compound(word: &str) -> Option<Telling> {
    let secret = |kind, strength| Some(Telling { kind: Kind::secret(kind), strength });
    const ENDS: [(&str, &str); 41] = [
        ("hmackey", "api-key"),
        ("signingkey", "api-key"),
        ("encryptionkey", "api-key"),
        ("masterkey", "api-key"),
        ("sharedkey", "api-key"),
        ("authkey", "api-key"),
        ("servicekey", "api-key"),
        ("sessionkey", "api-key"),
        ("accountkey", "api-key"),
        ("ssotoken", "token"),
        ("oauthtoken", "token"),
        ("apitoken", "token"),
        ("refreshtoken", "token"),
        ("sessiontoken", "token"),
        ("bearertoken", "token"),
        ("logintoken", "token"),
        ("usertoken", "token"),
        ("bottoken", "token"),
        ("dbpass", "password"),
        ("userpass", "password"),
        ("rootpass", "password"),
        ("adminpass", "password"),
        ("smtppass", "password"),
        ("ftppass", "password"),
        ("비밀번호", "password"),
        ("口令", "password"),
        ("password", "password"),
        ("passwd", "password"),
        ("passphrase", "password"),
        ("pwd", "password"),
        ("clientsecret", "secret"),
        ("secretkey", "secret"),
        ("apikey", "api-key"),
        ("accesskey", "api-key"),
        ("privatekey", "private-key"),
        ("authtoken", "token"),
        ("accesstoken", "token"),
        ("secret", "secret"),
        ("密码", "password"),
        ("密碼", "password"),
        ("パスワード", "password"),
    ];
    let (_, kind) = ENDS.iter().find(|(end, _)| word.len() > end.len() && word.ends_with(end))?;
    secret(*kind, Strength::Certain)
}

/// Words behind the one that decides.
const SUFFIXES: &[&str] = &[
    "prod",
    "production",
    "dev",
    "development",
    "staging",
    "stage",
    "test",
    "testing",
    "live",
    "sandbox",
    "local",
    "main",
    "default",
    "backup",
    "old",
    "new",
    "current",
    "previous",
    "primary",
    "secondary",
    "v",
    "value",
    "val",
    "plain",
    "plaintext",
    "cleartext",
    "text",
    "raw",
    "b",
    "base",
    "b64",
    "base64",
    "hex",
    "enc",
    "encoded",
    "confirm",
    "confirmation",
    "again",
    "repeat",
    "retype",
    "verify",
    "env",
    "var",
    "here",
];

/// Is this the name of the name in a pair: `{"name": "API_KEY", "value": "…"}`?
pub(super) fn is_name_of_pair(key: &str) -> bool {
    const NAMES: [&str; 27] = [
        "element",
        "selector",
        "locator",
        "placeholder",
        "aria-label",
        "arialabel",
        "control",
        "target",
        "path",
        "name",
        "key",
        "k",
        "field",
        "header",
        "variable",
        "var",
        "env",
        "param",
        "parameter",
        "attribute",
        "property",
        "option",
        "flag",
        "label",
        "id",
        "setting",
        "title",
    ];
    NAMES.iter().any(|name| key.eq_ignore_ascii_case(name))
        || ["headerName", "keyName", "fieldName", "varName", "variableName", "envName", "parameterName", "secretName"]
            .contains(&key)
}

/// Is this the name of the value in a pair?
pub(super) fn is_value_of_pair(key: &str) -> bool {
    const VALUES: [&str; 24] = [
        "newvalue",
        "new_value",
        "oldvalue",
        "old_value",
        "currentvalue",
        "inputvalue",
        "input",
        "value",
        "v",
        "val",
        "content",
        "data",
        "text",
        "default",
        "defaultvalue",
        "plaintext",
        "stringvalue",
        "previous",
        "old",
        "new",
        "string_value",
        "current",
        "raw",
        "values",
    ];
    VALUES.iter().any(|value| key.eq_ignore_ascii_case(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_into_words() {
        let table = [
            ("apiKey", "api key"),
            ("APIKey", "api key"),
            ("DB_PASSWORD_2", "db password 2"),
            ("x-amz-security-token", "x amz security token"),
            ("spring.datasource.password", "spring datasource password"),
            ("contraseña", "contraseña"),
        ];
        for (name, expected) in table {
            assert_eq!(words(name).join(" "), expected);
        }
    }

    #[test]
    fn the_last_word_decides() {
        use Strength::{Certain, Likely, Weak};
        #[rustfmt::skip]
        let table = [
            ("password", Some(Certain)), ("DB_PASSWORD", Some(Certain)), ("PGPASSWORD", Some(Certain)), ("password_confirmation", Some(Certain)),
            ("api_key", Some(Certain)), ("apikey", Some(Certain)), ("X-Api-Key", Some(Certain)), ("client_secret", Some(Certain)), ("access_token", Some(Certain)),
            ("authorization", Some(Certain)), ("token", Some(Likely)), ("stripe_key", Some(Likely)), ("key", Some(Weak)), ("session_id", Some(Weak)),
            ("max_tokens", None), ("token_type", None), ("author", None), ("authored_at", None), ("primary_key", None), ("next_page_token", None), ("nextPageToken", None),
            ("tokenizer", None), ("secretary", None), ("password_policy", None), ("has_password", None), ("passwordResetUrl", None), ("public_key", None), ("keyboard", None),
            ("progressToken", None), ("eos_token", None), ("token_count", None), ("secret_name", None), ("cache_key", None), ("monkey", None), ("compass", None), ("zip_code", None),
        ];
        for (name, expected) in table {
            assert_eq!(classify(name).map(|telling| telling.strength), expected, "{name}");
        }
    }
}
