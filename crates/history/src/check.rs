//! What has become worse or better over the runs of a title.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::blame::{Role, Subject, Verdict};
use crate::change::{Change, Threshold, VALUES_MAX, change};
use crate::model::{Instrument, Link, Wish};
use crate::standing::{Condition, Counts, RunVerdict};
use crate::store::{FigureSeries, LinkRun, LinkSeries, Store, StoreError};
use crate::times::minute;

/// What is looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Watched {
    /// A figure of a benchmark.
    Figure {
        /// What was measured.
        name: String,
    },
    /// The share of an endpoint's copies that fail.
    EndpointFailures {
        /// The name of the endpoint.
        endpoint: String,
        /// As which end.
        role: Role,
    },
    /// The share of a link's copies that fail.
    LinkFailures {
        /// The link.
        link: Link,
    },
    /// The time of a copy over a link.
    LinkTime {
        /// The link.
        link: Link,
    },
}

impl fmt::Display for Watched {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Figure { name } => formatter.write_str(name),
            Self::EndpointFailures { endpoint, role } => match role {
                Role::Both => write!(formatter, "failures of {endpoint}"),
                Role::Source => write!(formatter, "failures of {endpoint} as a source"),
                Role::Destination => write!(formatter, "failures of {endpoint} as a destination"),
            },
            Self::LinkFailures { link } => write!(formatter, "failures of {}", named(link)),
            Self::LinkTime { link } => write!(formatter, "copies over {}", named(link)),
        }
    }
}

/// A link in one line: `A → B, https, pull, token`.
fn named(link: &Link) -> String {
    let protocols = match link.source_protocol == link.destination_protocol {
        true => link.source_protocol.clone(),
        false => format!("{} to {}", link.source_protocol, link.destination_protocol),
    };
    format!(
        "{} → {}, {protocols}, {}, {}",
        link.source,
        link.destination,
        link.mode.name(),
        link.credential
    )
}

/// Something that has changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shift {
    /// The instrument of the runs.
    pub instrument: Instrument,
    /// Their title.
    pub title: String,
    /// What has changed.
    pub watched: Watched,
    /// Whether it is worse now.
    pub is_worse: bool,
    /// The begin of the first run after the change, in milliseconds since 1970.
    pub since_ms: u64,
    /// Runs after the change.
    pub runs: u64,
    /// The median before.
    pub before: f64,
    /// The median after.
    pub after: f64,
    /// The unit of both.
    pub unit: String,
    /// The probability that a check of unchanged runs reports such a change.
    pub probability: f64,
}

impl fmt::Display for Shift {
    /// Such as `worse since 2026-11-29 03:00 UTC: download, GET https: 9.25 → 7.1 Gbit/s (-23 %)`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.is_worse { "worse" } else { "better" };
        let (since, unit) = (minute(self.since_ms), &self.unit);
        write!(formatter, "{word} since {since}: {}: ", self.watched)?;
        write!(formatter, "{} → {} {unit}", short(self.before), short(self.after))?;
        // A part of a share would be misread as a share.
        if self.before > 0.0 && unit != PERCENT {
            write!(formatter, " ({:+.0} %)", (self.after / self.before - 1.0) * 100.0)?;
        }
        Ok(())
    }
}

/// A number with three digits that matter.
fn short(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// The unit of shares of failures.
const PERCENT: &str = "%";

/// How much must change before it is reported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Of figures.
    pub figures: Threshold,
    /// Of times of copies, in milliseconds.
    pub times: Threshold,
    /// Of shares of failures, in per cent.
    pub failures: Threshold,
}

impl Default for Thresholds {
    /// 5 % of a figure; a quarter of a time, and 20 ms; ten of a hundred copies.
    fn default() -> Self {
        Self {
            figures: Threshold {
                relative: 0.05,
                absolute: 0.0,
            },
            times: Threshold {
                relative: 0.25,
                absolute: 20.0,
            },
            failures: Threshold {
                relative: 0.0,
                absolute: 10.0,
            },
        }
    }
}

/// One thing over the runs.
struct Series {
    watched: Watched,
    points: Vec<Point>,
    unit: String,
    wish: Wish,
    threshold: Threshold,
}

#[derive(Clone, Copy)]
struct Point {
    started_ms: u64,
    value: f64,
}

