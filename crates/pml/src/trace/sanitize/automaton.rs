//! One automaton over everything that can begin, mark or name a secret.
//!
//! It is built when it is first needed, which takes a few milliseconds, and goes over a text once. Each hit says which
//! checks are worth their time at that place. Hits may overlap: what begins inside of another one is no less of a secret.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::{keys, services::SERVICES, tokens::MARKS, url::WEBHOOKS};

/// What to do at a hit.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trigger {
    /// The prefix of a service, by its index.
    Service(usize),
    /// A stem of a telling name.
    Stem,
    /// A mark inside of a token, by its index.
    Mark(usize),
    Webhook(usize),
    Address,
    Pem,
    Jwt,
    Bearer,
    Basic,
    Command,
    /// `identified by`, in SQL.
    Identified,
    /// `values`, in SQL.
    Values,
    Oracle,
    Pgpass,
    Putty,
    Echo,
}

#[derive(Debug)]
pub(super) struct Automaton {
    pub(super) search: AhoCorasick,
    /// What each pattern triggers.
    pub(super) triggers: Vec<Trigger>,
}

pub(super) static AUTOMATON: LazyLock<Automaton> = LazyLock::new(Automaton::build);

impl Automaton {
    fn build() -> Automaton {
        let mut all: Vec<(String, Trigger)> = Vec::new();
        all.extend(
            SERVICES
                .iter()
                .enumerate()
                .map(|(index, service)| (service.prefix.to_ascii_lowercase(), Trigger::Service(index))),
        );
        all.extend(keys::STEMS.iter().map(|stem| ((*stem).to_owned(), Trigger::Stem)));
        all.extend(
            MARKS.iter().enumerate().map(|(index, (mark, _))| (mark.to_ascii_lowercase(), Trigger::Mark(index))),
        );
        all.extend(
            WEBHOOKS.iter().enumerate().map(|(index, (start, ..))| ((*start).to_owned(), Trigger::Webhook(index))),
        );
        let fixed = [
            ("://", Trigger::Address),
            ("-----begin ", Trigger::Pem),
            ("eyj", Trigger::Jwt),
            ("bearer ", Trigger::Bearer),
            ("basic ", Trigger::Basic),
            ("identified by", Trigger::Identified),
            ("identified with", Trigger::Identified),
            ("values", Trigger::Values),
            ("jdbc:oracle:", Trigger::Oracle),
            ("sqlplus ", Trigger::Oracle),
            (":5432:", Trigger::Pgpass),
            (":5433:", Trigger::Pgpass),
            (":6432:", Trigger::Pgpass),
            (":*:", Trigger::Pgpass),
            ("private-lines:", Trigger::Putty),
            ("echo ", Trigger::Echo),
            ("printf ", Trigger::Echo),
        ];
        all.extend(fixed.map(|(text, trigger)| (text.to_owned(), trigger)));
        let commands = [
            "curl ",
            "http ",
            "https ",
            "wget ",
            "xh ",
            "mysql ",
            "mysqldump ",
            "mysqladmin ",
            "mariadb ",
            "sshpass ",
            "mongo ",
            "mongosh ",
            "mongodump ",
            "redis-cli ",
            "7z ",
            "docker ",
            "podman ",
            "nerdctl ",
            "buildah ",
            "skopeo ",
            "helm ",
            "oras ",
            "az ",
            "oc ",
            "ldapsearch ",
            "ldapmodify ",
            "ldapadd ",
            "ldapwhoami ",
            "zip ",
            "unzip ",
            "smbclient ",
            "rpcclient ",
            "lftp ",
        ];
        all.extend(commands.map(|text| (text.to_owned(), Trigger::Command)));
        let (patterns, triggers): (Vec<String>, Vec<Trigger>) = all.into_iter().unzip();
        let search = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(&patterns)
            .expect("fixed patterns build");
        Automaton { search, triggers }
    }
}
