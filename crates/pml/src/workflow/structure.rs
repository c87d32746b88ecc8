//! Whether the tasks of a workflow fit together: ids, references, cycles.

use std::collections::{BTreeSet, HashMap};

use super::{
    graph::{Items, Task, Workflow},
    problem::{Problem, Problems},
    reference::{Reference, Source, shown},
    schedule::Dependencies,
};
use crate::{
    catalog::nearest,
    execution::{IndexRoom, JsonText},
    work::Waiter,
};

/// Memory for knowing where the parts of arguments are.
const INDEX_BYTES: usize = 1024 * 1024;

/// What each task depends on, by `dependsOn` and by its references. `args` are the arguments of the workflow, JSON text;
/// without them, references to them are not checked.
pub(super) fn dependencies(workflow: &Workflow, args: Option<&str>) -> Result<Dependencies, Problems> {
    let mut problems = Problems::default();
    let dependencies = link(workflow, args, &mut problems);
    if problems.is_empty() { Ok(dependencies) } else { Err(problems) }
}

/// The same of a workflow that may have mistakes, to which those that are found here are added. With any, there are no layers.
pub(super) fn link(workflow: &Workflow, args: Option<&str>, problems: &mut Problems) -> Dependencies {
    let mut places: HashMap<&str, usize> = HashMap::new();
    // A task without an id was told of already.
    for (index, task) in workflow.tasks.iter().enumerate().filter(|(_, task)| !task.id.is_empty()) {
        if let Some(first) = places.insert(&task.id, index) {
            places.insert(&task.id, first);
            problems.push(at(index, task, "id", format!("the id `{}` is that of tasks[{first}] already", task.id)));
        }
    }
    let args = args.map(|args| JsonText::of_json(args.into(), &IndexRoom::new(INDEX_BYTES)));
    let mut linker = Linker { places: &places, args: args.as_ref(), problems: &mut *problems };
    let needs: Vec<Vec<usize>> =
        workflow.tasks.iter().enumerate().map(|(index, task)| linker.needs(index, task)).collect();
    for cycle in cycles(&needs) {
        let names: Vec<_> = cycle.iter().chain(cycle.first()).map(|task| workflow.tasks[*task].id.as_str()).collect();
        let first = cycle.first().copied().unwrap_or(0);
        let message = format!("tasks depend on each other in a circle: {}", in_short(&names));
        problems.push(at(first, &workflow.tasks[first], "dependsOn", message));
    }
    let layers = if problems.is_empty() { layers(&needs) } else { Vec::new() };
    Dependencies { needs, layers }
}

fn at(index: usize, task: &Task, path: &str, message: String) -> Problem {
    Problem { task: Some(task.id.clone()), ..Problem::new(format!("tasks[{index}].{path}"), message) }
}

/// Finds what tasks refer to.
struct Linker<'a> {
    places: &'a HashMap<&'a str, usize>,
    args: Option<&'a JsonText>,
    problems: &'a mut Problems,
}

impl Linker<'_> {
    fn needs(&mut self, index: usize, task: &Task) -> Vec<usize> {
        let mut needs = BTreeSet::new();
        for (number, id) in task.depends_on.iter().enumerate() {
            match self.places.get(id.as_str()) {
                Some(place) => drop(needs.insert(*place)),
                None => {
                    let message = self.no_task(id);
                    self.problems.push(at(index, task, &format!("dependsOn[{number}]"), message));
                }
            }
        }
        let each = task.for_each.as_ref();
        let items = each.and_then(|each| match &each.items {
            Items::Reference(reference) => Some(reference),
            Items::Literal(_) => None,
        });
        let tests = task.when.iter().flat_map(|condition| condition.references());
        let uses = tests.map(|reference| ("when".to_owned(), reference, Use::Test));
        let uses = uses.chain(items.map(|reference| ("forEach".to_owned(), reference, Use::Value { of_item: false })));
        let of_item = each.is_some();
        let in_args = task.args.references();
        let uses = uses
            .chain(in_args.map(|(hole, reference)| (format!("args{}", hole.path), reference, Use::Value { of_item })));
        for (path, reference, usage) in uses {
            match self.resolve(reference, usage) {
                Ok(need) => needs.extend(need),
                Err(message) => self.problems.push(at(index, task, &path, message)),
            }
        }
        needs.into_iter().collect()
    }

    /// The task that a reference needs.
    fn resolve(&self, reference: &Reference, usage: Use) -> Result<Option<usize>, String> {
        match (&reference.source, usage) {
            (Source::Output(id), _) => {
                self.places.get(id.as_str()).map(|place| Some(*place)).ok_or_else(|| self.no_task(id))
            }
            // What is not there can be tested for.
            (Source::Args, Use::Test) => Ok(None),
            (Source::Args, Use::Value { .. }) => {
                let found = self.args.map_or(Ok(""), |args| args.select(&reference.path, &Waiter::default()));
                let missing = |why| format!("`{reference}` is not in the arguments of the workflow: {why}");
                found.map(|_| None).map_err(missing)
            }
            (Source::Item | Source::Index, Use::Value { of_item: true }) => Ok(None),
            (Source::Item | Source::Index, _) => {
                Err(format!("`{reference}` has a value only in `args` of a task with `forEach`"))
            }
        }
    }

    fn no_task(&self, id: &str) -> String {
        let near = nearest(id, self.places.keys().copied());
        let hint = near.first().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        format!("there is no task `{}`{hint}", shown(id))
    }
}

