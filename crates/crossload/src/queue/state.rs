//! The configuration of a queue, and where it keeps its state.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use catalog::Catalog;
use config::Configuration;
use door_queue::rights::{Level, Levels, Rights};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::command_line::QueueServeOptions;
use crate::failure::Failure;
use crate::server::configured;
use crate::server::secret::load_text;
use crate::token::now_s;

/// Where root's queue keeps its state, and that of the packages' unit.
const SYSTEM_DIRECTORY: &str = "/var/lib/crossload/queue";
/// Where that of another user does, below its home.
const USER_DIRECTORY: &str = ".local/state/crossload/queue";
/// The file of the database in the state directory.
const DATABASE_NAME: &str = "queue.db";
/// Where grid hosts keep their certificate, its key and the authorities that they trust.
const HOST_FILES: &str = "/etc/grid-security";
/// Where a queue without configuration shows its metrics.
const USUAL_ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9446);
/// The operator that stands for all clients.
const EVERYONE: &str = "*";
/// The virtual organisation of clients without credentials.
const ANONYMOUS_VO: &str = "anonymous";

/// Where a queue keeps its state.
pub(crate) struct State {
    pub(crate) database: Database,
    /// The key that seals credentials in the database.
    pub(crate) key_file: PathBuf,
    /// Where uploads to S3 storages are noted.
    pub(crate) uploads: PathBuf,
    /// Whether the key takes the place of another.
    pub(super) takes_new_key: bool,
    /// The address for metrics if none is configured and this one is free.
    pub(super) usual_admin: Option<SocketAddr>,
}

/// The database.
pub(crate) enum Database {
    /// A file.
    Sqlite(PathBuf),
    /// A URL.
    Postgres(String),
}

/// The configuration with the command line's options, and the state directory, made if missing.
///
/// # Errors
/// Mistakes in the file, a directory that cannot be made, or a password that cannot be read.
pub(super) fn configure(options: &QueueServeOptions) -> Result<(Configuration, State), Failure> {
    let configuration = read(options)?;
    make_directory(&directory(&configuration))?;
    let state = State {
        takes_new_key: options.new_key,
        usual_admin: is_plain(options).then_some(USUAL_ADMIN),
        ..State::of(&configuration).with_password(&configuration)?
    };
    Ok((configuration, state))
}

/// Whether a queue runs as it is installed, without configuration.
fn is_plain(options: &QueueServeOptions) -> bool {
    options.config.is_none() && !options.anonymous
}

/// The configuration with the command line's options.
///
/// # Errors
/// Mistakes in the file.
pub(super) fn read(options: &QueueServeOptions) -> Result<Configuration, Failure> {
    let mut configuration = match &options.config {
        Some(file) => load(file)?,
        None => Configuration::defaults(),
    };
    if is_plain(options) && options.cert.is_none() {
        take_host_files(&mut configuration, Path::new(HOST_FILES));
    }
    let queue = &mut configuration.queue;
    if !options.listen.is_empty() {
        queue.listen.clone_from(&options.listen);
    }
    if options.state_directory.is_some() {
        queue.state_directory.clone_from(&options.state_directory);
    }
    if options.database.is_some() {
        queue.database.clone_from(&options.database);
    }
    queue.anonymous |= options.anonymous;
    queue.operators.extend(options.operator.iter().cloned());
    if options.cert.is_some() {
        configuration.server.certificate.clone_from(&options.cert);
        configuration.server.key.clone_from(&options.key);
    }
    configuration.server.admin_listen = options.admin.or(configuration.server.admin_listen);
    configuration.tpc.allow_local_peers |= options.allow_local_peers;
    configuration.trust.ca_files.extend(options.cacert.iter().cloned());
    if options.trust_directory.is_some() {
        configuration.x509.trust_directory.clone_from(&options.trust_directory);
    }
    Ok(configuration)
}

