//! Secrets that are renewed: tokens of waiting files, and the refresh tokens that renew them.

use std::collections::BTreeSet;
use std::sync::Arc;

use types::Result;

use super::secrets::{COLUMNS, SealedSecret, SecretKind, read_secret};
use crate::Catalog;
use crate::store::{Row, Value};

impl Catalog {
    /// Secrets to be renewed now, which live jobs use and no process renews: at most `limit`, the
    /// most urgent of each owner first.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn due_secrets(&self, now_ms: i64, limit: usize) -> Result<Vec<SealedSecret>> {
        self.read(move |transaction| {
            Box::pin(async move {
                // Owners in turn: one with many leaves room for the others.
                let sql = format!(
                    "SELECT {COLUMNS} FROM secret JOIN (SELECT kind AS due_kind, name AS due_name, \
                    ROW_NUMBER() OVER (PARTITION BY owner ORDER BY renews_ms) AS turn FROM secret \
                    WHERE renews_ms <= $1 AND COALESCE(lease_ms, 0) <= $1 AND \
                    EXISTS (SELECT 1 FROM secret_use u WHERE u.name = secret.name)) due \
                    ON kind = due_kind AND name = due_name ORDER BY turn, renews_ms LIMIT $2"
                );
                let parameters = [now_ms.into(), Value::from(limit as i64)];
                let mut rows = transaction.query(&sql, &parameters).await?;
                rows.iter_mut().map(read_secret).collect()
            })
        })
        .await
    }

    /// Takes the lease of a secret until a time, if no other process has it. A secret that is not
    /// stored yet is made, without content. Returns whether the lease is ours.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn lease_secret(
        &self,
        kind: SecretKind,
        name: &str,
        owner: &str,
        now_ms: i64,
        until_ms: i64,
    ) -> Result<bool> {
        let arguments = Arc::new((name.to_owned(), owner.to_owned()));
        self.write(move |transaction| {
            let arguments = Arc::clone(&arguments);
            Box::pin(async move {
                let (name, owner) = &*arguments;
                let sql = "INSERT INTO secret (kind, name, sealed, owner, stored_ms, lease_ms) \
                    VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (kind, name) DO UPDATE SET \
                    lease_ms = excluded.lease_ms WHERE COALESCE(secret.lease_ms, 0) <= excluded.stored_ms";
                let parameters = [
                    kind.name().into(),
                    name.as_str().into(),
                    Value::Bytes(Vec::new()),
                    owner.as_str().into(),
                    now_ms.into(),
                    until_ms.into(),
                ];
                Ok(transaction.execute(sql, &parameters).await? > 0)
            })
        })
        .await
    }

    /// Changes when a secret is renewed; nothing if it no longer is.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn set_renewal(&self, kind: SecretKind, name: &str, renews_ms: Option<i64>) -> Result<()> {
        let name = Arc::new(name.to_owned());
        self.write(move |transaction| {
            let name = Arc::clone(&name);
            Box::pin(async move {
                let sql = "UPDATE secret SET renews_ms = $3 WHERE kind = $1 AND name = $2 AND renews_ms IS NOT NULL";
                let parameters = [kind.name().into(), name.as_str().into(), renews_ms.into()];
                transaction.execute(sql, &parameters).await.map(drop)
            })
        })
        .await
    }

    /// Those of these tokens that must be renewed before they are used: they end from now until
    /// `until_ms`, and their renewal has not been done.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn unready_tokens(&self, names: &[&str], now_ms: i64, until_ms: i64) -> Result<BTreeSet<String>> {
        let sets: Arc<[Vec<Value>]> = names
            .iter()
            .map(|name| vec![(*name).into(), now_ms.into(), until_ms.into()])
            .collect();
        self.read(move |transaction| {
            let sets = Arc::clone(&sets);
            Box::pin(async move {
                let sql = "SELECT name FROM secret WHERE kind = 'token' AND name = $1 AND renews_ms IS NOT NULL \
                    AND expires_ms > $2 AND expires_ms <= $3";
                let found = transaction.query_each(sql, &sets).await?;
                found.into_iter().flatten().map(|mut row: Row| row.text()).collect()
            })
        })
        .await
    }
}
