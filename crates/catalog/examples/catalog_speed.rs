//! How fast the catalog is. Standard input has two lines: the database, which is a directory for
//! SQLite or a URL of PostgreSQL, and to how many files the queue is filled (1 000 000).

use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use catalog::{
    Catalog, Claimed, CopyFacts, Ending, FileOptions, Grant, JobOptions, Login, NewFile, NewJob, Outcome, Owner,
    QueueKey,
};
use schedule::{FileId, FileState, JobId, JobKind};

const JOB_FILES: usize = 50;
const LINKS: usize = 20;
/// Submissions at the same time.
const CLIENTS: usize = 16;
/// Files per claim, and claims in the second measurement.
const CLAIM_FILES: u32 = 50;
const CLAIMS: usize = 200;

fn key(link: usize) -> QueueKey {
    QueueKey {
        source: format!("davs://source{link}.example:443"),
        destination: "davs://destination.example:443".to_owned(),
        vo: "atlas".to_owned(),
        activity: "Production".to_owned(),
        user: "/DC=org/CN=Robot".to_owned(),
    }
}

fn job(number: u128) -> NewJob {
    let key = key((number % LINKS as u128) as usize);
    let path = "rucio/mc23/aa/bb/AOD.012345._000001.pool.root.1";
    let file = |index: usize| NewFile {
        index: index as u32,
        source: format!("{}/{path}.{index}", key.source),
        destination: format!("{}/{path}.{index}", key.destination),
        source_storage: key.source.clone(),
        destination_storage: key.destination.clone(),
        state: FileState::Submitted,
        size_bytes: Some(1 << 30),
        activity: key.activity.clone(),
        options: FileOptions {
            checksum: Some("ADLER32:1a2b3c4d".to_owned()),
            metadata: Some(serde_json::json!({"request_id": "0123456789abcdef", "scope": "mc23", "name": path})),
            ..FileOptions::default()
        },
    };
    NewJob {
        id: JobId(number.to_be_bytes()),
        kind: JobKind::Normal,
        owner: Owner {
            user: "/DC=org/CN=Robot".to_owned(),
            delegation_id: "0123456789abcdef".to_owned(),
            vo: key.vo.clone(),
            login: Login::Certificate,
        },
        submitted_ms: 1_800_000_000_000,
        priority: 3,
        expires_ms: Some(1_900_000_000_000),
        options: JobOptions::default(),
        metadata: Some(serde_json::json!({"issuer": "rucio"})),
        files: (0..JOB_FILES).map(file).collect(),
    }
}

fn report(what: &str, count: usize, started: Instant) {
    let seconds = started.elapsed().as_secs_f64();
    let rate = count as f64 / seconds;
    let line = format!("{what}: {count} in {seconds:.2} s, {rate:.0}/s\n");
    // A reader that has gone needs no figures.
    let _ = std::io::stdout().write_all(line.as_bytes());
}

async fn fill(catalog: &Catalog, jobs: usize) {
    let clients = (0..CLIENTS).map(|client| {
        let catalog = catalog.clone();
        tokio::spawn(async move {
            for number in (client..jobs).step_by(CLIENTS) {
                catalog.submit(job(number as u128)).await.map_err(drop)?;
            }
            Ok::<(), ()>(())
        })
    });
    for client in clients.collect::<Vec<_>>() {
        assert!(matches!(client.await, Ok(Ok(()))), "a submission failed");
    }
}

/// Claims, starts and ends files as a worker does.
async fn run(catalog: &Catalog, claims: usize) -> types::Result<usize> {
    let mut done = 0;
    for number in 0..claims {
        let grant = Grant {
            queue: key(number % LINKS),
            priority: 3,
            count: CLAIM_FILES,
        };
        let (now, lease) = (1_800_000_000_000, 1_800_000_060_000);
        let claimed = catalog.claim(&[grant], "w1", now, lease).await?;
        let ids: Vec<FileId> = claimed.iter().map(|claimed| claimed.file.id).collect();
        catalog.start(&ids, "w1", now).await?;
        let ending = |claimed: &Claimed| Ending {
            file: claimed.file.id,
            moved_bytes: 1 << 30,
            outcome: Outcome::Finished {
                size_bytes: 1 << 30,
                way: None,
            },
            facts: CopyFacts::default(),
        };
        done += catalog
            .end("w1", claimed.iter().map(ending).collect(), now)
            .await?
            .len();
    }
    Ok(done)
}

async fn measure(place: &str, files: usize) -> types::Result<()> {
    let catalog = match place.starts_with("postgres://") {
        true => Catalog::open_postgres(place).await?,
        false => Catalog::open_sqlite(&Path::new(place).join("speed.db")).await?,
    };
    let jobs = files.div_ceil(JOB_FILES);
    let started = Instant::now();
    fill(&catalog, jobs).await;
    report("submitted files", jobs * JOB_FILES, started);
    let started = Instant::now();
    let done = run(&catalog, CLAIMS).await?;
    report("claimed, started and finished files", done, started);
    let ids: Vec<JobId> = (0..100_u128).map(|number| JobId(number.to_be_bytes())).collect();
    let started = Instant::now();
    let count: usize = catalog.jobs(&ids).await?.len();
    report("statuses of jobs", count, started);
    let started = Instant::now();
    let count: usize = catalog.files_of(&ids, usize::MAX).await?.iter().map(Vec::len).sum();
    report("files of these jobs", count, started);
    let started = Instant::now();
    report("queues", catalog.queues().await?.len(), started);
    let last = catalog.files(JobId((jobs as u128 - 1).to_be_bytes())).await?;
    let started = Instant::now();
    for file in &last {
        catalog.position(file.id).await?;
    }
    report("positions", last.len(), started);
    let started = Instant::now();
    let due = catalog.due(1_800_000_000_001, i64::MAX).await?;
    report("sweeps", 1 + due.requeued, started);
    catalog.close().await;
    Ok(())
}

fn main() {
    let mut lines = std::io::stdin().lines().map_while(std::io::Result::ok);
    let place = lines.next().unwrap_or_else(|| ".".to_owned());
    let files = lines.next().and_then(|files| files.parse().ok()).unwrap_or(1_000_000);
    let outcome = execution::worker_runtime().map(|runtime| runtime.block_on(measure(&place, files)));
    assert!(matches!(outcome, Ok(Ok(()))), "{outcome:?}");
}
