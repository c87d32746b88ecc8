//! What of a tool is put to a model that reads sentences.

use crate::{
    index::first_sentence,
    tokenize::{Run, runs},
    tool::ToolText,
};

/// `listBuckets` as words, and the first sentence of what is said about it: a model knows no identifiers, and what follows
/// draws it away from what the tool is for.
pub(crate) fn name_and_first_sentence(tool: &ToolText) -> String {
    let words = runs(&tool.name).into_iter().map(|run| match run {
        Run::Word { parts, .. } => parts.join(" "),
        Run::Unspaced(chars) => chars.into_iter().collect(),
    });
    let name = words.collect::<Vec<_>>().join(" ");
    let texts = [name.as_str(), first_sentence(&tool.description).0];
    texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": ")
}
