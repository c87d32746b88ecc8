//! One binary with several roles: the host, the sandboxed worker, the keeper of a server's processes, and
//! the servers of the demo.

use std::{env, process::ExitCode};

use pml::{cli, upstream::keeper};

#[global_allocator]
static HEAP: pml_worker::Heap = pml_worker::Heap;

fn main() -> ExitCode {
    let mut args = env::args_os();
    // The role is chosen before pml reads any user data: configuration, environment, terminal.
    match args.nth(1).as_deref().and_then(|role| role.to_str()) {
        Some(pml_worker::COMMAND) => pml_worker::main(args),
        Some(keeper::KEEPER) => keeper::main(args),
        Some(keeper::EXEC) => keeper::exec(args),
        Some(cli::DEMO_SERVER) => cli::demo_server(args),
        _ => cli::main(),
    }
}
