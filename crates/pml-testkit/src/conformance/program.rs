//! The program itself: its options, its one address, and its end.

use std::{
    io::{self, Write as _},
    process::ExitCode,
    sync::Arc,
};

use axum::Router;
use rmcp::{
    model::ProtocolVersion,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use tokio::{io::AsyncReadExt as _, net::TcpListener};

use super::{server::Server, shared::Shared};

/// Runs the program until stdin is closed.
pub fn main(arguments: Vec<String>) -> ExitCode {
    match options(&arguments).and_then(|(port, versions)| run(port, versions)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            let _ = writeln!(io::stderr(), "{err}");
            ExitCode::FAILURE
        }
    }
}

/// The port to listen at, and the versions to speak.
fn options(arguments: &[String]) -> io::Result<(u16, &'static [ProtocolVersion])> {
    let (mut port, mut versions) = (0, ProtocolVersion::KNOWN_VERSIONS);
    let first_modern = versions.partition_point(ProtocolVersion::has_initialize);
    for option in arguments.chunks(2) {
        match option {
            [name, number] if name == "--port" => port = number.parse().map_err(io::Error::other)?,
            [name, era] if name == "--era" && era == "legacy" => versions = &versions[..first_modern],
            [name, era] if name == "--era" && era == "modern" => versions = &versions[first_modern..],
            [name, era] if name == "--era" && era == "both" => {}
            _ => return Err(io::Error::other("usage: conformance-server [--port N] [--era legacy|modern|both]")),
        }
    }
    Ok((port, versions))
}

#[tokio::main]
async fn run(port: u16, versions: &'static [ProtocolVersion]) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let address = listener.local_addr()?;
    let origins = [format!("http://{address}"), format!("http://localhost:{}", address.port())];
    let config = StreamableHttpServerConfig::default().with_allowed_origins(origins);

    let shared = Arc::new(Shared::default());
    let service = StreamableHttpService::new(
        move || Ok(Server::new(Arc::clone(&shared), versions)),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    writeln!(io::stdout(), "http://{address}/mcp")?;
    io::stdout().flush()?;

    tokio::select! {
        result = axum::serve(listener, Router::new().nest_service("/mcp", service)) => result,
        () = closed_stdin() => Ok(()),
    }
}

/// Returns when whoever started this program has gone.
async fn closed_stdin() {
    let mut stdin = tokio::io::stdin();
    while matches!(stdin.read(&mut [0; 64]).await, Ok(1..)) {}
}
