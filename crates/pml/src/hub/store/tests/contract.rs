//! What every store of a hub must do, whatever keeps the data.
//!
//! Each test is a function over [`HubStore`], and [`hub_contract_tests`] makes tests of all of them on stores of one kind.

use std::sync::Arc;

use pml_wire::{CapabilityId, ExecutionId, trace::Timestamp};
use serde_json::json;

use super::super::*;
use crate::{
    digest::sha256,
    trace::{
        sanitize::Sanitizer,
        store::{Fqdn, Scope},
    },
};

/// Tests of every function of the contract. `$with` is a function that opens an empty store and hands it to a test.
macro_rules! hub_contract_tests {
    ($with:path: $($test:ident,)*) => {
        $(
            #[tokio::test]
            async fn $test() {
                $with($crate::hub::store::tests::contract::$test).await;
            }
        )*
    };
    ($with:path) => {
        $crate::hub::store::tests::contract::hub_contract_tests! { $with:
            keys_are_found_by_their_hash_until_they_are_revoked,
            a_capability_keeps_its_id_through_versions_and_names,
            texts_with_nul_are_kept_and_found_alike,
            hashes_are_as_long_as_they_must_be,
            only_those_see_a_capability_who_may,
            traces_are_linked_to_capabilities_whichever_comes_first,
            a_registry_tells_what_has_changed_and_what_is_gone,
            a_change_is_made_only_to_what_its_author_has_seen,
            links_outlive_their_capabilities,
            a_model_is_replaced_only_by_who_knows_it,
        }
    };
}
pub(crate) use hub_contract_tests;

fn scope(text: &str) -> Scope {
    text.parse().unwrap()
}

fn viewer(of: &str, name: &str) -> Viewer {
    Viewer { scope: scope(of), name: name.to_owned(), is_admin: false }
}

fn new(namespace: &str, action: &str, code: &str) -> NewCapability {
    NewCapability {
        namespace: namespace.to_owned(),
        action: action.to_owned(),
        code: code.to_owned(),
        parameters: None,
        description: format!("{namespace} {action}"),
        visibility: None,
        author: None,
    }
}

fn named(text: &str) -> Which {
    Which::Name(text.parse::<Fqdn>().unwrap())
}

async fn put(capabilities: &dyn Capabilities, new: NewCapability) -> Capability {
    match capabilities.put(new, Expected::Anything).await.unwrap() {
        Put::Created(capability) | Put::NewVersion(capability) | Put::Known(capability) => *capability,
        other @ (Put::Taken | Put::Changed | Put::Forbidden) => panic!("{other:?}"),
    }
}

pub(crate) async fn keys_are_found_by_their_hash_until_they_are_revoked(store: Arc<dyn HubStore>) {
    let keys = store.keys();
    let key = |of: &str, name: &str| Key {
        scope: scope(of),
        name: name.to_owned(),
        permissions: "ingest,read".parse().unwrap(),
        created_at: Timestamp(1000),
        expires_at: (name == "brief").then_some(Timestamp(2000)),
        revoked_at: None,
    };
    let all = [("acme.web", "ci"), ("acme.app", "ci"), ("acme.web", "brief")];
    for (number, (of, name)) in all.into_iter().enumerate() {
        let added = keys.add(NewKey { key: key(of, name), sha256: [number as u8; 32] }).await.unwrap();
        assert_eq!(added, AddedKey::Added);
    }
    let again = NewKey { key: key("acme.web", "ci"), sha256: [9; 32] };
    assert_eq!(keys.add(again.clone()).await.unwrap(), AddedKey::Taken);
    assert_eq!(keys.by_hash([1; 32]).await.unwrap(), Some(key("acme.app", "ci")));
    assert_eq!(keys.by_hash([9; 32]).await.unwrap(), None);
    let brief = keys.by_hash([2; 32]).await.unwrap().unwrap();
    assert_eq!((brief.state(1999), brief.state(2000)), (KeyState::Valid, KeyState::Expired));
    assert_eq!(keys.revoke("ci", Some(&scope("acme.web")), 5000).await.unwrap(), 1);
    assert_eq!(keys.by_hash([0; 32]).await.unwrap().unwrap().state(0), KeyState::Revoked);
    assert_eq!(keys.by_hash([1; 32]).await.unwrap().unwrap().state(0), KeyState::Valid);
    assert_eq!(keys.revoke("ci", Some(&scope("acme.web")), 6000).await.unwrap(), 0, "it is revoked already");
    assert_eq!(keys.add(again).await.unwrap(), AddedKey::Added, "the name is free again");
    assert_eq!(keys.revoke("ci", None, 7000).await.unwrap(), 2, "in every scope");
    let listed: Vec<_> =
        keys.list().await.unwrap().into_iter().map(|key| (key.scope.to_string(), key.name, key.revoked_at)).collect();
    let text = |of: &str, name: &str, at: Option<u64>| (of.to_owned(), name.to_owned(), at.map(Timestamp));
    assert_eq!(listed.len(), 4);
    assert_eq!(listed[0], text("acme.app", "ci", Some(7000)));
    assert_eq!(listed[1], text("acme.web", "brief", None));
    store.ready().await.unwrap();
}

