//! Tools by what they are about: words of a question against words of names and descriptions.

use std::{collections::HashMap, sync::Arc};

use super::tool::Tool;

/// How much a word in each place counts.
const NAME: f64 = 3.0;
const SERVER: f64 = 1.5;
const ARGUMENT: f64 = 0.5;
const DESCRIPTION: f64 = 1.0;
/// Of a description, the rest says little about what a tool is for.
const DESCRIPTION_WORDS: usize = 120;
/// How soon more of the same word counts no more, and how much length counts against a tool.
const SATURATION: f64 = 1.2;
const LENGTH: f64 = 0.6;

/// A tool that was found.
#[derive(Clone, Debug)]
pub struct Found {
    pub tool: Arc<Tool>,
    /// Only to be compared with others of the same search.
    pub score: f64,
}

/// The tools that fit a question, best first. Equally good ones are in the order of their ids.
pub fn search<'a>(tools: impl IntoIterator<Item = &'a Arc<Tool>>, query: &str, limit: usize) -> Vec<Found> {
    let mut wanted = words(query);
    wanted.sort_unstable();
    wanted.dedup();
    let documents: Vec<_> = tools.into_iter().map(|tool| (tool, Document::new(tool))).collect();
    let count = documents.len() as f64;
    let mean = documents.iter().map(|(_, document)| document.length).sum::<f64>() / count.max(1.0);
    let rarities: Vec<f64> = wanted
        .iter()
        .map(|word| {
            let holders = documents.iter().filter(|(_, document)| document.weights.contains_key(word)).count() as f64;
            (1.0 + (count - holders + 0.5) / (holders + 0.5)).ln()
        })
        .collect();
    let mut found: Vec<_> = documents
        .iter()
        .filter_map(|(tool, document)| {
            let length = 1.0 - LENGTH + LENGTH * document.length / mean.max(1.0);
            let score: f64 = wanted
                .iter()
                .zip(&rarities)
                .filter_map(|(word, rarity)| {
                    let weight = document.weights.get(word)?;
                    Some(rarity * weight * (SATURATION + 1.0) / (weight + SATURATION * length))
                })
                .sum();
            (score > 0.0).then(|| Found { tool: Arc::clone(tool), score })
        })
        .collect();
    found.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.tool.id.as_str().cmp(b.tool.id.as_str())));
    found.truncate(limit);
    found
}

/// The words of a tool, and how much each counts.
struct Document {
    weights: HashMap<String, f64>,
    length: f64,
}

impl Document {
    fn new(tool: &Tool) -> Document {
        let mut document = Document { weights: HashMap::new(), length: 0.0 };
        document.add(words(tool.id.tool()), NAME);
        document.add(words(tool.id.server()), SERVER);
        let description = words(tool.description.as_deref().unwrap_or_default());
        document.add(description.into_iter().take(DESCRIPTION_WORDS).collect(), DESCRIPTION);
        let arguments = tool.input_schema["properties"].as_object().into_iter().flatten();
        document.add(arguments.flat_map(|(name, _)| words(name)).collect(), ARGUMENT);
        document
    }

    fn add(&mut self, words: Vec<String>, weight: f64) {
        self.length += words.len() as f64 * weight;
        for word in words {
            *self.weights.entry(word).or_default() += weight;
        }
    }
}

/// The words of a text or a name: `getUserID_v2` is get, user, id, v2. Plurals are one with their singular.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        let ends = match chars.peek() {
            None => true,
            Some(next) => !c.is_alphanumeric() || !next.is_alphanumeric() || (c.is_lowercase() && next.is_uppercase()),
        };
        if ends && !word.is_empty() {
            words.push(singular(std::mem::take(&mut word)));
        }
    }
    words
}

fn singular(mut word: String) -> String {
    if word.len() > 3 && word.ends_with("ies") {
        word.truncate(word.len() - 3);
        word.push('y');
    } else if word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") {
        word.pop();
    }
    word
}

#[cfg(test)]
mod tests {
    use serde_json::{json, value::to_raw_value};

    use super::*;

    fn tools(list: &[(&str, &str)]) -> Vec<Arc<Tool>> {
        let tool = |(name, description): &(&str, &str)| {
            let raw = to_raw_value(&json!({ "name": name, "description": description })).unwrap();
            Arc::new(Tool::parse("s", raw).unwrap())
        };
        list.iter().map(tool).collect()
    }

    #[test]
    fn names_and_texts_are_cut_into_words() {
        let table = [
            ("getUserID_v2", &["get", "user", "id", "v2"][..]),
            ("read-text-files", &["read", "text", "file"]),
            ("List all queries, please!", &["list", "all", "query", "please"]),
            ("", &[]),
            ("…!?", &[]),
            ("Größe", &["größe"]),
        ];
        for (text, expected) in table {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn the_tool_that_is_meant_comes_first() {
        let tools = tools(&[
            ("create_issue", "Opens a new issue in a repository"),
            ("list_issues", "Lists issues of a repository"),
            ("send_mail", "Sends a mail about anything, an issue for instance"),
            ("twin_b", "same words"),
            ("twin_a", "same words"),
        ]);
        let names = |query: &str| -> Vec<_> {
            search(&tools, query, 10).into_iter().map(|found| found.tool.id.tool().to_owned()).collect()
        };
        assert_eq!(names("create a new issue")[0], "create_issue");
        assert_eq!(names("listing all issues")[0], "list_issues");
        assert_eq!(names("same words"), ["twin_a", "twin_b"]);
        assert!(names("zebra").is_empty() && names("").is_empty() && names("🦓 ?!").is_empty());
        assert_eq!(search(&tools, "issue", 2).len(), 2);
    }
}