/// Takes the certificate of this host, and the authorities and organisations that it trusts, if
/// they can be read.
fn take_host_files(configuration: &mut Configuration, directory: &Path) {
    let [certificate, key] = ["hostcert.pem", "hostkey.pem"].map(|name| directory.join(name));
    if File::open(&certificate).is_err() || File::open(&key).is_err() {
        return;
    }
    configuration.server.certificate = Some(certificate);
    configuration.server.key = Some(key);
    let existing = |name: &str| Some(directory.join(name)).filter(|found| found.is_dir());
    configuration.x509.trust_directory = existing("certificates");
    configuration.x509.voms_directory = existing("vomsdir");
}

/// Reads the file. That of another server is refused: it would start an empty queue in the usual
/// directory.
fn load(file: &Path) -> Result<Configuration, Failure> {
    let (configuration, sources) = configured::load_with_sources(file)?;
    let is_other = !configuration.exports.is_empty() || !configuration.nodes.is_empty();
    match is_other && !sources.has_section("queue") {
        true => Err(Failure::invalid(format!(
            "no [queue] in {0}: it is the file of crossload serve --config {0}; add [queue] to run a queue too",
            file.display()
        ))),
        false => Ok(configuration),
    }
}

/// Where the state is.
pub(crate) fn directory(configuration: &Configuration) -> PathBuf {
    let set = &configuration.queue.state_directory;
    set.clone().unwrap_or_else(usual_directory)
}

fn usual_directory() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from(SYSTEM_DIRECTORY);
    }
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("."), PathBuf::from);
    directory_of_user(&home, std::env::var_os("STATE_DIRECTORY").as_deref())
}

/// Where a queue of a user other than root keeps its state. systemd names the directory of a unit
/// (`StateDirectory=`, systemd.exec(5)). In that of the packages, the commands that root runs look
/// too. A queue that was there before stays below the home.
fn directory_of_user(home: &Path, of_unit: Option<&OsStr>) -> PathBuf {
    let below_home = home.join(USER_DIRECTORY);
    match of_unit.is_some_and(|directory| directory == SYSTEM_DIRECTORY) && !below_home.join(DATABASE_NAME).exists() {
        true => PathBuf::from(SYSTEM_DIRECTORY),
        false => below_home,
    }
}

fn make_directory(directory: &Path) -> Result<(), Failure> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|cause| {
        Failure::system(
            format!("cannot make the state directory {}", directory.display()),
            &cause,
        )
    })
}

impl State {
    /// The places that a configuration names.
    pub(crate) fn of(configuration: &Configuration) -> Self {
        let (queue, directory) = (&configuration.queue, directory(configuration));
        Self {
            database: match &queue.database {
                Some(url) => Database::Postgres(url.clone()),
                None => Database::Sqlite(directory.join(DATABASE_NAME)),
            },
            key_file: queue.key_file.clone().unwrap_or_else(|| directory.join("key")),
            uploads: directory.join("uploads"),
            takes_new_key: false,
            usual_admin: None,
        }
    }

    /// The same with the password of the database, if a file has it.
    ///
    /// # Errors
    /// The file cannot be read, or others may read it.
    pub(crate) fn with_password(mut self, configuration: &Configuration) -> Result<Self, Failure> {
        let file = configuration.queue.database_password_file.as_deref();
        if let (Database::Postgres(url), Some(file)) = (&mut self.database, file) {
            let text = load_text("password of the database", file)?;
            url.push_str(&password_setting(url, text.trim_end_matches(['\r', '\n'])));
        }
        Ok(self)
    }

    /// Opens the database, and makes or migrates it.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub(super) async fn open_catalog(&self) -> Result<Catalog, Failure> {
        Ok(match &self.database {
            Database::Sqlite(path) => Catalog::open_sqlite(path).await?,
            Database::Postgres(url) => Catalog::open_postgres(url).await?,
        })
    }

    /// The database for the log, without its password.
    pub(crate) fn database_words(&self) -> String {
        match &self.database {
            Database::Sqlite(path) => path.display().to_string(),
            Database::Postgres(_) => "postgres".to_owned(),
        }
    }
}

