//! Programs that are worth a name: an intent that succeeded again and again, in the same way, and that no capability is for.

use std::collections::BTreeSet;

use pml_search::{Embedder as _, Table};
use pml_wire::{ExecutionId, trace::Entry};

use super::{ranking::View, reusable::Reusables};
use crate::{
    catalog::CAPABILITIES,
    trace::store::{Filter, Reading, Store, StoreError, Summary},
};

/// Successes after which a program is proposed.
pub const ENOUGH: usize = 3;
/// From which cosine on two intents are the same in other words.
const SIMILAR: f32 = 0.7;
/// From which share of common words on two programs are alike.
const ALIKE: f64 = 0.5;
/// Executions that are looked at, the latest, and how many are read at a time.
const EXECUTIONS: usize = 2000;
const PAGE: usize = 200;
/// Proposals that are made.
const MOST: usize = 20;
/// Programs of one group that are compared.
const COMPARED: usize = 10;
/// Longest part of a name.
const MAX_NAME: usize = 40;

/// A program that is worth a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// The latest of the intents.
    pub intent: String,
    /// What it calls.
    pub tools: Vec<String>,
    /// How often it succeeded, among the executions that were looked at.
    pub times: usize,
    /// The latest execution, which can be saved.
    pub execution: ExecutionId,
    /// A name that it could have.
    pub name: String,
}

/// Executions that did the same for the same, the latest first.
struct Group {
    tools: BTreeSet<String>,
    direction: Vec<f32>,
    executions: Vec<(ExecutionId, String)>,
}

/// What is worth a name, the most frequent first. `reusables` are the capabilities that there are.
pub async fn proposals(
    store: &dyn Store,
    view: Option<&View>,
    reusables: Option<&Reusables>,
) -> Result<Vec<Proposal>, StoreError> {
    let mut groups: Vec<Group> = Vec::new();
    let (mut reading, mut seen) = (Reading::Newest, 0);
    while seen < EXECUTIONS {
        let page = store.list(Filter::default(), reading, PAGE).await?;
        seen += page.traces.len();
        page.traces.into_iter().for_each(|summary| sort_in(&mut groups, summary));
        match page.next {
            Some(next) => reading = Reading::Before(next),
            None => break,
        }
    }
    let is_new = |group: &Group| {
        let intent = group.executions.first().map_or("", |(_, intent)| intent);
        reusables
            .is_none_or(|known| !known.have(&group.tools) && view.is_none_or(|view| !view.has_match(intent, known)))
    };
    groups.retain(|group| group.executions.len() >= ENOUGH && is_new(group));
    groups.sort_by_key(|group| std::cmp::Reverse(group.executions.len()));
    let mut proposed = Vec::new();
    for group in groups.into_iter().take(MOST) {
        let times = group.executions.len().min(alike(store, &group).await?);
        if let Some((execution, intent)) = group.executions.into_iter().next().filter(|_| times >= ENOUGH) {
            let tools: Vec<String> = group.tools.into_iter().collect();
            proposed.push(Proposal { name: name_for(&intent, &tools), intent, tools, times, execution });
        }
    }
    Ok(proposed)
}

/// Puts an execution into its group, if it is one that could be saved.
fn sort_in(groups: &mut Vec<Group>, summary: Summary) {
    let is_program = matches!(summary.entry, Entry::ExecuteCode | Entry::Run) && summary.parent.is_none();
    let Some(intent) = summary.intent.filter(|_| summary.success && is_program) else { return };
    let tools: BTreeSet<String> = summary.tools.into_iter().map(|(tool, _)| tool).collect();
    let is_own = |tool: &String| tool.starts_with(&format!("{CAPABILITIES}:")) || tool.starts_with("pml:");
    if tools.is_empty() || tools.iter().any(is_own) {
        return;
    }
    let direction = Table.query(&intent);
    let is_same = |group: &&mut Group| group.tools == tools && cosine(&group.direction, &direction) >= SIMILAR;
    match groups.iter_mut().find(is_same) {
        Some(group) => group.executions.push((summary.id, intent)),
        None => groups.push(Group { tools, direction, executions: vec![(summary.id, intent)] }),
    }
}

/// How many of a group's programs are like the latest one, or as many as there are if more would have to be compared.
async fn alike(store: &dyn Store, group: &Group) -> Result<usize, StoreError> {
    let mut programs: Vec<BTreeSet<String>> = Vec::new();
    for (id, _) in group.executions.iter().take(COMPARED) {
        match store.by_id(*id).await {
            Ok(Some(trace)) if !trace.trace().metadata.code_redacted => {
                programs.extend(trace.trace().code.as_deref().map(words));
            }
            Ok(_) | Err(StoreError::Damaged { .. }) => {}
            Err(err) => return Err(err),
        }
    }
    let Some(latest) = programs.first() else { return Ok(0) };
    let like = programs.iter().filter(|program| common(latest, program) >= ALIKE).count();
    Ok(if like == COMPARED { usize::MAX } else { like })
}

fn words(code: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.split(|c: char| !is_part(c)).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// The share of words that two programs have in common.
fn common(a: &BTreeSet<String>, b: &BTreeSet<String>) -> f64 {
    let both = a.intersection(b).count();
    both as f64 / (a.len() + b.len() - both).max(1) as f64
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt().max(f32::MIN_POSITIVE)
}

/// A name for a program: after the server of its first tool, and the first words of its intent.
pub fn name_for(intent: &str, tools: &[String]) -> String {
    let plain = |text: &str| -> String {
        let kept = text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' });
        kept.collect::<String>().trim_matches('_').chars().take(MAX_NAME).collect()
    };
    let part = |text: String, otherwise: &str| match text.starts_with(|c: char| c.is_ascii_lowercase()) {
        true => text,
        false => otherwise.to_owned(),
    };
    let server = tools.first().and_then(|tool| tool.split_once(':')).map_or("", |(server, _)| server);
    let words = intent.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| word.len() > 3).take(3);
    let action = words.map(str::to_lowercase).collect::<Vec<_>>().join("_");
    format!("{}.{}", part(plain(server), "my"), part(plain(&action), "task"))
}

/// The line for whoever has just done the same once more.
pub fn proposal_line(times: usize, name: &str) -> String {
    format!("this worked {times} times: keep it with \"save_as\": \"{name}\", and call it by name from then on")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        #[rustfmt::skip]
        let table = [
            // intent                                 tools           name
            ("open an issue for the failed build",    "github:x",     "github.open_issue_failed"),
            ("",                                      "",             "my.task"),
            ("日本語の依頼",                            "My Server:x",  "my_server.task"),
            ("2024 report",                           "7zip:x",       "my.task"),
        ];
        for (intent, tool, expected) in table {
            assert_eq!(name_for(intent, &[tool.to_owned()]), expected, "{intent}");
        }
        assert!(name_for(&"x".repeat(500), &["a".repeat(500) + ":b"]).len() <= 2 * MAX_NAME + 1);
    }

    #[test]
    fn programs_with_other_values_are_alike_and_other_programs_are_not() {
        let first = words(
            "const issue = await mcp.github.create({ title: 'a' }); return await mcp.chat.post({ text: issue.url })",
        );
        let same = words(
            "const issue = await mcp.github.create({ title: 'b' }); return await mcp.chat.post({ text: issue.url })",
        );
        let other = words("for (const page of pages) { if (page > 3) break; log(await fetchAll(page)) }");
        assert!(common(&first, &same) >= ALIKE && common(&first, &other) < ALIKE);
        assert_eq!(common(&words(""), &words("")), 0.0);
    }
}
