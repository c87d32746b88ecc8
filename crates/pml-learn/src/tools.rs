//! The tools that a search knows, in a fixed order, and which of them a model knows.

use std::sync::Arc;

use crate::names::{NameId, Names};

/// The tools that a search gives scores to, in the order of the scores. A clone is the same list.
#[derive(Clone, Debug)]
pub struct Tools(Arc<List>);

#[derive(Debug)]
struct List {
    names: Vec<Arc<str>>,
    /// Places, by the names that are there.
    by_name: Vec<u32>,
}

impl Tools {
    pub fn new(names: impl IntoIterator<Item = Arc<str>>) -> Tools {
        let names: Vec<Arc<str>> = names.into_iter().collect();
        let mut by_name: Vec<u32> = (0..names.len() as u32).collect();
        by_name.sort_by(|a, b| names[*a as usize].cmp(&names[*b as usize])); // stable: of equal names the first is first
        Tools(Arc::new(List { names, by_name }))
    }

    pub fn len(&self) -> usize {
        self.0.names.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.names.is_empty()
    }

    pub fn name(&self, place: usize) -> &Arc<str> {
        &self.0.names[place]
    }

    /// Where a tool is; of one that is there twice, the first place.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.places(name).next()
    }

    fn places(&self, name: &str) -> impl Iterator<Item = usize> {
        let List { names, by_name } = &*self.0;
        let first = by_name.partition_point(|place| *names[*place as usize] < *name);
        by_name[first..].iter().map(|place| *place as usize).take_while(move |place| *names[*place] == *name)
    }

    fn is(&self, other: &Tools) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Default for Tools {
    fn default() -> Tools {
        Tools::new([])
    }
}

const NONE: u32 = u32::MAX;

/// Tools, matched with the names of a model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lineup {
    tools: Tools,
    /// The number of each tool.
    ids: Vec<NameId>,
    /// The place of each number.
    places: Vec<u32>,
}

impl Lineup {
    pub(crate) fn new(tools: &Tools, names: &Names) -> Lineup {
        let ids: Vec<NameId> = (0..tools.len()).map(|place| names.id(tools.name(place)).unwrap_or(NONE)).collect();
        let mut places = vec![NONE; names.len()];
        for (place, id) in ids.iter().enumerate().rev().filter(|(_, id)| **id != NONE) {
            places[*id as usize] = place as u32; // of a tool that is there twice, the first
        }
        Lineup { tools: tools.clone(), ids, places }
    }

    pub(crate) fn is_of(&self, tools: &Tools) -> bool {
        self.tools.is(tools)
    }

    /// Takes in names that the model has learned since.
    pub(crate) fn extend(&mut self, names: &Names) {
        for id in self.places.len()..names.len() {
            let name = names.name(id as NameId);
            let place = self.tools.place(name);
            self.places.push(place.map_or(NONE, |place| place as u32));
            // A tool that is there twice has its number at each place.
            for place in self.tools.places(name) {
                self.ids[place] = id as NameId;
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn id(&self, place: usize) -> Option<NameId> {
        self.ids.get(place).copied().filter(|id| *id != NONE)
    }

    pub(crate) fn place(&self, id: NameId) -> Option<usize> {
        match self.places.get(id as usize) {
            Some(place) if *place != NONE => Some(*place as usize),
            _ => None,
        }
    }

    pub(crate) fn is_current(&self, names: &Names) -> bool {
        self.places.len() == names.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lineup_that_grows_is_one_that_is_made_anew() {
        let tools = Tools::new(["c", "a", "b", "a"].map(Arc::from));
        assert_eq!(["a", "b", "c", "d"].map(|name| tools.place(name)), [Some(1), Some(2), Some(0), None]);
        let mut names = Names::default();
        let mut grown = Lineup::new(&tools, &names);
        for name in ["x", "a", "c", "y"] {
            names.intern(name);
            assert!(!grown.is_current(&names));
            grown.extend(&names);
            let made = Lineup::new(&tools, &names);
            assert_eq!((&grown.ids, &grown.places), (&made.ids, &made.places), "{name}");
        }
        assert_eq!((grown.place(1), grown.id(3), grown.id(2), grown.place(0)), (Some(1), Some(1), None, None));
    }
}
