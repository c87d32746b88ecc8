//! The door itself.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use pml_wire::{
    CallId, ErrorCode, ExecutionId, ToolId, json,
    message::{CallError, ErrorReport, PreflightCall, Search},
};
use serde_json::value::RawValue;
use tokio::{sync::Semaphore, time::Instant};

use super::{
    handler::{Answer, CallHandler, HandlerFuture, ToolCall},
    normalise,
    policy::{OnChange, Policy},
    rate::Bucket,
    record::{Record, Sinks, traceparent},
    search::SLOW_SEARCHES,
    sharing::Sharing,
};
use crate::{
    audit::{Audit, Decision},
    catalog::{Catalog, Finder, Pins, Snapshot, Source, Tool},
    events::Bus,
    upstream::{CallResult, Fleet, Invocation, Item, Settings, Upstream},
};

/// How long an unknown tool of a server that changes its tools is waited for.
const NEWS: Duration = Duration::from_millis(250);

/// The only door from programs to servers.
#[derive(Debug)]
pub struct Broker {
    pub(super) catalog: Catalog,
    pub(super) finder: Finder,
    pub(super) servers: Fleet,
    pub(super) started: Instant,
    pub(super) slow_searches: Semaphore,
    rules: RwLock<Arc<Rules>>,
    sinks: Sinks,
    sharing: Sharing,
    pub(super) pins: Pins,
}

/// What calls are held to.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) policy: Policy,
    /// Of the servers that are limited.
    rates: HashMap<String, Arc<Bucket>>,
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
    /// On whose behalf calls are made.
    pub who: String,
}

impl Broker {
    pub fn new(parts: Parts) -> Broker {
        let Parts { catalog, finder, pins, servers, policy, bus, audit, who } = parts;
        let broker = Broker {
            catalog,
            finder,
            servers,
            started: Instant::now(),
            slow_searches: Semaphore::new(SLOW_SEARCHES),
            rules: RwLock::new(Arc::new(Rules { policy: Policy::default(), rates: HashMap::new() })),
            sinks: Sinks { bus, audit, who },
            sharing: Sharing::default(),
            pins,
        };
        broker.set_rules(policy, broker.servers.all().iter().map(Upstream::settings));
        broker
    }

