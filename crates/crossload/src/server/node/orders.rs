//! What this server is used for: the stricter of what the configuration says and what an operator
//! has ordered, and from when on it is enforced.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use policy::Drain;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The version of the state file. Files without one have this version, too.
const STATE_VERSION: u64 = 1;
/// Longest state file that is read.
const STATE_BYTES_MAX: u64 = 64 * 1024;

/// An operator's order, as it is kept over restarts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) drain: Drain,
    /// Who gave it.
    pub(crate) ordered_by: String,
}

/// An order in its file.
#[derive(Serialize)]
struct Kept<'a> {
    version: u64,
    #[serde(flatten)]
    order: &'a Order,
}

/// What this server is used for.
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    pub(crate) configured: Drain,
    pub(crate) order: Order,
    grace: Duration,
    /// What is refused until the grace time is over, and when it began.
    before: Drain,
    since: Instant,
}

impl Orders {
    /// At the start of the process: no client was sent here before, so there is no grace time.
    pub(crate) fn new(configured: Drain, order: Order, grace: Duration) -> Self {
        Self {
            before: configured.max(order.drain),
            configured,
            order,
            grace,
            since: Instant::now(),
        }
    }

    /// How long clients that were already sent here are served.
    pub(crate) fn grace(&self) -> Duration {
        self.grace
    }

    /// What redirectors learn.
    pub(crate) fn told(&self) -> Drain {
        self.configured.max(self.order.drain)
    }

    /// What is refused at this time.
    pub(crate) fn enforced(&self, now: Instant) -> Drain {
        let told = self.told();
        match now.saturating_duration_since(self.since) >= self.grace {
            true => told,
            false => told.min(self.before),
        }
    }

    /// The same with another order, configuration and grace time. A stricter step begins with the
    /// grace time; one that is less strict holds at once.
    #[must_use]
    pub(crate) fn with(&self, configured: Drain, order: Order, grace: Duration, now: Instant) -> Self {
        let (before, told) = (self.enforced(now), self.told());
        let fresh = Self {
            configured,
            order,
            grace,
            before,
            since: now,
        };
        match fresh.told() == told {
            true => Self {
                before: self.before,
                since: self.since,
                ..fresh
            },
            false => fresh,
        }
    }
}

/// Reads the order that is kept in a file; there is none if the file is missing.
///
/// # Errors
/// The file cannot be read, holds something else, or is that of a later release.
pub(crate) fn load(file: &Path) -> Result<Order, Failure> {
    let about = |words: &str| Failure::invalid(format!("cluster.state_file {}: {words}", file.display()));
    match std::fs::metadata(file) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(Order::default()),
        Ok(facts) if facts.len() > STATE_BYTES_MAX => return Err(about("it is too long")),
        _ => {}
    }
    let text = std::fs::read_to_string(file)
        .map_err(|cause| Failure::system(format!("cluster.state_file {}", file.display()), &cause))?;
    let other = |_| about("it does not hold the state of a node; remove it, or restore it");
    let kept: serde_json::Value = serde_json::from_str(&text).map_err(other)?;
    match kept["version"].as_u64() {
        Some(version) if version > STATE_VERSION => Err(about(&format!(
            "a later release has written it: its version is {version}, ours is {STATE_VERSION}; install that release, \
             or remove the file, which ends the order of crossload node drain"
        ))),
        _ => serde_json::from_value(kept).map_err(other),
    }
}

/// Keeps an order: the file holds the old one or the new one, whatever happens.
///
/// # Errors
/// Those of the file system.
pub(crate) fn keep(file: &PathBuf, order: &Order) -> std::io::Result<()> {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let mut fresh = tempfile::NamedTempFile::new_in(parent)?;
    let kept = Kept {
        version: STATE_VERSION,
        order,
    };
    serde_json::to_writer(&mut fresh, &kept)?;
    fresh.write_all(b"\n")?;
    fresh.as_file().sync_all()?;
    fresh.persist(file).map_err(|error| error.error)?;
    std::fs::File::open(parent)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(5);

    fn order(drain: Drain) -> Order {
        Order {
            drain,
            ordered_by: "jane".to_owned(),
        }
    }

    #[test]
    fn a_stricter_step_is_told_at_once_and_enforced_after_the_grace_time() {
        let orders = Orders::new(Drain::Active, Order::default(), GRACE);
        let start = Instant::now();
        let orders = orders.with(Drain::Active, order(Drain::NoWrites), GRACE, start);
        assert_eq!(
            (orders.told(), orders.enforced(start)),
            (Drain::NoWrites, Drain::Active)
        );
        let later = start + GRACE;
        assert_eq!(orders.enforced(later), Drain::NoWrites);
        let orders = orders.with(Drain::Active, order(Drain::NoReads), GRACE, later);
        assert_eq!(
            (orders.told(), orders.enforced(later)),
            (Drain::NoReads, Drain::NoWrites)
        );
        // The same order again does not begin the time again.
        let orders = orders.with(Drain::Active, order(Drain::NoReads), GRACE, later + GRACE / 2);
        assert_eq!(orders.enforced(later + GRACE), Drain::NoReads);
        let orders = orders.with(Drain::Active, order(Drain::Active), GRACE, later + GRACE);
        assert_eq!(orders.enforced(later + GRACE), Drain::Active);
    }

    #[test]
    fn an_order_adds_to_the_configuration_and_holds_from_the_start() {
        let orders = Orders::new(Drain::NoWrites, order(Drain::Active), GRACE);
        assert_eq!(orders.told(), Drain::NoWrites);
        assert_eq!(orders.enforced(Instant::now()), Drain::NoWrites);
        let orders = Orders::new(Drain::Active, order(Drain::NoReads), GRACE);
        assert_eq!(orders.enforced(Instant::now()), Drain::NoReads);
    }

    #[test]
    fn an_order_is_kept_in_its_file() {
        let site = tempfile::tempdir().unwrap();
        let file = site.path().join("state");
        assert_eq!(load(&file).unwrap(), Order::default());
        keep(&file, &order(Drain::NoWrites)).unwrap();
        keep(&file, &order(Drain::NoReads)).unwrap();
        assert_eq!(load(&file).unwrap(), order(Drain::NoReads));
        assert_eq!(std::fs::read_dir(site.path()).unwrap().count(), 1);
        std::fs::write(&file, "no_reads").unwrap();
        assert!(load(&file).unwrap_err().words.contains("state of a node"));
        // As release 0.1 wrote it, and as a later release may write it.
        let text = r#""drain":"no_writes","ordered_by":"jane"}"#;
        std::fs::write(&file, format!("{{{text}")).unwrap();
        assert_eq!(load(&file).unwrap(), order(Drain::NoWrites));
        std::fs::write(&file, format!("{{\"version\":2,{text}")).unwrap();
        let words = load(&file).unwrap_err().words;
        assert!(words.contains("its version is 2, ours is 1"), "{words}");
        assert!(keep(&site.path().join("missing/state"), &order(Drain::Active)).is_err());
    }
}
