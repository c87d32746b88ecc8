//! Other spellings of a word that a query has and no tool has.
//!
//! "renaming" finds `rename`, "cancelled" finds `canceled`, "forcast" finds `forecast`, "PR" finds `pull request`. Only a word that would find nothing
//! is read as another, so that no right answer is lost to one that merely looks alike.

use std::cmp::Reverse;

/// Shorter words have too many neighbours to guess which was meant.
const MISTYPED_LETTERS: usize = 5;
/// Longer words are no words; and the number of neighbours grows with the length.
const LONGEST: usize = 16;
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";

/// Endings that British and American English write differently.
const ENDINGS: [(&str, &str); 7] = [
    ("our", "or"),
    ("re", "er"),
    ("ise", "ize"),
    ("yse", "yze"),
    ("ogue", "og"),
    ("elled", "eled"),
    ("elling", "eling"),
];

/// What developers write for short, and what tools call it. Nothing that is a word of its own.
#[rustfmt::skip]
const SHORT: [(&str, &str); 27] = [
    ("admin", "administrator"), ("app", "application"), ("auth", "authentication"), ("calc", "calculate"),
    ("config", "configuration"), ("cp", "copy file"), ("db", "database"), ("dir", "directory"), ("docs", "documentation"),
    ("env", "environment"), ("grep", "search text"), ("img", "image"), ("info", "information"), ("kubectl", "kubernetes"),
    ("ls", "list directory"), ("mkdir", "create directory"), ("msg", "message"), ("mv", "move file"),
    ("param", "parameter"), ("pic", "picture"), ("pr", "pull request"), ("prs", "pull requests"), ("repo", "repository"),
    ("repos", "repositories"), ("rm", "delete file"), ("vm", "virtual machine"), ("vms", "virtual machines"),
];

/// What a short word stands for.
pub(crate) fn written_out(word: &str) -> Option<&'static str> {
    SHORT.iter().find(|(short, _)| *short == word).map(|(_, long)| *long)
}

/// The word in another form (`renaming`, `renamed`: `rename`) or in the other English (`colour`: `color`), if `holders` says
/// that a tool has it.
pub(crate) fn other_form(word: &str, holders: impl Fn(&str) -> u32) -> Option<String> {
    if !is_plain(word) {
        return None;
    }
    let mut bases = vec![word.to_owned()];
    for (one, other) in ENDINGS {
        bases.extend(word.strip_suffix(one).map(|stem| format!("{stem}{other}")));
        bases.extend(word.strip_suffix(other).map(|stem| format!("{stem}{one}")));
    }
    for ending in ["ing", "ed"] {
        if let Some(stem) = word.strip_suffix(ending).filter(|stem| stem.len() > 2) {
            bases.push(stem.to_owned());
            bases.push(format!("{stem}e"));
            bases.extend(stem.strip_suffix('i').map(|stem| format!("{stem}y")));
            if let [.., a, b] = stem.as_bytes()
                && a == b
            {
                bases.push(stem[..stem.len() - 1].to_owned());
            }
        }
    }
    let verbs = bases.clone();
    for verb in &verbs {
        let stem = verb.strip_suffix('e').unwrap_or(verb);
        bases.extend([format!("{stem}ing"), format!("{stem}ed")]);
    }
    let known = bases.into_iter().map(|base| (holders(&base), base)).filter(|(count, _)| *count > 0);
    known.max_by(|a, b| a.0.cmp(&b.0).then_with(|| b.1.cmp(&a.1))).map(|(_, base)| base)
}

