//! What a credential grants, in one form for every kind of credential.

use std::net::IpAddr;

use types::{Error, LogicalPath};

use crate::activity::Activities;
use crate::address::AddressRange;
use crate::caveat::Caveat;
use crate::exception::Exception;
use crate::invalid_token;

/// Activities allowed on a path and what is below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// What may be done.
    pub activities: Activities,
    /// Where: this path and everything below it.
    pub path: LogicalPath,
    /// Only what is below the path and not the path itself: the scope of a token ended in a slash
    /// (WLCG Common JWT Profiles §2.2.1).
    pub inside_only: bool,
}

impl Scope {
    /// Whether its activities may be done on that very path.
    #[must_use]
    pub fn covers(&self, path: &LogicalPath) -> bool {
        path.is_within(&self.path) && !(self.inside_only && *path == self.path)
    }
}

/// What a credential grants. Scopes add up, everything else restricts all of them.
///
/// A macaroon yields at most one scope. There is a list because a bearer token with several
/// `storage.` scopes is a list of such pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What may be done where; nothing when empty.
    pub scopes: Vec<Scope>,
    /// Valid before this time, in seconds since 1970; `None`: it does not expire.
    pub expires_s: Option<i64>,
    /// The client's address must be in each of these lists.
    pub addresses: Vec<Vec<AddressRange>>,
    /// No single upload above this many bytes.
    pub max_upload_bytes: Option<u64>,
    /// Where some of it is not granted.
    pub except: Vec<Exception>,
    /// For whom it was issued, when it says so.
    pub subject: Option<String>,
}

impl Grant {
    /// Intersects all caveats of a macaroon, in the order in which they stand.
    ///
    /// Without an `activity:` caveat everything is granted, without `path:` everywhere: a macaroon
    /// is a power that caveats only narrow. Anybody who holds one can append caveats, so those that
    /// say who the bearer is count only in front of the first restriction, where the issuer put
    /// them; later ones have to repeat the same.
    ///
    /// # Errors
    /// `invalid_token` when a later caveat claims another identity.
    pub fn from_caveats(caveats: &[Caveat]) -> Result<Self, Error> {
        let mut grant = Self {
            scopes: Vec::new(),
            expires_s: None,
            addresses: Vec::new(),
            max_upload_bytes: None,
            except: Vec::new(),
            subject: None,
        };
        let mut activities = Activities::ALL;
        let mut path = Some(LogicalPath::root());
        let leading = caveats.iter().take_while(|caveat| caveat.is_identity()).count();
        for (index, caveat) in caveats.iter().enumerate() {
            match caveat {
                Caveat::Activity(only) => activities = activities.intersection(*only),
                Caveat::Path(only) => path = path.and_then(|current| narrower(current, only)),
                Caveat::Before(time_s) => {
                    grant.expires_s = Some(grant.expires_s.map_or(*time_s, |old| old.min(*time_s)))
                }
                Caveat::Address(ranges) => grant.addresses.push(ranges.clone()),
                Caveat::MaxUpload(size_bytes) => {
                    grant.max_upload_bytes =
                        Some(grant.max_upload_bytes.map_or(*size_bytes, |old| old.min(*size_bytes)));
                }
                Caveat::Except(exception) => grant.except.push(exception.clone()),
                Caveat::Name(_) | Caveat::Id(_) | Caveat::IssueId(_) => {
                    check_identity(&caveats[..leading], index, caveat)?;
                }
            }
        }
        grant.subject = subject_of(&caveats[..leading]);
        if let Some(path) = path.filter(|_| !activities.is_empty()) {
            grant.scopes.push(Scope {
                activities,
                path,
                inside_only: false,
            });
        }
        Ok(grant)
    }

    /// What is granted on that very path (not on the directories above it).
    #[must_use]
    pub fn activities_on(&self, path: &LogicalPath) -> Activities {
        self.named_on(path).without(self.excepted_on(path.as_str()))
    }

    /// The same, with what is excepted there.
    #[must_use]
    pub fn named_on(&self, path: &LogicalPath) -> Activities {
        let scopes = self.scopes.iter().filter(|scope| scope.covers(path));
        scopes.fold(Activities::NONE, |all, scope| all.union(scope.activities))
    }

    /// What is not granted on a path, in its plain form, that need not be one that can exist.
    #[must_use]
    pub fn excepted_on(&self, path: &str) -> Activities {
        let except = self.except.iter().filter(|exception| exception.holds(path));
        except.fold(Activities::NONE, |all, exception| all.union(exception.activities))
    }

