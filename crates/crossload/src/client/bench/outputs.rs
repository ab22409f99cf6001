//! Output of a report: the terminal, and the files of `--json`, `--csv` and `--html`.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use bench::report::{Report, View, csv, html, text};
use config::read_text;

use crate::command_line::BenchCommon;
use crate::failure::Failure;
use crate::output;

/// Largest report that `--compare` reads.
const REPORT_BYTES_MAX: u64 = 256 << 20;

/// The files of one run.
pub(super) struct Outputs {
    earlier: Option<Report>,
    json: Option<PathBuf>,
    csv: Option<PathBuf>,
    html: Option<PathBuf>,
}

impl Outputs {
    /// Reads the earlier report and opens the output files, so that mistakes show before the run.
    ///
    /// # Errors
    /// A file that cannot be read or written.
    pub(super) fn prepare(options: &BenchCommon) -> Result<Self, Failure> {
        let files = [&options.json, &options.csv, &options.html];
        for file in files.into_iter().flatten() {
            // Append mode keeps the old content until the run has a result.
            let opened = OpenOptions::new().create(true).append(true).open(file);
            opened.map_err(|cause| Failure::system(file.display(), &cause))?;
        }
        Ok(Self {
            earlier: options.compare.as_deref().map(read).transpose()?,
            json: options.json.clone(),
            csv: options.csv.clone(),
            html: options.html.clone(),
        })
    }

    /// Prints the report, and writes the files.
    ///
    /// # Errors
    /// A file that cannot be written. The other files are still written.
    pub(super) fn write(&self, report: &Report) -> Result<(), Failure> {
        let view = View::new(report, self.earlier.as_ref());
        output::write_out(text::write(&view).as_bytes());
        let mut result = Ok(());
        let files = [
            (&self.json, report.to_json()),
            (&self.csv, csv::write(&view)),
            (&self.html, html::write(&view)),
        ];
        for (file, content) in files {
            let Some(file) = file else { continue };
            if let Err(cause) = fs::write(file, content) {
                result = Err(Failure::system(file.display(), &cause));
            }
        }
        result
    }
}

fn read(file: &Path) -> Result<Report, Failure> {
    let text = read_text(file, REPORT_BYTES_MAX).map_err(|cause| Failure::system(file.display(), &cause))?;
    Report::from_json(&text).map_err(|words| Failure::invalid(format!("{}: {words}", file.display())))
}
