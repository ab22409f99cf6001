//! PostgreSQL: a pool of connections, which several processes may use at the same time.
//!
//! Operations run at the isolation level READ COMMITTED and lock the rows that they decide about.
//! One that PostgreSQL refuses because of another (a deadlock) is run again. An operation whose
//! connection breaks fails with `catalog_unavailable`; the pool then connects anew.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime, Timeouts};
use futures_util::TryStreamExt as _;
use futures_util::future::try_join_all;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::{Mutex, watch};
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{AsyncMessage, Client, Config, IsolationLevel};
use tokio_postgres_rustls::MakeRustlsConnect;
use types::{Error, ErrorCode, Result};

use super::{Operation, Row, Step, Transaction, Value, failure};
use crate::limits::{
    APART_CONNECTIONS_MAX, ATTEMPTS_MAX, CONNECT_TIME_MAX, CONNECTIONS_MAX, OPERATION_TIME_MAX, PIPELINE_MAX,
    SILENCE_MAX,
};

/// Names our advisory locks among those of other programs: "crosslod" as a number.
const LOCKS: i64 = 0x6372_6f73_736c_6f64;
/// The order of events.
const EVENT_LOCK: i64 = LOCKS;
/// The leader.
const LEADER_LOCK: i64 = LOCKS + 1;
/// Unanswered probes after which a silent connection is given up.
const PROBES: u32 = 4;
/// The channel of notices.
const CHANNEL: &str = "crossload_catalog";
/// Pause before another attempt to listen for notices.
const LISTEN_PAUSE: Duration = Duration::from_secs(1);

/// An open database.
#[derive(Clone)]
pub(crate) struct Postgres(Arc<Inner>);

struct Inner {
    pool: Pool,
    config: Config,
    tls: MakeRustlsConnect,
    /// The connection that has the leader's lock, or tries to get it.
    candidate: Mutex<Option<Client>>,
}

impl Postgres {
    /// Prepares connections. Connects when the first operation runs.
    pub(crate) fn open(url: &str, changes: watch::Sender<u64>) -> Result<Self> {
        let refused = |words: &str| failure(ErrorCode::CatalogUnavailable).with_detail(words);
        let mut config: Config = url
            .parse()
            .map_err(|_| refused("its URL must have the form postgres://user:password@host:port/database"))?;
        config.connect_timeout(CONNECT_TIME_MAX);
        config.application_name("crossload");
        // A connection that leads nowhere fails, and the pool makes another one.
        config.keepalives_idle(SILENCE_MAX / 2);
        config.keepalives_interval(SILENCE_MAX / 2 / PROBES);
        config.keepalives_retries(PROBES);
        config.tcp_user_timeout(SILENCE_MAX);
        let tls = tls()?;
        let pool = pool(&config, &tls, CONNECTIONS_MAX)?;
        tokio::spawn(listen(config.clone(), tls.clone(), changes));
        Ok(Self(Arc::new(Inner {
            pool,
            config,
            tls,
            candidate: Mutex::default(),
        })))
    }

    /// The same database over other connections, which the current runtime drives.
    pub(crate) fn apart(&self) -> Result<Self> {
        let Inner { config, tls, .. } = &*self.0;
        Ok(Self(Arc::new(Inner {
            pool: pool(config, tls, APART_CONNECTIONS_MAX)?,
            config: config.clone(),
            tls: tls.clone(),
            candidate: Mutex::default(),
        })))
    }

