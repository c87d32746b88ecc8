//! Whose a resource is.
//!
//! An address belongs to the server that lists it. If several list it, it is nobody's as it stands: each is listed as
//! `pml:SERVER:ADDRESS`, which is understood wherever an address is. An address that nobody lists belongs to the server with
//! a template for it, unless that template is *contested*: what it could take begins like something of another server.
//!
//! **Invariant:** no server is asked for an address that another server lists, and none gets to see an address that may be
//! another's.

use std::collections::BTreeSet;

use super::super::policy::consists_of;

/// The scheme of addresses that name their server.
const SCHEME: &str = "pml:";

/// The resources of one server, as it lists them.
#[derive(Clone, Debug, Default)]
pub(super) struct Offer<'a> {
    pub(super) server: &'a str,
    pub(super) uris: Vec<&'a str>,
    pub(super) templates: Vec<&'a str>,
}

/// Who has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    One(String),
    /// It may be any of these.
    Several(Vec<String>),
    Nobody,
}

/// The address in the form that names its server.
pub(super) fn qualified(server: &str, uri: &str) -> String {
    let mut name = String::new();
    for byte in server.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => name.push(char::from(byte)),
            _ => name.push_str(&format!("%{byte:02X}")),
        }
    }
    format!("{SCHEME}{name}:{uri}")
}

/// The server that an address names, and the server's own address.
pub(super) fn unqualified(uri: &str) -> Option<(String, &str)> {
    let (name, own) = uri.strip_prefix(SCHEME)?.split_once(':')?;
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    Some((String::from_utf8(bytes).ok()?, own))
}

/// Could an address of a server's own be taken for one that names its server?
fn is_reserved(uri: &str) -> bool {
    uri.get(..SCHEME.len()).is_some_and(|start| start.eq_ignore_ascii_case(SCHEME))
}

/// The servers that list an address.
pub(super) fn listers<'a>(offers: &[Offer<'a>], uri: &str) -> Vec<&'a str> {
    let has = offers.iter().filter(|offer| offer.uris.contains(&uri));
    has.map(|offer| offer.server).collect()
}

/// An address that a server lists, as clients see it.
pub(super) fn listed(offers: &[Offer<'_>], server: &str, uri: &str) -> String {
    let is_clear = listers(offers, uri) == [server] && !is_reserved(uri);
    if is_clear { uri.to_owned() } else { qualified(server, uri) }
}

/// The same for a template.
pub(super) fn listed_template(offers: &[Offer<'_>], server: &str, template: &str) -> String {
    let is_clear = is_usable(template) && rivals(offers, server, template).is_empty();
    if is_clear { template.to_owned() } else { qualified(server, template) }
}

/// Whose an address is that does not name its server.
pub(super) fn holder(offers: &[Offer<'_>], uri: &str) -> Holder {
    let of = |servers: BTreeSet<&str>| match servers.len() {
        0 => Holder::Nobody,
        1 => Holder::One(servers.into_iter().collect()),
        _ => Holder::Several(servers.into_iter().map(str::to_owned).collect()),
    };
    let listers = listers(offers, uri);
    if is_reserved(uri) || !listers.is_empty() {
        return of(listers.into_iter().filter(|_| !is_reserved(uri)).collect());
    }
    let mut servers = BTreeSet::new();
    for offer in offers {
        for template in offer.templates.iter().filter(|template| is_usable(template) && covers(template, uri)) {
            servers.insert(offer.server);
            servers.extend(rivals(offers, offer.server, template));
        }
    }
    of(servers)
}

/// The servers that list a template, for a request that names the template itself.
pub(super) fn template_holder(offers: &[Offer<'_>], template: &str) -> Option<Holder> {
    let has = offers.iter().filter(|offer| offer.templates.contains(&template));
    let servers: Vec<_> = has.map(|offer| offer.server.to_owned()).collect();
    match servers.as_slice() {
        [] => None,
        [server] if rivals(offers, server, template).is_empty() && is_usable(template) => {
            Some(Holder::One(server.clone()))
        }
        [server] => {
            let rivals = rivals(offers, server, template).into_iter().map(str::to_owned);
            Some(Holder::Several([server.clone()].into_iter().chain(rivals).collect()))
        }
        _ => Some(Holder::Several(servers)),
    }
}

/// Does a template say at least of what scheme its addresses are? Otherwise it could be anything.
fn is_usable(template: &str) -> bool {
    let Some((scheme, _)) = start(template).split_once(':') else { return false };
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'.' | b'-'))
        && !is_reserved(template)
}

/// What every address of a template begins with.
fn start(template: &str) -> &str {
    template.split('{').next().unwrap_or_default()
}

/// Other servers that have something which begins as the addresses of a template do.
fn rivals<'a>(offers: &[Offer<'a>], server: &str, template: &str) -> BTreeSet<&'a str> {
    let own = start(template);
    let is_rival = |offer: &&Offer<'a>| {
        let shares = |other: &&str| {
            let other = start(other);
            other.starts_with(own) || own.starts_with(other)
        };
        let templates = offer.templates.iter().filter(|template| is_usable(template));
        offer.server != server && (offer.uris.iter().any(|uri| uri.starts_with(own)) || templates.clone().any(shares))
    };
    offers.iter().filter(is_rival).map(|offer| offer.server).collect()
}

