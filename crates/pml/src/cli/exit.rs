//! Exit codes, and how a failed command says why.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use crate::{error::Error, shown::visible};

/// Exit code of a mistake in the command line or configuration.
pub(super) const USAGE: u8 = 2;

/// Says what is wrong with the command or its configuration.
pub(super) fn fail(err: &Error, code: u8) -> ExitCode {
    let mut stderr = io::stderr().lock();
    // If stderr is closed there is nobody to tell.
    let _ = writeln!(stderr, "error[{}]: {}", err.code, visible(&err.message));
    if let Some(hint) = &err.hint {
        let _ = writeln!(stderr, "hint: {}", visible(hint));
    }
    ExitCode::from(code)
}
