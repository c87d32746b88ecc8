//! `pml serve`: the gateway itself.

use std::{
    convert::Infallible,
    io::{self, IsTerminal, Write},
    net::{Ipv4Addr, SocketAddr},
    process::ExitCode,
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use pml_wire::ErrorCode;
use rustix::process::{Resource, Rlimit};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::Notify,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{USAGE, fail, token::unknown_profile, with_services};
use crate::{
    capability::{self, CapabilityName, Registry},
    config::{self, Config, Gateway, Loaded, Project, Sources},
    error::Error,
    frontend::{Access, Expose, Frontend, Parts, Settings, TokenBook},
    hub::{Hub, HubSettings, client::HubClient},
    serve::{self, Services},
    shown::visible,
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Serve HTTP here instead of standard input, such as 127.0.0.1:7777 [port 0: any that is free]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    http: Option<SocketAddr>,

    /// Let every process of this machine in without a token
    #[arg(long, requires = "http")]
    no_token: bool,

    /// What clients see: pml's own tools (code), the servers' own (passthrough) or both; and capabilities by name [may be repeated]
    #[arg(long, value_name = "WHAT")]
    expose: Vec<ExposeArg>,

    /// Hold clients without a token of their own to this profile of pml.toml
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,

    /// With passthrough: list tools under their own names where only one server has it, not as server__tool
    #[arg(long)]
    plain_names: bool,
}

impl Args {
    /// Over HTTP many clients come at once; on standard input there is one.
    pub(super) fn has_many_clients(&self) -> bool {
        self.http.is_some()
    }
}

#[derive(Clone, Debug)]
enum ExposeArg {
    Lists(Expose),
    Capability(CapabilityName),
}

impl FromStr for ExposeArg {
    type Err = String;

    fn from_str(text: &str) -> Result<ExposeArg, String> {
        match text {
            "code" => Ok(ExposeArg::Lists(Expose::Code)),
            "passthrough" => Ok(ExposeArg::Lists(Expose::Passthrough)),
            "both" => Ok(ExposeArg::Lists(Expose::Both)),
            name => {
                name.parse().map(ExposeArg::Capability).map_err(|why| format!("{why}; or code, passthrough or both"))
            }
        }
    }
}

/// How long the start waits for the capabilities that there are.
const READ_CAPABILITIES: Duration = Duration::from_millis(500);
/// Between two syncs of capabilities with those of the hub.
const COMPARE: Duration = Duration::from_secs(60);
/// Open files: two for each of the connections that are let in, and as many for everything else.
const FILES: u64 = 4096;

/// Where clients come from.
enum Door {
    Stdio,
    Http(TcpListener, Box<Access>),
}

pub(super) async fn run(args: Args, mut config: Config, project: Project, sources: Sources) -> ExitCode {
    let (mut expose, mut exposed) = (Expose::Code, Vec::new());
    for what in &args.expose {
        match what {
            ExposeArg::Lists(lists) => expose = *lists,
            ExposeArg::Capability(name) => exposed.push(name.clone()),
        }
    }
    if let Some(err) = args.profile.as_deref().and_then(|profile| unknown_profile(profile, &config)) {
        return fail(&err, USAGE);
    }
    // Servers are told that they may ask the client only if somebody asks it for them.
    let relays = expose != Expose::Code;
    config.servers.iter_mut().for_each(|server| server.relays = relays);
    let door = match args.http {
        None => Door::Stdio,
        Some(address) => match open(address, &args, &config).await {
            Ok(door) => door,
            Err(err) => return fail(&err, USAGE),
        },
    };
    if matches!(door, Door::Http(..)) {
        raise_file_limit();
    }
    greet(&door);
    let served = with_services(&config, config.sandbox.mode, async |pool, services, interrupt| {
        let capabilities = services.provide_capabilities(&pool, &config.traces.rules);
        let registry = capabilities.as_ref().map(|saver| Arc::clone(&saver.registry));
        if let Some(registry) = &registry {
            // The first search of a client finds them, unless the database takes long; then they follow.
            let read = tokio::time::timeout(READ_CAPABILITIES, registry.read()).await;
            for name in exposed.iter().filter(|name| read.is_ok() && registry.named(&name.to_string()).is_none()) {
                tracing::warn!(capability = %name, "--expose names a capability that is not there; it is listed once it is");
            }
        }
        let frontend = Frontend::new(Parts {
            pool,
            broker: Arc::clone(&services.broker),
            catalog: services.catalog.clone(),
            servers: services.servers.clone(),
            bus: services.bus.clone(),
            recorder: services.recorder.clone(),
            settings: settings(&config, &project),
            expose,
            plain_names: args.plain_names,
            concurrent_runs: config.gateway.concurrent_runs,
            capabilities,
            exposed: exposed.clone(),
        });
        frontend.learn_unknown();
        if expose != Expose::Passthrough {
            services.broker.prepare_search();
            services.broker.prepare_learning();
        }
        // A task of its own: what waits for the hub is not looked at whenever a client says something.
        let _following = registry.map(|registry| {
            AbortOnDropHandle::new(tokio::spawn(follow_capabilities(registry, services.hub().cloned())))
        });
        let (stop, reloaded) = (CancellationToken::new(), Notify::new());
        let serving = async {
            match door {
                Door::Stdio => match &args.profile {
                    Some(profile) => frontend.for_profile(profile).serve_stdio(&stop).await,
                    None => frontend.serve_stdio(&stop).await,
                },
                Door::Http(listener, access) => {
                    let settings = HubSettings {
                        requests_per_minute: config.hub.requests_per_minute,
                        rules: config.traces.rules.clone(),
                    };
                    let hub = services.hub_store().map(|store| Hub::new(store, settings));
                    frontend.serve_http(listener, *access, hub, &stop).await
                }
            }
        };
        let mut serving = std::pin::pin!(serving);
        let served = tokio::select! {
            served = &mut serving => served,
            never = follow(&sources, (&config, &project), relays, (&frontend, &services), &reloaded) => match never {},
            never = services.say_idle_rules(&reloaded) => match never {},
            () = interrupt.cancelled() => {
                // What runs may finish, and its answer is delivered; then the doors close.
                let served = tokio::select! {
                    () = frontend.drain(config.gateway.stop_grace) => None,
                    served = &mut serving => Some(served),
                };
                stop.cancel();
                match served {
                    Some(served) => served,
                    None => serving.await,
                }
            }
        };
        frontend.end().await;
        served
    });
    match served.await {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(err)) => {
            let message = format!("pml cannot serve: {err}");
            fail(&Error::new(ErrorCode::ConfigInvalid, message).caused_by(err), USAGE)
        }
        Err(err) => fail(&err, USAGE),
    }
}

