//! `pml graph`: which tools are used together, and which follow each other.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{self, Write as _},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use pml_learn::{Edge, EdgeKind};
use serde_json::json;

use super::{USAGE, fail, with_servers};
use crate::{config::Config, serve::Services, shown::visible};

/// How long traces that were stored since the last time are learned.
const LEARNED: Duration = Duration::from_secs(10);
/// The picture is a circle of so many tools at most.
const MOST_DRAWN: usize = 60;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How to write it: dot for Graphviz, json, or svg
    #[arg(long, value_name = "FORMAT", default_value = "dot")]
    format: Format,

    /// How many edges at most, the strongest
    #[arg(long, value_name = "N", default_value_t = 200)]
    limit: usize,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    Dot,
    Json,
    Svg,
}

pub(super) async fn run(args: &Args, config: &Config) -> ExitCode {
    let edges = with_servers(config, async |services: Arc<Services>, _| {
        services.broker.settled_learning(LEARNED).await;
        let view = services.broker.learned();
        let learned = view.as_ref().and_then(|view| view.learned());
        let mut edges: Vec<Edge> = learned.map(|learned| learned.edges().collect()).unwrap_or_default();
        // What may not be called is not shown.
        edges.retain(|edge| {
            let is_shown = |name: &str| name.parse().is_ok_and(|tool| config.policy.allows(&tool));
            (edge.kind == EdgeKind::Contains || is_shown(&edge.from)) && is_shown(&edge.to)
        });
        edges
    })
    .await;
    let mut edges = match edges {
        Ok(edges) => edges,
        Err(err) => return fail(&err, USAGE),
    };
    edges.sort_by(|a, b| b.weight.total_cmp(&a.weight).then_with(|| (&a.from, &a.to).cmp(&(&b.from, &b.to))));
    edges.truncate(args.limit);
    let text = match args.format {
        Format::Dot => dot(&edges),
        Format::Json => format!("{:#}\n", json(&edges)),
        Format::Svg => svg(&edges),
    };
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn kind(kind: EdgeKind) -> &'static str {
    match kind {
        EdgeKind::Contains => "contains",
        EdgeKind::Sequence => "sequence",
        EdgeKind::CoOccurs => "co_occurs",
    }
}

fn json(edges: &[Edge]) -> serde_json::Value {
    let edge = |edge: &Edge| {
        json!({
            "kind": kind(edge.kind), "from": edge.from, "to": edge.to, "count": edge.count,
            "weight": (edge.weight * 1e3).round() / 1e3, "last_ms": edge.last_ms,
        })
    };
    json!({ "edges": edges.iter().map(edge).collect::<Vec<_>>() })
}

fn dot(edges: &[Edge]) -> String {
    let quoted = |name: &str| format!("\"{}\"", visible(name).replace('\\', "\\\\").replace('"', "\\\""));
    let mut text = String::from("digraph tools {\n  rankdir=LR;\n  node [shape=box];\n");
    for edge in edges {
        let style = match edge.kind {
            EdgeKind::Contains => "style=dotted",
            EdgeKind::Sequence => "style=solid",
            EdgeKind::CoOccurs => "style=dashed, dir=none",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {} -> {} [label=\"{}\", {style}];", quoted(&edge.from), quoted(&edge.to), edge.count);
    }
    text.push_str("}\n");
    text
}

/// A circle of tools with lines between them, the stronger the wider.
fn svg(edges: &[Edge]) -> String {
    const SIZE: f64 = 900.0;
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for edge in edges {
        for name in [&*edge.from, &*edge.to] {
            let next = places.len();
            if next < MOST_DRAWN {
                places.entry(name).or_insert(next);
            }
        }
    }
    let count = places.len().max(1) as f64;
    let point = |place: usize, radius: f64| {
        let angle = place as f64 / count * std::f64::consts::TAU;
        (SIZE / 2.0 + radius * angle.cos(), SIZE / 2.0 + radius * angle.sin())
    };
    let escaped = |text: &str| visible(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let heaviest = edges.iter().map(|edge| edge.weight).fold(1.0, f64::max);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {SIZE} {SIZE}\" font-family=\"sans-serif\" font-size=\"11\">\n"
    );
    for edge in edges {
        let (Some(from), Some(to)) = (places.get(&*edge.from), places.get(&*edge.to)) else { continue };
        let ((x1, y1), (x2, y2)) = (point(*from, 280.0), point(*to, 280.0));
        let width = 0.5 + 3.5 * (edge.weight / heaviest).sqrt();
        let dash = if edge.kind == EdgeKind::CoOccurs { " stroke-dasharray=\"4 3\"" } else { "" };
        let _ = writeln!(
            text,
            "<line x1=\"{x1:.0}\" y1=\"{y1:.0}\" x2=\"{x2:.0}\" y2=\"{y2:.0}\" stroke=\"#678\" stroke-width=\"{width:.1}\"{dash}><title>{} {} {}: {}</title></line>",
            escaped(&edge.from),
            kind(edge.kind),
            escaped(&edge.to),
            edge.count
        );
    }
    for (name, place) in &places {
        let ((x, y), (tx, ty)) = (point(*place, 280.0), point(*place, 295.0));
        let anchor = if tx < SIZE / 2.0 { "end" } else { "start" };
        let _ = writeln!(
            text,
            "<circle cx=\"{x:.0}\" cy=\"{y:.0}\" r=\"4\"/><text x=\"{tx:.0}\" y=\"{ty:.0}\" text-anchor=\"{anchor}\">{}</text>",
            escaped(name)
        );
    }
    text.push_str("</svg>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_the_formats() {
        let edge =
            |kind, from: &str| Edge { kind, from: from.into(), to: "a:b".into(), count: 3, weight: 2.0, last_ms: 5 };
        let edges = [edge(EdgeKind::Sequence, "x:\"]; <script>\u{202e}"), edge(EdgeKind::CoOccurs, "a:c")];
        let dot = dot(&edges);
        assert!(dot.contains("\"x:\\\"]; <script>\\\\u{202e}\" -> \"a:b\" [label=\"3\""), "{dot}");
        let svg = svg(&edges);
        assert!(svg.contains("&lt;script&gt;") && !svg.contains("<script>") && !svg.contains('\u{202e}'), "{svg}");
        assert_eq!(json(&edges)["edges"][1]["kind"], "co_occurs");
    }
}
