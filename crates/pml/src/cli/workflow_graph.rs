//! Workflows, drawn: as text, SVG, for Graphviz, or as JSON.

use std::fmt::Write as _;

use serde_json::json;

use crate::{
    shown::visible,
    workflow::{Action, Dependencies, Document, Problems, Task, Workflow},
};

/// How a workflow is drawn.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Drawing {
    Text,
    Svg,
    Dot,
    Json,
}

/// Longest name in a picture.
const MAX_LABEL: usize = 34;
const WIDTH: usize = 260;
const HEIGHT: usize = 44;
const GAP: (usize, usize) = (60, 16);

/// A workflow that can be drawn. Its arguments are not needed for that.
pub(super) fn read(document: &Document) -> Result<(Workflow, Dependencies), Problems> {
    crate::workflow::read_graph(document)
}

pub(super) fn draw(workflow: &Workflow, dependencies: &Dependencies, drawing: Drawing) -> String {
    match drawing {
        Drawing::Text => text(workflow, dependencies),
        Drawing::Svg => svg(workflow, dependencies),
        Drawing::Dot => dot(workflow, dependencies),
        Drawing::Json => format!("{:#}\n", json(workflow, dependencies)),
    }
}

/// What a task does, in a word.
fn what(task: &Task) -> String {
    let what = match &task.action {
        Action::Tool(tool) => tool.clone(),
        Action::Capability(name) => format!("capability {name}"),
        Action::Code(_) => "code".to_owned(),
    };
    visible(&what).into_owned()
}

/// What changes whether, or how often, a task runs.
fn marks(task: &Task) -> String {
    let marks = [(task.when.is_some(), "when"), (task.for_each.is_some(), "forEach"), (task.retry.times > 0, "retry")];
    let marks: Vec<_> = marks.iter().filter(|(is_set, _)| *is_set).map(|(_, mark)| *mark).collect();
    if marks.is_empty() { String::new() } else { format!(" [{}]", marks.join(", ")) }
}

fn text(workflow: &Workflow, dependencies: &Dependencies) -> String {
    let mut text = String::new();
    let last = dependencies.layers.iter().copied().max().unwrap_or(0);
    for layer in 1..=last {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "layer {layer}");
        for (place, task) in workflow.tasks.iter().enumerate().filter(|(place, _)| dependencies.layers[*place] == layer)
        {
            let needs: Vec<_> =
                dependencies.needs[place].iter().map(|need| workflow.tasks[*need].id.as_str()).collect();
            let after = if needs.is_empty() { String::new() } else { format!("  after {}", needs.join(", ")) };
            let _ = writeln!(text, "  {}  {}{}{}", visible(&task.id), what(task), marks(task), visible(&after));
        }
    }
    text
}

fn dot(workflow: &Workflow, dependencies: &Dependencies) -> String {
    let quoted = |text: &str| format!("\"{}\"", visible(text).replace('\\', "\\\\").replace('"', "\\\""));
    let mut text = String::from("digraph workflow {\n  rankdir=LR;\n  node [shape=box];\n");
    for task in &workflow.tasks {
        let label = quoted(&format!("{}\n{}{}", task.id, what(task), marks(task))).replace('\n', "\\n");
        let _ = writeln!(text, "  {} [label={label}];", quoted(&task.id));
    }
    for (place, needs) in dependencies.needs.iter().enumerate() {
        for need in needs {
            let _ = writeln!(text, "  {} -> {};", quoted(&workflow.tasks[*need].id), quoted(&workflow.tasks[place].id));
        }
    }
    text.push_str("}\n");
    text
}

