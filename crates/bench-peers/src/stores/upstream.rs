//! Another server behind an export: passed on, cached, and far away.

use std::fs::File;
use std::time::{Duration, Instant, SystemTime};

use testkit::{Direction, Error, Result};

use super::fronts::Role;
use super::ranges::Ranges;
use super::{RTT_MS, TRANSFERS, Upstream, WINDOWS, Work};
use crate::root::{Security, Xrdcp};
use crate::server::{Kind, Scheme};
use crate::workload::{Bench, Pair, Sample};

/// How often a warm cache is read in one sample: it takes little time.
pub(super) const WARM_READS: u64 = 4;

/// How long ago files were changed.
const FILE_AGE: Duration = Duration::from_secs(1000);

/// The length of the file that many read at once: each sample leaves one in the cache.
pub(super) fn cold_bytes(size_bytes: u64) -> u64 {
    size_bytes / 4
}

impl Bench {
    /// Puts a file behind, without going through any server.
    pub(super) fn plant_at_origin(&mut self, name: &str, size_bytes: u64) -> Result<()> {
        self.store_site()?;
        let site = self.stores.site.as_mut();
        let site = site.ok_or_else(|| Error::Failed("nothing stands behind".to_owned()))?;
        let origin = site.origin(&mut self.lab)?;
        self.lab.plant(origin, name, size_bytes)?;
        // What has just changed may change again unseen, so that no cache should keep it.
        let file = File::options().write(true).open(origin.file(name))?;
        Ok(file.set_modified(SystemTime::now() - FILE_AGE)?)
    }

    /// A download through a server in between.
    pub(super) fn through(&mut self, kind: Kind, work: Work) -> Result<Sample> {
        let (size_bytes, name) = (self.size_bytes, "file");
        self.plant_at_origin(name, size_bytes)?;
        let mut front = self.front(kind, work.role())?;
        let url = front.url(name);
        let cost = match work {
            Work::DtnRoot => {
                // With page checksums XRootD's proxy reaches 5 MB/s.
                let xrdcp = Xrdcp::new(&self.lab, Security::Clear, 1)?.without_pages();
                let url = front.root_url(name)?;
                self.cost(&mut front, work, size_bytes, |_| {
                    xrdcp.copy(&url, "/dev/null").map(|()| size_bytes)
                })
            }
            Work::Cached => {
                self.warm(&front, name)?;
                let urls = vec![url; WARM_READS as usize];
                self.cost(&mut front, work, WARM_READS * size_bytes, |bench| {
                    bench.client.download(&[urls])
                })
            }
            _ => self.cost(&mut front, work, size_bytes, |bench| {
                bench.client.download(&[vec![url]])
            }),
        };
        self.put_front(kind, work.role(), front);
        self.keep(kind, work, cost)
    }

    /// Reads a file until nothing more comes from behind: what is written to the cache later than
    /// it was read has then been written.
    fn warm(&mut self, front: &super::Front, name: &str) -> Result<()> {
        let url = front.url(name);
        let passed = || {
            front
                .relay
                .as_ref()
                .map(|relay| relay.passed_bytes(Direction::ToClient))
        };
        for _ in 0..20 {
            let before = passed();
            self.client.download(&[vec![url.clone()]])?;
            // A look at the file alone takes a few hundred bytes.
            if let (Some(before), Some(after)) = (before, passed())
                && after - before < 100_000
            {
                return Ok(());
            }
        }
        Err(Error::Failed("the cache does not get warm".to_owned()))
    }

    /// The median time of a range from a warm cache divided by that from a server of the same kind
    /// with the file itself; and the first in milliseconds.
    pub(super) fn warm_ranges(&mut self, kind: Kind, pair: Option<&mut Pair>) -> Result<Sample> {
        let Some(pair) = pair else {
            return Err(Error::Failed("there is no server to compare with".to_owned()));
        };
        let (size_bytes, name) = (self.size_bytes, "file");
        self.plant_at_origin(name, size_bytes)?;
        self.lab.plant(&pair.first, name, size_bytes)?;
        let front = self.front(kind, Role::Cache)?;
        self.warm(&front, name)?;
        let ports = [front.port(), pair.first.http_port(Scheme::Http)?];
        let times = Ranges::new(format!("/data/{name}"), size_bytes).medians_ms(ports);
        self.put_front(kind, Role::Cache, front);
        let [cached, direct] = times?;
        Ok(Sample {
            first: cached / direct,
            second: cached,
        })
    }

    /// Many read a file at once that is not in the cache: what came from behind, divided by its
    /// size; and Gbit/s of all readers together.
    pub(super) fn cold_readers(&mut self, kind: Kind) -> Result<Sample> {
        let size_bytes = cold_bytes(self.size_bytes);
        let name = self.stores.next_name("cold");
        self.plant_at_origin(&name, size_bytes)?;
        let front = self.front(kind, Role::Cache)?;
        let urls = vec![vec![front.url(&name)]; TRANSFERS as usize];
        let passed = || {
            front
                .relay
                .as_ref()
                .map_or(0, |relay| relay.passed_bytes(Direction::ToClient))
        };
        let (before, began) = (passed(), Instant::now());
        let moved = self.client.download(&urls);
        let (elapsed, fetched) = (began.elapsed(), passed() - before);
        self.put_front(kind, Role::Cache, front);
        match moved? {
            moved if moved == size_bytes * TRANSFERS => Ok(Sample {
                first: fetched as f64 / size_bytes as f64,
                ..Sample::of_data(0.0, moved, elapsed)
            }),
            moved => Err(Error::Failed(format!("{moved} bytes were read"))),
        }
    }

    /// One download from far away, as a share of what the window allows; and MB/s.
    pub(super) fn far(&mut self, kind: Kind, upstream: Upstream) -> Result<Sample> {
        // The peers take minutes for all of it.
        let size_bytes = match kind {
            Kind::Crossload => self.size_bytes,
            _ => self.size_bytes / 16,
        };
        let name = format!("far-{size_bytes}");
        self.plant_at_origin(&name, size_bytes)?;
        let front = self.front(kind, Role::Far(upstream))?;
        let urls = [vec![front.url(&name)]];
        let began = Instant::now();
        let moved = self.client.download(&urls);
        let elapsed = began.elapsed().as_secs_f64();
        self.put_front(kind, Role::Far(upstream), front);
        let rate = moved? as f64 / elapsed;
        let allowed = (self.size_bytes / WINDOWS) as f64 * 1e3 / RTT_MS as f64;
        Ok(Sample {
            first: rate / allowed,
            second: rate / 1e6,
        })
    }
}
