//! The part of `pml doctor` about traces.

use std::io::{self, Write};

use serde_json::{Value, json};
use tokio::time::{Duration, timeout};

use super::command::open;
use crate::{
    config::Config,
    shown::visible,
    trace::store::{self, Trouble},
};

/// How long another process may hold the lock before the store counts as locked.
const PROBE: Duration = Duration::from_secs(1);

/// Shows whether traces are stored. The same as JSON, and whether all is well.
pub(in crate::cli) async fn check(as_json: bool, config: &Config) -> (Value, bool) {
    let mut lines = Vec::new();
    let mut row = json!({"enabled": config.traces.enabled, "raw": config.traces.raw});
    let mut is_well = true;
    let (days, megabytes) = (config.traces.options.keep.as_secs() / 86_400, config.traces.options.max_bytes >> 20);
    lines.push(match config.traces.enabled {
        true => format!("traces: kept for {days} days, at most {megabytes} MB"),
        false => "traces: not kept, since `trace.enabled` is false".to_owned(),
    });
    if config.traces.raw {
        lines
            .push("  warning: `trace.raw` is on: everything is kept as it was, with all secrets, in raw.db".to_owned());
    }
    if let Some(data_dir) = &config.data_dir {
        let is_file = config.traces.database.is_none();
        let problem = store::problem(data_dir).filter(|_| is_file).map(|(path, problem)| problem.of(&path));
        if let Some(error) = &problem {
            is_well = false;
            lines.push(format!("  FAILED   {}", error.message));
            lines.extend(error.hint.iter().map(|hint| format!("           hint: {hint}")));
        }
        match open(config, data_dir).await.filter(|_| problem.is_none()) {
            Some(store) => {
                // A change of nothing shows whether the database can be written now, and writes nothing.
                let _ = timeout(PROBE, store.acknowledge(Vec::new())).await;
                let mut health = store.health();
                if is_file
                    && health.state.is_well()
                    && let Err(err) = store::try_room(data_dir)
                {
                    health.state = Trouble::of_io(&err).state();
                }
                is_well &= health.state.is_well();
                let mark = if health.state.is_well() { "ok    " } else { "FAILED" };
                lines.push(format!("  {mark}   {}: {}", health.place, health.state));
                lines.extend(health.state.hint().map(|hint| format!("           hint: {hint}")));
                let aside = health.set_aside.iter().map(|path| path.display().to_string());
                lines.extend(aside.map(|path| {
                    format!("  warning: a damaged store is kept as {path}; remove it if you do not need it")
                }));
                match store.damage().await {
                    Ok(None) => {}
                    Ok(Some(damage)) => {
                        is_well = false;
                        lines.push(format!("  FAILED   the store is damaged: {damage}"));
                        lines.push(
                            "           hint: `pml trace export` saves what can be read; then remove the file"
                                .to_owned(),
                        );
                        row["damage"] = json!(damage);
                    }
                    // What cannot be read by this pml may be whole: no reason to remove anything.
                    Err(err) => {
                        if health.state.is_well() {
                            lines.push(format!("  FAILED   the store cannot be checked: {err}"));
                        }
                        is_well = false;
                    }
                }
                row["state"] = json!(health.state.as_str());
                row["set_aside"] = json!(health.set_aside);
            }
            None if problem.is_none() => lines.push("  -        nothing is stored yet".to_owned()),
            None => {}
        }
        row["error"] = json!(problem.map(|error| error.message));
    }
    if !as_json {
        for line in lines {
            let _ = writeln!(io::stdout(), "{}", visible(&line));
        }
    }
    (row, is_well)
}
