//! The measured table of Crossload against Debian's XRootD and nginx: same machine, same run, same clients, files in
//! memory, over loopback. Run it as `./dev bench-peers`; `docs/performance.md` says how to read it.
#![forbid(unsafe_code)]

mod arguments;
mod client;
mod document;
mod handshake;
mod interrupt;
mod line;
mod machine;
mod report;
mod root;
mod server;
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
use crate::handshake::{HANDSHAKE_CLIENTS, IDLE_CONNECTIONS};
use crate::machine::Machine;
use crate::report::{Row, Section};
use crate::server::{Kind, Lab};
use crate::workload::Bench;

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
        copies_begun: 0,
    };
    let mut pairs = BTreeMap::new();
    for kind in Kind::ALL {
        if kind != Kind::Crossload || !arguments.without_crossload {
            pairs.insert(kind, bench.start(kind)?);
        }
    }
    let machine = Machine::inspect();
    let mut rows = Vec::new();
    for task in task::plan(arguments) {
        rows.push(task.measure(&mut bench, &mut pairs, arguments.runs()));
        if interrupt::is_set() {
            return Err(Error::Failed("interrupted".to_owned()));
        }
    }
    publish(arguments, &machine, &rows)?;
    Ok(rows)
}

/// Shows the tables and writes the files that were asked for.
fn publish(arguments: &Arguments, machine: &Machine, rows: &[Row]) -> Result<()> {
    let mut sections = Vec::new();
    for section in Section::ALL {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.section == section).collect();
        if !rows.is_empty() {
            sections.push((section, rows, conditions(arguments, section)));
        }
    }
    let mut words = format!("{}\n", machine.text());
    for (_, rows, conditions) in &sections {
        words.push_str(&format!("\n{conditions}\n\n{}", report::text(rows)));
    }
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
        for (section, rows, conditions) in &sections {
            let content = format!("{}\n{conditions}\n\n{}", machine.text(), report::markdown(rows));
            document::refresh(path, *section, &content)?;
        }
    }
    Ok(())
}

fn conditions(arguments: &Arguments, section: Section) -> String {
    let runs = arguments.runs();
    let mib = arguments.size_bytes() >> 20;
    let start = format!(
        "`./dev bench-peers{}`: median of {runs} run{}, largest file {mib} MiB.",
        if arguments.quick { " --quick" } else { "" },
        if runs == 1 { "" } else { "s" },
    );
    let lengths = match section {
        Section::Http => format!(
            "A run moves the same number of bytes on 1, 4 and 16 connections, in smaller files where there are more of \
             them: GET https and PUT {} MiB, GET http {} MiB. A single pull or push is of {mib} MiB; 10 and 100 are of {} \
             and {} MiB each (for memory {} MiB).",
            2 * mib,
            4 * mib,
            workload::copy_bytes(mib, 10),
            workload::copy_bytes(mib, 100),
            mib / 32,
        ),
        Section::Identity => format!(
            "{HANDSHAKE_CLIENTS} clients at once connect for {} s, ask one thing and leave; {IDLE_CONNECTIONS} connections \
             idle.",
            if arguments.quick {
                LOAD_SECONDS.1
            } else {
                LOAD_SECONDS.0
            },
        ),
        Section::Root => format!(
            "xrdcp moves {mib} MiB files one after the other. A single third-party copy is of {mib} MiB; 10 and 40 are of \
             {} and {} MiB each (for memory {} MiB).",
            workload::copy_bytes(mib, 10),
            workload::copy_bytes(mib, 40),
            mib / 32,
        ),
    };
    format!("{start} {lengths}")
}

/// Says on standard error what goes on; standard output is for the table.
fn progress(words: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{words}");
}
