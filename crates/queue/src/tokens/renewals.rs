//! Renews what ends soon, before it is needed: several requests at each issuer side by side, so
//! that neither a slow issuer nor a user with many tokens keeps those of others waiting.

use std::collections::HashMap;
use std::sync::Arc;

use catalog::{SealedSecret, SecretKind};
use tokio::task::{Id, JoinSet};
use tokio::time::{MissedTickBehavior, interval};
use types::{Result, Secret};

use super::facts::TokenFacts;
use super::{Inner, Renewed, Tokens};
use crate::clock::{milliseconds, now_ms};
use crate::limits::{ISSUER_CALLS_MAX, TOKEN_LEFT_MIN, TOKENS_PERIOD, TOKENS_RENEWED_MAX};
use crate::share;

impl Tokens {
    /// Renews tokens until the process ends.
    pub async fn run(self) {
        if self.0.issuers.is_empty() {
            return;
        }
        let mut renewals = Renewals::default();
        let mut period = interval(TOKENS_PERIOD);
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // What fails is tried again after a later look.
            tokio::select! {
                Some(_) = renewals.next_end() => {}
                _ = period.tick() => drop(renewals.look(&self.0).await),
            }
            renewals.begin(&self.0);
        }
    }

    /// Renews what ends soon and is used by live jobs.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn renew_due(&self) -> Result<()> {
        let mut renewals = Renewals::default();
        renewals.look(&self.0).await?;
        renewals.begin(&self.0);
        let mut outcome = Ok(());
        while let Some(ended) = renewals.next_end().await {
            outcome = outcome.and(ended);
            renewals.begin(&self.0);
        }
        outcome
    }
}

/// Something to renew.
struct Due {
    issuer: String,
    grant: String,
    owner: String,
    /// The stored token that is due, rather than its grant.
    token: Option<String>,
    /// Its text.
    given: Option<Secret>,
}

/// A renewal that is under way.
#[derive(Clone, Debug)]
struct Place {
    issuer: String,
    grant: String,
    owner: String,
}

/// What is due, and what is under way.
#[derive(Default)]
struct Renewals {
    due: Vec<Due>,
    tasks: JoinSet<Result<()>>,
    places: HashMap<Id, Place>,
}

impl Renewals {
    /// Finds what is due.
    async fn look(&mut self, inner: &Inner) -> Result<()> {
        let found = inner.catalog.due_secrets(now_ms(), TOKENS_RENEWED_MAX).await?;
        self.due.clear();
        for secret in found {
            match inner.due(&secret)? {
                Some(due) => self.due.push(due),
                // Nothing renews it any more: its issuer has left the configuration.
                None => inner.catalog.set_renewal(secret.kind, &secret.name, None).await?,
            }
        }
        Ok(())
    }

    /// Begins what has a place now. The rest keeps its order.
    fn begin(&mut self, inner: &Arc<Inner>) {
        for due in std::mem::take(&mut self.due) {
            if !has_place(self.places.values(), &due) {
                self.due.push(due);
                continue;
            }
            let place = Place {
                issuer: due.issuer.clone(),
                grant: due.grant.clone(),
                owner: due.owner.clone(),
            };
            let inner = Arc::clone(inner);
            let task = self.tasks.spawn(async move { inner.renew_one(due).await });
            self.places.insert(task.id(), place);
        }
    }

    /// Waits for the next renewal that ends; `None`: none is under way.
    async fn next_end(&mut self) -> Option<Result<()>> {
        let ended = self.tasks.join_next_with_id().await?;
        let (id, outcome) = match ended {
            Ok((id, outcome)) => (id, outcome),
            Err(panicked) => (panicked.id(), Ok(())),
        };
        self.places.remove(&id);
        Some(outcome)
    }
}

/// Whether there is a place for a renewal beside those under way: a user has as many places at an
/// issuer as are left for the others, and a grant is renewed once.
fn has_place<'a>(places: impl Iterator<Item = &'a Place> + Clone, due: &Due) -> bool {
    let mut at_issuer = places.filter(|place| place.issuer == due.issuer);
    let taken = at_issuer.clone().map(|place| place.owner == due.owner);
    share::is_left(ISSUER_CALLS_MAX, taken) && at_issuer.all(|place| place.grant != due.grant)
}

impl Inner {
    /// What is to be done about a secret that is due; `None`: nothing can renew it.
    fn due(&self, secret: &SealedSecret) -> Result<Option<Due>> {
        let due = match secret.kind {
            SecretKind::Token => {
                let given = self.vault.open_token(&secret.name, &secret.sealed)?;
                let facts = TokenFacts::of(&given);
                let named = facts.zip(secret.renewed_by.clone());
                named.map(|(facts, grant)| Due {
                    issuer: facts.issuer,
                    grant,
                    owner: secret.owner.clone(),
                    token: Some(secret.name.clone()),
                    given: Some(given),
                })
            }
            _ => self.open_grant(secret)?.map(|grant| Due {
                issuer: grant.issuer,
                grant: secret.name.clone(),
                owner: secret.owner.clone(),
                token: None,
                given: None,
            }),
        };
        Ok(due.filter(|due| self.issuers.contains_key(&due.issuer)))
    }

    /// Renews what is due. After a failure it waits until the issuer is asked again.
    async fn renew_one(&self, due: Due) -> Result<()> {
        let Some(source) = self.issuers.get(&due.issuer) else {
            return Ok(());
        };
        let is_fresh = match &due.token {
            None => false,
            Some(_) => {
                let grant = self.grant(&due.grant).await?;
                grant.is_some_and(|grant| grant.access(TOKEN_LEFT_MIN).is_some())
            }
        };
        let renewed = match is_fresh {
            true => Ok(Renewed::Done),
            false => self.renew(source, &due.grant, &due.owner, due.given.as_ref()).await,
        };
        let (kind, name) = match &due.token {
            Some(token) => (SecretKind::Token, token),
            None => (SecretKind::RefreshToken, &due.grant),
        };
        match renewed {
            Ok(Renewed::Done | Renewed::Refused(_)) if due.token.is_some() => {
                self.catalog.set_renewal(kind, name, None).await
            }
            Ok(_) => Ok(()),
            Err(_) => {
                let again_ms = now_ms() + milliseconds(source.pause_left(&due.owner));
                self.catalog.set_renewal(kind, name, Some(again_ms)).await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_a_slow_issuer_nor_a_user_with_many_grants_takes_the_places_of_others() {
        let mut places: Vec<Place> = Vec::new();
        let mut begin_all = |issuer: &str, owner: &str| {
            let before = places.len();
            for number in 0..100 {
                let due = Due {
                    issuer: issuer.to_owned(),
                    grant: format!("{owner} {number}"),
                    owner: owner.to_owned(),
                    token: None,
                    given: None,
                };
                // The same one twice.
                for _ in 0..2 {
                    if has_place(places.iter(), &due) {
                        let (issuer, grant, owner) = (due.issuer.clone(), due.grant.clone(), due.owner.clone());
                        places.push(Place { issuer, grant, owner });
                    }
                }
            }
            places.len() - before
        };
        assert_eq!(begin_all("slow", "alice"), ISSUER_CALLS_MAX / 2);
        assert_eq!(begin_all("slow", "bob"), ISSUER_CALLS_MAX / 4);
        assert!(begin_all("slow", "carol") > 0);
        assert_eq!(begin_all("other", "alice"), ISSUER_CALLS_MAX / 2);
    }
}
