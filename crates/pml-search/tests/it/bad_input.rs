//! Whatever comes, there is an answer.

use pml_search::{Index, Mode, ToolText};
use serde_json::json;

const MODES: [Mode; 3] = [Mode::Bm25, Mode::Embedding, Mode::Hybrid];

fn tool(name: &str, description: &str) -> ToolText {
    ToolText::new("server", name, description, &json!({ "type": "object" }))
}

#[test]
fn a_query_that_says_nothing_finds_nothing() {
    let mut index = Index::new();
    index.insert("a", &tool("send_mail", "Sends a mail"));
    let snapshot = index.snapshot();
    for query in ["", " \n\t", "?!…;()", "🦓🎉", "\0\u{202e}", "汉字", "the of a"] {
        for mode in [Mode::Bm25, Mode::Hybrid] {
            let hits = snapshot.search(query, 10, mode);
            assert!(hits.iter().all(|hit| hit.words == 0.0), "{query:?} {mode:?}: {hits:?}");
        }
    }
    for query in ["", "?!", "🦓", "汉字"] {
        assert!(snapshot.search(query, 10, Mode::Hybrid).is_empty(), "{query:?}");
    }
    assert!(snapshot.search("mail", 0, Mode::Hybrid).is_empty());
    assert!(Index::new().snapshot().search("mail", 10, Mode::Hybrid).is_empty());
}

#[test]
fn what_says_nothing_does_no_harm_beside_words() {
    let mut index = Index::new();
    index.insert("mail", &tool("send_mail", "Sends a mail"));
    index.insert("web", &tool("web", "使用关键词搜索网页"));
    let snapshot = index.snapshot();
    for mode in MODES {
        let plain = snapshot.search("send mail", 10, mode);
        assert_eq!(plain, snapshot.search("🦓 ?! send… 🎉 mail", 10, mode), "{mode:?}");
        assert_eq!(&*plain[0].id, "mail", "{mode:?}");
    }
    for mode in [Mode::Bm25, Mode::Hybrid] {
        assert_eq!(&*snapshot.search("搜索", 10, mode)[0].id, "web", "{mode:?}");
    }
    assert!(snapshot.search("搜索", 10, Mode::Embedding).is_empty(), "the table knows no Chinese");
}

#[test]
fn a_word_that_no_tool_has_is_read_as_one_that_looks_alike() {
    let mut index = Index::new();
    index.insert("forecast", &tool("get_forecast", "Forecast of the weather"));
    index.insert("rename", &tool("rename_file", "Gives a file another name"));
    index.insert("colour", &tool("set_colour", "Colour of a lamp"));
    let snapshot = index.snapshot();
    for (query, expected) in [("forcast", "forecast"), ("renaming", "rename"), ("color", "colour")] {
        let hits = snapshot.search(query, 10, Mode::Bm25);
        assert_eq!(hits.iter().map(|hit| &*hit.id).collect::<Vec<_>>(), [expected], "{query}");
    }
    for query in ["fercost", "fore", &"forcast".repeat(10)] {
        assert!(snapshot.search(query, 10, Mode::Bm25).is_empty(), "{query}");
    }
    // Neither many strange words nor long ones take long.
    let strange: String = (0..400).map(|i| format!("q{}x ", "zj".repeat(i % 12 + 2))).collect();
    assert!(snapshot.search(&strange, 10, Mode::Bm25).is_empty());
}

#[test]
fn of_a_long_query_the_beginning_counts() {
    let mut index = Index::new();
    index.insert("mail", &tool("send_mail", "Sends a mail"));
    index.insert("file", &tool("read_file", "Reads a file"));
    let snapshot = index.snapshot();
    for query in [format!("send mail {}", "x".repeat(10_000)), "send mail 漢字🦓 ".repeat(700)] {
        for mode in MODES {
            assert_eq!(&*snapshot.search(&query, 1, mode)[0].id, "mail", "{mode:?}");
        }
    }
}

#[test]
fn a_tool_without_words_is_kept_and_does_no_harm() {
    let mut index = Index::new();
    index.insert("", &ToolText::default());
    index.insert("none", &tool("ping", ""));
    index.insert("huge", &tool("huge", &"lorem ipsum backup ".repeat(60_000)));
    index.insert("emoji", &tool("🎉", "🎉🎉"));
    let snapshot = index.snapshot();
    assert_eq!(snapshot.len(), 4);
    for mode in MODES {
        assert_eq!(&*snapshot.search("ping", 1, mode)[0].id, "none", "{mode:?}");
        assert_eq!(&*snapshot.search("backup", 1, mode)[0].id, "huge", "{mode:?}");
    }
}

#[test]
fn the_last_tool_of_an_id_counts() {
    let mut index = Index::new();
    index.insert("a", &tool("send_mail", "Sends a mail"));
    index.insert("a", &tool("read_file", "Reads a file"));
    assert_eq!(index.len(), 1);
    assert!(index.snapshot().search("mail", 10, Mode::Bm25).is_empty());
    assert!(index.remove("a") && !index.remove("a"));
    assert!(index.is_empty());
}

#[test]
fn equally_good_tools_come_in_the_order_of_their_ids() {
    let mut index = Index::new();
    for id in ["b", "c", "a", "d"] {
        index.insert(id, &tool("send_mail", "Sends a mail"));
    }
    for mode in MODES {
        for limit in 1..=4 {
            let hits = index.snapshot().search("send mail", limit, mode);
            let ids: Vec<_> = hits.iter().map(|hit| &*hit.id).collect();
            assert_eq!(ids, &["a", "b", "c", "d"][..limit], "{mode:?}");
        }
    }
}

#[test]
fn a_hundred_thousand_tools_are_searched() {
    let mut index = Index::new();
    let text = tool("item", "One of many");
    for number in 0..100_000 {
        index.insert(&format!("t{number:06}"), &text);
    }
    index.insert("needle", &tool("translate", "Translates text into another language"));
    let hits = index.snapshot().search("translate this text", 3, Mode::Hybrid);
    assert_eq!(&*hits[0].id, "needle");
    assert!(hits.len() <= 3);
}
