//! dCache: the doors for WebDAV and XRootD of a layout, and what gPlazma says about their clients.

mod bans;
mod doors;
mod exports;
mod gplazma;
mod layout;
mod maps;
mod people;
mod plugins;
mod services;
mod sessions;
mod tokens;

use std::path::{Path, PathBuf};

use toml::Value;

use crate::document::DocumentKind;
use crate::files::{Files, Unreadable};
use crate::lookup::Lookup;
use crate::migration::Migration;
use crate::source::Source;
use crate::system::Order;
use exports::Tree;
use layout::{Cell, Layout};
use plugins::Stack;

/// Files of gPlazma that end like layouts.
const NOT_LAYOUTS: &[&str] = &["gplazma.conf", "ban.conf", "omnisession.conf", "admin.conf"];

/// Translates the files: `/etc/dcache`, or `dcache.conf`, layouts, and files that they name.
///
/// # Errors
/// A file that was asked for cannot be read.
pub(crate) fn migrate(order: &Order, files: &dyn Files) -> Result<Migration, Unreadable> {
    let mut migration = Migration::default();
    let mut layout = Layout::default();
    let mut base = None;
    for path in &order.files {
        match files.text(path) {
            Ok(text) if is_layout(path) => {
                layout.read(&path.display().to_string(), &text);
                base.get_or_insert_with(|| base_of(path));
            }
            Ok(_) => {}
            Err(refused) => match files.list(path) {
                Ok(_) => {
                    directory(path, files, &mut layout, &mut migration);
                    base.get_or_insert_with(|| path.clone());
                }
                Err(_) => return Err(refused),
            },
        }
    }
    let base = base.unwrap_or_default();
    let doors = doors::read(&layout, &mut migration);
    doors::xroot_protocol(&layout, &mut migration);
    let tree = exports::write(&doors, &mut migration);
    if tree.is_none() {
        let source = Source::of_file(&base.display().to_string());
        let words = "these files have no door for WebDAV or XRootD, so there are no exports";
        migration.in_part(&source, words, "Give the layouts of the hosts with doors, too");
    }
    let lookup = Lookup::new(files, &order.files, base);
    let tree = tree.unwrap_or_else(|| Tree::new("/"));
    local_users(&layout, &mut migration);
    rights(&layout, &lookup, &tree, &mut migration);
    copies(&layout, &mut migration);
    settle_authentication(&mut migration);
    services::write(&layout, &mut migration);
    Ok(migration)
}

fn is_layout(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".conf") && !NOT_LAYOUTS.contains(&&*name)
}

/// The directory of the configuration: that of the file, or the one above `layouts`.
fn base_of(file: &Path) -> PathBuf {
    let directory = file.parent().unwrap_or(Path::new(""));
    let is_layouts = directory.file_name().is_some_and(|name| name == "layouts");
    let base = if is_layouts { directory.parent() } else { None };
    base.unwrap_or(directory).to_owned()
}

/// Reads `dcache.conf` of a directory, and the layout that it names.
fn directory(path: &Path, files: &dyn Files, layout: &mut Layout, migration: &mut Migration) {
    let main = path.join("dcache.conf");
    if let Ok(text) = files.text(&main) {
        layout.read(&main.display().to_string(), &text);
    }
    let named = layout.value(None, "dcache.layout").ok().flatten();
    let layouts = path.join("layouts");
    let file = match named {
        Some(name) => Some(layouts.join(format!("{}.conf", name.text))),
        None => {
            let all = files.list(&layouts).unwrap_or_default();
            let mut all = all.into_iter().filter(|file| is_layout(file));
            all.next().filter(|_| all.next().is_none())
        }
    };
    let read = file.map(|file| (file.display().to_string(), files.text(&file)));
    match read {
        Some((name, Ok(text))) => layout.read(&name, &text),
        Some((name, Err(_))) => {
            let words = "the layout of this host cannot be read";
            migration.in_part(&Source::of_file(&name), words, "Name the layout as a further argument");
        }
        None => {
            let words = "dcache.layout is not set, and there is not just one layout";
            migration.in_part(
                &Source::of_file(&main.display().to_string()),
                words,
                "Name the layout as an argument",
            );
        }
    }
}

/// Owners and modes decide as in dCache's namespace, because the kernel is asked: for clients
/// without a credential, too.
fn local_users(layout: &Layout, migration: &mut Migration) {
    let Some(first) = layout.cells.first() else { return };
    let entry = migration.set(DocumentKind::Endpoint, "users.switch", "required", &first.source);
    entry.note = Some(
        "Owners and modes of files decide, as in dCache's namespace; the server needs the rights to act as users \
         (users.md). Set them as in dCache before clients come."
            .to_owned(),
    );
    let entry = migration.set(DocumentKind::Endpoint, "users.default_user", "nobody", &first.source);
    entry.note = Some("Clients without a mapping may do what a file's mode allows to everyone.".to_owned());
}

fn rights(layout: &Layout, lookup: &Lookup<'_>, tree: &Tree, migration: &mut Migration) {
    let cell = layout.services("gplazma").next();
    let path = layout.value(cell, "gplazma.configuration.file").ok().flatten();
    let path = path.map(|value| value.text).unwrap_or_default();
    let Some(found) = lookup.find(&path) else {
        let words = "gplazma.conf was not found, so no client has rights in the result";
        migration.in_part(&Source::of_file(&path), words, "Give the file as a further argument");
        return;
    };
    let stack = Stack {
        plugins: plugins::parse(&found.name, &found.text, migration),
        layout,
        cell,
        lookup,
    };
    gplazma::write(&stack, tree, migration);
}

