//! Two roles in one binary: the jailed worker, and the host.

use std::{env, process::ExitCode};

fn main() -> ExitCode {
    let mut args = env::args_os();
    // Before anything of the user's is read: configuration, environment, terminal.
    if args.nth(1).is_some_and(|command| command == pml_worker::COMMAND) {
        pml_worker::main(args);
    }
    pml::cli::main()
}
