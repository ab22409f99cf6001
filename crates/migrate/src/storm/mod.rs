//! StoRM WebDAV: storage areas, the settings of the service, and fine-grained policies.

mod area;
mod policies;
mod rights;
mod service;

use std::path::{Path, PathBuf};

use crate::document::DocumentKind;
use crate::environment;
use crate::files::{Files, Unreadable};
use crate::limits::FILES_MAX;
use crate::migration::Migration;
use crate::source::Source;
use crate::system::Order;
use crate::yaml::{self, Node};
use area::Area;
use rights::{Trust, VoMap};
use service::{Application, Service};

/// The claim with which rules name the groups of a token.
const GROUPS_CLAIM: &str = "wlcg.groups";

/// All files that were read.
#[derive(Default)]
struct Read {
    areas: Vec<Area>,
    service: Service,
    vo_maps: Vec<VoMap>,
}

/// Translates the files: `/etc/storm/webdav`, or files of areas, `application.yml`, maps of VOs and
/// files of environment variables.
///
/// # Errors
/// A file that was asked for cannot be read.
pub(crate) fn migrate(order: &Order, files: &dyn Files) -> Result<Migration, Unreadable> {
    let mut migration = Migration::default();
    let mut read = Read::default();
    for path in &order.files {
        match files.text(path) {
            Ok(text) => file(path, &text, &mut read, &mut migration),
            Err(refused) => {
                let found = directory(path, files);
                if found.is_empty() {
                    return Err(refused);
                }
                for path in found {
                    let text = files.text(&path)?;
                    file(&path, &text, &mut read, &mut migration);
                }
            }
        }
    }
    let Read {
        areas,
        service,
        vo_maps,
    } = read;
    if areas.is_empty() {
        let words = "no storage area was read, so there are no exports";
        let name = order
            .files
            .first()
            .map_or_else(String::new, |file| file.display().to_string());
        migration.in_part(&Source::of_file(&name), words, "Give the files of sa.d, too");
    }
    service::write(&service, &mut migration);
    let issuers = issuers(&areas, &service, &mut migration);
    let policies = policies::read(&service, &mut migration);
    let trust = Trust {
        issuers,
        vo_maps,
        uses_vo_maps: service.is_on("storm.voMapFiles.enabled"),
    };
    rights::write(&areas, &policies, &trust, &mut migration);
    Ok(migration)
}

/// The files that StoRM reads in its directory.
fn directory(path: &Path, files: &dyn Files) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for part in ["sa.d", "config", "vo-mapfiles.d", ""] {
        let list = files.list(&path.join(part)).unwrap_or_default();
        let endings = [".properties", ".yml", ".yaml", ".vomap"];
        let is_one = |file: &PathBuf| endings.iter().any(|ending| file.to_string_lossy().ends_with(ending));
        found.extend(list.into_iter().filter(is_one));
    }
    found.truncate(FILES_MAX);
    found
}

fn file(path: &Path, text: &str, read: &mut Read, migration: &mut Migration) {
    let name = path.display().to_string();
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("properties") => read.areas.extend(area::read(&name, text, migration)),
        Some("yml" | "yaml") => match yaml::parse(text) {
            Ok(documents) => read.service.applications.push(Application { file: name, documents }),
            Err(fault) => {
                let source = Source::new(&name, fault.line, "");
                let words = format!("this file is not understood: {}; nothing in it was read", fault.words);
                migration.in_part(&source, words, "Correct it, and try again");
            }
        },
        Some("vomap") => {
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            let names: Vec<Option<String>> = lines.map(member).collect();
            read.vo_maps.push(VoMap {
                vo: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
                is_whole: names.iter().all(Option::is_some),
                names: names.into_iter().flatten().collect(),
                source: Source::of_file(&name),
            });
        }
        _ => read.service.variables.extend(environment::parse(&name, text)),
    }
}

/// The name of a certificate in a line of a map: the authority and perhaps more follow.
fn member(line: &str) -> Option<String> {
    let line = line.trim();
    let name = line.split_once(",/").map_or(line, |(name, _)| name).trim();
    (name.starts_with('/') && !name.contains(['"', '*'])).then(|| name.to_owned())
}

