//! One run from its beginning to its report.

use std::time::Instant;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::Ground;
use crate::machine::Machine;
use crate::report::{self, FORMAT, Measured, NoiseMeter, Parameters, Report};

/// A run that has begun.
#[derive(Debug)]
pub struct Run {
    started: String,
    began: Instant,
    meter: NoiseMeter,
}

impl Run {
    /// Begins: the clock runs, and the machine is watched.
    #[must_use]
    pub fn start(ground: &Ground) -> Self {
        let mut servers: Vec<u32> = ground
            .targets
            .iter()
            .flat_map(|target| target.processes.clone())
            .collect();
        servers.sort_unstable();
        servers.dedup();
        let strangers = ground
            .targets
            .iter()
            .any(|target| target.is_here() && target.processes.is_empty());
        let now = OffsetDateTime::now_utc().replace_nanosecond(0);
        let now = now.unwrap_or_else(|_| OffsetDateTime::now_utc());
        Self {
            started: now.format(&Rfc3339).unwrap_or_default(),
            began: Instant::now(),
            meter: NoiseMeter::start(&servers, strangers),
        }
    }

    /// Ends: puts what was measured together with all that a reader should know. `program` is name
    /// and version.
    #[must_use]
    pub fn finish(
        self,
        ground: &Ground,
        program: &str,
        kind: &str,
        parameters: Parameters,
        measured: Measured,
    ) -> Report {
        let noise = self.meter.finish(&measured.tables);
        let mut targets: Vec<report::Target> = ground.targets.iter().map(crate::ground::Target::listed).collect();
        targets.dedup();
        let mut notes = Vec::new();
        for note in measured.notes {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        Report {
            format: FORMAT,
            program: program.to_owned(),
            kind: kind.to_owned(),
            started: self.started,
            duration_s: self.began.elapsed().as_secs_f64(),
            interrupted: ground.stop.is_set(),
            parameters,
            machine: Machine::here(),
            targets,
            tables: measured.tables,
            curves: measured.curves,
            noise,
            notes,
        }
    }
}
