//! What people and models type: slips, fillers, verbs, other languages, nonsense.

use std::sync::Arc;

use pml_search::{Both, Index, Mode, Snapshot, ToolText};
use serde_json::json;

const TOOLS: &str = include_str!("../conversations/tools.jsonl");
const QUERIES: &str = include_str!("../conversations/queries.jsonl");

/// The catalogue of the conversations.
fn catalogue() -> (Snapshot, Vec<String>) {
    let mut names = Vec::new();
    let snapshot = super::quality::snapshot_of(TOOLS, Index::with(Arc::new(Both::built_in())));
    for line in TOOLS.lines() {
        let tool: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
        names.push(tool["id"].as_str().expect("an id").to_owned());
    }
    (snapshot, names)
}

fn first(snapshot: &Snapshot, query: &str) -> String {
    snapshot.search(query, 1, Mode::Hybrid).first().map(|hit| hit.id.to_string()).unwrap_or_default()
}

fn tool(name: &str, description: &str) -> ToolText {
    ToolText::new("server", name, description, &json!({}))
}

#[test]
fn a_name_with_one_slip_finds_its_tool_first() {
    let (snapshot, ids) = catalogue();
    let (mut typed, mut found) = (0, 0);
    for id in &ids {
        let name = id.split(':').nth(1).unwrap();
        assert!(first(&snapshot, name).ends_with(&format!(":{name}")), "{name}");
        if name.len() < 6 {
            continue;
        }
        for at in [name.len() / 3, name.len() / 2, name.len() - 2] {
            let mut missing = name.to_owned();
            missing.remove(at);
            let mut swapped: Vec<char> = name.chars().collect();
            swapped.swap(at, at + 1);
            let mut doubled = name.to_owned();
            doubled.insert(at, char::from(name.as_bytes()[at]));
            let replaced = format!("{}x{}", &name[..at], &name[at + 1..]);
            for slip in [missing, swapped.into_iter().collect(), doubled, replaced] {
                typed += 1;
                found += usize::from(first(&snapshot, &slip).ends_with(&format!(":{name}")));
            }
        }
    }
    assert!(typed > 3000 && found as f64 >= 0.98 * f64::from(typed), "{found} of {typed}");
}

#[test]
fn what_takes_something_away_is_asked_for_before_it_is_found() {
    let mut index = Index::new();
    for (name, description) in [
        ("delete_pod", "Delete a pod"),
        ("pod_logs", "Logs of a pod"),
        ("restart_deployment", "Restart the pods of a deployment"),
        ("delete_deployment", "Delete the last deployment or an earlier one"),
        ("rollback_deployment", "Roll a deployment back to the revision before"),
    ] {
        index.insert(name, &tool(name, description));
    }
    let snapshot = index.snapshot();
    assert_eq!(first(&snapshot, "restart the pod"), "restart_deployment");
    assert_eq!(first(&snapshot, "undo the last deployment"), "rollback_deployment");
    for query in ["delete the pod", "get rid of that pod", "remove pod"] {
        assert_eq!(first(&snapshot, query), "delete_pod", "{query}");
    }
}

/// Of every tool that takes something away: its things, with a verb that asks for something else.
#[test]
fn what_takes_something_away_is_first_for_no_other_verb() {
    let (snapshot, ids) = catalogue();
    let verbs = ["delete", "remove", "drop", "terminate", "kill", "purge", "prune", "uninstall"];
    let is_destructive = |id: &str| verbs.iter().any(|verb| id.contains(verb));
    let (mut asked, mut wrong) = (0, Vec::new());
    for id in ids.iter().filter(|id| is_destructive(id)) {
        let name = id.split(':').nth(1).unwrap();
        let things: Vec<&str> = name.split('_').filter(|word| !verbs.contains(word)).collect();
        let is_other = |id: &&String| !is_destructive(id) && things.iter().all(|thing| id.contains(thing));
        if ids.iter().filter(is_other).count() == 0 {
            continue; // nothing else is there to be found
        }
        for verb in ["show me the", "what about the", "change the", "I need a new", "how is the"] {
            let query = format!("{verb} {}", things.join(" "));
            asked += 1;
            if is_destructive(&first(&snapshot, &query)) {
                wrong.push((query, id));
            }
        }
    }
    assert!(asked >= 50 && wrong.len() * 20 <= asked, "{} of {asked}: {wrong:?}", wrong.len());
}