/// Follows what becomes of capabilities, here and at the hub, for as long as it is polled.
async fn follow_capabilities(registry: Arc<Registry>, hub: Option<HubClient>) -> Infallible {
    let syncing = async {
        let Some(hub) = hub else { return std::future::pending().await };
        // Each is told once, and again if something else was told meanwhile.
        let (mut conflicts, mut failure) = (Vec::new(), None);
        loop {
            match capability::sync(&registry, &hub, capability::Removed::StayRemoved).await {
                Ok(synced) => {
                    for (name, how) in &synced.settled {
                        tracing::warn!("the capability `{name}`: {how}");
                    }
                    for (name, why) in synced.conflicts.iter().filter(|conflict| !conflicts.contains(*conflict)) {
                        tracing::warn!("the capability `{name}` is not the hub's: {why}");
                    }
                    (conflicts, failure) = (synced.conflicts, None);
                }
                Err(err) => {
                    let told = err.to_string();
                    if failure.as_ref() != Some(&told) {
                        tracing::warn!(error = %err, "capabilities are not synced with the hub's");
                    }
                    failure = Some(told);
                }
            }
            tokio::time::sleep(COMPARE).await;
        }
    };
    tokio::select! {
        never = registry.follow() => never,
        never = syncing => never,
    }
}

/// Lets this process open as many files as its connections, servers and runs may need together. Many systems begin with
/// 1024, which is less.
pub(super) fn raise_file_limit() {
    let Rlimit { current, maximum } = rustix::process::getrlimit(Resource::Nofile);
    let enough = maximum.map_or(FILES, |most| most.min(FILES));
    if current.is_none_or(|current| current >= enough) {
        return;
    }
    if let Err(err) = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: Some(enough), maximum }) {
        tracing::warn!("the limit of open files stays as it is: {err}");
    }
}

