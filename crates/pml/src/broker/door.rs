//! The door itself.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard},
    time::Duration,
};

use pml_wire::{
    CallId, ErrorCode, ToolId, json,
    message::{Ask, CallError, ErrorReport, MissingRead, PreflightCall},
};
use serde_json::value::RawValue;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::{
    activity::Activity,
    foresight::{EarlyAnswer, Foresight, only_reads},
    handler::{Answer, Arguments, CallHandler, HandlerFuture, ToolCall},
    normalise::{self, JsonTexts},
    offers::Lists,
    paces::Paces,
    policy::{OnChange, Only, Policy},
    profile::Profile,
    provider::{Backend, Provider, ProviderCall},
    recent::Recent,
    record::{Record, Sinks},
    search::meant,
    sharing::Sharing,
};
use crate::{
    audit::{Audit, Counts, Decision, Speculation},
    catalog::{Catalog, Finder, Pace, Pins, Snapshot, Source, TooSlow, Tool},
    digest::sha256,
    events::{Body, Bus},
    learning::{Learning, Reusables},
    rate::Bucket,
    room::{Charge, Room},
    trace::{Context, Recorder, is_answer},
    upstream::{CallResult, Fleet, Invocation, Item, ProgressListener, Repetition, Settings, Upstream},
    work::{self, AT_ONCE_BYTES, Waiter},
};

/// How long a call to an unknown tool waits for a list that may be on its way.
const NEWS: Duration = Duration::from_millis(250);

/// Most memory that arguments or a result may take while they are checked. Larger ones are the server's and the program's
/// own business.
const MAX_PARSED_BYTES: usize = 32 * 1024 * 1024;

/// The only door from programs to servers.
/// Clones share everything. A clone [for a profile](Broker::for_profile) is held to what that profile allows: every check asks
/// [`rules`](Broker::rules), so none can forget the profile.
#[derive(Clone, Debug)]
pub struct Broker {
    pub(super) catalog: Catalog,
    pub(super) finder: Finder,
    pub(super) servers: Fleet,
    pub(super) started: Instant,
    rules: Arc<RwLock<RuleSet>>,
    /// The profile whose clients this is the door for.
    profile: Option<Arc<str>>,
    /// The tools that a capability was saved with, if this is the door for one.
    only: Option<Arc<OnlyRules>>,
    /// What answers calls besides servers, by name.
    providers: Arc<RwLock<BTreeMap<&'static str, Arc<dyn Provider>>>>,
    sinks: Arc<Sinks>,
    sharing: Arc<Sharing>,
    room: Room,
    activity: Arc<Activity>,
    /// What clients of profiles with a pace have left.
    paces: Arc<Paces>,
    pub(super) pins: Pins,
    pub(super) lists: Arc<Lists>,
    pub(super) learning: Learning,
    pub(super) recent: Arc<Recent>,
    /// Are calls made ahead of programs?
    speculates: bool,
    /// The capabilities of the catalogue, as of the last search.
    reusables: Arc<Mutex<Option<Arc<Reusables>>>>,
}

/// The rules of a door that only lets calls of some tools through: those of its profile, narrowed, as of the last look.
#[derive(Debug)]
struct OnlyRules {
    only: Only,
    narrowed: Mutex<Option<Arc<Rules>>>,
}

/// The rules of now: those of everybody, and those of each profile.
#[derive(Debug)]
struct RuleSet {
    own: Arc<Rules>,
    profiles: HashMap<String, Arc<Rules>>,
}

/// What calls are held to.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) policy: Policy,
    /// Of the servers that are limited.
    rates: HashMap<String, Arc<Bucket>>,
    /// Calls that each client may make in a minute, if a profile says so.
    pace: Option<NonZeroU32>,
    /// Counts the sets of rules that there were.
    revision: u64,
}

impl Default for RuleSet {
    fn default() -> RuleSet {
        let own = Rules { policy: Policy::default(), rates: HashMap::new(), pace: None, revision: 0 };
        RuleSet { own: Arc::new(own), profiles: HashMap::new() }
    }
}

/// What a broker is made of.
#[derive(Debug)]
pub struct Parts {
    pub catalog: Catalog,
    pub finder: Finder,
    /// What tools were when they were first seen.
    pub pins: Pins,
    pub servers: Fleet,
    pub policy: Policy,
    pub bus: Bus,
    pub audit: Arc<Audit>,
    /// What records of clients' own calls are begun by.
    pub recorder: Recorder,
    pub room: Room,
    pub learning: Learning,
    /// Are calls made ahead of programs?
    pub speculates: bool,
}

