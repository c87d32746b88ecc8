//! `without-syscall NAME[,NAME] PROGRAM ARGS…`: runs a program on a kernel that answers some
//! system calls with "no such call", as an old one would.

use std::{
    collections::BTreeMap,
    env,
    io::{self, Write},
    os::unix::process::CommandExt,
    process::{Command, ExitCode},
};

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let (Some(names), Some(program)) = (args.next(), args.next()) else {
        return complain("usage: without-syscall NAME[,NAME] PROGRAM ARGS…");
    };
    let mut rules = BTreeMap::new();
    for name in names.split(',') {
        let number = match name {
            "landlock" => libc::SYS_landlock_create_ruleset,
            "seccomp" => libc::SYS_seccomp,
            "unshare" => libc::SYS_unshare,
            other => return complain(&format!("{other} is not among the calls that can be taken away")),
        };
        rules.insert(number, vec![]);
    }
    let (other, listed) = (SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32));
    let arch = env::consts::ARCH.try_into().expect("a supported processor");
    let filter = SeccompFilter::new(rules, other, listed, arch).expect("a valid filter");
    let filter: BpfProgram = filter.try_into().expect("a filter that compiles");
    if let Err(err) = seccompiler::apply_filter(&filter) {
        return complain(&err.to_string());
    }
    #[expect(clippy::disallowed_methods, reason = "becomes the program, with its environment")]
    let err = Command::new(program).args(args).exec();
    complain(&err.to_string())
}

fn complain(what: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "without-syscall: {what}");
    ExitCode::from(2)
}
