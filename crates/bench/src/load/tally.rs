//! Samples of one kind on their way into tables: a rate, and what it cost the server.

use super::measure::Sample;
use crate::ground::Target;
use crate::report::{Better, Failure, Parameters, Table};

/// A sample that cost the server less is left out of the table of costs: the clock of `/proc` ticks
/// in hundredths of a second.
const CPU_MIN_S: f64 = 0.05;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Bytes of payload: Gbit/s (10⁹), and processor seconds for each GB (10⁹ bytes).
    Bytes,
    /// Bytes of payload in small pieces: MB/s (10⁶), and processor seconds for each GB (10⁹ bytes).
    Pieces,
    /// Requests, files or handshakes: how many in a second, and processor microseconds for each.
    Requests,
}

impl Counted {
    /// The unit of rates.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::Bytes => "Gbit/s",
            Self::Pieces => "MB/s",
            Self::Requests => "1/s",
        }
    }

    fn rate(self, count: u64, seconds: f64) -> f64 {
        match self {
            Self::Bytes => count as f64 * 8e-9 / seconds,
            Self::Pieces => count as f64 * 1e-6 / seconds,
            Self::Requests => count as f64 / seconds,
        }
    }

    fn cost(self, count: u64, cpu_s: f64) -> f64 {
        match self {
            Self::Bytes | Self::Pieces => cpu_s * 1e9 / count as f64,
            Self::Requests => cpu_s * 1e6 / count as f64,
        }
    }
}

/// What one sample is of.
#[derive(Clone, Debug)]
pub struct Case {
    /// The label of its row, without what the axis says.
    pub label: String,
    /// The parameters of its row.
    pub parameters: Parameters,
    /// What is being done, for failures: `GET`.
    pub phase: &'static str,
}

/// Two tables that are filled together: rates, and the server's processor time.
#[derive(Clone, Debug)]
pub struct Tally {
    counted: Counted,
    /// The rates.
    pub rate: Table,
    /// What they cost the server, where its processes are known.
    pub cost: Table,
}

impl Tally {
    /// Empty tables: `title` is that of the rates.
    #[must_use]
    pub fn new(title: &str, counted: Counted) -> Self {
        let (cost, unit) = match counted {
            Counted::Bytes | Counted::Pieces => ("server processor time for each GB", "s"),
            Counted::Requests => ("server processor time for each", "µs"),
        };
        Self {
            counted,
            rate: Table::new(title, counted.unit(), Better::More),
            cost: Table::new(&format!("{title}: {cost}"), unit, Better::Less),
        }
    }

    /// The same, plotted against a parameter.
    #[must_use]
    pub fn against(mut self, parameter: &str, unit: &str, logarithmic: bool) -> Self {
        self.rate = self.rate.against(parameter, unit, logarithmic);
        self.cost = self.cost.against(parameter, unit, logarithmic);
        self
    }

    /// Takes a sample whose workers return what they counted; one failure spoils it. Returns what
    /// it came to, in words.
    pub fn take(&mut self, target: &Target, case: &Case, sample: &Sample<u64>) -> String {
        let count = sample.done().sum();
        if let Some(error) = sample.error() {
            return self.fail(target, case, Failure::of(case.phase, error));
        }
        let rate = self.counted.rate(count, sample.seconds);
        self.rate.row(&target.name, &case.label, &case.parameters).add(rate);
        if let Some(cpu_s) = sample.server_cpu_s.filter(|cpu_s| *cpu_s >= CPU_MIN_S) {
            let cost = self.counted.cost(count, cpu_s);
            self.cost.row(&target.name, &case.label, &case.parameters).add(cost);
        }
        format!("{} {}", crate::report::view::figure(rate), self.counted.unit())
    }

    /// Notes that a case could not be measured. Returns that in words.
    pub fn fail(&mut self, target: &Target, case: &Case, failure: Failure) -> String {
        let words = format!("failed: {failure}");
        self.rate.row(&target.name, &case.label, &case.parameters).fail(failure);
        words
    }

    /// Whether this case has failed for this target: it is not tried again.
    #[must_use]
    pub fn has_failed(&self, target: &Target, case: &Case) -> bool {
        self.rate.has_failed(&target.name, &case.label, &case.parameters)
    }

    /// Both tables, those without rows left out.
    #[must_use]
    pub fn tables(self) -> Vec<Table> {
        let tables = [self.rate, self.cost];
        tables.into_iter().filter(|table| !table.rows.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use remote::{Access, Resource};
    use types::{Error, ErrorCode, Location, Phase, Side};

    use super::*;

    fn target() -> Target {
        Target {
            name: "se".to_owned(),
            place: Resource {
                location: Location::parse("https://se.example.org/bench").unwrap(),
                access: Access::default(),
                side: Side::Source,
            },
            file: None,
            processes: Vec::new(),
        }
    }

    fn case() -> Case {
        Case {
            label: "GET https".to_owned(),
            parameters: Parameters::new(),
            phase: "GET",
        }
    }

    #[test]
    fn bytes_become_rates_and_costs() {
        let mut tally = Tally::new("Throughput", Counted::Bytes);
        let sample = Sample {
            results: vec![Ok(500_000_000), Ok(500_000_000)],
            seconds: 2.0,
            server_cpu_s: Some(0.4),
        };
        assert_eq!(tally.take(&target(), &case(), &sample), "4.00 Gbit/s");
        assert_eq!(tally.rate.rows[0].samples, [4.0]);
        assert_eq!(tally.cost.rows[0].samples, [0.4]);
        let short = Sample {
            server_cpu_s: Some(0.02),
            ..sample
        };
        tally.take(&target(), &case(), &short);
        assert_eq!(
            (tally.rate.rows[0].samples.len(), tally.cost.rows[0].samples.len()),
            (2, 1)
        );
    }

    #[test]
    fn one_failure_spoils_a_sample_and_names_its_phase() {
        let mut tally = Tally::new("Requests", Counted::Requests);
        let error = Error::new(ErrorCode::PeerNotFound, Side::Source, Phase::Open);
        let sample = Sample {
            results: vec![Ok(7), Err(error)],
            seconds: 1.0,
            server_cpu_s: None,
        };
        let words = tally.take(&target(), &case(), &sample);
        assert!(words.starts_with("failed: GET: "), "{words}");
        assert!(tally.has_failed(&target(), &case()));
        let tables = tally.tables();
        assert_eq!(tables.len(), 1);
        assert!(tables[0].rows[0].samples.is_empty());
    }
}
