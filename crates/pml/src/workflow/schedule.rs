//! Which tasks may start, and what becomes of those that may not: a state machine without clock or I/O.
//!
//! A task may start when all that it depends on has ended and nothing of it has failed. A task that fails takes those with it
//! that depend on it, directly or not, and no others. A task that was skipped holds up nobody.

use std::collections::VecDeque;

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Success,
    Failed,
    /// Its condition did not hold.
    Skipped,
    /// This other task, which it depends on, has failed.
    Unreachable(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// So many tasks that it depends on have not ended.
    Waiting(usize),
    Ready,
    Running,
    Ended(End),
}

/// What each task depends on, without cycles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// Of each task those that it depends on, each once.
    pub needs: Vec<Vec<usize>>,
    /// Of each task 1 + the highest layer of those that it depends on.
    pub layers: Vec<u32>,
}

/// The states of all tasks.
#[derive(Debug)]
pub(super) struct Schedule {
    dependants: Vec<Vec<usize>>,
    states: Vec<State>,
    ready: VecDeque<usize>,
    open: usize,
}

impl Schedule {
    pub(super) fn new(dependencies: &Dependencies) -> Schedule {
        let count = dependencies.needs.len();
        let mut dependants = vec![Vec::new(); count];
        for (task, needs) in dependencies.needs.iter().enumerate() {
            needs.iter().for_each(|need| dependants[*need].push(task));
        }
        let mut schedule = Schedule {
            dependants,
            states: dependencies.needs.iter().map(|needs| State::Waiting(needs.len())).collect(),
            ready: VecDeque::new(),
            open: count,
        };
        (0..count).for_each(|task| schedule.promote(task));
        schedule
    }

    /// The next task that may start. It is running from now on.
    pub(super) fn next(&mut self) -> Option<usize> {
        let task = self.ready.pop_front()?;
        self.states[task] = State::Running;
        Some(task)
    }

    /// A running task has ended. Which others never run because of it.
    pub(super) fn end(&mut self, task: usize, end: End) -> Vec<usize> {
        if self.states[task] != State::Running {
            return Vec::new();
        }
        self.close(task, end);
        match end {
            End::Success | End::Skipped => {
                for dependant in self.dependants[task].clone() {
                    if let State::Waiting(open) = &mut self.states[dependant] {
                        *open -= 1;
                    }
                    self.promote(dependant);
                }
                Vec::new()
            }
            End::Failed | End::Unreachable(_) => self.abandon(task),
        }
    }

    /// Ends everything that depends on a task.
    fn abandon(&mut self, task: usize) -> Vec<usize> {
        let mut abandoned = Vec::new();
        let mut left = vec![task];
        while let Some(cause) = left.pop() {
            for dependant in self.dependants[cause].clone() {
                if matches!(self.states[dependant], State::Waiting(_)) {
                    self.close(dependant, End::Unreachable(cause));
                    abandoned.push(dependant);
                    left.push(dependant);
                }
            }
        }
        abandoned
    }

    fn promote(&mut self, task: usize) {
        if self.states[task] == State::Waiting(0) {
            self.states[task] = State::Ready;
            self.ready.push_back(task);
        }
    }

    fn close(&mut self, task: usize, end: End) {
        self.states[task] = State::Ended(end);
        self.open -= 1;
    }

    /// Have all tasks ended?
    pub(super) fn is_over(&self) -> bool {
        self.open == 0
    }

    /// How a task ended, if it has.
    pub(super) fn ended(&self, task: usize) -> Option<End> {
        match self.states[task] {
            State::Ended(end) => Some(end),
            State::Waiting(_) | State::Ready | State::Running => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn schedule(needs: &[&[usize]]) -> Schedule {
        let needs: Vec<_> = needs.iter().map(|needs| needs.to_vec()).collect();
        Schedule::new(&Dependencies { layers: vec![1; needs.len()], needs })
    }

    fn drain(schedule: &mut Schedule) -> Vec<usize> {
        std::iter::from_fn(|| schedule.next()).collect()
    }

    #[test]
    fn tasks_start_when_what_they_need_has_ended() {
        // 0 → 2, 1 → 2, 2 → 3; 4 alone
        let mut tasks = schedule(&[&[], &[], &[0, 1], &[2], &[]]);
        assert_eq!(drain(&mut tasks), [0, 1, 4]);
        tasks.end(0, End::Success);
        assert_eq!(tasks.next(), None);
        tasks.end(1, End::Skipped);
        assert_eq!(drain(&mut tasks), [2], "a task that was skipped holds up nobody");
        tasks.end(2, End::Success);
        assert_eq!(drain(&mut tasks), [3]);
        tasks.end(3, End::Success);
        assert!(!tasks.is_over());
        tasks.end(4, End::Failed);
        assert!(tasks.is_over());
    }

    #[test]
    fn a_failure_takes_its_dependants_and_nothing_else() {
        let mut tasks = schedule(&[&[], &[], &[0], &[2], &[1], &[1, 3]]);
        drain(&mut tasks);
        let mut lost = tasks.end(0, End::Failed);
        lost.sort_unstable();
        assert_eq!(lost, [2, 3, 5]);
        assert_eq!((tasks.ended(2), tasks.ended(3)), (Some(End::Unreachable(0)), Some(End::Unreachable(2))));
        tasks.end(1, End::Success);
        assert_eq!(drain(&mut tasks), [4]);
        tasks.end(4, End::Success);
        assert!(tasks.is_over());
        assert_eq!(tasks.end(4, End::Failed), [0; 0], "what has ended stays as it ended");
        assert_eq!(tasks.ended(4), Some(End::Success));
    }

    proptest! {
        #[test]
        fn every_graph_ends_and_each_task_ends_once(edges in proptest::collection::vec((0_usize..30, 0_usize..30), 0..80), fails in any::<u32>()) {
            let mut needs = vec![Vec::new(); 30];
            for (one, other) in edges {
                if one < other && !needs[other].contains(&one) {
                    needs[other].push(one);
                }
            }
            let dependencies = Dependencies { layers: vec![1; 30], needs };
            let mut tasks = Schedule::new(&dependencies);
            let mut ended = 0;
            while let Some(task) = tasks.next() {
                for need in &dependencies.needs[task] {
                    prop_assert!(matches!(tasks.ended(*need), Some(End::Success | End::Skipped)));
                }
                let end = match (fails >> task & 1, task % 5) {
                    (1, _) => End::Failed,
                    (_, 0) => End::Skipped,
                    _ => End::Success,
                };
                ended += 1 + tasks.end(task, end).len();
            }
            prop_assert!(tasks.is_over());
            prop_assert_eq!(ended, 30);
        }
    }
}
