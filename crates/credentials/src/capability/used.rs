//! The memory of capabilities for writing that were used: each counts once.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};

use crate::limits::{CAPABILITIES_USED_MAX, CAPABILITIES_USED_SHARE_MAX};
use types::{Error, ErrorCode, Phase, Side};

use super::Redeemed;
use crate::sealed::SEAL_SALT_BYTES;

type Id = [u8; SEAL_SALT_BYTES];

/// The bits of an IPv6 address that one client may choose.
const IPV6_HOST_BITS: u32 = 64;

/// Whose use it was: the holder's if it has a name, else that of an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum User {
    Named(Box<str>),
    At(IpAddr),
}

impl User {
    fn of(redeemed: &Redeemed, address: IpAddr) -> Self {
        match (&redeemed.capability.holder.subject, address.to_canonical()) {
            (Some(subject), _) => Self::Named(subject.as_str().into()),
            (None, IpAddr::V6(address)) => {
                let network = u128::from(address) >> IPV6_HOST_BITS << IPV6_HOST_BITS;
                Self::At(Ipv6Addr::from(network).into())
            }
            (None, address) => Self::At(address),
        }
    }
}

/// Capabilities that were used and have not expired. Bounded: while it is full no other is
/// honoured, because forgetting one that still holds would let it be used again. Each user has a
/// share of it, so that one alone does not fill it.
#[derive(Debug)]
pub struct UsedCapabilities {
    /// By time of expiry and name, in seconds since 1970.
    users: BTreeMap<(i64, Id), User>,
    /// How many of each user are remembered.
    shares: HashMap<User, usize>,
    most: usize,
    most_of_one: usize,
}

impl Default for UsedCapabilities {
    fn default() -> Self {
        Self::bounded(CAPABILITIES_USED_MAX, CAPABILITIES_USED_SHARE_MAX)
    }
}

impl UsedCapabilities {
    /// At most `most` in all, and `most_of_one` of one user.
    pub(super) fn bounded(most: usize, most_of_one: usize) -> Self {
        Self {
            users: BTreeMap::new(),
            shares: HashMap::new(),
            most,
            most_of_one,
        }
    }

    /// Notes the use of a capability at `now_s`, by a client at this address. Those for reading may
    /// be used again and are not noted.
    ///
    /// # Errors
    /// `capability_used` when it was used before; `overloaded` when too many are remembered, in all
    /// or of this user.
    pub fn note(&mut self, redeemed: &Redeemed, address: IpAddr, now_s: i64) -> Result<(), Error> {
        if redeemed.capability.usage.is_harmless() {
            return Ok(());
        }
        self.forget(now_s);
        let refused = |code| Error::new(code, Side::Client, Phase::Authenticate);
        if self.users.contains_key(&key(redeemed)) {
            return Err(refused(ErrorCode::CapabilityUsed));
        }
        let user = User::of(redeemed, address);
        let of_this_user = self.shares.get(&user).copied().unwrap_or(0);
        let full = if self.users.len() >= self.most {
            Some(format!("used capabilities: {}", self.most))
        } else {
            (of_this_user >= self.most_of_one).then(|| format!("used capabilities of one client: {}", self.most_of_one))
        };
        if let Some(detail) = full {
            return Err(refused(ErrorCode::Overloaded).with_detail(detail));
        }
        self.shares.insert(user.clone(), of_this_user + 1);
        self.users.insert(key(redeemed), user);
        Ok(())
    }

    /// The use of a capability has had no effect, and does not count.
    pub fn give_back(&mut self, redeemed: &Redeemed) {
        if let Some(user) = self.users.remove(&key(redeemed)) {
            self.release(&user);
        }
    }

    /// Forgets those that have expired.
    fn forget(&mut self, now_s: i64) {
        while let Some(oldest) = self.users.first_entry().filter(|oldest| oldest.key().0 <= now_s) {
            let user = oldest.remove();
            self.release(&user);
        }
    }

    fn release(&mut self, user: &User) {
        match self.shares.get_mut(user) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.shares.remove(user)),
        }
    }

    /// How many are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.users.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }
}

fn key(redeemed: &Redeemed) -> (i64, Id) {
    (redeemed.capability.expires_s, redeemed.id)
}