impl Broker {
    pub fn new(parts: Parts) -> Broker {
        let Parts { catalog, finder, pins, servers, policy, bus, audit, recorder, room, learning, speculates } = parts;
        let broker = Broker {
            catalog,
            finder,
            servers,
            started: Instant::now(),
            rules: Arc::new(RwLock::new(RuleSet::default())),
            profile: None,
            only: None,
            providers: Arc::default(),
            sinks: Arc::new(Sinks { bus, audit, recorder }),
            sharing: Arc::default(),
            room,
            activity: Arc::default(),
            paces: Arc::default(),
            pins,
            lists: Arc::default(),
            learning,
            recent: Arc::default(),
            speculates,
            reusables: Arc::default(),
        };
        broker.set_rules(policy, broker.servers.all().iter().map(Upstream::settings));
        broker
    }

    /// From now on, calls are held to this policy and to the rates of these servers, which need not be there yet.
    pub fn set_rules<'a>(&self, policy: Policy, servers: impl IntoIterator<Item = &'a Settings>) {
        let before = Arc::clone(&self.rule_set().own);
        let rates: HashMap<_, _> = servers
            .into_iter()
            .filter_map(|server| {
                let (name, limit) = (server.name.clone(), server.calls_per_minute?);
                // A limit that stays goes on counting.
                let known = before.rates.get(&name).filter(|bucket| bucket.per_minute() == limit.get()).cloned();
                Some((name, known.unwrap_or_else(|| Arc::new(Bucket::new(limit)))))
            })
            .collect();
        if policy != before.policy {
            let policy = policy.clone();
            self.finder.set_filter(Arc::new(move |tool| policy.allows(tool)));
        }
        let revision = before.revision + 1;
        let of_profile = |(name, profile): (&String, &Profile)| {
            let (policy, pace) = (policy.narrowed(name), profile.calls_per_minute);
            (name.clone(), Arc::new(Rules { policy, rates: rates.clone(), pace, revision }))
        };
        let profiles = policy.profiles.iter().map(of_profile).collect();
        let own = Arc::new(Rules { policy, rates, pace: None, revision });
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = RuleSet { own, profiles };
    }

    fn rule_set(&self) -> RwLockReadGuard<'_, RuleSet> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rules of now, for whoever this is the door for.
    pub(super) fn rules(&self) -> Arc<Rules> {
        let rules = self.rules_of_profile();
        let Some(OnlyRules { only, narrowed }) = self.only.as_deref() else { return rules };
        let mut narrowed = narrowed.lock().unwrap_or_else(PoisonError::into_inner);
        match &*narrowed {
            Some(known) if known.revision == rules.revision => Arc::clone(known),
            _ => {
                let policy = Policy { only: Some(only.clone()), ..rules.policy.clone() };
                let (rates, pace, revision) = (rules.rates.clone(), rules.pace, rules.revision);
                Arc::clone(narrowed.insert(Arc::new(Rules { policy, rates, pace, revision })))
            }
        }
    }

    /// The rules of a profile, or of everybody. A profile that is not defined, or no more, allows nothing.
    fn rules_of_profile(&self) -> Arc<Rules> {
        let rules = self.rule_set();
        let Some(profile) = &self.profile else { return Arc::clone(&rules.own) };
        rules.profiles.get(&**profile).cloned().unwrap_or_else(|| {
            let (policy, revision) = (rules.own.policy.narrowed(profile), rules.own.revision);
            Arc::new(Rules { policy, rates: HashMap::new(), pace: None, revision })
        })
    }

    /// The door for clients of a profile. It shares everything else.
    #[must_use]
    pub fn for_profile(&self, profile: &str) -> Broker {
        Broker { profile: Some(profile.into()), ..self.clone() }
    }

    /// The same door for a program that may use no more than some tools. It replaces an earlier restriction of this kind.
    #[must_use]
    pub fn with_only(&self, only: Only) -> Broker {
        Broker { only: Some(Arc::new(OnlyRules { only, narrowed: Mutex::default() })), ..self.clone() }
    }

    /// Which program a capability was when the program that this door is for was saved; `None` if that was not written down.
    pub fn reviewed(&self, tool: &ToolId) -> Option<&str> {
        let OnlyRules { only, .. } = self.only.as_deref()?;
        only.identities.get(tool.as_str()).map(String::as_str).filter(|identity| !identity.is_empty())
    }

    /// From now on, calls of this name's tools are answered by the provider, for every clone of this door.
    pub fn provide(&self, name: &'static str, provider: Arc<dyn Provider>) {
        self.providers.write().unwrap_or_else(PoisonError::into_inner).insert(name, provider);
    }

    /// Has all providers look for tools that the catalogue does not have yet.
    pub async fn refresh_providers(&self) {
        let providers: Vec<_> =
            self.providers.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for provider in providers {
            provider.refresh().await;
        }
    }

    pub(super) fn providers(&self) -> BTreeMap<&'static str, Arc<dyn Provider>> {
        self.providers.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn provider(&self, name: &str) -> Option<Arc<dyn Provider>> {
        self.providers.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Is this the door for clients of a profile?
    pub(super) fn is_narrowed(&self) -> bool {
        self.profile.is_some()
    }

    /// Is there anything of a server that may be used, as far as the profile tells?
    pub fn shows_server(&self, server: &str) -> bool {
        self.profile.is_none() || self.rules().policy.shows_server(server)
    }

    /// Changes whenever the rules do.
    pub fn revision(&self) -> u64 {
        self.rules().revision
    }

    /// May the tool be called?
    pub fn allows(&self, tool: &ToolId) -> bool {
        self.rules().policy.allows_as_it_is(tool, &self.pins)
    }

    /// May a tool of that name be called, whatever it has become?
    pub fn permits(&self, tool: &ToolId) -> bool {
        self.rules().policy.allows(tool)
    }

    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        self.catalog.snapshot()
    }

    /// The capabilities of a catalogue. `None` if it has none.
    pub(super) fn reusables(&self, snapshot: &Snapshot) -> Option<Arc<Reusables>> {
        let mut known = self.reusables.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.as_ref().is_some_and(|known| known.are_of(snapshot)) {
            *known = Reusables::of(snapshot).map(Arc::new);
        }
        known.clone()
    }

    /// May a server change its tools while it is called?
    pub(super) fn may_change(&self, server: &str) -> bool {
        self.servers.get(server).is_some_and(|server| server.may_change())
    }

    pub(super) fn speculates(&self) -> bool {
        self.speculates
    }

    /// Writes down that a program was not started because of a call that the policy does not allow.
    pub(super) fn record_denial(&self, context: &Arc<Context>, tool: &ToolId, rule: &str) {
        let error = CallError::new(ErrorCode::PolicyDenied, "the program was not started");
        // Calls are counted from 1; none was made.
        self.record_refusal(context, CallId(0), tool.as_str(), rule, error);
    }

    fn record_refusal(&self, context: &Arc<Context>, id: CallId, tool: &str, rule: &str, error: CallError) {
        let mut record = Record::new(&self.sinks, context, id, tool);
        record.decision = Decision::Deny;
        rule.clone_into(&mut record.rule);
        record.end(&Err(error));
    }

    /// Starts a server and waits for its list of tools, whatever comes of it.
    pub(super) async fn discover(&self, server: &str) {
        if let Some(upstream) = self.servers.get(server) {
            // Why it did not start is said by the call that needs it.
            let _ = upstream.init().await;
        }
    }

    /// What the audit log could not do until now.
    pub fn audit_counts(&self) -> Counts {
        self.sinks.audit.counts()
    }

    pub(super) fn sharing(&self) -> &Sharing {
        &self.sharing
    }

    pub(super) fn room_of_results(&self) -> Room {
        self.room.clone()
    }

    pub(super) fn sinks(&self) -> &Arc<Sinks> {
        &self.sinks
    }

    /// Finds a tool that may be called now, and its server, and takes one of the calls that the server may get in a minute.
    /// `suggests`: say which tools may have been meant if there is none.
    pub(super) async fn admit(
        &self,
        id: &ToolId,
        suggests: bool,
        record: &mut Record,
    ) -> Result<(Arc<Tool>, Backend), CallError> {
        let (rules, tool, backend) = self.permit(id, suggests, record).await?;
        self.admit_rate(&rules, tool.id.server(), record)?;
        Ok((tool, backend))
    }

    /// The same before any rate is looked at, with the rules that it was permitted by.
    async fn permit(
        &self,
        id: &ToolId,
        suggests: bool,
        record: &mut Record,
    ) -> Result<(Arc<Rules>, Arc<Tool>, Backend), CallError> {
        let mut tool = self.find(id, suggests).await?;
        tool.id.as_str().clone_into(&mut record.tool);

        let rules = self.rules();
        let own = self.provider(tool.id.server());
        if rules.policy.changed == OnChange::Block && own.is_none() {
            // What is known from earlier says nothing about what the tool is now.
            self.server(tool.id.server())?.init().await?;
            tool = self.find(&tool.id, suggests).await?;
        }
        let verdict = rules.policy.judge(&tool.id, &self.pins);
        record.rule.clone_from(&verdict.rule);
        if !verdict.is_allowed {
            record.decision = Decision::Deny;
            return Err(CallError::new(ErrorCode::PolicyDenied, verdict.explain(&tool.id)));
        }
        let backend = match own {
            Some(provider) => Backend::Own(provider),
            None => Backend::Server(self.server(tool.id.server())?),
        };
        Ok((rules, tool, backend))
    }

    /// Takes one of the calls that a server may get in a minute.
    pub(super) fn admit_rate(&self, rules: &Rules, server: &str, record: &mut Record) -> Result<(), CallError> {
        let own = rules.pace.zip(self.profile.as_ref());
        let own = own.map(|(pace, profile)| self.paces.of(profile, record.caller(), pace));
        // A call that is made ahead takes nothing that calls of programs may need.
        let take = |bucket: &Bucket, does: &str| match record.speculation {
            Some(Speculation::Made) => bucket.admit_spare(does),
            Some(Speculation::Used) | None => bucket.admit(does),
        };
        let own = own.map_or(Ok(()), |bucket| take(&bucket, "this client calls tools"));
        let bucket = rules.rates.get(server);
        let admitted =
            own.and_then(|()| bucket.map_or(Ok(()), |bucket| take(bucket, &format!("server `{server}` is called"))));
        admitted.inspect_err(|_| {
            record.decision = Decision::Deny;
            "calls_per_minute".clone_into(&mut record.rule);
        })
    }

    pub(super) fn server(&self, name: &str) -> Result<Upstream, CallError> {
        self.servers.get(name).ok_or_else(|| {
            CallError::new(ErrorCode::ToolNotFound, format!("server `{name}` is not configured any more"))
        })
    }

    async fn digested_call(&self, call: ToolCall, record: &mut Record) -> Result<Answer, CallError> {
        record.args_sha256 = digest(call.args.written()).await;
        self.checked_call(call, record).await
    }

    async fn checked_call(&self, call: ToolCall, record: &mut Record) -> Result<Answer, CallError> {
        let ToolCall { context, id, tool, args, is_raw, suggests, allowance, notices, afterwards, progress, early } =
            call;
        // A call that has an early answer needs no call of the server, and takes none of those that there are.
        let (rules, tool, backend) = self.permit(&tool, suggests, record).await?;
        if early.is_none() {
            self.admit_rate(&rules, tool.id.server(), record)?;
        }
        // Only now are values put in for handles: a call that is refused costs nothing.
        let prepared = prepare(&tool, args, &self.room, record).await?;
        for unknown in &prepared.checked.unknown {
            notices.add(format!("the schema of `{}` does not name {unknown}", tool.id));
        }
        let Prepared { args, checked: Checked { headers, .. }, held } = prepared;
        if let Some(early) = early {
            if let Some(answer) = early.answer_for(&tool, &backend).await {
                record.start(Some(&afterwards)).await;
                record.speculation = Some(Speculation::Used);
                self.note_answer(&context, &tool, &answer);
                return Ok(answer);
            }
            self.admit_rate(&rules, tool.id.server(), record)?;
        }
        // What runs programs must not hold what their calls need.
        let _place = match &backend {
            Backend::Server(_) => Some(allowance.place().await),
            Backend::Own(_) => None,
        };
        record.start(Some(&afterwards)).await;
        let call = ProviderCall {
            door: self,
            tool: &tool,
            args,
            context: &context,
            id,
            is_raw,
            allowance: &allowance,
            notices: &notices,
            progress,
            is_ahead: false,
            headers,
            args_sha256: &record.args_sha256,
            held,
        };
        let answer = backend.provider().call(call).await;
        self.activity.called(tool.id.server());
        match &answer {
            Ok(answer) => self.note_answer(&context, &tool, answer),
            Err(error) if is_answer(error.code) => context.used.tool(tool.id.as_str()),
            Err(_) => {}
        }
        answer
    }

    /// Remembers that a program was given an answer.
    fn note_answer(&self, context: &Arc<Context>, tool: &Tool, answer: &Answer) {
        context.used.tool(tool.id.as_str());
        self.recent.note(context, &tool.id);
        self.learning.show(tool, answer.bytes(), || answer.shown_as_json());
    }

    /// A call that is made ahead: checked like others, and refused unless the tool only reads.
    async fn checked_call_ahead(&self, call: ToolCall, record: &mut Record) -> Result<EarlyAnswer, CallError> {
        let ToolCall { context, id, tool, args, is_raw, allowance, notices, .. } = call;
        let refused = |tool: &ToolId| {
            let message = format!("`{tool}` is not called ahead: no trusted server says that it only reads");
            CallError::new(ErrorCode::PolicyDenied, message)
        };
        // Before anything is started for it.
        if !self.foresight().is_some_and(|foresight| foresight.only_reads(&tool)) {
            record.decision = Decision::Deny;
            "speculation".clone_into(&mut record.rule);
            return Err(refused(&tool));
        }
        let (tool, backend) = self.admit(&tool, false, record).await?;
        let upstream = match &backend {
            Backend::Server(upstream) if only_reads(&tool, upstream.settings()) => upstream,
            Backend::Server(_) | Backend::Own(_) => return Err(refused(&tool.id)),
        };
        let Prepared { args, checked: Checked { headers, .. }, held } =
            prepare(&tool, args, &self.room, record).await?;
        record.start(None).await;
        let call = ProviderCall {
            door: self,
            tool: &tool,
            args,
            context: &context,
            id,
            is_raw,
            allowance: &allowance,
            notices: &notices,
            progress: None,
            is_ahead: true,
            headers,
            args_sha256: &record.args_sha256,
            held,
        };
        let answer = upstream.call(call).await;
        self.activity.called(tool.id.server());
        Ok(EarlyAnswer { answer: answer?, tool_hash: tool.hash.clone(), server: upstream.id() })
    }

    /// The tool that is known by a name, also one that is in no list.
    fn known_tool(&self, snapshot: &Snapshot, id: &ToolId) -> Option<Arc<Tool>> {
        let hidden = || self.provider(id.server())?.hidden(id.tool());
        snapshot.tool(id).cloned().or_else(hidden)
    }

    /// The same with the tools of now.
    pub fn tool(&self, id: &ToolId) -> Option<Arc<Tool>> {
        self.known_tool(&self.snapshot(), id)
    }

    /// The tool that is meant. A server whose tools are not known for sure is asked first.
    async fn find(&self, id: &ToolId, suggests: bool) -> Result<Arc<Tool>, CallError> {
        let snapshot = self.snapshot();
        if let Some(tool) = self.known_tool(&snapshot, id) {
            return Ok(tool);
        }
        if let Some(provider) = self.provider(id.server()) {
            provider.refresh().await;
            if let Some(tool) = provider.hidden(id.tool()) {
                return Ok(tool);
            }
        }
        if let Some(server) = snapshot.server_name(id.server())
            && snapshot.listing(server).is_none_or(|listing| listing.source == Source::Cached)
            && let Some(upstream) = self.servers.get(server)
        {
            upstream.init().await?;
        }
        // A call may have made a server say that it has new tools, and their list may be on its way.
        let server = snapshot.server_name(id.server()).filter(|server| self.may_change(server));
        let snapshot = match server.and_then(|server| self.activity.since_last_wait(server)) {
            Some(waiting) => {
                let snapshot = self.catalog.wait_for(NEWS, |snapshot| snapshot.tool(id).is_some()).await;
                if snapshot.tool(id).is_none() {
                    self.activity.waited(waiting);
                }
                snapshot
            }
            None => self.snapshot(),
        };
        match snapshot.tool(id) {
            Some(tool) => Ok(Arc::clone(tool)),
            None if suggests => Err(CallError::new(ErrorCode::ToolNotFound, self.explain_missing(&snapshot, id).await)),
            None => Err(CallError::new(ErrorCode::ToolNotFound, format!("there is no tool `{id}`"))),
        }
    }

    /// All names, of which those that may not be called are left out.
    async fn all_names(&self) -> Arc<str> {
        self.learn(None).await;
        self.refresh_providers().await;
        let (snapshot, rules, pins) = (self.snapshot(), self.rules(), self.pins.clone());
        work::elsewhere(move |_| allowed_names(&snapshot, &rules, &pins)).await
    }
}