/// Whoever asks wants to be shown something, and whoever wants something done is not shown it.
#[test]
fn questions_find_what_shows_and_wishes_what_does() {
    let mut index = Index::with(Arc::new(Both::built_in()));
    for (name, description) in [
        ("create_release", "Create a release"),
        ("show_release", "Show a release"),
        ("silences_read", "Silences of an alert"),
        ("silences_write", "Silences of an alert"),
        ("add_permission", "Add a permission for a document"),
        ("get_permission", "Get a permission for a document"),
    ] {
        index.insert(name, &tool(name, description));
    }
    let snapshot = index.snapshot();
    #[rustfmt::skip]
    let table = [
        ("has anybody added a permission for this document", "get_permission"),
        ("was a permission added for the document",          "get_permission"),
        ("add a permission for the document",                "add_permission"),
        ("qué release",                                      "show_release"),
        ("create a release",                                 "create_release"),
        ("mute the alert",                                   "silences_write"),
        ("snooze that alert",                                "silences_write"),
        ("is the alert muted",                               "silences_read"),
    ];
    for (query, expected) in table {
        assert_eq!(first(&snapshot, query), expected, "{query}");
    }
}

#[test]
fn a_server_that_is_named_comes_first() {
    let mut index = Index::with(Arc::new(Both::built_in()));
    for (server, name, description) in [
        ("Notion", "delete_block", "Delete a block, such as a paragraph of text"),
        ("Notion", "append_block", "Append a block of text"),
        ("word", "delete_paragraph", "Delete a paragraph of text"),
        ("word", "add_paragraph", "Add a paragraph of text"),
        ("time", "get_time", "Get the time"),
        ("sheets", "track_time", "Add working time"),
        ("crm", "list_time", "List the time of calls"),
    ] {
        index.insert(&format!("{server}:{name}"), &ToolText::new(server, name, description, &json!({})));
    }
    let snapshot = index.snapshot();
    assert_eq!(first(&snapshot, "delete that paragraph"), "word:delete_paragraph");
    assert_eq!(first(&snapshot, "delete that paragraph in notion"), "Notion:delete_block");
    // What more tools of others have is a word like any other.
    assert_eq!(first(&snapshot, "add working time"), "sheets:track_time");
}

#[test]
fn a_server_is_named_by_a_part_of_its_name_or_by_what_its_tools_begin_with() {
    let mut index = Index::with(Arc::new(Both::built_in()));
    for server in ["github-official", "gitlab-ref"] {
        for name in ["create_ticket", "close_ticket"] {
            index.insert(&format!("{server}:{name}"), &ToolText::new(server, name, "A ticket", &json!({})));
        }
    }
    for name in ["create_ticket", "close_ticket", "find_ticket", "list_boards", "list_sprints"] {
        for product in ["jira", "confluence"] {
            let name = format!("{product}_{name}");
            index.insert(&format!("office:{name}"), &ToolText::new("office", &name, "A ticket", &json!({})));
        }
    }
    let snapshot = index.snapshot();
    #[rustfmt::skip]
    let table = [
        ("please close the ticket in GitHub",         "github-official:close_ticket"),
        ("gitlab: the ticket is done, close it",      "gitlab-ref:close_ticket"),
        ("it's about jira, could you close a ticket", "office:jira_close_ticket"),
        ("close a ticket of ours, in confluence",     "office:confluence_close_ticket"),
    ];
    for (query, expected) in table {
        assert_eq!(first(&snapshot, query), expected, "{query}");
    }
}

