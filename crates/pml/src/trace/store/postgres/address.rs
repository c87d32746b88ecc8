//! The address of a database, `postgres://USER:PASSWORD@HOST:PORT/NAME?sslmode=…`.
//!
//! **Invariant:** the password is in no text that leaves this module: [`Address`] shows itself without it.

use std::{fmt, path::PathBuf, time::Duration};

use tokio_postgres::config::{Config, Host, SslMode};

/// How long the server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// What is set in every session. Only the tables of pml are found, whatever else is in the database, and nobody's temporary
/// table stands in for one of them. A statement or a lock that takes for ever, and a client that is gone without a word, end.
const SESSION: &str = "-c search_path=pml,pg_temp -c jit=off -c statement_timeout=30000 -c lock_timeout=10000 \
    -c idle_in_transaction_session_timeout=30000 -c tcp_keepalives_idle=20 -c tcp_keepalives_interval=5 \
    -c tcp_keepalives_count=4 -c client_encoding=UTF8 -c TimeZone=UTC";

/// Where a database is, and how it is reached.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    pub(super) config: Box<Config>,
    pub(super) verify: Verify,
    /// Without the password.
    shown: String,
}

/// What is asked of the server's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verify {
    /// Nothing: the connection is encrypted if [`Config`] asks for it, and may lead to anybody.
    Nothing,
    /// An authority that is trusted has signed it.
    Authority(Roots),
    /// And it is for the host of the address.
    Host(Roots),
}

/// Which authorities are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Roots {
    System,
    File(PathBuf),
}

impl Address {
    /// Reads an address. The error says what is wrong with it, without the password.
    pub fn parse(text: &str) -> Result<Address, String> {
        let text = text.trim();
        if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
            return Err("is no address of a database: it must begin with postgres://".to_owned());
        }
        let (base, query) = text.split_once('?').unwrap_or((text, ""));
        let (mut mode, mut roots, mut rest) = (None, None, Vec::new());
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            match key {
                "sslmode" => mode = Some(value.to_owned()),
                "sslrootcert" => roots = Some(decode(value)?),
                // For the sake of other programs that use the same address.
                "sslcert" | "sslkey" => return Err(format!("has `{key}`, which pml does not know")),
                _ => rest.push(parameter),
            }
        }
        let whole = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
        let mut config: Config = whole.parse().map_err(|err: tokio_postgres::Error| {
            // What is wrong with a part of it, which is never the password.
            let why = std::error::Error::source(&err).map_or_else(|| err.to_string(), ToString::to_string);
            format!("is no address of a database: {why}")
        })?;
        if config.get_hosts().is_empty() {
            return Err("names no host; write postgres://USER@HOST/NAME".to_owned());
        }
        let roots = match roots.as_deref() {
            None | Some("system") => Roots::System,
            Some(file) => Roots::File(file.into()),
        };
        let is_local = config.get_hosts().iter().all(is_local);
        // Across a network nothing is sent to a server that has not shown who it is, unless that is said.
        let default = if is_local { "prefer" } else { "verify-full" };
        let (ssl, verify) = match (mode.as_deref().unwrap_or(default), &roots) {
            ("disable", _) => (SslMode::Disable, Verify::Nothing),
            ("prefer" | "allow", _) => (SslMode::Prefer, Verify::Nothing),
            // As with libpq: with an authority that is named, that counts.
            ("require", Roots::System) => (SslMode::Require, Verify::Nothing),
            ("require" | "verify-ca", _) => (SslMode::Require, Verify::Authority(roots)),
            ("verify-full", _) => (SslMode::Require, Verify::Host(roots)),
            (other, _) => {
                return Err(format!(
                    "has sslmode `{other}`, but must have disable, prefer, require, verify-ca or verify-full"
                ));
            }
        };
        config.ssl_mode(ssl).connect_timeout(CONNECT);
        let options = config.get_options().map_or_else(|| SESSION.to_owned(), |own| format!("{own} {SESSION}"));
        config.options(&options);
        if config.get_application_name().is_none() {
            config.application_name("pml");
        }
        Ok(Address { shown: shown(&config), config: Box::new(config), verify })
    }
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
        }
        Host::Unix(_) => true,
    }
}

