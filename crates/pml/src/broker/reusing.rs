//! Capabilities among the tools that are found: suggested if they are probably what is asked for, first if they almost
//! certainly are. None is ever run because of that.
//!
//! A capability of which every tool is denied is not shown. One that is deprecated, or lacks a tool, by what its server says now
//! or by the policy, comes last and says so.

use std::{collections::BTreeSet, sync::Arc};

use pml_wire::ToolId;

use super::search::Question;
use crate::{
    catalog::{Found, SavedProgram, Searchable, Standing, Tool},
    learning::{Reusables, SUGGESTED, View},
};

/// From which probability on a capability comes first.
const FIRST: f64 = 0.8;
/// Capabilities that are suggested for one request.
const MOST: usize = 3;
/// How far below the best a tool, or a capability, may score and still be part of what is asked for.
const PART: f32 = 0.4;
/// A capability that scores at least so much of what a tool that it uses scores is not behind that tool.
const AS_GOOD: f32 = 0.8;
/// Tools that may come among those of a capability that does all that is asked for.
const STRANGERS: usize = 2;

/// A capability that is probably what is asked for.
#[derive(Clone, Debug)]
pub struct Offer {
    pub tool: Arc<Tool>,
    pub probability: f64,
}

impl Offer {
    /// Does it come before everything else?
    pub fn is_first(&self) -> bool {
        self.probability >= FIRST
    }

    /// Why it is shown, in words.
    pub fn reason(&self) -> String {
        format!("saved for requests like this, probability {:.2}", self.probability)
    }
}

/// What a program may not use of what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    All,
    Some,
    None,
}

/// The rules that decide about the tools of capabilities.
pub(super) struct Reuse<'a, A> {
    pub(super) reusables: &'a Reusables,
    /// May a tool be called?
    pub(super) is_allowed: A,
}

impl<A: Fn(&ToolId) -> bool> Reuse<'_, A> {
    fn access(&self, program: &SavedProgram) -> Access {
        let known = program.tools.iter().filter_map(|tool| tool.parse::<ToolId>().ok());
        let (mut allowed, mut denied) = (0, 0);
        known.for_each(|tool| *(if (self.is_allowed)(&tool) { &mut allowed } else { &mut denied }) += 1);
        match (allowed, denied) {
            (_, 0) => Access::All,
            (0, _) => Access::None,
            _ => Access::Some,
        }
    }

    /// May the tool be shown, as far as it is a capability?
    pub(super) fn is_shown(&self, tool: &Tool) -> bool {
        self.reusables.program(tool).is_none_or(|program| self.access(program) != Access::None)
    }

    /// Why a capability should not be used, if it should not.
    fn flaw(&self, tool: &Tool) -> Option<&'static str> {
        let program = self.reusables.program(tool)?;
        match (program.standing, self.access(program)) {
            (Standing::Gone, _) => Some("does not work now: a tool that it uses is gone"),
            (_, Access::Some | Access::None) => Some("does not work here: a tool that it uses may not be called"),
            (Standing::Changed, _) => Some("a tool that it uses has changed since it was saved"),
            (Standing::Deprecated, _) => Some("is deprecated"),
            (Standing::Sound, Access::All) => None,
        }
    }

    /// Capabilities that are probably what is asked for, the most probable first.
    pub(super) fn offers(&self, view: &View, request: &str, is_wanted: impl Fn(&Tool) -> bool) -> Vec<Offer> {
        let matches = view.matches(request, self.reusables).into_iter();
        matches
            .take_while(|(_, probability)| *probability >= SUGGESTED)
            .filter(|(tool, _)| self.flaw(tool).is_none() && is_wanted(tool))
            .take(MOST)
            .map(|(tool, probability)| Offer { tool: Arc::clone(tool), probability })
            .collect()
    }

    /// Puts capabilities where they belong among what was found.
    pub(super) fn arrange(
        &self,
        found: &mut Vec<Found>,
        view: Option<&View>,
        (index, question): (&Searchable, &Question),
        is_wanted: impl Fn(&Tool) -> bool,
    ) {
        let mut flawed = Vec::new();
        found.retain_mut(|entry| match self.flaw(&entry.tool) {
            Some(flaw) => {
                entry.reasons.insert(0, flaw.to_owned());
                flawed.push(entry.clone());
                false
            }
            None => true,
        });
        self.put_before_parts(found);
        found.append(&mut flawed);
        let offers = view.map(|view| self.offers(view, &question.query, &is_wanted)).unwrap_or_default();
        let offers = offers
            .into_iter()
            .filter(|offer| question.server.as_deref().is_none_or(|server| server == offer.tool.id.server()));
        place(found, offers, |tool| {
            let score = index.explain(&question.query, &tool.id).map_or(0.0, |explained| explained.hit.score);
            (!question.is_strict || score >= question.threshold).then_some(score)
        });
        found.truncate(question.limit);
    }
}