/// What sets the password behind the other settings of a database: in a URL, or in a list of
/// `key=value` (libpq, "Connection Strings").
pub(crate) fn password_setting(settings: &str, password: &str) -> String {
    if settings.contains("://") {
        let separator = if settings.contains('?') { '&' } else { '?' };
        return format!(
            "{separator}password={}",
            utf8_percent_encode(password, NON_ALPHANUMERIC)
        );
    }
    let quoted = password.replace('\\', "\\\\").replace('\'', "\\'");
    format!(" password='{quoted}'")
}

/// The name of this machine.
pub(super) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The name of this process among those that share the database. It contains the start, because a
/// name is never used again.
pub(super) fn worker_name(configuration: &Configuration) -> String {
    let name = configuration.queue.worker.clone().unwrap_or_else(host_name);
    format!("{name}:{}:{}", std::process::id(), now_s())
}

/// The configured part of a worker's name, by which operators know it.
pub(super) fn worker_base(name: &str) -> &str {
    name.rsplitn(3, ':').nth(2).unwrap_or(name)
}

/// The right to everything, for these users, and to everything of their virtual organisation, for
/// those.
pub(super) fn rights_of(users: &[String], vo_users: &[String]) -> Rights {
    let mut named: BTreeMap<String, Levels> = BTreeMap::new();
    for (names, level) in [(users, Level::All), (vo_users, Level::Vo)] {
        let levels = Levels {
            transfer: level,
            config: level,
        };
        for name in names {
            let known = named.entry(name.clone()).or_default();
            *known = known.or(levels);
        }
    }
    Rights {
        everyone: named.get(EVERYONE).copied().unwrap_or_default(),
        users: named.clone(),
        groups: named,
        ..Rights::default()
    }
}