/// Takes over what changes in the configuration, for as long as it is polled. A configuration that cannot be used
/// changes nothing, and neither does a project's file that the user has not trusted as it is now.
async fn follow(
    sources: &Sources,
    (first, project): (&Config, &Project),
    relays: bool,
    (frontend, services): (&Frontend, &Services),
    reloaded: &Notify,
) -> Infallible {
    let (mut current, mut project) = (first.clone(), project.clone());
    let mut files = serve::Files::new(Config::files(sources));
    let mut hangup = signal(SignalKind::hangup()).ok();
    loop {
        tokio::select! {
            () = files.changed() => {}
            Some(Some(())) = async { Some(hangup.as_mut()?.recv().await) } => {}
        }
        let Loaded { mut config, project: now } = match Config::load_again(sources, &project) {
            Ok(loaded) => loaded,
            Err(err) => {
                tracing::warn!("the configuration stays as it was: {err}");
                continue;
            }
        };
        if let Some((message, hint)) = now.warning().filter(|_| now != project) {
            tracing::warn!("{}; {}", visible(&message), visible(&hint));
        }
        project = now;
        config.servers.iter_mut().for_each(|server| server.relays = relays);
        serve::keep_within(&mut config.limits, &first.limits);
        if config == current {
            frontend.set_settings(settings(&config, &project));
            continue;
        }
        services.set_bounds(config.max_starting, config.audit);
        let fixed = |config: &Config| Gateway { output_tokens: 0, ..config.gateway.clone() };
        let unchanged = |config: &Config| (config.sandbox.clone(), config.search.clone(), fixed(config));
        if unchanged(&config) != unchanged(&current) {
            tracing::warn!(
                "[sandbox], [search], and [gateway] but for output_tokens and max_starting count when pml is started again"
            );
        }
        let (servers, policy) = (config.servers.clone(), config.policy.clone());
        match services.take_over(frontend, servers, policy, settings(&config, &project)) {
            Ok(changes) => tracing::info!(?changes, "the configuration has changed"),
            Err(err) => {
                tracing::warn!("the configuration stays as it was: {err}");
                continue;
            }
        }
        reloaded.notify_one();
        current = config;
    }
}

/// Opens the address, and says who may come in.
async fn open(address: SocketAddr, args: &Args, config: &Config) -> Result<Door, Error> {
    let wrong = |message: String| Error::new(ErrorCode::ConfigInvalid, message);
    if args.no_token && !address.ip().is_loopback() {
        let message = format!("{address} can be reached from other machines, so a token is needed");
        return Err(wrong(message).with_hint("leave out --no-token, or listen on 127.0.0.1"));
    }
    let token = match (args.no_token, config::token(), &config.data_dir) {
        (true, _, _) => None,
        (false, Some(token), _) => Some(serve::named_token(&token)?),
        (false, None, Some(folder)) => Some(serve::token(folder)?),
        (false, None, None) => {
            let hint = "name a folder with --data-dir, or set PML_TOKEN";
            return Err(wrong("there is no place to keep the token".to_owned()).with_hint(hint));
        }
    };
    let listener = TcpListener::bind(address).await.map_err(|err| {
        let error = wrong(format!("pml cannot listen on {address}: {err}"));
        let error = match err.kind() {
            io::ErrorKind::AddrInUse => error.with_hint("choose another port; port 0 takes any that is free"),
            _ => error,
        };
        error.caused_by(err)
    })?;
    let access = Access {
        token,
        names: config.data_dir.as_deref().map(TokenBook::new),
        profile: args.profile.clone(),
        hosts: config.gateway.allowed_hosts.clone(),
        origins: config.gateway.allowed_origins.clone(),
        requests_per_minute: config.gateway.requests_per_minute,
    };
    Ok(Door::Http(listener, Box::new(access)))
}

/// Reads `127.0.0.1:7777`, `localhost:7777` or `7777`.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let here = |port: &str| port.parse().ok().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let address = text.parse().ok().or_else(|| here(text.strip_prefix("localhost:").unwrap_or(text)));
    address.ok_or_else(|| "write an address and a port, such as 127.0.0.1:7777, or a port alone".to_owned())
}

/// Tells a person at a terminal, or a script, what to do.
fn greet(door: &Door) {
    let mut stderr = io::stderr();
    // If stderr is closed there is nobody to tell.
    let _ = match door {
        Door::Http(listener, _) => match listener.local_addr() {
            Ok(address) => writeln!(stderr, "listening on http://{address}/mcp"),
            Err(_) => Ok(()),
        },
        Door::Stdio if io::stdin().is_terminal() => writeln!(
            stderr,
            "pml serve speaks MCP on standard input and output. A client starts it, such as:\n\
             \n    claude mcp add pml -- pml serve\n\
             \nCtrl-C ends it."
        ),
        Door::Stdio => Ok(()),
    };
}

fn settings(config: &Config, project: &Project) -> Settings {
    Settings {
        limits: config.limits,
        output_tokens: config.gateway.output_tokens,
        is_project_distrusted: project.is_distrusted(),
        ceilings: Arc::new(config.ceilings.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        let table = [
            ("127.0.0.1:7777", Some("127.0.0.1:7777")),
            ("localhost:7777", Some("127.0.0.1:7777")),
            ("7777", Some("127.0.0.1:7777")),
            ("0", Some("127.0.0.1:0")),
            ("[::1]:80", Some("[::1]:80")),
            ("0.0.0.0:80", Some("0.0.0.0:80")),
            ("example.org:80", None),
            ("127.0.0.1", None),
            ("127.0.0.1:99999", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(address(text).ok(), expected.map(|address| address.parse().unwrap()), "{text}");
        }
    }
}