impl CallHandler for Broker {
    fn call(&self, call: ToolCall) -> HandlerFuture<'_, Result<Answer, CallError>> {
        let mut record = Record::new(&self.sinks, &call.context, call.id, call.tool.as_str());
        if self.sinks.bus.is_heard() {
            let started = Body::ToolStarted { tool: call.tool.clone(), call: call.id.0 };
            self.sinks.bus.publish(call.context.execution.to_string(), started);
        }
        let span = record.span();
        let call = async move {
            let afterwards = call.afterwards.clone();
            let outcome = afterwards.beside(self.digested_call(call, &mut record)).await;
            record.end_later(&outcome, &afterwards);
            outcome
        };
        Box::pin(call.instrument(span))
    }

    fn foresight(&self) -> Option<Foresight> {
        let view = self.learning.view().filter(|_| self.speculates)?;
        let is_on = view.learned()?.speculation().is_on;
        Some(Foresight { door: self.clone(), view, is_on })
    }

    fn call_ahead(&self, call: ToolCall) -> HandlerFuture<'_, Result<EarlyAnswer, CallError>> {
        let mut record = Record::new(&self.sinks, &call.context, call.id, call.tool.as_str());
        record.speculation = Some(Speculation::Made);
        let span = record.span();
        let call = async move {
            record.args_sha256 = digest(call.args.written()).await;
            let outcome = self.checked_call_ahead(call, &mut record).await;
            record.end_with(outcome.as_ref().map(|early| early.answer.bytes()));
            outcome
        };
        Box::pin(call.instrument(span))
    }

    fn names(&self) -> HandlerFuture<'_, Arc<str>> {
        Box::pin(self.all_names())
    }

    fn room(&self) -> Room {
        self.room.clone()
    }

    fn ask(&self, context: Arc<Context>, id: CallId, ask: Ask) -> HandlerFuture<'_, Result<Answer, CallError>> {
        match ask {
            Ask::Search(search) => Box::pin(self.recorded_search((context, id), search)),
            ask => Box::pin(self.answer_about(context, id, ask)),
        }
    }

    fn meant(&self, target: &str) -> Vec<ToolId> {
        let (rules, pins) = (self.rules(), &self.pins);
        meant(&self.snapshot(), target, |tool| rules.policy.allows_as_it_is(&tool.id, pins))
    }

    fn is_former(&self, tool: &ToolId) -> bool {
        let hidden = || self.provider(tool.server())?.hidden(tool.tool());
        self.snapshot().tool(tool).is_none() && hidden().is_some_and(|now| now.id != *tool)
    }

    fn canonical(&self, tool: ToolId) -> ToolId {
        self.tool(&tool).map_or(tool, |found| found.id.clone())
    }

    fn preflight(
        &self,
        context: Arc<Context>,
        calls: Vec<PreflightCall>,
    ) -> HandlerFuture<'_, Result<Vec<String>, Box<ErrorReport>>> {
        Box::pin(self.check_program(context, calls))
    }

    fn may_be_absent(&self, read: &MissingRead) -> bool {
        let Ok(id) = read.tool.parse() else { return false };
        let snapshot = self.snapshot();
        let Some(tool) = snapshot.tool(&id) else { return false };
        let learned = self.learned().and_then(|learned| learned.result_type(tool)).map(|learned| learned.schema);
        tool.output_schema.as_ref().or(learned.as_ref()).is_some_and(|schema| names_property(schema, read))
    }

    /// Of a property that one result of a tool does not have, what other results of the tool have.
    fn explain(&self, report: &mut ErrorReport) {
        let Some(missing) = report.missing.take() else { return };
        let snapshot = self.snapshot();
        let tool = snapshot.tool(&missing.tool).filter(|tool| self.allows(&tool.id));
        let learned = self.learned();
        let hint = tool.zip(learned).and_then(|(tool, learned)| learned.missing_property(tool, &missing));
        report.hint = hint.or_else(|| report.hint.take());
    }

    fn refused(&self, context: &Arc<Context>, id: CallId, target: &str, error: &CallError) {
        self.record_refusal(context, id, target, error.code.as_str(), error.clone());
    }
}