/// What has changed over the runs of an instrument with a title; the worst first. If an endpoint
/// fails more often, its links are not listed for their failures: they are no news beside it.
///
/// # Errors
/// The history cannot be read, or is damaged.
pub fn check(
    store: &Store,
    instrument: Instrument,
    title: &str,
    thresholds: Thresholds,
) -> Result<Vec<Shift>, StoreError> {
    let mut all: Vec<Series> = Vec::new();
    let figures = store.figures(instrument, title)?;
    all.extend(figures.iter().map(|figure| of_figure(figure, thresholds)));
    let verdicts = store.verdicts(instrument, title, 0)?;
    let newest = verdicts.len().saturating_sub(VALUES_MAX);
    all.extend(of_endpoints(&verdicts[newest..], thresholds));
    for link in store.link_runs(instrument, title, VALUES_MAX as u64)? {
        all.extend(of_link(&link, thresholds));
    }
    let count = all.len();
    let mut shifts: Vec<Shift> = all
        .iter()
        .filter_map(|series| {
            let values: Vec<f64> = series.points.iter().map(|point| point.value).collect();
            let found = change(&values, series.threshold, count)?;
            Some(series.shift(instrument, title, &found))
        })
        .collect();
    let endpoints: Vec<Watched> = shifts.iter().map(|shift| shift.watched.clone()).collect();
    shifts.retain(|shift| !is_explained(&shift.watched, &endpoints));
    shifts.sort_by(|one, other| {
        let order = (other.is_worse, &one.watched).cmp(&(one.is_worse, &other.watched));
        order.then(one.since_ms.cmp(&other.since_ms))
    });
    Ok(shifts)
}

fn is_explained(watched: &Watched, all: &[Watched]) -> bool {
    let Watched::LinkFailures { link } = watched else {
        return false;
    };
    all.iter().any(|other| match other {
        Watched::EndpointFailures { endpoint, role } => match role {
            Role::Both => false,
            Role::Source => *endpoint == link.source,
            Role::Destination => *endpoint == link.destination,
        },
        _ => false,
    })
}

impl Series {
    fn shift(&self, instrument: Instrument, title: &str, found: &Change) -> Shift {
        let has_grown = found.after > found.before;
        Shift {
            instrument,
            title: title.to_owned(),
            watched: self.watched.clone(),
            is_worse: has_grown == (self.wish == Wish::Lower),
            since_ms: self.points[found.at].started_ms,
            runs: found.values_after as u64,
            before: found.before,
            after: found.after,
            unit: self.unit.clone(),
            probability: found.probability,
        }
    }
}

fn of_figure(figure: &FigureSeries, thresholds: Thresholds) -> Series {
    let points = figure.points.iter().map(|point| Point {
        started_ms: point.started_ms,
        value: point.value,
    });
    Series {
        watched: Watched::Figure {
            name: figure.name.clone(),
        },
        points: points.collect(),
        unit: figure.unit.clone(),
        wish: figure.wish,
        threshold: thresholds.figures,
    }
}

/// The shares of failures of each endpoint, as a source and as a destination, in the runs in which
/// it was at fault; in the others it is 0, whatever its partners did.
fn of_endpoints(verdicts: &[RunVerdict], thresholds: Thresholds) -> Vec<Series> {
    let mut all: BTreeMap<(&str, Role), Vec<Point>> = BTreeMap::new();
    for verdict in verdicts {
        let tried = verdict
            .endpoints
            .iter()
            .filter(|one| one.condition != Condition::InDowntime);
        for one in tried {
            for role in [Role::Source, Role::Destination] {
                let Some(failed) = failed_percent(one.counts, role) else {
                    continue;
                };
                let value = if is_at_fault(verdict, &one.name, role) {
                    failed
                } else {
                    0.0
                };
                let started_ms = verdict.started_ms;
                let points = all.entry((&one.name, role)).or_default();
                points.push(Point { started_ms, value });
            }
        }
    }
    let series = all.into_iter().map(|((endpoint, role), points)| Series {
        watched: Watched::EndpointFailures {
            endpoint: endpoint.to_owned(),
            role,
        },
        points,
        unit: PERCENT.to_owned(),
        wish: Wish::Lower,
        threshold: thresholds.failures,
    });
    series.collect()
}

fn is_at_fault(verdict: &RunVerdict, endpoint: &str, role: Role) -> bool {
    verdict.findings.iter().any(|finding| {
        let is_it = |subject: &Subject| match subject {
            Subject::Endpoint { name, role: own, .. } => name == endpoint && (*own == Role::Both || *own == role),
            _ => false,
        };
        finding.verdict == Verdict::Named && finding.slow.is_none() && is_it(&finding.subject)
    })
}

fn failed_percent(counts: Counts, role: Role) -> Option<f64> {
    let (tried, failed) = match role {
        Role::Destination => (counts.tried_as_destination, counts.failed_as_destination),
        _ => (counts.tried_as_source, counts.failed_as_source),
    };
    (tried > 0).then(|| failed as f64 / tried as f64 * 100.0)
}

