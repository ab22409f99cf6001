//! `crossload check`: checks a server's configuration and everything that it names, and prints what
//! to change, with lines.
//!
//! It changes nothing, except for probe files that it removes again, and does not disturb a running
//! server. Each part is a function of its arguments, so that a test can provoke each fault.

mod bus;
mod caches;
mod certificate;
mod clients;
mod clock;
mod cms;
mod credentials;
mod dns;
mod exposed;
mod finding;
mod history;
mod hosts;
mod issuers;
mod lines;
mod listeners;
mod machine;
mod manual;
mod monitoring;
mod node;
mod nodes;
pub(crate) mod ports;
mod queue;
mod queue_state;
mod queue_users;
mod rules;
mod secrets;
mod sessions;
mod sign_in;
mod spool;
mod storage;
#[cfg(test)]
mod tests;
mod traces;
mod trust;
mod unlisted;
mod upstream;

use std::path::Path;

use config::{Configuration, Faults, Mistake, NamedFile, Purpose, Sections as _};
use net::tls::{ClientTls, Trust};
use policy::AnonymousAccess;
use rustix::process::{Resource, getrlimit};
use types::Location;

use crate::client::session::ClientContext;
use crate::command_line::CheckOptions;
use crate::failure::Failure;
use crate::made_client::new_client;
use crate::output;
use crate::server::configured;
use finding::{Finding, Position, Severity, Sum};
use lines::Lines;
use secrets::SecretFile;
use trust::Authorities;

/// Inputs of the checks from the machine and the command line.
pub(crate) struct Environment {
    pub(crate) now_s: i64,
    pub(crate) uid: u32,
    pub(crate) descriptors_max: Option<u64>,
    pub(crate) warn_days: u32,
    /// Free bytes in the file system of a directory, and its size in bytes.
    pub(crate) free_space: fn(&Path) -> Option<(u64, u64)>,
}

/// Checks, and prints the findings. The exit code is 0 for nothing worse than notes, 1 with
/// warnings unless they are allowed, 2 with errors.
///
/// # Errors
/// An invalid command line.
pub(crate) fn run(options: &CheckOptions) -> Result<u8, Failure> {
    let (findings, configuration) = check_file(&options.config, &environment(options));
    let mut findings = findings;
    if let Some((mut configuration, lines)) = configuration.filter(|_| !options.offline) {
        let is_queue = queue::is_queue_alone(&configuration, &lines);
        if is_queue {
            queue::as_server(&mut configuration);
        }
        let runtime =
            execution::single_thread_runtime().map_err(|cause| Failure::system("cannot start threads", &cause))?;
        findings.extend(runtime.block_on(online(&configuration, &lines, options))?);
        if is_queue {
            findings.extend(runtime.block_on(queue_state::check_database(&configuration, &lines)));
            queue::place(&mut findings, &lines);
        }
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    print(&findings, options);
    match Sum::of(&findings).exit_code() {
        Sum::WARNINGS if options.allow_warnings => Ok(0),
        code => Ok(code),
    }
}

fn environment(options: &CheckOptions) -> Environment {
    Environment {
        now_s: crate::token::now_s(),
        uid: rustix::process::geteuid().as_raw(),
        descriptors_max: getrlimit(Resource::Nofile).maximum,
        warn_days: options.warn_days,
        free_space: storage::free_space,
    }
}

fn print(findings: &[Finding], options: &CheckOptions) {
    let shown = findings
        .iter()
        .filter(|finding| !options.quiet || finding.severity > Severity::Note);
    for finding in shown {
        match options.common.json {
            true => output::json(&finding.to_json()),
            false => output::line(&finding.to_string()),
        }
    }
    if !options.common.json {
        output::line(&Sum::of(findings).to_string());
    }
}

/// All checks without network, and the configuration if it is valid.
pub(crate) fn check_file(file: &Path, environment: &Environment) -> (Vec<Finding>, Option<(Configuration, Lines)>) {
    match configured::load_with_sources(file) {
        Err(faults) => (unreadable(&faults), None),
        Ok((configuration, sources)) => {
            let lines = Lines::of_sources(sources);
            let mut findings = vec![valid(&lines)];
            findings.extend(writable(file, &configuration));
            findings.extend(exposed::check(&configuration, file, &lines));
            match queue::is_queue_alone(&configuration, &lines) {
                true => {
                    let mut as_server = configuration.clone();
                    queue::as_server(&mut as_server);
                    findings.extend(check_both(&as_server, &lines, environment));
                    findings.extend(queue::check(&configuration, &lines));
                    let place = lines.of("queue", "database").file;
                    let mode = mode(Path::new(&place));
                    findings.extend(queue_state::open_password(&configuration, &lines, mode));
                    queue::place(&mut findings, &lines);
                }
                false => {
                    findings.extend(check_both(&configuration, &lines, environment));
                    findings.extend(check_endpoint(&configuration, &lines));
                    findings.extend(exports(&configuration, &lines, environment));
                }
            }
            (findings, Some((configuration, lines)))
        }
    }
}

/// The faults of a configuration, each with its key and line.
fn unreadable(faults: &Faults) -> Vec<Finding> {
    let finding = |mistake: &Mistake| {
        let finding = Finding::error("configuration_fault", mistake.says.clone()).change(mistake.remedy());
        finding.at(Position {
            file: mistake.file.clone(),
            line: mistake.line,
            key: mistake.key.clone(),
        })
    };
    faults.0.iter().map(finding).collect()
}

/// The permissions of a file; 0 if they cannot be read.
fn mode(file: &Path) -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(file).map_or(0, |facts| facts.mode())
}

