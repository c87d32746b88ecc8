//! Searches with what was learned.

use std::sync::Arc;

use pml_learn::{Purpose, Ranked};
use pml_wire::ToolId;

use super::search::Question;
use crate::{
    catalog::{Found, Searchable, Snapshot, Tool, tool_now},
    learning::{Related, View, reason},
};

/// How much must speak for a tool that the search alone would not show.
const EVIDENT: f32 = 0.3;
/// Tools that are told as related: of how many that were found, how many.
const RELATED_TO: usize = 3;
const RELATED: usize = 5;

/// Tools that were found, and tools that are used with them, each with the one of those that it is used with.
pub(super) type Ranking = (Vec<Found>, Vec<(Related, ToolId)>);

/// The tools that fit a question, best first, and tools that are used with them. `None` if the search has nothing to say: then
/// what was learned has no request to go by.
pub(super) fn search(
    view: &View,
    index: &Searchable,
    catalog: &Snapshot,
    question: &Question,
    is_wanted: &impl Fn(&Tool) -> bool,
) -> Option<Ranking> {
    let (tools, scores) = index.scores(&question.query);
    if scores.iter().all(|score| *score <= 0.0) {
        return None;
    }
    let prefix = question.server.as_ref().map(|server| format!("{server}:"));
    let may_name = |id: &str| tool_now(catalog, id).is_some_and(|tool| is_wanted(tool));
    let is_found = |place: usize, evidence: f32| {
        let (id, score) = (tools.name(place), scores[place]);
        let fits = score >= question.threshold && score > 0.0;
        (fits || (!question.is_strict && evidence >= EVIDENT))
            && prefix.as_ref().is_none_or(|prefix| id.starts_with(prefix))
            && may_name(id)
    };
    let asked = (Purpose::Search, question.query.as_str(), question.after.as_slice());
    let ranked = view.rank(asked, (tools, &scores), question.limit, is_found);
    let found = |Ranked { place, reasons, .. }: Ranked| {
        let tool = Arc::clone(tool_now(catalog, tools.name(place))?);
        let reasons = reasons.iter().filter_map(|known| reason(known, may_name)).collect();
        Some(Found { tool, score: scores[place], reasons })
    };
    let found: Vec<Found> = ranked.into_iter().filter_map(found).collect();
    let related = related(view, &found, may_name);
    Some((found, related))
}

/// Tools that are used with the first that were found.
fn related(view: &View, found: &[Found], may_name: impl Fn(&str) -> bool) -> Vec<(Related, ToolId)> {
    let mut related: Vec<(Related, ToolId)> = Vec::new();
    for Found { tool, .. } in found.iter().take(RELATED_TO) {
        for other in view.related(tool.id.as_str(), RELATED) {
            let is_told = found.iter().any(|found| found.tool.id.as_str() == other.tool)
                || related.iter().any(|(known, _)| known.tool == other.tool);
            if !is_told && may_name(&other.tool) && related.len() < RELATED {
                related.push((other, tool.id.clone()));
            }
        }
    }
    related
}
