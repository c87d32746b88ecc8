//! When to connect, when to wait, when to give up: a pure function.
//!
//! The actor turns what happens into [`Input`]s and does the [`Effect`]s; calls ask [`course`] what to do. Nothing here
//! knows the time; a delay is data.
//!
//! A server that is lost is connected again at once, and calls wait for that. Each further failure in a row makes the next
//! attempt wait longer. A server that has failed more than [`PATIENCE`] times in a row is known to be down, and calls to
//! it fail at once. A call that is answered ends the row.

use std::time::Duration;

use super::settings::Backoff;

/// Where a server stands. `failures` counts the failures in a row: connections that were not made, and connections that
/// were lost before a call was answered over them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No call has needed the server yet.
    Idle,
    Connecting {
        failures: u32,
    },
    /// Connected. The failures are remembered until the connection has proved itself: a server that dies right after each
    /// start must not be started for ever.
    Healthy {
        failures: u32,
    },
    /// Not connected; the next attempt waits for its time.
    Degraded {
        failures: u32,
    },
    /// Given up. After a while a call may try again.
    Unavailable {
        may_retry: bool,
    },
    /// Ended for good.
    Terminated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// A call needs the server.
    Wanted,
    Connected,
    /// The attempt failed; another may succeed.
    Failed,
    /// The attempt failed, and so will the next.
    Refused,
    /// The connection is gone. `has_worked`: a call was answered over it.
    Lost {
        has_worked: bool,
    },
    /// The wait that was asked for is over.
    TimeUp,
    Terminate,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Effect {
    Connect,
    /// Ask for [`Input::TimeUp`] after this time; replaces an earlier wait.
    Wait(Duration),
    Close,
    Publish(Topic),
}

/// What others are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    Disconnected,
    Reconnected,
    Exhausted,
}

/// What a call does that finds a server in some state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// Use the connection.
    Go,
    /// Have the server started, and wait.
    Start,
    /// Wait for the start, which has a bound of its own.
    WaitForStart,
    /// Wait for the reconnection, as long as the call may take.
    WaitForReconnection,
    /// Fail at once: the server is known to be down.
    Fail,
    /// Fail at once: the server was stopped.
    Stop,
}

/// A connection that lasts this long has proved itself, also if nothing was called.
const PROVEN: Duration = Duration::from_secs(60);
/// Failures in a row after which a server that once worked is known to be down.
const PATIENCE: u32 = 3;

/// What a call does that finds the server in `state`. A server that was never connected is not waited for after its first
/// failure: its mistake is most likely one of the configuration, which the user wants to see.
pub(super) fn course(state: State, was_connected: bool) -> Course {
    match state {
        State::Healthy { .. } => Course::Go,
        State::Idle | State::Unavailable { may_retry: true } => Course::Start,
        State::Connecting { failures: 0 } => Course::WaitForStart,
        State::Connecting { failures } | State::Degraded { failures } if was_connected && failures <= PATIENCE => {
            Course::WaitForReconnection
        }
        State::Connecting { .. } | State::Degraded { .. } | State::Unavailable { may_retry: false } => Course::Fail,
        State::Terminated => Course::Stop,
    }
}