/// A link's share of failures, and the time of its copies.
fn of_link(link: &LinkSeries<LinkRun>, thresholds: Thresholds) -> [Series; 2] {
    let points = |value: fn(&LinkRun) -> Option<f64>| {
        let points = link.points.iter().filter_map(|(started_ms, run)| {
            Some(Point {
                started_ms: *started_ms,
                value: value(run)?,
            })
        });
        points.collect()
    };
    let own = || link.link.clone();
    [
        Series {
            watched: Watched::LinkFailures { link: own() },
            points: points(|run| Some(run.failed_share * 100.0)),
            unit: PERCENT.to_owned(),
            wish: Wish::Lower,
            threshold: thresholds.failures,
        },
        Series {
            watched: Watched::LinkTime { link: own() },
            points: points(|run| run.copy_ms.map(|time| time as f64)),
            unit: "ms".to_owned(),
            wish: Wish::Lower,
            threshold: thresholds.times,
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::Mesh;
    use crate::model::{Figure, Run};
    use types::Side;

    const HOUR_MS: u64 = 3_600_000;
    /// 2026-01-01.
    const BEGIN_MS: u64 = 1_767_225_600_000;

    fn stored(runs: impl Iterator<Item = Run>) -> (tempfile::TempDir, Store) {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::open(&directory.path().join("history.sqlite")).unwrap();
        for run in runs {
            store.add(&run).unwrap();
        }
        (directory, store)
    }

    fn said(store: &Store, instrument: Instrument) -> Vec<String> {
        let found = check(store, instrument, "testbed", Thresholds::default()).unwrap();
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_bad_endpoint_and_a_slow_link_are_found_and_nothing_else() {
        let mut random = fastrand::Rng::with_seed(3);
        let mesh = Mesh::full(5);
        let runs = (0..60).map(|hour| {
            let mut run = mesh.run(BEGIN_MS + hour * HOUR_MS, |link| {
                let is_bad = hour >= 50 && link.destination == "site-03";
                (is_bad || random.f64() < 0.02).then_some(Side::Destination)
            });
            for cell in &mut run.cells {
                let is_slow = hour >= 45 && cell.link.source == "site-00" && cell.link.destination == "site-01";
                cell.copy_ms = random.u64(80..120) * if is_slow { 3 } else { 1 };
            }
            run
        });
        let (_directory, store) = stored(runs.collect::<Vec<_>>().into_iter());
        let said = said(&store, Instrument::Mesh);
        assert_eq!(said.len(), 3, "{said:#?}");
        let endpoint = "worse since 2026-01-03 02:00 UTC: failures of site-03 as a destination: 0.000 → 100 %";
        assert_eq!(said[0], endpoint);
        for (said, protocol) in said[1..].iter().zip(["https", "roots"]) {
            let link = format!("worse since 2026-01-02 21:00 UTC: copies over site-00 → site-01, {protocol}, pull");
            assert!(said.starts_with(&link), "{said}");
        }
    }

    #[test]
    fn a_figure_is_worse_or_better_by_its_wish() {
        let figure = |name: &str, value: f64, wish| Figure {
            name: name.to_owned(),
            value,
            unit: "Gbit/s".to_owned(),
            wish,
        };
        let mut random = fastrand::Rng::with_seed(4);
        let run = |day: u64| {
            let mut run = Mesh::full(0).run(BEGIN_MS + day * 24 * HOUR_MS, |_| None);
            run.instrument = Instrument::Bench;
            let mut noise = || 1.0 + random.f64() * 0.02;
            let level = if day >= 20 { 0.7 } else { 1.0 };
            run.figures = vec![
                figure("rate", 9.0 * level * noise(), Wish::Higher),
                figure("latency", 2.0 * level * noise(), Wish::Lower),
                figure("steady", 2.0 * noise(), Wish::Lower),
            ];
            run
        };
        let (_directory, store) = stored((0..26).map(run).collect::<Vec<_>>().into_iter());
        let said = said(&store, Instrument::Bench);
        assert_eq!(said.len(), 2, "{said:#?}");
        assert!(
            said[0].starts_with("worse since 2026-01-21 00:00 UTC: rate: 9.1"),
            "{said:#?}"
        );
        assert!(
            said[1].starts_with("better since 2026-01-21 00:00 UTC: latency: 2.0"),
            "{said:#?}"
        );
        assert!(
            said.iter()
                .all(|said| said.ends_with("(-30 %)") || said.ends_with("(-31 %)")),
            "{said:#?}"
        );
    }
}
