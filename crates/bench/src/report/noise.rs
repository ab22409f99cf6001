//! Whether figures can be believed: by how far samples of one row lie apart, and by how busy the
//! machine was with others.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::Table;
use crate::machine::{self, ProcessorTime};

/// Above this ratio of the largest to the smallest sample, a row says little.
pub const SPREAD_MAX: f64 = 1.5;
/// Above this share of the processors, others disturb.
const OTHERS_MAX: f64 = 0.10;
/// Above this share, the host of a virtual machine disturbs.
const STOLEN_MAX: f64 = 0.02;
/// Above this share, the client itself may be what is measured.
const OWN_MAX: f64 = 0.25;
/// A shorter run is not judged by the processors: their clock ticks in hundredths of a second.
const JUDGED_MIN_S: f64 = 0.5;

/// What was done with the processors of this machine during a run, each a share from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Shares {
    others: f64,
    stolen: f64,
    own: f64,
}

/// How quiet it was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Whether the figures should be taken with care, or not at all.
    pub noisy: bool,
    /// Share of this machine's processors (0 to 1) that others used: neither this program nor a
    /// server whose process is known.
    pub others: Option<f64>,
    /// Share that the host of this virtual machine took.
    pub stolen: Option<f64>,
    /// Share that this program used itself.
    pub own: Option<f64>,
    /// Rows whose samples lie too far apart, of all rows with more than one sample.
    pub noisy_rows: usize,
    /// Rows with more than one sample.
    pub rows: usize,
    /// All this in sentences.
    pub words: Vec<String>,
}

/// Watches the processors during a run.
#[derive(Debug)]
pub struct NoiseMeter {
    began: Instant,
    before: Option<ProcessorTime>,
    ours: f64,
    /// Servers on this machine whose processes are known, with what they had used at the beginning.
    servers: Vec<(u32, f64)>,
    /// Whether a server may be on this machine without its process being known.
    strangers: bool,
}

impl NoiseMeter {
    /// Begins. `servers` are processes here; `strangers`: a target on this machine has an unknown
    /// process, so that its work cannot be separated from other programs'.
    #[must_use]
    pub fn start(servers: &[u32], strangers: bool) -> Self {
        let used = |process: &u32| Some((*process, machine::cpu_seconds(*process)?));
        Self {
            began: Instant::now(),
            before: ProcessorTime::now(),
            ours: own_seconds(),
            servers: servers.iter().filter_map(used).collect(),
            strangers,
        }
    }

    /// Ends, and judges what was measured meanwhile.
    #[must_use]
    pub fn finish(&self, tables: &[Table]) -> Noise {
        let shares = (self.began.elapsed().as_secs_f64() >= JUDGED_MIN_S)
            .then(|| self.shares())
            .flatten();
        Noise::judge(shares, self.strangers, tables)
    }

    fn shares(&self) -> Option<Shares> {
        let (before, now) = (self.before?, ProcessorTime::now()?);
        let busy = now.busy_s - before.busy_s;
        let stolen = now.stolen_s - before.stolen_s;
        let all = busy + stolen + now.idle_s - before.idle_s;
        let of_servers = self.servers.iter();
        let known: f64 = of_servers
            .filter_map(|(process, used)| Some(machine::cpu_seconds(*process)? - used))
            .sum();
        let own = own_seconds() - self.ours;
        let others = busy - known - own;
        let share = |seconds: f64| (seconds / all).clamp(0.0, 1.0);
        (all > 0.0).then(|| Shares {
            others: share(others),
            stolen: share(stolen),
            own: share(own),
        })
    }
}

fn own_seconds() -> f64 {
    machine::cpu_seconds(std::process::id()).unwrap_or(0.0)
}

impl Noise {
    fn judge(shares: Option<Shares>, strangers: bool, tables: &[Table]) -> Self {
        let rows = tables.iter().flat_map(|table| &table.rows);
        let repeated: Vec<_> = rows.filter(|row| row.samples.len() > 1).collect();
        let mut noise = Self {
            others: shares.map(|shares| shares.others),
            stolen: shares.map(|shares| shares.stolen),
            own: shares.map(|shares| shares.own),
            rows: repeated.len(),
            noisy_rows: repeated.iter().filter(|row| row.is_noisy()).count(),
            ..Self::default()
        };
        noise.judge_spread();
        match shares {
            Some(shares) => noise.judge_shares(shares, strangers),
            None => noise
                .words
                .push("How busy the machine was with other things is not known.".to_owned()),
        }
        let judged = shares.is_some() && !strangers;
        if judged && !noise.noisy && noise.rows > 0 {
            noise
                .words
                .insert(0, "It was quiet: the figures can be compared.".to_owned());
        }
        noise
    }

