//! The measured table of Crossload against XRootD and nginx: same machine, same run, same
//! clients, files in memory, over loopback. Run it as `./dev bench-peers`;
//! `docs/performance-method.md` says how it measures.
#![forbid(unsafe_code)]

mod arguments;
mod client;
mod clients;
mod cluster;
mod congestion;
mod document;
mod floor;
mod fragments;
mod handshake;
mod interrupt;
mod line;
mod machine;
mod metric;
mod older;
mod queue;
mod records;
mod report;
mod root;
mod server;
mod sinks;
mod stores;
mod summary;
mod task;
mod token;
mod workload;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use serde_json::json;
use testkit::{Error, Result};

use crate::arguments::Arguments;
use crate::client::Client;
use crate::cluster::Clusters;
use crate::fragments::Fragments;
use crate::handshake::{HANDSHAKE_CLIENTS, IDLE_CONNECTIONS};
use crate::interrupt::Interruption;
use crate::machine::Machine;
use crate::metric::Section;
use crate::older::Block;
use crate::report::Row;
use crate::root::{LITE_TURNS, LOGIN_CLIENTS, LoginKind, lite_bytes};
use crate::server::{Kind, Lab};
use crate::workload::{Bench, Pair};

/// Seconds for which requests for metadata are repeated, in a full and in a quick run.
const LOAD_SECONDS: (u32, u32) = (3, 1);
/// Memory to cut into pieces per byte of the largest sample; others use some of it too.
const FRAGMENTS_PER_SAMPLE: u64 = 4;

