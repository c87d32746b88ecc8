//! Says which rules of the policy match nothing, once it is known what there is.

use std::{collections::BTreeSet, convert::Infallible, ptr, time::Duration};

use tokio::{sync::Notify, time::sleep};

use super::services::Services;

/// Between two looks, however often lists change.
const PAUSE: Duration = Duration::from_secs(1);
/// How long nothing may change before it is looked again all the same.
const LOOK: Duration = Duration::from_secs(3600);

impl Services {
    /// Warns of each rule that matches nothing, once, for as long as it is polled. Rules are looked at when lists of
    /// tools change, and when `reloaded` says that there may be others.
    pub async fn say_idle_rules(&self, reloaded: &Notify) -> Infallible {
        let mut said = BTreeSet::new();
        loop {
            let seen = self.catalog.snapshot();
            for rule in self.broker.idle_rules() {
                let text = rule.to_string();
                if !said.contains(&text) {
                    tracing::warn!("{text}");
                    said.insert(text);
                }
            }
            sleep(PAUSE).await;
            tokio::select! {
                _ = self.catalog.wait_for(LOOK, |snapshot| !ptr::eq(snapshot, &*seen)) => {}
                () = reloaded.notified() => {}
            }
        }
    }
}
