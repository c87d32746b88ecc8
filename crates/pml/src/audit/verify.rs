//! Looks for lines that were removed, edited or moved.

use std::{collections::HashMap, path::Path};

use serde::{Deserialize, Serialize};

use super::{
    chain::{Head, Link},
    files::Reader,
};
use crate::{digest::sha256, files};

/// Most problems that are told one by one.
const MAX_PROBLEMS: usize = 100;

/// What a log looks like.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub files: usize,
    /// Lines that belong to the chain.
    pub lines: u64,
    /// Lines of an earlier pml, before the chain began. Nothing can be said about them.
    pub unchained: u64,
    /// Lines that say of themselves that they were cut off by a crash or a full disk.
    pub torn: u64,
    /// Lines that could not be written, as later ones say.
    pub lost: u64,
    /// The number of the oldest line, if there is one.
    pub first_seq: Option<u64>,
    /// The end of the chain, to be kept elsewhere.
    pub head: Option<String>,
    pub problems: Vec<Problem>,
    /// Problems beyond those.
    pub more_problems: u64,
}

/// Something that pml does not do to its log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "problem", rename_all = "snake_case")]
pub enum Problem {
    /// The line is not the one that was written, or does not follow the one before it.
    Edited { file: String, line: usize, seq: u64 },
    /// Lines between two others are gone.
    Missing { file: String, line: usize, from: u64, to: u64 },
    /// The line stands behind one with the same or a higher number.
    Moved { file: String, line: usize, seq: u64 },
    /// The line has no number and no hash.
    Foreign { file: String, line: usize },
    /// The oldest lines are gone, and no line says that they were too old or too many.
    Beginning { before: u64 },
    /// The newest lines are gone: the log ends before the line that was written last.
    End { last: u64, expected: u64 },
    /// `audit.head` is gone or unreadable, so nobody knows whether the newest lines are gone.
    EndUnknown,
    /// The line with this number is another than the one that is known.
    Replaced { seq: u64 },
}

