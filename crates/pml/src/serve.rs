//! Builds everything, and owns its end.

use std::{path::PathBuf, sync::Arc, time::Duration};

use pml_wire::ErrorCode;
use reqwest::redirect;
use tokio_util::task::TaskTracker;

use crate::{
    audit::Audit,
    broker::{Broker, Parts, Policy},
    catalog::{Cache, Catalog, typescript},
    error::Error,
    events::Bus,
    upstream::{self, Context, Settings, Target, Upstream},
};

/// How long a remote server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);
const MAX_REDIRECTS: usize = 5;

/// What to build.
#[derive(Clone, Debug)]
pub struct Options {
    /// pml itself, which keeps the processes of servers.
    pub program: PathBuf,
    pub servers: Vec<Settings>,
    pub policy: Policy,
    /// Where lists of tools and the audit log are kept, if anywhere.
    pub data_dir: Option<PathBuf>,
    /// On whose behalf calls are made, for the audit log.
    pub who: String,
}

/// Everything between programs and servers.
#[derive(Debug)]
pub struct Services {
    pub broker: Arc<Broker>,
    pub catalog: Catalog,
    pub servers: Vec<Upstream>,
    pub bus: Bus,
    tasks: TaskTracker,
}

impl Services {
    /// Builds everything. No server is started yet.
    pub fn start(options: Options) -> Result<Services, Error> {
        let Options { program, servers: settings, policy, data_dir, who } = options;
        let bus = Bus::default();
        let catalog = Catalog::new(settings.iter().map(|server| server.name.clone()));
        let context = Context {
            program,
            catalog: catalog.clone(),
            cache: Cache::new(data_dir.as_deref()),
            bus: bus.clone(),
            // Making one reads all certificates of the system, so not for nothing.
            client: match settings.iter().any(|server| matches!(server.target, Ok(Target::Http { .. }))) {
                true => Some(client()?),
                false => None,
            },
        };
        let tasks = TaskTracker::new();
        let mut servers = Vec::new();
        for settings in settings {
            let (server, actor) = upstream::start(settings, context.clone());
            tasks.spawn(actor);
            servers.push(server);
        }
        let audit = match data_dir {
            Some(folder) => Audit::open(&folder).unwrap_or_else(|err| {
                tracing::warn!(error = %err, "there is no audit log");
                Audit::default()
            }),
            None => Audit::default(),
        };
        let broker = Broker::new(Parts {
            catalog: catalog.clone(),
            servers: servers.clone(),
            policy,
            bus: bus.clone(),
            audit,
            who,
        });
        Ok(Services { broker: Arc::new(broker), catalog, servers, bus, tasks })
    }

    /// Starts, in the background, the servers that a program names: by the time of its first call
    /// they may be there. Nothing depends on it.
    pub fn anticipate(&self, code: &str) {
        for server in self.named_in(code) {
            let server = server.clone();
            self.tasks.spawn(async move {
                // Why it did not start is said by the call that needs it.
                let _ = server.init().await;
            });
        }
    }

    /// The servers that a program seems to call, by its text: a guess, on which nothing depends.
    pub fn named_in(&self, code: &str) -> impl Iterator<Item = &Upstream> {
        self.servers.iter().filter(move |server| {
            let name = &server.settings().name;
            mentions(code, name) || typescript::alias(name).is_some_and(|alias| mentions(code, &alias))
        })
    }

    /// Ends every server and returns when nothing of them is left, and all is written.
    pub async fn stop(self) {
        futures_util::future::join_all(self.servers.iter().map(Upstream::terminate)).await;
        self.tasks.close();
        self.tasks.wait().await;
        if let Some(broker) = Arc::into_inner(self.broker) {
            broker.close();
        }
    }
}

/// Does `mcp.name`, `mcp["name"]` or `"name:tool"` stand in a program?
fn mentions(code: &str, name: &str) -> bool {
    let is_end = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$');
    let before = ["mcp.", "mcp?.", "mcp[\"", "mcp['", "mcp[`"];
    let as_member = before.iter().any(|before| {
        code.match_indices(&format!("{before}{name}")).any(|(at, found)| is_end(&code[at + found.len()..]))
    });
    as_member || ["\"", "'", "`"].iter().any(|quote| code.contains(&format!("{quote}{name}:")))
}

/// One client for all remote servers.
fn client() -> Result<reqwest::Client, Error> {
    // An error says that there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let same_host = redirect::Policy::custom(|attempt| {
        // Headers with tokens go along, so they go nowhere else.
        let is_same = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
        // The others turn a message into a question.
        let keeps_message = matches!(attempt.status().as_u16(), 307 | 308);
        match is_same && keeps_message && attempt.previous().len() <= MAX_REDIRECTS {
            true => attempt.follow(),
            false => attempt.stop(),
        }
    });
    reqwest::Client::builder()
        .user_agent(concat!("pml/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .redirect(same_host)
        .build()
        .map_err(|err| {
            Error::new(ErrorCode::ConfigInvalid, format!("no HTTP client can be made: {err}")).caused_by(err)
        })
}

#[cfg(test)]
mod tests {
    use super::mentions;

    #[test]
    fn a_server_is_mentioned_where_it_is_called() {
        let table = [
            ("await mcp.git.log({})", true),
            ("await mcp['git'].log({})", true),
            ("callTool(\"git:log\", {})", true),
            ("return 'digits of pi'", false),
            ("mcp.github.x()", false),
            ("// git", false),
        ];
        for (code, expected) in table {
            assert_eq!(mentions(code, "git"), expected, "{code}");
        }
    }
}