/// Does a schema, or one within it, name a property that was read, and most of those that the object has?
fn names_property(schema: &serde_json::Value, read: &MissingRead) -> bool {
    use serde_json::Value;
    match schema {
        Value::Object(members) => {
            let named = members.get("properties").and_then(Value::as_object);
            let is_meant = named.is_some_and(|named| {
                let shared = read.keys.iter().filter(|key| named.contains_key(*key)).count();
                named.contains_key(&read.property) && 2 * shared >= read.keys.len()
            });
            is_meant || members.values().any(|member| names_property(member, read))
        }
        Value::Array(items) => items.iter().any(|item| names_property(item, read)),
        _ => false,
    }
}

/// Every tool that may be called, by server, as JSON.
fn allowed_names(snapshot: &Snapshot, rules: &Rules, pins: &Pins) -> Arc<str> {
    if rules.policy.is_trivial() {
        return snapshot.names();
    }
    let mut names: serde_json::Map<_, _> =
        snapshot.servers().map(|server| (server.to_owned(), serde_json::Value::Array(Vec::new()))).collect();
    let mut denied = BTreeSet::new();
    for tool in snapshot.tools() {
        if !rules.policy.allows_as_it_is(&tool.id, pins) {
            denied.insert(tool.id.server());
        } else if let Some(list) = names.get_mut(tool.id.server()).and_then(serde_json::Value::as_array_mut) {
            list.push(tool.id.tool().into());
        }
    }
    // A server whose tools are all denied is not there. One that has none, or none yet, is, unless a profile leaves it out.
    names.retain(|server, _| rules.policy.shows_server(server));
    names
        .retain(|server, tools| !denied.contains(server.as_str()) || tools.as_array().is_some_and(|it| !it.is_empty()));
    serde_json::Value::Object(names).to_string().into()
}