impl<A: Fn(&ToolId) -> bool> Reuse<'_, A> {
    /// Moves a capability of at least two tools before the tools that it uses, if it fits nearly as well as the first of them, or if
    /// the request finds all of them and nearly nothing else before them: a request with several parts finds the tool of each
    /// part, and what does them together does more of it.
    fn put_before_parts(&self, found: &mut Vec<Found>) {
        let Some(best) = found.first().map(|entry| entry.score) else { return };
        let is_part = |entry: &Found| entry.score >= best * PART;
        let programs: Vec<_> =
            found.iter().filter(|entry| is_part(entry)).map(|entry| Arc::clone(&entry.tool)).collect();
        for capability in programs {
            let Some(program) = self.reusables.program(&capability) else { continue };
            let mut left: BTreeSet<&str> = program.tools.iter().map(String::as_str).collect();
            if left.len() < 2 {
                continue;
            }
            let (names, near) = (left.clone(), left.len() + STRANGERS);
            let tools = found.iter().filter(|entry| self.reusables.program(&entry.tool).is_none());
            for entry in tools.take(near).filter(|entry| is_part(entry)) {
                left.remove(entry.tool.id.as_str());
            }
            let at = |found: &[Found], is: &dyn Fn(&Found) -> bool| found.iter().position(is);
            let (Some(from), Some(to)) = (
                at(found, &|entry| entry.tool.id == capability.id),
                at(found, &|entry| names.contains(entry.tool.id.as_str())),
            ) else {
                continue;
            };
            let is_as_good = || found[from].score >= AS_GOOD * found[to].score;
            if to < from && (left.is_empty() || is_as_good()) {
                let mut entry = found.remove(from);
                entry.reasons.insert(0, "does with one call what tools below it do".to_owned());
                found.insert(to, entry);
            }
        }
    }
}

