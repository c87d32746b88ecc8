//! Clients and servers under stress, for as long as is wanted; see `pml_testkit::soak`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pml_testkit::soak::main(&std::env::args().skip(1).collect::<Vec<_>>())
}
