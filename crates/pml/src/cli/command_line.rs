//! The command line: its options and commands, as clap reads them.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use super::{
    audit, call, capability, doctor, eval, graph, hub, import, install, learn, manual, run, sanitize, search, serve,
    server, suggest, token, tools, trace, trust, workflow,
};

/// An MCP gateway with code mode: agents send TypeScript, pml runs it in a sandbox
#[derive(Debug, Parser)]
#[command(name = "pml", version, subcommand_required = true, arg_required_else_help = true)]
pub(super) struct Args {
    /// Use this configuration file only [default: $PML_CONFIG, or ~/.config/pml/pml.toml and a trusted ./pml.toml]
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,

    /// Also use the servers of a client's own file, such as .mcp.json [may be repeated]
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) mcp_config: Vec<PathBuf>,

    /// Folder for tool lists, logins, traces and the audit log [default: $PML_DATA_DIR, ~/.local/share/pml]
    #[arg(long, global = true, value_name = "FOLDER")]
    pub(super) data_dir: Option<PathBuf>,

    /// Log level on stderr: error, warn, info, debug, trace [default: $PML_LOG, warn]
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(super) log: Option<String>,

    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run a TypeScript program in the sandbox
    Run(run::Args),
    /// Call one tool
    Call(call::Args),
    /// Run the demo: a program and three servers that come with pml
    Demo,
    /// Run, check or draw a workflow: a graph of tasks
    Workflow {
        #[command(subcommand)]
        what: workflow::What,
    },
    /// Run the MCP server that clients (Claude Code, Codex, Cursor, …) connect to
    Serve(serve::Args),
    /// Find tools by what they do
    Search(search::Args),
    /// Suggest tools for a task, from what was used for similar tasks
    Suggest(suggest::Args),
    /// Show which tools are used together and in which order
    Graph(graph::Args),
    /// Inspect, delete, rebuild or switch off what pml has learned from traces
    Learn {
        #[command(subcommand)]
        what: learn::What,
    },
    /// List the tools of all servers, or of one; show and accept changed tools
    Tools(tools::Args),
    /// Write TypeScript declarations of all tools, for an editor
    Types(tools::TypesArgs),
    /// Add, remove, list and check MCP servers
    Server {
        #[command(subcommand)]
        what: server::What,
    },
    /// Copy the servers of a client, such as Claude Code or Cursor, to pml.toml
    Import(import::Args),
    /// Add pml to a client, such as Claude Code or Cursor
    Install(install::Args),
    /// Manage named clients over HTTP and their tokens
    Token {
        #[command(subcommand)]
        what: token::What,
    },
    /// Show what the pml.toml of a folder would do, and trust it
    Trust(trust::Args),
    /// Show calls, their callers and outcomes; verify that the log was not changed
    Audit(audit::Args),
    /// Show what agents did: list, show, count, export and delete traces
    Trace {
        #[command(subcommand)]
        what: trace::What,
    },
    /// Save programs as named tools: save, list, show, edit, run, sync
    Capability {
        #[command(subcommand)]
        what: capability::What,
    },
    /// Run the hub that gateways deliver their traces to; create and revoke its keys
    Hub(hub::Args),
    /// Measure search and learning on your own data
    Eval {
        #[command(subcommand)]
        what: eval::What,
    },
    /// Check the sandbox, the servers and the clients on this machine
    Doctor(doctor::Args),
    /// Remove secrets and personal data from JSON lines, stdin to stdout
    Sanitize(sanitize::Args),
    /// Print shell completions
    Completions(manual::CompletionsArgs),
    /// Print the manual page, or write one for every command
    Man(manual::ManArgs),
    /// Print the licences of pml and of its embedded data
    Licenses,
}