/// The address as it may be shown: no password, no parameters.
fn shown(config: &Config) -> String {
    let ports = config.get_ports();
    let hosts = config.get_hosts().iter().enumerate().map(|(at, host)| {
        let port = ports.get(at).or(ports.first()).filter(|port| **port != 5432);
        let host = match host {
            Host::Tcp(name) if name.contains(':') => format!("[{name}]"),
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        };
        port.map_or(host.clone(), |port| format!("{host}:{port}"))
    });
    let hosts: Vec<_> = hosts.collect();
    let user = config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
    let name = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("postgres://{user}{}/{name}", hosts.join(","))
}

/// The value of a parameter.
fn decode(value: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        let digit = |digit: Option<u8>| digit.and_then(|digit| char::from(digit).to_digit(16));
        bytes.push(match byte {
            b'%' => match (digit(rest.next()), digit(rest.next())) {
                (Some(high), Some(low)) => (high * 16 + low) as u8,
                _ => return Err("has a `%` without two digits behind it".to_owned()),
            },
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| "has a parameter that is no text".to_owned())
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&self.shown).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let secret = "hunter2%21x";
        for text in [
            format!("postgres://ann:{secret}@db.example:6000/pml?sslmode=require"),
            format!("postgresql://ann:{secret}@/pml?host=/run/postgresql"),
            format!("postgres://db.example/pml?user=ann&password={secret}"),
            format!("postgres://ann:{secret}@a:1,b:2/pml"),
        ] {
            let address = Address::parse(&text).unwrap();
            let shown = format!("{address} {address:?}");
            assert!(!shown.contains("hunter2") && shown.contains("ann@"), "{shown}");
            assert!(format!("{:?}", address.config.get_password()).len() > 10, "it is used all the same");
        }
        for text in [
            format!("mysql://ann:{secret}@db/pml"),
            format!("postgres://ann:{secret}@db:port/pml"),
            format!("postgres://ann:{secret}@db/pml?sslmode=maybe"),
            format!("postgres://ann:{secret}@db/pml?what=1"),
            format!("postgres://ann:{secret}@db/pml?sslrootcert=%zz"),
            format!("host=db password={secret}"),
            format!("postgres:///pml?password={secret}"),
        ] {
            let wrong = Address::parse(&text).unwrap_err();
            assert!(!wrong.contains("hunter2"), "{wrong}");
        }
    }

    #[test]
    fn a_server_across_a_network_must_show_who_it_is_unless_the_address_says_otherwise() {
        let file = || Roots::File("/ca.pem".into());
        #[rustfmt::skip]
        let table = [
            ("postgres://u@localhost/d",                                             SslMode::Prefer,  Verify::Nothing),
            ("postgres://u@127.0.0.1/d",                                             SslMode::Prefer,  Verify::Nothing),
            ("postgres://u@%2Frun%2Fpg/d",                                           SslMode::Prefer,  Verify::Nothing),
            ("postgres://u@db.example/d",                                            SslMode::Require, Verify::Host(Roots::System)),
            ("postgres://u@localhost,db.example/d",                                  SslMode::Require, Verify::Host(Roots::System)),
            ("postgres://u@db.example/d?sslmode=disable",                            SslMode::Disable, Verify::Nothing),
            ("postgres://u@db.example/d?sslmode=require",                            SslMode::Require, Verify::Nothing),
            ("postgres://u@db.example/d?sslmode=require&sslrootcert=%2Fca.pem",      SslMode::Require, Verify::Authority(file())),
            ("postgres://u@db.example/d?sslmode=verify-ca&sslrootcert=system",       SslMode::Require, Verify::Authority(Roots::System)),
            ("postgres://u@db.example/d?sslmode=verify-full&sslrootcert=/ca.pem",    SslMode::Require, Verify::Host(file())),
        ];
        for (text, ssl, verify) in table {
            let address = Address::parse(text).unwrap();
            assert_eq!((address.config.get_ssl_mode(), address.verify), (ssl, verify), "{text}");
        }
    }

    #[test]
    fn a_session_is_set_up_whatever_the_address_says() {
        let address =
            Address::parse("postgres://u@localhost/d?options=-c%20search_path%3Devil&application_name=x").unwrap();
        let options = address.config.get_options().unwrap();
        assert!(options.rfind("search_path=pml").unwrap() > options.find("search_path=evil").unwrap(), "{options}");
        assert_eq!(address.config.get_application_name(), Some("x"));
    }
}