/// What came of a run.
struct Outcome {
    rows: Vec<Row>,
    /// Whether a signal ended it before all rows were there.
    interruption: Option<Interruption>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(Outcome {
            interruption: Some(interruption),
            ..
        }) => ExitCode::from(interruption.exit_code()),
        Ok(outcome) if outcome.rows.iter().all(|row| row.failures.is_empty()) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            progress(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<Outcome> {
    if let Some(name) = &arguments.congestion_control {
        congestion::enter(name)?;
    }
    interrupt::watch()?;
    let lab = Lab::new()?;
    let client = Client::new(lab.ca_file(), lab.client_directory()?)?;
    let mut bench = Bench {
        lab,
        client,
        size_bytes: arguments.size_bytes(),
        load_seconds: load_seconds(arguments),
        copies_begun: 0,
        guarded: BTreeMap::new(),
        clusters: Clusters::default(),
        queue_sizes: arguments.queue_sizes(),
        queue: BTreeMap::new(),
        client_sizes: arguments.client_sizes(),
        site: None,
        stores: stores::Stores::default(),
    };
    let machine = Machine::inspect(&arguments.servers());
    let tasks = task::plan(arguments);
    let written = tasks.iter().map(|task| task.written_bytes(&bench)).max().unwrap_or(0);
    let fragments = Fragments::of(written * FRAGMENTS_PER_SAMPLE)?;
    progress(&format!(
        "{} MiB of free memory are cut into pieces",
        fragments.size_bytes()? >> 20
    ));
    let mut pairs = BTreeMap::new();
    let outcome = measure(arguments, &mut bench, &mut pairs)?;
    publish(arguments, &machine, &outcome)?;
    Ok(outcome)
}

/// Starts the servers and measures what is wanted, until that is done or a signal comes.
fn measure(arguments: &Arguments, bench: &mut Bench, pairs: &mut BTreeMap<Kind, Pair>) -> Result<Outcome> {
    let mut outcome = Outcome {
        rows: Vec::new(),
        interruption: None,
    };
    for kind in arguments.servers() {
        match bench.start(kind) {
            Ok(pair) => drop(pairs.insert(kind, pair)),
            // Only who asks for a peer by name must have it.
            Err(Error::Missing(reason)) if kind.is_peer() && arguments.peers.is_empty() => {
                progress(&format!("{} is left out: {reason}", kind.name()));
            }
            Err(error) => {
                outcome.interruption = interrupt::settle();
                return outcome.interruption.map(|_| outcome).ok_or(error);
            }
        }
    }
    for task in task::plan(arguments) {
        match task.measure(bench, pairs, arguments.runs()) {
            // What is not installed here has no figures.
            Some(row) if row.cells.is_empty() && row.failures.is_empty() => {}
            Some(row) => outcome.rows.push(row),
            None => {
                outcome.interruption = interrupt::is_set();
                progress("interrupted: stopping the servers");
                break;
            }
        }
    }
    Ok(outcome)
}

/// Shows the tables and writes the files that were asked for. The document is left as it is when
/// the run was interrupted.
fn publish(arguments: &Arguments, machine: &Machine, outcome: &Outcome) -> Result<()> {
    let mut sections = Vec::new();
    for section in Section::ALL {
        let rows: Vec<&Row> = outcome.rows.iter().filter(|row| row.section == section).collect();
        if !rows.is_empty() {
            sections.push((section, rows, conditions(arguments, section)));
        }
    }
    let mut words = format!("{}\n", machine.text());
    for (_, rows, conditions) in &sections {
        words.push_str(&format!("\n{conditions}\n\n{}", report::text(rows)));
    }
    words.push_str(&interruption_words(arguments, outcome));
    // The file first: printing the tables may fail where the reader was interrupted too.
    let written = write_json(arguments, machine, outcome);
    std::io::stdout().lock().write_all(words.as_bytes())?;
    written?;
    if let (Some(path), None) = (&arguments.markdown, outcome.interruption) {
        for (section, rows, conditions) in &sections {
            let words = format!("{}\n{conditions}", machine.text());
            let content = |old: &str| section_text(*section, rows, &words, old, arguments);
            document::refresh(path, *section, content)?;
        }
    }
    Ok(())
}

fn write_json(arguments: &Arguments, machine: &Machine, outcome: &Outcome) -> Result<()> {
    let Some(path) = &arguments.json else {
        return Ok(());
    };
    let all = json!({
        "machine": machine.json(),
        "runs": arguments.runs(),
        "size_bytes": arguments.size_bytes(),
        "interrupted": outcome.interruption.is_some(),
        "rows": report::rows_json(&outcome.rows),
    });
    Ok(fs::write(path, format!("{all:#}\n"))?)
}

/// What is said below the tables of a run that a signal ended.
fn interruption_words(arguments: &Arguments, outcome: &Outcome) -> String {
    let Some(interruption) = outcome.interruption else {
        return String::new();
    };
    let document = arguments
        .markdown
        .as_ref()
        .map(|path| format!(" {} is as it was.", path.display()));
    format!(
        "\nInterrupted by {}: {} of {} rows were measured.{}\n",
        interruption.name(),
        outcome.rows.len(),
        task::plan(arguments).len(),
        document.unwrap_or_default()
    )
}

/// What the document is to say in `section`: a run of all its rows replaces `old`, a run of some is
/// put into it.
fn section_text(section: Section, rows: &[&Row], words: &str, old: &str, arguments: &Arguments) -> String {
    let tasks: Vec<_> = task::all()
        .into_iter()
        .filter(|task| task.section() == section)
        .collect();
    if tasks.iter().all(|task| arguments.wants(*task)) {
        let lines: Vec<report::Line<'_>> = rows.iter().map(|row| report::Line::Measured(row)).collect();
        return format!("{words}\n\n{}", report::markdown(&lines));
    }
    let order: Vec<_> = tasks.iter().map(|task| (task.metric(), task.name())).collect();
    older::merged(Block::read(old), words, rows, &order)
}

fn load_seconds(arguments: &Arguments) -> u32 {
    match arguments.quick {
        true => LOAD_SECONDS.1,
        false => LOAD_SECONDS.0,
    }
}

fn conditions(arguments: &Arguments, section: Section) -> String {
    let (runs, load_seconds) = (arguments.runs(), load_seconds(arguments));
    let mib = arguments.size_bytes() >> 20;
    let start = format!(
        "`./dev bench-peers{}{}{}{}{}`: median of {runs} run{}, largest file {mib} MiB.",
        if arguments.quick { " --quick" } else { "" },
        arguments.only_words(),
        arguments.rows_words(),
        arguments.peers_words(),
        arguments.congestion_words(),
        if runs == 1 { "" } else { "s" },
    );
    let lengths = match section {
        Section::Http => format!(
            "A run moves the same number of bytes on 1, 4 and 16 connections, in smaller files where there are more of \
             them: GET https and PUT {} MiB, GET http {} MiB. A single pull or push is of {mib} MiB; 10 and 100 are of {} \
             and {} MiB each (for memory {} MiB).",
            workload::SEALED_FILES * mib,
            workload::CLEAR_FILES * mib,
            workload::copy_bytes(mib, 10),
            workload::copy_bytes(mib, 100),
            mib / 32,
        ),
        Section::Identity => format!(
            "{HANDSHAKE_CLIENTS} clients at once connect for {load_seconds} s, ask one thing and leave; \
             {IDLE_CONNECTIONS} connections idle. {LOGIN_CLIENTS} clients at once log in by gsi {} times, and {} times \
             with a proxy.",
            LoginKind::Plain.count(load_seconds),
            LoginKind::Delegating.count(load_seconds),
        ),
        Section::Root => format!(
            "xrdcp moves {mib} MiB files one after the other. A single third-party copy is of {mib} MiB; 10 and 40 are of \
             {} and {} MiB each (for memory {} MiB). {LITE_TURNS} copies of {} MiB by proxy and as many by key take turns.",
            workload::copy_bytes(mib, 10),
            workload::copy_bytes(mib, 40),
            mib / 32,
            lite_bytes(arguments.size_bytes()) >> 20,
        ),
        Section::Cluster => cluster::conditions(load_seconds),
        Section::Queue => queue::conditions(&arguments.queue_sizes()),
        Section::Clients => clients::conditions(&arguments.client_sizes()),
        Section::Stores => stores::conditions(arguments.size_bytes()),
    };
    format!("{start} {lengths}")
}

/// Says on standard error what goes on; standard output is for the table.
fn progress(words: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{words}");
}