/// Moves offers to their places, or puts them there with the score that they have: those that come first to the top, others to
/// no later than behind the best of the rest.
fn place(found: &mut Vec<Found>, offers: impl Iterator<Item = Offer>, score: impl Fn(&Tool) -> Option<f32>) {
    for (offered, offer) in offers.enumerate() {
        let at = found.iter().position(|entry| entry.tool.id == offer.tool.id);
        let (entry, now) = match at {
            Some(at) => (Some(found.remove(at)), at),
            None => {
                let score = score(&offer.tool);
                let entry = |score| Found { tool: Arc::clone(&offer.tool), score, reasons: Vec::new() };
                (score.map(entry), found.len())
            }
        };
        let Some(mut entry) = entry else { continue };
        entry.reasons.insert(0, offer.reason());
        // The most probable come first, so all that were placed before this one are above it.
        let target = if offer.is_first() { offered } else { now.min(offered + 1) };
        found.insert(target.min(found.len()), entry);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, value::to_raw_value};

    use super::*;
    use crate::catalog::{CAPABILITIES, Catalog, Listing, Source};

    fn tool(server: &str, name: &str) -> Arc<Tool> {
        Arc::new(Tool::parse(server, to_raw_value(&json!({ "name": name })).unwrap()).unwrap())
    }

    fn found(names: &[&str]) -> Vec<Found> {
        let entry = |name: &&str| Found { tool: tool("s", name), score: 0.5, reasons: Vec::new() };
        names.iter().map(entry).collect()
    }

    fn names(found: &[Found]) -> String {
        found.iter().map(|entry| entry.tool.id.tool()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_almost_certain_comes_first_and_what_is_probable_is_seen() {
        type Row = (&'static [&'static str], &'static [(&'static str, f64)], &'static str);
        #[rustfmt::skip]
        let table: [Row; 8] = [
            // found          offers                          then
            (&["a", "b"],     &[],                            "a b"),
            (&["a", "b"],     &[("x", 0.9)],                  "x a b"),
            (&["a", "b"],     &[("x", 0.6)],                  "a x b"),
            (&["x", "a"],     &[("x", 0.6)],                  "x a"),
            (&["a", "b", "x"],&[("x", 0.85)],                 "x a b"),
            (&["a", "b"],     &[("x", 0.9), ("y", 0.85)],     "x y a b"),
            (&["a", "b"],     &[("x", 0.9), ("y", 0.6)],      "x a y b"),
            (&[],             &[("x", 0.6)],                  "x"),
        ];
        for (before, offers, expected) in table {
            let mut entries = found(before);
            let offer = |(name, probability): &(&str, f64)| Offer { tool: tool("s", name), probability: *probability };
            place(&mut entries, offers.iter().map(offer), |_| Some(0.0));
            assert_eq!(names(&entries), expected, "{before:?} {offers:?}");
            assert!(
                offers
                    .iter()
                    .all(|(name, _)| entries.iter().any(|e| e.tool.id.tool() == *name && !e.reasons.is_empty()))
            );
        }
        let mut entries = found(&["a"]);
        place(&mut entries, [Offer { tool: tool("s", "x"), probability: 0.9 }].into_iter(), |_| None);
        assert_eq!(names(&entries), "a", "a threshold that was asked for is kept");
    }

    #[test]
    fn what_does_all_parts_of_a_request_comes_before_them() {
        let catalog = Catalog::new([CAPABILITIES.to_owned()]);
        let raw = |name: &str, tools: &[&str]| {
            let tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
            let program = SavedProgram { tools, ..SavedProgram::default() };
            to_raw_value(&json!({ "name": name, "_meta": program.to_meta() })).unwrap()
        };
        catalog.update(Listing::parse(
            CAPABILITIES,
            vec![raw("both", &["s:a", "s:b"]), raw("one", &["s:a"])],
            Source::Live,
        ));
        let snapshot = catalog.snapshot();
        let reusables = Reusables::of(&snapshot).unwrap();
        let reuse = Reuse { reusables: &reusables, is_allowed: |_: &ToolId| true };
        type Row = (&'static [(&'static str, f32)], &'static str);
        #[rustfmt::skip]
        let table: [Row; 9] = [
            // found, with scores                                                        then
            (&[("a", 0.4), ("b", 0.2), ("both", 0.2)],                                   "both a b"),
            (&[("c", 0.4), ("a", 0.3), ("both", 0.2), ("b", 0.2)],                       "c both a b"),
            (&[("a", 0.4), ("both", 0.2), ("c", 0.2)],                                   "a both c"),
            (&[("a", 0.4), ("both", 0.2), ("b", 0.1)],                                   "a both b"),
            (&[("a", 0.4), ("b", 0.3), ("both", 0.1)],                                   "a b both"),
            (&[("c", 0.4), ("a", 0.4), ("d", 0.4), ("e", 0.4), ("b", 0.4), ("both", 0.3)], "c a d e b both"),
            (&[("a", 0.4), ("both", 0.35)],                                              "both a"),
            (&[("c", 0.4), ("a", 0.3), ("both", 0.29)],                                  "c both a"),
            (&[("a", 0.4), ("one", 0.39)],                                               "a one"),
        ];
        for (before, expected) in table {
            let entry = |(name, score): &(&str, f32)| {
                let server = if ["both", "one"].contains(name) { CAPABILITIES } else { "s" };
                let known = snapshot.tool(&format!("{server}:{name}").parse().unwrap()).cloned();
                Found { tool: known.unwrap_or_else(|| tool(server, name)), score: *score, reasons: Vec::new() }
            };
            let mut entries: Vec<_> = before.iter().map(entry).collect();
            reuse.put_before_parts(&mut entries);
            assert_eq!(names(&entries), expected, "{before:?}");
        }
    }

    #[test]
    fn tools_that_are_gone_changed_or_denied_are_told() {
        let catalog = Catalog::new([CAPABILITIES.to_owned()]);
        let raw = |name: &str, tools: &[&str], standing: Standing| {
            let tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
            let program = SavedProgram { tools, standing, ..SavedProgram::default() };
            to_raw_value(&json!({ "name": name, "_meta": program.to_meta() })).unwrap()
        };
        let tools = vec![
            raw("sound", &["s:a"], Standing::Sound),
            raw("changed", &["s:a"], Standing::Changed),
            raw("gone", &["s:a"], Standing::Gone),
            raw("old", &["s:a"], Standing::Deprecated),
            raw("partly", &["s:a", "s:denied"], Standing::Sound),
            raw("denied", &["s:denied"], Standing::Sound),
            raw("free", &[], Standing::Sound),
        ];
        catalog.update(Listing::parse(CAPABILITIES, tools, Source::Live));
        let snapshot = catalog.snapshot();
        let reusables = Reusables::of(&snapshot).unwrap();
        let reuse = Reuse { reusables: &reusables, is_allowed: |tool: &ToolId| tool.tool() != "denied" };
        #[rustfmt::skip]
        let table = [
            // capability  shown  flaw
            ("sound",      true,  None),
            ("changed",    true,  Some("changed since")),
            ("gone",       true,  Some("is gone")),
            ("old",        true,  Some("is deprecated")),
            ("partly",     true,  Some("may not be called")),
            ("denied",     false, Some("may not be called")),
            ("free",       true,  None),
        ];
        for (name, is_shown, flaw) in table {
            let tool = snapshot.tool(&format!("{CAPABILITIES}:{name}").parse().unwrap()).unwrap();
            assert_eq!(reuse.is_shown(tool), is_shown, "{name}");
            let said = reuse.flaw(tool);
            assert!(said.is_some() == flaw.is_some() && flaw.is_none_or(|flaw| said.unwrap().contains(flaw)), "{name}");
        }
        assert!(reuse.is_shown(&tool("s", "denied")), "what is no capability is not its business");
        assert!(reusables.are_of(&snapshot) && Reusables::of(&Catalog::new([]).snapshot()).is_none());
    }
}
