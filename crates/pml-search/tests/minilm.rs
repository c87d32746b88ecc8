//! The transformer: with weights made up here, which say nothing but have the right form, and with the real ones.

use std::{fs, path::Path, sync::Arc};

use pml_search::{
    Embedder, Index, Mode, ToolText,
    minilm::{MiniLm, ModelError},
};
use serde_json::{Value, json};

/// The files of a model of one small layer.
#[derive(Clone)]
struct Files {
    config: Value,
    tokenizer: Value,
    tensors: Vec<(String, Vec<usize>)>,
    /// What is written over the weights, if it is not the tensors.
    raw_weights: Option<Vec<u8>>,
    fill: Fill,
}

#[derive(Clone, Copy)]
enum Fill {
    Random(u64),
    Constant(f32),
}

impl Files {
    fn tiny() -> Files {
        let vocabulary =
            ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "list", "file", "##s", "send", "mail", "a", ":", "weather"];
        let vocabulary: Value = vocabulary.iter().zip(0..).map(|(piece, id)| (*piece, json!(id))).collect();
        let config = json!({
            "model_type": "bert", "hidden_size": 384, "num_hidden_layers": 1, "num_attention_heads": 12,
            "intermediate_size": 8, "vocab_size": 12, "max_position_embeddings": 16, "type_vocab_size": 2,
            "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "initializer_range": 0.02, "layer_norm_eps": 1e-12,
            "pad_token_id": 0, "position_embedding_type": "absolute",
        });
        let tokenizer = json!({
            "version": "1.0",
            // As published files have it: it must not count.
            "truncation": { "direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0 },
            "padding": {
                "strategy": { "Fixed": 4 }, "direction": "Right", "pad_to_multiple_of": null,
                "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]",
            },
            "added_tokens": [],
            "normalizer": {
                "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
                "lowercase": true,
            },
            "pre_tokenizer": { "type": "BertPreTokenizer" },
            "post_processor": { "type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2] },
            "decoder": null,
            "model": {
                "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 100, "vocab": vocabulary,
            },
        });
        let mut tensors = vec![
            ("embeddings.word_embeddings.weight".to_owned(), vec![12, 384]),
            ("embeddings.position_embeddings.weight".to_owned(), vec![16, 384]),
            ("embeddings.token_type_embeddings.weight".to_owned(), vec![2, 384]),
        ];
        let layer = "encoder.layer.0.";
        for (name, rows, columns) in [
            ("attention.self.query", 384, 384),
            ("attention.self.key", 384, 384),
            ("attention.self.value", 384, 384),
            ("attention.output.dense", 384, 384),
            ("intermediate.dense", 8, 384),
            ("output.dense", 384, 8),
        ] {
            tensors.push((format!("{layer}{name}.weight"), vec![rows, columns]));
            tensors.push((format!("{layer}{name}.bias"), vec![rows]));
        }
        for name in ["embeddings.", "encoder.layer.0.attention.output.", "encoder.layer.0.output."] {
            tensors.push((format!("{name}LayerNorm.weight"), vec![384]));
            tensors.push((format!("{name}LayerNorm.bias"), vec![384]));
        }
        Files { config, tokenizer, tensors, raw_weights: None, fill: Fill::Random(1) }
    }

    fn weights(&self) -> Vec<u8> {
        if let Some(bytes) = &self.raw_weights {
            return bytes.clone();
        }
        let mut header = serde_json::Map::new();
        let mut data = Vec::new();
        let mut state = 1_u64;
        for (name, shape) in &self.tensors {
            let start = data.len();
            for _ in 0..shape.iter().product::<usize>() {
                let value = match self.fill {
                    Fill::Constant(value) => value,
                    Fill::Random(seed) => {
                        state = (state + seed) * 48_271 % 0x7fff_ffff;
                        (state % 2000) as f32 / 10_000.0 - 0.1
                    }
                };
                data.extend(value.to_le_bytes());
            }
            header.insert(name.clone(), json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, data.len()] }));
        }
        let header = Value::Object(header).to_string();
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
    }

    fn load(&self) -> Result<MiniLm, ModelError> {
        MiniLm::from_bytes(self.config.to_string().as_bytes(), self.tokenizer.to_string().as_bytes(), &self.weights())
    }

    fn changed(change: impl FnOnce(&mut Files)) -> Files {
        let mut files = Files::tiny();
        change(&mut files);
        files
    }
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn what_is_no_such_model_is_said() {
    let whole = Files::tiny().weights();
    let with_weights = |bytes: &[u8]| Files::changed(|files| files.raw_weights = Some(bytes.to_vec()));
    let with_config = |key: &str, value: Value| Files::changed(|files| files.config[key] = value);
    let with_shape = |name: &str, shape: Vec<usize>| {
        Files::changed(|files| {
            files.tensors.iter_mut().find(|(known, _)| known == name).expect("a tensor of that name").1 = shape;
        })
    };
    let query = "encoder.layer.0.attention.self.query.weight";
    #[rustfmt::skip]
    let table = [
        ("another kind",       with_config("model_type", json!("t5")),              "`config.json` is of a `t5` model"),
        ("no kind",            with_config("model_type", Value::Null),              "`config.json` is of a `nameless` model"),
        ("no object",          Files::changed(|files| files.config = json!([1])),   "`config.json` is of a"),
        ("another width",      with_config("hidden_size", json!(768)),              "`hidden_size` in `config.json` is 768"),
        ("no heads",           with_config("num_attention_heads", json!(0)),        "`num_attention_heads` in `config.json` is 0"),
        ("heads that do not divide", with_config("num_attention_heads", json!(7)),  "must be a divisor of `hidden_size`"),
        ("no layers",          with_config("num_hidden_layers", json!(0)),          "`num_hidden_layers` in `config.json` is 0"),
        ("too many layers",    with_config("num_hidden_layers", json!(1_u64 << 60)), "`num_hidden_layers` in `config.json` is"),
        ("a second layer",     with_config("num_hidden_layers", json!(2)),          "encoder.layer.1"),
        ("a huge vocabulary",  with_config("vocab_size", json!(u64::MAX)),          "`vocab_size` in `config.json` is"),
        ("a larger vocabulary", with_config("vocab_size", json!(13)),               "`model.safetensors` does not fit"),
        ("a smaller vocabulary", with_config("vocab_size", json!(11)),              "knows pieces that `config.json` has no room for: 12 of 11"),
        ("a negative number",  with_config("intermediate_size", json!(-1)),         "`config.json` cannot be understood"),
        ("no positions",       with_config("max_position_embeddings", json!(0)),    "`max_position_embeddings` in `config.json` is 0"),
        ("no epsilon",         with_config("layer_norm_eps", json!(0)),             "`layer_norm_eps` in `config.json` is 0"),
        ("unknown activation", with_config("hidden_act", json!("sine")),            "`config.json` cannot be understood"),
        ("relative positions", with_config("position_embedding_type", json!("relative_key")), "`config.json` cannot be understood"),
        ("no tokenizer",       Files::changed(|files| files.tokenizer = json!({})), "`tokenizer.json` cannot be understood"),
        ("no vocabulary",      Files::changed(|files| files.tokenizer["model"]["vocab"] = json!(5)), "`tokenizer.json` cannot be understood"),
        ("another tokenizer",  Files::changed(|files| files.tokenizer["model"] = json!({ "type": "WordLevel", "vocab": { "a": 1 }, "unk_token": "a" })), "does not cut words into pieces"),
        ("no weights",         with_weights(b""),                                   "`model.safetensors` is broken or cut off"),
        ("text for weights",   with_weights(b"version https://git-lfs"),            "`model.safetensors` is broken or cut off"),
        ("an endless header",  with_weights(&[0xff; 64]),                           "`model.safetensors` is broken or cut off"),
        ("half the weights",   with_weights(&whole[..whole.len() / 2]),             "`model.safetensors` is broken or cut off"),
        ("one byte less",      with_weights(&whole[..whole.len() - 1]),             "`model.safetensors` is broken or cut off"),
        ("one byte more",      with_weights(&[&whole[..], &[0]].concat()),          "`model.safetensors` is broken or cut off"),
        ("a zip archive",      with_weights(b"PK\x03\x04archive/data.pkl"),         "a pickled file"),
        ("a pickle",           with_weights(b"\x80\x02}q\x00."),                    "a pickled file"),
        ("a missing tensor",   Files::changed(|files| files.tensors.retain(|(name, _)| name != query)), query),
        ("a turned tensor",    with_shape("encoder.layer.0.output.dense.weight", vec![8, 384]), "`model.safetensors` does not fit"),
        ("a flat tensor",      with_shape(query, vec![384 * 384]),                  "`model.safetensors` does not fit"),
        ("no numbers",         Files::changed(|files| files.fill = Fill::Constant(f32::NAN)), "gives no directions"),
        ("only zeros",         Files::changed(|files| files.fill = Fill::Constant(0.0)), "gives no directions"),
    ];
    for (what, files, expected) in table {
        let message = files.load().expect_err(what).to_string();
        assert!(message.contains(expected), "{what}: {message}");
        assert!(!message.contains('\n') && message.len() < 400, "{what}: {message}");
    }
    assert!(Files::tiny().load().is_ok());
}

