//! Why a tool is where it is in a ranking, in words.

use pml_learn::Reason;

use crate::shown::visible;

/// A reason, for people and models. `None` if it names a tool that may not be named.
pub fn reason(reason: &Reason, may_name: impl Fn(&str) -> bool) -> Option<String> {
    match reason {
        Reason::FollowsOften { after, .. } | Reason::UsedTogether { with: after, .. } if !may_name(after) => None,
        Reason::FollowsOften { after, count: 1 } => Some(format!("has followed {}", visible(after))),
        Reason::FollowsOften { after, .. } => Some(format!("often follows {}", visible(after))),
        Reason::UsedForSimilar { times: 1 } => Some("used once for a request like this".to_owned()),
        Reason::UsedForSimilar { times } => Some(format!("used {times} times for requests like this")),
        Reason::UsedTogether { with, .. } => Some(format!("used together with {}", visible(with))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_short_and_name_only_what_may_be_named() {
        let follows = Reason::FollowsOften { after: "github:list_issues".into(), count: 9 };
        assert_eq!(reason(&follows, |_| true).as_deref(), Some("often follows github:list_issues"));
        assert_eq!(reason(&follows, |_| false), None);
        let used = Reason::UsedForSimilar { times: 14 };
        assert_eq!(reason(&used, |_| false).as_deref(), Some("used 14 times for requests like this"));
    }
}