/// The next state, and what to do on the way. `jitter` is between 0 and 1.
pub(super) fn next(state: State, input: Input, backoff: &Backoff, jitter: f64) -> (State, Vec<Effect>) {
    use Effect::{Close, Connect, Publish, Wait};
    use State::{Connecting, Degraded, Healthy, Idle, Terminated, Unavailable};

    let give_up = |effects: Vec<Effect>| {
        let mut effects = effects;
        effects.push(Wait(backoff.max));
        (Unavailable { may_retry: false }, effects)
    };
    let again = |failures: u32, mut effects: Vec<Effect>| {
        if failures > backoff.tries {
            effects.push(Publish(Topic::Exhausted));
            return give_up(effects);
        }
        effects.push(Wait(delay(failures, backoff, jitter)));
        (Degraded { failures }, effects)
    };

    match (state, input) {
        (Terminated, Input::Connected) => (Terminated, vec![Close]),
        (Terminated, _) => (Terminated, vec![]),
        (_, Input::Terminate) => (Terminated, vec![Close]),

        (Idle | Unavailable { may_retry: true }, Input::Wanted) => (Connecting { failures: 0 }, vec![Connect]),
        (Unavailable { .. }, Input::TimeUp) => (Unavailable { may_retry: true }, vec![]),

        (Connecting { failures: 0 }, Input::Connected) => (Healthy { failures: 0 }, vec![]),
        (Connecting { failures }, Input::Connected) => {
            (Healthy { failures }, vec![Wait(PROVEN), Publish(Topic::Reconnected)])
        }
        (Connecting { failures }, Input::Failed) => again(failures + 1, vec![]),
        (Connecting { .. }, Input::Refused) => give_up(vec![Publish(Topic::Exhausted)]),

        (Healthy { .. }, Input::TimeUp) => (Healthy { failures: 0 }, vec![]),
        (Healthy { failures }, Input::Lost { has_worked }) => {
            let before = if has_worked { 0 } else { failures };
            let lost = vec![Close, Publish(Topic::Disconnected)];
            match before {
                // A server that stumbles once is back in a moment.
                0 if backoff.tries > 0 => (Connecting { failures: 1 }, [lost, vec![Connect]].concat()),
                _ => again(before + 1, lost),
            }
        }

        (Degraded { failures }, Input::TimeUp) => (Connecting { failures }, vec![Connect]),

        // Nothing new: wanted while on the way or down, or news from a connection that is gone.
        (
            state,
            Input::Wanted | Input::Connected | Input::Failed | Input::Refused | Input::Lost { .. } | Input::TimeUp,
        ) => (state, vec![]),
    }
}

