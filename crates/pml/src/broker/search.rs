//! Tools by what they are for, as far as they may be called.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures_util::future::join_all;
use pml_learn::{Purpose, SpeculationStatus};
use pml_wire::{
    CallId, ErrorCode, ToolId,
    message::{self, CallError},
    trace::TaskKind,
};
use serde_json::{Value, json, value::to_raw_value};
use tokio::time::{Instant, sleep_until, timeout};

use super::{
    door::{Broker, Rules},
    handler::Answer,
    learned,
    passthrough::OwnTask,
    record::{Record, SEARCH},
    reusing::{Offer, Reuse},
};
use crate::{
    catalog::{CAPABILITIES, Change, Found, Pins, Searchable, Snapshot, Tool, Wish},
    digest::sha256,
    learning::{Progress, Related, View},
    trace::Context,
    upstream::Upstream,
    work::{self, Waiter},
};

/// Most tools of one search.
const MAX_FOUND: u64 = 50;
/// Tools of a search that does not say how many.
const FOUND: u64 = 10;
/// Least score of what is found, unless the question says otherwise. Of the tools that development queries mean and find, 99.6 of
/// 100 score more; of random letters fewer than one in ten finds one that does.
const THRESHOLD: f64 = 0.12;
/// What is read of a question, in characters. Nobody's wish is longer; whoever pastes a page begins with what is wanted.
const MAX_QUERY: usize = 500;

/// What a program is told of one tool at most, in bytes: fifty of them are a result that fits. The signature has the types of
/// a schema that is left out.
const MAX_DESCRIPTION: usize = 16 * 1024;
const MAX_SCHEMA: usize = 64 * 1024;

/// How long after the start of pml a search, or a list of all names, waits for servers of which nothing is known.
const LEARN: Duration = Duration::from_secs(10);
/// The same if something is known by then.
const LEARN_MORE: Duration = Duration::from_secs(3);
/// Most tools that a name is taken for.
const MAX_MEANT: usize = 3;
/// How long a suggestion may take.
const SUGGEST: Duration = Duration::from_millis(500);
/// What is looked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    pub(super) query: String,
    pub(super) limit: usize,
    pub(super) threshold: f32,
    /// Was the threshold asked for? Then what was learned finds nothing below it.
    pub(super) is_strict: bool,
    pub(super) server: Option<String>,
    /// Tools that were called so far.
    pub(super) after: Vec<String>,
    /// Was it longer?
    is_cut: bool,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Best first.
    pub found: Vec<Found>,
    /// The tools that were searched.
    pub searched: usize,
    /// Servers of which nothing is known yet.
    pub not_ready: Vec<String>,
    /// Tools that are used with those that were found, and may be called.
    pub related: Vec<(Related, ToolId)>,
}

impl Findings {
    /// How much servers say about the tools that were found.
    pub fn bytes(&self) -> usize {
        self.found.iter().map(|found| found.tool.raw().get().len()).sum()
    }

    /// The names and scores of what was found, for its trace.
    fn to_json(&self) -> Value {
        let tool = |found: &Found| json!({ "name": found.tool.id, "score": rounded(found.score) });
        self.found.iter().map(tool).collect()
    }
}

impl Question {
    /// Checks a question. The message says what is wrong with it. Of one that is too long the first sentences are asked.
    pub fn new(mut query: String, limit: Option<f64>, threshold: Option<f64>) -> Result<Question, String> {
        let asked_bytes = query.len();
        query.truncate(first_sentences(&query, MAX_QUERY).len());
        let is_cut = query.len() < asked_bytes;
        let limit = whole("limit", limit, 1, MAX_FOUND)?.unwrap_or(FOUND) as usize;
        let is_given = threshold.is_some();
        let threshold = match threshold.unwrap_or(THRESHOLD) {
            threshold if (0.0..=1.0).contains(&threshold) => threshold as f32,
            threshold => return Err(format!("`threshold` is {}, but must be between 0 and 1", shown(threshold))),
        };
        Ok(Question { query, limit, threshold, is_strict: is_given, server: None, after: Vec::new(), is_cut })
    }

