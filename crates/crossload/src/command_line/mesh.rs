//! Options of `mesh`.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use history::Mode;
use probe::mesh::{Protocol, Topology, mode};

use super::client::{Common, time};
use super::report::ReportOptions;

/// Where results go.
#[derive(Clone, Debug, Args)]
pub(crate) struct ResultOptions {
    /// Write the results to this file, as JSON
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    pub(crate) save: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reports: ReportOptions,
}

/// Options of `mesh`.
#[derive(Clone, Debug, Args)]
pub(crate) struct MeshOptions {
    /// File of endpoints, in TOML
    #[arg(required_unless_present = "init", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Print a commented example of such a file
    #[arg(long, conflicts_with = "file")]
    pub(crate) init: bool,
    /// Which pairs to try
    ///
    /// - full: each endpoint with each other
    /// - star:NAME: this one with each other
    /// - ring: each to the next one
    /// - sample:N: so many pairs, chosen at random
    #[arg(long, value_name = "PAIRS", default_value = "full", value_parser = topology, verbatim_doc_comment)]
    pub(crate) topology: Topology,
    /// Try only these protocols: http, root, s3 [default: those of the file]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = Protocol::from_name)]
    pub(crate) protocol: Vec<Protocol>,
    /// Copy only in these ways: pull, push, rendezvous, lite, streamed [default: those of the file]
    #[arg(long, value_name = "MODE,...", value_delimiter = ',', value_parser = mode)]
    pub(crate) mode: Vec<Mode>,
    /// Try only copies from or to the endpoints with these names or tags
    #[arg(long, value_name = "NAME|TAG,...", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Have the copies made by this transfer queue, ours or an FTS
    ///
    /// Each copy is a job. The queue chooses who is active, so that pull and rendezvous are the
    /// only modes. Default: the copies are ordered at the servers directly.
    #[arg(long, value_name = "URL", conflicts_with = "mode")]
    pub(crate) queue: Option<String>,
    /// Report to this transfer queue what each endpoint has shown that it can do
    ///
    /// It must be ours, and you one of its operators. The queue remembers it as if its own copies
    /// had shown it. Default: no queue hears of it.
    #[arg(long, value_name = "URL", conflicts_with_all = ["queue", "dry_run"])]
    pub(crate) capabilities_to: Option<String>,
    /// Print what would be tried, and what not and why
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Run again and again, at this interval: 30m, 1h
    ///
    /// Each run but the first begins up to a tenth of the interval late, by chance. A run that
    /// takes longer than the interval is followed by the next one that would be due.
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "dry_run")]
    pub(crate) every: Option<Duration>,
    #[command(flatten)]
    pub(crate) results: ResultOptions,
    #[command(flatten)]
    pub(crate) common: Common,
}

pub(super) fn topology(text: &str) -> Result<Topology, String> {
    let unknown = || "not one of full, star:NAME, ring, sample:N".to_owned();
    match text.split_once(':') {
        None if text == "full" => Ok(Topology::Full),
        None if text == "ring" => Ok(Topology::Ring),
        Some(("star", centre)) if !centre.is_empty() => Ok(Topology::Star {
            centre: centre.to_owned(),
        }),
        Some(("sample", pairs)) => {
            // The same pairs are chosen again by `sample:N:SEED`.
            let (pairs, seed) = pairs.split_once(':').unwrap_or((pairs, ""));
            let seed = match seed {
                "" => SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .map_or(0, |since| since.as_secs()),
                seed => seed.parse().map_err(|_| unknown())?,
            };
            let pairs = pairs.parse().map_err(|_| unknown())?;
            Ok(Topology::Sample { pairs, seed })
        }
        _ => Err(unknown()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topologies_have_their_words() {
        assert_eq!(topology("full"), Ok(Topology::Full));
        assert_eq!(topology("ring"), Ok(Topology::Ring));
        assert_eq!(topology("star:A"), Ok(Topology::Star { centre: "A".to_owned() }));
        assert_eq!(topology("sample:9:3"), Ok(Topology::Sample { pairs: 9, seed: 3 }));
        assert!(matches!(topology("sample:9"), Ok(Topology::Sample { pairs: 9, .. })));
        for wrong in ["", "star", "star:", "sample:x", "sample:1:x", "tree"] {
            topology(wrong).unwrap_err();
        }
    }
}
