//! The part of `pml doctor` about clients: who is here, who uses pml, and what is configured twice.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use serde_json::{Value, json};

use super::import;
use crate::{
    clients::{self, Base, Client, Document, How, Source},
    config::{self, Places, ServerFile, Sources},
    shown::visible,
};

/// What is to be said about one place where a client has servers.
#[derive(Debug)]
struct Report {
    client: Client,
    source: Source,
    /// `None` if there is no file, the error if it cannot be understood.
    servers: Option<Result<usize, String>>,
    pml: Option<Entry>,
    /// Names of servers that pml has too.
    double: Vec<String>,
}

/// pml, as the client has it.
#[derive(Debug)]
struct Entry {
    name: String,
    how: How,
    /// What is wrong with it.
    trouble: Option<String>,
}

/// Shows how the clients are. The same as JSON, and whether all are well.
pub(super) fn check(as_json: bool, sources: &Sources) -> (Vec<Value>, bool) {
    let places = Places::here();
    // A folder that is gone has no clients' files either.
    let project = import::project(None).unwrap_or_default();
    let own = config::written_file(sources).unwrap_or_default();
    let mut rows = Vec::new();
    let mut all_well = true;
    let mut stdout = io::stdout().lock();
    let mut absent = Vec::new();
    if !as_json {
        let _ = writeln!(stdout, "clients:");
    }
    for client in Client::ALL {
        let reports: Vec<_> = client
            .sources(&places, &project)
            .into_iter()
            .map(|source| report(client, source, &places, &own.servers.iter().collect::<Vec<_>>()))
            .collect();
        let is_found = client.is_here(&places) || reports.iter().any(|report| report.servers.is_some());
        all_well &= reports.iter().all(Report::is_well);
        if as_json {
            rows.push(json!({
                "client": client.id(), "found": is_found,
                "installed": reports.iter().any(|report| report.pml.is_some()),
                "files": reports.iter().filter_map(Report::to_json).collect::<Vec<_>>(),
            }));
        } else if is_found {
            print(&mut stdout, client, &reports);
        } else {
            absent.push(client.to_string());
        }
    }
    if !as_json && !absent.is_empty() {
        let _ = writeln!(stdout, "  -        not found: {}", absent.join(", "));
    }
    (rows, all_well)
}

fn report(client: Client, source: Source, places: &Places, own: &[(&String, &ServerFile)]) -> Report {
    let mut report = Report { client, source, servers: None, pml: None, double: Vec::new() };
    let servers = match clients::read(&report.source.file) {
        Ok(None) => return report,
        Ok(Some(text)) => Document::parse(client.format(), &text)
            .and_then(|document| document.servers(&report.source.keys))
            .map_err(|mistake| mistake.to_string()),
        Err(err) => Err(err.message),
    };
    let servers = match servers {
        Ok(servers) => servers,
        Err(message) => {
            report.servers = Some(Err(message));
            return report;
        }
    };
    for (name, entry) in &servers {
        if let Some(how) = clients::is_pml(name, entry) {
            let trouble = trouble(&how, places);
            report.pml.get_or_insert(Entry { name: name.clone(), how, trouble });
            continue;
        }
        let server = |base| clients::translate(client, entry, &report.source, base).ok();
        let servers = [server(Base::Everywhere), server(Base::Project)];
        let is_same = |other: &ServerFile| servers.iter().flatten().any(|server| server.server.reaches_same(other));
        if own.iter().any(|(other, file)| *other == name || is_same(file)) {
            report.double.push(name.clone());
        }
    }
    report.servers = Some(Ok(servers.len()));
    report
}

/// What is wrong with what a client would start.
fn trouble(how: &How, places: &Places) -> Option<String> {
    let How::Command { command, .. } = how else { return None };
    let Some(program) = places.program(command) else { return Some(format!("its command `{command}` is not there")) };
    let own = std::env::current_exe().and_then(fs::canonicalize).ok();
    let is_this = fs::canonicalize(&program).ok() == own;
    (!is_this).then(|| format!("its command `{command}` is another pml than this one"))
}

impl Report {
    fn is_well(&self) -> bool {
        !matches!(self.servers, Some(Err(_))) && self.pml.as_ref().is_none_or(|entry| entry.trouble.is_none())
    }

    fn to_json(&self) -> Option<Value> {
        let servers = self.servers.as_ref()?;
        let entry = self.pml.as_ref().map(|entry| {
            let (command, url) = match &entry.how {
                How::Command { command, .. } => (Some(command), None),
                How::Http(url) => (None, Some(url.split('?').next())),
            };
            json!({ "name": entry.name, "command": command, "url": url, "trouble": entry.trouble })
        });
        Some(json!({
            "file": self.source.file, "keys": self.source.keys, "error": servers.as_ref().err(),
            "servers": servers.as_ref().ok(), "pml": entry, "double": self.double,
        }))
    }
}

fn print(stdout: &mut impl Write, client: Client, reports: &[Report]) {
    let mut is_installed = false;
    let mut broken: Vec<&Path> = Vec::new();
    for report in reports {
        let file = report.source.file.display();
        if let Some(Err(message)) = &report.servers
            && !broken.contains(&report.source.file.as_path())
        {
            broken.push(&report.source.file);
            let _ = writeln!(stdout, "  FAILED   {client}: in {file}: {}", visible(message));
        }
        let Some(entry) = &report.pml else { continue };
        is_installed = true;
        let name = visible(&entry.name);
        let _ = match &entry.trouble {
            None => writeln!(stdout, "  ok       {client}: pml is installed as `{name}` in {file}"),
            Some(trouble) => {
                let _ = writeln!(stdout, "  FAILED   {client}: pml is `{name}` in {file}, but {}", visible(trouble));
                writeln!(stdout, "           hint: `pml install --client {}` writes it anew", report.client.id())
            }
        };
    }
    if !is_installed && broken.is_empty() {
        let id = client.id();
        let _ = writeln!(stdout, "  -        {client}: pml is not installed; `pml install --client {id}` does it");
    }
    for report in reports.iter().filter(|report| !report.double.is_empty()) {
        let names = report.double.join(", ");
        let names = visible(&names);
        let file = report.source.file.display();
        let _ = writeln!(stdout, "           warning: in {file} and in pml: {names}");
        if is_installed {
            let _ =
                writeln!(stdout, "           hint: the client sees them twice; `--move` takes them out of its file");
        }
    }
}
