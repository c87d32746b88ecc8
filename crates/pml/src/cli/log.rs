//! Where the log goes, and how much of it.

use std::io;

use tracing_subscriber::EnvFilter;

use super::print;
use crate::{config, error::Error};

/// Starts the log on stderr, at `level` or as the environment says.
pub(super) fn start_log(level: Option<&str>) -> Result<(), Error> {
    let text = level.map(str::to_owned).or_else(config::log_filter).unwrap_or_else(|| "warn".to_owned());
    // A bare word would be taken for the name of a module.
    let is_level = text.contains(['=', ',']) || text.parse::<tracing::level_filters::LevelFilter>().is_ok();
    let filter = EnvFilter::builder().parse(&text).ok().filter(|_| is_level).ok_or_else(|| {
        let message = format!("`{text}` is no log level");
        let hint = "use error, warn, info, debug or trace";
        Error::new(pml_wire::ErrorCode::ConfigInvalid, message).with_hint(hint)
    })?;
    // At `debug` rmcp shows the code of a login.
    let filter = filter.add_directive("rmcp::transport::auth=info".parse().map_err(|err| {
        Error::new(pml_wire::ErrorCode::ConfigInvalid, "the log cannot be set up").caused_by(Box::new(err))
    })?);
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| print::Visible(io::stderr()))
        // Nobody may read stderr any more; complaining there about that would be a panic.
        .log_internal_errors(false)
        .with_ansi(false)
        .init();
    Ok(())
}