    /// Runs an operation in a transaction.
    pub(crate) async fn write<T: Send + 'static>(&self, operation: impl Operation<T>) -> Result<T> {
        self.write_within(OPERATION_TIME_MAX, operation).await
    }

    /// As [`Postgres::write`], with another limit on its time.
    pub(crate) async fn write_within<T: Send + 'static>(
        &self,
        time: Duration,
        operation: impl Operation<T>,
    ) -> Result<T> {
        let mut attempt = 1;
        loop {
            let (result, is_conflict) = self.attempt(time, &operation, false).await;
            if !is_conflict || attempt == ATTEMPTS_MAX {
                return result;
            }
            attempt += 1;
        }
    }

    /// Runs an operation that only reads, over one state of the database.
    pub(crate) async fn read<T: Send + 'static>(&self, operation: impl Operation<T>) -> Result<T> {
        self.attempt(OPERATION_TIME_MAX, &operation, true).await.0
    }

    /// Returns also whether another operation was in the way.
    async fn attempt<T>(&self, time: Duration, operation: &impl Operation<T>, only_reads: bool) -> (Result<T>, bool) {
        let mut client = match self.0.pool.get().await {
            Ok(client) => client,
            Err(error) => return (Err(unavailable(&error)), false),
        };
        let run = Self::run(&mut client, operation, only_reads);
        if let Ok(outcome) = timeout(time, run).await {
            return outcome;
        }
        // Its answers would be taken for those of the next operation.
        drop(Object::take(client));
        let error = failure(ErrorCode::CatalogUnavailable);
        (Err(error.with_private("no answer to an operation")), false)
    }

    async fn run<T>(client: &mut Object, operation: &impl Operation<T>, only_reads: bool) -> (Result<T>, bool) {
        let level = match only_reads {
            true => IsolationLevel::RepeatableRead,
            false => IsolationLevel::ReadCommitted,
        };
        let builder = client.build_transaction().isolation_level(level).read_only(only_reads);
        let inner = match builder.start().await {
            Ok(inner) => inner,
            Err(error) => return (Err(translate(&error)), false),
        };
        let mut transaction = PostgresTransaction {
            inner,
            is_conflict: false,
        };
        let result = operation(&mut transaction).await;
        let is_conflict = transaction.is_conflict;
        match result {
            Ok(value) => match transaction.inner.commit().await {
                Ok(()) => (Ok(value), false),
                Err(error) => (Err(translate(&error)), is_conflict_error(&error)),
            },
            // Dropping it rolls it back.
            Err(error) => (Err(error), is_conflict),
        }
    }

    /// Ends the use of the pool.
    pub(crate) async fn close(self) {
        self.0.candidate.lock().await.take();
        self.0.pool.close();
    }

    /// Whether this process leads: it holds a lock of the database for as long as its connection
    /// lasts.
    pub(crate) async fn try_lead(&self) -> Result<bool> {
        let mut kept = self.0.candidate.lock().await;
        if let Some(client) = kept.take()
            && let Ok(leads) = lock_leader(&client).await
        {
            *kept = Some(client);
            return Ok(leads);
        }
        let client = self.connect().await?;
        let leads = lock_leader(&client).await?;
        *kept = Some(client);
        Ok(leads)
    }

    /// A connection beside the pool.
    async fn connect(&self) -> Result<Client> {
        let connecting = self.0.config.connect(self.0.tls.clone()).await;
        let (client, connection) = connecting.map_err(|error| translate(&error))?;
        tokio::spawn(async move {
            // Its client sees each error too.
            let _ = connection.await;
        });
        client
            .batch_execute(&session())
            .await
            .map_err(|error| translate(&error))?;
        Ok(client)
    }
}

/// Connections that are made when they are first used.
fn pool(config: &Config, tls: &MakeRustlsConnect, size: usize) -> Result<Pool> {
    let recycling = ManagerConfig {
        recycling_method: RecyclingMethod::Fast,
    };
    let manager = Manager::from_config(config.clone(), tls.clone(), recycling);
    let pool = Pool::builder(manager)
        .max_size(size)
        .runtime(Runtime::Tokio1)
        .post_create(Hook::async_fn(|client, _| {
            Box::pin(async move { client.batch_execute(&session()).await.map_err(HookError::Backend) })
        }))
        .timeouts(Timeouts {
            wait: Some(CONNECT_TIME_MAX * 4),
            create: Some(CONNECT_TIME_MAX),
            recycle: Some(CONNECT_TIME_MAX),
        })
        .build();
    pool.map_err(|error| failure(ErrorCode::CatalogUnavailable).with_private(error))
}

