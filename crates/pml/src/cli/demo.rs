//! `pml demo`: a program that comes with pml, on servers that come with pml.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

use pml_wire::ErrorCode;

use super::{DEMO_SERVER, USAGE, fail, print, starting, with_services};
use crate::{
    broker::Policy,
    config::Config,
    error::Error,
    execution::{self, Event, Request},
    sandbox,
    shown::counted,
    upstream::{Secret, Settings, Target},
};

const PROGRAM: &str = include_str!("demo.ts");

/// What is in the folder that the program looks through.
const FILES: [(&str, &str); 3] = [
    ("garden.md", "# Garden\nTODO: water the tomatoes\nThe roses are fine.\nTODO: ask Ada about the bees\n"),
    ("house.md", "# House\nEverything works.\n"),
    ("trip.md", "# Trip\nTODO: book the train\n"),
];

pub(super) async fn run(mut config: Config) -> ExitCode {
    let folder = match Folder::make() {
        Ok(folder) => folder,
        Err(err) => {
            let message = format!("no folder can be made for the demonstration: {err}");
            return fail(&Error::new(ErrorCode::ConfigInvalid, message).caused_by(err), USAGE);
        }
    };
    // Only its own servers, and nothing kept: a demonstration changes nothing.
    config.servers = ["clock", "files", "notes"].map(|name| server(name, &folder.0)).into();
    config.policy = Policy::default();
    config.data_dir = None;
    let mut stderr = io::stderr();
    let _ = writeln!(stderr, "An agent would send this program:\n");
    for line in PROGRAM.lines() {
        let _ = writeln!(stderr, "    {line}");
    }
    let _ = writeln!(stderr, "\nThree MCP servers are started, each a process of its own:\n");
    let listener = |event: Event<'_>| match event {
        Event::Log(log) => print::log(log),
        Event::Waiting | Event::Awake => {}
        Event::CallEnded(call) => {
            let verdict = match &call.error {
                None => "ok".to_owned(),
                Some(error) => error.code.to_string(),
            };
            let _ = writeln!(io::stderr(), "  → {} {verdict} in {}", call.tool, print::duration(call.duration));
        }
        Event::CallStarted(_) | Event::CallProgress { .. } | Event::Progress(_) => {}
    };
    let request = Request { name: "demo.ts".to_owned(), ..Request::new(PROGRAM) };
    let outcome = with_services(&config, config.sandbox.mode, async |pool, services, interrupt| {
        for started in starting::all(services.servers.all(), &interrupt).await {
            let name = &started.server.settings().name;
            let tools = services.catalog.snapshot().listing(name).map_or(0, |listing| listing.tools.len());
            let (tools, took) = (counted(tools, "tool", "tools"), print::duration(started.duration));
            let _ = writeln!(io::stderr(), "  {name}: {tools}, ready in {took}");
        }
        let _ = writeln!(io::stderr(), "\npml runs the program in a process that can only compute and ask:\n");
        execution::run(&pool, request, config.limits, &*services.broker, &listener, &interrupt).await
    })
    .await;
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(err) => return fail(&err, USAGE),
    };
    let _ = writeln!(stderr, "\nand returns:\n");
    match print::outcome(&outcome) {
        Ok(()) if outcome.result.is_ok() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn server(name: &str, folder: &Path) -> Settings {
    let folder = folder.to_string_lossy().into_owned();
    let target = Target::Stdio {
        command: sandbox::this_program().to_string_lossy().into_owned(),
        args: [DEMO_SERVER, name, &folder].map(Secret::new).into(),
        env: BTreeMap::new(),
        cwd: None,
    };
    Settings::new(name, Ok(target))
}

/// A folder that is gone when the demonstration is over.
struct Folder(PathBuf);

impl Folder {
    fn make() -> io::Result<Folder> {
        let name = format!("pml-demo-{}-{:08x}", std::process::id(), getrandom::u32().unwrap_or(0));
        let folder = Folder(std::env::temp_dir().join(name));
        fs::DirBuilder::new().mode(0o700).create(&folder.0)?;
        for (name, text) in FILES {
            fs::write(folder.0.join(name), text)?;
        }
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
