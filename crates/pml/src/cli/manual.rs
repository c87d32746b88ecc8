//! `pml completions` and `pml man`: the command line, for shells and for `man`.

use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::CommandFactory as _;
use clap_complete::Shell;
use pml_wire::ErrorCode;

use super::{command_line, fail};
use crate::error::Error;

const NAME: &str = "pml";

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  pml completions bash > ~/.local/share/bash-completion/completions/pml\n  pml completions zsh > ~/.zfunc/_pml                     # a folder of $fpath\n  pml completions fish > ~/.config/fish/completions/pml.fish"
)]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  pml man | man -l -\n  pml man -o ~/.local/share/man/man1")]
pub(super) struct ManArgs {
    /// Write a page for every command into this folder
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

pub(super) fn completions(args: &CompletionsArgs) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command_line::Args::command(), NAME, &mut script);
    print(&script)
}

pub(super) fn man(args: &ManArgs) -> ExitCode {
    let command = command_line::Args::command();
    let Some(folder) = &args.output else {
        let mut page = Vec::new();
        return match clap_mangen::Man::new(command).render(&mut page) {
            Ok(()) => print(&page),
            Err(_) => ExitCode::FAILURE, // a vector can be written to
        };
    };
    match fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command, folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            let message = format!("the pages cannot be written to `{}`: {err}", folder.display());
            fail(&Error::new(ErrorCode::ConfigInvalid, message).caused_by(err), super::USAGE)
        }
    }
}

fn print(bytes: &[u8]) -> ExitCode {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE, // nobody reads
    }
}
