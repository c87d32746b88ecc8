//! The commands of `pml eval`.

use std::process::ExitCode;

use super::{
    super::{USAGE, fail},
    capabilities, learn, search,
};

#[derive(Debug, clap::Subcommand)]
pub(in crate::cli) enum What {
    /// Measure how well queries find the tools that they should
    Search(search::Args),
    /// Measure how much traces improve what the search finds, and what comes next
    Learn(learn::Args),
    /// Measure how well capabilities are matched with intents, and how far the probability of a match can be believed
    Capabilities(capabilities::Args),
}

pub(in crate::cli) fn run(what: &What) -> ExitCode {
    let printed = match what {
        What::Search(args) => search::run(args),
        What::Learn(args) => learn::run(args),
        What::Capabilities(args) => capabilities::run(args),
    };
    match printed {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(_)) => ExitCode::FAILURE, // nobody reads
        Err(err) => fail(&err, USAGE),
    }
}
