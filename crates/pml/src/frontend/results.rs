//! Results that were too long for an answer, kept for `read_result` and for programs that come later.
//!
//! **Invariant:** a result is named by a random id and given to nobody but the caller whose run made
//! it. What is kept is bounded in number, size and age. For a new one, the oldest of whoever has most goes first.

use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::tokens;
use crate::{
    execution::{IndexRoom, JsonText},
    shown::{visible, visible_json},
};

const MAX_COUNT: usize = 200;
const MAX_BYTES: usize = 128 * 1024 * 1024;
const MAX_AGE: Duration = Duration::from_secs(60 * 60);
/// What to do if there is no such result.
pub(super) const NO_RESULT_HINT: &str = "results are kept for an hour, the newest 200 of them, for the client whose program made them; run that program again";

/// A name that nobody can guess; `None` if this machine has no random numbers.
pub(super) fn random_id() -> Option<String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).ok()?;
    Some(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// On whose behalf something is done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Caller(pub(super) Arc<str>);

impl Caller {
    pub(super) fn new(name: impl Into<Arc<str>>) -> Caller {
        Caller(name.into())
    }
}

/// The results of all callers.
#[derive(Debug, Default)]
pub(super) struct Results {
    kept: Mutex<KeptResults>,
}

#[derive(Debug, Default)]
struct KeptResults {
    by_id: HashMap<String, Entry>,
    /// Oldest first.
    order: VecDeque<String>,
    bytes: usize,
}

#[derive(Clone, Debug)]
struct Entry {
    owner: Caller,
    text: Arc<Text>,
    since: Instant,
}

/// Most memory for knowing where the parts of kept results are.
const INDEX_BYTES: usize = 16 * 1024 * 1024;

/// A text that is kept.
#[derive(Debug)]
pub(super) enum Text {
    /// JSON of anything but a text.
    Json(JsonText),
    /// A text itself, such as the console.
    Plain(Box<str>),
}

impl Text {
    /// JSON text.
    pub(super) fn json(text: Box<str>) -> Text {
        Text::Json(JsonText::of_json(text, &IndexRoom::new(INDEX_BYTES)))
    }

    pub(super) fn as_str(&self) -> &str {
        match self {
            Text::Json(text) => text.as_str(),
            Text::Plain(text) => text,
        }
    }

    /// How it is shown: JSON has escapes of its own.
    pub(super) fn show(&self) -> Show {
        match self {
            Text::Json(_) => visible_json,
            Text::Plain(_) => visible,
        }
    }

    /// The start of it, from a byte on, that has about `most` tokens as it is shown.
    pub(super) fn page(&self, from: usize, most: usize) -> Page<'_> {
        page(&self.as_str()[from..], most, self.show())
    }
}

/// Makes a text visible.
pub(super) type Show = fn(&str) -> Cow<'_, str>;

/// A part of a text, as it is shown.
#[derive(Debug, PartialEq)]
pub(super) struct Page<'a> {
    /// The bytes of the text itself that are shown.
    pub(super) bytes: usize,
    pub(super) shown: Cow<'a, str>,
}

/// Escapes take room, so a text that has them is cut again until what is shown fits.
pub(super) fn page<'a>(text: &'a str, most: usize, show: Show) -> Page<'a> {
    let mut bytes = tokens::prefix(text, most).len();
    loop {
        let shown = show(&text[..bytes]);
        let size = tokens::estimate(&shown);
        let less =
            text.floor_char_boundary(bytes * most / size.max(1)).min(text.floor_char_boundary(bytes.saturating_sub(1)));
        if matches!(shown, Cow::Borrowed(_)) || size <= most || less == 0 {
            return Page { bytes, shown };
        }
        bytes = less;
    }
}

