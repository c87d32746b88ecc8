//! What to do about a capability that both sides have had, as a pure function.

/// What became of a capability here since both sides were alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Here {
    Same,
    /// It has so many new versions; none if only its name, its description or what is known of it changed.
    Changed(u32),
    /// It is private now.
    Private,
    Removed,
}

/// What became of it at the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum There {
    Same,
    Changed(u32),
    Removed,
    /// The hub does not show it to this key any more, and does not say that it was deleted.
    Hidden,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Nothing,
    /// The hub gets what is here. With `is_conflict`, both sides have changed and this side has more new versions.
    Send {
        is_conflict: bool,
    },
    /// What the hub has replaces what is here, which stays as an earlier version.
    Take {
        is_conflict: bool,
    },
    /// It is deleted here, if it came from the hub; what was written here becomes private.
    RemoveHere,
    /// It was changed here and deleted there: it stays here and becomes private.
    Keep,
    /// It is deleted at the hub.
    RemoveThere,
    /// It was removed here and changed there: it stays removed here, and stays there.
    Leave,
    /// Nothing connects both any more.
    Unlink,
}

/// Conflicts go by version: the side with more new versions wins, and the hub if there are as many.
pub(super) fn decide(here: Here, there: There) -> Step {
    match (here, there) {
        (_, There::Hidden) | (Here::Same, There::Same) => Step::Nothing,
        (Here::Changed(_), There::Same) => Step::Send { is_conflict: false },
        (Here::Same, There::Changed(_)) => Step::Take { is_conflict: false },
        (Here::Changed(ours), There::Changed(theirs)) if ours > theirs => Step::Send { is_conflict: true },
        (Here::Changed(_), There::Changed(_)) => Step::Take { is_conflict: true },
        (Here::Same, There::Removed) => Step::RemoveHere,
        (Here::Changed(_), There::Removed) => Step::Keep,
        (Here::Private | Here::Removed, There::Removed) => Step::Unlink,
        (Here::Private | Here::Removed, There::Same) => Step::RemoveThere,
        (Here::Private, There::Changed(_)) => Step::Unlink,
        (Here::Removed, There::Changed(_)) => Step::Leave,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicts_go_by_version_and_nothing_unseen_is_deleted() {
        let (send, take) = (|is_conflict| Step::Send { is_conflict }, |is_conflict| Step::Take { is_conflict });
        #[rustfmt::skip]
        let table = [
            // here             there               step
            (Here::Same,        There::Same,        Step::Nothing),
            (Here::Changed(0),  There::Same,        send(false)),
            (Here::Same,        There::Changed(1),  take(false)),
            (Here::Changed(1),  There::Changed(1),  take(true)),
            (Here::Changed(0),  There::Changed(0),  take(true)),
            (Here::Changed(2),  There::Changed(1),  send(true)),
            (Here::Changed(1),  There::Changed(2),  take(true)),
            (Here::Same,        There::Removed,     Step::RemoveHere),
            (Here::Changed(1),  There::Removed,     Step::Keep),
            (Here::Private,     There::Same,        Step::RemoveThere),
            (Here::Private,     There::Changed(1),  Step::Unlink),
            (Here::Private,     There::Removed,     Step::Unlink),
            (Here::Removed,     There::Same,        Step::RemoveThere),
            (Here::Removed,     There::Changed(0),  Step::Leave),
            (Here::Removed,     There::Removed,     Step::Unlink),
            (Here::Same,        There::Hidden,      Step::Nothing),
            (Here::Changed(3),  There::Hidden,      Step::Nothing),
            (Here::Removed,     There::Hidden,      Step::Nothing),
        ];
        for (here, there, step) in table {
            assert_eq!(decide(here, there), step, "{here:?} {there:?}");
        }
    }
}
