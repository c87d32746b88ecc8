//! What a hub serves over HTTP.
//!
//! [`routes`](mod@routes) has the one table of routes, from which the router and the OpenAPI document are made, so neither has a route that
//! the other lacks. A request passes [`access`] before its handler sees it.

mod access;
mod call;
mod capabilities;
mod document;
mod encoding;
mod health;
mod ingest;
mod model;
mod problem;
mod routes;
mod traces;

pub(super) use self::{
    access::Rates,
    problem::refused,
    routes::{routes, routes_of_hub},
};
