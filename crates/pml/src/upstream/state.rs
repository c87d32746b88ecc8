//! When to connect, when to wait, when to give up: a pure function.
//!
//! The actor turns what happens into [`Input`]s and does the [`Effect`]s. Nothing here knows the
//! time; a delay is data.

use std::time::Duration;

use super::settings::Backoff;

/// Where a server stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nobody has needed it yet.
    Idle,
    /// Being connected; the `attempt`th time in a row after a failure, 0 at first.
    Connecting { attempt: u32 },
    /// Connected. `attempt` is remembered until the connection has lasted: a server that dies
    /// right after each start must not be started for ever.
    Healthy { attempt: u32 },
    /// Lost; the next attempt waits for its time.
    Degraded { attempt: u32 },
    /// Given up. After a while a call may try again.
    Unavailable { may_retry: bool },
    /// Ended for good.
    Terminated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// A call needs it.
    Wanted,
    Connected,
    /// The attempt failed; another may succeed.
    Failed,
    /// The attempt failed, and so will the next.
    Refused,
    /// The connection is gone.
    Lost,
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

/// A connection that lasts this long has proved itself.
const PROVEN: Duration = Duration::from_secs(60);

/// The next state, and what to do on the way. `jitter` is between 0 and 1.
pub(super) fn next(state: State, input: Input, backoff: &Backoff, jitter: f64) -> (State, Vec<Effect>) {
    use Effect::{Close, Connect, Publish, Wait};
    use State::{Connecting, Degraded, Healthy, Idle, Terminated, Unavailable};

    let give_up = |effects: Vec<Effect>| {
        let mut effects = effects;
        effects.push(Wait(backoff.max));
        (Unavailable { may_retry: false }, effects)
    };
    let again = |attempt: u32, mut effects: Vec<Effect>| {
        if attempt > backoff.tries {
            effects.push(Publish(Topic::Exhausted));
            return give_up(effects);
        }
        effects.push(Wait(delay(attempt, backoff, jitter)));
        (Degraded { attempt }, effects)
    };

    match (state, input) {
        (Terminated, Input::Connected) => (Terminated, vec![Close]),
        (Terminated, _) => (Terminated, vec![]),
        (_, Input::Terminate) => (Terminated, vec![Close]),

        (Idle | Unavailable { may_retry: true }, Input::Wanted) => (Connecting { attempt: 0 }, vec![Connect]),
        (Unavailable { .. }, Input::TimeUp) => (Unavailable { may_retry: true }, vec![]),

        (Connecting { attempt: 0 }, Input::Connected) => (Healthy { attempt: 0 }, vec![]),
        (Connecting { attempt }, Input::Connected) => {
            (Healthy { attempt }, vec![Wait(PROVEN), Publish(Topic::Reconnected)])
        }
        (Connecting { attempt }, Input::Failed) => again(attempt + 1, vec![]),
        (Connecting { .. }, Input::Refused) => give_up(vec![Publish(Topic::Exhausted)]),

        (Healthy { .. }, Input::TimeUp) => (Healthy { attempt: 0 }, vec![]),
        (Healthy { attempt }, Input::Lost) => again(attempt + 1, vec![Close, Publish(Topic::Disconnected)]),

        (Degraded { attempt }, Input::TimeUp) => (Connecting { attempt }, vec![Connect]),

        // Nothing new: wanted while on the way or down, or news from a connection that is gone.
        (state, Input::Wanted | Input::Connected | Input::Failed | Input::Refused | Input::Lost | Input::TimeUp) => {
            (state, vec![])
        }
    }
}

