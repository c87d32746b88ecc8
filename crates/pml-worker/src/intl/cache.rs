//! The few formatters that were used last.
//!
//! A formatter of a program is the text of its options; what that text means is built when it is first used, and kept as long
//! as it is among the last few. So ten thousand formatters cost what ten thousand texts cost, which the engine counts.

use std::{cell::RefCell, rc::Rc};

/// How many are kept. Programs rarely take turns with more.
const CAPACITY: usize = 8;

/// Formatters of one kind, the last used in front.
#[derive(Debug)]
pub(super) struct Cache<T>(RefCell<Vec<(String, Rc<T>)>>);

impl<T> Cache<T> {
    pub(super) const fn new() -> Cache<T> {
        Cache(RefCell::new(Vec::new()))
    }

    /// The formatter with these options, which `make` makes unless it is there.
    pub(super) fn get<E>(&self, options: &str, make: impl FnOnce() -> Result<T, E>) -> Result<Rc<T>, E> {
        let mut kept = self.0.borrow_mut();
        if let Some(at) = kept.iter().position(|(key, _)| key == options) {
            kept[..=at].rotate_right(1);
            return Ok(Rc::clone(&kept[0].1));
        }
        let made = Rc::new(make()?);
        kept.truncate(CAPACITY - 1);
        kept.insert(0, (options.to_owned(), Rc::clone(&made)));
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formatter_is_made_once_while_it_is_used() {
        let cache = Cache::new();
        let mut made = 0;
        for round in 0..100 {
            let other = format!("other {}", round % 7);
            for options in ["used", &other] {
                cache
                    .get(options, || {
                        made += 1;
                        Ok::<_, ()>(())
                    })
                    .unwrap();
            }
        }
        assert_eq!(made, 8);
        assert!(cache.get("x", || Err("no")).is_err());
        assert!(cache.0.borrow().len() <= CAPACITY);
    }
}