pub(crate) async fn a_capability_keeps_its_id_through_versions_and_names(store: Arc<dyn HubStore>) {
    let capabilities = &*store.capabilities(&viewer("acme.web", "ann"));
    let first = put(capabilities, new("fs", "read", "return 1")).await;
    let hash = &sha256("return 1")[..4];
    assert_eq!(first.name.to_string(), format!("acme.web.fs.read.{hash}"));
    assert_eq!((first.version.number, first.visibility, first.owner.as_str()), (1, Visibility::Project, "ann"));
    let second = put(capabilities, new("fs", "read", "return 2")).await;
    assert_eq!((second.id, second.version.number), (first.id, 2));
    let again = capabilities.put(new("fs", "read", "return 2"), Expected::Anything).await.unwrap();
    assert!(matches!(again, Put::Known(known) if known.version.number == 2 && known.revision == second.revision));
    let numbers: Vec<_> =
        capabilities.versions(first.id, 0, None).await.unwrap().items.iter().map(|version| version.number).collect();
    assert_eq!(numbers, [2, 1]);
    let get = async |which: Which| capabilities.get(which).await.unwrap();
    assert_eq!(get(named("acme.web.fs.read")).await.unwrap().version.number, 2);
    assert_eq!(get(named(&format!("acme.web.fs.read.{hash}"))).await.unwrap().version.number, 1);
    assert_eq!(get(named(&format!("local.default.fs.read.{hash}"))).await.unwrap().id, first.id, "of one's own scope");
    assert_eq!(get(named("acme.web.fs.read.0000")).await, None);
    assert_eq!(get(Which::Id(first.id)).await.unwrap().version.number, 2);

    // Code that it had before is its newest again.
    let back = put(capabilities, new("fs", "read", "return 1")).await;
    assert_eq!((back.version.number, back.version.code.as_str()), (3, "return 1"));
    assert_eq!(get(Which::Id(first.id)).await.unwrap().version, back.version);
    assert_eq!(get(named(&format!("acme.web.fs.read.{hash}"))).await.unwrap().version.number, 3);
    let numbers: Vec<_> =
        capabilities.versions(first.id, 0, None).await.unwrap().items.iter().map(|version| version.number).collect();
    assert_eq!(numbers, [3, 2]);

    let rename = async |id, namespace: &str, action: &str| {
        capabilities.rename(id, namespace, action, Expected::Anything).await.unwrap()
    };
    let Renamed::Renamed(renamed) = rename(first.id, "files", "open").await else { panic!() };
    assert_eq!((renamed.id, renamed.name.namespace.as_str()), (first.id, "files"));
    assert_eq!(renamed.former_names.iter().map(ToString::to_string).collect::<Vec<_>>(), ["acme.web.fs.read"]);
    assert_eq!(get(named("acme.web.fs.read")).await.unwrap().id, first.id, "the old name leads to it");
    let taker = put(capabilities, new("fs", "read", "return 3")).await;
    assert_ne!(taker.id, first.id);
    assert_eq!(get(named("acme.web.fs.read")).await.unwrap().id, taker.id, "until another is called so");
    assert_eq!(get(named(&format!("acme.web.fs.read.{hash}"))).await.unwrap().id, first.id);
    assert_eq!(rename(first.id, "fs", "read").await, Renamed::Taken);
    assert_eq!(rename(CapabilityId::mint(), "a", "b").await, Renamed::Unknown);
    // Back and forth.
    assert_eq!(capabilities.delete(taker.id, Expected::Anything).await.unwrap(), Deleted::Deleted);
    assert_eq!(capabilities.delete(taker.id, Expected::Anything).await.unwrap(), Deleted::Unknown);
    assert!(matches!(rename(first.id, "fs", "read").await, Renamed::Renamed(_)));
    assert_eq!(get(named("acme.web.files.open")).await.unwrap().id, first.id);
    let change = Change { description: Some("opens".to_owned()), visibility: Some(Visibility::Org), parameters: None };
    let Altered::Altered(changed) = capabilities.change(first.id, change, Expected::Anything).await.unwrap() else {
        panic!()
    };
    assert_eq!((changed.version.description.as_str(), changed.visibility), ("opens", Visibility::Org));

    put(capabilities, new("other", "opens", "return 4")).await;
    let list = async |text: &str| {
        let listing = Listing { text: text.to_owned(), limit: 10, ..Listing::default() };
        let found = capabilities.list(listing).await.unwrap().items;
        found.into_iter().map(|one| one.name.action).collect::<Vec<_>>()
    };
    assert_eq!(list("OPENS").await, ["opens", "read"], "in the name before the description");
    assert_eq!(list("opens other").await, ["opens"]);
    assert_eq!(list("").await.len(), 2);
    // What would be too much is on the next part, and there is always one.
    let part = async |offset, max_bytes| {
        let listing = Listing { text: String::new(), limit: 10, offset, max_bytes };
        let part = capabilities.list(listing).await.unwrap();
        (part.items.len(), part.has_more)
    };
    assert_eq!((part(0, Some(1)).await, part(1, Some(1)).await), ((1, true), (1, false)));
    assert_eq!((part(0, None).await, part(2, None).await), ((2, false), (0, false)));
    let versions = capabilities.versions(first.id, 0, Some(1)).await.unwrap();
    assert_eq!((versions.items.len(), versions.has_more), (1, true));
    let rest = capabilities.versions(first.id, 1, None).await.unwrap();
    assert_eq!((rest.items.len(), rest.has_more), (1, false));
    assert_eq!(list("100% nothing_").await, [] as [&str; 0]);
}