/// Whether this session has the leader's lock. A session that has it already gets it again.
async fn lock_leader(client: &Client) -> Result<bool> {
    let asking = client.query_one("SELECT pg_try_advisory_lock($1)", &[&LEADER_LOCK]);
    let answer = timeout(CONNECT_TIME_MAX, asking).await;
    let row = answer.map_err(|_| failure(ErrorCode::CatalogUnavailable).with_private("no answer"))?;
    row.and_then(|row| row.try_get(0)).map_err(|error| translate(&error))
}

/// Settings of a session. A server that has lost a client keeps its locks until it notices, which
/// takes hours by default: other processes would wait so long.
fn session() -> String {
    let silence = SILENCE_MAX.as_secs();
    format!(
        "SET idle_in_transaction_session_timeout = '{silence}s'; SET tcp_keepalives_idle = {}; \
         SET tcp_keepalives_interval = {}; SET tcp_keepalives_count = {PROBES}",
        silence / 2,
        silence / 2 / u64::from(PROBES)
    )
}

/// TLS with the system's authorities, where the URL's `sslmode` or the server asks for it.
fn tls() -> Result<MakeRustlsConnect> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(|error| failure(ErrorCode::Internal).with_private(error))?;
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// Passes notices on, until the catalog is gone. Notices are only a hint: who waits also looks
/// from time to time.
async fn listen(config: Config, tls: MakeRustlsConnect, changes: watch::Sender<u64>) {
    loop {
        tokio::select! {
            () = changes.closed() => return,
            () = listen_once(&config, &tls, &changes) => {}
        }
        tokio::select! {
            () = changes.closed() => return,
            () = tokio::time::sleep(LISTEN_PAUSE) => {}
        }
    }
}

async fn listen_once(config: &Config, tls: &MakeRustlsConnect, changes: &watch::Sender<u64>) {
    let Ok((client, mut connection)) = config.connect(tls.clone()).await else {
        return;
    };
    let news = || changes.send_modify(|count| *count = count.wrapping_add(1));
    let mut messages = futures_util::stream::poll_fn(move |context| connection.poll_message(context));
    let listening = async {
        let sql = format!("LISTEN {CHANNEL}");
        if client.batch_execute(&sql).await.is_ok() {
            // Notices may have been lost before.
            news();
            std::future::pending::<()>().await;
        }
    };
    let passing = async {
        while let Ok(Some(message)) = messages.try_next().await {
            if matches!(message, AsyncMessage::Notification(_)) {
                news();
            }
        }
    };
    tokio::select! {
        () = listening => {}
        () = passing => {}
    }
}

fn unavailable(error: &deadpool_postgres::PoolError) -> Error {
    match error {
        deadpool_postgres::PoolError::Backend(error) => translate(error),
        deadpool_postgres::PoolError::Closed => super::stopped(),
        other => failure(ErrorCode::CatalogUnavailable).with_private(other),
    }
}

/// Whether the same operation may succeed when it is run again.
fn is_conflict_error(error: &tokio_postgres::Error) -> bool {
    let conflicts = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        // Two processes made the same thing at the same time.
        SqlState::UNIQUE_VIOLATION,
        SqlState::DUPLICATE_TABLE,
    ];
    error.code().is_some_and(|code| conflicts.contains(code))
}