/// As an agent has it from an earlier answer, and as a person reads it aloud.
#[test]
fn an_id_finds_its_tool_first_and_so_does_a_name_with_spaces() {
    let (snapshot, ids) = catalogue();
    let (mut typed, mut found, mut spaced) = (0, 0, 0);
    for id in &ids {
        assert_eq!(&first(&snapshot, id), id);
        let name = id.split(':').nth(1).unwrap();
        let mut slip = id.clone();
        slip.remove(id.len() - name.len() / 2 - 1);
        typed += 1;
        found += usize::from(first(&snapshot, &slip) == *id);
        let words = name.replace('_', " ");
        if words.contains(' ') {
            spaced += 1;
            assert!(first(&snapshot, &words).ends_with(&format!(":{name}")), "{words}");
        }
    }
    assert!(typed > 300 && found * 50 >= typed * 49, "{found} of {typed}");
    assert!(spaced > 200, "{spaced}");
    let mut index = Index::new();
    for (server, name, description) in [
        ("disk", "read_file", "Deprecated: use read_text_file"),
        ("disk", "read_text_file", "Read a file as text"),
        ("disk", "disk_read_file", "Read a file"),
        ("disk", "read_media_file", "Read a file that is an image"),
        ("other", "read_file", "Read a file"),
    ] {
        index.insert(&format!("{server}:{name}"), &ToolText::new(server, name, description, &json!({})));
    }
    let snapshot = index.snapshot();
    for (query, expected) in [
        ("disk:read_file", "disk:read_file"),
        ("disk:raed_file", "disk:read_file"),
        ("disk_read_file", "disk:disk_read_file"),
        ("file_media_read", "disk:read_media_file"),
        ("read meda file", "disk:read_media_file"),
        ("nobody:read_media_file", "disk:read_media_file"),
    ] {
        assert_eq!(first(&snapshot, query), expected, "{query}");
    }
}

#[test]
fn what_undoes_is_found_by_who_wants_it_undone() {
    let mut index = Index::with(Arc::new(Both::built_in()));
    for (name, description) in [
        ("star_project", "Star a project"),
        ("unstar_project", "Take the star from a project"),
        ("protect_sheet", "Protect a sheet with a password"),
        ("unprotect_sheet", "Remove the password of a sheet"),
        ("create_bookmark", "Create a bookmark"),
        ("update_bookmark", "Update a bookmark"),
        ("delete_bookmark", "Delete a bookmark"),
        ("get_bookmark", "Get a bookmark"),
    ] {
        index.insert(name, &tool(name, description));
    }
    let snapshot = index.snapshot();
    #[rustfmt::skip]
    let table = [
        ("star the project",                             "star_project"),
        ("a star for that project",                      "star_project"),
        ("I no longer like the project, remove my star", "unstar_project"),
        ("take my star back from the project",           "unstar_project"),
        ("unlock the protected sheet",                   "unprotect_sheet"),
        ("protect the sheet",                            "protect_sheet"),
        ("bin that bookmark",                            "delete_bookmark"),
        ("scrap the bookmark I made yesterday",          "delete_bookmark"),
        ("get rid of the bookmark",                      "delete_bookmark"),
        ("get the bookmark",                             "get_bookmark"),
    ];
    for (query, expected) in table {
        assert_eq!(first(&snapshot, query), expected, "{query}");
    }
}

#[test]
fn what_is_not_to_be_done_does_not_decide() {
    let mut index = Index::with(Arc::new(Both::built_in()));
    for (name, description) in [
        ("read_values", "Read the values of a sheet"),
        ("edit_values", "Edit or change the values of a sheet"),
        ("delete_values", "Delete the values of a sheet"),
        ("format_sheet", "Format a sheet"),
    ] {
        index.insert(name, &tool(name, description));
    }
    let snapshot = index.snapshot();
    for query in [
        "read the values of the sheet, do not edit or change it",
        "don't change the sheet, just read its values",
        "I want the values of the sheet read without editing or formatting it",
        "read the values in the sheet but don't delete anything",
    ] {
        assert_eq!(first(&snapshot, query), "read_values", "{query}");
    }
}

