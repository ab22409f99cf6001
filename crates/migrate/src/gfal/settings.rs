//! Files of `/etc/gfal2.d`.

use std::collections::BTreeSet;

use super::add_remote;
use crate::document::DocumentKind;
use crate::ini::{Entry, is_true};
use crate::migration::Migration;

/// Sections about protocols that the client does not speak.
const MISSING: &[(&str, &str)] = &[
    ("SRM PLUGIN", "SRM"),
    ("GRIDFTP PLUGIN", "GridFTP"),
    ("LFC PLUGIN", "LFC"),
    ("DCAP PLUGIN", "dCap"),
    ("RFIO PLUGIN", "RFIO"),
    ("SFTP PLUGIN", "SFTP"),
    ("BDII", "BDII"),
    ("GCLOUD", "Google's own protocol for its cloud storage"),
];

/// Writes remotes for S3 storages, and a remark for each line.
pub(crate) fn write(entries: &[Entry], migration: &mut Migration) {
    let mut told: BTreeSet<&str> = BTreeSet::new();
    for entry in entries {
        let section = entry.section.as_str();
        if let Some((_, protocol)) = MISSING.iter().find(|(name, _)| *name == section) {
            missing(entry, protocol, told.insert(section), migration);
            continue;
        }
        match section {
            "HTTP PLUGIN" => http(entry, migration),
            "XROOTD PLUGIN" => xrootd(entry, migration),
            "CORE" => core(entry, migration),
            "X509" => {
                let words = "commands take the certificate from their environment, and remotes of lists have it";
                let advice = "export X509_USER_CERT and X509_USER_KEY, or give --cert and --key";
                migration.in_part(&entry.source, words, advice);
            }
            "BEARER" => {
                let words = "tokens are in files";
                migration.no_equivalent(&entry.source, words, "Give --token-file, or set BEARER_TOKEN_FILE");
            }
            "MOCK PLUGIN" => migration.not_needed(&entry.source, "it is for tests of gfal"),
            "S3" => {
                let words = "the client reads these keys from gfal's own files (docs/s3.md)";
                migration.not_needed(&entry.source, words);
            }
            _ => match section.strip_prefix("S3:") {
                Some(host) => s3(host, entry, entries, migration),
                None => migration.unknown(
                    &entry.source,
                    "this section is not known",
                    "Look for a plug-in of your own",
                ),
            },
        }
    }
}

/// The first line of a section says what is missing.
fn missing(entry: &Entry, protocol: &str, is_first: bool, migration: &mut Migration) {
    match is_first {
        true => {
            let words = format!("the client does not speak {protocol}");
            migration.no_equivalent(
                &entry.source,
                words,
                "Use davs, https, root or s3s URLs of the storages",
            );
        }
        false => migration.not_needed(&entry.source, format!("it is about {protocol}")),
    }
}

fn http(entry: &Entry, migration: &mut Migration) {
    let (source, is_on) = (&entry.source, is_true(&entry.value));
    match entry.key.as_str() {
        "DEFAULT_COPY_MODE" => match entry.value.as_str() {
            "3rd pull" => migration.not_needed(source, "copies are tried in this order, too"),
            "3rd push" => {
                migration.no_equivalent(source, "the order is an option", "Give --mode push to crossload copy")
            }
            "streamed" => {
                migration.no_equivalent(source, "the order is an option", "Give --mode stream to crossload copy")
            }
            _ => migration.unknown(source, "this mode is not known", "Give --mode to crossload copy"),
        },
        "ENABLE_REMOTE_COPY" if !is_on => {
            migration.no_equivalent(source, "the way is an option", "Give --mode stream to crossload copy");
        }
        "ENABLE_STREAM_COPY" if !is_on => {
            let advice = "Give --mode pull or --mode push to crossload copy";
            migration.no_equivalent(source, "the way is an option", advice);
        }
        "ENABLE_FALLBACK_TPC_COPY" if !is_on => {
            migration.no_equivalent(source, "the way is an option", "Give --mode pull to crossload copy");
        }
        "ENABLE_REMOTE_COPY" | "ENABLE_STREAM_COPY" | "ENABLE_FALLBACK_TPC_COPY" => {
            migration.not_needed(source, "all ways are tried, in gfal's order");
        }
        "INSECURE" if is_on => {
            let words = "servers are verified always; only a single command can leave it out";
            migration.in_part(source, words, "Name the authority with --cacert instead");
        }
        "RETRIEVE_BEARER_TOKEN" => {
            migration.not_needed(
                source,
                "copies ask for a macaroon where a server needs one for the other",
            );
        }
        "LOG_LEVEL" => migration.not_needed(source, "-v and -vv print details"),
        _ => migration.not_needed(source, "the client does the same, or never does it"),
    }
}

fn xrootd(entry: &Entry, migration: &mut Migration) {
    let source = &entry.source;
    match entry.key.as_str() {
        "COPY_CHECKSUM_TYPE" if entry.value.eq_ignore_ascii_case("adler32") => {
            migration.not_needed(source, "Adler-32 is compared where both servers have it");
        }
        "COPY_CHECKSUM_TYPE" => {
            let advice = "Give --checksum to crossload copy";
            migration.no_equivalent(source, "the algorithm is an option", advice);
        }
        "NORMALIZE_PATH" => migration.not_needed(source, "root://HOST/PATH and root://HOST//PATH are the same file"),
        _ => migration.not_needed(source, "the server says how clients authenticate"),
    }
}

fn core(entry: &Entry, migration: &mut Migration) {
    match entry.key.as_str() {
        "NAMESPACE_TIMEOUT" | "CHECKSUM_TIMEOUT" => {
            let words = "a command waits as long as a server gives signs of life";
            migration.not_needed(&entry.source, words);
        }
        _ => migration.not_needed(&entry.source, "the client chooses it"),
    }
}

/// A remote for the storage of `[S3:HOST]`. Its keys stay in gfal's file, where the client finds
/// them.
fn s3(host: &str, entry: &Entry, entries: &[Entry], migration: &mut Migration) {
    let source = &entry.source;
    match entry.key.as_str() {
        "ACCESS_KEY" | "SECRET_KEY" | "TOKEN" => {
            migration.not_needed(source, "the client reads this key from gfal's own files (docs/s3.md)");
        }
        "ALTERNATE" | "REGION" => migration.taken(source, "a remote"),
        _ => migration.unknown(source, "this setting is not known", "See docs/s3.md"),
    }
    let of_host = || entries.iter().filter(|other| other.section == entry.section);
    if of_host().next() != Some(entry) {
        return;
    }
    let host = host.to_ascii_lowercase();
    if !add_remote(&host, &format!("s3s://{host}/"), source, migration) {
        let words = "no remote was made: the host cannot be its name, or has one";
        return migration.in_part(source, words, "crossload config remote add NAME s3s://HOST/");
    }
    let remotes = &mut migration.document(DocumentKind::Client).sections;
    let Some(remote) = remotes.last_mut() else { return };
    for other in of_host() {
        match other.key.as_str() {
            "REGION" if !other.value.is_empty() => {
                remote.set("region", other.value.as_str(), &other.source);
            }
            "ALTERNATE" => {
                let addressing = if is_true(&other.value) { "path" } else { "host" };
                remote.set("addressing", addressing, &other.source);
            }
            _ => {}
        }
    }
}
