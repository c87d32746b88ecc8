//! What every store of a hub must do, on both engines.

use std::sync::Arc;

use pml_testkit::postgres::Postgres;
use pml_wire::{CapabilityId, ExecutionId, trace::Timestamp};
use serde_json::json;

use super::{
    AddedKey, Capability, Change, HubStore, Key, Listing, NewCapability, NewKey, PostgresHub, Put, PutModel, Renamed,
    SqliteHub, Viewer, Visibility, Which,
};
use crate::trace::{
    SanitizedTrace,
    sanitize::Sanitizer,
    store::{Commit, Filter, Options, Reading, Scope, Store, postgres::Address},
};

/// Runs a test on each engine, with an empty database.
async fn on_both(test: impl AsyncFn(Arc<dyn HubStore>)) {
    let folder = tempfile::tempdir().unwrap();
    let hub = SqliteHub::open(folder.path(), Options::default());
    hub.opened().await;
    test(Arc::new(hub)).await;
    let database = Postgres::shared().database();
    let hub = PostgresHub::open(Address::parse(&database.url()).unwrap(), Options::default());
    hub.opened().await;
    test(Arc::new(hub)).await;
}

fn scope(text: &str) -> Scope {
    text.parse().unwrap()
}

fn viewer(text: &str, name: &str) -> Viewer {
    Viewer { scope: scope(text), name: name.to_owned() }
}

