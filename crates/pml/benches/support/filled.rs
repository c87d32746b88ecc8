//! Stores with many traces, which are filled once and kept.
//!
//! `--traces N` says how many there are, `--keep FOLDER` where they stay for the next run, and `--fill` ends the bench when they
//! are there: so that a million are stored while others use the machine, and looked up when nobody does.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use pml_wire::ExecutionId;

/// How many traces there are, and where.
pub(crate) struct Filled {
    pub(crate) count: usize,
    /// Where the store is.
    pub(crate) folder: PathBuf,
    is_kept: bool,
    /// Ends the bench when they are there.
    pub(crate) fills_only: bool,
}

impl Filled {
    /// What the arguments say; without them, so many in a temporary folder.
    pub(crate) fn of(args: &[String], count: usize, temporary: &Path) -> Filled {
        let value = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1));
        let kept = value("--keep").map(PathBuf::from);
        Filled {
            count: value("--traces").and_then(|count| count.parse().ok()).unwrap_or(count),
            is_kept: kept.is_some(),
            folder: kept.unwrap_or_else(|| temporary.join("filled")),
            fills_only: args.iter().any(|arg| arg == "--fill"),
        }
    }

    /// The traces that are there: those of an earlier run, and as many more as are missing. `store` stores traces with numbers
    /// from the first on, about as many as the second, and returns their ids.
    pub(crate) fn ids(&self, mut store: impl FnMut(usize, usize) -> Vec<ExecutionId>) -> Vec<ExecutionId> {
        fs::create_dir_all(&self.folder).expect("a folder");
        let file = self.folder.join("ids");
        let text = fs::read_to_string(&file).unwrap_or_default();
        let mut ids: Vec<ExecutionId> = text.lines().map(|line| line.parse().expect("an id")).collect();
        while ids.len() < self.count {
            ids.extend(store(ids.len(), self.count - ids.len()));
            if self.is_kept {
                let lines: Vec<_> = ids.iter().map(ToString::to_string).collect();
                fs::write(&file, lines.join("\n")).expect("a file");
            }
        }
        ids
    }

    #[expect(clippy::print_stderr, reason = "this is a program for people")]
    pub(crate) fn end(&self) -> ExitCode {
        eprintln!("filled `{}` with {} traces", self.folder.display(), self.count);
        ExitCode::SUCCESS
    }
}

/// Places that are drawn, the same in each run.
pub(crate) fn draws(among: usize) -> impl Iterator<Item = usize> {
    let mut random = 1u64;
    std::iter::repeat_with(move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % among
    })
}