/// Third-party copies and macaroons.
fn copies(layout: &Layout, migration: &mut Migration) {
    copies_at_once(layout, migration);
    let Some(cell) = layout.services("webdav").next() else {
        return;
    };
    let get = |key: &str| layout.value(Some(cell), key).ok().flatten();
    let key = "webdav.enable.third-party.requiring-verification-by-default";
    if let Some(value) = get(key) {
        let word = match value.text.eq_ignore_ascii_case("false") {
            true => "when-available",
            false => "required",
        };
        let source = value.source.unwrap_or_else(|| cell.source.clone());
        migration.set(DocumentKind::Endpoint, "tpc.verify", word, &source);
    }
    let key = "webdav.third-party-transfers.performance-marker-period";
    time(layout, Some(cell), key, "SECONDS", "limits.marker_period", migration);
    if get("webdav.enable.macaroons").is_none_or(|value| value.text.eq_ignore_ascii_case("true")) {
        let file = "/var/lib/crossload/macaroon-secret";
        let entry = migration.set(DocumentKind::Endpoint, "macaroons.secret_file", file, &cell.source);
        entry.note = Some("Made at the first start; macaroons of dCache are not valid here.".to_owned());
        for (key, place) in [
            ("max-lifetime", "macaroons.maximum_lifetime"),
            ("default-lifetime", "macaroons.default_lifetime"),
        ] {
            lifetime(layout, key, place, migration);
        }
        settle_lifetimes(migration);
    }
}

/// Keeps the default lifetime within the longest one, whichever of them the site has set.
fn settle_lifetimes(migration: &mut Migration) {
    let macaroons = migration.document(DocumentKind::Endpoint).section("macaroons");
    let time = |key: &str| {
        let entry = macaroons.entries.iter().find(|entry| entry.key == key)?;
        let text = entry.value.as_str()?.to_owned();
        Some((config::parse_duration(&text)?, text, entry.sources.first()?.clone()))
    };
    let (default, longest) = (time("default_lifetime"), time("maximum_lifetime"));
    let ours = config::Configuration::defaults().macaroons;
    match (default, longest) {
        (None, Some((time, text, source))) if time < ours.default_lifetime => {
            macaroons.set("default_lifetime", text, &source);
        }
        (Some((time, text, source)), None) if time > ours.maximum_lifetime => {
            macaroons.set("maximum_lifetime", text, &source);
        }
        (Some((default, ..)), Some((longest, text, source))) if default > longest => {
            macaroons.set("default_lifetime", text, &source);
        }
        _ => {}
    }
}

/// A lifetime of macaroons, if the site has set one.
fn lifetime(layout: &Layout, key: &str, place: &str, migration: &mut Migration) {
    let cell = layout.services("webdav").next();
    let usual = if key == "default-lifetime" { "HOURS" } else { "DAYS" };
    for prefix in ["webdav.macaroons", "dcache.macaroons"] {
        if time(layout, cell, &format!("{prefix}.{key}"), usual, place, migration) {
            return;
        }
    }
}

/// Sets a time that the site has set, with its unit. The result is `false` if there is none.
fn time(layout: &Layout, cell: Option<&Cell>, key: &str, usual: &str, place: &str, migration: &mut Migration) -> bool {
    let get = |key: &str| layout.value(cell, key).ok().flatten();
    let Some(value) = get(key) else { return false };
    let unit = get(&format!("{key}.unit")).map_or_else(|| usual.to_owned(), |unit| unit.text);
    let letter = match unit.as_str() {
        "MILLISECONDS" => "ms",
        "SECONDS" => "s",
        "MINUTES" => "m",
        "HOURS" => "h",
        _ => "d",
    };
    let source = value.source.unwrap_or_else(|| Source::of_file("dCache's defaults"));
    match value.text.trim().parse::<u32>() {
        Ok(number) if number > 0 => {
            migration.set(DocumentKind::Endpoint, place, format!("{number}{letter}"), &source);
        }
        _ => migration.in_part(
            &source,
            "the time cannot be read, so the default counts",
            "Set it by hand",
        ),
    }
    true
}

/// How many third-party copies run at once.
fn copies_at_once(layout: &Layout, migration: &mut Migration) {
    let Some(cell) = layout.services("transfermanagers").next() else {
        return;
    };
    let key = "transfermanagers.limits.external-transfers";
    let Some(value) = layout.value(Some(cell), key).ok().flatten() else {
        return;
    };
    let source = value.source.unwrap_or_else(|| cell.source.clone());
    match value.text.trim().parse::<u32>() {
        Ok(number) if number > 0 => {
            migration.set(DocumentKind::Endpoint, "limits.transfers", i64::from(number), &source);
        }
        _ => migration.in_part(
            &source,
            "the number cannot be read, so the default counts",
            "Set [limits] transfers",
        ),
    }
}

/// Leaves out methods that the server cannot offer: tokens need TLS, and gsi certificates of
/// clients.
fn settle_authentication(migration: &mut Migration) {
    let Some(document) = migration
        .documents
        .iter_mut()
        .find(|one| one.kind == DocumentKind::Endpoint)
    else {
        return;
    };
    let has_certificate = document
        .find("server")
        .is_some_and(|server| server.get("certificate").is_some());
    let has_trust = document
        .find("x509")
        .is_some_and(|x509| x509.get("trust_directory").is_some());
    let xroot = document.section("xroot");
    let has_tls = has_certificate && xroot.get("tls").and_then(Value::as_str) != Some("none");
    for entry in xroot.entries.iter_mut().filter(|entry| entry.key == "authentication") {
        if let Value::Array(methods) = &mut entry.value {
            methods.retain(|method| match method.as_str() {
                Some("token") => has_tls,
                Some("gsi") => has_certificate && has_trust,
                _ => true,
            });
        }
    }
}