/// Writes the issuers that both the service and an area trust. Returns them.
fn issuers(areas: &[Area], service: &Service, migration: &mut Migration) -> Vec<String> {
    let mut written: Vec<String> = Vec::new();
    let mut checks: Vec<Vec<String>> = Vec::new();
    for (application, list) in service.nodes("oauth.issuers") {
        for item in list.items() {
            let Some(url) = item
                .get("issuer")
                .and_then(Node::text)
                .and_then(|url| service.resolve(url, 0))
            else {
                continue;
            };
            let source = Source::new(&application.file, item.line, &format!("issuer: {url}"));
            let trusting: Vec<&Area> = areas.iter().filter(|area| area.issuers.contains(&url)).collect();
            if written.contains(&url) {
                migration.not_needed(&source, "the issuer is named twice");
            } else if !url.starts_with("https://") || url.len() == "https://".len() || url.contains(['?', '#', ' ']) {
                migration.no_equivalent(&source, "an issuer needs an https URL", "Write an [[issuer]] by hand");
            } else if trusting.is_empty() && !is_in_policies(&url, service) {
                migration.not_needed(&source, "no area trusts this issuer");
            } else {
                issuer(&url, areas, &source, migration);
                audiences(item, &source, &mut checks, migration);
                written.push(url);
            }
        }
    }
    common_audiences(&checks, migration);
    for area in areas {
        for issuer in area.issuers.iter().filter(|issuer| !written.contains(issuer)) {
            let words = format!("the service does not trust the issuer {issuer} (oauth.issuers of application.yml)");
            migration.in_part(
                &area.source("orgs"),
                words,
                "Give application.yml as a further argument",
            );
        }
    }
    written
}

/// Whether a policy names an issuer.
fn is_in_policies(url: &str, service: &Service) -> bool {
    let policies = service.nodes("storm.authz.policies");
    let principals = policies.iter().flat_map(|(_, node)| node.items());
    let mut principals = principals
        .filter_map(|item| item.get("principals"))
        .flat_map(Node::items);
    principals.any(|principal| principal.get("params.iss").and_then(Node::text) == Some(url))
}

fn issuer(url: &str, areas: &[Area], source: &Source, migration: &mut Migration) {
    let takes = |area: &Area| area.is_on("wlcgScopeAuthzEnabled") && area.issuers.iter().any(|issuer| issuer == url);
    let mut paths: Vec<&str> = Vec::new();
    for area in areas.iter().filter(|area| takes(area)) {
        for path in &area.paths {
            // Scopes reach everything below a path, and other areas may be there.
            match rights::nested(path, area, areas).is_empty() {
                true => paths.push(path),
                false => {
                    let words = format!("scopes do not count below {path}, because another area is within it");
                    migration.in_part(
                        source,
                        words,
                        "Give the areas paths beside each other, and add base_paths",
                    );
                }
            }
        }
    }
    let issuer = migration.document(DocumentKind::Endpoint).add("issuer");
    issuer.set("url", url, source);
    match paths.is_empty() {
        true => issuer.set("strategy", vec!["group"], source),
        false => issuer.set("base_paths", paths, source),
    };
    issuer.set("groups_claim", GROUPS_CLAIM, source);
    for entry in issuer.entries.iter_mut().skip(1) {
        entry.sources.clear();
    }
    migration.taken(source, "[[issuer]]");
}

fn audiences(item: &Node, source: &Source, checks: &mut Vec<Vec<String>>, migration: &mut Migration) {
    let enforces = item.get("enforceAudienceChecks").and_then(Node::text) == Some("true");
    let named = item.get("audiences").map(Node::items).unwrap_or_default();
    match enforces {
        true => checks.push(named.into_iter().filter_map(Node::text).map(str::to_owned).collect()),
        false => {
            let words =
                "audiences of its tokens are checked here: they must name this server, or any of WLCG's profile";
            migration.in_part(source, words, "Set [tokens] audiences to what its tokens name");
        }
    }
}

/// Audiences count for all issuers here, so only those that all of them name are taken.
fn common_audiences(checks: &[Vec<String>], migration: &mut Migration) {
    let Some((first, others)) = checks.split_first() else {
        return;
    };
    let source = Source::of_file("audiences of oauth.issuers");
    for audience in first
        .iter()
        .filter(|audience| others.iter().all(|other| other.contains(audience)))
    {
        migration.push(DocumentKind::Endpoint, "tokens.audiences", audience.as_str(), &source);
    }
    if others.iter().any(|other| other != first) {
        let words = "issuers have different audiences, and only those of all are taken";
        migration.in_part(&source, words, "Set [tokens] audiences; they count for all issuers");
    }
}
