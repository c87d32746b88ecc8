//! Tests of the store on real files, with real other processes where processes matter.

mod contents;
mod processes;
mod support;
mod trouble;
