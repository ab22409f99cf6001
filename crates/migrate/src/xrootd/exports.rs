//! The `[[export]]`s: directories, another server with or without a cache, buckets.

use std::collections::BTreeMap;

use types::{AllowedHosts, Location};

use super::build::Openness;
use super::facts::{Bucket, ExportFact, Facts, Named};
use super::values::{below, is_on, plain_path, size, size_bytes};
use crate::document::Section;
use crate::rights::is_below;
use crate::source::Source;

/// What XRootD exports where nothing is exported.
const USUAL_PATH: &str = "/tmp";
/// A block of our cache, in bytes.
const BLOCK_BYTES: u64 = 1 << 20;
/// Smallest cache, in bytes.
const CACHE_BYTES_MIN: u64 = 64 << 20;
/// The name of the space for data, where none is given.
const USUAL_SPACE: &str = "public";

impl Facts<'_> {
    /// Leaves out paths that only lines for disks name, unless they are below an export. What they
    /// take from a path, they take from exports below it.
    pub(super) fn settle_exports(&mut self) {
        if self.is_incomplete {
            self.default_read_only = true;
            let main = self.main.clone();
            let words = "exports are read-only unless their lines say r/w: those that could not be read may say r/o";
            let advice = "Read all files, or remove read_only";
            self.migration.in_part(&main, words, advice);
        }
        let all = std::mem::take(&mut self.exports);
        let (mut exports, others): (Vec<ExportFact>, Vec<ExportFact>) =
            all.into_iter().partition(|export| export.is_exported);
        for other in others {
            if exports.iter().any(|export| is_below(&other.path, &export.path)) {
                exports.push(other);
                continue;
            }
            if other.is_read_only == Some(true) {
                for export in exports.iter_mut().filter(|export| is_below(&export.path, &other.path)) {
                    export.is_read_only.get_or_insert(true);
                }
            }
            self.migration.not_needed(
                &other.source,
                "the path is not exported; exports below it are as it says",
            );
        }
        self.exports = exports;
    }

    /// Writes the exports.
    pub(super) fn write_exports(&mut self, openness: Openness) {
        let mut exports = std::mem::take(&mut self.exports);
        if exports.is_empty() && self.buckets.is_empty() {
            let main = self.main.clone();
            let words = format!("nothing is exported, so that XRootD exports {USUAL_PATH}");
            self.migration
                .in_part(&main, words, "Write the paths that are to be served into [[export]]");
            exports.push(ExportFact {
                path: USUAL_PATH.to_owned(),
                is_exported: true,
                is_read_only: None,
                tape: Vec::new(),
                source: main,
            });
        }
        let cache = self.cache_keys();
        let mut sections = Vec::new();
        if self.foreign.is_some() {
            self.no_exports(&exports);
        } else if self.buckets.is_empty() {
            self.gather_forwarded(&mut exports);
            for export in &exports {
                self.remark_export(export);
                let mut section = Section::repeated("export");
                section.set("path", export.path.as_str(), &export.source);
                if self.place(&mut section, export, &cache) {
                    self.rights_of(&mut section, export, openness);
                    sections.push(section);
                }
            }
        } else {
            for export in &exports {
                self.migration
                    .taken(&export.source, "is the [[export]] of each bucket below it");
            }
            for bucket in std::mem::take(&mut self.buckets) {
                sections.extend(self.bucket_export(&bucket, &exports, openness));
            }
        }
        self.note_places();
        let document = self.migration.document(crate::document::DocumentKind::Endpoint);
        document.sections.extend(sections);
    }

    /// The files are in storage that is not ours: a directory of this machine is not served in its
    /// place.
    fn no_exports(&mut self, exports: &[ExportFact]) {
        for export in exports {
            let words = "no [[export]] is written, because its storage is not ours";
            let advice = "Write one with directory, remote or s3, where the files can be reached so";
            self.migration.in_part(&export.source, words, advice);
        }
    }

    /// A forwarding proxy has one export: the protocol is part of the path.
    fn gather_forwarded(&mut self, exports: &mut Vec<ExportFact>) {
        if self.origin.as_ref().is_some_and(|origin| origin.value == "=") {
            for export in exports.drain(1..) {
                self.migration
                    .taken(&export.source, "is in the [[export]] with remote_hosts");
            }
            exports[0].path = "/".to_owned();
        }
    }

    fn remark_export(&mut self, export: &ExportFact) {
        // A proxy asks for files that are not there as if they were on tape.
        match export.tape.is_empty() || self.is_proxy() {
            true if export.source == self.main => {}
            true => self.migration.taken(&export.source, "is an [[export]]"),
            false => {
                let words = format!("is an [[export]] without {}: tape is not ours", export.tape.join(", "));
                let advice = "Serve tape by the system behind the directory, or leave this export at XRootD";
                self.migration.in_part(&export.source, words, advice);
            }
        }
    }

    /// Where the files of an export are; `false` if nowhere.
    fn place(&mut self, section: &mut Section, export: &ExportFact, cache: &[(String, toml::Value, Source)]) -> bool {
        let Some(origin) = self.origin.clone() else {
            let root = self.local_root.as_ref().map_or("/", |root| root.value.as_str());
            let directory = below(root, &export.path);
            let source = self.local_root.as_ref().map_or(&export.source, |root| &root.source);
            section.set("directory", directory, source);
            if let Some((bytes, source)) = self.reserved() {
                section.set("reserve_bytes", bytes, &source);
            }
            return true;
        };
        if origin.value == "=" {
            return self.forwarded(section, &origin.source);
        }
        let url = match origin.value.starts_with("http") {
            true => format!("{}{}", origin.value, export.path),
            false => format!("{}/{}", origin.value, export.path),
        };
        let is_ours = Location::parse(&url).is_ok_and(|place| place.is_http() || place.is_xrootd());
        if !is_ours {
            let words = "files of this protocol are not served";
            let advice = "Write the URL of the server itself, as https or root, into [[export]] remote";
            self.migration.no_equivalent(&origin.source, words, advice);
            return false;
        }
        section.set("remote", url.as_str(), &origin.source);
        if let Some(proxy) = self.proxy_certificate.clone().filter(|_| !url.starts_with("http:")) {
            section.set("remote_certificate", proxy.value.as_str(), &proxy.source);
        }
        let is_encrypted = url.starts_with("https:") || url.starts_with("roots:");
        if let Some(token) = self.token_file.clone().filter(|_| is_encrypted) {
            section.set("remote_token_file", token.value.as_str(), &token.source);
        }
        for (key, value, source) in cache {
            section.set(key, value.clone(), source);
        }
        true
    }

    /// Clients name the server.
    fn forwarded(&mut self, section: &mut Section, source: &Source) -> bool {
        let hosts = self.permitted.clone();
        for host in &hosts {
            match AllowedHosts::parse(&[host.value.as_str()]) {
                Ok(_) => _ = section.push("remote_hosts", host.value.as_str(), &host.source),
                Err(words) => {
                    let words = format!("\"{}\": {words}", host.value);
                    self.migration
                        .no_equivalent(&host.source, words, "Name each host, or *.DOMAIN, in remote_hosts");
                }
            }
        }
        let has_hosts = section.get("remote_hosts").is_some();
        match has_hosts {
            true => self.migration.taken(source, "is [[export]] remote_hosts"),
            false => {
                let words = "clients may name listed hosts only, and pss.permit lists none";
                self.migration
                    .no_equivalent(source, words, "Write an [[export]] with remote_hosts");
            }
        }
        has_hosts
    }

    fn rights_of(&self, section: &mut Section, export: &ExportFact, openness: Openness) {
        if openness == Openness::Anyone {
            let entry = section.set("anonymous", "write", &self.main);
            entry.note = Some("without ofs.authorize, everyone may do everything".to_owned());
        }
        match export.is_read_only.unwrap_or(self.default_read_only) {
            true => _ = section.set("read_only", true, &export.source),
            // The default of a forwarding proxy is true.
            false if section.get("remote_hosts").is_some() && export.is_read_only.is_some() => {
                section.set("read_only", false, &export.source);
            }
            false => {}
        }
    }

    /// The keys of the cache, for each export.
    fn cache_keys(&mut self) -> Vec<(String, toml::Value, Source)> {
        let Some(cache) = self.cache.clone() else {
            return Vec::new();
        };
        let space = self.cache_space.take();
        if let Some(space) = &space {
            self.migration.taken(&space.source, "is [[export]] cache_directory");
        }
        let name = space.map_or(USUAL_SPACE.to_owned(), |space| space.value);
        let disks = self.spaces.remove(&name).unwrap_or_default();
        let disk = disks.first().cloned().or_else(|| self.local_root.clone());
        let disk = disk.unwrap_or_else(|| Named::new("/var/cache", &cache));
        for (index, disk) in disks.iter().enumerate() {
            match index {
                0 => self.migration.taken(&disk.source, "is [[export]] cache_directory"),
                _ => {
                    let words = "a cache has one directory";
                    let advice = "Join the disks by the file system, or give each export a disk of its own";
                    self.migration.in_part(&disk.source, words, advice);
                }
            }
        }
        // What XRootD has cached is in a form of its own.
        let directory = below(&disk.value, "crossload");
        let mut keys = vec![("cache_directory".to_owned(), directory.into(), disk.source.clone())];
        if let Some(usage) = self.cache_size.take() {
            match usage.value.split_whitespace().nth(1).and_then(size_bytes) {
                Some(bytes) if bytes >= CACHE_BYTES_MIN => {
                    self.migration.taken(&usage.source, "is [[export]] cache_size_bytes");
                    keys.push(("cache_size_bytes".to_owned(), size(bytes).into(), usage.source));
                }
                _ => {
                    let words = "the size of a cache is in bytes, and no part of the disk";
                    let advice = "Write cache_size_bytes into each [[export]]: without it, the cache takes 10GiB";
                    self.migration.in_part(&usage.source, words, advice);
                }
            }
        }
        if let Some(prefetch) = self.prefetch.take() {
            let blocks = prefetch.value.parse::<u64>().unwrap_or_default();
            let blocks = blocks.saturating_mul(self.block_bytes).div_ceil(BLOCK_BYTES).min(1024);
            self.migration
                .taken(&prefetch.source, "is [[export]] cache_prefetch_blocks, of 1 MiB each");
            keys.push((
                "cache_prefetch_blocks".to_owned(),
                (blocks as i64).into(),
                prefetch.source,
            ));
        }
        keys
    }

    /// A bucket of the S3 plug-in as an export.
    fn bucket_export(&mut self, bucket: &Bucket, exports: &[ExportFact], openness: Openness) -> Option<Section> {
        let value = |name: &str| bucket.keys.get(name).cloned();
        let (Some(url), Some(name)) = (value("service_url"), value("bucket_name")) else {
            let source = bucket
                .keys
                .values()
                .next()
                .map_or(self.main.clone(), |key| key.source.clone());
            let advice = "Write an [[export]] with s3 and its keys";
            self.migration
                .no_equivalent(&source, "the bucket has no s3.service_url or s3.bucket_name", advice);
            return None;
        };
        let path = value("path_name").unwrap_or_else(|| Named::new("/", &name.source));
        let path_text = plain_path(&format!("/{}", path.value.trim_start_matches('/')));
        let mut section = Section::repeated("export");
        section.set("path", path_text.as_str(), &path.source);
        let is_in_host = value("url_style").is_some_and(|style| style.value.starts_with("virtual"));
        let base = url.value.trim_end_matches('/');
        let whole = match base.split_once("://").filter(|_| is_in_host) {
            Some((scheme, host)) => format!("{scheme}://{}.{host}", name.value),
            None => format!("{base}/{}", name.value),
        };
        section.set("s3", whole, &name.source).sources.insert(0, url.source);
        let mut optional = BTreeMap::from([("s3_secret_key_file", value("secret_key_file"))]);
        optional.insert("s3_region", value("region"));
        for (key, named) in optional {
            if let Some(named) = named {
                section.set(key, named.value.as_str(), &named.source);
            }
        }
        if let Some(style) = value("url_style") {
            let word = if style.value.starts_with("virtual") {
                "host"
            } else {
                "path"
            };
            section.set("s3_addressing", word, &style.source);
        }
        if let Some(file) = value("access_key_file") {
            let entry = section.set("s3_access_key_id", "WRITE-IT-HERE", &file.source);
            entry.note = Some(format!("the content of {}: the identifier is no secret", file.value));
        }
        for (name, key) in &bucket.keys {
            self.remark_bucket(name, key);
        }
        let holds = |export: &&ExportFact| path_text.starts_with(export.path.as_str());
        if let Some(export) = exports.iter().find(holds) {
            self.rights_of(&mut section, export, openness);
        }
        Some(section)
    }

    fn remark_bucket(&mut self, name: &str, key: &Named) {
        match name {
            "service_url" | "bucket_name" | "path_name" | "secret_key_file" | "region" | "url_style" => {
                self.migration.taken(&key.source, "is in [[export]] s3");
            }
            "access_key_file" => {
                let advice = "Write its content into s3_access_key_id";
                self.migration.in_part(
                    &key.source,
                    "the identifier of the key stands in our file itself",
                    advice,
                );
            }
            "service_name" => self
                .migration
                .not_needed(&key.source, "the URL says where the bucket is"),
            _ if is_on(&key.value) || key.value.is_empty() => {
                self.migration.not_needed(&key.source, "our own client is used");
            }
            _ => {
                let advice = "Look into docs/s3-export.md";
                self.migration
                    .unknown(&key.source, "is no setting of a bucket that is known", advice);
            }
        }
    }

    /// Notes what became of the places that are left.
    fn note_places(&mut self) {
        if let Some(root) = self.local_root.clone() {
            match self.is_proxy() {
                true => self.migration.not_needed(&root.source, "files are at the other server"),
                false => self.migration.taken(&root.source, "is in [[export]] directory"),
            }
        }
        if let Some(origin) = self.origin.clone().filter(|origin| origin.value != "=") {
            self.migration.taken(&origin.source, "is [[export]] remote");
        }
        for credential in [self.proxy_certificate.take(), self.token_file.take()]
            .into_iter()
            .flatten()
        {
            match self.is_proxy() {
                true => self.migration.taken(
                    &credential.source,
                    "is shown to [[export]] remote, where it has TLS or gsi",
                ),
                false => self
                    .migration
                    .not_needed(&credential.source, "it is for a remote, and there is none"),
            }
        }
        if let Some((_, source)) = self.reserved().filter(|_| !self.is_proxy()) {
            self.migration.taken(&source, "is [[export]] reserve_bytes");
            self.reserve = None;
        }
        for left in [self.cache_space.take(), self.cache_size.take(), self.prefetch.take()]
            .into_iter()
            .flatten()
        {
            self.migration
                .not_needed(&left.source, "there is no cache: pss.cachelib is missing");
        }
        for disk in std::mem::take(&mut self.spaces).into_values().flatten() {
            if self.cache.is_some() {
                self.migration
                    .not_needed(&disk.source, "the cache keeps its state beside its blocks");
                continue;
            }
            let words = "files of one export are not spread over several directories";
            let advice = "Join the disks by the file system, or give each disk an [[export]] of its own";
            self.migration.no_equivalent(&disk.source, words, advice);
        }
        let is_forwarding = self.origin.as_ref().is_some_and(|origin| origin.value == "=");
        for host in std::mem::take(&mut self.permitted) {
            match is_forwarding {
                true if AllowedHosts::parse(&[host.value.as_str()]).is_ok() => {
                    self.migration.taken(&host.source, "is in [[export]] remote_hosts");
                }
                // It has a remark already.
                true => {}
                false => {
                    let words = "the remote is one server, which is named";
                    self.migration.not_needed(&host.source, words);
                }
            }
        }
    }
}
