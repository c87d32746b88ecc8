//! Logins at remote servers, by OAuth.
//!
//! What the protocol of a login demands (discovery, registration, PKCE, the check of the issuer) is rmcp's
//! work; ours is what may be believed of it (`discovery`), how a user gives a login (`flow`, `callback`),
//! where it is kept (`store`) and how requests carry it (`remote`, `bearer`, `renewal`).
//!
//! **Invariant:** a token is sent to the address that it was obtained for, and nowhere else; nothing but
//! the file and the request holds it in a form that can be printed.

mod bearer;
mod callback;
mod discovery;
mod explain;
mod flow;
mod remote;
mod renewal;
mod store;

pub(super) use self::remote::Sender;
pub use self::{
    callback::{Callbacks, Reply},
    flow::{Begun, begin, begin_alone},
    remote::Remote,
    store::{Login, Logins},
};