/// Wherever a byte of the header or a piece of the configuration is wrong, there is an answer.
#[test]
fn broken_bytes_do_no_harm() {
    let files = Files::tiny();
    let (config, tokenizer, weights) =
        (files.config.to_string().into_bytes(), files.tokenizer.to_string().into_bytes(), files.weights());
    for at in (0..2400).step_by(7) {
        for byte in [b'0', b'9', b'"', 0xff] {
            let mut broken = weights.clone();
            broken[at] = byte;
            let _ = MiniLm::from_bytes(&config, &tokenizer, &broken);
        }
    }
    for at in 0..config.len() {
        let mut broken = config.clone();
        broken[at] = b'9';
        let _ = MiniLm::from_bytes(&broken, &tokenizer, &weights);
    }
    for end in (0..tokenizer.len()).step_by(5) {
        assert!(MiniLm::from_bytes(&config, &tokenizer[..end], &weights).is_err());
    }
}

#[test]
fn other_files_make_another_version() {
    let tiny = Files::tiny().load().unwrap();
    assert_eq!(tiny.version(), Files::tiny().load().unwrap().version());
    assert_eq!(tiny.dimensions(), 384);
    let other = Files::changed(|files| files.fill = Fill::Random(2)).load().unwrap();
    assert_ne!(tiny.version(), other.version());
    assert_ne!(tiny.query("list files"), other.query("list files"));
}