    /// The same among the tools of one server, by its real name.
    #[must_use]
    pub fn among(self, server: Option<String>) -> Question {
        Question { server, ..self }
    }

    /// The same after these tools were called.
    #[must_use]
    pub fn after(self, after: Vec<String>) -> Question {
        Question { after, ..self }
    }

    pub fn query(&self) -> &str {
        &self.query
    }

    /// For its trace.
    fn to_json(&self) -> Value {
        let Question { query, limit, threshold, is_strict: _, server, after, is_cut: _ } = self;
        json!({ "query": query, "limit": limit, "threshold": rounded(*threshold), "server": server, "after": after })
    }

    /// What is told about a question that was too long.
    pub fn note(&self) -> Option<String> {
        let count = self.query.chars().count();
        self.is_cut
            .then(|| format!("only the first {count} characters of the query were read; ask for one thing at a time"))
    }
}

impl Broker {
    /// The tools that fit a question and may be called. Servers that were never reached are waited for, for a while.
    pub async fn search(&self, question: Question) -> Findings {
        self.learn(question.server.as_deref()).await;
        let index = self.finder.searchable().await;
        self.search_in(index, question).await
    }

    /// The same for a client, which is written down.
    pub async fn search_for_client(&self, context: &Arc<Context>, question: Question) -> Findings {
        let mut record = Record::of_search(self.sinks(), context, CallId(1));
        record.args_sha256 = sha256(&question.query);
        let own = OwnTask::begin(self, context, TaskKind::Search, SEARCH).await;
        if let Some(own) = &own {
            own.record.recording().arguments(CallId(1), &question.to_json().to_string());
            own.record.recording().started(CallId(1), SEARCH);
        }
        let findings = self.search(question.after(self.recent.tools(context))).await;
        record.end_with(Ok(findings.bytes()));
        if let Some(own) = own {
            own.finish(Ok(&findings.to_json().to_string())).await;
        }
        findings
    }

    /// The same in an index of the tools that are known.
    pub async fn search_in(&self, index: Searchable, question: Question) -> Findings {
        let (snapshot, rules, pins) = (self.snapshot(), self.rules(), self.pins.clone());
        let (is_slow, is_narrowed) = (index.is_slow(), self.is_narrowed());
        self.learning.begin();
        let view = self.learning.view();
        let reusables = self.reusables(&snapshot);
        let work = move |_: &Waiter| {
            let is_allowed = |tool: &ToolId| rules.policy.allows_as_it_is(tool, &pins);
            let reuse = reusables.as_deref().map(|reusables| Reuse { reusables, is_allowed });
            let is_wanted =
                |tool: &Tool| is_allowed(&tool.id) && reuse.as_ref().is_none_or(|reuse| reuse.is_shown(tool));
            let server = question.server.as_deref();
            let searched = match is_narrowed {
                // What a profile leaves out is not counted either.
                true => {
                    let is_meant = |tool: &&Arc<Tool>| server.is_none_or(|only| only == tool.id.server());
                    snapshot.tools().filter(is_meant).filter(|tool| is_wanted(tool)).count()
                }
                false => index.count(server),
            };
            let view = view.as_deref();
            let ranking = view.filter(|view| view.ranks(Purpose::Search, !question.after.is_empty()));
            let learned = ranking.and_then(|view| learned::search(view, &index, &snapshot, &question, &is_wanted));
            let (mut found, related) = learned.unwrap_or_else(|| {
                let Question { query, limit, threshold, server, .. } = &question;
                let wish = Wish { query, limit: *limit, threshold: *threshold, server: server.as_deref() };
                (index.search(&snapshot, wish, is_wanted), Vec::new())
            });
            if let Some(reuse) = &reuse {
                reuse.arrange(&mut found, view, (&index, &question), is_wanted);
            }
            (found, related, searched)
        };
        let (found, related, searched) = work::weighed(is_slow, work).await;
        Findings { found, searched, not_ready: self.not_ready(), related }
    }