/// What a reference is used for.
#[derive(Clone, Copy)]
enum Use {
    /// A condition, which can test whether there is a value.
    Test,
    /// A value; that of an element of `forEach`?
    Value { of_item: bool },
}

/// The circles in a graph, one of each part that has any. Without recursion: a chain of a thousand tasks is ordinary.
fn cycles(needs: &[Vec<usize>]) -> Vec<Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; needs.len()];
    let mut found = Vec::new();
    for start in 0..needs.len() {
        if marks[start] != Mark::New {
            continue;
        }
        marks[start] = Mark::Open;
        // The tasks that lead here, and how many of what each needs were looked at.
        let mut path = vec![(start, 0)];
        while let Some((task, next)) = path.last_mut() {
            let (task, number) = (*task, *next);
            *next += 1;
            match needs[task].get(number).copied() {
                None => {
                    marks[task] = Mark::Done;
                    path.pop();
                }
                Some(need) if marks[need] == Mark::New => {
                    marks[need] = Mark::Open;
                    path.push((need, 0));
                }
                Some(need) if marks[need] == Mark::Open => {
                    let from = path.iter().position(|(other, _)| *other == need).unwrap_or(0);
                    found.push(path[from..].iter().map(|(task, _)| *task).collect());
                    // One circle is enough to say; others of this part may share its tasks.
                    path.drain(..).for_each(|(task, _)| marks[task] = Mark::Done);
                }
                Some(_) => {}
            }
        }
    }
    found
}

/// A circle, of which a long one is cut in the middle.
fn in_short(names: &[&str]) -> String {
    const SHOWN: usize = 12;
    match names.len() > SHOWN {
        false => names.join(" → "),
        true => {
            let (start, end) = (&names[..SHOWN / 2], &names[names.len() - SHOWN / 2..]);
            format!("{} → … ({} more) … → {}", start.join(" → "), names.len() - SHOWN, end.join(" → "))
        }
    }
}

