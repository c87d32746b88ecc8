//! Promises that the repository makes about itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use pml_wire::{ErrorCode, hardening::Layer};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|err| panic!("{path}: {err}"))
}

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with("target") {
            continue; // what a fuzz run has built
        }
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

#[test]
fn every_code_is_documented_and_every_documented_code_exists() {
    let text = read("docs/errors.md");
    let documented: BTreeSet<_> = text.lines().filter_map(|line| line.strip_prefix("## ")).map(str::trim).collect();
    let existing: BTreeSet<_> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    let headings: BTreeSet<_> = documented
        .iter()
        .copied()
        .filter(|heading| heading.chars().all(|c| c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit()))
        .collect();
    assert_eq!(headings, existing);
    for code in ErrorCode::ALL {
        let section = text.split(&format!("## {code}\n")).nth(1).unwrap().split("\n## ").next().unwrap();
        let expected = format!("Retryable: {}", if code.is_retryable() { "yes" } else { "no" });
        assert!(section.contains(&expected), "{code} lacks \"{expected}\"");
    }
}

#[test]
fn every_layer_is_in_the_threat_model() {
    let text = read("docs/threat-model.md");
    for layer in [
        Layer::NoNewPrivs,
        Layer::NonDumpable,
        Layer::Rlimits,
        Layer::Namespaces,
        Layer::Landlock,
        Layer::Seccomp,
        Layer::Seatbelt,
    ] {
        assert!(text.contains(&format!("`{layer}`")), "{layer}");
    }
}

/// The host's modules in reading order: each may use only those behind it.
const MODULES: [&str; 27] = [
    "cli",
    "clients",
    "config",
    "serve",
    "frontend",
    "workflow",
    "capability",
    "execution",
    "sandbox",
    "broker",
    "upstream",
    "learning",
    "catalog",
    "hub",
    "web",
    "trace",
    "events",
    "audit",
    "room",
    "work",
    "files",
    "error",
    "protocol",
    "shown",
    "rate",
    "digest",
    "clock",
];