    /// From now on, calls are held to this policy and to the rates of these servers, which need not be there yet.
    pub fn set_rules<'a>(&self, policy: Policy, servers: impl IntoIterator<Item = &'a Settings>) {
        let before = self.rules();
        let rates = servers.into_iter().filter_map(|server| {
            let (name, limit) = (server.name.clone(), server.calls_per_minute?);
            // A limit that stays goes on counting.
            let known = before.rates.get(&name).filter(|bucket| bucket.per_minute() == limit.get()).cloned();
            Some((name, known.unwrap_or_else(|| Arc::new(Bucket::new(limit)))))
        });
        if policy != before.policy {
            let policy = policy.clone();
            self.finder.set_filter(Arc::new(move |tool| policy.allows(tool)));
        }
        let rules = Arc::new(Rules { policy, rates: rates.collect() });
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
    }

    pub(super) fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
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

    /// May a server change its tools while it is called?
    pub(super) fn may_change(&self, server: &str) -> bool {
        self.servers.get(server).is_some_and(|server| server.may_change())
    }

    /// Writes down that a program was not started because of a call that the policy does not allow.
    pub(super) fn record_denial(&self, execution: ExecutionId, tool: &ToolId, rule: &str) {
        let error = CallError::new(ErrorCode::PolicyDenied, "the program was not started");
        // Calls are counted from 1; none was made.
        self.record_refusal(execution, CallId(0), tool.as_str(), rule, error);
    }

    fn record_refusal(&self, execution: ExecutionId, id: CallId, tool: &str, rule: &str, error: CallError) {
        let mut record = Record::new(&self.sinks, execution, id, tool, "");
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

    pub(super) fn sinks(&self) -> &Sinks {
        &self.sinks
    }

    /// Finds a tool that may be called now, and its server.
    pub(super) async fn admit(&self, id: &ToolId, record: &mut Record<'_>) -> Result<(Arc<Tool>, Upstream), CallError> {
        let mut tool = self.find(id).await?;
        tool.id.as_str().clone_into(&mut record.tool);

        let rules = self.rules();
        if rules.policy.changed == OnChange::Block {
            // What is known from earlier says nothing about what the tool is now.
            self.server(tool.id.server())?.init().await?;
            tool = self.find(&tool.id).await?;
        }
        let verdict = rules.policy.judge(&tool.id, &self.pins);
        record.rule.clone_from(&verdict.rule);
        if !verdict.is_allowed {
            record.decision = Decision::Deny;
            return Err(CallError::new(ErrorCode::PolicyDenied, verdict.explain(&tool.id)));
        }
        let name = tool.id.server();
        self.admit_rate(&rules, name, record)?;
        let upstream = self.server(name)?;
        Ok((tool, upstream))
    }

    /// Takes one of the calls that a server may get in a minute.
    pub(super) fn admit_rate(&self, rules: &Rules, server: &str, record: &mut Record<'_>) -> Result<(), CallError> {
        let Some(bucket) = rules.rates.get(server) else { return Ok(()) };
        bucket.admit(&format!("server `{server}` is called")).inspect_err(|_| {
            record.decision = Decision::Deny;
            "calls_per_minute".clone_into(&mut record.rule);
        })
    }

    pub(super) fn server(&self, name: &str) -> Result<Upstream, CallError> {
        self.servers.get(name).ok_or_else(|| {
            CallError::new(ErrorCode::ToolNotFound, format!("server `{name}` is not configured any more"))
        })
    }

    async fn checked_call(&self, call: &ToolCall, record: &mut Record<'_>) -> Result<Answer, CallError> {
        let (tool, upstream) = self.admit(&call.tool, record).await?;
        let headers = check_arguments(&tool, &call.args)?;
        let settings = upstream.settings();
        let work = Work { traceparent: traceparent(call.execution, call.id), headers };
        if !(settings.is_trusted && tool.hints.is_read_only) {
            return execute(&upstream, &tool, &call.args, work).await;
        }
        let ttl = settings.cache_ttl.filter(|_| tool.hints.is_idempotent);
        let key = (tool.id.as_str().to_owned(), call.args.get().to_owned());
        let (upstream, tool, args) = (upstream.clone(), Arc::clone(&tool), call.args.clone());
        let begin = || Box::pin(async move { execute(&upstream, &tool, &args, work).await }) as _;
        self.sharing.call(key, ttl, begin).await
    }

    /// The tool that is meant. A server whose tools are not known for sure is asked first.
    async fn find(&self, id: &ToolId) -> Result<Arc<Tool>, CallError> {
        let snapshot = self.snapshot();
        if let Some(tool) = snapshot.tool(id) {
            return Ok(Arc::clone(tool));
        }
        if let Some(server) = snapshot.server_name(id.server())
            && snapshot.listing(server).is_none_or(|listing| listing.source == Source::Cached)
            && let Some(upstream) = self.servers.get(server)
        {
            upstream.init().await?;
        }
        // A server may have just said that it has new tools.
        let may_appear = snapshot.server_name(id.server()).is_some_and(|server| self.may_change(server));
        let snapshot = match may_appear {
            true => self.catalog.wait_for(NEWS, |snapshot| snapshot.tool(id).is_some()).await,
            false => self.snapshot(),
        };
        match snapshot.tool(id) {
            Some(tool) => Ok(Arc::clone(tool)),
            None => Err(CallError::new(ErrorCode::ToolNotFound, self.explain_missing(&snapshot, id).await)),
        }
    }

    /// All names, of which those that may not be called are left out.
    async fn all_names(&self) -> Arc<str> {
        self.learn(None).await;
        let snapshot = self.snapshot();
        let rules = self.rules();
        if rules.policy.is_trivial() {
            return snapshot.names();
        }
        let mut names: serde_json::Map<_, _> =
            snapshot.servers().map(|server| (server.to_owned(), serde_json::Value::Array(Vec::new()))).collect();
        for tool in snapshot.tools().filter(|tool| rules.policy.allows_as_it_is(&tool.id, &self.pins)) {
            if let Some(list) = names.get_mut(tool.id.server()).and_then(serde_json::Value::as_array_mut) {
                list.push(tool.id.tool().into());
            }
        }
        serde_json::Value::Object(names).to_string().into()
    }
}

