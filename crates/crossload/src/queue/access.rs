//! The credentials of copies, found at the last moment.

use catalog::{Catalog, Claimed, Login, SecretKind};
use identity::ShownBy;
use identity::delegation::Delegations;
use queue::{AccessLookup, CopySource, EndAccess, Vault};
use remote::Access;
use types::{Error, ErrorCode, Phase, Result, Secret, Side};

/// Tokens in the catalog, and delegated proxies.
pub(super) struct Credentials {
    catalog: Catalog,
    vault: Vault,
    delegations: Option<Delegations>,
}

impl Credentials {
    pub(super) fn new(catalog: Catalog, vault: Vault, delegations: Option<Delegations>) -> Self {
        Self {
            catalog,
            vault,
            delegations,
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
        let mut access = EndAccess {
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
        let owner = &claimed.job.owner;
        if owner.login == Login::Certificate {
            let found = self.delegations.as_ref();
            let identity = found.and_then(|kept| kept.named(&owner.user, &owner.delegation_id, ShownBy::Tls));
            let identity = identity.ok_or_else(|| {
                let error = Error::new(ErrorCode::DelegationMissing, Side::Queue, Phase::Authenticate);
                error.with_detail(format!(
                    "no delegated proxy of {} holds any longer: delegate again",
                    owner.user
                ))
            })?;
            access.source.identity = Some(identity.clone());
            access.destination.identity = Some(identity);
        }
        Ok(access)
    }
}

impl CopySource for Credentials {
    fn access<'a>(&'a self, claimed: &'a Claimed) -> AccessLookup<'a> {
        Box::pin(self.find(claimed))
    }
}