/// The files that were read.
fn valid(lines: &Lines) -> Finding {
    let files: Vec<&str> = lines.files().collect();
    let verb = if files.len() == 1 { "is" } else { "are" };
    Finding::ok("configuration", format!("{} {verb} valid", files.join(", ")))
}

/// With write access to the configuration, a user can do anything as the server's user.
fn writable(file: &Path, configuration: &Configuration) -> Vec<Finding> {
    let directory = config::directory_of(file).into_iter();
    let all = configuration.read_from.iter().cloned().chain(directory);
    let open = all.filter(|place| mode(place) & 0o002 != 0);
    open.map(|place| {
        let says = format!("every user may change the configuration {}", place.display());
        Finding::error("configuration_open", says).change(format!("chmod o-w {}", place.display()))
    })
    .collect()
}

/// All checks without network of what only an endpoint has.
fn check_endpoint(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let mut findings = rules::check(configuration, lines);
    findings.extend(issuers::paths(configuration, lines));
    findings.extend(sessions::check(configuration, lines));
    findings.extend(cms::check(configuration, lines));
    findings.extend(node::check(configuration, lines));
    findings.extend(bus::check(configuration, lines));
    findings.extend(upstream::check_configured(configuration, lines));
    findings
}

/// All checks without network of what an endpoint and a queue have.
fn check_both(configuration: &Configuration, lines: &Lines, environment: &Environment) -> Vec<Finding> {
    let (trusted, limits) = (&configuration.trust, &configuration.limits);
    let authorities = Authorities::read(
        &trusted.ca_files,
        &trusted.ca_directories,
        trusted.system,
        environment.now_s,
    );
    let wants_directory = lines.is_written("trust", "ca_directories");
    let mut findings = authorities.check(
        &lines.of("trust", "ca_files"),
        &lines.of("trust", "ca_directories"),
        wants_directory,
    );
    findings.extend(server_certificate(configuration, lines, &authorities, environment));
    findings.extend(listeners::check(configuration, lines));
    findings.extend(dns::unusable(configuration, lines));
    findings.extend(dns::unnamed_report(configuration, lines));
    findings.extend(machine::log(configuration, lines));
    findings.extend(secrets::check(
        &secret_files(&configuration.files(), lines),
        environment.uid,
    ));
    findings.extend(credentials::check(configuration, lines, environment.uid));
    findings.extend(clients::check(configuration, lines, environment.now_s));
    findings.extend(history::check(configuration, lines));
    findings.extend(manual::check(configuration, lines));
    findings.extend(sign_in::check(configuration, lines));
    findings.extend(traces::check(configuration, lines));
    findings.push(machine::descriptors(
        limits.connections,
        limits.transfers,
        environment.descriptors_max,
        lines.of("limits", "connections"),
    ));
    findings
}

fn server_certificate(
    configuration: &Configuration,
    lines: &Lines,
    authorities: &Authorities,
    environment: &Environment,
) -> Vec<Finding> {
    let server = &configuration.server;
    let (Some(certificate), Some(key)) = (&server.certificate, &server.key) else {
        return Vec::new();
    };
    let name = named(configuration).map(|place| place.host().to_owned());
    certificate::Subject {
        certificate,
        key,
        certificate_position: lines.of("server", "certificate"),
        key_position: lines.of("server", "key"),
        name: name.as_deref(),
        authorities,
        now_s: environment.now_s,
        warn_days: environment.warn_days,
    }
    .check()
}

/// The URL under which clients know the server.
fn named(configuration: &Configuration) -> Option<Location> {
    let name = configuration.server.name.as_deref()?;
    Location::parse(name)
        .ok()
        .filter(|place| place.is_http() || place.is_xrootd())
}

/// The secret files of the configuration.
fn secret_files(named: &[NamedFile], lines: &Lines) -> Vec<SecretFile> {
    let secrets = named
        .iter()
        .filter(|file| file.purpose.is_secret() && file.purpose != Purpose::Private);
    secrets
        .map(|file| SecretFile {
            purpose: file.purpose,
            position: lines.of_place(&file.place),
            path: file.path.clone(),
        })
        .collect()
}