#[test]
fn a_text_has_a_direction_if_it_has_words_and_a_long_one_is_cut() {
    let model = Files::tiny().load().unwrap();
    for text in ["list files", "LIST files", "zebra", "list send mail weather a file", &"list ".repeat(5000)] {
        let direction = model.query(text);
        assert!((cosine(&direction, &direction) - 1.0).abs() < 1e-4, "{text}");
    }
    for text in ["", " ?!", "🦓", "汉字"] {
        assert_eq!(model.query(text), vec![0.0; 384], "{text}");
    }
    // Neither cut to 4 pieces nor filled up to them, as the tokenizer's file has it.
    assert_ne!(model.query("list send mail"), model.query("list send weather"));
}

#[test]
fn an_index_with_it_finds_explains_and_keeps() {
    let model: Arc<dyn Embedder> = Arc::new(Files::tiny().load().unwrap());
    let mut index = Index::with(Arc::clone(&model));
    let text = ToolText::new("s", "list_files", "list a file", &json!({}));
    index.insert("s:list_files", &text);
    index.insert("s:send", &ToolText::new("s", "send", "send mail", &json!({})));
    let snapshot = index.snapshot();
    let hits = snapshot.search("list files", 10, Mode::Hybrid);
    assert_eq!(&*hits[0].id, "s:list_files");
    let explanation = snapshot.explain("list files", "s:list_files", Mode::Hybrid).unwrap();
    assert_eq!(explanation.hit, hits[0]);
    assert!(explanation.hit.meaning > 0.0 && explanation.shares.iter().all(|share| share.meaning == 0.0));

    // A vector of the table is not taken for one of the model.
    let mut of_table = Index::new();
    of_table.insert("s:list_files", &text);
    let wrong = of_table.vector("s:list_files").unwrap().clone();
    let right = index.vector("s:list_files").unwrap().clone();
    index.insert_with_vector("s:list_files", &text, wrong);
    assert_eq!(index.vector("s:list_files"), Some(&right));
}

/// Against another implementation of the same model, `tools/embedding/teacher.py`.
#[test]
fn the_real_weights_give_the_known_vectors() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.test-env/minilm/model");
    let read = |name: &str| fs::read(folder.join(name)).expect("the weights, which `scripts/test-minilm` downloads");
    let model = MiniLm::from_bytes(&read("config.json"), &read("tokenizer.json"), &read("model.safetensors")).unwrap();
    let texts = [
        "remove a file",
        "Delete a document.",
        "weather forecast",
        "Sends an e-mail to Zoë, and waits: 3.5 seconds!",
        "getUserID returns antidisestablishmentarianism",
    ];
    #[rustfmt::skip]
    let beginnings = [
        [-0.04966,  0.15777, -0.05206, -0.00080],
        [-0.04574,  0.11248, -0.00615, -0.00719],
        [-0.06110,  0.00996,  0.11295,  0.13656],
        [-0.04108, -0.06783,  0.02986, -0.06348],
        [ 0.01042,  0.05194, -0.00507, -0.00388],
    ];
    #[rustfmt::skip]
    let cosines = [
        [ 1.00000,  0.61526,  0.07536,  0.04120, -0.00631],
        [ 0.61526,  1.00000,  0.03233,  0.11123,  0.08191],
        [ 0.07536,  0.03233,  1.00000,  0.03988, -0.03981],
        [ 0.04120,  0.11123,  0.03988,  1.00000,  0.02264],
        [-0.00631,  0.08191, -0.03981,  0.02264,  1.00000],
    ];
    let directions = texts.map(|text| model.query(text));
    for (a, text) in texts.iter().enumerate() {
        for (value, expected) in directions[a].iter().zip(beginnings[a]) {
            assert!((value - expected).abs() < 1e-3, "{text}: {value} instead of {expected}");
        }
        for b in 0..texts.len() {
            let (actual, expected) = (cosine(&directions[a], &directions[b]), cosines[a][b]);
            assert!((actual - expected).abs() < 1e-3, "{text} and {}: {actual} instead of {expected}", texts[b]);
        }
    }
}
