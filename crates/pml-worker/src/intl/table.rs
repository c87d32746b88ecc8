//! The texts of CLDR that formatting needs, by locale and key.
//!
//! `cldr.bin` is made by `tools/intl`, whose `table.mjs` describes the format and `generate.mjs` the keys. It is read where it
//! lies: a look-up touches the few pages that it needs, and nothing is built when a worker starts. A locale has only what
//! differs from its parent; an empty text means that there is none.

use super::Failure;

static BYTES: &[u8] = include_bytes!("cldr.bin");

/// Whose data the table holds, and under which terms.
pub const NOTICE: &str = include_str!("NOTICE.txt");

/// Separates the items of a list.
const UNIT: char = '\u{1f}';
/// Separates lists in a list of lists.
const RECORD: char = '\u{1e}';
const HEADER_BYTES: usize = 20;

/// A locale of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Locale(usize);

impl Locale {
    /// The locale of exactly this name.
    pub(crate) fn find(name: &str) -> Option<Locale> {
        search(locales(), |index| Locale(index).name().cmp(name)).map(Locale)
    }

    /// The locale that options name.
    pub(crate) fn named(name: &str) -> Result<Locale, Failure> {
        Locale::find(name).ok_or_else(|| Failure::type_error("there is no such locale"))
    }

    /// What holds for all locales.
    pub(crate) fn everywhere() -> Locale {
        Locale::find("~").expect("the table has it")
    }

    pub(crate) fn name(self) -> &'static str {
        text(number(self.at(0)))
    }

    fn parent(self) -> Option<Locale> {
        let parent = number(self.at(4));
        (parent != u32::MAX as usize).then_some(Locale(parent))
    }

    /// The text of a key, of this locale or of the nearest parent that has it.
    pub(crate) fn get(self, key: &str) -> Option<&'static str> {
        self.get_index(find_key(key)?)
    }

    /// The items of a key's list; empty if there is no such key.
    pub(crate) fn list(self, key: &str) -> List {
        List(self.get(key).unwrap_or_default())
    }

    /// Every key with this prefix that has a text, without the prefix.
    pub(crate) fn with_prefix(self, prefix: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
        let first = partition(keys(), |index| key(index) < prefix);
        (first..keys())
            .map_while(move |index| key(index).strip_prefix(prefix).map(|rest| (index, rest)))
            .filter_map(move |(index, rest)| Some((rest, self.get_index(index)?)))
    }

    fn get_index(self, key: usize) -> Option<&'static str> {
        let mut locale = Some(self);
        while let Some(current) = locale {
            let (count, start) = (number(current.at(8)), number(current.at(12)));
            let short = |index: usize| usize::from(u16::from_le_bytes(array(start + 2 * index)));
            if let Some(found) = search(count, |index| short(index).cmp(&key)) {
                let [low, middle, high] = array(start + 2 * count + 3 * found);
                let offset = u32::from_le_bytes([low, middle, high, 0]) as usize;
                return Some(text(offset)).filter(|text| !text.is_empty());
            }
            locale = current.parent();
        }
        None
    }

    fn at(self, field: usize) -> usize {
        HEADER_BYTES + 4 * keys() + 16 * self.0 + field
    }
}

/// A list of texts in one text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List(&'static str);

impl List {
    pub(crate) fn of(text: &'static str) -> List {
        List(text)
    }

    /// The item with this number, unless it is absent or empty.
    pub(crate) fn get(self, index: usize) -> Option<&'static str> {
        self.iter().nth(index).filter(|item| !item.is_empty())
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = &'static str> {
        self.0.split(UNIT)
    }

    /// The list with this number, in a list of lists.
    pub(crate) fn record(self, index: usize) -> List {
        List(self.0.split(RECORD).nth(index).unwrap_or_default())
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The form for a plural category, out of a list of plural forms.
    pub(crate) fn plural(self, category: icu_plurals::PluralCategory) -> &'static str {
        // A single form is that for all.
        if !self.0.contains(UNIT) {
            return self.0;
        }
        self.get(category as usize).or_else(|| self.get(5)).unwrap_or_default()
    }
}

fn keys() -> usize {
    number(8)
}

fn locales() -> usize {
    number(12)
}

fn key(index: usize) -> &'static str {
    text(number(HEADER_BYTES + 4 * index))
}

fn find_key(name: &str) -> Option<usize> {
    search(keys(), |index| key(index).cmp(name))
}

fn array<const N: usize>(offset: usize) -> [u8; N] {
    BYTES[offset..offset + N].try_into().expect("the range has that length")
}

fn number(offset: usize) -> usize {
    u32::from_le_bytes(array(offset)) as usize
}

/// A text of the pool.
fn text(offset: usize) -> &'static str {
    let at = number(16) + offset;
    let (start, length) = match BYTES[at] {
        u8::MAX => (at + 5, number(at + 1)),
        length => (at + 1, usize::from(length)),
    };
    // Checked for the whole pool by a test; checking each text again costs less than what is done with it.
    str::from_utf8(&BYTES[start..start + length]).expect("the pool is UTF-8")
}

/// The first of `count` for which `is_before` does not hold.
fn partition(count: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if is_before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

fn search(count: usize, compare: impl Fn(usize) -> std::cmp::Ordering) -> Option<usize> {
    let found = partition(count, |index| compare(index).is_lt());
    (found < count && compare(found).is_eq()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_of_the_table_can_be_read() {
        let mut count = 0;
        for index in 0..locales() {
            let locale = Locale(index);
            assert_eq!(Locale::find(locale.name()), Some(locale));
            count += locale.with_prefix("").count();
        }
        assert!(count > 500_000, "{count}");
    }

    #[test]
    fn a_locale_has_what_its_parents_have() {
        let austria = Locale::find("de-AT").unwrap();
        assert_eq!(austria.parent().map(Locale::name), Some("de"));
        assert_eq!(austria.list("g.months.f.wide").get(0), Some("Jänner"));
        assert_eq!(austria.list("g.months.f.wide").get(1), Some("Februar"));
        assert_eq!(austria.get("g.months.f.wider"), None);
    }
}
