//! XRootD: the configuration of `xrootd` and `cmsd`, with what it names: `authdb`, `scitokens.cfg`.
//!
//! [`lines`] gives the directives that hold for a host, program and instance. Each is passed to the
//! module of its family, which writes keys, or notes facts that only together make a key; [`build`]
//! writes those at the end. Sources: the reference manuals of XRootD and its parsers
//! (`XrdConfig.cc`, `XrdXrootdConfig.cc`, `XrdOfsConfig.cc`, `XrdAccConfig.cc` and others).

mod authdb;
mod build;
mod cluster;
mod condition;
mod exports;
mod facts;
mod framework;
mod http;
mod known;
mod lines;
mod monitoring;
#[cfg(test)]
mod narrowing;
mod proxy;
mod security;
mod storage;
mod tokens;
mod values;
mod variables;

use std::collections::BTreeSet;

use condition::Process;
use facts::Facts;
use lines::{Directive, Reader};

use crate::files::{Files, Unreadable};
use crate::migration::Migration;
use crate::source::Source;
use crate::system::Order;

/// How XRootD calls the instance without a name.
const INSTANCE: &str = "anon";

/// Translates the files.
///
/// # Errors
/// A file that was asked for cannot be read.
pub(crate) fn migrate(order: &Order, files: &dyn Files) -> Result<Migration, Unreadable> {
    let (server, manager) = (read(order, files, "xrootd")?, read(order, files, "cmsd")?);
    let name = order
        .files
        .first()
        .map(|file| file.display().to_string())
        .unwrap_or_default();
    let mut facts = Facts::new(&name, files);
    let mut seen: BTreeSet<Source> = server
        .remarks
        .remarks
        .iter()
        .map(|remark| remark.source.clone())
        .collect();
    facts.is_incomplete = server.is_incomplete;
    facts.migration.remarks = server.remarks.remarks;
    for directive in &server.directives {
        seen.insert(directive.source.clone());
        facts.take(directive);
    }
    for remark in manager.remarks.remarks {
        if seen.insert(remark.source.clone()) {
            facts.migration.remarks.push(remark);
        }
    }
    for directive in &manager.directives {
        if seen.insert(directive.source.clone()) {
            facts.take_of_cmsd(directive);
        }
    }
    for source in server.skipped.iter().filter(|source| seen.insert((*source).clone())) {
        let mut line = source.text.split_whitespace();
        match line.next() {
            Some("ofs.authorize") => {
                facts.authorize_elsewhere = Some(source.clone());
                continue;
            }
            Some("sec.protocol" | "sec.protbind") if !line.any(facts::is_open) => {
                facts.methods_elsewhere = Some(source.clone());
            }
            _ => {}
        }
        let words = "is for another host, program or instance (--host, --instance)";
        facts.migration.not_needed(source, words);
    }
    build::finish(&mut facts);
    let mut migration = facts.migration;
    sort(&mut migration);
    Ok(migration)
}

/// Reads the files as a program does.
fn read<'a>(order: &Order, files: &'a dyn Files, program: &'static str) -> Result<Reader<'a>, Unreadable> {
    let process = Process {
        host: order.host.clone(),
        program,
        instance: instance(order),
    };
    let mut reader = Reader::new(files, process);
    for file in &order.files {
        reader.read(file)?;
    }
    Ok(reader)
}

/// The instance that was asked for, or that of the unit `xrootd@NAME`, whose file is
/// `xrootd-NAME.cfg`.
fn instance(order: &Order) -> String {
    let file = order.files.first().and_then(|file| file.file_name()?.to_str());
    let of_file = file.and_then(|name| name.strip_prefix("xrootd-")?.strip_suffix(".cfg"));
    let named = order.instance.as_deref().or(of_file);
    named.unwrap_or(INSTANCE).to_owned()
}

/// Brings the remarks into the order of the lines, file by file as they were read.
fn sort(migration: &mut Migration) {
    let mut files: Vec<String> = Vec::new();
    for remark in &migration.remarks {
        if !files.contains(&remark.source.file) {
            files.push(remark.source.file.clone());
        }
    }
    migration.remarks.sort_by_key(|remark| {
        let file = files.iter().position(|file| *file == remark.source.file);
        (file, remark.source.line)
    });
    migration.remarks.dedup();
}

impl Facts<'_> {
    /// Takes a directive of `xrootd`.
    fn take(&mut self, directive: &Directive) {
        let (family, name) = directive.name.split_once('.').unwrap_or(("", &directive.name));
        let is_known = match family {
            "all" | "xrd" => self.framework(directive, name),
            "xrootd" => self.protocol(directive, name),
            "http" => self.http(directive, name),
            "sec" => self.security(directive, name),
            "ofs" | "oss" => self.storage(directive),
            "acc" => self.access(directive, name),
            "macaroons" => self.macaroons(directive, name),
            "pss" | "pfc" => self.proxy(directive),
            "tpc" => self.http_copies(directive, name),
            "voms" => self.attributes(directive, name),
            "s3" => self.bucket(directive, name),
            "cms" | "cmsd" | "olb" => self.cluster(directive, name),
            "" => self.environment(directive),
            _ => false,
        };
        if !is_known {
            self.by_table(directive);
        }
    }

    /// Takes a directive that holds for `cmsd` only.
    fn take_of_cmsd(&mut self, directive: &Directive) {
        let (family, name) = directive.name.split_once('.').unwrap_or(("", &directive.name));
        let is_known = match (family, name) {
            ("cms" | "cmsd" | "olb", _) => self.cluster(directive, name),
            ("all", "manager" | "role") => self.framework(directive, name),
            ("all" | "oss" | "xrd" | "ofs" | "xrootd" | "sec" | "acc" | "http" | "pss" | "pfc", _) => {
                let words = "is read by cmsd only, which an endpoint of ours does not need beside it";
                self.migration.not_needed(&directive.source, words);
                true
            }
            _ => false,
        };
        if !is_known {
            self.by_table(directive);
        }
    }
}
