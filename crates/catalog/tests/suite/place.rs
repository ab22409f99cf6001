//! Databases for tests, and jobs to put there.

use std::future::Future;
use std::pin::Pin;

use catalog::{Catalog, FileOptions, JobOptions, Login, NewFile, NewJob, Owner, Problem, QueueKey};
use schedule::{FileState, JobId, JobKind};
use tempfile::TempDir;

/// When tests begin.
pub(crate) const NOW: i64 = 1_800_000_000_000;
/// A source.
pub(crate) const A: &str = "davs://a.example:443";
/// A destination.
pub(crate) const B: &str = "davs://b.example:443";
/// A third storage.
pub(crate) const C: &str = "root://c.example:1094";

/// A fresh database.
pub(crate) struct Place {
    pub(crate) catalog: Catalog,
    origin: Origin,
}

/// Where it is.
enum Origin {
    /// Removed when dropped.
    Sqlite(TempDir),
    /// Goes with its server.
    Postgres(String),
}

impl Place {
    pub(crate) async fn sqlite() -> Self {
        Self::open(Origin::Sqlite(tempfile::tempdir().unwrap())).await
    }

    pub(crate) async fn postgres(url: String) -> Self {
        Self::open(Origin::Postgres(url)).await
    }

    async fn open(origin: Origin) -> Self {
        let catalog = match &origin {
            Origin::Sqlite(directory) => Catalog::open_sqlite(&directory.path().join("queue.db")).await,
            Origin::Postgres(url) => Catalog::open_postgres(url).await,
        };
        let catalog = catalog.unwrap();
        Self { catalog, origin }
    }

    /// The mark of the key, as another process sees it.
    pub(crate) async fn key_mark(&self) -> Option<String> {
        match &self.origin {
            Origin::Sqlite(directory) => catalog::key_mark_in_file(&directory.path().join("queue.db")).unwrap(),
            Origin::Postgres(url) => catalog::key_mark_in_postgres(url).await.unwrap(),
        }
    }

    /// The same database, opened again.
    pub(crate) async fn reopened(self) -> Self {
        self.catalog.close().await;
        Self::open(self.origin).await
    }
}

/// A test that needs a database.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) run: fn(Place) -> Pin<Box<dyn Future<Output = ()>>>,
}

/// Makes a test of each function for SQLite, and `CASES` of all for PostgreSQL.
macro_rules! for_each_database {
    ($(async fn $name:ident($place:ident: Place) $body:block)*) => {
        $(
            async fn $name($place: Place) $body
        )*

        pub(crate) const CASES: &[crate::place::Case] = &[$(
            crate::place::Case { name: stringify!($name), run: |place| Box::pin($name(place)) },
        )*];

        mod sqlite {
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name(super::Place::sqlite().await).await;
                }
            )*
        }
    };
}
pub(crate) use for_each_database;

/// A job without files.
pub(crate) fn job(number: u8, kind: JobKind) -> NewJob {
    NewJob {
        id: JobId([number; 16]),
        kind,
        owner: Owner {
            user: "/DC=org/CN=Jane".to_owned(),
            delegation_id: "0123456789abcdef".to_owned(),
            vo: "atlas".to_owned(),
            login: Login::Certificate,
        },
        submitted_ms: NOW,
        priority: 3,
        expires_ms: None,
        options: JobOptions::default(),
        metadata: Some(serde_json::json!({"issuer": "rucio"})),
        files: Vec::new(),
    }
}

/// A file from A to B.
pub(crate) fn file(index: u32, state: FileState) -> NewFile {
    NewFile {
        index,
        source: format!("{A}/data/{index}"),
        destination: format!("{B}/data/{index}"),
        source_storage: A.to_owned(),
        destination_storage: B.to_owned(),
        state,
        size_bytes: Some(1000),
        activity: "Production".to_owned(),
        options: FileOptions {
            metadata: Some(serde_json::json!({"scope": "user.jane"})),
            ..FileOptions::default()
        },
    }
}

/// A job of so many independent files, ready to be copied.
pub(crate) fn plain_job(number: u8, files: u32) -> NewJob {
    NewJob {
        files: (0..files).map(|index| file(index, FileState::Submitted)).collect(),
        ..job(number, JobKind::Normal)
    }
}

/// The queue of [`file`].
pub(crate) fn queue() -> QueueKey {
    QueueKey {
        source: A.to_owned(),
        destination: B.to_owned(),
        vo: "atlas".to_owned(),
        activity: "Production".to_owned(),
    }
}

/// A failure of the destination.
pub(crate) fn problem() -> Problem {
    Problem {
        code: "peer_failed".to_owned(),
        side: "destination".to_owned(),
        phase: "transfer".to_owned(),
        reason: "DESTINATION [5] Input/output error".to_owned(),
        is_recoverable: true,
    }
}
