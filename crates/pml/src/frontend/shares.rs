//! Something that there is only so much of, shared fairly by clients.
//!
//! A client that has nothing may take whatever is free. One that has something may take more only while at least as much
//! stays free as it then has: alone it gets half, and of several each gets an equal part, with one part left for whoever
//! comes next. Clients that cannot be told apart for sure (the same token from the same address) are a group, which in
//! the same way gets no more than seven eighths. Those who wait are served in turns, one request of each client at a time.
//!
//! **Invariant:** nobody waits while it could be served, and a share is given back when dropped, whatever happened.

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use super::results::Caller;

/// A group may take more while this part of what it then has stays free.
const GROUP_PART: isize = 7;

/// Who something is shared among.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    /// Who has the same token and address.
    group: Arc<str>,
    /// What tells it from others of its group: its session or its connection. `None` if there is nobody else.
    own: Option<Arc<str>>,
}

impl Client {
    /// The only client that there is.
    pub(super) fn only() -> Client {
        Client { group: Arc::from(""), own: None }
    }

    /// A client over HTTP, by its session or connection.
    pub(super) fn new(caller: &Caller, address: IpAddr, own: &str) -> Client {
        Client { group: format!("{} {address}", caller.0).into(), own: Some(own.into()) }
    }
}

/// What is shared.
#[derive(Debug)]
pub(super) struct Shares {
    state: Mutex<State>,
    /// Requests of one client that may wait.
    most_waiting: usize,
}

#[derive(Debug)]
struct State {
    /// Less than nothing if shares were taken up again while all were in use.
    free: isize,
    clients: HashMap<Client, isize>,
    groups: HashMap<Arc<str>, isize>,
    /// Those who wait, in the order in which their turns come.
    waiting: VecDeque<(Client, VecDeque<Waiter>)>,
}

/// Where somebody who waits gets its share.
type Waiter = oneshot::Sender<Share>;

/// One part of what is shared.
#[derive(Debug)]
pub(super) struct Share {
    shares: Arc<Shares>,
    client: Client,
    is_held: bool,
}

/// So many requests of the client wait that no more may.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMany;

impl Shares {
    pub(super) fn new(total: usize, most_waiting: usize) -> Arc<Shares> {
        let free = isize::try_from(total).unwrap_or(isize::MAX);
        let state = State { free, clients: HashMap::new(), groups: HashMap::new(), waiting: VecDeque::new() };
        Arc::new(Shares { state: Mutex::new(state), most_waiting })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one part, when it is the client's turn.
    pub(super) async fn take(self: &Arc<Self>, client: &Client) -> Result<Share, TooMany> {
        let (sender, granted) = oneshot::channel();
        self.lock().wait(client, sender, self.most_waiting)?;
        self.serve();
        Ok(granted.await.expect("who waits is served, or gone"))
    }

    /// Takes one part if the client may have one now; for what nobody waits for.
    pub(super) fn take_now(self: &Arc<Self>, client: &Client) -> Option<Share> {
        let mut state = self.lock();
        if !state.may_take(client) {
            return None;
        }
        state.add(client, 1);
        Some(Share { shares: Arc::clone(self), client: client.clone(), is_held: true })
    }

    /// Serves those who wait, as far as there is something for them.
    fn serve(self: &Arc<Self>) {
        loop {
            let mut state = self.lock();
            let Some((client, waiter)) = state.next() else { return };
            state.add(&client, 1);
            drop(state);
            // If it has gone meanwhile, the share is given back here.
            let _ = waiter.send(Share { shares: Arc::clone(self), client, is_held: true });
        }
    }
}

impl State {
    /// Puts a request of a client behind its others.
    fn wait(&mut self, client: &Client, waiter: Waiter, most: usize) -> Result<(), TooMany> {
        self.waiting.retain_mut(|(_, waiters)| {
            waiters.retain(|waiter| !waiter.is_closed());
            !waiters.is_empty()
        });
        match self.waiting.iter_mut().find(|(waiting, _)| waiting == client) {
            Some((_, waiters)) if waiters.len() >= most => return Err(TooMany),
            Some((_, waiters)) => waiters.push_back(waiter),
            None => self.waiting.push_back((client.clone(), VecDeque::from([waiter]))),
        }
        Ok(())
    }

    /// May the client have one more?
    fn may_take(&self, client: &Client) -> bool {
        let left = self.free - 1;
        if left < 0 || client.own.is_none() {
            return left >= 0;
        }
        let has = |held: Option<&isize>| held.copied().unwrap_or(0);
        let (own, group) = (has(self.clients.get(client)), has(self.groups.get(&client.group)));
        let is_fair = |has: isize, part: isize| has == 0 || has < left * part;
        is_fair(own, 1) && is_fair(group, GROUP_PART)
    }