/// Doubles with each attempt up to a maximum; up to a quarter less, so that servers that fell
/// together do not come back together.
fn delay(attempt: u32, backoff: &Backoff, jitter: f64) -> Duration {
    let factor = 2_u32.saturating_pow(attempt.saturating_sub(1));
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
        use Input::{Connected, Failed, Lost, Refused, Terminate, TimeUp, Wanted};
        use State::{Connecting, Degraded, Healthy, Idle, Terminated, Unavailable};
        let seconds = Duration::from_secs;
        #[rustfmt::skip]
        let table = [
            (Idle, Wanted, Connecting { attempt: 0 }, vec![Connect]),
            (Idle, Lost, Idle, vec![]),
            (Idle, Terminate, Terminated, vec![Close]),
            (Connecting { attempt: 0 }, Wanted, Connecting { attempt: 0 }, vec![]),
            (Connecting { attempt: 0 }, Connected, Healthy { attempt: 0 }, vec![]),
            (Connecting { attempt: 2 }, Connected, Healthy { attempt: 2 }, vec![Wait(PROVEN), Publish(Topic::Reconnected)]),
            (Connecting { attempt: 0 }, Failed, Degraded { attempt: 1 }, vec![Wait(seconds(1))]),
            (Connecting { attempt: 1 }, Failed, Degraded { attempt: 2 }, vec![Wait(seconds(2))]),
            (Connecting { attempt: 3 }, Failed, Unavailable { may_retry: false }, vec![Publish(Topic::Exhausted), Wait(seconds(30))]),
            (Connecting { attempt: 0 }, Refused, Unavailable { may_retry: false }, vec![Publish(Topic::Exhausted), Wait(seconds(30))]),
            (Connecting { attempt: 1 }, Terminate, Terminated, vec![Close]),
            (Healthy { attempt: 0 }, Wanted, Healthy { attempt: 0 }, vec![]),
            (Healthy { attempt: 0 }, Lost, Degraded { attempt: 1 }, vec![Close, Publish(Topic::Disconnected), Wait(seconds(1))]),
            (Healthy { attempt: 2 }, Lost, Degraded { attempt: 3 }, vec![Close, Publish(Topic::Disconnected), Wait(seconds(4))]),
            (Healthy { attempt: 3 }, Lost, Unavailable { may_retry: false }, vec![Close, Publish(Topic::Disconnected), Publish(Topic::Exhausted), Wait(seconds(30))]),
            (Healthy { attempt: 2 }, TimeUp, Healthy { attempt: 0 }, vec![]),
            (Degraded { attempt: 2 }, Wanted, Degraded { attempt: 2 }, vec![]),
            (Degraded { attempt: 2 }, TimeUp, Connecting { attempt: 2 }, vec![Connect]),
            (Unavailable { may_retry: false }, Wanted, Unavailable { may_retry: false }, vec![]),
            (Unavailable { may_retry: false }, TimeUp, Unavailable { may_retry: true }, vec![]),
            (Unavailable { may_retry: true }, Wanted, Connecting { attempt: 0 }, vec![Connect]),
            (Terminated, Wanted, Terminated, vec![]),
            (Terminated, Connected, Terminated, vec![Close]),
            (Terminated, TimeUp, Terminated, vec![]),
        ];
        for (state, input, expected, effects) in table {
            assert_eq!(next(state, input, &BACKOFF, 0.0), (expected, effects), "{state:?} {input:?}");
        }
    }

    #[test]
    fn delays_double_to_a_maximum_and_vary_by_a_quarter() {
        let backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(30), tries: 10 };
        let delays: Vec<_> = (1..=7).map(|attempt| delay(attempt, &backoff, 0.0).as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(delay(1, &backoff, 1.0), Duration::from_millis(750));
        assert_eq!(delay(u32::MAX, &backoff, 0.0), Duration::from_secs(30));
    }

    /// A server that dies after each start is given up, though each start succeeds.
    #[test]
    fn a_crash_loop_ends() {
        let mut state = State::Healthy { attempt: 0 };
        let mut connects = 0;
        while state != (State::Unavailable { may_retry: false }) {
            let input = match state {
                State::Healthy { .. } => Input::Lost,
                State::Degraded { .. } => Input::TimeUp,
                _ => Input::Connected,
            };
            let (after, effects) = next(state, input, &BACKOFF, 0.5);
            connects += effects.iter().filter(|effect| **effect == Effect::Connect).count();
            state = after;
        }
        assert_eq!(connects, 3);
    }
}