/// Who may do what.
pub(super) fn rights(configuration: &Configuration) -> Rights {
    let queue = &configuration.queue;
    Rights {
        anonymous_vo: queue.anonymous.then(|| ANONYMOUS_VO.to_owned()),
        ..rights_of(&queue.operators, &queue.vo_operators)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use clap::Parser as _;

    use super::*;
    use crate::command_line::{Command, CommandLine, QueueAction};

    #[test]
    fn the_command_line_names_a_database_and_what_is_left_out_has_defaults() {
        let directory = tempfile::tempdir().unwrap();
        let configured = |options: &str| {
            let state = directory.path().to_str().unwrap();
            let words = ["crossload", "queue", "serve", "--state-directory", state];
            let words = words.into_iter().chain(options.split_whitespace());
            match CommandLine::try_parse_from(words).unwrap().command {
                Command::Queue(QueueAction::Serve(options)) => configure(&options).unwrap().1,
                other => panic!("{other:?}"),
            }
        };
        let shared = configured("--database postgres://jane@host/name");
        assert!(matches!(shared.database, Database::Postgres(url) if url == "postgres://jane@host/name"));
        assert_eq!(shared.usual_admin, Some(USUAL_ADMIN));
        assert_eq!(shared.uploads, directory.path().join("uploads"));
        let for_tests = configured("--anonymous");
        assert!(matches!(for_tests.database, Database::Sqlite(file) if file == directory.path().join("queue.db")));
        assert_eq!(for_tests.usual_admin, None);
    }

    #[test]
    fn the_unit_of_the_packages_has_the_directory_of_root() {
        let home = tempfile::tempdir().unwrap();
        let place = |of_unit: Option<&str>| directory_of_user(home.path(), of_unit.map(OsStr::new));
        let below_home = home.path().join(USER_DIRECTORY);
        assert_eq!(place(Some(SYSTEM_DIRECTORY)), Path::new(SYSTEM_DIRECTORY));
        for of_unit in [None, Some(""), Some("/var/lib/runner")] {
            assert_eq!(place(of_unit), below_home, "{of_unit:?}");
        }
        std::fs::create_dir_all(&below_home).unwrap();
        std::fs::write(below_home.join(DATABASE_NAME), "").unwrap();
        assert_eq!(place(Some(SYSTEM_DIRECTORY)), below_home, "its jobs are there");
    }

    #[test]
    fn a_password_from_a_file_joins_the_other_settings() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("password");
        std::fs::write(&file, "p@ss w'ord\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let mut configuration = Configuration::defaults();
        configuration.queue.database_password_file = Some(file.clone());
        let mut url_of = |database: &str| {
            configuration.queue.database = Some(database.to_owned());
            match State::of(&configuration).with_password(&configuration)?.database {
                Database::Postgres(url) => Ok::<_, Failure>(url),
                Database::Sqlite(path) => panic!("{}", path.display()),
            }
        };
        for (database, wanted) in [
            ("postgres://q@h/d", "postgres://q@h/d?password=p%40ss%20w%27ord"),
            ("postgres://q@h/d?x=1", "postgres://q@h/d?x=1&password=p%40ss%20w%27ord"),
            ("host=h user=q", r"host=h user=q password='p@ss w\'ord'"),
        ] {
            assert_eq!(url_of(database).unwrap(), wanted);
        }
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let refused = url_of("postgres://q@h/d").expect_err("others may read it");
        assert!(refused.words.contains("chmod 600"), "{}", refused.words);
    }

    #[test]
    fn a_queue_without_configuration_takes_the_files_of_its_host() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let taken = || {
            let mut configuration = Configuration::defaults();
            take_host_files(&mut configuration, directory.path());
            let x509 = configuration.x509;
            let server = configuration.server;
            (
                server.certificate,
                server.key,
                x509.trust_directory,
                x509.voms_directory,
            )
        };
        std::fs::write(at("hostcert.pem"), "").unwrap();
        std::fs::create_dir(at("certificates")).unwrap();
        assert_eq!(taken(), (None, None, None, None), "no key that it can read");
        std::fs::write(at("hostkey.pem"), "").unwrap();
        let files = ["hostcert.pem", "hostkey.pem", "certificates"].map(|name| Some(at(name)));
        let [certificate, key, trust] = files;
        assert_eq!(taken(), (certificate, key, trust, None));
    }

    #[test]
    fn the_file_of_another_server_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("c.toml");
        let export = format!("[[export]]\npath = \"/\"\ndirectory = {:?}\n", directory.path());
        std::fs::write(&file, &export).unwrap();
        let refused = super::load(&file).err().unwrap().words;
        assert!(refused.starts_with("no [queue] in "), "{refused}");
        for text in [format!("{export}[queue]\n"), "[server]\n".to_owned(), String::new()] {
            std::fs::write(&file, &text).unwrap();
            assert!(super::load(&file).is_ok(), "{text}");
        }
    }

    #[test]
    fn an_operator_of_all_is_none_of_one_organisation() {
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let rights = rights_of(&names(&["/CN=Jane"]), &names(&["/CN=Jane", "/CN=John"]));
        let level = |name: &str| rights.users.get(name).map(|levels| (levels.transfer, levels.config));
        assert_eq!(level("/CN=Jane"), Some((Level::All, Level::All)));
        assert_eq!(level("/CN=John"), Some((Level::Vo, Level::Vo)));
        assert_eq!(rights.everyone, Levels::default());
    }

    #[test]
    fn operators_know_a_worker_by_the_configured_part_of_its_name() {
        for (full, base) in [
            ("one:24124:1795863603", "one"),
            ("a:b:1:2", "a:b"),
            ("one", "one"),
            ("a:1", "a:1"),
        ] {
            assert_eq!(super::worker_base(full), base);
        }
    }
}