/// The wait before the attempt after so many failures in a row. Doubles up to a maximum, from the second wait on: after a
/// loss the first attempt waits for nothing. Up to a quarter less, so that servers that fell together do not come back
/// together.
fn delay(failures: u32, backoff: &Backoff, jitter: f64) -> Duration {
    let factor = 2_u32.saturating_pow(failures.saturating_sub(2));
    let full = backoff.initial.saturating_mul(factor).min(backoff.max);
    full.mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(30), tries: 3 };

    #[test]
    fn each_state_answers_each_input() {
        use Effect::{Close, Connect, Publish, Wait};
        use Input::{Connected, Failed, Refused, Terminate, TimeUp, Wanted};
        use State::{Connecting, Degraded, Healthy, Idle, Terminated, Unavailable};
        let seconds = Duration::from_secs;
        let (lost, worked) = (Input::Lost { has_worked: false }, Input::Lost { has_worked: true });
        #[rustfmt::skip]
        let table = [
            (Idle, Wanted, Connecting { failures: 0 }, vec![Connect]),
            (Idle, lost, Idle, vec![]),
            (Idle, Terminate, Terminated, vec![Close]),
            (Connecting { failures: 0 }, Wanted, Connecting { failures: 0 }, vec![]),
            (Connecting { failures: 0 }, Connected, Healthy { failures: 0 }, vec![]),
            (Connecting { failures: 2 }, Connected, Healthy { failures: 2 }, vec![Wait(PROVEN), Publish(Topic::Reconnected)]),
            (Connecting { failures: 0 }, Failed, Degraded { failures: 1 }, vec![Wait(seconds(1))]),
            (Connecting { failures: 1 }, Failed, Degraded { failures: 2 }, vec![Wait(seconds(1))]),
            (Connecting { failures: 2 }, Failed, Degraded { failures: 3 }, vec![Wait(seconds(2))]),
            (Connecting { failures: 3 }, Failed, Unavailable { may_retry: false }, vec![Publish(Topic::Exhausted), Wait(seconds(30))]),
            (Connecting { failures: 0 }, Refused, Unavailable { may_retry: false }, vec![Publish(Topic::Exhausted), Wait(seconds(30))]),
            (Connecting { failures: 1 }, Terminate, Terminated, vec![Close]),
            (Healthy { failures: 0 }, Wanted, Healthy { failures: 0 }, vec![]),
            (Healthy { failures: 0 }, lost, Connecting { failures: 1 }, vec![Close, Publish(Topic::Disconnected), Connect]),
            (Healthy { failures: 2 }, worked, Connecting { failures: 1 }, vec![Close, Publish(Topic::Disconnected), Connect]),
            (Healthy { failures: 1 }, lost, Degraded { failures: 2 }, vec![Close, Publish(Topic::Disconnected), Wait(seconds(1))]),
            (Healthy { failures: 2 }, lost, Degraded { failures: 3 }, vec![Close, Publish(Topic::Disconnected), Wait(seconds(2))]),
            (Healthy { failures: 3 }, lost, Unavailable { may_retry: false }, vec![Close, Publish(Topic::Disconnected), Publish(Topic::Exhausted), Wait(seconds(30))]),
            (Healthy { failures: 2 }, TimeUp, Healthy { failures: 0 }, vec![]),
            (Degraded { failures: 2 }, Wanted, Degraded { failures: 2 }, vec![]),
            (Degraded { failures: 2 }, TimeUp, Connecting { failures: 2 }, vec![Connect]),
            (Unavailable { may_retry: false }, Wanted, Unavailable { may_retry: false }, vec![]),
            (Unavailable { may_retry: false }, TimeUp, Unavailable { may_retry: true }, vec![]),
            (Unavailable { may_retry: true }, Wanted, Connecting { failures: 0 }, vec![Connect]),
            (Terminated, Wanted, Terminated, vec![]),
            (Terminated, Connected, Terminated, vec![Close]),
            (Terminated, TimeUp, Terminated, vec![]),
        ];
        for (state, input, expected, effects) in table {
            assert_eq!(next(state, input, &BACKOFF, 0.0), (expected, effects), "{state:?} {input:?}");
        }
    }

    #[test]
    fn calls_wait_for_a_server_that_stumbles_and_not_for_one_that_is_down() {
        use State::{Connecting, Degraded, Healthy, Idle, Terminated, Unavailable};
        #[rustfmt::skip]
        let table = [
            // state                             connected before       never connected
            (Idle,                               Course::Start,               Course::Start),
            (Connecting { failures: 0 },         Course::WaitForStart,        Course::WaitForStart),
            (Healthy { failures: 9 },            Course::Go,                  Course::Go),
            (Connecting { failures: 1 },         Course::WaitForReconnection, Course::Fail),
            (Degraded { failures: 3 },           Course::WaitForReconnection, Course::Fail),
            (Degraded { failures: 4 },           Course::Fail,                Course::Fail),
            (Connecting { failures: 4 },         Course::Fail,                Course::Fail),
            (Unavailable { may_retry: false },   Course::Fail,                Course::Fail),
            (Unavailable { may_retry: true },    Course::Start,               Course::Start),
            (Terminated,                         Course::Stop,                Course::Stop),
        ];
        for (state, before, never) in table {
            assert_eq!((course(state, true), course(state, false)), (before, never), "{state:?}");
        }
    }

    #[test]
    fn delays_double_to_a_maximum_and_vary_by_a_quarter() {
        let backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(30), tries: 10 };
        let delays: Vec<_> = (1..=8).map(|failures| delay(failures, &backoff, 0.0).as_secs()).collect();
        assert_eq!(delays, [1, 1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(delay(1, &backoff, 1.0), Duration::from_millis(750));
        assert_eq!(delay(u32::MAX, &backoff, 0.0), Duration::from_secs(30));
    }

    /// A server that dies after each start is given up, though each start succeeds.
    #[test]
    fn a_crash_loop_ends() {
        let mut state = State::Healthy { failures: 0 };
        let mut connects = 0;
        while state != (State::Unavailable { may_retry: false }) {
            let input = match state {
                State::Healthy { .. } => Input::Lost { has_worked: false },
                State::Degraded { .. } => Input::TimeUp,
                _ => Input::Connected,
            };
            let (after, effects) = next(state, input, &BACKOFF, 0.5);
            connects += effects.iter().filter(|effect| **effect == Effect::Connect).count();
            state = after;
        }
        assert_eq!(connects, 3);
    }

    /// A server that dies now and then, but answers calls in between, is connected again at once each time.
    #[test]
    fn a_server_that_answers_between_two_crashes_is_never_waited_for() {
        let mut state = State::Healthy { failures: 0 };
        for _ in 0..100 {
            let (lost, effects) = next(state, Input::Lost { has_worked: true }, &BACKOFF, 0.5);
            assert!(effects.contains(&Effect::Connect), "{lost:?}");
            state = next(lost, Input::Connected, &BACKOFF, 0.5).0;
            assert_eq!(state, State::Healthy { failures: 1 });
        }
    }
}