/// Arguments that may be sent.
struct Prepared {
    args: Box<RawValue>,
    checked: Checked,
    /// The room that they take.
    held: Charge,
}

/// What is known of arguments that were checked.
#[derive(Default)]
struct Checked {
    /// Those that also go into headers.
    headers: Vec<(String, String)>,
    /// Those that the schema is silent about, each with what may have been meant.
    unknown: Vec<String>,
}

/// A hash of JSON text. A long one is worked out elsewhere.
async fn digest(text: &RawValue) -> String {
    match text.get().len() <= AT_ONCE_BYTES {
        true => sha256(text.get()),
        false => {
            let text = text.to_owned();
            work::elsewhere(move |_| sha256(text.get())).await
        }
    }
}

/// Puts values in for handles and checks the arguments: at once, or elsewhere if that takes long.
async fn prepare(tool: &Arc<Tool>, args: Arguments, room: &Room, record: &mut Record) -> Result<Prepared, CallError> {
    let bytes = args.bytes();
    let mut held = room.charge();
    // The message that they go into is as large again.
    held.set(2 * bytes).await.map_err(|full| CallError {
        retryable: true,
        ..CallError::new(ErrorCode::InvalidArguments, format!("the arguments have {bytes} bytes, and {full}"))
    })?;
    if bytes <= AT_ONCE_BYTES {
        let stands_in = args.have_stand_ins();
        let args = args.fill(&tool.input_schema)?;
        if stands_in {
            record.args_sha256 = sha256(args.get());
        }
        if let Ok(checked) = check_arguments(tool, &args, Pace::Quick) {
            return Ok(Prepared { args, checked: checked?, held });
        }
        let (tool, args) = (Arc::clone(tool), args);
        let (args, checked) = work::elsewhere(move |_| {
            let checked = check_arguments(&tool, &args, Pace::Thorough);
            (args, checked)
        })
        .await;
        return Ok(Prepared { args, checked: checked.unwrap_or_else(|TooSlow| Ok(Checked::default()))?, held });
    }
    let tool = Arc::clone(tool);
    let work = move |_: &Waiter| {
        let args = args.fill(&tool.input_schema)?;
        let checked = check_arguments(&tool, &args, Pace::Thorough).unwrap_or_else(|TooSlow| Ok(Checked::default()));
        Ok::<_, CallError>((sha256(args.get()), checked.map(|checked| (args, checked))))
    };
    let (sha256, checked) = work::elsewhere(work).await?;
    record.args_sha256 = sha256;
    let (args, checked) = checked?;
    Ok(Prepared { args, checked, held })
}

