//! The encoder as the search uses it.

use std::sync::LazyLock;

use super::{
    curves::Gelu,
    file::{Parts, parse},
    network::WIDTH,
};
use crate::{embedder::Embedder, reading::name_and_first_sentence, tool::ToolText};

static BYTES: &[u8] = include_bytes!("../../model/encoder.bin");
static LOADED: LazyLock<Option<Loaded>> =
    LazyLock::new(|| parse(BYTES).map(|parts| Loaded { parts, gelu: Gelu::new() }));

/// Names what directions are made with: the weights, the kernels, and how texts are put to them.
const VERSION: &str = "pml-encoder-1";

/// What it counts beside the table. From 0.3 to 0.5 as many tools are found.
pub(crate) const SHARE: f32 = 0.4;

/// Pieces of a query that are read; each takes a fifth of a millisecond. Of a longer query the words that any has are left
/// out first: with 24 or 64 of them as many tools are found.
const QUERY_PIECES: usize = 20;

/// The same of a tool.
const TOOL_PIECES: usize = 32;

struct Loaded {
    parts: Parts,
    gelu: Gelu,
}

/// Where the weights come from and under which licences.
pub fn notice() -> &'static str {
    LOADED.as_ref().map_or("", |loaded| loaded.parts.notice)
}

/// The encoder that is compiled in. It is unpacked when it is first asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Encoder;

impl Encoder {
    fn embed(text: &str, limit: usize) -> Vec<f32> {
        let Some(loaded) = LOADED.as_ref() else { return vec![0.0; WIDTH] };
        let pieces = loaded.parts.pieces.of(text, limit);
        match pieces.is_empty() {
            true => vec![0.0; WIDTH],
            false => loaded.parts.network.direction(&pieces, &loaded.gelu),
        }
    }
}

impl Embedder for Encoder {
    fn version(&self) -> &str {
        VERSION
    }

    fn dimensions(&self) -> usize {
        WIDTH
    }

    /// Name and first sentence only: what follows draws it away from what the tool is for.
    fn tool(&self, tool: &ToolText) -> Vec<f32> {
        Encoder::embed(&name_and_first_sentence(tool), TOOL_PIECES)
    }

    fn query(&self, text: &str) -> Vec<f32> {
        Encoder::embed(text, QUERY_PIECES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cosine(a: &str, b: &str) -> f32 {
        Encoder.query(a).iter().zip(Encoder.query(b)).map(|(a, b)| a * b).sum()
    }

    /// What the same weights give in floats, with the functions of numpy and scipy.
    #[test]
    fn sentences_are_as_near_as_the_model_says() {
        #[rustfmt::skip]
        let table = [
            ("list all buckets",                       "show me every storage container",  0.491),
            ("list all buckets",                       "delete the pod",                   0.048),
            ("restart the pod",                        "delete the pod",                   0.673),
            ("restart the pod",                        "get forecast for a city",         -0.056),
            ("what is the weather in lisbon tomorrow", "get forecast for a city",          0.347),
        ];
        for (a, b, expected) in table {
            let found = cosine(a, b);
            assert!((found - expected).abs() < 0.01, "{a}, {b}: {found} instead of {expected}");
        }
    }

    #[test]
    fn what_says_nothing_has_no_direction() {
        for text in ["", "?! …", "搜索", "🦓"] {
            assert_eq!(Encoder.query(text), vec![0.0; WIDTH], "{text}");
        }
        let long = "move the old report into another folder ".repeat(200);
        assert!((cosine(&long, &long) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn a_broken_file_is_none() {
        for bytes in [&b""[..], b"PMLENC01", &BYTES[..1000], &BYTES[..BYTES.len() - 1]] {
            assert!(parse(bytes).is_none());
        }
        assert!(BYTES.len() <= 9_000_000 && notice().contains("paraphrase-MiniLM-L3-v2"));
    }

    #[test]
    fn no_sum_overflows() {
        let loaded = LOADED.as_ref().unwrap();
        for layer in &loaded.parts.network.layers {
            for matrix in [&layer.query, &layer.key, &layer.value, &layer.attended, &layer.inner, &layer.outer] {
                let largest = matrix.largest_sum();
                assert!(largest > 0 && largest <= i64::from(i32::MAX), "{largest}");
            }
        }
    }

    /// The same bits everywhere: on another processor and with another compiler too. Whoever changes the weights, the
    /// kernels or what is read changes [`VERSION`], and then the numbers here.
    #[test]
    fn the_version_changes_with_the_directions() {
        let fnv = |bytes: &[u8]| {
            bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
            })
        };
        let tool =
            ToolText::new("disk", "moveFile", "Gives a file another name. Not a folder.", &serde_json::json!({}));
        let texts = [
            "list all buckets",
            "Größe of café",
            "a query of many words, so that all of its pieces are not read: \
            the old report, the new one, and what is in the folder beside them",
        ];
        let directions = texts.into_iter().map(|text| Encoder.query(text)).chain([Encoder.tool(&tool)]);
        let bits: Vec<u8> = directions.flatten().flat_map(f32::to_le_bytes).collect();
        assert_eq!((VERSION, fnv(BYTES), fnv(&bits)), ("pml-encoder-1", 0x2f79_b9a7_2e3c_8b87, 0x7ffc_a85e_9498_94f9));
    }
}
