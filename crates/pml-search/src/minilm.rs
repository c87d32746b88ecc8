//! all-MiniLM in place of the table: a transformer, for those who have its weights.
//!
//! The files are those of a directory that sentence-transformers reads. The host reads them; here they are bytes. What is
//! in them is checked when they are loaded, so that a search cannot fail later: each number of the configuration is
//! bounded, each tensor has the shape that follows from it, and one text is tried.
//!
//! **Invariant:** memory is bounded by the size of the files and a text's by [`MAX_TOKENS`].

use std::fmt;

use candle_core::{DType, Device, Tensor, safetensors::SliceSafetensors};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{self, BertModel};
use sha2::{Digest as _, Sha256};
use tokenizers::{ModelWrapper, Tokenizer, TruncationParams};

use crate::{
    embedder::Embedder,
    reading::name_and_first_sentence,
    tokenize::{Run, runs},
    tool::ToolText,
};

/// How texts are put to the model. Another way gives other vectors.
const READING: u32 = 1;
const DIMENSIONS: usize = 384;
/// Of longer texts the beginning is read: the model was trained on texts of this length.
const MAX_TOKENS: usize = 256;

/// The model, ready.
pub struct MiniLm {
    version: String,
    tokenizer: Tokenizer,
    model: BertModel,
}

/// Files that are no model of this kind. The messages name the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    #[error("`config.json` cannot be understood: {0}")]
    Config(String),
    #[error("`config.json` is of a `{0}` model, but must be of a `bert` model")]
    OtherKind(String),
    #[error("`{key}` in `config.json` is {value}, but must be {must_be}")]
    Number { key: &'static str, value: String, must_be: &'static str },
    #[error("`tokenizer.json` cannot be understood: {0}")]
    Tokenizer(String),
    #[error("`tokenizer.json` does not cut words into pieces as BERT does")]
    OtherTokenizer,
    #[error("`tokenizer.json` knows pieces that `config.json` has no room for: {pieces} of {vocab_size}")]
    TooManyPieces { pieces: usize, vocab_size: usize },
    #[error("`model.safetensors` is a pickled file, which is not read because it could hold code")]
    Pickled,
    #[error("`model.safetensors` is broken or cut off: {0}")]
    Weights(String),
    #[error("`model.safetensors` does not fit `config.json`: {0}")]
    Tensors(String),
    #[error("`model.safetensors` gives no directions: its numbers are not finite, or all zero")]
    Meaningless,
}

impl MiniLm {
    /// Loads the model from what is in `config.json`, `tokenizer.json` and `model.safetensors`.
    pub fn from_bytes(config: &[u8], tokenizer: &[u8], weights: &[u8]) -> Result<MiniLm, ModelError> {
        let version = version(&[config, tokenizer, weights]);
        let config = read_config(config)?;
        let tokenizer = read_tokenizer(tokenizer, &config)?;
        let model = read_weights(weights, &config)?;
        let model = MiniLm { version, tokenizer, model };
        match model.direction("list files") {
            Ok(direction) if direction.iter().any(|value| *value != 0.0) => Ok(model),
            Ok(_) => Err(ModelError::Meaningless),
            Err(err) => Err(ModelError::Tensors(first_line(&*err))),
        }
    }

    /// The direction of a text, or zero where the model gives none.
    fn embed(&self, text: &str) -> Vec<f32> {
        let has_words = runs(text).iter().any(|run| matches!(run, Run::Word { .. }));
        if !has_words {
            return vec![0.0; DIMENSIONS]; // the model has a direction for nothing, too, but it leads nowhere
        }
        // The trial when loading has shown that it does not fail. If it does, the words of the query decide alone.
        self.direction(text).unwrap_or_else(|_| vec![0.0; DIMENSIONS])
    }

    fn direction(&self, text: &str) -> tokenizers::Result<Vec<f32>> {
        let encoding = self.tokenizer.encode_fast(text, true)?;
        // One text at a time: no padding, and a direction does not depend on which others are asked for.
        let ids = Tensor::new(encoding.get_ids(), &Device::Cpu)?.unsqueeze(0)?;
        let kinds = ids.zeros_like()?;
        let tokens = self.model.forward(&ids, &kinds, None)?;
        let mean: Vec<f32> = tokens.mean(1)?.squeeze(0)?.to_vec1()?;
        let length = mean.iter().map(|value| value * value).sum::<f32>().sqrt();
        Ok(match length.is_normal() {
            true => mean.into_iter().map(|value| value / length).collect(),
            false => vec![0.0; DIMENSIONS],
        })
    }
}