/// Checks the arguments of a call.
fn check_arguments(tool: &Tool, args: &RawValue, pace: Pace) -> Result<Result<Checked, CallError>, TooSlow> {
    let invalid = |why: String| {
        CallError::new(ErrorCode::InvalidArguments, format!("the arguments of `{}` are wrong: {why}", tool.id))
    };
    if json::parsed_bytes(args.get()) > MAX_PARSED_BYTES {
        tracing::debug!(tool = %tool.id, "arguments are too large to be checked");
        return Err(TooSlow);
    }
    let value: serde_json::Value = match serde_json::from_str(args.get()) {
        Ok(value) => value,
        Err(err) => return Ok(Err(invalid(err.to_string()))),
    };
    if let Err(why) = tool.check_arguments(&value, pace)? {
        return Ok(Err(invalid(why)));
    }
    let unknown = tool.unknown_arguments(&value, pace)?;
    Ok(Ok(Checked { headers: tool.header_arguments(&value), unknown }))
}

/// Has a server do what was asked, and makes its result fit for a program.
pub(super) async fn execute(
    upstream: Upstream,
    tool: Arc<Tool>,
    (args, headers, held): (Box<RawValue>, Vec<(String, String)>, Charge),
    texts: JsonTexts,
    (traceparent, progress): (String, Option<ProgressListener>),
    room: Room,
) -> Result<Answer, CallError> {
    let args = Arc::new(args);
    let (name, needs_task) = (tool.id.tool(), tool.hints.needs_task);
    let repetition = repetition(&tool, upstream.settings());
    let result = upstream.execute(&Invocation { tool: name, args, traceparent, headers, needs_task, progress }).await;
    let result = result.map_err(|failure| failure.into_call_error(repetition))?;
    drop(held);
    let checks = upstream.settings().checks_results && !result.is_error && tool.output_schema.is_some();
    // It may show what the server returned.
    let masked = move |error: CallError| CallError { message: upstream.settings().mask(error.message), ..error };
    let bytes = result.bytes();
    if bytes <= AT_ONCE_BYTES {
        let verdict = if checks { check_result(&tool, &result, Pace::Quick) } else { Ok(Ok(())) };
        if let Ok(verdict) = verdict {
            verdict.map_err(masked)?;
            return normalise::answer(&tool, result, texts);
        }
    }
    // What is made of it is a copy in part.
    let mut copy = room.charge();
    copy.set(bytes).await?;
    work::elsewhere(move |_| {
        if checks {
            check_result(&tool, &result, Pace::Thorough).unwrap_or(Ok(())).map_err(masked)?;
        }
        normalise::answer(&tool, result, texts)
    })
    .await
}

