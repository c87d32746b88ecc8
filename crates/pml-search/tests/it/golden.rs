//! A small catalogue of our own, and what must be found in it.

use pml_search::{Index, Mode, Snapshot, ToolText, WordShare};
use serde_json::json;

#[rustfmt::skip]
const TOOLS: [(&str, &str, &str, &[&str]); 24] = [
    // server    name                   description                                                         parameters
    ("disk",     "read_file",           "Returns the text of a file.",                                      &["path"]),
    ("disk",     "write_file",          "Replaces a file with the given text.",                             &["path", "text"]),
    ("disk",     "list_directory",      "Names of all files and folders in a folder.",                      &["path"]),
    ("disk",     "move_file",           "Gives a file another name or another place.",                      &["from", "to"]),
    ("forge",    "create_issue",        "Opens an issue in a repository.",                                  &["repository", "title", "body"]),
    ("forge",    "list_issues",         "Issues of a repository, newest first.",                            &["repository", "state"]),
    ("forge",    "merge_pull_request",  "Merges a pull request into its base branch.",                      &["repository", "number"]),
    ("forge",    "list_commits",        "Commits of a branch with author and date.",                        &["repository", "branch"]),
    ("mail",     "send_message",        "Sends an e-mail.",                                                 &["to", "subject", "body"]),
    ("mail",     "search_messages",     "Finds e-mails by sender, subject or words.",                       &["query"]),
    ("calendar", "create_event",        "Puts an appointment into the calendar.",                           &["start", "end", "title"]),
    ("calendar", "list_events",         "Appointments between two dates.",                                  &["from", "to"]),
    ("weather",  "forecast",            "Temperature and rain for a place on the coming days.",             &["city", "days"]),
    ("travel",   "search_flights",      "Connections by air between two airports.",                         &["from", "to", "date"]),
    ("travel",   "reserve_room",        "Books a hotel room for some nights.",                              &["city", "checkin", "nights"]),
    ("data",     "run_query",           "Runs a SQL statement and returns its rows.",                       &["sql"]),
    ("data",     "describe_table",      "Columns of a table and their types.",                              &["table"]),
    ("cloud",    "getBucketPolicy",     "The access policy of one storage bucket.",                         &["bucketName"]),
    ("cloud",    "listBuckets",         "All storage buckets of the account.",                              &[]),
    ("cloud",    "restartInstance",     "Stops a virtual machine and starts it again.",                     &["instanceId"]),
    ("money",    "convert_currency",    "Converts an amount at the current exchange rate.",                 &["amount", "from", "to"]),
    ("money",    "stock_quote",         "Latest price of a share.",                                         &["ticker"]),
    ("words",    "translate",           "Translates text between languages.",                               &["text", "target"]),
    ("搜索",      "web",                 "使用关键词搜索网页，并返回结果列表",                                   &["关键词"]),
];

fn snapshot() -> Snapshot {
    let mut index = Index::new();
    for (server, name, description, parameters) in TOOLS {
        let properties: serde_json::Map<_, _> = parameters.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
        let tool = ToolText::new(server, name, description, &json!({ "properties": properties }));
        index.insert(&format!("{server}:{name}"), &tool);
    }
    index.snapshot()
}

#[test]
fn what_is_asked_for_comes_first() {
    #[rustfmt::skip]
    let table = [
        // in the tool's own words
        ("read a file",                                     "disk:read_file"),
        ("listBuckets",                                     "cloud:listBuckets"),
        ("list all buckets",                                "cloud:listBuckets"),
        ("policy of a bucket",                              "cloud:getBucketPolicy"),
        ("merge PR pull request 12",                        "forge:merge_pull_request"),
        ("which columns does the table users have",         "data:describe_table"),
        ("搜索网页",                                         "搜索:web"),
        // in other words
        ("will it be sunny in Lisbon tomorrow",             "weather:forecast"),
        ("I need somewhere to sleep in Rome for two nights", "travel:reserve_room"),
        ("reboot the server vm-3",                          "cloud:restartInstance"),
        ("how do you say good morning in Spanish",          "words:translate"),
        ("how many dollars are 20 euros",                   "money:convert_currency"),
        ("plane tickets from Oslo to Vienna",               "travel:search_flights"),
        ("file a new issue about the crash",                        "forge:create_issue"),
        ("what is on my agenda this week",                  "calendar:list_events"),
        ("how are Tesla shares doing",                      "money:stock_quote"),
    ];
    let snapshot = snapshot();
    for (query, expected) in table {
        let hits = snapshot.search(query, 3, Mode::Hybrid);
        let found: Vec<_> = hits.iter().map(|hit| &*hit.id).collect();
        assert_eq!(found.first(), Some(&expected), "{query}: {found:?}");
    }
}

