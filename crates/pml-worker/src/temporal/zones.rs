//! What `temporal_rs` asks about time zones, answered by the zones of [`intl`](crate::intl).

use std::{borrow::Cow, sync::LazyLock};

use timezone_provider::{
    TimeZoneProviderError,
    epoch_nanoseconds::EpochNanoseconds,
    provider::{
        CandidateEpochNanoseconds, EpochNanosecondsAndOffset, GapEntryOffsets, IsoDateTime, NormalizedId, ResolvedId,
        TimeZoneId, TimeZoneProvider, TransitionDirection, UtcOffsetSeconds,
    },
};

use crate::intl::{Zone, zone_names};

const SECOND: i128 = 1_000_000_000;
const DAY: i64 = 86_400;

/// The names of all zones, sorted. A zone's id is its place here.
static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(zone_names);

/// The zones of the IANA database.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zones;

type Answer<T> = Result<T, TimeZoneProviderError>;

fn id_of(name: &str) -> Option<TimeZoneId> {
    let at = NAMES.binary_search(&name).ok()?;
    Some(TimeZoneId { normalized: NormalizedId(at), resolved: ResolvedId(at) })
}

fn name_of(id: TimeZoneId) -> Answer<&'static str> {
    NAMES.get(id.normalized.0).copied().ok_or(TimeZoneProviderError::Range("there is no such time zone"))
}

fn zone_of(id: TimeZoneId) -> Answer<Zone> {
    let unknown = TimeZoneProviderError::Range("there is no such time zone");
    Zone::find(NAMES.get(id.resolved.0).ok_or(unknown)?).map_err(|_| unknown)
}

impl TimeZoneProvider for Zones {
    fn get(&self, ident: &[u8]) -> Answer<TimeZoneId> {
        let unknown = TimeZoneProviderError::Range("there is no such time zone");
        let name = str::from_utf8(ident).map_err(|_| unknown)?;
        Zone::database_name(name).and_then(id_of).ok_or(unknown)
    }

    fn identifier(&self, id: TimeZoneId) -> Answer<Cow<'_, str>> {
        name_of(id).map(Cow::Borrowed)
    }

    fn canonicalized(&self, id: TimeZoneId) -> Answer<TimeZoneId> {
        let zone = zone_of(id)?;
        let name = if zone.name() == "UTC" { "UTC" } else { zone.cldr_name().unwrap_or(zone.name()) };
        Ok(id_of(name).unwrap_or(id))
    }

    fn candidate_nanoseconds_for_local_epoch_nanoseconds(
        &self,
        id: TimeZoneId,
        local_datetime: IsoDateTime,
    ) -> Answer<CandidateEpochNanoseconds> {
        let zone = zone_of(id)?;
        let nanoseconds = local_datetime.as_nanoseconds().as_i128();
        let local = nanoseconds.div_euclid(SECOND) as i64;
        let offset_at = |at: i64| i64::from(zone.offset(at).seconds);
        // No offset is a day or more, so what holds at the local time, taken as UTC, begins and ends within a day of it.
        let mut offsets = vec![offset_at(local - DAY)];
        let (mut at, mut transition) = (local - DAY, None);
        while let Some(next) = zone.transition_after(at).filter(|next| *next <= local + DAY) {
            let (before, after) = (offset_at(next - 1), offset_at(next));
            if next + before <= local && local < next + after {
                transition = Some((next, before, after));
            }
            offsets.push(after);
            at = next;
        }
        let mut found: Vec<i64> =
            offsets.iter().copied().filter(|offset| offset_at(local - offset) == *offset).collect();
        // The larger the offset, the earlier the moment.
        found.sort_unstable_by(|one, other| other.cmp(one));
        found.dedup();
        let moment = |offset: i64| EpochNanosecondsAndOffset {
            ns: EpochNanoseconds(nanoseconds - i128::from(offset) * SECOND),
            offset: UtcOffsetSeconds(offset),
        };
        Ok(match (&found[..], transition) {
            ([one], _) => CandidateEpochNanoseconds::One(moment(*one)),
            ([first, .., last], _) => CandidateEpochNanoseconds::Two([moment(*first), moment(*last)]),
            ([], Some((at, before, after))) => CandidateEpochNanoseconds::Zero(GapEntryOffsets {
                offset_before: UtcOffsetSeconds(before),
                offset_after: UtcOffsetSeconds(after),
                transition_epoch: EpochNanoseconds::from_seconds(at),
            }),
            ([], None) => CandidateEpochNanoseconds::One(moment(offset_at(local))),
        })
    }

    fn transition_nanoseconds_for_utc_epoch_nanoseconds(
        &self,
        id: TimeZoneId,
        epoch_nanoseconds: i128,
    ) -> Answer<UtcOffsetSeconds> {
        let at = epoch_nanoseconds.div_euclid(SECOND) as i64;
        Ok(UtcOffsetSeconds(zone_of(id)?.offset(at).seconds.into()))
    }

    fn get_time_zone_transition(
        &self,
        id: TimeZoneId,
        epoch_nanoseconds: i128,
        direction: TransitionDirection,
    ) -> Answer<Option<EpochNanoseconds>> {
        let zone = zone_of(id)?;
        let found = match direction {
            TransitionDirection::Next => zone.transition_after(epoch_nanoseconds.div_euclid(SECOND) as i64),
            // A moment within a second is after that second.
            TransitionDirection::Previous => {
                zone.transition_before((epoch_nanoseconds + SECOND - 1).div_euclid(SECOND) as i64)
            }
        };
        Ok(found.map(EpochNanoseconds::from_seconds))
    }
}
