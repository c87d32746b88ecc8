//! Capabilities among the tools that are found: suggested if they are probably what is asked for, first if they almost
//! certainly are. None is ever run because of that.
//!
//! A capability of which every tool is denied is not shown. One that lacks a tool, by what its server says now or by the policy,
//! comes last and says so.

use std::sync::Arc;

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
    fn tools_that_are_gone_changed_or_denied_are_told() {
        let catalog = Catalog::new([CAPABILITIES.to_owned()]);
        let raw = |name: &str, tools: &[&str], standing: Standing| {
            let tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
            let program = SavedProgram { tools, intents: Vec::new(), standing };
            to_raw_value(&json!({ "name": name, "_meta": program.to_meta() })).unwrap()
        };
        let tools = vec![
            raw("sound", &["s:a"], Standing::Sound),
            raw("changed", &["s:a"], Standing::Changed),
            raw("gone", &["s:a"], Standing::Gone),
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
