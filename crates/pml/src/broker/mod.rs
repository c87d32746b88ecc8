//! The only way to call a tool.
//!
//! Every call that a program makes passes through [`Broker::call`], in this order: known tool,
//! policy, rate, arguments, server, result. A failed check ends the call before it is sent to
//! the server. Whatever the outcome, also if the call is cancelled, there is one last line in the audit
//! log and one event.
//!
//! The calls that clients make themselves pass through [`Broker::forward`], with the same checks except for
//! the arguments and the result, which are the server's business. Requests for resources and
//! prompts pass through [`Broker::forward_about`] and [`Broker::watch`] in the same way.
//!
//! **Invariant:** nothing else in pml calls a tool, reads or watches a resource, or gets a prompt.

mod activity;
mod afterwards;
mod allowance;
mod door;
mod foresight;
mod handler;
mod idle_rules;
mod learned;
mod normalise;
mod notices;
mod offers;
mod paces;
mod passthrough;
mod planned;
mod policy;
mod preflight;
mod profile;
mod provider;
mod questions;
mod recent;
mod record;
mod reusing;
mod search;
mod sharing;
mod subject;

pub use crate::catalog::CAPABILITIES;

pub use self::{
    afterwards::Afterwards,
    allowance::{Admission, Allowance, Budget, NestedPlace, Seat},
    door::{Broker, Parts},
    foresight::{Early, EarlyAnswer, Foresight},
    handler::{
        Answer, AnswerBody, Arguments, CallHandler, HandlerFuture, KeptBlock, KeptValues, NestedValue, Part, StandIns,
        ToolCall,
    },
    idle_rules::IdleRule,
    notices::Notices,
    offers::{Items, Listed, NoHolder, Resource},
    passthrough::Passthrough,
    planned::{PlannedCall, Refusal},
    policy::{OnChange, Only, Policy, matches},
    profile::Profile,
    provider::{OWN, Provider, ProviderCall, RESERVED},
    record::SEARCH,
    reusing::Offer,
    search::{Findings, Question, did_you_mean, rounded, whole},
    subject::{Subject, SubjectKind, SubjectRequest},
};