    /// Capabilities that are probably what is asked for and may be used, the most probable first.
    pub fn offers(&self, request: &str) -> Vec<Offer> {
        let (snapshot, rules) = (self.snapshot(), self.rules());
        let (Some(reusables), Some(view)) = (self.reusables(&snapshot), self.learning.view()) else {
            return Vec::new();
        };
        let is_allowed = |tool: &ToolId| rules.policy.allows_as_it_is(tool, &self.pins);
        Reuse { reusables: &reusables, is_allowed }.offers(&view, request, |tool| is_allowed(&tool.id))
    }

    /// How often these tools and no others were used with success for an intent like this, if no capability is for it.
    pub fn repetitions(&self, intent: &str, tools: &BTreeSet<String>) -> usize {
        let is_known = self.reusables(&self.snapshot()).is_some_and(|reusables| reusables.have(tools));
        if tools.iter().any(|tool| tool.starts_with(CAPABILITIES)) || is_known || !self.offers(intent).is_empty() {
            return 0;
        }
        let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
        self.learning.view().map_or(0, |view| view.repetitions(intent, &tools))
    }

    /// What was learned so far.
    pub fn learned(&self) -> Option<Arc<View>> {
        self.learning.view()
    }

    /// How calls that were made ahead have done. `None` if none ever is, or nothing is learned.
    pub fn speculation(&self) -> Option<SpeculationStatus> {
        let view = self.learning.view().filter(|_| self.speculates())?;
        Some(view.learned()?.speculation())
    }

    /// Gets what was learned ready, in the background.
    pub fn prepare_learning(&self) {
        self.learning.begin();
    }

    /// Waits until what is stored is learned, for a while.
    pub async fn settled_learning(&self, at_most: Duration) -> Progress {
        self.learning.settled(at_most).await
    }

    /// Ends learning, when what was learned is on disk.
    pub async fn stop_learning(&self) {
        self.learning.stop().await;
    }

    /// What can be searched, when nothing better is to come.
    pub async fn settled_search(&self, within: Duration) -> Searchable {
        self.finder.settled(within).await
    }

    /// Ends what works in the background.
    pub async fn stop_search(&self) {
        self.finder.stop().await;
    }

    /// Gets the search ready, in the background.
    pub fn prepare_search(&self) {
        self.finder.prepare();
    }

    /// Servers of which nothing is known.
    pub fn unknown(&self) -> Vec<Upstream> {
        let snapshot = self.snapshot();
        let mut servers = self.servers.all();
        servers.retain(|server| {
            let name = &server.settings().name;
            snapshot.listing(name).is_none() && self.shows_server(name)
        });
        servers
    }

    /// The names of servers of which nothing is known.
    pub fn not_ready(&self) -> Vec<String> {
        self.unknown().iter().map(|server| server.settings().name.clone()).collect()
    }

    /// Waits for servers of which nothing is known, for a while after pml has started and not again: one that does not
    /// come holds up nobody for ever. Not long once something is known, and for no other than `only`.
    pub async fn learn(&self, only: Option<&str>) {
        let is_meant = |server: &str| only.is_none_or(|only| only == server);
        let mut unknown = self.unknown();
        unknown.retain(|server| is_meant(&server.settings().name));
        let until = self.started + LEARN;
        if unknown.is_empty() || Instant::now() >= until {
            return;
        }
        let enough = async {
            sleep_until(self.started + LEARN_MORE).await;
            let left = until.duration_since(Instant::now());
            let is_any_known = |snapshot: &Snapshot| snapshot.listings().any(|listing| is_meant(&listing.server));
            self.catalog.wait_for(left, is_any_known).await;
        };
        tokio::select! {
            _ = join_all(unknown.iter().map(Upstream::init)) => {}
            () = enough => {}
        }
    }

    /// Answers a program's `searchTools`, and writes that down.
    pub(super) async fn recorded_search(
        &self,
        (context, id): (Arc<Context>, CallId),
        search: message::Search,
    ) -> Result<Answer, CallError> {
        let mut record = Record::of_search(self.sinks(), &context, id);
        record.args_sha256 = sha256(&search.query);
        let outcome = self.answer_search(&context, search).await;
        record.end(&outcome);
        outcome
    }

