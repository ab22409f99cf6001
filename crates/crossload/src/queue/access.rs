//! The credentials of copies, found at the last moment.

use catalog::{Catalog, Claimed, SecretKind};
use queue::{AccessLookup, CopySource, EndAccess, ExpiryLookup, Proxies, Vault, whole_url};
use remote::Access;
use types::{Error, ErrorCode, Phase, Result, Secret, Side};

/// Tokens in the catalog, and delegated proxies.
pub(super) struct Credentials {
    catalog: Catalog,
    vault: Vault,
    proxies: Proxies,
}

impl Credentials {
    pub(super) fn new(catalog: Catalog, vault: Vault, proxies: Proxies) -> Self {
        Self {
            catalog,
            vault,
            proxies,
        }
    }

    async fn token(&self, name: Option<&String>, side: Side) -> Result<Option<Secret>> {
        let Some(name) = name else {
            return Ok(None);
        };
        let stored = self.catalog.secret(SecretKind::Token, name).await?;
        let missing = || Error::new(ErrorCode::TokenExpired, side, Phase::Authenticate);
        let stored = stored.ok_or_else(|| missing().with_detail("the token of this file is no longer kept"))?;
        self.vault.open_token(name, &stored.sealed).map(Some)
    }

    async fn find(&self, claimed: &Claimed) -> Result<EndAccess> {
        let options = &claimed.file.options;
        let (job, file) = (claimed.job.id, &claimed.file);
        let whole =
            |shown: &str, sealed: Option<&String>| whole_url(&self.vault, job, shown, sealed.map(String::as_str));
        let mut access = EndAccess {
            source_url: whole(&file.source, options.source_query.as_ref())?,
            destination_url: whole(&file.destination, options.destination_query.as_ref())?,
            source: Access {
                bearer: self.token(options.source_token.as_ref(), Side::Source).await?,
                ..Access::default()
            },
            destination: Access {
                bearer: self
                    .token(options.destination_token.as_ref(), Side::Destination)
                    .await?,
                ..Access::default()
            },
        };
        if let Some(name) = &claimed.job.options.proxy {
            let identity = self.proxies.identity(name).await?.ok_or_else(|| {
                let error = Error::new(ErrorCode::DelegationMissing, Side::Queue, Phase::Authenticate);
                error.with_detail(format!(
                    "no delegated proxy of {} is valid any longer: delegate again",
                    claimed.job.owner.user
                ))
            })?;
            access.source.identity = Some(identity.clone());
            access.destination.identity = Some(identity);
        }
        Ok(access)
    }
}

impl Credentials {
    /// When the first of a file's credentials expires.
    async fn expires_ms(&self, claimed: &Claimed) -> Option<i64> {
        let (file, job) = (&claimed.file.options, &claimed.job.options);
        let tokens = [&file.source_token, &file.destination_token].map(|token| (SecretKind::Token, token));
        let names = tokens.into_iter().chain([(SecretKind::Proxy, &job.proxy)]);
        let mut first = None;
        for (kind, name) in names {
            let Some(name) = name else { continue };
            let stored = self.catalog.secret(kind, name).await;
            let expires_ms = stored.ok().flatten().and_then(|secret| secret.expires_ms);
            first = first.into_iter().chain(expires_ms).min();
        }
        first
    }
}

impl CopySource for Credentials {
    fn access<'a>(&'a self, claimed: &'a Claimed) -> AccessLookup<'a> {
        Box::pin(self.find(claimed))
    }

    fn expires_ms<'a>(&'a self, claimed: &'a Claimed) -> ExpiryLookup<'a> {
        Box::pin(self.expires_ms(claimed))
    }
}