    /// The next who waits and can be served. Its client's next turn comes after everybody else's.
    fn next(&mut self) -> Option<(Client, Waiter)> {
        for _ in 0..self.waiting.len() {
            let (client, mut waiters) = self.waiting.pop_front()?;
            let waiter = if self.may_take(&client) { waiters.pop_front() } else { None };
            if !waiters.is_empty() {
                self.waiting.push_back((client.clone(), waiters));
            }
            if let Some(waiter) = waiter {
                return Some((client, waiter));
            }
        }
        None
    }

    /// Counts what a client has taken, or given back if it is less than nothing.
    fn add(&mut self, client: &Client, count: isize) {
        self.free -= count;
        let left = self.clients.entry(client.clone()).or_default();
        *left += count;
        if *left == 0 {
            self.clients.remove(client);
        }
        let left = self.groups.entry(Arc::clone(&client.group)).or_default();
        *left += count;
        if *left == 0 {
            self.groups.remove(&client.group);
        }
    }
}

impl Share {
    /// Gives it back for as long as it is not needed.
    pub(super) fn pause(&mut self) {
        self.hold(false);
    }

    /// Takes it up again, whether there is something free or not.
    pub(super) fn resume(&mut self) {
        self.hold(true);
    }

    fn hold(&mut self, is_held: bool) {
        if std::mem::replace(&mut self.is_held, is_held) != is_held {
            self.shares.lock().add(&self.client, if is_held { 1 } else { -1 });
            self.shares.serve();
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.hold(false);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn client(group: &str, own: &str) -> Client {
        Client { group: group.into(), own: Some(own.into()) }
    }

    /// As many shares as a client gets at once.
    fn grab(shares: &Arc<Shares>, client: &Client) -> Vec<Share> {
        std::iter::from_fn(|| shares.take(client).now_or_never()?.ok()).take(1000).collect()
    }

    #[test]
    fn each_gets_an_equal_part_and_one_is_left_for_the_next() {
        let shares = Shares::new(32, 100);
        let (ann, bob) = (client("a", "1"), client("b", "1"));
        let first = grab(&shares, &ann);
        assert_eq!(first.len(), 16);
        let second = grab(&shares, &bob);
        assert_eq!(second.len(), 8);
        drop(first);
        assert_eq!(grab(&shares, &ann).len(), 12, "as much as stays free");
        drop(second);
        // Many, with one each: whoever comes next finds something until there is nothing.
        let crowd: Vec<_> = (0..32).flat_map(|own| grab(&shares, &client(&format!("c{own}"), "1"))).collect();
        assert_eq!(crowd.len(), 32);
        drop(crowd);
        assert_eq!(grab(&shares, &Client::only()).len(), 32, "who is alone gets everything");
    }

    #[test]
    fn a_group_leaves_something_for_others() {
        let shares = Shares::new(32, 100);
        let held: Vec<_> = (0..100).flat_map(|own| grab(&shares, &client("a", &own.to_string()))).collect();
        assert_eq!(held.len(), 28);
        assert!(!grab(&shares, &client("b", "1")).is_empty());
    }

    #[tokio::test]
    async fn those_who_wait_take_turns() {
        let shares = Shares::new(1, 3);
        let (ann, bob) = (client("a", "1"), client("b", "1"));
        let mut held = vec![shares.take(&ann).await.unwrap()];
        let order = Mutex::new(Vec::new());
        let run = async |client: &Client, name: &'static str| {
            let share = shares.take(client).await?;
            order.lock().unwrap().push(name);
            drop(share);
            Ok::<_, TooMany>(())
        };
        let work = async {
            // Ann was here first, and wants more than anybody.
            let all = tokio::join!(
                run(&ann, "a1"),
                run(&ann, "a2"),
                run(&ann, "a3"),
                run(&ann, "a4"),
                run(&bob, "b1"),
                run(&bob, "b2"),
            );
            assert_eq!(all, (Ok(()), Ok(()), Ok(()), Err(TooMany), Ok(()), Ok(())));
        };
        let free = async {
            tokio::task::yield_now().await;
            held.clear();
        };
        tokio::join!(work, free);
        assert_eq!(*order.lock().unwrap(), ["a1", "b1", "a2", "b2", "a3"]);
        assert_eq!(grab(&shares, &Client::only()).len(), 1, "everything was given back");
    }

    #[tokio::test]
    async fn a_share_that_is_not_needed_is_lent() {
        let shares = Shares::new(1, 10);
        let (ann, bob) = (client("a", "1"), client("b", "1"));
        let mut sleeping = shares.take(&ann).await.unwrap();
        assert!(shares.take(&bob).now_or_never().is_none());
        sleeping.pause();
        let mut other = shares.take(&bob).await.unwrap();
        sleeping.resume();
        other.pause();
        assert!(shares.take(&bob).now_or_never().is_none(), "the first is at work again");
        sleeping.pause();
        assert!(shares.take(&bob).now_or_never().is_some());
        // One that has gone does not keep what it was given.
        drop((sleeping, other));
        assert_eq!(grab(&shares, &Client::only()).len(), 1);
    }
}