    async fn answer_search(&self, context: &Context, search: message::Search) -> Result<Answer, CallError> {
        let invalid = |message: String| CallError::new(ErrorCode::InvalidArguments, message);
        let message::Search { query, limit, threshold } = search;
        let question = Question::new(query, limit, threshold).map_err(invalid)?;
        let findings = self.search(question.after(self.recent.tools(context))).await;
        let (bytes, pins, learned) = (findings.bytes(), self.pins.clone(), self.learned());
        let describe = move |_: &Waiter| to_raw_value(&describe(&findings.found, &pins, learned.as_deref()));
        let described = work::sized(bytes, describe).await;
        described.map(Answer::from).map_err(|err| invalid(err.to_string()))
    }

    /// What whoever sees or uses a tool is told, if it is not what it was when it was first seen.
    pub fn changed_line(&self, tool: &ToolId) -> Option<String> {
        self.pins.is_changed(tool).then(|| Change::line(tool))
    }

    /// Why a tool is not found, with what may have been meant.
    pub(super) async fn explain_missing(&self, snapshot: &Arc<Snapshot>, id: &ToolId) -> String {
        let (snapshot, rules, pins, id) = (Arc::clone(snapshot), self.rules(), self.pins.clone(), id.clone());
        let index = self.suggesting().await;
        work::elsewhere(move |_| explain_missing(&snapshot, &id, (&rules, &pins), index.as_ref())).await
    }

    /// What suggestions are taken from, if it is there soon.
    pub(super) async fn suggesting(&self) -> Option<Searchable> {
        timeout(SUGGEST, self.finder.searchable()).await.ok()
    }
}

/// The text, if it has at most so many characters; or else its sentences that fit, or words if none does.
fn first_sentences(text: &str, limit: usize) -> &str {
    let Some((end, _)) = text.char_indices().nth(limit) else { return text };
    let start = &text[..end];
    let is_end = |c: char| matches!(c, '.' | '!' | '?' | '\n' | '。' | '！' | '？');
    let after_sentence = start.rfind(is_end).map(|at| at + start[at..].chars().next().map_or(1, char::len_utf8));
    let after_word = || start.rfind(char::is_whitespace);
    // A sentence that ends soon would leave out most of what could be read.
    let cut = after_sentence.filter(|at| *at >= end / 4).or_else(after_word).filter(|at| *at > 0).unwrap_or(end);
    &start[..cut]
}

/// What a program is told of the tools that were found.
fn describe(found: &[Found], pins: &Pins, learned: Option<&View>) -> Vec<Value> {
    let describe = |Found { tool, score, reasons }: &Found| {
        let schema = tool.written_input();
        let is_shown = schema.to_string().len() <= MAX_SCHEMA;
        let description = tool.description.as_deref();
        let mut entry = json!({
            "name": tool.id,
            "description": description.map(|text| &text[..text.floor_char_boundary(MAX_DESCRIPTION)]),
            "inputSchema": is_shown.then_some(schema),
            "signature": View::signature(learned, tool),
            "score": rounded(*score),
        });
        if !reasons.is_empty() {
            entry["why"] = reasons.join("; ").into();
        }
        if pins.is_changed(&tool.id) {
            entry["changed"] = Change::line(&tool.id).into();
        }
        entry
    };
    found.iter().map(describe).collect()
}

/// Why a tool is not found, with what may have been meant of what may be called. Takes milliseconds.
pub(super) fn explain_missing(
    snapshot: &Snapshot,
    id: &ToolId,
    (rules, pins): (&Rules, &Pins),
    index: Option<&Searchable>,
) -> String {
    let is_shown = |tool: &Tool| rules.policy.allows_as_it_is(&tool.id, pins);
    snapshot.explain_missing(id, is_shown, |server| {
        index.map(|index| index.suggest(snapshot, id.tool(), server, is_shown)).unwrap_or_default()
    })
}