/// "a merge request", "the last change": a verb after such a word is a noun.
#[test]
fn a_noun_that_looks_like_a_verb_does_not_decide() {
    let mut index = Index::with(Arc::new(Both::built_in()));
    for (name, description) in [
        ("merge_request", "Merge a request"),
        ("create_merge_request", "Create a request to merge a branch"),
        ("update_invoice", "Change an invoice"),
        ("show_invoice_changes", "Changes of an invoice"),
    ] {
        index.insert(name, &tool(name, description));
    }
    let snapshot = index.snapshot();
    for (query, expected) in [
        ("create a merge request", "create_merge_request"),
        ("my branch is ready, please make a merge request for it", "create_merge_request"),
        ("show the last change of the invoice", "show_invoice_changes"),
        ("it is about the invoice of May. Show me what changes it has had", "show_invoice_changes"),
    ] {
        assert_eq!(first(&snapshot, query), expected, "{query}");
    }
}

#[test]
fn what_is_written_like_a_thing_finds_tools_for_it() {
    let mut index = Index::with(Arc::new(Both::built_in()));
    for (name, description) in [
        ("get_issue", "Get an issue of the tracker"),
        ("get_channel", "Get a channel of the chat"),
        ("get_file", "Get a file of the disk"),
        ("get_url", "Get a url of the web"),
        ("get_article", "Get an article"),
    ] {
        index.insert(name, &tool(name, description));
    }
    let snapshot = index.snapshot();
    for (query, expected) in [
        ("tell me about #12", "get_issue"),
        ("tell me about #random", "get_channel"),
        ("tell me about notes.md", "get_file"),
        ("tell me about https://example.com/a", "get_url"),
    ] {
        assert_eq!(first(&snapshot, query), expected, "{query}");
    }
}

#[test]
fn a_deprecated_tool_is_below_its_successor() {
    for (label, note) in [
        ("[DEPRECATED] ", ""),
        ("(deprecated) ", ""),
        ("**Deprecated** ", ""),
        ("", " This tool is deprecated."),
        ("", " It has been deprecated in favor of send_mail_message."),
        ("", " Deprecated: use send_mail_message instead."),
    ] {
        for query in ["send a mail to anna", "mail the report to my boss", "please write a mail"] {
            let mut index = Index::new();
            index.insert("a", &tool("send_mail", &format!("{label}Sends a mail to somebody.{note}")));
            index.insert("b", &tool("send_mail_message", "Sends a mail to somebody."));
            assert_eq!(first(&index.snapshot(), query), "b", "{label}{note}: {query}");
        }
    }
    let mut index = Index::new();
    index.insert("a", &tool("send_mail", "Deprecated: use send_message. Sends a mail to somebody."));
    index.insert("b", &tool("send_message", "Sends a mail to somebody."));
    let snapshot = index.snapshot();
    assert_eq!(first(&snapshot, "send a mail to anna"), "b");
    assert_eq!(first(&snapshot, "send_mail"), "a", "unless it is named");
}

#[test]
fn fillers_do_not_decide() {
    let mut index = Index::new();
    for (name, description) in [
        ("put_object", "Put an object into a bucket"),
        ("navigate_back", "Go back to the page before"),
        ("time_off", "Request time off"),
        ("play_song", "Play a song"),
        ("create_issue", "Open a new issue"),
    ] {
        index.insert(name, &tool(name, description));
    }
    let snapshot = index.snapshot();
    for query in ["hey, could you put on a song right now please", "I need to get back to that song, quickly, thanks"] {
        assert_eq!(first(&snapshot, query), "play_song", "{query}");
    }
}