#[test]
fn a_task_of_two_steps_finds_a_tool_for_each() {
    let snapshot = snapshot();
    let hits = snapshot.search("find flights to Paris and put the trip into my calendar", 4, Mode::Hybrid);
    let found: Vec<_> = hits.iter().map(|hit| &*hit.id).collect();
    assert!(found.contains(&"travel:search_flights") && found.contains(&"calendar:create_event"), "{found:?}");
}

#[test]
fn modes_use_their_half() {
    let snapshot = snapshot();
    let query = "how do you say good morning in Spanish";
    assert!(snapshot.search(query, 10, Mode::Bm25).is_empty(), "no tool has one of these words");
    assert_eq!(&*snapshot.search(query, 1, Mode::Embedding)[0].id, "words:translate");
    let by_words = snapshot.search("list buckets", 5, Mode::Bm25);
    assert!(by_words.iter().all(|hit| hit.meaning == 0.0 && hit.words > 0.0));
    let by_meaning = snapshot.search("list buckets", 5, Mode::Embedding);
    assert!(by_meaning.iter().all(|hit| hit.words == 0.0 && hit.meaning > 0.0));
}

#[test]
fn a_score_can_be_explained() {
    let snapshot = snapshot();
    let query = "list all storage buckets of mine";
    let hit = snapshot.search(query, 1, Mode::Hybrid).remove(0);
    let explanation = snapshot.explain(query, "cloud:listBuckets", Mode::Hybrid).unwrap();
    assert_eq!(explanation.hit, hit);
    let is_word = |share: &&WordShare| !share.word.starts_with('(');
    assert_eq!(explanation.shares.iter().find(is_word).map(|share| share.word.as_str()), Some("buckets"));
    let words: f32 = explanation.shares.iter().map(|share| share.words).sum();
    let meaning: f32 = explanation.shares.iter().map(|share| share.meaning).sum();
    assert!((words - hit.words).abs() < 1e-4, "{words} of {}", hit.words);
    assert!((meaning - hit.meaning).abs() < 0.01, "{meaning} of {}", hit.meaning);
    assert_eq!(snapshot.explain(query, "no:such", Mode::Hybrid), None);
    let far = snapshot.explain("zebra", "cloud:listBuckets", Mode::Bm25).unwrap();
    assert_eq!(far.hit.score, 0.0);
}

#[test]
fn only_wanted_tools_are_found_and_their_scores_stay() {
    let snapshot = snapshot();
    let all = snapshot.search("list things", 24, Mode::Hybrid);
    let some = snapshot.search_among("list things", 24, Mode::Hybrid, "", |id| id.starts_with("forge:"));
    assert_eq!(some, snapshot.search_among("list things", 24, Mode::Hybrid, "forge:", |_| true));
    assert!(snapshot.search_among("list things", 24, Mode::Hybrid, "gorge:", |_| true).is_empty());
    let expected: Vec<_> = all.into_iter().filter(|hit| hit.id.starts_with("forge:")).collect();
    assert!(!some.is_empty());
    assert_eq!(some, expected);
}

#[test]
fn a_form_that_few_tools_have_is_not_more_than_the_whole() {
    let mut index = Index::new();
    for number in 0..200 {
        index.insert(&format!("s:{number:03}"), &ToolText::new("s", "bucket", "A bucket", &json!({})));
    }
    for id in ["s:b", "s:a"] {
        index.insert(id, &ToolText::new("s", "buckets", "Buckets", &json!({})));
    }
    let snapshot = index.snapshot();
    for mode in [Mode::Bm25, Mode::Hybrid] {
        let hits = snapshot.search("buckets", 3, mode);
        assert_eq!(hits.iter().map(|hit| &*hit.id).collect::<Vec<_>>(), ["s:a", "s:b", "s:000"]);
        assert!(hits[0].score < 1.0 && hits[0].words < 1.0, "{hits:?}");
        let explanation = snapshot.explain("buckets", "s:a", mode).unwrap();
        let shares: f32 = explanation.shares.iter().map(|share| share.words).sum();
        assert!((shares - explanation.hit.words).abs() < 1e-5, "{explanation:?}");
    }
}
