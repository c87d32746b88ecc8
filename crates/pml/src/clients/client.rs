//! The programs that pml knows, and where each keeps its servers.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use crate::config::Places;

/// A program that has MCP servers configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Client {
    Claude,
    ClaudeDesktop,
    Cursor,
    Vscode,
    Codex,
    Windsurf,
    Zed,
}

/// For whom an entry counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Scope {
    // In every folder, for this user. (Not `///`: that would become help, and make all of it long.)
    #[default]
    User,
    // In one folder, for everybody.
    Project,
}

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Json,
    Toml,
}

/// A place in a file where servers are configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub file: PathBuf,
    /// The keys of the object that holds the servers.
    pub keys: Vec<String>,
    /// The folder that it is about, if it is about one.
    pub project: Option<PathBuf>,
}

impl Client {
    pub const ALL: [Client; 7] = [
        Client::Claude,
        Client::ClaudeDesktop,
        Client::Cursor,
        Client::Vscode,
        Client::Codex,
        Client::Windsurf,
        Client::Zed,
    ];

    /// What it is called on the command line.
    pub fn id(self) -> &'static str {
        match self {
            Client::Claude => "claude",
            Client::ClaudeDesktop => "claude-desktop",
            Client::Cursor => "cursor",
            Client::Vscode => "vscode",
            Client::Codex => "codex",
            Client::Windsurf => "windsurf",
            Client::Zed => "zed",
        }
    }

    pub fn format(self) -> Format {
        match self {
            Client::Codex => Format::Toml,
            Client::Claude
            | Client::ClaudeDesktop
            | Client::Cursor
            | Client::Vscode
            | Client::Windsurf
            | Client::Zed => Format::Json,
        }
    }

    /// The key under which it keeps its servers.
    fn key(self) -> &'static str {
        match self {
            Client::Claude | Client::ClaudeDesktop | Client::Cursor | Client::Windsurf => "mcpServers",
            Client::Vscode => "servers",
            Client::Codex => "mcp_servers",
            Client::Zed => "context_servers",
        }
    }

    /// Its file for a scope. `None` if it has none, or if nobody knows where the user's files are.
    pub fn file(self, scope: Scope, places: &Places, project: &Path) -> Option<PathBuf> {
        let home = |path: &str| places.home.as_ref().map(|home| home.join(path));
        match (self, scope) {
            (Client::Claude, Scope::User) => match &places.claude_dir {
                Some(folder) => Some(folder.join(".claude.json")),
                None => home(".claude.json"),
            },
            (Client::Claude, Scope::Project) => Some(project.join(".mcp.json")),
            (Client::ClaudeDesktop, Scope::User) => {
                places.application_data().map(|folder| folder.join("Claude/claude_desktop_config.json"))
            }
            (Client::Cursor, Scope::User) => home(".cursor/mcp.json"),
            (Client::Cursor, Scope::Project) => Some(project.join(".cursor/mcp.json")),
            (Client::Vscode, Scope::User) => places.application_data().map(|folder| folder.join("Code/User/mcp.json")),
            (Client::Vscode, Scope::Project) => Some(project.join(".vscode/mcp.json")),
            (Client::Codex, Scope::User) => match &places.codex_home {
                Some(folder) => Some(folder.join("config.toml")),
                None => home(".codex/config.toml"),
            },
            (Client::Codex, Scope::Project) => Some(project.join(".codex/config.toml")),
            (Client::Windsurf, Scope::User) => home(".codeium/windsurf/mcp_config.json"),
            (Client::Zed, Scope::User) => places.config().map(|folder| folder.join("zed/settings.json")),
            (Client::Zed, Scope::Project) => Some(project.join(".zed/settings.json")),
            (Client::ClaudeDesktop | Client::Windsurf, Scope::Project) => None,
        }
    }

    /// Has the user this program? Its file or the folder of its files says so.
    pub fn is_here(self, places: &Places) -> bool {
        let Some(file) = self.file(Scope::User, places, Path::new("")) else { return false };
        let folder = match self {
            Client::Claude => places.home.as_ref().map(|home| home.join(".claude")),
            Client::Vscode => file.ancestors().nth(2).map(Path::to_owned),
            Client::ClaudeDesktop | Client::Cursor | Client::Codex | Client::Windsurf | Client::Zed => {
                file.parent().map(Path::to_owned)
            }
        };
        file.exists() || folder.is_some_and(|folder| folder.is_dir())
    }

    /// Where its servers may be, those that win over others first.
    pub fn sources(self, places: &Places, project: &Path) -> Vec<Source> {
        let source = |scope| {
            let file = self.file(scope, places, project)?;
            let project = (scope == Scope::Project).then(|| project.to_owned());
            Some(Source { file, keys: vec![self.key().to_owned()], project })
        };
        let mut sources: Vec<Source> = Vec::new();
        if self == Client::Claude
            && let Some(user) = source(Scope::User)
        {
            // What belongs to one user in one folder is in the user's file, under the folder's name.
            let keys = ["projects", &project.to_string_lossy(), self.key()].map(str::to_owned).to_vec();
            sources.push(Source { keys, project: Some(project.to_owned()), ..user });
        }
        // In the home folder, a client may have one file for both.
        let user = source(Scope::User);
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let same = |one: &Source| user.as_ref().is_some_and(|user| real(&user.file) == real(&one.file));
        sources.extend(source(Scope::Project).filter(|one| !same(one)));
        sources.extend(user);
        sources
    }

    /// Where `pml install` writes.
    pub fn target(self, scope: Scope, places: &Places, project: &Path) -> Option<Source> {
        let file = self.file(scope, places, project)?;
        let project = (scope == Scope::Project).then(|| project.to_owned());
        Some(Source { file, keys: vec![self.key().to_owned()], project })
    }

    /// A file of its kind, wherever it is.
    pub fn other_file(self, file: &Path, project: Option<&Path>) -> Source {
        Source { file: file.to_owned(), keys: vec![self.key().to_owned()], project: project.map(Path::to_owned) }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Client::Claude => "Claude Code",
            Client::ClaudeDesktop => "Claude Desktop",
            Client::Cursor => "Cursor",
            Client::Vscode => "VS Code",
            Client::Codex => "Codex",
            Client::Windsurf => "Windsurf",
            Client::Zed => "Zed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::System;

    #[test]
    fn every_client_has_its_place_on_every_system() {
        let places = |system| Places {
            system,
            home: Some("/h".into()),
            xdg_config: None,
            codex_home: None,
            claude_dir: None,
            path: Vec::new(),
        };
        #[rustfmt::skip]
        let table = [
            (Client::Claude, System::Linux, "/h/.claude.json", Some("/p/.mcp.json")),
            (Client::ClaudeDesktop, System::Linux, "/h/.config/Claude/claude_desktop_config.json", None),
            (Client::ClaudeDesktop, System::MacOs, "/h/Library/Application Support/Claude/claude_desktop_config.json", None),
            (Client::Cursor, System::MacOs, "/h/.cursor/mcp.json", Some("/p/.cursor/mcp.json")),
            (Client::Vscode, System::Linux, "/h/.config/Code/User/mcp.json", Some("/p/.vscode/mcp.json")),
            (Client::Vscode, System::MacOs, "/h/Library/Application Support/Code/User/mcp.json", Some("/p/.vscode/mcp.json")),
            (Client::Codex, System::Linux, "/h/.codex/config.toml", Some("/p/.codex/config.toml")),
            (Client::Windsurf, System::Linux, "/h/.codeium/windsurf/mcp_config.json", None),
            (Client::Zed, System::Linux, "/h/.config/zed/settings.json", Some("/p/.zed/settings.json")),
            (Client::Zed, System::MacOs, "/h/.config/zed/settings.json", Some("/p/.zed/settings.json")),
        ];
        for (client, system, user, project) in table {
            let file = |scope| client.file(scope, &places(system), Path::new("/p"));
            assert_eq!(file(Scope::User), Some(user.into()), "{client} {system:?}");
            assert_eq!(file(Scope::Project), project.map(PathBuf::from), "{client} {system:?}");
        }
        let moved = Places { codex_home: Some("/c".into()), claude_dir: Some("/d".into()), ..places(System::Linux) };
        assert_eq!(Client::Codex.file(Scope::User, &moved, Path::new("/p")), Some("/c/config.toml".into()));
        assert_eq!(Client::Claude.file(Scope::User, &moved, Path::new("/p")), Some("/d/.claude.json".into()));
    }
}