fn new(name: &str, code: &str) -> NewCapability {
    let (namespace, action) = name.split_once('.').unwrap();
    NewCapability {
        namespace: namespace.to_owned(),
        action: action.to_owned(),
        code: code.to_owned(),
        parameters: Some(r#"{"type":"object"}"#.to_owned()),
        description: "Liest eine ÜBERSICHT".to_owned(),
        visibility: None,
    }
}

async fn put(hub: &dyn HubStore, viewer: &Viewer, new: NewCapability) -> Capability {
    match hub.capabilities(viewer).put(new).await.unwrap() {
        Put::Created(made) | Put::NewVersion(made) | Put::Known(made) => *made,
        Put::Taken => panic!("taken"),
    }
}

fn trace(capability: Option<&str>) -> SanitizedTrace {
    let trace = json!({
        "traceId": ExecutionId::mint(), "entry": "execute_code", "caller": "agent", "success": true, "durationMs": 10.0,
        "timestamp": Timestamp(1_790_000_000_000), "capabilityId": capability, "taskResults": [],
        "metadata": {"pmlVersion": "0.1.0", "schemaVersion": 1},
    });
    Sanitizer::new(Arc::<crate::trace::sanitize::Rules>::default()).trace(serde_json::from_value(trace).unwrap())
}

async fn store(store: &dyn Store, trace: &SanitizedTrace) {
    assert_eq!(store.submit(trace.clone()).outcome().await, Some(Commit::Stored));
}

#[tokio::test]
async fn keys_are_found_by_their_hash_and_can_be_revoked() {
    on_both(async |hub| {
        let key = |project: &str, name: &str| Key {
            scope: scope(project),
            name: name.to_owned(),
            permissions: "ingest,read".parse().unwrap(),
            created_at: Timestamp(5),
            expires_at: Some(Timestamp(9)),
            revoked_at: None,
        };
        let keys = hub.keys();
        let add = async |project: &str, name: &str, sha256: u8| {
            keys.add(NewKey { key: key(project, name), sha256: [sha256; 32] }).await.unwrap()
        };
        assert_eq!(add("acme.web", "ann", 1).await, AddedKey::Added);
        assert_eq!(add("acme.web", "ann", 2).await, AddedKey::Taken);
        assert_eq!(add("acme.app", "ann", 3).await, AddedKey::Added);
        assert_eq!(add("acme.app", "bob", 3).await, AddedKey::Taken, "the key itself");
        assert_eq!(keys.by_hash([1; 32]).await.unwrap(), Some(key("acme.web", "ann")));
        assert_eq!(keys.by_hash([2; 32]).await.unwrap(), None);
        assert_eq!(keys.revoke("ann", Some(&scope("acme.web")), 7).await.unwrap(), 1);
        assert_eq!(keys.revoke("ann", Some(&scope("acme.web")), 8).await.unwrap(), 0);
        assert_eq!(keys.by_hash([1; 32]).await.unwrap().unwrap().revoked_at, Some(Timestamp(7)));
        assert_eq!(keys.by_hash([3; 32]).await.unwrap().unwrap().revoked_at, None);
        assert_eq!(add("acme.web", "ann", 4).await, AddedKey::Added, "the name is free again");
        let listed: Vec<_> =
            keys.list().await.unwrap().iter().map(|key| (key.scope.to_string(), key.revoked_at)).collect();
        let expected = [("acme.app", None), ("acme.web", None), ("acme.web", Some(Timestamp(7)))];
        assert_eq!(listed, expected.map(|(scope, revoked)| (scope.to_owned(), revoked)));
        assert_eq!(keys.revoke("ann", None, 9).await.unwrap(), 2);
        hub.ready().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn capabilities_have_versions_names_and_viewers() {
    on_both(async |hub| {
        let (ann, bob) = (viewer("acme.web", "ann"), viewer("acme.web", "bob"));
        let (other, foreign) = (viewer("acme.app", "cleo"), viewer("evil.web", "ann"));
        let first = put(&*hub, &ann, new("fs.read", "return 1 // \0")).await;
        assert_eq!((first.version.number, first.version.code.as_str()), (1, "return 1 // \0"));
        assert_eq!(first.name.to_string(), format!("acme.web.fs.read.{}", first.version.hash));
        let again =
            put(&*hub, &bob, NewCapability { description: "other".to_owned(), ..new("fs.read", "return 1 // \0") })
                .await;
        assert_eq!((again.id, again.version.number, again.version.description.as_str()), (first.id, 1, "other"));
        let second = put(&*hub, &bob, new("fs.read", "return 2")).await;
        assert_eq!((second.id, second.version.number, second.owner.as_str()), (first.id, 2, "ann"));
        let caps = hub.capabilities(&ann);
        assert_eq!(caps.versions(first.id).await.unwrap().iter().map(|v| v.number).collect::<Vec<_>>(), [2, 1]);
        let get = async |viewer: &Viewer, name: &str| {
            let which = Which::Name(name.parse().unwrap());
            hub.capabilities(viewer).get(which).await.unwrap().map(|found| found.version.number)
        };
        assert_eq!(get(&bob, "acme.web.fs.read").await, Some(2));
        assert_eq!(get(&bob, &first.name.to_string()).await, Some(1));
        assert_eq!(get(&bob, "local.default.fs.read").await, Some(2));
        // Nobody of another project or organisation, until it is shared with the organisation.
        let seen_by = async |viewer: &Viewer, id: CapabilityId| {
            let by_id = hub.capabilities(viewer).get(Which::Id(id)).await.unwrap().is_some();
            let listed = hub.capabilities(viewer).list(Listing { limit: 9, ..Listing::default() }).await.unwrap();
            assert_eq!(by_id, listed.iter().any(|found| found.id == id));
            assert_eq!(by_id, !hub.capabilities(viewer).versions(id).await.unwrap().is_empty());
            by_id
        };
        assert!(!seen_by(&other, first.id).await && !seen_by(&foreign, first.id).await);
        assert_eq!(get(&foreign, "acme.web.fs.read").await, None);
        let share = |visibility| Change { visibility: Some(visibility), ..Change::default() };
        assert!(caps.change(first.id, share(Visibility::Org)).await.unwrap().is_some());
        assert!(seen_by(&other, first.id).await && !seen_by(&foreign, first.id).await);
        assert!(hub.capabilities(&other).change(first.id, share(Visibility::Private)).await.unwrap().is_none());
        assert!(!hub.capabilities(&other).delete(first.id).await.unwrap());
        assert_eq!(hub.capabilities(&foreign).rename(first.id, "a", "b").await.unwrap(), Renamed::Unknown);
        assert!(caps.change(first.id, share(Visibility::Private)).await.unwrap().is_some());
        assert!(!seen_by(&bob, first.id).await && seen_by(&ann, first.id).await);
        assert_eq!(hub.capabilities(&bob).put(new("fs.read", "return 3")).await.unwrap(), Put::Taken);
        // A new name, and the old one that still leads to it.
        let third = put(&*hub, &ann, new("fs.write", "return 4")).await;
        assert_eq!(caps.rename(first.id, "fs", "write").await.unwrap(), Renamed::Taken);
        let Renamed::Renamed(renamed) = caps.rename(first.id, "files", "read").await.unwrap() else { panic!() };
        assert_eq!(renamed.former_names.iter().map(ToString::to_string).collect::<Vec<_>>(), ["acme.web.fs.read"]);
        assert_eq!((get(&ann, "acme.web.fs.read").await, get(&ann, "acme.web.files.read").await), (Some(2), Some(2)));
        // Found by words, in names first.
        let find = async |text: &str| {
            let listing = Listing { text: text.to_owned(), limit: 9, offset: 0 };
            caps.list(listing).await.unwrap().iter().map(|found| found.id).collect::<Vec<_>>()
        };
        assert_eq!(find("write übersicht").await, [third.id]);
        assert_eq!(find("FILES").await, [first.id]);
        assert_eq!(find("nothing").await, []);
        assert_eq!(find("%").await, []);
        assert_eq!(find("\0 \u{10ffff}").await, []);
        assert!(caps.delete(first.id).await.unwrap());
        assert_eq!((get(&ann, "acme.web.files.read").await, find("").await), (None, vec![third.id]));
    })
    .await;
}

#[tokio::test]
async fn traces_are_linked_whichever_comes_first() {
    on_both(async |hub| {
        let ann = viewer("acme.web", "ann");
        let traces = hub.of(&ann.scope);
        let named = trace(Some("acme.web.fs.read"));
        let (foreign, unknown) = (trace(Some("evil.web.fs.read")), trace(Some("no name at all")));
        for early in [&named, &foreign, &unknown] {
            store(&*traces, early).await;
        }
        let capability = put(&*hub, &ann, new("fs.read", "return 1")).await;
        let late = trace(Some(&capability.name.to_string()));
        let by_id = trace(Some(&capability.id.to_string()));
        store(&*traces, &late).await;
        store(&*traces, &by_id).await;
        let linked =
            async |trace: &SanitizedTrace| traces.record(trace.trace().trace_id).await.unwrap().unwrap().capability;
        for trace in [&named, &late, &by_id] {
            assert_eq!(linked(trace).await, Some(capability.id));
        }
        assert_eq!((linked(&foreign).await, linked(&unknown).await), (None, None));
        let filter = Filter { capability: Some(capability.id), ..Filter::default() };
        assert_eq!(traces.list(filter, Reading::Newest, 9).await.unwrap().traces.len(), 3);
        let found = hub.capabilities(&ann).get(Which::Id(capability.id)).await.unwrap().unwrap();
        assert_eq!((found.stats.runs, found.stats.failed, found.stats.mean_ms), (3, 0, 10.0));
    })
    .await;
}

#[tokio::test]
async fn a_model_is_replaced_only_if_it_is_the_one_that_was_expected() {
    on_both(async |hub| {
        let models = hub.models(&scope("acme.web"));
        assert_eq!(models.get("ranker").await.unwrap(), None);
        let changed = models.put("ranker", vec![1], Some(Some("x".to_owned()))).await.unwrap();
        assert_eq!(changed, PutModel::Changed { etag: None });
        assert_eq!(models.etag("ranker").await.unwrap(), None);
        let PutModel::Stored { etag } = models.put("ranker", vec![1, 0, 2], Some(None)).await.unwrap() else {
            panic!()
        };
        assert_eq!(
            models.put("ranker", vec![9], Some(None)).await.unwrap(),
            PutModel::Changed { etag: Some(etag.clone()) }
        );
        assert_eq!(models.get("ranker").await.unwrap().unwrap().bytes, [1, 0, 2]);
        assert_eq!(models.etag("ranker").await.unwrap(), Some(etag.clone()));
        assert!(matches!(models.put("ranker", vec![3], Some(Some(etag))).await.unwrap(), PutModel::Stored { .. }));
        assert_eq!(hub.models(&scope("acme.app")).get("ranker").await.unwrap(), None, "of another scope");
    })
    .await;
}