pub(crate) async fn texts_with_nul_are_kept_and_found_alike(store: Arc<dyn HubStore>) {
    let capabilities = &*store.capabilities(&viewer("acme.web", "ann"));
    let with_nul = NewCapability { description: "one\0two".to_owned(), ..new("a", "b", "return '\0'") };
    let made = put(capabilities, with_nul.clone()).await;
    assert_eq!((&made.version.code[..], &made.version.description[..]), ("return '\0'", "one\u{fffd}two"));
    // What is put again has not changed.
    assert_eq!(capabilities.put(with_nul, Expected::Anything).await.unwrap(), Put::Known(Box::new(made.clone())));
    let change = Change { description: Some("three\0".to_owned()), ..Change::default() };
    for _ in 0..2 {
        let Altered::Altered(changed) = capabilities.change(made.id, change.clone(), Expected::Anything).await.unwrap()
        else {
            panic!("it is there")
        };
        assert_eq!(changed.version.description, "three\u{fffd}");
        assert!(changed.revision <= made.revision + 1, "the same again is no change");
    }
    let listing = Listing { text: "THREE\0".to_owned(), limit: 9, ..Listing::default() };
    assert_eq!(capabilities.list(listing).await.unwrap().items.len(), 1);
}

pub(crate) async fn hashes_are_as_long_as_they_must_be(store: Arc<dyn HubStore>) {
    let capabilities = &*store.capabilities(&viewer("acme.web", "ann"));
    // Programs whose hashes begin alike.
    let mut seen = std::collections::HashMap::new();
    let (one, two) = (0..)
        .find_map(|number| {
            let code = format!("return {number}");
            seen.insert(sha256(&code)[..4].to_owned(), code.clone()).map(|earlier| (earlier, code))
        })
        .unwrap();
    let (first, second) = (put(capabilities, new("a", "b", &one)).await, put(capabilities, new("a", "b", &two)).await);
    assert_eq!((first.version.hash.len(), second.version.hash.len()), (4, 5));
    assert!(sha256(&two).starts_with(&second.version.hash));
    for made in [&first, &second] {
        let found = capabilities.get(Which::Name(made.name.clone())).await.unwrap().unwrap();
        assert_eq!(found.version.code, made.version.code);
        let longer = Fqdn { hash: Some(sha256(&made.version.code)[..12].to_owned()), ..made.name.clone() };
        let found = capabilities.get(Which::Name(longer)).await.unwrap().unwrap();
        assert_eq!(found.version.code, made.version.code, "more of the hash than is needed");
    }
    // Of another capability the same beginning is no collision.
    assert_eq!(put(capabilities, new("a", "c", &two)).await.version.hash.len(), 4);
}