impl Results {
    /// Keeps a text. Its id; `None` if it is too large to be kept at all.
    pub(super) fn keep(&self, owner: &Caller, text: Text) -> Option<String> {
        let size = text.as_str().len();
        let id = format!("r_{}", random_id().filter(|_| size <= MAX_BYTES)?);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.drop_old();
        while kept.order.len() >= MAX_COUNT || kept.bytes + size > MAX_BYTES {
            kept.drop_for_others();
        }
        kept.bytes += size;
        kept.order.push_back(id.clone());
        kept.by_id.insert(id.clone(), Entry { owner: owner.clone(), text: Arc::new(text), since: Instant::now() });
        Some(id)
    }

    /// What is kept under an id, for its owner.
    pub(super) fn get(&self, caller: &Caller, id: &str) -> Option<Arc<Text>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.drop_old();
        kept.by_id.get(id).filter(|entry| entry.owner == *caller).map(|entry| Arc::clone(&entry.text))
    }
}

impl KeptResults {
    fn drop_old(&mut self) {
        while self.order.front().is_some_and(|id| self.by_id[id].since.elapsed() > MAX_AGE) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if !self.order.is_empty() {
            self.remove(0);
        }
    }

    /// Drops the oldest of whoever takes most of what is short.
    fn drop_for_others(&mut self) {
        let mut taken: HashMap<&Caller, (usize, usize)> = HashMap::new();
        for entry in self.by_id.values() {
            let (count, bytes) = taken.entry(&entry.owner).or_default();
            *count += 1;
            *bytes += entry.text.as_str().len();
        }
        // Whichever it takes more of.
        let part = |(count, bytes): (usize, usize)| (count * MAX_BYTES / MAX_COUNT).max(bytes);
        let most = taken.into_iter().max_by(|(one, a), (other, b)| (part(*a), &one.0).cmp(&(part(*b), &other.0)));
        let Some(owner) = most.map(|(owner, _)| owner.clone()) else { return };
        if let Some(index) = self.order.iter().position(|id| self.by_id[id].owner == owner) {
            self.remove(index);
        }
    }

    fn remove(&mut self, index: usize) {
        if let Some(entry) = self.order.remove(index).and_then(|id| self.by_id.remove(&id)) {
            self.bytes -= entry.text.as_str().len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(size: usize) -> Text {
        Text::Plain("x".repeat(size).into())
    }

    #[test]
    fn pages_hold_what_fits_when_it_is_shown() {
        let hidden = "\u{e0041}".repeat(5000);
        let json = format!("\"{hidden}\"");
        for text in [Text::Plain(hidden.as_str().into()), Text::json(json.as_str().into()), plain(20_000)] {
            let (mut from, mut shown) = (0, String::new());
            while from < text.as_str().len() {
                let page = text.page(from, 300);
                assert!(tokens::estimate(&page.shown) <= 300 && page.bytes > 0);
                from += page.bytes;
                shown.push_str(&page.shown);
            }
            assert_eq!(shown, text.show()(text.as_str()));
        }
        assert_eq!(Text::Plain("\u{e0041}b".into()).page(0, 1).bytes, 4, "one character at least");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_kept_is_bounded_and_given_to_its_owner_only() {
        let results = Results::default();
        let (ann, bob) = (Caller::new("ann"), Caller::new("bob"));
        let first = results.keep(&ann, plain(10)).unwrap();
        assert!(results.get(&ann, &first).is_some());
        assert!(results.get(&bob, &first).is_none());
        assert!(results.get(&ann, "r_").is_none());
        let all: Vec<_> = (0..MAX_COUNT).map(|_| results.keep(&bob, plain(1)).unwrap()).collect();
        assert!(results.get(&ann, &first).is_some(), "nobody loses anything to somebody who has more");
        assert!(results.get(&bob, &all[0]).is_none() && results.get(&bob, &all[1]).is_some(), "the oldest goes first");
        let large = results.keep(&ann, plain(MAX_BYTES)).unwrap();
        assert_eq!(results.kept.lock().unwrap().order.len(), 1);
        assert!(results.keep(&ann, plain(MAX_BYTES + 1)).is_none());
        tokio::time::advance(MAX_AGE + Duration::from_secs(1)).await;
        assert!(results.get(&ann, &large).is_none());
        assert_eq!(results.kept.lock().unwrap().bytes, 0);
    }
}
