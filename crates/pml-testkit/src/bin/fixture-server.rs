//! A real MCP server that can misbehave on demand; see `pml_testkit::fixture`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pml_testkit::fixture::main(std::env::args().skip(1).collect())
}
