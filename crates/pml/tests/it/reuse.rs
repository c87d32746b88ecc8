//! Capabilities are found among many tools of real servers, by what they were saved and used for.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use pml::{
    audit::Retention,
    broker::{Findings, Policy, Question},
    catalog::{CAPABILITIES, Listing, SavedProgram, Source, Standing},
    serve::{self, Services, TraceSettings, Traces},
    trace::{Context, Finish, Program},
};
use pml_testkit::fixture_path;
use pml_wire::{
    CallId,
    trace::{Entry, TaskKind},
};
use serde_json::{Value, json, value::to_raw_value};
use tokio::time::Instant;

use super::{
    gateway::stdio,
    peer::{Era, Home},
};

/// What the capability was saved for, and the same in other words.
const SAVED_FOR: &str = "open an issue for the nightly build that failed and post its link to the team channel";
const IN_OTHER_WORDS: [&str; 3] = [
    "file a bug report about last night's broken build, then tell the team in chat",
    "the nightly build failed: create a ticket and announce it to everybody in the channel",
    "report a failed build as an issue and notify my team",
];

/// 320 tools of twenty services, in one real server.
pub(crate) fn many_tools(folder: &std::path::Path) -> PathBuf {
    let services = [
        "github", "gitlab", "jira", "slack", "discord", "gmail", "calendar", "drive", "notion", "asana", "trello",
        "sentry", "stripe", "hubspot", "zendesk", "figma", "postgres", "redis", "aws", "weather",
    ];
    let actions = [
        ("create", "issue"),
        ("list", "issues"),
        ("close", "issue"),
        ("post", "message"),
        ("read", "messages"),
        ("send", "mail"),
        ("search", "documents"),
        ("create", "document"),
        ("update", "record"),
        ("delete", "record"),
        ("list", "builds"),
        ("start", "build"),
        ("get", "status"),
        ("add", "comment"),
        ("notify", "channel"),
        ("invite", "member"),
    ];
    let tool = |service: &&str, (verb, noun): &(&str, &str)| {
        json!({
            "name": format!("{service}_{verb}_{noun}"),
            "description": format!("{} {} in {service}", verb[..1].to_uppercase() + &verb[1..], noun),
            "inputSchema": { "type": "object", "properties": { "text": { "type": "string" } } },
            "answers": [{ "json": { "ok": true } }],
        })
    };
    let tools: Vec<Value> =
        services.iter().flat_map(|service| actions.iter().map(move |it| tool(service, it))).collect();
    let path = folder.join("replay.json");
    fs::write(&path, json!({ "tools": tools }).to_string()).unwrap();
    path
}

struct World {
    services: Services,
    /// Executions.
    done: AtomicU64,
    _folder: tempfile::TempDir,
}

impl World {
    async fn start(policy: Policy) -> World {
        let folder = tempfile::tempdir().unwrap();
        let replay = many_tools(folder.path());
        let server = stdio("work", fixture_path().to_string_lossy(), &["--replay", replay.to_str().unwrap()]);
        let (data_dir, network) = (Some(folder.path().to_owned()), serve::Network::default());
        let settings = TraceSettings {
            enabled: true,
            raw: false,
            database: None,
            options: pml::trace::store::Options::default(),
            rules: Arc::default(),
            telemetry: None,
            hub: None,
        };
        let traces = Traces::start(&settings, data_dir.as_deref(), &network).unwrap();
        let services = Services::start(serve::Options {
            program: PathBuf::from(env!("CARGO_BIN_EXE_pml")),
            servers: vec![server.settings],
            policy,
            data_dir,
            model_dir: None,
            encoder: true,
            results_bytes: 1 << 30,
            retention: Retention::default(),
            max_starting: 4,
            network,
            traces,
            learns: true,
            speculates: false,
        })
        .unwrap();
        World { services, done: AtomicU64::new(0), _folder: folder }
    }

    /// What the catalogue shows of capabilities.
    fn save(&self, programs: &[(&str, &str, SavedProgram)]) {
        let raw = |(name, description, program): &(&str, &str, SavedProgram)| {
            let tool = json!({
                "name": name, "description": description, "_meta": program.to_meta(),
                "inputSchema": { "type": "object", "properties": { "title": { "type": "string" } } },
            });
            to_raw_value(&tool).unwrap()
        };
        self.services.catalog.add(CAPABILITIES);
        self.services.catalog.update(Listing::parse(CAPABILITIES, programs.iter().map(raw).collect(), Source::Live));
    }