/// What a second call of a tool does. Only the hints of a trusted server count.
pub(super) fn repetition(tool: &Tool, settings: &Settings) -> Repetition {
    match settings.is_trusted && (tool.hints.is_read_only || tool.hints.is_idempotent) {
        true => Repetition::Harmless,
        false => Repetition::Unknown,
    }
}

/// Checks a result against what the tool says it returns.
fn check_result(tool: &Tool, result: &CallResult, pace: Pace) -> Result<Result<(), CallError>, TooSlow> {
    let invalid = |why: String| {
        CallError::new(
            ErrorCode::InvalidResult,
            format!("what `{}` returned is not what it says it returns: {why}", tool.id),
        )
    };
    let text = match &result.structured {
        Some(Item::Object(fields)) => fields.to_raw(),
        Some(Item::Other(value)) => value.clone(),
        None => return Ok(Err(invalid("it has no structured content".to_owned()))),
    };
    if json::depth(text.get()) > json::MAX_DEPTH {
        return Ok(Err(invalid(format!("it is nested more than {} levels deep", json::MAX_DEPTH))));
    }
    if json::parsed_bytes(text.get()) > MAX_PARSED_BYTES {
        tracing::debug!(tool = %tool.id, "a result is too large to be checked");
        return Err(TooSlow);
    }
    match serde_json::from_str(text.get()) {
        Ok(value) => Ok(tool.check_result(&value, pace)?.map_err(invalid)),
        Err(err) => Ok(Err(invalid(err.to_string()))),
    }
}
