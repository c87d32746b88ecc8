//! Values that are looked at where a program compares, searches or converts them.
//!
//! A value that is not what the program takes it for gives a wrong result without a word: an object is never equal to a text,
//! `"OPEN"` is not `"open"`. `x.state === "open"` becomes
//! `($watch0 ? ($kept = x.state, $watch0 = $probe(0, $kept), $kept) : x.state) === "open"`. The probe says whether it wants
//! to see more, which is soon no: from then on the place costs the reading of one variable. The value is the same in every
//! case: a warning is all that comes of it, when the run is over.

mod amounts;
mod conditions;
mod drops;
mod fallbacks;
mod keys;
mod looker;
mod means;
mod members;
mod names;
mod orders;
mod places;
mod texts;
mod uses;
mod watched;
mod watcher;

pub(crate) use self::watched::{Keys, Literal, Number, Side, Treatment, Usage, Watched, Way, last_name};
pub(super) use self::{
    amounts::watch as watch_amounts,
    conditions::watch as watch_conditions,
    drops::watch as watch_drops,
    keys::watch as watch_keys,
    means::watch as watch_means,
    members::watch as watch_members,
    names::Names,
    orders::watch as watch_orders,
    places::{is_kept, is_look, is_watch, unprobed, unwatched},
    texts::watch as watch_texts,
    uses::watch as watch_uses,
    watcher::{KEPT, WATCH, watch},
};