    fn judge_spread(&mut self) {
        let (noisy, rows) = (self.noisy_rows, self.rows);
        if rows == 0 {
            let words = "Nothing was measured twice, so the spread is unknown; give more repetitions.";
            return self.words.push(words.to_owned());
        }
        let apart = format!("more than {SPREAD_MAX} times the smallest");
        if noisy > 0 {
            self.words.push(format!(
                "In {noisy} of {rows} rows the largest sample is {apart}: they are marked noisy, and too uncertain to \
                 tell small differences."
            ));
        }
        // One row may have bad luck; when it is every fourth, something is wrong.
        self.noisy = noisy * 4 >= rows;
    }

    fn judge_shares(&mut self, shares: Shares, strangers: bool) {
        let Shares { others, stolen, own } = shares;
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        if strangers {
            self.words.push(format!(
                "Other programs used {} of the processors, servers on this machine among them; name these \
                 with --pid to separate them from disturbances.",
                percent(others)
            ));
        } else if others > OTHERS_MAX {
            self.noisy = true;
            self.words.push(format!(
                "Other programs used {} of this machine's processors: it was too noisy to tell. Repeat this when \
                 nothing else runs.",
                percent(others)
            ));
        } else {
            self.words.push(format!(
                "Other programs used {} of this machine's processors.",
                percent(others)
            ));
        }
        if own > OWN_MAX {
            self.words.push(format!(
                "This client itself used {} of this machine's processors: a rate may be the client's, and the server's \
                 processor time tells more.",
                percent(own)
            ));
        }
        if stolen > STOLEN_MAX {
            self.noisy = true;
            self.words.push(format!(
                "The host of this virtual machine kept {} of the processors for others: it was too noisy to tell.",
                percent(stolen)
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Better, Parameters};

    fn table(rows: &[&[f64]]) -> Vec<Table> {
        let mut table = Table::new("Throughput", "Gbit/s", Better::More);
        for (index, samples) in rows.iter().enumerate() {
            let row = table.row("se", &index.to_string(), &Parameters::new());
            samples.iter().for_each(|sample| row.add(*sample));
        }
        vec![table]
    }

    fn shares(others: f64, stolen: f64) -> Option<Shares> {
        Some(Shares {
            others,
            stolen,
            own: 0.0,
        })
    }

    #[test]
    fn samples_far_apart_are_noisy_however_quiet_the_machine() {
        let calm = Noise::judge(shares(0.01, 0.0), false, &table(&[&[1.0, 1.4], &[2.0, 2.1]]));
        assert!(!calm.noisy && calm.noisy_rows == 0, "{calm:?}");
        assert!(calm.words[0].contains("quiet"), "{calm:?}");
        let wild = Noise::judge(shares(0.01, 0.0), false, &table(&[&[1.0, 1.6], &[2.0, 2.1]]));
        assert!(wild.noisy && (wild.noisy_rows, wild.rows) == (1, 2), "{wild:?}");
    }

    #[test]
    fn one_of_many_rows_does_not_spoil_the_others() {
        let rows: [&[f64]; 5] = [&[1.0, 2.0], &[1.0, 1.0], &[1.0, 1.0], &[1.0, 1.0], &[1.0, 1.0]];
        let noise = Noise::judge(None, false, &table(&rows));
        assert!(!noise.noisy && noise.noisy_rows == 1, "{noise:?}");
    }

    #[test]
    fn a_busy_machine_and_a_greedy_host_are_told() {
        let quiet = table(&[&[1.0, 1.0]]);
        let busy = Noise::judge(shares(0.34, 0.0), false, &quiet);
        assert!(
            busy.noisy && busy.words.iter().any(|words| words.contains("34 %")),
            "{busy:?}"
        );
        let stolen = Noise::judge(shares(0.0, 0.2), false, &quiet);
        assert!(
            stolen.noisy && stolen.words.iter().any(|words| words.contains("host")),
            "{stolen:?}"
        );
    }

    #[test]
    fn the_work_of_servers_here_is_not_taken_for_a_disturbance() {
        let noise = Noise::judge(shares(0.5, 0.0), true, &table(&[&[1.0, 1.0]]));
        assert!(
            !noise.noisy && noise.words.iter().any(|words| words.contains("--pid")),
            "{noise:?}"
        );
    }

    #[test]
    fn a_client_at_its_limit_is_told() {
        let own = |own: f64| {
            Noise::judge(
                Some(Shares {
                    own,
                    ..Shares::default()
                }),
                false,
                &table(&[&[1.0, 1.0]]),
            )
        };
        let tells = |noise: &Noise| noise.words.iter().any(|words| words.contains("client itself"));
        assert!(tells(&own(0.5)) && !own(0.5).noisy);
        assert!(!tells(&own(0.1)));
    }

    #[test]
    fn a_single_sample_tells_nothing_about_noise() {
        let noise = Noise::judge(None, false, &table(&[&[1.0]]));
        assert!(noise.rows == 0 && noise.words[0].contains("repetitions"), "{noise:?}");
    }

    #[test]
    fn a_meter_of_a_moment_does_not_judge_the_processors() {
        let noise = NoiseMeter::start(&[std::process::id()], false).finish(&table(&[&[1.0, 1.0]]));
        assert_eq!((noise.others, noise.stolen), (None, None));
    }
}