fn exports(configuration: &Configuration, lines: &Lines, environment: &Environment) -> Vec<Finding> {
    let has_credentials = rules::takes_credentials(configuration);
    let mut findings = Vec::new();
    let mut directories = Vec::new();
    let mut budget = unlisted::Budget::default();
    for (index, export) in configuration.exports.iter().enumerate() {
        let position = |key: &str| lines.of_item("export", index, key);
        let Some(directory) = &export.directory else { continue };
        directories.push((directory.clone(), position("directory")));
        let subject = storage::Subject {
            path: export.path.to_string(),
            directory,
            writable: export.rules().allows_changes()
                && (has_credentials || export.anonymous == AnonymousAccess::Write),
            quota_bytes: export.quota_bytes.0,
            reserve_bytes: export.reserve_bytes.0,
            free_space: (environment.free_space)(directory),
            directory_position: position("directory"),
            quota_position: position("quota_bytes"),
            reserve_position: position("reserve_bytes"),
        };
        findings.extend(subject.check());
        findings.extend(unlisted::check(directory, &position("directory"), &mut budget));
    }
    findings.extend(storage::overlaps(&directories));
    findings.extend(caches::check(configuration, lines, environment.free_space));
    findings.extend(spool::check(configuration, lines, environment.free_space));
    findings
}

/// The message bus, and the nodes of a redirector.
async fn cluster(
    configuration: &Configuration,
    lines: &Lines,
    client: &remote::Client,
    unverified: &ClientTls,
) -> Vec<Finding> {
    let (mut findings, announced) = bus::check_servers(configuration, lines).await;
    let nodes = nodes::Nodes {
        configuration,
        lines,
        client,
        unverified,
        announced: announced.as_ref(),
    };
    findings.extend(nodes.check().await);
    findings
}

/// All checks that need the network.
async fn online(configuration: &Configuration, lines: &Lines, options: &CheckOptions) -> Result<Vec<Finding>, Failure> {
    let server = &configuration.server;
    let session = ClientContext::open(&options.common)?;
    let name = match &options.url {
        Some(url) => Some(Location::parse(url)?),
        None => named(configuration),
    };
    let (tls, _) = ClientTls::load(&Trust {
        insecure: true,
        ..Trust::default()
    })?;
    let name_position = lines.of("server", "name");
    let mut findings = Vec::new();
    if let Some(name) = &name {
        findings.extend(dns::check(name.host(), &name_position).await);
    }
    let doors = ports::Doors {
        client: &session.client,
        unverified: &new_client(tls.clone()),
        listen: &server.listen,
        name: name.as_ref(),
        has_certificate: server.certificate.is_some(),
        speaks_root: configuration.xroot.enabled,
        listen_position: lines.of("server", "listen"),
        name_position: name_position.clone(),
    };
    findings.extend(listeners::check_doors(configuration, lines, &doors).await);
    findings.extend(cms::check_managers(configuration, lines).await);
    findings.extend(monitoring::check(configuration, lines).await);
    let (server_trust, _) = ClientTls::load(&Trust {
        files: configuration.trust.ca_files.clone(),
        directories: configuration.trust.ca_directories.clone(),
        system: configuration.trust.system,
        ..Trust::default()
    })?;
    findings.extend(upstream::check(configuration, lines, &server_trust, doors.unverified).await);
    let asking = new_client(server_trust);
    findings.extend(cluster(configuration, lines, &asking, &tls).await);
    for (index, issuer) in configuration.issuers.iter().enumerate() {
        if issuer.jwks_file.is_none() {
            let position = lines.of_item("issuer", index, "url");
            findings.push(issuers::check(&asking, &issuer.url, position).await);
        }
    }
    let issuers = configuration.issuers.iter().filter(|issuer| issuer.jwks_file.is_none());
    let mut peers: Vec<Location> = configuration
        .tpc
        .forward_to
        .iter()
        .chain(issuers.map(|issuer| &issuer.url))
        .filter_map(|url| Location::parse(url).ok())
        .collect();
    if let Some(from) = &options.from {
        let other = Location::parse(from)?;
        match &name {
            Some(name) => {
                let access = session.access(None, None);
                findings.push(ports::from_elsewhere(&session.client, &access, &other, name, name_position).await);
            }
            None => {
                return Err(Failure::invalid(
                    "--from needs the URL of this server: set server.name, or give --url",
                ));
            }
        }
        peers.push(other);
    }
    for peer in peers.iter().filter(|peer| peer.is_http()) {
        findings.extend(clock::check(peer, &tls).await);
    }
    Ok(findings)
}
