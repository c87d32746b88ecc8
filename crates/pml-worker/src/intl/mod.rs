//! Texts for people: numbers, dates, lists, names and the order of words, by locale.
//!
//! What `Intl` of ECMA-402 does, below its JavaScript classes (`engine/intl.js`). Tags, plurals, collation, segmentation and
//! upper and lower case are ICU4X's; patterns and names come from CLDR by way of [`table`], time zones from the IANA database.
//! Everything is compiled in and made when it is first asked for, since a worker has no files and starts many times for each
//! program that formats anything.
//!
//! **Invariant:** pure functions of their arguments. Whatever they are given, they answer or fail; they do not panic.

mod cache;
mod call;
mod case;
mod collate;
mod date;
mod failure;
mod list;
mod locale;
mod locale_info;
mod names;
mod number;
mod part;
mod plural;
mod relative;
mod segment;
mod table;
mod width;
mod zone;

use self::failure::shortened;
pub use self::table::NOTICE;
pub(crate) use self::{
    call::{Answer, Argument, call},
    failure::{Failure, FailureKind},
    part::Part,
    zone::{Zone, file as zone_file, names as zone_names},
};
