//! Which variables a server on this machine gets: `docs/adr/0016-variables-of-servers.md` says why these.

use std::collections::BTreeMap;

use super::servers::{is_secret_name, secrets_in_address};

/// Variables that every server gets, if they are set: who and where the user is, how to reach the network, and where
/// programs and their packages are.
#[rustfmt::skip]
const FOR_ALL: [&str; 76] = [
    // The user, the machine, the language.
    "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC",
    "LC_TIME", "LOGNAME", "PATH", "SHELL", "TEMP", "TERM", "TMP", "TMPDIR", "TZ", "USER",
    // Folders of the user.
    "XDG_CACHE_HOME", "XDG_CONFIG_DIRS", "XDG_CONFIG_HOME", "XDG_DATA_DIRS", "XDG_DATA_HOME", "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    // The way to the network.
    "ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "all_proxy", "http_proxy", "https_proxy", "no_proxy",
    "NODE_USE_ENV_PROXY",
    // Certificates.
    "AWS_CA_BUNDLE", "CARGO_HTTP_CAINFO", "CURL_CA_BUNDLE", "DENO_CERT", "DENO_TLS_CA_STORE", "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH", "NIX_SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "NODE_USE_SYSTEM_CA", "NPM_CONFIG_CAFILE",
    "PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE", "UV_NATIVE_TLS", "UV_SYSTEM_CERTS",
    "npm_config_cafile",
    // Where packages come from, and where they are kept.
    "BUN_INSTALL", "CARGO_HOME", "DENO_DIR", "FNM_DIR", "MISE_DATA_DIR", "NPM_CONFIG_CACHE", "NPM_CONFIG_REGISTRY",
    "NVM_DIR", "PIPX_HOME", "PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL", "PNPM_HOME", "PYENV_ROOT", "RUSTUP_HOME",
    "UV_CACHE_DIR", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_INDEX", "UV_INDEX_URL", "UV_PYTHON_INSTALL_DIR",
    "UV_TOOL_DIR", "npm_config_cache", "npm_config_registry",
];

/// Variables of a shell that say nothing about why a server fails.
const NEVER_MISSED: [&str; 20] = [
    "_",
    "COLORTERM",
    "COLUMNS",
    "EDITOR",
    "HISTFILE",
    "HISTSIZE",
    "HOSTNAME",
    "LESS",
    "LESSCLOSE",
    "LESSOPEN",
    "LINES",
    "LS_COLORS",
    "MAIL",
    "OLDPWD",
    "PAGER",
    "PS1",
    "PWD",
    "SHLVL",
    "VISUAL",
    "WINDOWID",
];
/// Parts of the names of variables that servers need most often.
const OFTEN_MISSED: [&str; 14] = [
    "SSH_AUTH_SOCK",
    "DISPLAY",
    "XAUTHORITY",
    "DBUS_SESSION",
    "KUBECONFIG",
    "DOCKER_",
    "AWS_",
    "GOOGLE_",
    "AZURE_",
    "_TOKEN",
    "_KEY",
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "_HOME",
];

/// Does every server get the variable?
pub(super) fn is_for_all(name: &str) -> bool {
    FOR_ALL.contains(&name)
}

/// The variables that servers get without naming a value.
#[derive(Clone, Debug, Default)]
pub(super) struct Passed(BTreeMap<String, String>);

impl Passed {
    /// Those that all servers get, and those that `pass` names.
    pub(super) fn new(pass: &[String], lookup: &dyn Fn(&str) -> Option<String>) -> Passed {
        let values = FOR_ALL.into_iter().filter_map(|name| Some((name.to_owned(), lookup(name)?)));
        Passed(values.collect()).with(pass, lookup)
    }

    /// These, and what `pass` names besides.
    pub(super) fn with(&self, pass: &[String], lookup: &dyn Fn(&str) -> Option<String>) -> Passed {
        let mut all = self.clone();
        let (patterns, names): (Vec<_>, Vec<_>) = pass.iter().partition(|name| name.contains('*'));
        let mut names: Vec<String> = names.into_iter().cloned().collect();
        if !patterns.is_empty() {
            // The key to pml itself is passed only by its name.
            let fits = |name: &String| name != "PML_TOKEN" && patterns.iter().any(|pattern| matches(pattern, name));
            names.extend(super::variable_names().into_iter().filter(fits));
        }
        all.0.extend(names.into_iter().filter_map(|name| lookup(&name).map(|value| (name, value))));
        all
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &String)> {
        self.0.iter()
    }

