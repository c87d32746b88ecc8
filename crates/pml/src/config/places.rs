//! Where a user's files are, as far as the environment says.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use super::variable;

/// The operating systems whose programs keep their files in different places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    Linux,
    MacOs,
}

/// What the environment says about where files are.
#[derive(Clone, Debug)]
pub struct Places {
    pub system: System,
    pub home: Option<PathBuf>,
    /// `$XDG_CONFIG_HOME`
    pub xdg_config: Option<PathBuf>,
    /// `$CODEX_HOME`
    pub codex_home: Option<PathBuf>,
    /// `$CLAUDE_CONFIG_DIR`
    pub claude_dir: Option<PathBuf>,
    /// `$PATH`, one by one.
    pub path: Vec<PathBuf>,
}

impl Places {
    /// Those of this process.
    pub fn here() -> Places {
        let folder = |name: &str| variable(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        Places {
            system: if cfg!(target_os = "macos") { System::MacOs } else { System::Linux },
            home: folder("HOME"),
            // As everywhere: one that is not absolute does not count.
            xdg_config: folder("XDG_CONFIG_HOME").filter(|path| path.is_absolute()),
            codex_home: folder("CODEX_HOME"),
            claude_dir: folder("CLAUDE_CONFIG_DIR"),
            path: variable("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default(),
        }
    }

    /// `~/.config`, or what stands for it.
    pub fn config(&self) -> Option<PathBuf> {
        self.xdg_config.clone().or_else(|| self.home.as_ref().map(|home| home.join(".config")))
    }

    /// Where programs with windows keep what belongs to the user.
    pub fn application_data(&self) -> Option<PathBuf> {
        match self.system {
            System::Linux => self.config(),
            System::MacOs => self.home.as_ref().map(|home| home.join("Library/Application Support")),
        }
    }

    /// The file that a command means: its path, or the first of that name in `$PATH`.
    pub fn program(&self, command: &str) -> Option<PathBuf> {
        let is_program =
            |path: &Path| path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0);
        match command.contains('/') {
            true => Some(PathBuf::from(command)).filter(|path| is_program(path)),
            false => self.path.iter().map(|folder| folder.join(command)).find(|path| is_program(path)),
        }
    }
}
