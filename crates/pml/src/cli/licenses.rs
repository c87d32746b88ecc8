//! `pml licenses`: under which terms pml and the tables inside it are used.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

pub(super) fn print() -> ExitCode {
    let pml = concat!("pml ", env!("CARGO_PKG_VERSION"), ": ", env!("CARGO_PKG_LICENSE"));
    let notices = [pml_search::notice(), pml_search::encoder::notice(), pml_worker::NOTICE].map(str::trim_end);
    match writeln!(io::stdout(), "{pml}\n\n{}", notices.join("\n\n")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
