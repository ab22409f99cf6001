//! The measured table of Crossload against Debian's XRootD and nginx: same machine, same run, same clients, files in
//! memory, over loopback. Run it as `./dev bench`; `docs/performance.md` says how to read it.
#![forbid(unsafe_code)]

mod arguments;
mod client;
mod document;
mod interrupt;
mod machine;
mod report;
mod server;
mod summary;
mod workload;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use serde_json::json;
use testkit::{Error, Result};

use crate::arguments::{Arguments, Part};
use crate::client::Client;
use crate::machine::Machine;
use crate::report::{Cell, Metric, Row};
use crate::server::{Kind, Lab, Scheme};
use crate::summary::Summary;
use crate::workload::{Bench, Mode, Pair, Sample};

/// Seconds for which requests for metadata are repeated, in a full and in a quick run.
const LOAD_SECONDS: (u32, u32) = (3, 1);

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(rows) if rows.iter().all(|row| row.failures.is_empty()) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            progress(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<Vec<Row>> {
    interrupt::watch()?;
    let lab = Lab::new()?;
    let client = Client::new(lab.ca_file(), lab.client_directory()?)?;
    let load_seconds = if arguments.quick {
        LOAD_SECONDS.1
    } else {
        LOAD_SECONDS.0
    };
    let mut bench = Bench {
        lab,
        client,
        size_bytes: arguments.size_bytes(),
        load_seconds,
    };
    let mut pairs = BTreeMap::new();
    for kind in Kind::ALL {
        if kind != Kind::Crossload || !arguments.without_crossload {
            pairs.insert(kind, bench.start(kind)?);
        }
    }
    let machine = Machine::inspect();
    let mut rows = Vec::new();
    for task in plan(arguments) {
        rows.push(task.measure(&mut bench, &mut pairs, arguments.runs()));
        if interrupt::is_set() {
            return Err(Error::Failed("interrupted".to_owned()));
        }
    }
    publish(arguments, &machine, &rows)?;
    Ok(rows)
}

/// What one row measures.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Task {
    Get(Scheme, u64),
    Put(Scheme, u64),
    Copies(Mode, u64),
    Memory(Mode),
    Metadata(Scheme, &'static str),
}

/// The rows in the order of the table.
fn plan(arguments: &Arguments) -> Vec<Task> {
    let mut tasks = Vec::new();
    for scheme in Scheme::BOTH {
        tasks.extend([1, 4, 16].map(|connections| Task::Get(scheme, connections)));
    }
    for scheme in Scheme::BOTH {
        tasks.extend([1, 4, 16].map(|connections| Task::Put(scheme, connections)));
    }
    for mode in [Mode::Pull, Mode::Push] {
        tasks.extend([1, 10, 100].map(|count| Task::Copies(mode, count)));
    }
    for scheme in Scheme::BOTH {
        tasks.extend(["HEAD", "PROPFIND"].map(|method| Task::Metadata(scheme, method)));
    }
    tasks.extend([Mode::Pull, Mode::Push].map(Task::Memory));
    tasks.retain(|task| arguments.wants(task.part()));
    tasks
}

impl Task {
    fn part(self) -> Part {
        match self {
            Self::Get(..) => Part::Get,
            Self::Put(..) => Part::Put,
            Self::Copies(Mode::Pull, _) => Part::Pull,
            Self::Copies(Mode::Push, _) => Part::Push,
            Self::Memory(_) => Part::Memory,
            Self::Metadata(..) => Part::Metadata,
        }
    }

    fn metric(self) -> Metric {
        match self {
            Self::Memory(_) => Metric::Memory,
            Self::Metadata(..) => Metric::Requests,
            _ => Metric::Data,
        }
    }

    fn name(self) -> String {
        let plural = |count: u64| if count == 1 { "" } else { "s" };
        match self {
            Self::Get(scheme, n) => format!("GET {}, {n} connection{}", scheme.name(), plural(n)),
            Self::Put(scheme, n) => format!("PUT {}, {n} connection{}", scheme.name(), plural(n)),
            Self::Copies(mode, n) => format!("{} https, {n} transfer{}", mode.name(), plural(n)),
            Self::Memory(mode) => format!("{} https, 100 transfers", mode.name()),
            Self::Metadata(scheme, method) => format!("{method} {}, 16 connections", scheme.name()),
        }
    }

    /// The highest ratio of our processor time to XRootD's that is good enough.
    fn goal(self) -> Option<f64> {
        match self {
            Self::Get(Scheme::Https, _) | Self::Put(Scheme::Https, _) | Self::Copies(Mode::Push, _) => Some(0.60),
            Self::Get(Scheme::Http, _) => Some(1.30),
            Self::Copies(Mode::Pull, _) => Some(0.70),
            _ => None,
        }
    }

    fn concerns(self, kind: Kind) -> bool {
        match self {
            Self::Get(..) | Self::Put(..) | Self::Metadata(_, "HEAD") => true,
            _ => kind.is_storage(),
        }
    }

    fn once(self, bench: &mut Bench, kind: Kind, pair: &mut Pair) -> Result<Sample> {
        match self {
            Self::Get(scheme, connections) => bench.get(pair, scheme, connections),
            Self::Put(scheme, connections) => bench.put(pair, scheme, connections),
            Self::Copies(mode, count) => bench.copies(pair, mode, count),
            Self::Memory(mode) => bench.memory(kind, mode),
            Self::Metadata(scheme, method) => bench.metadata(pair, scheme, method),
        }
    }

    /// Measures all servers in turn, `runs` times. A server that fails is left out of the rest of the row.
    fn measure(self, bench: &mut Bench, pairs: &mut BTreeMap<Kind, Pair>, runs: u32) -> Row {
        progress(&self.name());
        let mut samples: BTreeMap<Kind, Vec<Sample>> = BTreeMap::new();
        let mut failed: BTreeMap<Kind, String> = BTreeMap::new();
        for _ in 0..runs {
            for (kind, pair) in pairs.iter_mut().filter(|(kind, _)| self.concerns(**kind)) {
                if failed.contains_key(kind) || interrupt::is_set() {
                    continue;
                }
                match self.once(bench, *kind, pair) {
                    Ok(sample) => samples.entry(*kind).or_default().push(sample),
                    Err(error) => {
                        progress(&format!("  {} failed: {error}", kind.name()));
                        failed.insert(*kind, format!("{}: {error}", kind.name()));
                    }
                }
            }
        }
        samples.retain(|kind, _| !failed.contains_key(kind));
        Row {
            metric: self.metric(),
            name: self.name(),
            goal: self.goal(),
            cells: samples
                .iter()
                .filter_map(|(kind, samples)| cell(*kind, samples))
                .collect(),
            failures: failed.into_values().collect(),
        }
    }
}

fn cell(kind: Kind, samples: &[Sample]) -> Option<Cell> {
    let first: Vec<f64> = samples.iter().map(|sample| sample.first).collect();
    let second: Vec<f64> = samples.iter().map(|sample| sample.second).collect();
    Some(Cell {
        kind,
        first: Summary::of(&first)?,
        second: Summary::of(&second)?,
    })
}

/// Shows the table and writes the files that were asked for.
fn publish(arguments: &Arguments, machine: &Machine, rows: &[Row]) -> Result<()> {
    let conditions = conditions(arguments);
    let words = format!("{}\n{conditions}\n\n{}", machine.text(), report::text(rows));
    std::io::stdout().lock().write_all(words.as_bytes())?;
    if let Some(path) = &arguments.json {
        let all = json!({
            "machine": machine.json(),
            "runs": arguments.runs(),
            "size_bytes": arguments.size_bytes(),
            "rows": report::rows_json(rows),
        });
        fs::write(path, format!("{all:#}\n"))?;
    }
    if let Some(path) = &arguments.markdown {
        document::refresh(
            path,
            &format!("{}\n{conditions}\n\n{}", machine.text(), report::markdown(rows)),
        )?;
    }
    Ok(())
}

fn conditions(arguments: &Arguments) -> String {
    let runs = arguments.runs();
    let mib = arguments.size_bytes() >> 20;
    format!(
        "`./dev bench{}`: median of {runs} run{}, largest file {mib} MiB. A run moves the same number of bytes on 1, 4 and \
         16 connections, in smaller files where there are more of them: GET https and PUT {} MiB, GET http {} MiB. A single \
         pull or push is of {mib} MiB; 10 and 100 are of {} and {} MiB each (for memory {} MiB).",
        if arguments.quick { " --quick" } else { "" },
        if runs == 1 { "" } else { "s" },
        2 * mib,
        4 * mib,
        workload::copy_bytes(mib, 10),
        workload::copy_bytes(mib, 100),
        mib / 32,
    )
}

/// Says on standard error what goes on; standard output is for the table.
fn progress(words: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{words}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_has_every_row_once_and_parts_select() {
        let all = plan(&Arguments::parse_from(["bench"]));
        assert_eq!(all.len(), 6 + 6 + 6 + 4 + 2);
        let mut names: Vec<String> = all
            .iter()
            .map(|task| format!("{:?} {}", task.metric(), task.name()))
            .collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all.len());
        let some = plan(&Arguments::parse_from(["bench", "--only", "pull,metadata"]));
        assert_eq!(some.len(), 3 + 4);
    }

    #[test]
    fn nginx_is_no_storage() {
        assert!(Task::Get(Scheme::Https, 1).concerns(Kind::Nginx));
        assert!(Task::Metadata(Scheme::Http, "HEAD").concerns(Kind::Nginx));
        assert!(!Task::Metadata(Scheme::Http, "PROPFIND").concerns(Kind::Nginx));
        assert!(!Task::Copies(Mode::Pull, 1).concerns(Kind::Nginx));
    }
}
