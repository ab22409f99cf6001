//! Credentials, sealed by the caller: this crate never has their keys.

use std::sync::Arc;

use types::Result;

use crate::Catalog;
use crate::store::{Row, Transaction, Value, damaged};

/// What a secret is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SecretKind {
    /// A token of a file, by the name that its file gives. Deleted when no job that lives uses it.
    Token,
    /// A delegated proxy, by delegation.
    Proxy,
    /// A key of a delegation that is under way.
    DelegationKey,
    /// A refresh token.
    RefreshToken,
    /// A key of an S3 storage, by user or organisation and storage.
    S3,
    /// What signs messages to a webhook, by its name.
    Webhook,
}

impl SecretKind {
    const ALL: [Self; 6] = [
        Self::Token,
        Self::Proxy,
        Self::DelegationKey,
        Self::RefreshToken,
        Self::S3,
        Self::Webhook,
    ];

    fn of_name(name: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|kind| kind.name() == name);
        known.ok_or_else(|| damaged(&format!("no kind of a secret: {name}")))
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Proxy => "proxy",
            Self::DelegationKey => "delegation_key",
            Self::RefreshToken => "refresh_token",
            Self::S3 => "s3",
            Self::Webhook => "webhook",
        }
    }
}

/// A sealed secret. Its `Debug` shows no byte of it.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedSecret {
    /// What it is.
    pub kind: SecretKind,
    /// Its name within the kind.
    pub name: String,
    /// The sealed bytes.
    pub sealed: Vec<u8>,
    /// When it expires.
    pub expires_ms: Option<i64>,
    /// Whose it is.
    pub owner: String,
    /// When it should be renewed; `None`: never.
    pub renews_ms: Option<i64>,
    /// Until when one process renews it, and others leave it alone.
    pub lease_ms: Option<i64>,
    /// The name of the refresh token that takes its place.
    pub renewed_by: Option<String>,
}

impl std::fmt::Debug for SealedSecret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "SealedSecret({:?} of {})", self.kind, self.owner)
    }
}

/// How many secrets of a kind there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretCount {
    /// All.
    pub all: usize,
    /// Those of one owner.
    pub of_owner: usize,
}

const UPSERT: &str = "INSERT INTO secret (kind, name, sealed, expires_ms, owner, stored_ms, renews_ms, lease_ms, \
    renewed_by) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (kind, name) DO UPDATE SET \
    sealed = excluded.sealed, expires_ms = excluded.expires_ms, owner = excluded.owner, \
    stored_ms = excluded.stored_ms, renews_ms = excluded.renews_ms, lease_ms = excluded.lease_ms, \
    renewed_by = excluded.renewed_by";

fn columns(secret: &SealedSecret, now_ms: i64) -> [Value; 9] {
    [
        secret.kind.name().into(),
        secret.name.as_str().into(),
        Value::Bytes(secret.sealed.clone()),
        secret.expires_ms.into(),
        secret.owner.as_str().into(),
        now_ms.into(),
        secret.renews_ms.into(),
        secret.lease_ms.into(),
        secret.renewed_by.clone().into(),
    ]
}

async fn find(transaction: &mut dyn Transaction, kind: SecretKind, name: &str) -> Result<Option<SealedSecret>> {
    let sql = format!("SELECT {COLUMNS} FROM secret WHERE kind = $1 AND name = $2");
    let parameters = [kind.name().into(), name.into()];
    let mut rows = transaction.query(&sql, &parameters).await?;
    rows.first_mut().map(read_secret).transpose()
}

/// Columns of a secret.
pub(super) const COLUMNS: &str = "kind, name, sealed, expires_ms, owner, renews_ms, lease_ms, renewed_by";

pub(super) fn read_secret(row: &mut Row) -> Result<SealedSecret> {
    Ok(SealedSecret {
        kind: SecretKind::of_name(&row.text()?)?,
        name: row.text()?,
        sealed: row.bytes()?,
        expires_ms: row.optional_integer()?,
        owner: row.text()?,
        renews_ms: row.optional_integer()?,
        lease_ms: row.optional_integer()?,
        renewed_by: row.optional_text()?,
    })
}