/// Our error for one of PostgreSQL. Without a code, the connection has failed.
fn translate(error: &tokio_postgres::Error) -> Error {
    let source = std::error::Error::source(error).map(ToString::to_string);
    let words = source.unwrap_or_else(|| error.to_string());
    let code = error.code().map_or("", SqlState::code);
    let ours = match code {
        "53100" => ErrorCode::CatalogFull,
        "XX001" | "XX002" => ErrorCode::CatalogDamaged,
        // Logins, privileges and names of databases: its administrator must read this.
        _ if code.starts_with("28") || code.starts_with("3D") || code == "42501" => {
            return failure(ErrorCode::CatalogUnavailable).with_detail(words);
        }
        "" | "40001" | "40P01" | "25006" | "25P03" => ErrorCode::CatalogUnavailable,
        _ if code.starts_with("53") || code.starts_with("57") || code.starts_with("08") => {
            ErrorCode::CatalogUnavailable
        }
        _ => ErrorCode::Internal,
    };
    failure(ours).with_private(format!("{code} {words}"))
}

struct PostgresTransaction<'c> {
    inner: deadpool_postgres::Transaction<'c>,
    is_conflict: bool,
}

impl PostgresTransaction<'_> {
    fn noted(&mut self, error: &tokio_postgres::Error) -> Error {
        self.is_conflict |= is_conflict_error(error);
        translate(error)
    }

    async fn execute_all(&mut self, sql: &str, sets: &[Vec<Value>]) -> Result<Vec<u64>> {
        let mut changed = Vec::with_capacity(sets.len());
        if sets.is_empty() {
            return Ok(changed);
        }
        let statement = self.inner.prepare_cached(&dialect(sql)).await;
        let statement = statement.map_err(|error| self.noted(&error))?;
        for chunk in sets.chunks(PIPELINE_MAX) {
            let running = chunk.iter().map(|set| self.inner.execute_raw(&statement, set.iter()));
            let counts = try_join_all(running).await;
            changed.extend(counts.map_err(|error| self.noted(&error))?);
        }
        Ok(changed)
    }

    async fn query_all(&mut self, sql: &str, sets: &[Vec<Value>]) -> Result<Vec<Vec<Row>>> {
        let mut found = Vec::with_capacity(sets.len());
        if sets.is_empty() {
            return Ok(found);
        }
        let statement = self.inner.prepare_cached(&dialect(sql)).await;
        let statement = statement.map_err(|error| self.noted(&error))?;
        for chunk in sets.chunks(PIPELINE_MAX) {
            let running = chunk.iter().map(async |set| {
                let rows = self.inner.query_raw(&statement, set.iter()).await?;
                rows.try_collect::<Vec<tokio_postgres::Row>>().await
            });
            let answers = try_join_all(running).await;
            let answers = answers.map_err(|error| self.noted(&error))?;
            for rows in answers {
                let rows: Result<Vec<Row>> = rows.iter().map(read).collect();
                found.push(rows?);
            }
        }
        Ok(found)
    }
}

/// Sets the next number of `queue`.
const QUEUE_IDS_GO_ON: &str = "SELECT setval(pg_get_serial_sequence('queue', 'id'), \
    COALESCE((SELECT MAX(id) FROM queue), 0) + 1, false);";

/// The statement in PostgreSQL's words.
fn dialect(sql: &str) -> String {
    sql.replace("{lock}", "FOR UPDATE")
        .replace("{lock_free}", "FOR UPDATE SKIP LOCKED")
        .replace("{identity}", "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY")
        .replace("{blob}", "BYTEA")
        .replace("{by_hash}", "USING HASH")
        .replace("{queue_ids_go_on}", QUEUE_IDS_GO_ON)
}

fn read(row: &tokio_postgres::Row) -> Result<Row> {
    let column = |index: usize| {
        let kind = row.columns()[index].type_();
        let value = match *kind {
            Type::INT2 => row.try_get::<_, Option<i16>>(index).map(Value::from),
            Type::INT4 => row
                .try_get::<_, Option<i32>>(index)
                .map(|number| number.map(i64::from).into()),
            Type::INT8 => row.try_get::<_, Option<i64>>(index).map(Value::from),
            Type::BYTEA => row
                .try_get::<_, Option<Vec<u8>>>(index)
                .map(|bytes| bytes.map_or(Value::Null, Value::Bytes)),
            _ => row.try_get::<_, Option<String>>(index).map(Value::from),
        };
        value.map_err(|error| translate(&error))
    };
    let columns: Result<Vec<Value>> = (0..row.len()).map(column).collect();
    columns.map(Row::new)
}