    /// What of the values must not be shown: all of a key, the password in an address.
    pub(super) fn secrets(&self) -> Vec<String> {
        let is_secret = |name: &str| !is_for_all(name) && is_secret_name(name);
        let of = |(name, value): (&String, &String)| match is_secret(name) {
            true => vec![value.clone()],
            false => secrets_in_address(value),
        };
        self.0.iter().flat_map(of).filter(|value| !value.is_empty()).collect()
    }
}

/// Checks a list of names and patterns.
pub(super) fn check(key: &str, pass: &[String]) -> Result<(), String> {
    let is_name = |name: &String| !name.is_empty() && !name.contains(['=', '\0', '$', ' ']);
    match pass.iter().find(|name| !is_name(name)) {
        Some(name) => Err(format!("`{}` in `{key}` is no name of a variable", name.escape_debug())),
        None => Ok(()),
    }
}

/// Which variables there are that a server with these did not get, those first that servers need most often.
pub(super) fn missed<'a>(all: impl IntoIterator<Item = &'a String>, given: &dyn Fn(&str) -> bool) -> Vec<String> {
    let rank = |name: &str| OFTEN_MISSED.iter().position(|part| name.contains(part)).unwrap_or(OFTEN_MISSED.len());
    let is_missed =
        |name: &&String| !given(name) && !NEVER_MISSED.contains(&name.as_str()) && !name.starts_with("PML_");
    let mut missed: Vec<String> = all.into_iter().filter(is_missed).cloned().collect();
    missed.sort_by(|one, other| rank(one).cmp(&rank(other)).then_with(|| one.cmp(other)));
    missed
}

/// Does a name fit a pattern, in which `*` stands for anything?
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        rest = match (parts.peek(), rest.find(part)) {
            (None, _) => return rest.ends_with(part),
            (Some(_), Some(at)) => &rest[at + part.len()..],
            (Some(_), None) => return false,
        };
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_patterns() {
        let table = [
            ("AWS_*", "AWS_PROFILE", true),
            ("AWS_*", "XAWS_PROFILE", false),
            ("*_TOKEN", "GH_TOKEN", true),
            ("*_TOKEN", "GH_TOKENS", false),
            ("A*B*C", "AxBxC", true),
            ("A*B*C", "AxC", false),
            ("*", "anything", true),
            ("A", "A", true),
            ("A", "AB", false),
        ];
        for (pattern, name, expected) in table {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_server_gets_what_all_get_and_what_is_named_and_nothing_else() {
        let lookup = |name: &str| match name {
            "PATH" => Some("/bin".to_owned()),
            "https_proxy" => Some("http://me:p-12345@proxy:3128".to_owned()),
            "SSH_AUTH_SOCK" => Some("/tmp/agent".to_owned()),
            "GH_TOKEN" => Some("t-12345".to_owned()),
            "SECRET" => Some("s-12345".to_owned()),
            _ => None,
        };
        let passed = Passed::new(&["SSH_AUTH_SOCK".to_owned()], &lookup);
        let own = passed.with(&["GH_TOKEN".to_owned(), "NOT_SET".to_owned()], &lookup);
        let names = |passed: &Passed| passed.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>().join(" ");
        assert_eq!(names(&passed), "PATH SSH_AUTH_SOCK https_proxy");
        assert_eq!(names(&own), "GH_TOKEN PATH SSH_AUTH_SOCK https_proxy");
        let mut secrets = own.secrets();
        secrets.sort();
        assert_eq!(secrets, ["/tmp/agent", "p-12345", "t-12345"]);
        assert!(check("x", &["A=B".to_owned()]).unwrap_err().contains("`A=B` in `x`"));
    }

    #[test]
    fn what_servers_need_most_often_is_named_first() {
        let all = ["ZED", "PWD", "PATH", "GH_TOKEN", "SSH_AUTH_SOCK", "PML_LOG"].map(str::to_owned);
        assert_eq!(missed(&all, &|name| name == "PATH"), ["SSH_AUTH_SOCK", "GH_TOKEN", "ZED"]);
    }
}