/// Whatever is put around a wish, the same tool is found.
#[test]
fn politeness_and_haste_change_nothing() {
    let (snapshot, _) = catalogue();
    let wishes = [
        "create an invoice for acme",
        "restart the deployment",
        "list my calendars",
        "search for hotels in vienna",
        "merge the pull request",
        "take a screenshot of the page",
        "send an email to paul",
        "refund the payment",
        "transcribe the recording",
        "what is the weather in rome",
    ];
    let around = [
        ("please ", ""),
        ("hey, could you quickly ", " for me, thanks"),
        ("I need to ", " right now"),
        ("ok so next thing: ", " asap"),
        ("would you be so kind and ", " when you get a minute"),
        ("can you just ", " again, sorry"),
    ];
    let (mut asked, mut changed) = (0, Vec::new());
    for wish in wishes {
        let plain = first(&snapshot, wish);
        for (before, after) in around {
            let said = format!("{before}{wish}{after}");
            asked += 1;
            if first(&snapshot, &said) != plain {
                changed.push((said, plain.clone()));
            }
        }
    }
    assert!(changed.len() * 20 <= asked, "{} of {asked}: {changed:?}", changed.len());
    // What is only around a wish changes no answer at all.
    let frames = [
        ("please ", ""),
        ("can you ", ", thanks!"),
        ("hey, could you ", " for me, please"),
        ("Hi! I need you to ", " if possible"),
    ];
    for wish in super::quality::queries_of(QUERIES).iter().step_by(4).map(|query| &query.text) {
        let plain = first(&snapshot, wish);
        for (before, after) in frames {
            let said = format!("{before}{wish}{after}");
            assert_eq!(first(&snapshot, &said), plain, "{said}");
        }
    }
}

#[test]
fn a_prefix_that_all_names_have_does_not_drown_them() {
    let mut index = Index::new();
    for name in ["create_issue", "list_issues", "add_comment", "list_boards", "get_sprint"] {
        let tool = ToolText::new("work", &format!("jira_{name}"), "", &json!({}));
        index.insert(&format!("work:jira_{name}"), &tool);
    }
    index.insert("other:jira", &ToolText::new("other", "about_jira", "About jira", &json!({})));
    let snapshot = index.snapshot();
    assert_eq!(first(&snapshot, "jira comment"), "work:jira_add_comment");
    let score = |index: &Index| index.snapshot().search("comment", 1, Mode::Bm25)[0].words;
    let mut alone = Index::new();
    alone.insert("work:jira_add_comment", &ToolText::new("work", "jira_add_comment", "", &json!({})));
    for number in 0..5 {
        alone.insert(&format!("x:{number}"), &ToolText::new("x", "other_thing", "", &json!({})));
    }
    assert!(score(&index) > score(&alone), "{} {}", score(&index), score(&alone));
}