pub(crate) async fn only_those_see_a_capability_who_may(store: Arc<dyn HubStore>) {
    let owner = store.capabilities(&viewer("acme.web", "ann"));
    let others = [viewer("acme.web", "bob"), viewer("acme.app", "ann"), viewer("evil.web", "ann")];
    let others = others.map(|viewer| store.capabilities(&viewer));
    let mut secret = new("mine", "secret", "return 1");
    secret.visibility = Some(Visibility::Private);
    let id = put(&*owner, secret.clone()).await.id;
    for (visibility, expected) in [
        (Visibility::Private, [false, false, false]),
        (Visibility::Project, [true, false, false]),
        (Visibility::Org, [true, true, false]),
    ] {
        let change = Change { visibility: Some(visibility), ..Change::default() };
        assert!(matches!(owner.change(id, change, Expected::Anything).await.unwrap(), Altered::Altered(_)));
        for (other, is_seen) in others.iter().zip(expected) {
            assert_eq!(other.get(Which::Id(id)).await.unwrap().is_some(), is_seen, "{visibility:?}");
            assert_eq!(other.get(named("acme.web.mine.secret")).await.unwrap().is_some(), is_seen);
            assert_eq!(other.versions(id, 0, None).await.unwrap().items.len(), usize::from(is_seen));
            let listing = Listing { limit: 10, ..Listing::default() };
            assert_eq!(other.list(listing).await.unwrap().items.len(), usize::from(is_seen));
        }
        // Those of other projects change nothing, whatever they see.
        for other in &others[1..] {
            let change = Change { description: Some("mine now".to_owned()), ..Change::default() };
            assert_eq!(other.change(id, change, Expected::Anything).await.unwrap(), Altered::Unknown);
            assert_eq!(other.rename(id, "a", "b", Expected::Anything).await.unwrap(), Renamed::Unknown);
            assert_eq!(other.delete(id, Expected::Anything).await.unwrap(), Deleted::Unknown);
        }
    }
    let private = Change { visibility: Some(Visibility::Private), ..Change::default() };
    // Of its own project, too, who sees it is decided by whoever has put it, or by an admin, who sees everything.
    let hidden = secret.clone();
    assert_eq!(others[0].change(id, private.clone(), Expected::Anything).await.unwrap(), Altered::Forbidden);
    assert_eq!(others[0].put(hidden, Expected::Anything).await.unwrap(), Put::Forbidden);
    let admin = store.capabilities(&Viewer { is_admin: true, ..viewer("acme.web", "root") });
    let Altered::Altered(changed) = admin.change(id, private, Expected::Existing).await.unwrap() else { panic!() };
    assert_eq!(changed.visibility, Visibility::Private);
    assert!(admin.get(Which::Id(id)).await.unwrap().is_some() && others[0].get(Which::Id(id)).await.unwrap().is_none());
    assert_eq!(others[0].put(secret.clone(), Expected::Anything).await.unwrap(), Put::Taken);
    assert_eq!(others[0].delete(id, Expected::Anything).await.unwrap(), Deleted::Unknown);
    // The same name in another project is another capability.
    assert_ne!(put(&*others[1], secret).await.id, id);
    assert_eq!(owner.delete(id, Expected::Anything).await.unwrap(), Deleted::Deleted);
}