impl ToSql for Value {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Integer(number) => match *kind {
                Type::INT2 => i16::try_from(*number)?.to_sql(kind, out),
                Type::INT4 => i32::try_from(*number)?.to_sql(kind, out),
                _ => number.to_sql(kind, out),
            },
            Self::Text(text) => text.to_sql(kind, out),
            Self::Bytes(bytes) => bytes.to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl Transaction for PostgresTransaction<'_> {
    fn execute<'t>(&'t mut self, sql: &'t str, parameters: &'t [Value]) -> Step<'t, u64> {
        Box::pin(async move {
            let sets = [parameters.to_vec()];
            let counts = self.execute_all(sql, &sets).await?;
            Ok(counts.into_iter().sum())
        })
    }

    fn query<'t>(&'t mut self, sql: &'t str, parameters: &'t [Value]) -> Step<'t, Vec<Row>> {
        Box::pin(async move {
            let sets = [parameters.to_vec()];
            let found = self.query_all(sql, &sets).await?;
            Ok(found.into_iter().flatten().collect())
        })
    }

    fn execute_each<'t>(&'t mut self, sql: &'t str, sets: &'t [Vec<Value>]) -> Step<'t, Vec<u64>> {
        Box::pin(self.execute_all(sql, sets))
    }

    fn query_each<'t>(&'t mut self, sql: &'t str, sets: &'t [Vec<Value>]) -> Step<'t, Vec<Vec<Row>>> {
        Box::pin(self.query_all(sql, sets))
    }

    fn script<'t>(&'t mut self, sql: &'t str) -> Step<'t, ()> {
        Box::pin(async move {
            let done = self.inner.batch_execute(&dialect(sql)).await;
            done.map_err(|error| self.noted(&error))
        })
    }

    fn order_events(&mut self) -> Step<'_, ()> {
        Box::pin(async move {
            let sql = format!("SELECT pg_advisory_xact_lock({EVENT_LOCK}); NOTIFY {CHANNEL}");
            let done = self.inner.batch_execute(&sql).await;
            done.map_err(|error| self.noted(&error))
        })
    }
}

#[cfg(test)]
mod tests {
    use testkit::available;

    use super::*;

    async fn sleep(transaction: &mut dyn Transaction, seconds: i64) -> Result<i64> {
        let sql = "SELECT $1::BIGINT FROM (SELECT pg_sleep($1::BIGINT)) slept";
        let mut rows = transaction.query(sql, &[seconds.into()]).await?;
        rows.remove(0).number()
    }

    #[test]
    fn an_operation_that_is_not_answered_is_given_up() {
        let test = "an_operation_that_is_not_answered_is_given_up";
        let Some(server) = available(test, testkit::Postgres::start()) else {
            return;
        };
        let runtime = execution::single_thread_runtime().unwrap();
        runtime.block_on(async {
            let postgres = Postgres::open(&server.database("asleep").unwrap(), watch::channel(0).0).unwrap();
            let asleep = postgres.write_within(Duration::from_millis(300), |transaction| {
                Box::pin(sleep(transaction, 600))
            });
            let error = asleep.await.unwrap_err();
            assert_eq!(error.code(), ErrorCode::CatalogUnavailable);
            // The next one has a connection of its own.
            for _ in 0..2 * CONNECTIONS_MAX {
                let awake = postgres.read(|transaction| Box::pin(sleep(transaction, 0)));
                assert_eq!(awake.await.unwrap(), 0);
            }
        });
    }
}