    /// An execution that called these tools with success.
    async fn did(&self, intent: &str, tools: &[&str]) {
        let context = Arc::new(Context::new(Entry::ExecuteCode, "agent").with_intent(Some(intent.to_owned())));
        let args = to_raw_value(&json!({})).unwrap();
        let record = self.services.recorder.begin(context, Some(Program { code: "return 1", args: &args }));
        let recording = record.recording();
        for (number, tool) in tools.iter().enumerate() {
            let id = CallId(number as u32 + 1);
            recording.issued(id, TaskKind::Tool, tool, Some("{}"));
            recording.started(id, tool);
            recording.ended(id, TaskKind::Tool, Ok("1"));
            recording.answered(1);
        }
        let (_, receipt) = record.finish(Finish { outcome: Ok(Some("1")), warnings: &[] });
        receipt.wait().await;
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    async fn find(&self, query: &str) -> Findings {
        self.services.broker.prepare_learning();
        let learned = || self.services.broker.learned().and_then(|view| Some(view.learned()?.status().traces));
        let until = Instant::now() + Duration::from_secs(20);
        while learned() < Some(self.done.load(Ordering::Relaxed)) {
            assert!(Instant::now() < until, "{:?} traces are learned", learned());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.services.broker.search(Question::new(query.to_owned(), None, None).unwrap()).await
    }

    async fn stop(self) {
        self.services.stop().await;
    }
}

fn names(findings: &Findings) -> Vec<String> {
    findings.found.iter().map(|found| found.tool.id.to_string()).collect()
}

fn program(tools: &[&str], standing: Standing) -> SavedProgram {
    let tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
    SavedProgram { tools, intents: vec![SAVED_FOR.to_owned()], standing, ..SavedProgram::default() }
}

const TOOLS: [&str; 2] = ["work:github_create_issue", "work:slack_notify_channel"];
const REPORT: &str = "capabilities:builds_report";

#[tokio::test]
async fn a_task_in_other_words_finds_the_capability_first_among_320_tools() {
    let world = World::start(Policy::default()).await;
    let plain = names(&world.find(IN_OTHER_WORDS[0]).await);
    assert!(plain.len() == 10 && plain.iter().all(|name| name.starts_with("work:")), "{plain:?}");
    world.did(SAVED_FOR, &TOOLS).await;
    world.save(&[("builds_report", SAVED_FOR, program(&TOOLS, Standing::Sound))]);
    for query in IN_OTHER_WORDS {
        let found = world.find(query).await;
        assert!(found.searched > 300, "{}", found.searched);
        assert_eq!(names(&found)[0], REPORT, "{query}: {:?}", names(&found));
    }
    // What has nothing to do with it is found as before.
    let other = names(&world.find("what is the weather").await);
    assert!(other[0].starts_with("work:weather") && !other.contains(&REPORT.to_owned()), "{other:?}");
    world.stop().await;
}

#[tokio::test]
async fn use_makes_a_capability_known_for_words_that_it_was_never_saved_with() {
    let world = World::start(Policy::default()).await;
    let query = "wrap up the red pipeline as usual";
    world.save(&[("builds_report", SAVED_FOR, program(&TOOLS, Standing::Sound))]);
    assert_ne!(names(&world.find(query).await).first().map(String::as_str), Some(REPORT));
    for round in 0..12 {
        world.did(&format!("wrap up the red pipeline, round {round}"), &[REPORT]).await;
        world.did(&format!("invite member {round} to the workspace"), &["work:slack_invite_member"]).await;
    }
    let found = world.find(query).await;
    assert_eq!(names(&found)[0], REPORT, "{:?}", names(&found));
    let why = found.found[0].reasons.join("; ");
    assert!(why.contains("saved for requests like this, probability 0."), "{why}");
    world.stop().await;
}

#[tokio::test]
async fn what_is_gone_changed_or_denied_is_not_put_forward() {
    let policy = Policy { deny: vec!["work:slack_*".to_owned()], ..Policy::default() };
    for (policy, tools, standing, is_shown, said) in [
        (Policy::default(), &TOOLS[..], Standing::Gone, true, "is gone"),
        (Policy::default(), &TOOLS[..], Standing::Changed, true, "has changed"),
        (Policy::default(), &TOOLS[..], Standing::Deprecated, true, "is deprecated"),
        (policy.clone(), &TOOLS[..], Standing::Sound, true, "may not be called"),
        (policy, &TOOLS[1..], Standing::Sound, false, ""),
    ] {
        let world = World::start(policy).await;
        for _ in 0..5 {
            world.did(SAVED_FOR, &TOOLS).await;
        }
        world.save(&[("builds_report", SAVED_FOR, program(tools, standing))]);
        let found = world.find(SAVED_FOR).await;
        let shown = found.found.iter().position(|found| found.tool.id.as_str() == REPORT);
        assert_eq!(shown.is_some(), is_shown, "{standing:?} {:?}", names(&found));
        if let Some(shown) = shown {
            assert_eq!(shown, found.found.len() - 1, "{:?}", names(&found));
            assert!(found.found[shown].reasons.join("; ").contains(said), "{:?}", found.found[shown].reasons);
        }
        world.stop().await;
    }
}

#[tokio::test]
async fn a_program_that_worked_three_times_could_have_a_name() {
    let home = Home::with_fixture("");
    let program = |number: u32| {
        let code =
            format!("const sum = await mcp.fix.add({{ a: {number}, b: 2 }}); await mcp.fix.object({{}}); return sum");
        json!({ "code": code, "intent": format!("add up the invoice number {number} and look at the object") })
    };
    let line = |result: &Value| {
        let warnings = result["structuredContent"]["warnings"].as_array().unwrap().clone();
        warnings.iter().filter_map(|line| line.as_str().map(str::to_owned)).find(|line| line.contains("this worked"))
    };
    let mut first = home.connected(Era::Legacy).await;
    for number in 0..2 {
        let result = first.call("execute_code", program(number)).await;
        assert_eq!(line(&result), None, "twice is not enough: {result}");
    }
    first.end().await;
    // What another session did counts, as soon as it is learned.
    let mut second = home.connected(Era::Legacy).await;
    let mut proposed = None;
    for number in 2..60 {
        let result = second.call("execute_code", program(number)).await;
        proposed = line(&result);
        if proposed.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let proposed = proposed.expect("a proposal");
    assert!(proposed.contains("\"save_as\": \"fix.invoice_number_look\""), "{proposed}");
    let again = second.call("execute_code", program(99)).await;
    assert_eq!(line(&again), None, "once per session: {again}");
    let mut other = program(99);
    other.as_object_mut().unwrap().remove("intent");
    let mut third = home.connected(Era::Legacy).await;
    assert_eq!(line(&third.call("execute_code", other).await), None, "without an intent");
    second.end().await;
    third.end().await;
}

#[tokio::test]
async fn what_one_session_saved_another_finds_first_in_other_words() {
    let home = Home::empty();
    let (fixture, replay) = (fixture_path(), many_tools(home.path()));
    home.configure(&format!(
        "[sandbox]\nmode = \"subprocess\"\n[servers.work]\ncommand = {:?}\nargs = [\"--replay\", {:?}]\n",
        fixture.to_str().unwrap(),
        replay.to_str().unwrap(),
    ));
    let code = r#"const issue = await mcp.work.github_create_issue({ text: "the nightly build failed" });
        await mcp.work.slack_notify_channel({ text: "there is an issue" });
        return issue.ok"#;
    let mut first = home.connected(Era::Legacy).await;
    let saved =
        first.call("execute_code", json!({ "code": code, "intent": SAVED_FOR, "save_as": "builds.report" })).await;
    assert_eq!(saved["structuredContent"]["result"], true, "{saved}");
    first.end().await;
    let mut second = home.connected(Era::Modern).await;
    for query in IN_OTHER_WORDS {
        let found = second.call("search_tools", json!({ "query": query })).await["structuredContent"].clone();
        assert!(found["searched"].as_u64() > Some(300), "{found}");
        assert_eq!(found["tools"][0]["name"], REPORT, "{query}: {found}");
    }
    let value = second.value("return await mcp.capabilities.builds_report({})").await;
    assert_eq!(value, true);
    second.end().await;
}
