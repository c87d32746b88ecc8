//! The server that the official conformance suite is run against; see `pml_testkit::conformance`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pml_testkit::conformance::main(std::env::args().skip(1).collect())
}