/// Tools that a name without a colon may have been meant for: `server.tool`, `mcp__server__tool`, or the tool alone.
pub(super) fn meant(snapshot: &Snapshot, target: &str, is_shown: impl Fn(&Tool) -> bool) -> Vec<ToolId> {
    let fold = |text: &str| {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect::<Vec<_>>().join("_")
    };
    let wanted = fold(target);
    let has_ending = |full: &str| wanted.strip_suffix(full).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'));
    let shown = || snapshot.tools().filter(|tool| is_shown(tool));
    // Whose server is named too goes first; the longer a name, the more of what was written it explains.
    let named = shown().filter(|tool| has_ending(&fold(tool.id.as_str()))).max_by_key(|tool| tool.id.as_str().len());
    match named {
        Some(tool) => vec![tool.id.clone()],
        None => shown().filter(|tool| fold(tool.id.tool()) == wanted).take(MAX_MEANT).map(|it| it.id.clone()).collect(),
    }
}

/// Names what may have been meant, behind a message.
pub fn did_you_mean(meant: &[ToolId]) -> String {
    match meant {
        [] => String::new(),
        meant => format!("; did you mean {}?", meant.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ")),
    }
}

/// A whole number within bounds. Models write `10.0` as well as `10`.
pub fn whole(name: &str, number: Option<f64>, least: u64, most: u64) -> Result<Option<u64>, String> {
    let Some(number) = number else { return Ok(None) };
    match number.fract() == 0.0 && number >= least as f64 && number <= most as f64 {
        true => Ok(Some(number as u64)),
        false => {
            let number = shown(number);
            Err(format!("`{name}` is {number}, but must be a whole number between {least} and {most}"))
        }
    }
}

/// A number that is wrong, without its hundred digits.
fn shown(number: f64) -> String {
    if number.abs() < 1e9 { number.to_string() } else { format!("{number:e}") }
}

/// A score as it is shown: with what is certain about it.
pub fn rounded(score: f32) -> f64 {
    (f64::from(score) * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_question_whole_sentences_are_asked() {
        let filling = "x".repeat(MAX_QUERY);
        #[rustfmt::skip]
        let table = [
            (format!("{}. {filling}", "find it ".repeat(40)),     format!("{}.", "find it ".repeat(40))),
            (format!("Ok. {} {filling}", "find it ".repeat(40)),  format!("Ok. {}", "find it ".repeat(40))),
            (filling.repeat(2),                                   filling.clone()),
            ("é".repeat(MAX_QUERY + 1),                           "é".repeat(MAX_QUERY)),
            (format!("{}。{filling}", "搜索".repeat(100)),          format!("{}。", "搜索".repeat(100))),
        ];
        for (text, expected) in table {
            let question = Question::new(text, None, None).unwrap();
            assert_eq!(question.query(), expected);
            assert!(question.note().is_some_and(|note| note.contains("characters of the query were read")));
        }
    }

    #[test]
    fn questions_are_checked() {
        let ask = |query: &str, limit, threshold| Question::new(query.to_owned(), limit, threshold);
        assert_eq!(ask("x", None, None).map(|question| question.limit), Ok(10));
        assert_eq!(ask("x", Some(5.0), Some(0.5)).map(|question| (question.limit, question.threshold)), Ok((5, 0.5)));
        let whole = ask(&"é".repeat(MAX_QUERY), None, None).unwrap();
        assert_eq!((whole.query().chars().count(), whole.note()), (MAX_QUERY, None));
        for (query, limit, threshold, part) in [
            ("x".to_owned(), Some(0.0), None, "`limit` is 0, but must be a whole number between 1 and 50"),
            ("x".to_owned(), Some(51.0), None, "between 1 and 50"),
            ("x".to_owned(), Some(1e300), None, "`limit` is 1e300"),
            ("x".to_owned(), Some(1.5), None, "a whole number"),
            ("x".to_owned(), Some(f64::NAN), None, "`limit` is NaN"),
            ("x".to_owned(), None, Some(1.5), "`threshold` is 1.5, but must be between 0 and 1"),
            ("x".to_owned(), None, Some(f64::NAN), "`threshold` is NaN"),
        ] {
            let message = ask(&query, limit, threshold).unwrap_err();
            assert!(message.contains(part), "{message}");
        }
    }
}
