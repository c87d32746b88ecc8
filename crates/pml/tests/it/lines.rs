//! One line is one message, whatever text of a server or a worker is in it.

use pml::{broker::Policy, sandbox::Mode};
use pml_testkit::helper_path;
use serde_json::json;

use super::{
    gateway::{Gateway, MATRIX, Way, fixture},
    support,
};

/// Passes on what a server returned, in every form that a program can get hold of, to a server that takes every line
/// break for the end of a message.
#[tokio::test]
async fn what_a_server_returned_is_one_message_to_the_next() {
    for (from, era) in MATRIX {
        let listener = fixture(Way::Stdio, "legacy", &["--fault", "universal-newlines"]);
        let servers = vec![fixture(from, era, &[]).with(|settings| settings.name = "from".to_owned()), listener];
        let mut gateway = Gateway::start(servers);
        let program = r#"const kinds = ["smuggled-image", "smuggled-structured", "smuggled-list", "smuggled-text"];
            const seen = [];
            for (const kind of kinds) {
              const got = await mcp.from.odd({ kind });
              const given = [got, got[0] ?? got, { nested: [got] }];
              for (const value of given) seen.push(await mcp.fix.any({ value }).then(() => "ok", (e) => e.message));
            }
            return { seen, smuggled: (await mcp.fix.count({ key: "smuggled" })).count }"#;
        // With the smaller limit the host keeps everything, not only the image.
        for result_bytes in [400, 1 << 20] {
            gateway.budget.result_bytes = result_bytes;
            let value = gateway.value(program).await;
            assert_eq!(value["seen"], json!(vec!["ok"; 12]), "{from:?} {era} {result_bytes}");
            let before = u64::from(result_bytes > 400);
            assert_eq!(value["smuggled"], 1 + before, "{from:?} {era} {result_bytes}: a message got through");
        }
        gateway.stop().await;
    }
}

/// The value that arrives is the value that was sent.
#[tokio::test]
async fn what_is_passed_on_means_the_same() {
    for (to, era) in MATRIX {
        let source = fixture(Way::Http, "modern", &[]).with(|settings| settings.name = "from".to_owned());
        let gateway = Gateway::start(vec![source, fixture(to, era, &[])]);
        let program = r#"const image = (await mcp.from.odd({ kind: "smuggled-image" }))[0];
            const text = await mcp.from.odd({ kind: "smuggled-text" });
            const { value } = await mcp.fix.any({ value: { image, text } });
            return { meta: value.image._meta[0].params.arguments, same: value.text === text, size: text.length }"#;
        let expected = json!({ "meta": { "key": "smuggled" }, "same": true });
        let value = gateway.value(program).await;
        assert_eq!(json!({ "meta": value["meta"], "same": value["same"] }), expected, "{to:?} {era}: {value}");
        gateway.stop().await;
    }
}

/// A worker that was taken over writes its arguments itself, and so with any white space.
#[tokio::test]
async fn what_a_hijacked_worker_writes_is_one_message() {
    let data_dir = tempfile::tempdir().unwrap();
    let path = data_dir.path().to_owned();
    let servers = vec![fixture(Way::Stdio, "legacy", &["--fault", "universal-newlines"])];
    let workers = support::options(helper_path("hostile-worker"), Mode::Subprocess);
    let gateway = Gateway::with_workers(servers, Policy::default(), data_dir, &path, workers);
    // Passes a list with a message between line breaks to `any`, and returns what `count` has counted.
    assert_eq!(gateway.value("smuggle-call").await, json!({ "count": 1 }));
    assert_eq!(gateway.audit().await.len(), 2);
}
