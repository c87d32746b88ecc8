//! What changes between two texts, by lines.

use std::fmt::Write;

/// Lines around a change.
const CONTEXT: usize = 3;
/// More differences than this are shown as one: nobody would read them.
const MAX_DIFFERENCES: usize = 1000;
/// A longer line is cut: some programs write their file as one.
const LINE_CHARS: usize = 160;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line<'a> {
    Same(&'a str),
    Gone(&'a str),
    New(&'a str),
}

/// What changes, in the usual form without its headers, each line as `shown` makes it.
pub fn diff(before: &str, after: &str, shown: &dyn Fn(&str) -> String) -> String {
    let (before, after): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let lines = compare(&before, &after);
    let is_change = |line: &Line<'_>| !matches!(line, Line::Same(_));
    let changes: Vec<usize> = (0..lines.len()).filter(|index| is_change(&lines[*index])).collect();
    let mut out = String::new();
    let mut next_line = 0;
    for (index, line) in lines.iter().enumerate() {
        let next = changes.partition_point(|change| *change < index.saturating_sub(CONTEXT));
        if changes.get(next).is_none_or(|change| *change > index + CONTEXT) {
            continue;
        }
        if index > next_line {
            out.push_str("  …\n");
        }
        next_line = index + 1;
        let (mark, text) = match line {
            Line::Same(text) => (' ', *text),
            Line::Gone(text) => ('-', *text),
            Line::New(text) => ('+', *text),
        };
        let other = match line {
            Line::Gone(_) => lines.get(index + 1),
            Line::New(_) => index.checked_sub(1).map(|index| &lines[index]),
            Line::Same(_) => None,
        };
        let other = match other {
            Some(Line::Same(text) | Line::Gone(text) | Line::New(text)) => text,
            None => "",
        };
        let _ = writeln!(out, "{mark} {}", cut(&shown(text), &shown(other)));
    }
    out
}

/// A line that is short enough, from where it differs from another.
fn cut(text: &str, other: &str) -> String {
    if text.chars().count() <= LINE_CHARS {
        return text.to_owned();
    }
    let same = text.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    let start = same.saturating_sub(40);
    let part: String = text.chars().skip(start).take(LINE_CHARS).collect();
    let mark = |is_cut| if is_cut { "…" } else { "" };
    format!("{}{part}{}", mark(start > 0), mark(text.chars().count() > start + LINE_CHARS))
}

/// The shortest way from one to the other (Myers, 1986).
fn compare<'a>(before: &[&'a str], after: &[&'a str]) -> Vec<Line<'a>> {
    let head = before.iter().zip(after).take_while(|(one, other)| one == other).count();
    let (old, new) = (&before[head..], &after[head..]);
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(one, other)| one == other).count();
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
    let same = |lines: &[&'a str]| lines.iter().copied().map(Line::Same).collect::<Vec<_>>();
    let mut lines = same(&before[..head]);
    lines
        .extend(middle(old, new).unwrap_or_else(|| {
            old.iter().copied().map(Line::Gone).chain(new.iter().copied().map(Line::New)).collect()
        }));
    lines.extend(same(&before[before.len() - tail..]));
    lines
}

fn middle<'a>(old: &[&'a str], new: &[&'a str]) -> Option<Vec<Line<'a>>> {
    let most = (old.len() + new.len()).min(MAX_DIFFERENCES);
    // `furthest[most + k]` is how far into the old text one gets on diagonal k.
    let mut furthest = vec![0_usize; 2 * most + 2];
    let mut trace = Vec::new();
    let down = |furthest: &[usize], d: usize, k: isize| {
        let at = |k: isize| furthest[(most as isize + k) as usize];
        k == -(d as isize) || (k != d as isize && at(k - 1) < at(k + 1))
    };
    for d in 0..=most {
        trace.push(furthest.clone());
        for k in (-(d as isize)..=d as isize).step_by(2) {
            let at = |k: isize| (most as isize + k) as usize;
            let mut x = if down(&furthest, d, k) { furthest[at(k + 1)] } else { furthest[at(k - 1)] + 1 };
            let mut y = (x as isize - k) as usize;
            while x < old.len() && y < new.len() && old[x] == new[y] {
                (x, y) = (x + 1, y + 1);
            }
            furthest[at(k)] = x;
            if x >= old.len() && y >= new.len() {
                return Some(walk_back(old, new, &trace, &down, most));
            }
        }
    }
    None
}

fn walk_back<'a>(
    old: &[&'a str],
    new: &[&'a str],
    trace: &[Vec<usize>],
    down: &dyn Fn(&[usize], usize, isize) -> bool,
    most: usize,
) -> Vec<Line<'a>> {
    let (mut x, mut y) = (old.len(), new.len());
    let mut lines = Vec::new();
    for (d, furthest) in trace.iter().enumerate().rev() {
        let k = x as isize - y as isize;
        let before = if down(furthest, d, k) { k + 1 } else { k - 1 };
        let (from_x, from_y) = match d {
            0 => (0, 0),
            _ => {
                let from_x = furthest[(most as isize + before) as usize];
                (from_x, (from_x as isize - before) as usize)
            }
        };
        while x > from_x && y > from_y {
            (x, y) = (x - 1, y - 1);
            lines.push(Line::Same(old[x]));
        }
        if d > 0 {
            lines.push(if x == from_x { Line::New(new[from_y]) } else { Line::Gone(old[from_x]) });
            (x, y) = (from_x, from_y);
        }
    }
    lines.reverse();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_is_shown_and_a_little_around_it() {
        let numbers = |skip: &[usize]| {
            (1..=20).filter(|n| !skip.contains(n)).map(|n| n.to_string()).collect::<Vec<_>>().join("\n")
        };
        #[rustfmt::skip]
        let table = [
            ("a".to_owned(), "a".to_owned(), "".to_owned()),
            ("".to_owned(), "a\nb\n".to_owned(), "+ a\n+ b\n".to_owned()),
            ("a\nb".to_owned(), "".to_owned(), "- a\n- b\n".to_owned()),
            ("a\nb\nc".to_owned(), "a\nx\nc".to_owned(), "  a\n- b\n+ x\n  c\n".to_owned()),
            (numbers(&[]), numbers(&[2, 15]), "  1\n- 2\n  3\n  4\n  5\n  …\n  12\n  13\n  14\n- 15\n  16\n  17\n  18\n".to_owned()),
        ];
        for (before, after, expected) in table {
            assert_eq!(diff(&before, &after, &str::to_owned), expected, "{before} {after}");
        }
    }

    #[test]
    fn every_way_leads_from_one_text_to_the_other() {
        // All texts of up to four lines out of two.
        let texts: Vec<Vec<&str>> = (0..31_u32)
            .map(|n| {
                let length = 31 - (n + 1).leading_zeros();
                (0..length).map(|bit| if (n + 1) >> bit & 1 == 1 { "a" } else { "b" }).collect()
            })
            .collect();
        for before in &texts {
            for after in &texts {
                let lines = compare(before, after);
                let old: Vec<_> = lines
                    .iter()
                    .filter_map(|line| if let Line::Same(t) | Line::Gone(t) = line { Some(*t) } else { None })
                    .collect();
                let new: Vec<_> = lines
                    .iter()
                    .filter_map(|line| if let Line::Same(t) | Line::New(t) = line { Some(*t) } else { None })
                    .collect();
                assert_eq!((&old, &new), (before, after));
            }
        }
    }

    #[test]
    fn a_long_line_is_cut_to_where_it_differs() {
        let (before, after) = (format!("{}end", "x".repeat(1000)), format!("{}new end", "x".repeat(1000)));
        let text = diff(&before, &after, &str::to_owned);
        assert!(text.contains("new end") && text.len() < 300, "{text}");
    }
}