/// The word without one slip of the finger: a letter too many, missing, wrong, or two in the wrong order. The first letter
/// is taken to be right, as it mostly is. Of several, the one that most tools have; of equals, one that `is_word` (tools are asked
/// about singulars, and what is cut from "kubernetes" is none); then the first in the alphabet. In a short word only the order of
/// letters is mended.
pub(crate) fn mended(word: &str, holders: impl Fn(&str) -> u32, is_word: impl Fn(&str) -> bool) -> Option<String> {
    if !is_plain(word) {
        return None;
    }
    let mut best: Option<(u32, bool, String)> = None;
    let mut guess = String::with_capacity(word.len() + 1);
    // There are some hundred guesses, so they share one text.
    let mut consider = |parts: [&str; 3]| {
        guess.clear();
        guess.extend(parts);
        let count = holders(&guess);
        if count == 0 || best.as_ref().is_some_and(|(most, ..)| count < *most) {
            return;
        }
        let known = is_word(&guess);
        let is_better = best
            .as_ref()
            .is_none_or(|(most, was_known, text)| (count, known, Reverse(&guess)) > (*most, *was_known, Reverse(text)));
        if is_better {
            best = Some((count, known, guess.clone()));
        }
    };
    if word.len() < MISTYPED_LETTERS {
        for at in 1..word.len() - 1 {
            let swapped = [&word[at + 1..at + 2], &word[at..at + 1]].concat();
            consider([&word[..at], &swapped, &word[at + 2..]]);
        }
        return best.map(|(.., guess)| guess);
    }
    for at in 1..=word.len() {
        let (before, after) = word.split_at(at);
        for letter in LETTERS.split_inclusive(|_: char| true) {
            consider([before, letter, after]);
        }
        let Some((here, rest)) = after.split_at_checked(1) else { continue };
        consider([before, rest, ""]);
        for letter in LETTERS.split_inclusive(|_: char| true) {
            consider([before, letter, rest]);
        }
        if let Some((next, rest)) = rest.split_at_checked(1) {
            let swapped = [next, here].concat();
            consider([before, &swapped, rest]);
        }
    }
    best.map(|(.., guess)| guess)
}

fn is_plain(word: &str) -> bool {
    (4..=LONGEST).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holders(known: &[&'static str]) -> impl Fn(&str) -> u32 {
        move |word| known.iter().filter(|known| **known == word).count() as u32
    }

    #[test]
    fn forms_of_verbs_and_both_englishes_are_found() {
        #[rustfmt::skip]
        let table = [
            // query       tools have               read as
            ("renaming",   &["rename"][..],         Some("rename")),
            ("listing",    &["list"],               Some("list")),
            ("committed",  &["commit"],             Some("commit")),
            ("copied",     &["copy"],               Some("copy")),
            ("deleted",    &["deleting"],           Some("deleting")),
            ("rename",     &["renaming"],           Some("renaming")),
            ("cancelled",  &["canceled"],           Some("canceled")),
            ("color",      &["colour"],             Some("colour")),
            ("centre",     &["center"],             Some("center")),
            ("organise",   &["organize"],           Some("organize")),
            ("king",       &["k", "ke"],            None),
            ("computer",   &["computing"],          None),
            ("größe",      &["größ"],               None),
            ("deleted",    &["create"],             None),
        ];
        for (word, known, expected) in table {
            assert_eq!(other_form(word, holders(known)).as_deref(), expected, "{word}");
        }
    }

    #[test]
    fn one_slip_is_mended() {
        #[rustfmt::skip]
        let table = [
            // query       tools have                            read as
            ("forcast",    &["forecast"][..],                    Some("forecast")),
            ("forrecast",  &["forecast"],                        Some("forecast")),
            ("forecasr",   &["forecast"],                        Some("forecast")),
            ("froecast",   &["forecast"],                        Some("forecast")),
            ("forecas",    &["forecast"],                        Some("forecast")),
            ("frcst",      &["forecast"],                        None),
            ("gorecast",   &["forecast"],                        None),
            ("mial",       &["mail"],                            Some("mail")),
            ("maul",       &["mail"],                            None),
            ("tables",     &["cables", "fables"],                None),
            ("bateh",      &["batch", "bates", "batch"],         Some("batch")),
            ("bateh",      &["bates", "batch"],                  Some("batch")),
        ];
        for (word, known, expected) in table {
            assert_eq!(mended(word, holders(known), |_| true).as_deref(), expected, "{word}");
        }
        let stub = |word: &str| u32::from(["kubernete", "kubernetes"].contains(&word));
        assert_eq!(mended("kubernets", stub, |word| word == "kubernetes").as_deref(), Some("kubernetes"));
    }
}