/// The layer of each task, of a graph without circles.
fn layers(needs: &[Vec<usize>]) -> Vec<u32> {
    let mut layers = vec![0; needs.len()];
    let mut left: Vec<usize> = (0..needs.len()).rev().collect();
    while let Some(task) = left.pop() {
        let open: Vec<_> = needs[task].iter().copied().filter(|need| layers[*need] == 0).collect();
        if layers[task] != 0 {
            continue;
        }
        if open.is_empty() {
            layers[task] = 1 + needs[task].iter().map(|need| layers[*need]).max().unwrap_or(0);
        } else {
            left.push(task);
            left.extend(open);
        }
    }
    layers
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn link(tasks: Value, args: Value) -> Result<Dependencies, Vec<String>> {
        let workflow = Workflow::from_json(&json!({ "tasks": tasks }).to_string()).unwrap();
        dependencies(&workflow, Some(&args.to_string())).map_err(|problems| {
            problems
                .iter()
                .map(|problem| {
                    format!("{} {}: {}", problem.task.as_deref().unwrap_or("-"), problem.path, problem.message)
                })
                .collect()
        })
    }

    fn task(id: &str, needs: &[&str]) -> Value {
        json!({ "id": id, "tool": "s:t", "dependsOn": needs })
    }

    #[test]
    fn references_are_dependencies_too() {
        let tasks = json!([
            {"id": "d", "tool": "s:t", "args": {"x": ["$OUTPUT[b].y", "${$OUTPUT[b]} ${$ARGS.n}"]}, "dependsOn": ["c"]},
            {"id": "a", "tool": "s:t"},
            {"id": "b", "tool": "s:t", "when": {"ref": "$OUTPUT[a]", "exists": true}},
            {"id": "c", "tool": "s:t", "forEach": "$OUTPUT[a].items", "args": {"i": "$ITEM.x", "n": "$INDEX"}},
        ]);
        let linked = link(tasks, json!({ "n": 1 })).unwrap();
        assert_eq!(linked.needs, [vec![2, 3], vec![], vec![1], vec![1]]);
        assert_eq!(linked.layers, [3, 1, 2, 2]);
    }

    #[test]
    fn what_does_not_fit_is_said_with_task_and_path() {
        let cases = [
            (json!([task("a", &[]), task("a", &[])]), "a tasks[1].id: the id `a` is that of tasks[0] already"),
            (
                json!([task("fetch", &[]), task("b", &["fetsh"])]),
                "b tasks[1].dependsOn[0]: there is no task `fetsh`; did you mean `fetch`?",
            ),
            (
                json!([{"id": "a", "tool": "s:t", "args": {"x": {"y": "$OUTPUT[q].z"}}}]),
                "a tasks[0].args.x.y: there is no task `q`",
            ),
            (json!([{"id": "a", "tool": "s:t", "args": {"x": "$OUTPUT[a]"}}]), "in a circle: a → a"),
            (json!([task("a", &["c"]), task("b", &["a"]), task("c", &["b"])]), "in a circle: a → c → b → a"),
            (
                json!([{"id": "a", "tool": "s:t", "args": {"x": "$ITEM"}}]),
                "a tasks[0].args.x: `$ITEM` has a value only in `args` of a task with `forEach`",
            ),
            (
                json!([{"id": "a", "tool": "s:t", "forEach": "$ITEM.x"}]),
                "a tasks[0].forEach: `$ITEM.x` has a value only",
            ),
            (
                json!([{"id": "a", "tool": "s:t", "forEach": [1], "when": {"ref": "$INDEX", "gt": 1}}]),
                "a tasks[0].when: `$INDEX` has a value only",
            ),
            (
                json!([{"id": "a", "tool": "s:t", "args": {"x": "$ARGS.m"}}]),
                "`$ARGS.m` is not in the arguments of the workflow: there is nothing at `m`",
            ),
        ];
        for (tasks, part) in cases {
            let said = link(tasks.clone(), json!({ "n": 1 })).unwrap_err();
            assert!(said.iter().any(|said| said.contains(part)), "{tasks}: {said:?}");
        }
        let optional = json!([{"id": "a", "tool": "s:t", "when": {"ref": "$ARGS.m", "exists": true}}]);
        assert!(link(optional, Value::Null).is_ok());
        let two =
            json!([task("a", &["b"]), task("b", &["a"]), task("c", &["d"]), task("d", &["c"]), task("e", &["a", "x"])]);
        assert_eq!(link(two, Value::Null).unwrap_err().len(), 3, "all of it is said at once");
    }

    #[test]
    fn a_thousand_tasks_in_a_row_or_in_a_circle_are_ordinary() {
        let name = |number: usize| format!("t{number}");
        let mut chain: Vec<_> = (0..1000).map(|number| task(&name(number), &[])).collect();
        for (number, task) in chain.iter_mut().enumerate().skip(1) {
            task["dependsOn"] = json!([name(number - 1)]);
        }
        assert_eq!(link(json!(chain), Value::Null).unwrap().layers[999], 1000);
        chain[0]["dependsOn"] = json!([name(999)]);
        let said = link(json!(chain), Value::Null).unwrap_err();
        assert!(said[0].contains("(989 more)") && said[0].len() < 300, "{said:?}");
        let last = name(999);
        let mut all: Vec<_> = (0..999).map(name).collect();
        all.reverse();
        let mut wide: Vec<_> = (0..999).map(|number| task(&name(number), &[])).collect();
        wide.push(task(&last, &all.iter().map(String::as_str).collect::<Vec<_>>()));
        assert_eq!(link(json!(wide), Value::Null).unwrap().layers[999], 2);
    }
}
