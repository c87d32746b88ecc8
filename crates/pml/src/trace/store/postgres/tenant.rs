//! The numbers of scopes. Every statement about what belongs to a scope takes one.
//!
//! A number is remembered with the connection that it was read on: if another database comes in the place of this one, that
//! ends the connection, and what was remembered with it.

use super::{
    super::{Scope, connection::Trouble},
    session::Session,
};

/// The number of a scope; `None` if nothing was ever stored of it.
pub(crate) async fn find(session: &Session, scope: &Scope) -> Result<Option<i32>, Trouble> {
    if let Some(number) = session.known_tenant(scope) {
        return Ok(Some(number));
    }
    let sql = "SELECT id FROM tenant WHERE org = $1 AND project = $2";
    let found = session.query_opt(sql, &[&scope.org(), &scope.project()]).await?.map(|row| row.get(0));
    if let Some(number) = found {
        session.know_tenant(scope, number);
    }
    Ok(found)
}

/// The number of a scope, which is given one if it has none.
pub(crate) async fn number(session: &Session, scope: &Scope) -> Result<i32, Trouble> {
    if let Some(number) = find(session, scope).await? {
        return Ok(number);
    }
    let sql = "INSERT INTO tenant (org, project) VALUES ($1, $2) ON CONFLICT (org, project) DO NOTHING";
    session.execute(sql, &[&scope.org(), &scope.project()]).await?;
    let number = find(session, scope).await?;
    number.ok_or_else(|| Trouble::Other("a scope that was stored is not there".to_owned()))
}
