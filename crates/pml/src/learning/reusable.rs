//! The capabilities of a catalogue, ready to be matched with what is asked for.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use pml_learn::{Capabilities, Capability, Match};
use pml_search::{Embedder as _, Table};

use super::ranking::{View, settings};
use crate::catalog::{CAPABILITIES, Listing, SavedProgram, Snapshot, Tool};

/// From which probability on a capability is suggested.
pub const SUGGESTED: f64 = 0.5;

/// Intents of one capability that are compared, and how much of each is read.
const INTENTS: usize = 32;
const MAX_INTENT_BYTES: usize = 4096;

/// Programs that can be used again.
#[derive(Debug)]
pub struct Reusables {
    listing: Arc<Listing>,
    tools: Vec<Arc<Tool>>,
    programs: Vec<SavedProgram>,
    /// Places, by the name of the tool.
    places: HashMap<String, usize>,
    pub(super) capabilities: Arc<Capabilities>,
}

impl Reusables {
    /// Those of a catalogue. `None` if it has none.
    pub fn of(snapshot: &Snapshot) -> Option<Reusables> {
        let listing = snapshot.listing(CAPABILITIES).filter(|listing| !listing.tools.is_empty())?;
        let (mut tools, mut programs, mut places) = (Vec::new(), Vec::new(), HashMap::new());
        for tool in listing.tools.values() {
            places.insert(tool.id.tool().to_owned(), tools.len());
            programs.push(SavedProgram::of(tool).unwrap_or_default());
            tools.push(Arc::clone(tool));
        }
        let capability = |(tool, program): (&Arc<Tool>, &SavedProgram)| Capability {
            name: tool.id.to_string(),
            tools: program.tools.clone(),
            intents: program.intents.iter().take(INTENTS).map(|intent| Table.query(start(intent))).collect(),
        };
        let capabilities = Capabilities::new(settings().dimensions, tools.iter().zip(&programs).map(capability));
        Some(Reusables { listing: Arc::clone(listing), tools, programs, places, capabilities: Arc::new(capabilities) })
    }

    /// Are these the capabilities of a catalogue?
    pub fn are_of(&self, snapshot: &Snapshot) -> bool {
        snapshot.listing(CAPABILITIES).is_some_and(|listing| Arc::ptr_eq(listing, &self.listing))
    }

    /// Does one of them call exactly these tools?
    pub fn have(&self, tools: &BTreeSet<String>) -> bool {
        self.programs.iter().any(|program| program.tools.iter().cloned().collect::<BTreeSet<_>>() == *tools)
    }

    /// The program that a tool runs, if the tool is a capability.
    pub fn program(&self, tool: &Tool) -> Option<&SavedProgram> {
        self.places.get(tool.id.tool()).filter(|_| tool.id.server() == CAPABILITIES).map(|at| &self.programs[*at])
    }
}

impl View {
    /// Is one of the capabilities probably what is asked for?
    pub fn has_match(&self, request: &str, reusables: &Reusables) -> bool {
        self.matches(request, reusables).first().is_some_and(|(_, probability)| *probability >= SUGGESTED)
    }

    /// How often these tools and no others were used with success for what is like this.
    pub fn repetitions(&self, request: &str, tools: &[&str]) -> usize {
        match self.is_on && !request.trim().is_empty() {
            true => self.learned.repetitions(&Table.query(start(request)), tools),
            false => 0,
        }
    }

    /// Capabilities that may do what is asked for, the most probable first, each with its probability. None while learning is
    /// switched off.
    pub fn matches<'r>(&self, request: &str, reusables: &'r Reusables) -> Vec<(&'r Arc<Tool>, f64)> {
        if !self.is_on || request.trim().is_empty() {
            return Vec::new();
        }
        let matches = self.learned.matches(&Table.query(start(request)), &reusables.capabilities, |_| true);
        matches.iter().map(|Match { place, probability, .. }| (&reusables.tools[*place], *probability)).collect()
    }
}

/// What is read of a text that somebody else may have written.
fn start(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_INTENT_BYTES)]
}