/// Can an address be made of a template? Its fixed parts must be there, in their order.
fn covers(template: &str, uri: &str) -> bool {
    let fixed = template.split('{').enumerate().map(|(index, part)| match index {
        0 => part,
        _ => part.split_once('}').map_or("", |(_, fixed)| fixed),
    });
    consists_of(fixed, uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer<'a>(server: &'a str, uris: &[&'a str], templates: &[&'a str]) -> Offer<'a> {
        Offer { server, uris: uris.to_vec(), templates: templates.to_vec() }
    }

    #[test]
    fn an_address_can_name_its_server() {
        for (server, uri) in [("fs", "file:///a:b"), ("my files", "x:y"), ("größe%", "pml:fs:a:b")] {
            let whole = qualified(server, uri);
            assert!(whole.is_ascii() || !uri.is_ascii(), "{whole}");
            assert_eq!(unqualified(&whole), Some((server.to_owned(), uri)), "{whole}");
        }
        for wrong in ["pml:fs", "file:///a", "pml:%zz:a:b", "pml:%:a:b", "PML:fs:a:b"] {
            assert_eq!(unqualified(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn nobody_takes_what_another_lists() {
        let honest = offer("honest", &["note:1", "note:2"], &[]);
        let one = |server: &str| Holder::One(server.to_owned());
        let two = || Holder::Several(vec!["evil".to_owned(), "honest".to_owned()]);
        for template in ["{+any}", "{scheme}:1", "note:{id}", "not{+any}", "note{+any}", "note:1"] {
            let offers = [offer("evil", &[], &[template]), honest.clone()];
            assert_eq!(holder(&offers, "note:1"), one("honest"), "{template}");
            assert_eq!(listed(&offers, "honest", "note:1"), "note:1", "{template}");
            assert_ne!(holder(&offers, "note:3"), one("evil"), "{template}");
            assert_eq!(listed_template(&offers, "evil", template), format!("pml:evil:{template}"));
        }
        let both = [offer("evil", &["note:1", "pml:honest:note:1"], &[]), honest];
        assert_eq!(holder(&both, "note:1"), two());
        assert_eq!(listed(&both, "evil", "note:1"), "pml:evil:note:1");
        assert_eq!(listed(&both, "honest", "note:1"), "pml:honest:note:1");
        assert_eq!(listed(&both, "honest", "note:2"), "note:2");
        assert_eq!(listed(&both, "evil", "pml:honest:note:1"), "pml:evil:pml:honest:note:1");
        assert_eq!(holder(&both, "pml:honest:note:1"), Holder::Nobody);
        assert_eq!(holder(&both, "PML:honest:note:1"), Holder::Nobody);
    }

    #[test]
    fn a_template_counts_where_nobody_else_has_anything() {
        let offers = [
            offer("files", &["file:///a"], &["file:///{+path}"]),
            offer("mail", &["mail:inbox"], &["mail:box/{name}/unread"]),
            offer("wild", &[], &["{+any}", "wild:{+any}"]),
        ];
        #[rustfmt::skip]
        let table = [
            ("file:///b",               Some("files")),
            ("mail:box/x/unread",       Some("mail")),
            ("mail:box/x/read",         None),
            ("mail:other",              None),
            ("wild:x",                  Some("wild")),
            ("http://example.org",      None),
        ];
        for (uri, expected) in table {
            let expected = expected.map_or(Holder::Nobody, |server| Holder::One(server.to_owned()));
            assert_eq!(holder(&offers, uri), expected, "{uri}");
        }
        assert_eq!(listed_template(&offers, "files", "file:///{+path}"), "file:///{+path}");
        assert_eq!(listed_template(&offers, "wild", "{+any}"), "pml:wild:{+any}");
        assert_eq!(template_holder(&offers, "file:///{+path}"), Some(Holder::One("files".to_owned())));
        assert_eq!(template_holder(&offers, "file:///a"), None);
        // As soon as two have it, nobody has: the narrower template is no better a claim.
        let narrow = offer("narrow", &[], &["file:///home/{name}"]);
        let offers = [&offers[..], &[narrow]].concat();
        let both = Holder::Several(vec!["files".to_owned(), "narrow".to_owned()]);
        for uri in ["file:///home/x", "file:///b"] {
            assert_eq!(holder(&offers, uri), both, "{uri}");
        }
        assert_eq!(holder(&offers, "file:///a"), Holder::One("files".to_owned()));
        assert_eq!(template_holder(&offers, "file:///{+path}"), Some(both));
    }

    #[test]
    fn fixed_parts_of_a_template_must_be_there() {
        #[rustfmt::skip]
        let table = [
            ("a:b",             "a:b",          true),
            ("a:b",             "a:bc",         false),
            ("a:{x}",           "a:bc",         true),
            ("a:{x}/c",         "a:b/c",        true),
            ("a:{x}/c",         "a:b/d",        false),
            ("a:{x}/{y}.md",    "a:b/c/d.md",   true),
            ("a:{x}/{y}.md",    "a:b.md",       false),
            ("a:{x",            "a:b",          true),
            ("b:{x}",           "a:b",          false),
        ];
        for (template, uri, expected) in table {
            assert_eq!(covers(template, uri), expected, "{template} {uri}");
        }
    }
}
