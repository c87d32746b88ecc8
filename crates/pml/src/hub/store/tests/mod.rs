//! Tests of what a hub stores.

pub(crate) mod contract;
mod sqlite;
