//! How far a call is, as its server says while the call is in flight.
//!
//! Servers report in two ways: progress notifications with the token of the call, which stay valid while the call is a
//! task, and the status message of a task. Both reach the [`ProgressListener`] of the call.

use std::{fmt, sync::Arc};

use super::settings::Settings;

/// Longest message that is kept of a report, and longest that is shown.
const MAX_KEPT_BYTES: usize = 8 * 1024;
const MAX_SHOWN_BYTES: usize = 1000;

/// One report of a server about one call.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The status of a task has no number.
    pub progress: Option<f64>,
    pub total: Option<f64>,
    /// As the server wrote it.
    message: Option<String>,
    /// Of the server, whose secrets are not shown; `None` of a program.
    settings: Option<Arc<Settings>>,
}

impl Progress {
    /// A report of a program that a call runs.
    pub fn of_program(progress: Option<f64>, total: Option<f64>, message: Option<String>) -> Progress {
        let message = message.map(|mut message| {
            message.truncate(message.floor_char_boundary(MAX_KEPT_BYTES));
            message
        });
        Progress { progress, total, message, settings: None }
    }

    /// What the server says, without its secrets.
    pub fn message(&self) -> Option<String> {
        let mut message = self.message.clone()?;
        if let Some(settings) = &self.settings {
            message = settings.mask(message);
        }
        message.truncate(message.floor_char_boundary(MAX_SHOWN_BYTES));
        Some(message)
    }
}

/// A report of a server without secrets.
#[cfg(test)]
impl Progress {
    pub(crate) fn of(progress: f64) -> Progress {
        Progress::of_program(Some(progress), None, None)
    }
}

impl fmt::Display for Progress {
    /// `3/10 copying`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = match (self.progress, self.total) {
            (Some(progress), Some(total)) => Some(format!("{progress}/{total}")),
            (Some(progress), None) => Some(progress.to_string()),
            (None, _) => None,
        };
        let parts: Vec<_> = count.into_iter().chain(self.message()).collect();
        f.write_str(&parts.join(" "))
    }
}

/// Hears the progress of one call. It is told by whoever reads from the server, so it returns at once.
#[derive(Clone)]
pub struct ProgressListener(Arc<dyn Fn(Progress) + Send + Sync>);

impl ProgressListener {
    pub fn new(hear: impl Fn(Progress) + Send + Sync + 'static) -> ProgressListener {
        ProgressListener(Arc::new(hear))
    }

    /// Tells how far the call is.
    pub fn tell(&self, progress: Progress) {
        (self.0)(progress);
    }
}

impl fmt::Debug for ProgressListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgressListener")
    }
}

/// The listener of a call, and the server that the call goes to.
#[derive(Clone, Debug)]
pub(super) struct ProgressSender {
    listener: ProgressListener,
    settings: Arc<Settings>,
}

impl ProgressSender {
    pub(super) fn new(listener: ProgressListener, settings: &Arc<Settings>) -> ProgressSender {
        ProgressSender { listener, settings: Arc::clone(settings) }
    }

    /// Tells what the server reported. A report without content is none.
    pub(super) fn tell(&self, progress: Option<f64>, total: Option<f64>, message: Option<String>) {
        let message = message.filter(|message| !message.is_empty()).map(|mut message| {
            message.truncate(message.floor_char_boundary(MAX_KEPT_BYTES));
            message
        });
        if progress.is_some() || message.is_some() {
            (self.listener.0)(Progress { progress, total, message, settings: Some(Arc::clone(&self.settings)) });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_report_is_bounded_and_reads_well() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hear = Arc::clone(&heard);
        let listener = ProgressListener::new(move |progress| hear.lock().unwrap().push(progress.to_string()));
        let sender = ProgressSender::new(listener, &Arc::new(Settings::new("fix", Err(String::new()))));
        let text = |text: &str| Some(text.to_owned());
        sender.tell(Some(3.0), Some(10.0), text("copying"));
        sender.tell(Some(0.5), None, None);
        sender.tell(None, None, text("working"));
        sender.tell(None, Some(10.0), text(""));
        sender.tell(Some(1.0), None, text(&"é".repeat(1_000_000)));
        let heard = heard.lock().unwrap();
        assert_eq!(heard[..3], ["3/10 copying", "0.5", "working"]);
        assert_eq!(heard.len(), 4, "nothing was said by the fourth");
        assert!(heard[3].len() <= MAX_SHOWN_BYTES + 2, "{}", heard[3].len());
    }
}
