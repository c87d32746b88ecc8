//! The contract on PostgreSQL, and texts that it has no place for.

use std::sync::Arc;

use pml_testkit::postgres::Postgres;

use super::{
    super::{Expected, HubStore, Listing, NewCapability, PostgresHub, Put, Viewer},
    contract::hub_contract_tests,
};
use crate::trace::store::{Options, postgres::Address};

async fn with_postgres(test: impl AsyncFnOnce(Arc<dyn HubStore>)) {
    let database = Postgres::shared().database();
    test(Arc::new(PostgresHub::open(Address::parse(&database.url()).unwrap(), Options::default()))).await;
}

hub_contract_tests! { with_postgres }

#[tokio::test]
async fn a_program_may_have_any_text_and_is_found_by_words_of_any_language() {
    with_postgres(async |hub: Arc<dyn HubStore>| {
        let viewer = Viewer { scope: "acme.web".parse().unwrap(), name: "ann".to_owned(), is_admin: false };
        let capabilities = hub.capabilities(&viewer);
        let new = NewCapability {
            namespace: "fs".to_owned(),
            action: "read".to_owned(),
            code: "return '\0'".to_owned(),
            parameters: None,
            description: "Liest eine ÜBERSICHT\0".to_owned(),
            visibility: None,
            author: None,
        };
        let Put::Created(made) = capabilities.put(new, Expected::Anything).await.unwrap() else { panic!() };
        assert_eq!(made.version.code, "return '\0'");
        hub.ready().await.unwrap();
        for (text, found) in [("übersicht READ", 1), ("\0", 1), ("%", 0), ("_", 0), ("\\", 0), ("x\0y \u{10ffff}", 0)]
        {
            let listing = Listing { text: text.to_owned(), limit: 9, ..Listing::default() };
            assert_eq!(capabilities.list(listing).await.unwrap().items.len(), found, "{text:?}");
        }
    })
    .await;
}