impl Embedder for MiniLm {
    fn version(&self) -> &str {
        &self.version
    }

    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    /// Name and first sentence only: what follows draws it away from what the tool is for.
    fn tool(&self, tool: &ToolText) -> Vec<f32> {
        self.embed(&name_and_first_sentence(tool))
    }

    fn query(&self, text: &str) -> Vec<f32> {
        self.embed(text)
    }
}

impl fmt::Debug for MiniLm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MiniLm").field("version", &self.version).finish_non_exhaustive()
    }
}

/// Names the vectors by everything that they depend on.
fn version(files: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for file in files {
        hash.update((file.len() as u64).to_le_bytes());
        hash.update(file);
    }
    let hex: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("minilm-{READING}-{hex}")
}

fn read_config(bytes: &[u8]) -> Result<bert::Config, ModelError> {
    let invalid = |err: serde_json::Error| ModelError::Config(err.to_string());
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(invalid)?;
    let kind = value.get("model_type").and_then(serde_json::Value::as_str).unwrap_or("nameless");
    if kind != "bert" {
        return Err(ModelError::OtherKind(kind.chars().take(40).collect()));
    }
    let config: bert::Config = serde_json::from_value(value).map_err(invalid)?;
    let numbers = [
        ("hidden_size", config.hidden_size, DIMENSIONS..=DIMENSIONS, "384, as in MiniLM models"),
        ("num_hidden_layers", config.num_hidden_layers, 1..=24, "from 1 to 24"),
        ("intermediate_size", config.intermediate_size, 1..=16_384, "from 1 to 16384"),
        ("vocab_size", config.vocab_size, 1..=1_000_000, "from 1 to 1000000"),
        ("max_position_embeddings", config.max_position_embeddings, 8..=65_536, "from 8 to 65536"),
        ("type_vocab_size", config.type_vocab_size, 1..=16, "from 1 to 16"),
    ];
    for (key, value, range, must_be) in numbers {
        if !range.contains(&value) {
            return Err(ModelError::Number { key, value: value.to_string(), must_be });
        }
    }
    let heads = config.num_attention_heads;
    if heads == 0 || !DIMENSIONS.is_multiple_of(heads) {
        let must_be = "a divisor of `hidden_size`";
        return Err(ModelError::Number { key: "num_attention_heads", value: heads.to_string(), must_be });
    }
    let epsilon = config.layer_norm_eps;
    if !(epsilon > 0.0 && epsilon < 1.0) {
        let must_be = "above 0 and below 1";
        return Err(ModelError::Number { key: "layer_norm_eps", value: epsilon.to_string(), must_be });
    }
    Ok(config)
}

fn read_tokenizer(bytes: &[u8], config: &bert::Config) -> Result<Tokenizer, ModelError> {
    let invalid = |err: tokenizers::Error| ModelError::Tokenizer(first_line(&*err));
    let mut tokenizer = Tokenizer::from_bytes(bytes).map_err(invalid)?;
    if !matches!(tokenizer.get_model(), ModelWrapper::WordPiece(_)) {
        return Err(ModelError::OtherTokenizer);
    }
    let pieces = tokenizer.get_vocab(true).into_values().max().map_or(0, |id| id as usize + 1);
    if pieces > config.vocab_size {
        return Err(ModelError::TooManyPieces { pieces, vocab_size: config.vocab_size });
    }
    // The file may say to fill up short texts, which only costs time here.
    tokenizer.with_padding(None);
    let max_length = MAX_TOKENS.min(config.max_position_embeddings);
    let truncation = TruncationParams { max_length, ..TruncationParams::default() };
    tokenizer.with_truncation(Some(truncation)).map_err(invalid)?;
    Ok(tokenizer)
}

fn read_weights(bytes: &[u8], config: &bert::Config) -> Result<BertModel, ModelError> {
    // A zip archive, as PyTorch writes it now, or a bare pickle, as it did.
    if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"\x80\x02") {
        return Err(ModelError::Pickled);
    }
    let tensors = SliceSafetensors::new(bytes).map_err(|err| ModelError::Weights(first_line(&err)))?;
    let builder = VarBuilder::from_backend(Box::new(tensors), DType::F32, Device::Cpu);
    BertModel::load(builder, config).map_err(|err| ModelError::Tensors(first_line(&err)))
}

/// Without the stack that some errors carry in their text.
fn first_line(err: &dyn fmt::Display) -> String {
    err.to_string().lines().next().unwrap_or_default().chars().take(200).collect()
}
