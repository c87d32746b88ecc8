//! Goes over one text and collects what must not stay.

use std::ops::Range;

use super::{
    assignment,
    automaton::{AUTOMATON, Trigger},
    email, encoded,
    finding::{self, Finding, Kind},
    headers, numbers, pem,
    services::SERVICES,
    settings::Rules,
    shape::starts_token,
    statements,
    tokens::{self, MARKS},
    url::{self, WEBHOOKS},
};

/// One pass over one text.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    pub(super) text: &'a str,
    pub(super) bytes: &'a [u8],
    pub(super) rules: &'a Rules,
    /// How many wrappers are around the text.
    pub(super) depth: usize,
    findings: Vec<Finding>,
    /// Findings whose form leaves no doubt, also within data.
    certain: Vec<Finding>,
    /// Names up to here have been looked at.
    pub(super) names_until: usize,
    /// Tokens up to here have been found, and command lines read.
    pub(super) tokens_until: usize,
    pub(super) commands_until: usize,
    /// Rows of tables have been read up to here.
    pub(super) tables_until: usize,
    pub(super) echoes_until: usize,
    /// Encoded data, in order; what begins inside is no finding, unless its form leaves no doubt.
    pub(super) data: Vec<Range<usize>>,
    /// The parts of addresses in front of their hosts.
    pub(super) addresses: Vec<Range<usize>>,
}

impl Scan<'_> {
    pub(super) fn add(&mut self, span: Range<usize>, kind: Kind) {
        if span.start < span.end {
            self.findings.push(Finding { span, kind });
        }
    }

    fn add_certain(&mut self, span: Range<usize>, kind: Kind) {
        self.certain.push(Finding { span, kind });
    }
}

/// Everything in the text that must not stay, in order and without overlaps.
pub(super) fn findings(text: &str, rules: &Rules, depth: usize) -> Vec<Finding> {
    let mut scan = Scan {
        text,
        bytes: text.as_bytes(),
        rules,
        depth,
        findings: Vec::new(),
        certain: Vec::new(),
        names_until: 0,
        tokens_until: 0,
        commands_until: 0,
        tables_until: 0,
        echoes_until: 0,
        data: Vec::new(),
        addresses: Vec::new(),
    };
    encoded::runs(&mut scan);
    let automaton = &*AUTOMATON;
    for hit in automaton.search.find_overlapping_iter(text) {
        check(&mut scan, automaton.triggers[hit.pattern().as_usize()], hit.start(), hit.end());
    }
    email::find(&mut scan);
    numbers::find(&mut scan);
    encoded::percent(&mut scan);
    encoded::backslashes(&mut scan);
    encoded::dressing(&mut scan);
    rules.find(text, |span, kind| scan.add(span, kind));
    let Scan { mut findings, mut certain, data, .. } = scan;
    if findings.is_empty() && certain.is_empty() {
        return findings;
    }
    findings.retain(|finding| !encoded::is_inside(&data, finding.span.start));
    findings.append(&mut certain);
    findings.retain(|finding| !rules.allows(text, finding));
    let markers = finding::markers(text);
    finding::settle(findings, &markers)
}

fn check(scan: &mut Scan<'_>, trigger: Trigger, start: usize, end: usize) {
    match trigger {
        Trigger::Service(index) => {
            let service = &SERVICES[index];
            if start >= scan.tokens_until
                && let Some(end) = service.end(scan.bytes, start)
            {
                scan.tokens_until = end;
                match service.is_doubtful() {
                    true => scan.add(start..end, Kind::secret(service.kind)),
                    false => scan.add_certain(start..end, Kind::secret(service.kind)),
                }
            }
        }
        Trigger::Stem => assignment::find(scan, start..end),
        Trigger::Mark(index) => {
            let (mark, around) = MARKS[index];
            // The automaton does not look at case.
            if scan.bytes[start..].starts_with(mark.as_bytes())
                && let Some((span, kind)) = around(scan.bytes, start)
            {
                scan.add_certain(span, kind);
            }
        }
        Trigger::Webhook(index) => url::webhook(scan, start + WEBHOOKS[index].0.len(), WEBHOOKS[index]),
        Trigger::Address => url::userinfo(scan, start),
        Trigger::Pem => {
            if let Some(span) = pem::private_key(scan.text, start) {
                scan.add(span, Kind::secret("private-key"));
            }
        }
        Trigger::Jwt => {
            if scan.bytes[start..].starts_with(b"eyJ")
                && let Some(span) = tokens::jwt(scan.bytes, start)
            {
                scan.add_certain(span, Kind::secret("jwt"));
            }
        }
        Trigger::Bearer => headers::bearer(scan, end.min(start + "bearer ".len())),
        Trigger::Basic => headers::basic(scan, start + "basic ".len()),
        Trigger::Identified => statements::identified(scan, end),
        Trigger::Values => statements::insert(scan, start, end),
        Trigger::Oracle => statements::oracle(scan, end),
        Trigger::Pgpass => statements::pgpass(scan, start),
        Trigger::Putty => statements::putty(scan, end),
        Trigger::Echo => statements::echo(scan, start),
        Trigger::Command => {
            if start >= scan.commands_until && starts_token(scan.bytes, start) {
                headers::command(scan, start);
            }
        }
    }
}
