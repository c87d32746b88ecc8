//! A real PostgreSQL server for tests and benches, started by `scripts/postgres` and gone with the program that started it.
//!
//! Tests that do not harm the server share one ([`Postgres::shared`]), each with a [`Database`] of its own.

use std::{
    fmt::Write as _,
    io::{BufRead, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use tokio_postgres::{Client, Config, NoTls};

/// What is said to the script, and what it says.
#[derive(Debug)]
struct Pipes {
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

/// A running server. Ended and removed when it is dropped, and when this program ends without that.
#[derive(Debug)]
pub struct Postgres {
    child: Child,
    pipes: Mutex<Pipes>,
    folder: PathBuf,
    port: u16,
    superuser: String,
}

/// A database of one test. Removed when it is dropped.
#[derive(Debug)]
pub struct Database<'a> {
    server: &'a Postgres,
    pub name: String,
}

/// Does a commit wait for the disk?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// As in production, for measuring.
    Synced,
    /// Survives the end of the server, not that of the machine.
    Unsynced,
}

impl Postgres {
    /// The server that the tests of this program share.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn shared() -> &'static Postgres {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(|| Postgres::start(Durability::Unsynced))
    }

    /// Starts a server.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn start(durability: Durability) -> Postgres {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates lie in the repository");
        #[expect(clippy::disallowed_methods, reason = "tests start the script directly")]
        let mut command = Command::new(root.join("scripts/postgres"));
        if durability == Durability::Synced {
            command.arg("--durable");
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("scripts/postgres starts");
        let stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let pipes = Mutex::new(Pipes { stdin: child.stdin.take(), stdout });
        let mut server = Postgres { child, pipes, folder: PathBuf::new(), port: 0, superuser: String::new() };
        let line = server.line();
        let mut words = line.split_whitespace();
        let mut word = || words.next().unwrap_or_else(|| panic!("scripts/postgres says `{line}`")).to_owned();
        (server.folder, server.port, server.superuser) = (word().into(), word().parse().expect("a port"), word());
        server
    }

    /// Makes an empty database.
    ///
    /// # Panics
    ///
    /// If the server does not make it.
    pub fn database(&self) -> Database<'_> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        self.execute("postgres", &format!("CREATE DATABASE {name}"));
        Database { server: self, name }
    }

    /// Kills the server and starts it again.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn restart(&self) {
        assert_eq!(self.tell("restart"), "restarted");
    }

    /// Kills the server.
    ///
    /// # Panics
    ///
    /// If it does not end.
    pub fn stop(&self) {
        assert_eq!(self.tell("stop"), "stopped");
    }

    /// Starts a server that was stopped.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn start_again(&self) {
        assert_eq!(self.tell("start"), "started");
    }

    /// The port on 127.0.0.1, which asks for a password.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn tell(&self, command: &str) -> String {
        let mut pipes = self.pipes.lock().expect("no test panics while it talks to the script");
        let stdin = pipes.stdin.as_mut().expect("stdin is open while the server is wanted");
        writeln!(stdin, "{command}").expect("the script reads its stdin");
        let mut line = String::new();
        pipes.stdout.read_line(&mut line).expect("the script answers");
        line.trim().to_owned()
    }

    fn line(&self) -> String {
        let mut line = String::new();
        let mut pipes = self.pipes.lock().expect("no test panics while it talks to the script");
        pipes.stdout.read_line(&mut line).expect("the script answers");
        line
    }

    /// Executes statements as superuser, on a thread of its own, so that tests may call it from wherever they are.
    ///
    /// # Panics
    ///
    /// If they fail.
    fn execute(&self, database: &str, statements: &str) -> Vec<Vec<Option<String>>> {
        let mut config = Config::new();
        config.host_path(&self.folder).port(self.port).user(&self.superuser).dbname(database);
        thread::scope(|scope| {
            let done = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                runtime.block_on(async {
                    let (client, connection) = config.connect(NoTls).await.expect("the server accepts connections");
                    let driver = tokio::spawn(connection);
                    let rows = rows(&client, statements).await;
                    drop(client);
                    let _ = driver.await;
                    rows
                })
            });
            done.join().expect("the statements are executed")
        })
    }
}

async fn rows(client: &Client, statements: &str) -> Vec<Vec<Option<String>>> {
    let messages = client.simple_query(statements).await.unwrap_or_else(|err| panic!("{statements}: {err:?}"));
    let mut rows = Vec::new();
    for message in messages {
        if let tokio_postgres::SimpleQueryMessage::Row(row) = message {
            rows.push((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect());
        }
    }
    rows
}

impl Database<'_> {
    /// Its address on the Unix socket, as superuser.
    pub fn url(&self) -> String {
        let folder = encode(&self.server.folder.to_string_lossy());
        format!("postgres://{}@{folder}:{}/{}", self.server.superuser, self.server.port, self.name)
    }

    /// Its address on the port, as a user with a password.
    pub fn url_with_password(&self, host: &str, user: &str, password: &str) -> String {
        format!("postgres://{user}:{}@{host}:{}/{}", encode(password), self.server.port, self.name)
    }

    /// Executes statements as superuser, and returns the rows as text.
    ///
    /// # Panics
    ///
    /// If they fail.
    pub fn execute(&self, statements: &str) -> Vec<Vec<Option<String>>> {
        self.server.execute(&self.name, statements)
    }
}

/// A text as a part of an address.
fn encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => encoded.push(char::from(byte)),
            byte => drop(write!(encoded, "%{byte:02X}")),
        }
        encoded
    })
}

impl Drop for Database<'_> {
    fn drop(&mut self) {
        // A test that fails may have left the server in any state.
        if !thread::panicking() {
            self.server.execute("postgres", &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Ok(pipes) = self.pipes.get_mut() {
            pipes.stdin = None;
        }
        let _ = self.child.wait();
    }
}