#[test]
fn modules_use_only_what_is_below_them() {
    let source = root().join("crates/pml/src");
    let declared: BTreeSet<_> = read("crates/pml/src/lib.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';').map(str::to_owned))
        .collect();
    assert_eq!(declared, MODULES.iter().map(|&module| module.to_owned()).collect());
    for file in rust_files(&source) {
        let path = file.strip_prefix(&source).unwrap();
        let module = path.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        let Some(own) = MODULES.iter().position(|other| *other == module) else { continue };
        let text = fs::read_to_string(&file).unwrap();
        for used in used_modules(&text) {
            let position = MODULES.iter().position(|other| *other == used);
            assert!(position.is_some_and(|position| position >= own), "{} uses crate::{used}", path.display());
        }
    }
}

/// The first names behind `crate::`, also in groups.
fn used_modules(text: &str) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for rest in text.split("crate::").skip(1) {
        let name = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
        match rest.strip_prefix('{') {
            None => drop(used.insert(name(rest))),
            Some(group) => {
                let mut depth = 0;
                let mut at_start = true;
                for (index, character) in group.char_indices() {
                    match character {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => at_start = true,
                        c if c.is_whitespace() => {}
                        _ if at_start => {
                            at_start = false;
                            used.insert(name(&group[index..]));
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    used
}

/// The paths that a file imports, outside its tests, each as its segments.
fn imports(text: &str) -> Vec<Vec<String>> {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let mut paths = Vec::new();
    for line in text.match_indices("use ").filter(|(at, _)| {
        let line = &text[text[..*at].rfind('\n').map_or(0, |end| end + 1)..*at];
        line.is_empty() || line.starts_with("pub")
    }) {
        let tree = text[line.0 + 4..].split(';').next().unwrap_or_default();
        paths.extend(leaves(&tree.split_whitespace().collect::<String>()));
    }
    paths
}

/// The paths of a tree such as `super::{a::{B,C},d}`.
fn leaves(tree: &str) -> Vec<Vec<String>> {
    let Some((prefix, group)) = tree.split_once('{') else {
        return vec![tree.split("::").map(str::to_owned).collect()];
    };
    let prefix: Vec<_> = prefix.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
    let (mut depth, mut start, mut paths) = (0, 0, Vec::new());
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                if start < at {
                    paths.extend(leaves(&group[start..at]).into_iter().map(|path| [prefix.clone(), path].concat()));
                }
                start = at + 1;
            }
            _ => {}
        }
    }
    paths
}

/// The files of a folder of modules, by the path of each module within it, and the modules that each imports.
fn module_graph(folder: &Path) -> BTreeMap<Vec<String>, BTreeSet<Vec<String>>> {
    let module = |file: &Path| {
        let path = file.strip_prefix(folder).unwrap().with_extension("");
        let mut path: Vec<_> = path.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
        path.pop_if(|last| last == "mod");
        path
    };
    let files = rust_files(folder);
    let known: BTreeSet<_> = files.iter().map(|file| module(file)).collect();
    let edges = |file: &PathBuf| {
        let own = module(file);
        let text = fs::read_to_string(file).unwrap();
        let resolve = |path: &Vec<String>| {
            let mut place = own.clone();
            let ups = path.iter().take_while(|part| *part == "super" || *part == "self").count();
            if ups == 0 {
                return None; // of another crate or another module of this one
            }
            for part in path.iter().take(ups).filter(|part| *part == "super") {
                place.pop_if(|_| part == "super");
            }
            for part in &path[ups..] {
                let next = [place.clone(), vec![part.clone()]].concat();
                match known.contains(&next) {
                    true => place = next,
                    false => break,
                }
            }
            Some(place).filter(|place| *place != own)
        };
        (own.clone(), imports(&text).iter().filter_map(resolve).collect())
    };
    files.iter().map(edges).collect()
}

/// A circle of modules that use each other, if there is one.
fn circle(graph: &BTreeMap<Vec<String>, BTreeSet<Vec<String>>>) -> Option<Vec<String>> {
    fn visit(
        graph: &BTreeMap<Vec<String>, BTreeSet<Vec<String>>>,
        module: &Vec<String>,
        way: &mut Vec<Vec<String>>,
        done: &mut BTreeSet<Vec<String>>,
    ) -> Option<Vec<String>> {
        if let Some(start) = way.iter().position(|other| other == module) {
            return Some(way[start..].iter().map(|module| module.join("::")).collect());
        }
        if !done.insert(module.clone()) {
            return None;
        }
        way.push(module.clone());
        let found = graph[module].iter().find_map(|used| visit(graph, used, way, done));
        way.pop();
        found
    }
    let mut done = BTreeSet::new();
    graph.keys().find_map(|module| visit(graph, module, &mut Vec::new(), &mut done))
}

/// Modules whose files use each other in one direction only.
const ORDERED: [&str; 3] = ["frontend", "serve", "upstream"];

#[test]
fn files_of_a_module_use_each_other_in_one_direction() {
    for module in ORDERED {
        let folder = root().join("crates/pml/src").join(module);
        assert_eq!(circle(&module_graph(&folder)), None, "{module}");
    }
    // The reader of imports reads them.
    let graph = module_graph(&root().join("crates/pml/src/upstream"));
    let files = |name: &str| vec![name.to_owned()];
    assert!(graph[&files("connection")].contains(&files("session")), "{graph:?}");
    assert!(graph[&vec!["transport".to_owned(), "http".to_owned()]].contains(&files("inbox")), "{graph:?}");
}

/// The first line of a `mod.rs` or `lib.rs` that neither declares a module nor imports or re-exports a name.
fn logic(text: &str) -> Option<&str> {
    text.lines().find(|line| {
        let item = line.strip_prefix("pub").map_or(*line, |rest| match rest.strip_prefix('(') {
            Some(scope) => scope.split_once(") ").map_or("", |(_, item)| item),
            None => rest.trim_start(),
        });
        let is_module = item.starts_with("mod ") && item.ends_with(';');
        // An indented line is part of a group of imports: anything else with a body starts with a line that is refused.
        let is_inside = line.is_empty() || line.starts_with([' ', '}']);
        let is_silent = ["//", "#", "compile_error!("].iter().any(|start| line.starts_with(start));
        !(is_module || is_inside || is_silent || item.starts_with("use "))
    })
}

#[test]
fn mod_and_lib_files_declare_and_re_export_and_hold_no_logic() {
    for name in fs::read_dir(root().join("crates")).unwrap() {
        for file in rust_files(&name.unwrap().path().join("src")) {
            if file.ends_with("mod.rs") || file.ends_with("lib.rs") {
                let text = fs::read_to_string(&file).unwrap();
                assert_eq!(logic(&text), None, "{}", file.display());
            }
        }
    }
    let table = [
        (
            "//! Doc\n#[cfg(test)]\nmod a;\npub(crate) mod b;\n\npub use self::{\n    a::A,\n};\npub(in crate::x) use b::B;",
            None,
        ),
        ("mod a;\nfn main() {}", Some("fn main() {}")),
        ("pub(super) async fn run() {", Some("pub(super) async fn run() {")),
        ("impl A {\n}", Some("impl A {")),
        ("pub struct A;", Some("pub struct A;")),
        ("mod tests {\n    fn a() {}\n}", Some("mod tests {")),
        ("macro_rules! a {", Some("macro_rules! a {")),
    ];
    for (text, expected) in table {
        assert_eq!(logic(text), expected, "{text}");
    }
}

#[test]
fn unsafe_code_stays_in_the_worker() {
    for name in ["pml", "pml-wire", "pml-testkit"] {
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        assert!(manifest.contains("[lints]\nworkspace = true"), "{name} does not take the workspace's lints");
    }
    assert!(read("Cargo.toml").contains("unsafe_code = \"forbid\""));
    // What is jailed may name nothing of the host.
    let worker = read("crates/pml-worker/Cargo.toml");
    assert!(!worker.contains("pml.workspace") && !worker.contains("tokio"));
}

#[test]
fn dependencies_come_from_the_registry_under_known_licences() {
    #[expect(clippy::disallowed_methods, reason = "asks cargo")]
    let output = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let allowed = read("deny.toml");
    let is_allowed = |licence: &str| allowed.contains(&format!("  \"{}\",", licence.trim_matches(['(', ')'])));
    for package in metadata["packages"].as_array().unwrap() {
        let name = &package["name"];
        let licences = package["license"].as_str().unwrap_or_default().replace('/', " OR ");
        // Every part that is joined by AND must offer a licence that is allowed.
        let fine = licences.split(" AND ").all(|part| part.split(" OR ").any(|licence| is_allowed(licence.trim())));
        assert!(fine, "{name}: {licences}");
        let source = package["source"].as_str();
        assert!(source.is_none_or(|source| source.starts_with("registry+")), "{name}: {source:?}");
    }
}

/// The gate's step for dependencies, with a cargo that only writes down what it is asked.
#[cfg(unix)]
#[test]
fn advisories_are_checked_where_they_can_be_and_it_is_said_where_not() {
    use std::os::unix::fs::PermissionsExt;

    let run = |has_deny: bool, has_database: bool| {
        let folder = tempfile::tempdir().unwrap();
        let (home, cargo) = (folder.path().join("home"), folder.path().join("cargo"));
        fs::create_dir_all(home.join("advisory-dbs")).unwrap();
        if has_database {
            fs::create_dir(home.join("advisory-dbs/one")).unwrap();
        }
        fs::write(&cargo, format!("#!/bin/sh\necho \"cargo $*\"\nexit {}\n", u8::from(!has_deny))).unwrap();
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/bin:/bin", folder.path().display());
        #[expect(clippy::disallowed_methods, reason = "runs a script as a shell would")]
        let output = std::process::Command::new(root().join("scripts/dependencies"))
            .env("PATH", path)
            .env("CARGO_HOME", &home)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let all = run(true, true);
    assert!(all.contains("check licenses bans sources") && all.contains("check --disable-fetch advisories"), "{all}");
    for (has_deny, has_database) in [(false, true), (true, false)] {
        let some = run(has_deny, has_database);
        assert!(some.contains("NOT CHECKED: advisories") && !some.contains("--disable-fetch"), "{some}");
    }
    assert!(read("deny.toml").contains("\n[advisories]\n"));
    assert!(read("scripts/test").contains("scripts/dependencies"));
}

#[test]
fn the_architecture_is_a_short_map_of_files_that_exist() {
    let text = read("ARCHITECTURE.md");
    let lines = text.lines().count();
    assert!(lines <= 200, "ARCHITECTURE.md has {lines} lines");
    let files = rust_files(&root().join("crates"));
    let named: BTreeSet<_> = text.split('`').skip(1).step_by(2).filter(|word| word.ends_with(".rs")).collect();
    assert!(named.len() > 50, "{named:?}");
    for name in named {
        assert!(files.iter().any(|file| file.ends_with(name)), "ARCHITECTURE.md names `{name}`, which does not exist");
    }
}

#[test]
fn the_readmes_first_command_runs_pml() {
    assert!(read("README.md").contains("cargo run --release -- demo"));
    // Another binary among the default members would make cargo ask which one is meant.
    assert!(read("Cargo.toml").contains("default-members = [\"crates/pml\"]"));
}

#[test]
fn every_file_says_what_it_is_for() {
    for name in fs::read_dir(root().join("crates")).unwrap() {
        for file in rust_files(&name.unwrap().path()) {
            let text = fs::read_to_string(&file).unwrap();
            assert!(text.starts_with("//! "), "{} does not start with //!", file.display());
        }
    }
}
