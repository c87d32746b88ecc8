//! Names of tools and capabilities, as small numbers.

use std::{collections::HashMap, sync::Arc};

/// The number of a name, valid until names are [retained](Names::retain).
pub(crate) type NameId = u32;

#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    ids: HashMap<Arc<str>, NameId>,
    names: Vec<Arc<str>>,
}

impl Names {
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn id(&self, name: &str) -> Option<NameId> {
        self.ids.get(name).copied()
    }

    pub(crate) fn name(&self, id: NameId) -> &Arc<str> {
        &self.names[id as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.names.iter()
    }

    /// The number of a name, which is a new one if the name is new.
    pub(crate) fn intern(&mut self, name: &str) -> NameId {
        if let Some(id) = self.id(name) {
            return id;
        }
        let id = self.names.len() as NameId;
        let name: Arc<str> = name.into();
        self.names.push(Arc::clone(&name));
        self.ids.insert(name, id);
        id
    }

    /// Forgets names. What is left is numbered anew; the answer has the new number of each old one.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(NameId) -> bool) -> Vec<Option<NameId>> {
        let old = std::mem::take(self);
        old.names.iter().zip(0..).map(|(name, id)| is_kept(id).then(|| self.intern(name))).collect()
    }
}
