//! The time zone that a program's `Date` is in.
//!
//! The host names it in `TZ`: `UTC0`, or a name of the IANA database. The engine asks the C library, which would look for a file
//! of that name on this machine; it gets the one that is compiled in, so that `Date` and `Intl` agree.

#![expect(unsafe_code, reason = "the C library's environment and time zone")]

use std::{ffi::CString, sync::OnceLock};

use crate::intl;

/// The variable that names the zone.
const VARIABLE: &str = "TZ";

/// A zone that the host can name to its workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeZone(String);

impl TimeZone {
    /// The zone of this name in the IANA database, in whatever case. Offsets have no rules for `Date`, so they are none.
    pub fn parse(name: &str) -> Option<TimeZone> {
        let zone = intl::Zone::find(name).ok()?;
        zone.cldr_name().is_some().then(|| TimeZone(zone.name().to_owned()))
    }

    /// The variable of the worker's environment that names it, and its value.
    pub fn variable(&self) -> (&'static str, &str) {
        (VARIABLE, if self.0 == "UTC" { "UTC0" } else { &self.0 })
    }
}

impl Default for TimeZone {
    fn default() -> TimeZone {
        TimeZone("UTC".to_owned())
    }
}

static NAME: OnceLock<String> = OnceLock::new();

unsafe extern "C" {
    fn tzset();
}

/// The zone's name.
pub(crate) fn name() -> &'static str {
    NAME.get().map_or("UTC", String::as_str)
}

/// Has the C library read the zone, once and for all. Before there is a second thread, and while files can still be opened.
pub(crate) fn settle() {
    #[expect(clippy::disallowed_methods, reason = "the host sets this variable and no other")]
    let wanted = std::env::var(VARIABLE).unwrap_or_default();
    let zone = intl::Zone::find(&wanted).ok().filter(|zone| zone.name() != "UTC");
    let file = zone.as_ref().and_then(|zone| intl::zone_file(zone.name()));
    if let (Some(zone), Some(bytes)) = (zone, file)
        && read(bytes)
    {
        NAME.get_or_init(|| zone.name().to_owned());
        return;
    }
    set("UTC0");
}

/// Has the C library read a zone from a file in memory. Could it?
#[cfg(target_os = "linux")]
fn read(bytes: &[u8]) -> bool {
    let name = CString::new("time zone").expect("it has no NUL");
    // SAFETY: `name` is a C string. The descriptor is used only here, and closed.
    unsafe {
        let file = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
        if file < 0 {
            return false;
        }
        let written = libc::write(file, bytes.as_ptr().cast(), bytes.len());
        let is_whole = usize::try_from(written) == Ok(bytes.len());
        if is_whole {
            set(&format!(":/proc/self/fd/{file}"));
        }
        libc::close(file);
        is_whole
    }
}

/// Elsewhere the C library has to find the file itself, by the name in `TZ`.
#[cfg(not(target_os = "linux"))]
fn read(_bytes: &[u8]) -> bool {
    // SAFETY: takes nothing, and the process has one thread.
    unsafe { tzset() };
    true
}

fn set(value: &str) {
    // SAFETY: the process has one thread, so nobody else reads the environment.
    unsafe {
        std::env::set_var(VARIABLE, value);
        tzset();
    }
}
