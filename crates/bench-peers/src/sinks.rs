//! What monitoring adds to the processor time of a server when all of it is on: the log as JSON,
//! XRootD's packets, fireflies, metrics and pages.
//!
//! Two servers of ours get the same load in turns, so that a busy machine slows both. Each logs
//! every request, as by default. The packets are not read: the kernel drops them at the receiver,
//! where they cost the server nothing.

use std::net::UdpSocket;

use testkit::Result;

use crate::server::Scheme;
use crate::token::{Cost, TURNS};
use crate::workload::{Bench, GB, Pair, Sample};

/// Files of the largest size in all that a turn of downloads reads on each server.
const DOWNLOADED_FILES: u64 = 2;
/// Connections of downloads.
const CONNECTIONS: u64 = 4;
/// Turns of downloads, which are longer than those of requests.
const DOWNLOAD_TURNS: u32 = 5;
/// What is asked for in small requests.
const EMPTY: &str = "file";

/// What is asked of both servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// GET of large files.
    Downloads,
    /// HEAD, which opens no file.
    Heads,
    /// GET of empty files, which are opened and closed: monitoring says most about these.
    SmallDownloads,
}

impl Load {
    pub(crate) const ALL: [Self; 3] = [Self::Downloads, Self::Heads, Self::SmallDownloads];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Downloads => "GET https, 4 connections",
            Self::Heads => "HEAD https, 4 connections",
            Self::SmallDownloads => "GET https of empty files, 4 connections",
        }
    }
}

impl Bench {
    /// The server's processor time with all monitoring divided by that without, and the first for
    /// each GB in seconds, or for each request in microseconds.
    pub(crate) fn sinks(&mut self, load: Load) -> Result<Sample> {
        let receiver = UdpSocket::bind("127.0.0.1:0")?;
        let observed = self.lab.start_observed(receiver.local_addr()?)?;
        let mut servers = [self.lab.start_unobserved()?, observed];
        for server in &servers {
            self.lab.plant(server, EMPTY, 0)?;
        }
        let mut sums = [Cost::default(); 2];
        match load {
            Load::Downloads => {
                let mut pairs = servers.map(|first| Pair { first, second: None });
                for _ in 0..DOWNLOAD_TURNS {
                    for (pair, sum) in pairs.iter_mut().zip(&mut sums) {
                        sum.add(self.cost_of_downloads(pair)?);
                    }
                }
            }
            Load::Heads | Load::SmallDownloads => {
                let method = if load == Load::Heads { "HEAD" } else { "GET" };
                for _ in 0..TURNS {
                    for (server, sum) in servers.iter_mut().zip(&mut sums) {
                        sum.add(self.cost_of_requests(server, method, "")?);
                    }
                }
            }
        }
        let [without, with] = sums.map(Cost::cpu_of_one);
        Ok(Sample {
            first: with / without,
            second: match load {
                Load::Downloads => with,
                Load::Heads | Load::SmallDownloads => with * 1e6,
            },
        })
    }

    /// What downloads cost, for each GB.
    fn cost_of_downloads(&mut self, pair: &mut Pair) -> Result<Cost> {
        let sample = self.get(pair, Scheme::Https, CONNECTIONS)?;
        let gigabytes = (self.size_bytes * DOWNLOADED_FILES) as f64 / GB;
        Ok(Cost::of_data(gigabytes, sample.first * gigabytes))
    }
}