#[test]
fn other_languages_find_the_english_tool() {
    let (snapshot, _) = catalogue();
    #[rustfmt::skip]
    let table = [
        ("wie wird das Wetter morgen in Hamburg",            "weather:get_forecast"),
        ("erstelle einen neuen Ordner",                      "files:create_directory drive:drive_create_folder"),
        ("schicke eine E-Mail an Petra",                     "mail:send_email"),
        ("zeige alle Kalender",                              "calendar:list_calendars"),
        ("supprimer le fichier",                             "files:delete_path codehost:delete_file drive:drive_delete"),
        ("envoyer un courriel à Paul",                       "mail:send_email"),
        ("créer une facture pour le client",                 "payments:create_invoice"),
        ("buscar vuelos a Madrid",                           "travel:search_flights"),
        ("reembolsar el pago",                               "payments:create_refund"),
        ("lista de clientes",                                "payments:list_customers shop:get_customers"),
        ("查看天气",                                          "weather:get_current_weather weather:get_forecast"),
        ("发送邮件",                                          "mail:send_email"),
        ("搜索航班",                                          "travel:search_flights"),
        ("カレンダーの予定を作成",                              "calendar:create_event"),
        ("メールを送信",                                      "mail:send_email"),
        ("neuen Termin im Kalender anlegen",                 "calendar:create_event"),
        ("suche eine Datei auf der Festplatte",              "files:search_files drive:drive_search"),
        ("buche ein Hotel in Rom",                           "travel:book_hotel"),
        ("lösche den Termin",                                "calendar:delete_event"),
        ("erstelle eine Rechnung",                           "payments:create_invoice"),
        ("cherche un vol pour Lisbonne",                     "travel:search_flights"),
        ("affiche les événements du calendrier",             "calendar:list_events calendar:list_calendars"),
        ("quel temps fait-il à Lyon",                        "weather:get_current_weather weather:get_forecast"),
        ("envoie un message sur le canal",                   "chat:post_message"),
        ("rembourser le paiement",                           "payments:create_refund"),
        ("envía un correo a Ana",                            "mail:send_email"),
        ("crea un evento en el calendario",                  "calendar:create_event"),
        ("muestra el pronóstico del tiempo",                 "weather:get_forecast weather:get_current_weather"),
        ("borra el archivo",                                 "files:delete_path codehost:delete_file drive:drive_delete"),
        ("创建发票",                                          "payments:create_invoice"),
        ("删除文件",                                          "files:delete_path codehost:delete_file drive:drive_delete"),
        ("预订酒店",                                          "travel:book_hotel"),
        ("天気予報",                                          "weather:get_forecast weather:get_current_weather"),
        ("ファイルを検索",                                     "files:search_files drive:drive_search"),
        ("ホテルを予約",                                      "travel:book_hotel"),
        ("スクリーンショットを撮る",                            "browser:browser_take_screenshot"),
        ("画一只猫",                                          "media:generate_image"),
    ];
    let is_found = |(query, expected): &&(&str, &str)| expected.split(' ').any(|id| first(&snapshot, query) == id);
    let missed: Vec<_> =
        table.iter().filter(|row| !is_found(row)).map(|row| (row.0, first(&snapshot, row.0))).collect();
    assert!(missed.len() * 8 <= table.len(), "{missed:?}");
}

#[test]
fn nonsense_is_mostly_not_answered() {
    /// What `pml` asks for if nothing is said.
    const THRESHOLD: f32 = 0.12;
    let (snapshot, _) = catalogue();
    let mut state = 7_u64;
    let mut random = move |count: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % count
    };
    let mut answered = 0;
    for number in 0..200 {
        let letters: &[u8] = [&b"abcdefghijklmnopqrstuvwxyz"[..], b"asdfghjkl", b"bakidolumenoruti"][number % 3];
        let words = (0..1 + random(4)).map(|_| {
            let length = 4 + random(7);
            (0..length).map(|_| char::from(letters[random(letters.len())])).collect::<String>()
        });
        let query = words.collect::<Vec<_>>().join(" ");
        answered +=
            usize::from(snapshot.search(&query, 1, Mode::Hybrid).first().is_some_and(|hit| hit.score >= THRESHOLD));
    }
    assert!(answered <= 20, "{answered} of 200");
    for query in ["-1", "%s%n", "x x x x", "a.b.c", "7 8 9"] {
        let score = snapshot.search(query, 1, Mode::Hybrid).first().map_or(0.0, |hit| hit.score);
        assert!(score < THRESHOLD, "{query}: {score}");
    }
}

/// Letters in the wrong order are mended in short words too, and a stub that is no word is not preferred.
#[test]
fn slips_in_words_are_mended() {
    let mut index = Index::new();
    for (name, description) in [
        ("list_pods", "List pods of Kubernetes"),
        ("pod_logs", "Logs of pods of Kubernetes"),
        ("list_buckets", "List buckets"),
        ("send_mail", "Send a mail"),
        ("read_mail", "Read a mail"),
    ] {
        index.insert(name, &tool(name, description));
    }
    let snapshot = index.snapshot();
    for (query, expected) in [("lsit kubernets pods", "list_pods"), ("sned the mail", "send_mail")] {
        assert_eq!(first(&snapshot, query), expected, "{query}");
    }
}