/// A column for each layer, with lines from a task to those that need it.
fn svg(workflow: &Workflow, dependencies: &Dependencies) -> String {
    let mut heights: Vec<usize> = Vec::new();
    let places: Vec<(usize, usize)> = dependencies
        .layers
        .iter()
        .map(|layer| {
            let column = (*layer as usize).saturating_sub(1);
            if heights.len() <= column {
                heights.resize(column + 1, 0);
            }
            heights[column] += 1;
            (GAP.1 + column * (WIDTH + GAP.0), GAP.1 + (heights[column] - 1) * (HEIGHT + GAP.1))
        })
        .collect();
    let (columns, rows) = (heights.len().max(1), heights.iter().copied().max().unwrap_or(1));
    let (width, height) = (columns * (WIDTH + GAP.0), GAP.1 + rows * (HEIGHT + GAP.1));
    let escaped = |text: &str| {
        let text: String = text.chars().take(MAX_LABEL).collect();
        visible(&text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
    };
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n"
    );
    for (place, needs) in dependencies.needs.iter().enumerate() {
        let (x2, y2) = (places[place].0, places[place].1 + HEIGHT / 2);
        for need in needs {
            let (x1, y1) = (places[*need].0 + WIDTH, places[*need].1 + HEIGHT / 2);
            let _ = writeln!(text, "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" stroke=\"#678\"/>");
        }
    }
    for (task, (x, y)) in workflow.tasks.iter().zip(&places) {
        let dash = if task.when.is_some() { " stroke-dasharray=\"4 3\"" } else { "" };
        let _ = writeln!(
            text,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"6\" fill=\"#eef\" stroke=\"#346\"{dash}/>\
             <text x=\"{}\" y=\"{}\" font-weight=\"bold\">{}</text><text x=\"{}\" y=\"{}\">{}</text>",
            x + 8,
            y + 18,
            escaped(&task.id),
            x + 8,
            y + 36,
            escaped(&format!("{}{}", what(task), marks(task))),
        );
    }
    text.push_str("</svg>\n");
    text
}

fn json(workflow: &Workflow, dependencies: &Dependencies) -> serde_json::Value {
    let task = |(place, task): (usize, &Task)| {
        let needs: Vec<_> = dependencies.needs[place].iter().map(|need| workflow.tasks[*need].id.as_str()).collect();
        json!({
            "id": task.id, "does": what(task), "layer": dependencies.layers[place], "needs": needs,
            "when": task.when.is_some(), "for_each": task.for_each.is_some(), "retry": task.retry.times,
        })
    };
    json!({
        "name": workflow.name, "intent": workflow.intent,
        "tasks": workflow.tasks.iter().enumerate().map(task).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(drawing: Drawing) -> String {
        let document = json!({ "tasks": [
            {"id": "a", "tool": "x:\"]; <script>\u{202e}"},
            {"id": "b", "code": "return 1", "args": {"x": "$OUTPUT[a]", "y": "$ARGS.unknown"}, "when": {"ref": "$OUTPUT[a]", "exists": true}},
        ]});
        let args = serde_json::value::RawValue::from_string("{}".to_owned()).unwrap();
        let (workflow, dependencies) = read(&Document::json(document.to_string(), args)).unwrap();
        draw(&workflow, &dependencies, drawing)
    }

    #[test]
    fn every_form_has_the_tasks_and_their_order() {
        assert!(drawn(Drawing::Text).contains("layer 2\n  b  code [when]  after a\n"), "{}", drawn(Drawing::Text));
        assert!(drawn(Drawing::Dot).contains("\"a\" -> \"b\";"), "{}", drawn(Drawing::Dot));
        let json: serde_json::Value = serde_json::from_str(&drawn(Drawing::Json)).unwrap();
        assert_eq!((&json["tasks"][1]["needs"][0], &json["tasks"][1]["layer"]), (&json!("a"), &json!(2)));
    }

    #[test]
    fn names_cannot_break_out_of_the_formats() {
        let svg = drawn(Drawing::Svg);
        assert!(svg.contains("&lt;script&gt;") && !svg.contains("<script>") && !svg.contains('\u{202e}'), "{svg}");
        assert!(drawn(Drawing::Dot).contains("x:\\\"]; <script>"), "{}", drawn(Drawing::Dot));
    }
}