    /// What is granted on something below that path: such activities imply stat and mkdir on it.
    #[must_use]
    pub fn activities_below(&self, path: &LogicalPath) -> Activities {
        self.scopes
            .iter()
            .filter(|scope| scope.path.is_within(path))
            .fold(Activities::NONE, |all, scope| {
                all.union(scope.activities.without(self.excepted_on(scope.path.as_str())))
            })
    }

    /// Whether the time of validity is over at `now_s`.
    #[must_use]
    pub fn is_expired(&self, now_s: i64) -> bool {
        self.expires_s.is_some_and(|expires_s| now_s >= expires_s)
    }

    /// Whether it may be used from that address.
    #[must_use]
    pub fn admits(&self, address: IpAddr) -> bool {
        self.addresses
            .iter()
            .all(|ranges| ranges.iter().any(|range| range.contains(address)))
    }
}

/// The deeper of two paths when one holds the other; `None` when nothing lies in both.
fn narrower(current: LogicalPath, only: &LogicalPath) -> Option<LogicalPath> {
    if current.is_within(only) {
        Some(current)
    } else if only.is_within(&current) {
        Some(only.clone())
    } else {
        None
    }
}

fn check_identity(leading: &[Caveat], index: usize, caveat: &Caveat) -> Result<(), Error> {
    let first = leading
        .iter()
        .position(|said| std::mem::discriminant(said) == std::mem::discriminant(caveat));
    match first {
        Some(place) if place == index || leading[place] == *caveat => Ok(()),
        _ => Err(invalid_token(
            "a caveat of the macaroon claims another identity than its issuer gave",
        )),
    }
}

fn subject_of(leading: &[Caveat]) -> Option<String> {
    leading.iter().find_map(|caveat| match caveat {
        Caveat::Name(subject) | Caveat::Id(subject) => Some(subject.clone()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::ErrorCode;

    fn grant(caveats: &[&str]) -> Result<Grant, Error> {
        let caveats: Vec<Caveat> = caveats.iter().map(|text| Caveat::parse(text).unwrap()).collect();
        Grant::from_caveats(&caveats)
    }

    fn path(text: &str) -> LogicalPath {
        LogicalPath::parse(text).unwrap()
    }

    #[test]
    fn caveats_intersect() {
        let grant = grant(&[
            "name:jdoe",
            "activity:UPLOAD,DELETE,LIST",
            "activity:UPLOAD,LIST,DOWNLOAD",
            "path:/data",
            "path:/data/a",
            "path:/",
            "before:1970-01-01T00:02:00Z",
            "before:1970-01-01T00:01:00Z",
            "max-upload:5",
            "max-upload:9",
        ])
        .unwrap();
        assert_eq!(grant.scopes.len(), 1);
        assert_eq!(grant.scopes[0].activities.to_string(), "LIST,UPLOAD");
        assert_eq!(grant.scopes[0].path, path("/data/a"));
        assert_eq!((grant.expires_s, grant.max_upload_bytes), (Some(60), Some(5)));
        assert_eq!(grant.subject.as_deref(), Some("jdoe"));
        assert!(
            grant.activities_on(&path("/data/ab")).is_empty() && !grant.activities_below(&path("/data")).is_empty()
        );
        assert!(!grant.is_expired(59) && grant.is_expired(60));
    }

    #[test]
    fn what_excludes_itself_grants_nothing() {
        assert!(grant(&["path:/a", "path:/b"]).unwrap().scopes.is_empty());
        assert!(grant(&["path:/a", "path:/b", "path:/a"]).unwrap().scopes.is_empty());
        assert!(grant(&["activity:LIST", "activity:UPLOAD"]).unwrap().scopes.is_empty());
    }

    #[test]
    fn every_address_list_must_hold_the_client() {
        let grant = grant(&["ip:192.0.2.0/24,198.51.100.1", "ip:192.0.2.7"]).unwrap();
        assert!(grant.admits("192.0.2.7".parse().unwrap()));
        assert!(!grant.admits("192.0.2.8".parse().unwrap()) && !grant.admits("198.51.100.1".parse().unwrap()));
    }

    #[test]
    fn an_identity_cannot_be_appended() {
        for bad in [
            &["path:/a", "name:root"][..],
            &["name:jdoe", "path:/a", "name:root"],
            &["name:jdoe", "name:root"],
        ] {
            assert_eq!(grant(bad).unwrap_err().code(), ErrorCode::InvalidToken, "{bad:?}");
        }
        assert!(grant(&["iid:1", "name:jdoe", "path:/a", "name:jdoe"]).is_ok());
    }
}