impl CallHandler for Broker {
    fn call(&self, call: ToolCall) -> HandlerFuture<'_, Result<Answer, CallError>> {
        let mut record = Record::begin(&self.sinks, &call);
        Box::pin(async move {
            let outcome = self.checked_call(&call, &mut record).await;
            record.end(&outcome);
            outcome
        })
    }

    fn names(&self) -> HandlerFuture<'_, Arc<str>> {
        Box::pin(self.all_names())
    }

    fn search(&self, search: Search) -> HandlerFuture<'_, Result<Answer, CallError>> {
        Box::pin(self.answer_search(search))
    }

    fn canonical(&self, tool: ToolId) -> ToolId {
        self.snapshot().tool(&tool).map_or(tool, |found| found.id.clone())
    }

    fn preflight(
        &self,
        execution: ExecutionId,
        calls: Vec<PreflightCall>,
    ) -> HandlerFuture<'_, Result<Vec<String>, Box<ErrorReport>>> {
        Box::pin(self.check_program(execution, calls))
    }

    fn refused(&self, execution: ExecutionId, id: CallId, target: &str, error: &CallError) {
        self.record_refusal(execution, id, target, error.code.as_str(), error.clone());
    }
}

/// What goes along with the arguments of a call.
struct Work {
    traceparent: String,
    headers: Vec<(String, String)>,
}

/// Checks the arguments of a call. Those that also go into headers.
fn check_arguments(tool: &Tool, args: &RawValue) -> Result<Vec<(String, String)>, CallError> {
    let invalid = |why: String| {
        CallError::new(ErrorCode::InvalidArguments, format!("the arguments of `{}` are wrong: {why}", tool.id))
    };
    let value: serde_json::Value = serde_json::from_str(args.get()).map_err(|err| invalid(err.to_string()))?;
    tool.check_arguments(&value).map_err(invalid)?;
    Ok(tool.header_arguments(&value))
}

async fn execute(upstream: &Upstream, tool: &Tool, args: &RawValue, work: Work) -> Result<Answer, CallError> {
    let Work { traceparent, headers } = work;
    let result = upstream.execute(&Invocation { tool: tool.id.tool(), args, traceparent, headers }).await?;
    if upstream.settings().checks_results && !result.is_error {
        check_result(tool, &result)?;
    }
    normalise::answer(tool, result)
}

/// Checks a result against what the tool says it returns.
fn check_result(tool: &Tool, result: &CallResult) -> Result<(), CallError> {
    if tool.output_schema.is_none() {
        return Ok(());
    }
    let invalid = |why: String| {
        CallError::new(
            ErrorCode::InvalidResult,
            format!("what `{}` returned is not what it says it returns: {why}", tool.id),
        )
    };
    let text = match &result.structured {
        Some(Item::Object(fields)) => fields.to_raw(),
        Some(Item::Other(value)) => value.clone(),
        None => return Err(invalid("it has no structured content".to_owned())),
    };
    if json::depth(text.get()) > json::MAX_DEPTH {
        return Err(invalid(format!("it is nested more than {} levels deep", json::MAX_DEPTH)));
    }
    let value = serde_json::from_str(text.get()).map_err(|err| invalid(err.to_string()))?;
    tool.check_result(&value).map_err(invalid)
}
