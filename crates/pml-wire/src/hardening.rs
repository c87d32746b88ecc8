//! What a worker reports about its jail, in its `Ready` frame.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One wall of the jail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// The process can never gain privileges, whatever it executes.
    NoNewPrivs,
    /// No debugger can attach and no core is written.
    NonDumpable,
    /// Address space, CPU time, files, processes and file size are capped by the kernel.
    Rlimits,
    /// User, mount, network, IPC and PID namespaces of its own, on an empty root.
    Namespaces,
    /// The kernel's Landlock refuses every file, network and signal access.
    Landlock,
    /// A system call outside a short list kills the process.
    Seccomp,
    /// The macOS sandbox profile that denies everything.
    Seatbelt,
}

impl Layer {
    /// Must this layer be closed, unless the configuration allows a weak sandbox?
    ///
    /// Namespaces are the one layer that common systems switch off for ordinary users (container
    /// runtimes, Ubuntu's AppArmor policy); what they take away, seccomp and Landlock take away
    /// too, so they are used where they are there and reported where they are not.
    pub fn is_required(self) -> bool {
        !matches!(self, Layer::Namespaces)
    }

    /// The name used in messages, in JSON and in `docs/threat-model.md`.
    pub fn as_str(self) -> &'static str {
        match self {
            Layer::NoNewPrivs => "no_new_privs",
            Layer::NonDumpable => "non_dumpable",
            Layer::Rlimits => "rlimits",
            Layer::Namespaces => "namespaces",
            Layer::Landlock => "landlock",
            Layer::Seccomp => "seccomp",
            Layer::Seatbelt => "seatbelt",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The state of one layer, found out by trying, not by asking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerReport {
    pub layer: Layer,
    pub enforced: bool,
    /// What is enforced, or why nothing is.
    pub detail: String,
}

/// The state of every layer this platform has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HardeningReport {
    pub layers: Vec<LayerReport>,
}

impl HardeningReport {
    /// The required layers that are not enforced.
    pub fn missing(&self) -> impl Iterator<Item = &LayerReport> {
        self.layers.iter().filter(|report| report.layer.is_required() && !report.enforced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_required_layers_count_as_missing() {
        let report = |layer, enforced| LayerReport { layer, enforced, detail: String::new() };
        let hardening = HardeningReport {
            layers: vec![
                report(Layer::Seccomp, true),
                report(Layer::Namespaces, false),
                report(Layer::Landlock, false),
            ],
        };
        let missing: Vec<_> = hardening.missing().map(|report| report.layer).collect();
        assert_eq!(missing, [Layer::Landlock]);
    }
}