pub(crate) async fn traces_are_linked_to_capabilities_whichever_comes_first(store: Arc<dyn HubStore>) {
    let (web, app) = (scope("acme.web"), scope("acme.app"));
    let whole = sha256("return 1");
    let hash = &whole[..4];
    let trace = |name: &str| {
        let trace = json!({
            "traceId": ExecutionId::mint(), "success": true, "durationMs": 4.0, "timestamp": 1_790_000_000_000_u64,
            "capabilityId": name,
        });
        serde_json::from_value::<pml_wire::trace::Trace>(trace).unwrap()
    };
    let sanitizer = Sanitizer::default();
    let send = async |to: &Scope, trace: &pml_wire::trace::Trace| {
        store.of(to).ingest(vec![sanitizer.trace(trace.clone())], None).await.unwrap();
    };
    let link = async |of: &Scope, trace: &pml_wire::trace::Trace| {
        store.of(of).record(trace.trace_id).await.unwrap().unwrap().capability
    };
    let names = [
        format!("acme.web.fs.read.{hash}"),
        "acme.web.fs.read".to_owned(),
        format!("local.default.fs.read.{hash}"),
        format!("acme.web.fs.read.{}", &whole[..12]),
        format!("acme.web.fs.read.{whole}"),
    ];
    let early: Vec<_> = names.iter().map(|name| trace(name)).collect();
    let (wrong, foreign) = (trace("acme.web.fs.read.0000"), trace(&names[0]));
    let other = trace(&format!("acme.web.fs.read.{hash}0000000000"));
    for trace in early.iter().chain([&wrong, &other]) {
        send(&web, trace).await;
        assert_eq!(link(&web, trace).await, None);
    }
    send(&app, &foreign).await;
    let capabilities = &*store.capabilities(&viewer("acme.web", "ann"));
    let made = put(capabilities, new("fs", "read", "return 1")).await;
    for trace in &early {
        assert_eq!(link(&web, trace).await, Some(made.id), "{:?}", trace.capability_id);
    }
    assert_eq!((link(&web, &wrong).await, link(&web, &other).await), (None, None));
    let late = trace(&names[0]);
    send(&web, &late).await;
    let by_id = trace(&made.id.to_string());
    send(&web, &by_id).await;
    assert_eq!((link(&web, &late).await, link(&web, &by_id).await), (Some(made.id), Some(made.id)));
    // Another project links to it if it is shared with the organisation.
    assert_eq!(link(&app, &foreign).await, None);
    let shared = Change { visibility: Some(Visibility::Org), ..Change::default() };
    capabilities.change(made.id, shared, Expected::Anything).await.unwrap();
    assert_eq!(link(&app, &foreign).await, Some(made.id));
    let now_shared = trace(&names[0]);
    send(&app, &now_shared).await;
    assert_eq!(link(&app, &now_shared).await, Some(made.id));
    let stats = capabilities.get(Which::Id(made.id)).await.unwrap().unwrap().stats;
    assert_eq!((stats.runs, stats.failed, stats.mean_ms), (7, 0, 4.0), "of the viewer's own project");
    // Nobody knows whether a run that was cut off would have succeeded.
    for code in ["CANCELLED", "INTERRUPTED", "EXCEPTION"] {
        let failed = pml_wire::trace::Trace {
            success: false,
            error_code: Some(code.to_owned()),
            duration_ms: 12.0,
            ..trace(&names[0])
        };
        send(&web, &failed).await;
    }
    let stats = capabilities.get(Which::Id(made.id)).await.unwrap().unwrap().stats;
    assert_eq!((stats.runs, stats.failed, stats.mean_ms), (8, 1, 5.0), "one of them has failed");
    capabilities.rename(made.id, "files", "open", Expected::Anything).await.unwrap();
    assert_eq!(link(&web, &early[0]).await, Some(made.id));
}

