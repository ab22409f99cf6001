//! The credentials of copies, found at the last moment.

use std::sync::Arc;

use catalog::{Claimed, HopPart};
use net::tls::ClientIdentity;
use queue::{
    AccessLookup, CopySource, EndAccess, ExpiryLookup, FoundKey, HopLookup, Proxies, S3Keys, TokenGaps, Tokens, Vault,
    whole_url,
};
use remote::{Access, Account, Addressing};
use schedule::{CredentialEnd, CredentialKind};
use types::{Error, ErrorCode, Location, Phase, Result, Secret, Side};

use super::hops::HopTokens;

/// Tokens in the catalog, and delegated proxies.
pub(super) struct Credentials {
    pub(super) tokens: Tokens,
    pub(super) vault: Vault,
    pub(super) proxies: Proxies,
    pub(super) hop_tokens: HopTokens,
    pub(super) s3_keys: S3Keys,
}

impl Credentials {
    async fn token(&self, claimed: &Claimed, name: Option<&String>, side: Side) -> Result<Option<Secret>> {
        let Some(name) = name else {
            return Ok(None);
        };
        let is_managed = !claimed.job.options.unmanaged_tokens;
        let token = self.tokens.bearer(name, &claimed.job.owner, is_managed, side).await?;
        Ok(Some(token))
    }

    /// The first credential to end that nothing renews.
    async fn find_first_end(&self, claimed: &Claimed) -> Result<Option<CredentialEnd>> {
        let options = &claimed.file.options;
        let is_managed = !claimed.job.options.unmanaged_tokens;
        let mut ends = Vec::new();
        for (credential, name) in [
            (CredentialKind::SourceToken, &options.source_token),
            (CredentialKind::DestinationToken, &options.destination_token),
        ] {
            if let Some(name) = name {
                ends.push((credential, self.tokens.ends_ms(name, is_managed).await?));
            }
        }
        if let Some(name) = &claimed.job.options.proxy {
            ends.push((CredentialKind::Proxy, self.proxies.ends_ms(name).await?));
        }
        let ends = ends.into_iter().filter_map(|(credential, expires_ms)| {
            let expires_ms = expires_ms?;
            Some(CredentialEnd { credential, expires_ms })
        });
        Ok(ends.min_by_key(|end| end.expires_ms))
    }

    async fn find(&self, claimed: &Claimed) -> Result<EndAccess> {
        let options = &claimed.file.options;
        let (job, file) = (claimed.job.id, &claimed.file);
        // The queue shows neither of them to the hop: one that fetches or sends gets the other one
        // in the order.
        let part = file.hop.as_ref().map(|hop| hop.part);
        let source_token = options
            .source_token
            .as_ref()
            .filter(|_| part != Some(HopPart::Outgoing));
        let destination_token = options
            .destination_token
            .as_ref()
            .filter(|_| part != Some(HopPart::Incoming));
        let whole =
            |shown: &str, sealed: Option<&String>| whole_url(&self.vault, job, shown, sealed.map(String::as_str));
        let mut access = EndAccess {
            source_url: whole(&file.source, options.source_query.as_ref())?,
            destination_url: whole(&file.destination, options.destination_query.as_ref())?,
            source: Access {
                bearer: self.token(claimed, source_token, Side::Source).await?,
                ..Access::default()
            },
            destination: Access {
                bearer: self.token(claimed, destination_token, Side::Destination).await?,
                ..Access::default()
            },
        };
        access.source.account = self.account(&file.source, claimed, Side::Source).await?;
        access.destination.account = self.account(&file.destination, claimed, Side::Destination).await?;
        if let Some(identity) = self.proxy(claimed).await? {
            access.source.identity = Some(identity.clone());
            access.destination.identity = Some(identity);
        }
        Ok(access)
    }

    /// The account of the job's user, or of the virtual organisation, at an S3 storage.
    async fn account(&self, url: &str, claimed: &Claimed, side: Side) -> Result<Option<Arc<Account>>> {
        let Some(place) = Location::parse(url).ok().filter(Location::is_s3) else {
            return Ok(None);
        };
        let Some(FoundKey { key, storage }) = self.s3_keys.find(place.host(), &claimed.job.owner).await? else {
            let error = Error::new(ErrorCode::Unauthenticated, Side::Queue, Phase::Authenticate);
            let words = format!(
                "no key of S3:{} for the {} of this job is stored here",
                place.host(),
                side.name()
            );
            return Err(error.with_detail(words));
        };
        Ok(Some(Arc::new(Account {
            key_id: key.access_key.expose().to_owned(),
            secret: key.secret_key,
            token: None,
            region: storage.region.filter(|region| !region.is_empty()),
            addressing: Some(match storage.is_alternate {
                true => Addressing::Path,
                false => Addressing::VirtualHost,
            }),
        })))
    }

    /// What the tokens of a file may not allow. Nothing depends on it, so failures say nothing.
    async fn gaps(&self, claimed: &Claimed) -> Vec<String> {
        let (file, options) = (&claimed.file, &claimed.file.options);
        let sides = [
            (Side::Source, &options.source_token, &file.source),
            (Side::Destination, &options.destination_token, &file.destination),
        ];
        let mut gaps = Vec::new();
        for (side, name, url) in sides {
            if let Some(name) = name {
                let gap = self.tokens.gap(name, url, side, &claimed.job.options).await;
                gaps.extend(gap.ok().flatten());
            }
        }
        gaps
    }

    /// The user's proxy, if the job needs one.
    async fn proxy(&self, claimed: &Claimed) -> Result<Option<ClientIdentity>> {
        let Some(name) = &claimed.job.options.proxy else {
            return Ok(None);
        };
        let identity = self.proxies.identity(name).await?.ok_or_else(|| {
            let error = Error::new(ErrorCode::DelegationMissing, Side::Queue, Phase::Authenticate);
            error.with_detail(format!(
                "no delegated proxy of {} is valid any longer: delegate again",
                claimed.job.owner.user
            ))
        })?;
        Ok(Some(identity))
    }

    /// What a hop is shown: the queue's token for it, else the user's proxy.
    async fn find_for_hop(&self, claimed: &Claimed, url: &str) -> Result<Access> {
        let bearer = self.hop_tokens.of(url).await?;
        let identity = match bearer {
            Some(_) => None,
            None => self.proxy(claimed).await?,
        };
        Ok(Access {
            // It is the operators', for the files of all.
            keeps_bearer: bearer.is_some(),
            bearer,
            identity,
            ..Access::default()
        })
    }
}

impl CopySource for Credentials {
    fn access<'a>(&'a self, claimed: &'a Claimed) -> AccessLookup<'a> {
        Box::pin(self.find(claimed))
    }

    fn hop_access<'a>(&'a self, claimed: &'a Claimed, url: &'a str) -> HopLookup<'a> {
        Box::pin(self.find_for_hop(claimed, url))
    }

    fn token_gaps<'a>(&'a self, claimed: &'a Claimed) -> TokenGaps<'a> {
        Box::pin(self.gaps(claimed))
    }

    fn first_end<'a>(&'a self, claimed: &'a Claimed) -> ExpiryLookup<'a> {
        Box::pin(async move { self.find_first_end(claimed).await.ok().flatten() })
    }
}