impl Report {
    pub fn is_whole(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Reads the log of a folder and checks its chain. `expected` is the end of the chain as it was once, kept elsewhere.
pub fn verify(folder: &Path, expected: Option<&Head>) -> Result<Report, files::Problem> {
    let reader = Reader::open(folder)?;
    let known: Vec<Head> = reader.head.iter().chain(expected).cloned().collect();
    let knows_end = reader.head.is_some();
    let mut check = Check { known: known.clone(), ..Check::default() };
    check.report.files = reader.file_count();
    reader.lines(|path, number, line| check.line(path, number, line)).map_err(files::Problem::from)?;
    if !knows_end && check.report.lines > 0 {
        check.problem(Problem::EndUnknown);
    }
    Ok(check.end(&known))
}

#[derive(Default)]
struct Check {
    report: Report,
    /// The line before.
    last: Option<Head>,
    /// The oldest line, whose predecessor is not there: its text.
    oldest: Option<(u64, Vec<u8>, (String, usize))>,
    /// The lines that say that they are preceded by others which pml removed, by number.
    pruned: HashMap<u64, String>,
    /// A line without a number, which the next one must explain.
    fragment: Option<Fragment>,
    known: Vec<Head>,
}

/// A line without a number.
struct Fragment {
    file: String,
    line: usize,
    sha256: String,
    /// Does it end with a line break?
    is_ended: bool,
}

/// What a line says about the log.
#[derive(Deserialize)]
#[serde(tag = "event")]
enum About {
    #[serde(rename = "log.lost")]
    Lost { lost: u64 },
    #[serde(rename = "log.repaired")]
    Repaired { torn_sha256: String },
    #[serde(rename = "log.pruned")]
    Pruned { last_seq: u64, last_hash: String },
}

impl Check {
    fn line(&mut self, path: &Path, number: usize, line: &[u8]) {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (line, is_ended) = line.strip_suffix(b"\n").map_or((line, false), |line| (line, true));
        let Some(link) = Link::read(line) else {
            self.settle(None);
            self.fragment = Some(Fragment { file, line: number, sha256: sha256(line), is_ended });
            return;
        };
        let is_about = memchr::memmem::find(line, b"\"event\":\"log.").is_some();
        let about = if is_about { serde_json::from_slice(line).ok() } else { None };
        match &about {
            Some(About::Repaired { torn_sha256 }) => self.settle(Some(torn_sha256)),
            _ => self.settle(None),
        }
        match about {
            Some(About::Lost { lost }) => self.report.lost += lost,
            Some(About::Pruned { last_seq, last_hash }) => drop(self.pruned.insert(last_seq, last_hash)),
            _ => {}
        }
        self.report.lines += 1;
        let seq = link.seq;
        match &self.last {
            None => {
                self.report.first_seq = Some(seq);
                match seq {
                    1 if !link.follows("") => self.problem(Problem::Edited { file, line: number, seq }),
                    1 => {}
                    _ => self.oldest = Some((seq, line.to_owned(), (file, number))),
                }
            }
            Some(last) if seq <= last.seq => self.problem(Problem::Moved { file, line: number, seq }),
            Some(last) if seq > last.seq + 1 => {
                let from = last.seq + 1;
                self.problem(Problem::Missing { file, line: number, from, to: seq - 1 });
            }
            Some(last) if !link.follows(&last.hash) => self.problem(Problem::Edited { file, line: number, seq }),
            Some(_) => {}
        }
        if self.known.iter().any(|known| known.seq == seq && known.hash != link.hash) {
            self.problem(Problem::Replaced { seq });
        }
        // A line in the wrong place is no reason to call all that follow it wrong.
        if self.last.as_ref().is_none_or(|last| seq > last.seq) {
            self.last = Some(link.head());
        }
    }

    /// Decides about a line without a number: it was torn, if the one behind it says so.
    fn settle(&mut self, torn_sha256: Option<&str>) {
        let Some(Fragment { file, line, sha256, is_ended }) = self.fragment.take() else { return };
        match (torn_sha256, &self.last) {
            (Some(torn), _) if torn == sha256 => self.report.torn += 1,
            (_, None) => self.report.unchained += 1,
            // Whoever writes next will mark it.
            (_, Some(_)) if !is_ended => self.report.torn += 1,
            _ => self.problem(Problem::Foreign { file, line }),
        }
    }

    fn problem(&mut self, problem: Problem) {
        match self.report.problems.len() < MAX_PROBLEMS {
            true => self.report.problems.push(problem),
            false => self.report.more_problems += 1,
        }
    }

    fn end(mut self, known: &[Head]) -> Report {
        self.settle(None);
        if let Some((seq, text, (file, line))) = self.oldest.take() {
            match (self.pruned.get(&(seq - 1)), Link::read(&text)) {
                (Some(hash), Some(link)) if link.follows(hash) => {}
                (Some(_), _) => self.problem(Problem::Edited { file, line, seq }),
                (None, _) => self.problem(Problem::Beginning { before: seq }),
            }
        }
        let last = self.last.as_ref().map_or(0, |last| last.seq);
        if let Some(expected) = known.iter().map(|known| known.seq).max().filter(|expected| *expected > last) {
            self.problem(Problem::End { last, expected });
        }
        self.report.head = self.last.map(|head| head.to_string());
        self.report
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::audit::{FILE, Retention, files::HEAD, log::Log};

    /// A log of ten lines, and what is done to its text.
    fn problems(change: impl FnOnce(&mut Vec<String>)) -> Vec<Problem> {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::open(folder.path(), Retention::default()).unwrap();
        for number in 1..=10 {
            log.try_append(&[format!("{{\"ts\":1,\"n\":{number}}}")]).unwrap().unwrap();
        }
        let path = folder.path().join(FILE);
        let mut lines: Vec<_> = fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
        change(&mut lines);
        fs::write(&path, lines.join("\n") + "\n").unwrap();
        verify(folder.path(), None).unwrap().problems
    }

    #[test]
    fn what_was_done_to_a_log_shows() {
        let file = || FILE.to_owned();
        assert_eq!(problems(|_| {}), []);
        let edited = |lines: &mut Vec<String>| lines[3] = lines[3].replace("\"n\":4", "\"n\":5");
        assert_eq!(problems(edited), [Problem::Edited { file: file(), line: 4, seq: 4 }]);
        let removed = |lines: &mut Vec<String>| drop(lines.drain(3..5));
        assert_eq!(problems(removed), [Problem::Missing { file: file(), line: 4, from: 4, to: 5 }]);
        let swapped = |lines: &mut Vec<String>| lines.swap(3, 4);
        let expected = [
            Problem::Missing { file: file(), line: 4, from: 4, to: 4 },
            Problem::Moved { file: file(), line: 5, seq: 4 },
        ];
        assert_eq!(problems(swapped), expected);
        let doubled = |lines: &mut Vec<String>| lines.insert(4, lines[3].clone());
        assert_eq!(problems(doubled), [Problem::Moved { file: file(), line: 5, seq: 4 }]);
        let added = |lines: &mut Vec<String>| lines.insert(4, "{\"ts\":1}".to_owned());
        assert_eq!(problems(added), [Problem::Foreign { file: file(), line: 5 }]);
        let added = |lines: &mut Vec<String>| lines.push("{\"ts\":1}".to_owned());
        assert_eq!(problems(added), [Problem::Foreign { file: file(), line: 11 }]);
        let beheaded = |lines: &mut Vec<String>| drop(lines.drain(..2));
        assert_eq!(problems(beheaded), [Problem::Beginning { before: 3 }]);
        let shortened = |lines: &mut Vec<String>| lines.truncate(8);
        assert_eq!(problems(shortened), [Problem::End { last: 8, expected: 10 }]);
        // Whoever writes all lines behind a change anew is not noticed, but for the end that is kept elsewhere.
        let forged = |lines: &mut Vec<String>| {
            let mut head = Head::default();
            let forge = |n: u32| head.extend(&format!("{{\"ts\":2,\"n\":{n}}}"));
            *lines = (1..=10).map(forge).collect();
        };
        assert_eq!(problems(forged), [Problem::Replaced { seq: 10 }]);
    }

    #[test]
    fn the_end_that_is_kept_elsewhere_is_compared() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::open(folder.path(), Retention::default()).unwrap();
        let mut heads = Vec::new();
        for _ in 0..4 {
            log.try_append(&["{\"ts\":1}".to_owned()]).unwrap().unwrap();
            heads.push(verify(folder.path(), None).unwrap().head.unwrap());
        }
        for head in &heads {
            assert_eq!(verify(folder.path(), Some(&head.parse().unwrap())).unwrap().problems, []);
        }
        // Whoever cuts the end off, and changes what pml remembers of it, is found out by it.
        let path = folder.path().join(FILE);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.lines().take(2).map(|line| format!("{line}\n")).collect::<String>()).unwrap();
        for unknown in ["", "2", "2:abc", "\0\0\0"] {
            fs::write(folder.path().join(HEAD), unknown).unwrap();
            assert_eq!(verify(folder.path(), None).unwrap().problems, [Problem::EndUnknown], "{unknown:?}");
        }
        fs::remove_file(folder.path().join(HEAD)).unwrap();
        assert_eq!(verify(folder.path(), None).unwrap().problems, [Problem::EndUnknown]);
        fs::write(folder.path().join(HEAD), &heads[1]).unwrap();
        assert_eq!(verify(folder.path(), None).unwrap().problems, []);
        let expected = heads[3].parse().unwrap();
        assert_eq!(verify(folder.path(), Some(&expected)).unwrap().problems, [Problem::End { last: 2, expected: 4 }]);
    }

    #[test]
    fn what_pml_itself_does_to_its_log_is_no_problem() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        fs::write(&path, "{\"ts\":1,\"old\":true}\n{\"ts\":1,\"to").unwrap();
        let retention = Retention { max_bytes: 8 * 1024, ..Retention::default() };
        let mut log = Log::open(folder.path(), retention).unwrap();
        for number in 0..20 {
            log.try_append(&[format!("{{\"ts\":1,\"n\":{number}}}")]).unwrap().unwrap();
        }
        let report = verify(folder.path(), None).unwrap();
        assert_eq!((report.unchained, report.torn, &report.problems[..]), (1, 1, &[][..]), "{report:?}");
        for number in 0..500 {
            log.try_append(&[format!("{{\"ts\":1,\"n\":{number}}}")]).unwrap().unwrap();
        }
        let report = verify(folder.path(), None).unwrap();
        assert_eq!(report.problems, []);
        assert!(report.first_seq.unwrap() > 100 && report.files > 4, "{report:?}");
        // A file that pml did not remove.
        let oldest = crate::audit::files::all_aside(folder.path()).unwrap().remove(0);
        fs::remove_file(oldest.path).unwrap();
        assert!(matches!(verify(folder.path(), None).unwrap().problems[..], [Problem::Beginning { .. }]));
    }

    #[test]
    fn no_log_is_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(verify(&folder.path().join("none"), None).unwrap(), Report::default());
    }
}