impl Catalog {
    /// Stores a secret; one with the same kind and name is replaced.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn put_secret(&self, secret: SealedSecret, now_ms: i64) -> Result<()> {
        let secret = Arc::new(secret);
        self.write(move |transaction| {
            let secret = Arc::clone(&secret);
            Box::pin(async move {
                transaction.execute(UPSERT, &columns(&secret, now_ms)).await?;
                Ok(())
            })
        })
        .await
    }

    /// Stores a secret, unless there is one with the same kind and name that is valid until
    /// `until_ms` at least. Returns the one that is there now.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn keep_secret(&self, secret: SealedSecret, until_ms: i64, now_ms: i64) -> Result<SealedSecret> {
        let secret = Arc::new(secret);
        self.write(move |transaction| {
            let secret = Arc::clone(&secret);
            Box::pin(async move {
                let sql = format!("{UPSERT} WHERE secret.expires_ms < $10");
                let mut parameters = columns(&secret, now_ms).to_vec();
                parameters.push(until_ms.into());
                transaction.execute(&sql, &parameters).await?;
                let kept = find(transaction, secret.kind, &secret.name).await?;
                kept.ok_or_else(|| damaged("a secret is missing that was stored just now"))
            })
        })
        .await
    }

    /// How many secrets of a kind there are.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn count_secrets(&self, kind: SecretKind, owner: &str) -> Result<SecretCount> {
        let owner = Arc::new(owner.to_owned());
        self.read(move |transaction| {
            let owner = Arc::clone(&owner);
            Box::pin(async move {
                let sql = "SELECT COUNT(*), COUNT(CASE WHEN owner = $2 THEN 1 END) FROM secret WHERE kind = $1";
                let parameters = [kind.name().into(), owner.as_str().into()];
                let mut rows = transaction.query(sql, &parameters).await?;
                let row = rows.first_mut().ok_or_else(|| damaged("a count is missing"))?;
                Ok(SecretCount {
                    all: row.number()?,
                    of_owner: row.number()?,
                })
            })
        })
        .await
    }

    /// A secret.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn secret(&self, kind: SecretKind, name: &str) -> Result<Option<SealedSecret>> {
        let name = Arc::new(name.to_owned());
        self.read(move |transaction| {
            let name = Arc::clone(&name);
            Box::pin(async move { find(transaction, kind, &name).await })
        })
        .await
    }

    /// The secrets of a kind and an owner, by name; at most `limit`.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn secrets_of(&self, kind: SecretKind, owner: &str, limit: usize) -> Result<Vec<SealedSecret>> {
        let owner = Arc::new(owner.to_owned());
        self.read(move |transaction| {
            let owner = Arc::clone(&owner);
            Box::pin(async move {
                let sql = format!("SELECT {COLUMNS} FROM secret WHERE kind = $1 AND owner = $2 ORDER BY name LIMIT $3");
                let parameters = [kind.name().into(), owner.as_str().into(), Value::from(limit as i64)];
                let mut rows = transaction.query(&sql, &parameters).await?;
                rows.iter_mut().map(read_secret).collect()
            })
        })
        .await
    }

    /// Deletes a secret. Returns whether there was one.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn delete_secret(&self, kind: SecretKind, name: &str) -> Result<bool> {
        let name = Arc::new(name.to_owned());
        self.write(move |transaction| {
            let name = Arc::clone(&name);
            Box::pin(async move {
                let sql = "DELETE FROM secret WHERE kind = $1 AND name = $2";
                let parameters = [kind.name().into(), name.as_str().into()];
                Ok(transaction.execute(sql, &parameters).await? > 0)
            })
        })
        .await
    }

    /// Deletes tokens that no live job uses, and proxies and keys that have expired; at most
    /// `limit`. Returns how many.
    ///
    /// A submission at the same moment keeps its tokens: it locks them before its use of them
    /// becomes visible, and here a token is locked before its uses are looked for.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn delete_unused_secrets(&self, now_ms: i64, limit: usize) -> Result<usize> {
        let found = self
            .read(move |transaction| Box::pin(unused(transaction, now_ms, limit)))
            .await?;
        if found.is_empty() {
            return Ok(0);
        }
        let found = Arc::new(found);
        self.write(move |transaction| {
            let found = Arc::clone(&found);
            Box::pin(async move { delete_unused(transaction, &found, now_ms).await })
        })
        .await
    }
}

const UNUSED: &str = "(kind IN ('token', 'refresh_token') AND \
    NOT EXISTS (SELECT 1 FROM secret_use u WHERE u.name = secret.name) OR \
    kind IN ('proxy', 'delegation_key') AND expires_ms < $1)";

/// Kinds and names of secrets that can go.
async fn unused(transaction: &mut dyn Transaction, now_ms: i64, limit: usize) -> Result<Vec<Vec<Value>>> {
    let sql = format!("SELECT kind, name FROM secret WHERE {UNUSED} LIMIT $2");
    let parameters = [now_ms.into(), (limit as i64).into()];
    let mut rows = transaction.query(&sql, &parameters).await?;
    let key = |row: &mut Row| Ok(vec![row.text()?.into(), row.text()?.into()]);
    rows.iter_mut().map(key).collect()
}

/// Deletes those of these secrets that can still go. Those that others change right now stay.
async fn delete_unused(transaction: &mut dyn Transaction, keys: &[Vec<Value>], now_ms: i64) -> Result<usize> {
    let sql = "SELECT name FROM secret WHERE kind = $1 AND name = $2 {lock_free}";
    let locked = transaction.query_each(sql, keys).await?;
    let locked = keys.iter().zip(locked).filter(|(_, rows)| !rows.is_empty());
    let locked: Vec<Vec<Value>> = locked
        .map(|(key, _)| [vec![now_ms.into()], key.clone()].concat())
        .collect();
    let sql = format!("DELETE FROM secret WHERE {UNUSED} AND kind = $2 AND name = $3");
    let deleted = transaction.execute_each(&sql, &locked).await?;
    Ok(deleted.into_iter().sum::<u64>() as usize)
}

/// Stores secrets, in this order.
pub(super) async fn put_secrets(
    transaction: &mut dyn Transaction,
    secrets: &[SealedSecret],
    now_ms: i64,
) -> Result<()> {
    // The same token may come again while it is renewed, or after that.
    let sql = UPSERT
        .replace(
            "renews_ms = excluded.renews_ms",
            "renews_ms = COALESCE(secret.renews_ms, excluded.renews_ms)",
        )
        .replace(
            "renewed_by = excluded.renewed_by",
            "renewed_by = COALESCE(excluded.renewed_by, secret.renewed_by)",
        );
    let sets: Vec<Vec<Value>> = secrets.iter().map(|secret| columns(secret, now_ms).to_vec()).collect();
    transaction.execute_each(&sql, &sets).await?;
    Ok(())
}
