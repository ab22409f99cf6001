//! `overwrite`: writing new files against writing over existing ones. Storages have been seen that
//! do the latter at half the rate.

use super::bulk::{ConnectionLoad, Way, warm_up, write};
use super::data::Content;
use super::measure::{Sample, together};
use super::tally::{Case, Counted, Tally};
use crate::Ground;
use crate::ground::Target;
use crate::report::{Better, Failure, Measured, Parameters, Table, Value};

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Overwrite {
    /// Numbers of connections that write a file each.
    pub connections: Vec<u32>,
    /// Files that each connection writes one after the other in a sample.
    pub files: u32,
    /// Size of each file, in bytes.
    pub size_bytes: u64,
    /// Samples of each case.
    pub repetitions: u32,
}

/// Measures both; the targets take turns. Each repetition writes new files, writes over just these,
/// and removes them.
pub async fn run(ground: &Ground, overwrite: &Overwrite) -> Measured {
    let mut tally = Tally::new("Throughput", Counted::Bytes).against("connections", "", true);
    let title = "Rate of overwriting, divided by that of new files";
    let mut ratio = Table::new(title, "ratio", Better::More).against("connections", "", true);
    let samples = overwrite.connections.len() * ground.targets.len() * overwrite.repetitions as usize;
    ground.progress.plan(2 * samples);
    measure(ground, overwrite, &mut tally, &mut ratio).await;
    let mut tables = vec![ratio];
    tables.extend(tally.tables());
    tables.retain(|table| !table.rows.is_empty());
    Measured {
        tables,
        ..Measured::default()
    }
}

async fn measure(ground: &Ground, overwrite: &Overwrite, tally: &mut Tally, ratio: &mut Table) -> Option<()> {
    let content = Content::default();
    for &connections in &overwrite.connections {
        for repetition in 0..overwrite.repetitions {
            for target in &ground.targets {
                let run = Pair {
                    target,
                    connections,
                    run: format!("{} of {}", repetition + 1, overwrite.repetitions),
                };
                run.measure(ground, overwrite, &content, tally, ratio).await?;
            }
        }
    }
    Some(())
}

/// Both samples of one target.
struct Pair<'a> {
    target: &'a Target,
    connections: u32,
    run: String,
}

impl Pair<'_> {
    fn case(&self, what: &str) -> Case {
        Case {
            label: format!("{} {}, {what}", Way::Put.name(), self.target.protocol()),
            parameters: self.parameters(),
            phase: Way::Put.name(),
        }
    }

    fn parameters(&self) -> Parameters {
        Parameters::from([("connections".to_owned(), Value::from(self.connections))])
    }

    async fn measure(
        &self,
        ground: &Ground,
        overwrite: &Overwrite,
        content: &Content,
        tally: &mut Tally,
        ratio: &mut Table,
    ) -> Option<()> {
        let target = self.target;
        let cases = [self.case("new files"), self.case("overwriting")];
        if cases.iter().any(|case| tally.has_failed(target, case)) {
            ground.progress.skip(2);
            return Some(());
        }
        let jobs = match ground.stop.or(self.jobs(ground, overwrite)).await? {
            Ok(jobs) => jobs,
            Err(failure) => {
                tally.fail(target, &cases[0], failure);
                ground.progress.skip(2);
                return Some(());
            }
        };
        ground
            .stop
            .or(warm_up(jobs.iter().filter_map(ConnectionLoad::first)))
            .await?;
        let mut seconds = Vec::new();
        for case in &cases {
            ground
                .progress
                .begin(format!("{}: {}, {}", target.name, case.label, self.run));
            let workers = jobs
                .iter()
                .map(|job| write(job.clone(), overwrite.size_bytes, content.clone()));
            let sample: Sample<u64> = together(target, &ground.stop, workers.collect()).await?;
            seconds.extend(sample.error().is_none().then_some(sample.seconds));
            ground.progress.end(tally.take(target, case, &sample));
        }
        if let [new, over] = seconds[..] {
            let label = format!("{} {}", Way::Put.name(), target.protocol());
            ratio.row(&target.name, &label, &self.parameters()).add(new / over);
        }
        for job in &jobs {
            ground.make_room(&job.client, &job.files).await;
        }
        Some(())
    }

    async fn jobs(&self, ground: &Ground, overwrite: &Overwrite) -> Result<Vec<ConnectionLoad>, Failure> {
        let made = ground.directory(self.target, "overwrite").await;
        let directory = made.map_err(|error| Failure::of("making a directory for the run", &error))?;
        let file = |connection: u32, index: u32| ground.file(&directory, &format!("file-{connection}-{index}"));
        let job = |connection: u32| ConnectionLoad {
            client: ground.new_client(),
            files: (0..overwrite.files).map(|index| file(connection, index)).collect(),
            range: None,
        };
        Ok((0..self.connections).map(job).collect())
    }
}