pub(crate) async fn a_registry_tells_what_has_changed_and_what_is_gone(store: Arc<dyn HubStore>) {
    let web = store.capabilities(&viewer("acme.web", "ann"));
    let app = store.capabilities(&viewer("acme.app", "bob"));
    let evil = store.capabilities(&viewer("evil.web", "ann"));
    assert_eq!(web.mark().await.unwrap(), RegistryMark::default());
    assert_eq!(web.registry().await.unwrap(), RegistryListing::default());
    let made = put(&*web, new("fs", "read", "return 1")).await;
    let private = NewCapability { visibility: Some(Visibility::Private), ..new("fs", "mine", "return 2") };
    let private = put(&*web, private).await;
    let mark = web.mark().await.unwrap();
    assert!(mark.database > 0 && mark.revision >= 2, "{mark:?}");
    assert_eq!(app.mark().await.unwrap(), mark, "of the whole organisation");
    assert_eq!(evil.mark().await.unwrap(), RegistryMark { revision: 0, ..mark }, "and of no other");
    let listing = web.registry().await.unwrap();
    let [entry] = &listing.entries[..] else { panic!("{listing:?}") };
    assert_eq!((entry.id, entry.name.to_string(), entry.version), (made.id, "acme.web.fs.read".to_owned(), 1));
    assert_eq!((&entry.tag, entry.owner.as_str()), (&made.tag(), "ann"));
    assert_eq!(app.registry().await.unwrap().entries, [], "not for another project");
    // What changes nothing is no change; everything else is.
    put(&*web, new("fs", "read", "return 1")).await;
    web.change(made.id, Change::default(), Expected::Anything).await.unwrap();
    assert_eq!(web.mark().await.unwrap(), mark);
    let mut tags = vec![made.tag()];
    put(&*web, new("fs", "read", "return 3")).await;
    tags.push(web.registry().await.unwrap().entries[0].tag.clone());
    let org = Change { visibility: Some(Visibility::Org), ..Change::default() };
    web.change(made.id, org, Expected::Anything).await.unwrap();
    tags.push(app.registry().await.unwrap().entries[0].tag.clone());
    web.rename(made.id, "fs", "open", Expected::Anything).await.unwrap();
    tags.push(app.registry().await.unwrap().entries[0].tag.clone());
    tags.dedup();
    assert_eq!(tags.len(), 4, "{tags:?}");
    let before = web.mark().await.unwrap();
    for id in [made.id, private.id] {
        assert_eq!(web.delete(id, Expected::Anything).await.unwrap(), Deleted::Deleted);
    }
    assert!(app.mark().await.unwrap().revision > before.revision);
    let gone = RegistryListing { entries: Vec::new(), removed: vec![private.id, made.id] };
    assert_eq!((app.registry().await.unwrap(), web.registry().await.unwrap()), (gone.clone(), gone));
    assert_eq!(evil.registry().await.unwrap(), RegistryListing::default());
}

pub(crate) async fn a_change_is_made_only_to_what_its_author_has_seen(store: Arc<dyn HubStore>) {
    let capabilities = &*store.capabilities(&viewer("acme.web", "ann"));
    let tag = |capability: &Capability| Expected::tag(capability.tag());
    for absent in [Expected::tag("1-1"), Expected::Existing] {
        assert_eq!(capabilities.put(new("a", "b", "return 0"), absent).await.unwrap(), Put::Changed);
    }
    let Put::Created(first) = capabilities.put(new("a", "b", "return 1"), Expected::Nothing).await.unwrap() else {
        panic!()
    };
    assert_eq!(capabilities.put(new("a", "b", "return 2"), Expected::Nothing).await.unwrap(), Put::Changed);
    let Put::NewVersion(second) = capabilities.put(new("a", "b", "return 2"), tag(&first)).await.unwrap() else {
        panic!()
    };
    assert_eq!(capabilities.put(new("a", "b", "return 3"), tag(&first)).await.unwrap(), Put::Changed);
    assert_eq!(capabilities.rename(first.id, "a", "c", tag(&first)).await.unwrap(), Renamed::Changed);
    assert_eq!(capabilities.delete(first.id, tag(&first)).await.unwrap(), Deleted::Changed);
    let change = Change { description: Some("stale".to_owned()), ..Change::default() };
    assert_eq!(capabilities.change(first.id, change, tag(&first)).await.unwrap(), Altered::Changed);
    assert_eq!(capabilities.versions(first.id, 0, None).await.unwrap().items.len(), 2, "nothing was changed");
    let Renamed::Renamed(third) = capabilities.rename(first.id, "a", "c", tag(&second)).await.unwrap() else {
        panic!()
    };
    assert_eq!(capabilities.delete(first.id, tag(&third)).await.unwrap(), Deleted::Deleted);
}

pub(crate) async fn links_outlive_their_capabilities(store: Arc<dyn HubStore>) {
    let mine = &*store.capabilities(&viewer("acme.web", "ann"));
    let others = &*store.capabilities(&viewer("acme.app", "ann"));
    let made = put(mine, new("a", "b", "return 1")).await;
    let link = Link {
        capability: made.id,
        hub: "f00".to_owned(),
        remote: CapabilityId::mint(),
        remote_tag: "7-1".to_owned(),
        remote_version: 3,
        local_revision: made.revision,
        local_version: 1,
    };
    mine.link(link.clone()).await.unwrap();
    let newer = Link { remote_tag: "8-2".to_owned(), remote_version: 4, ..link };
    mine.link(newer.clone()).await.unwrap();
    mine.delete(made.id, Expected::Anything).await.unwrap();
    assert_eq!(mine.links("f00").await.unwrap(), std::slice::from_ref(&newer));
    assert_eq!((mine.links("ba1").await.unwrap(), others.links("f00").await.unwrap()), (Vec::new(), Vec::new()));
    others.unlink(newer.capability).await.unwrap();
    assert_eq!(mine.links("f00").await.unwrap().len(), 1);
    mine.unlink(newer.capability).await.unwrap();
    assert_eq!(mine.links("f00").await.unwrap(), []);
}

pub(crate) async fn a_model_is_replaced_only_by_who_knows_it(store: Arc<dyn HubStore>) {
    let models = store.models(&scope("acme.web"));
    assert_eq!(models.get("ranker").await.unwrap(), None);
    let PutModel::Stored { etag } = models.put("ranker", vec![1, 2, 3], Some(None)).await.unwrap() else { panic!() };
    assert_eq!(models.etag("ranker").await.unwrap(), Some(etag.clone()));
    let changed = models.put("ranker", vec![4], Some(None)).await.unwrap();
    assert_eq!(changed, PutModel::Changed { etag: Some(etag.clone()) });
    let PutModel::Stored { etag: second } = models.put("ranker", vec![4; 300_000], Some(Some(etag))).await.unwrap()
    else {
        panic!()
    };
    let model = models.get("ranker").await.unwrap().unwrap();
    assert_eq!((model.etag, model.bytes), (second, vec![4; 300_000]));
    assert!(matches!(models.put("ranker", Vec::new(), None).await.unwrap(), PutModel::Stored { .. }), "unasked");
    assert_eq!(store.models(&scope("acme.app")).get("ranker").await.unwrap(), None);
}
