//! `ofs.*`, `oss.*`, `acc.*` and `s3.*`: authorisation, third-party copies, disks, buckets.

use super::facts::{Bucket, Facts, Named};
use super::lines::Directive;
use super::values::{duration, library, plain_path, size_bytes};

/// Most streams of a copy that XRootD takes.
const STREAMS_MAX: u32 = 15;

impl Facts<'_> {
    /// `ofs.*` and `oss.*`.
    pub(super) fn storage(&mut self, line: &Directive) -> bool {
        let source = &line.source;
        match line.name.as_str() {
            "ofs.authorize" => {
                self.authorize = Some(source.clone());
                self.migration
                    .taken(source, "rights are those of rules, tokens and macaroons");
            }
            "ofs.authlib" => self.authorisation(line),
            "ofs.tpc" => self.copies(line),
            "ofs.osslib" => self.back_end(line),
            "oss.localroot" => {
                let root = Named::new(&plain_path(line.word(0)), source);
                self.keep(|facts| &mut facts.local_root, root);
            }
            "oss.space" | "oss.cache" => self.space(line),
            "oss.path" | "oss.export" => return self.framework(line, "export"),
            "oss.defaults" => {
                // What it does not name stays as an earlier line said.
                for word in &line.words {
                    match word.as_str() {
                        "r/o" | "readonly" | "notwritable" | "forcero" => self.default_read_only = true,
                        "r/w" | "writable" => self.default_read_only = false,
                        _ => {}
                    }
                }
                self.migration.taken(source, "is read_only of each [[export]]");
            }
            "oss.alloc" => match size_bytes(line.word(0)) {
                Some(_) => self.keep(|facts| &mut facts.reserve, Named::new(line.word(0), source)),
                None => self
                    .migration
                    .not_needed(source, "[[export]] reserve_bytes has a default"),
            },
            "oss.maxsize" => {
                let advice = "Limit the space by [[quota]] or [[export]] quota_bytes";
                self.migration
                    .no_equivalent(source, "single files have no limit", advice);
            }
            _ => return false,
        }
        true
    }

    /// `ofs.authlib [++] LIBRARY [PARAMETER...] [LIBRARY...]`. With `++` it is asked before what
    /// was loaded, else it takes its place.
    fn authorisation(&mut self, line: &Directive) {
        let source = &line.source;
        let is_stacked = line.has("++");
        let words = line.words.iter().map(String::as_str).filter(|word| *word != "++");
        // A library behind the first one is asked by it.
        let is_library = |index: usize, word: &str| {
            index == 0 || !word.contains('=') && (word.contains(".so") || library(word).starts_with("lib"))
        };
        let libraries = words.enumerate().filter(|(index, word)| is_library(*index, word));
        let libraries: Vec<&str> = libraries.map(|(_, word)| library(word)).collect();
        if libraries.is_empty() {
            return self.migration.not_needed(source, "rights are judged in one place");
        }
        for (index, name) in libraries.into_iter().enumerate() {
            match name {
                "libXrdAccSciTokens" => {
                    let config = line.words.iter().find_map(|word| word.strip_prefix("config="));
                    let config = Named::new(config.unwrap_or("/etc/xrootd/scitokens.cfg"), source);
                    if self.scitokens.as_ref().is_some_and(|known| known.value != config.value) {
                        let words = "a second scitokens.cfg, beside which the first one is asked,";
                        self.foreign_rights.push(Named::new(words, source));
                    }
                    self.keep(|facts| &mut facts.scitokens, config);
                }
                "libXrdMacaroons" => {
                    self.macaroons.get_or_insert_with(|| source.clone());
                    self.migration.taken(source, "is [macaroons]");
                }
                "libXrdSec" | "libXrdAcc" | "default" => self.migration.not_needed(source, "rules are built in"),
                other => {
                    self.is_authdb_replaced |= !is_stacked || index > 0;
                    self.foreign_rights.push(Named::new(other, source));
                }
            }
        }
        if is_stacked {
            return;
        }
        if let Some(earlier) = self.authorisation.replace(source.clone())
            && earlier.text != source.text
        {
            let words = "ofs.authlib without ++ behind another one, which it replaces,";
            self.foreign_rights.push(Named::new(words, source));
        }
    }

    /// `ofs.tpc`, as `XrdOfs::xtpc` reads it.
    fn copies(&mut self, line: &Directive) {
        let source = &line.source;
        let mut open: Vec<String> = Vec::new();
        let mut words = line.words.iter().map(String::as_str).peekable();
        while let Some(word) = words.next() {
            match word {
                // The rest is a command line.
                "pgm" => break,
                "ttl" => {
                    let first = words.next().unwrap_or_default();
                    let second = words.next_if(|word| word.starts_with(|first: char| first.is_ascii_digit()));
                    self.key_lifetimes(first, second.unwrap_or(first), line);
                }
                "xfr" => {
                    let count = words.next().and_then(|count| count.parse::<u32>().ok());
                    if let Some(count) = count.filter(|count| *count > 0) {
                        self.set("limits.transfers", i64::from(count), source);
                    }
                }
                "streams" => self.most_streams(words.next().unwrap_or_default(), line),
                "cksum" => {
                    words.next();
                    self.set("tpc.verify", "required", source);
                }
                "fcreds" => {
                    words.nth(1);
                    open.push("fcreds (set [delegation] directory and key_file)".to_owned());
                }
                "redirect" => {
                    let target = words.next().unwrap_or_default();
                    open.push(format!("redirect {target} (write its URL into [tpc] forward_to)"));
                    break;
                }
                "allow" | "require" => {
                    let parts = [words.next(), words.next()].map(Option::unwrap_or_default);
                    open.push(format!("{word} {} (write rules for whom may copy)", parts.join(" ")));
                }
                "restrict" => {
                    let path = words.next().unwrap_or_default();
                    open.push(format!(
                        "restrict {path} (copies need the rights to read or write, on any path)"
                    ));
                }
                "fcpath" | "scan" => _ = words.next(),
                // Parts of failed copies are removed, and copies logged, in any case.
                "autorm" | "logok" | "echo" | "oids" => {}
                other => open.push(format!("{other} (unknown)")),
            }
        }
        match open.is_empty() {
            true => self.migration.taken(source, "third-party copies are built in ([tpc])"),
            false => {
                let words = format!("third-party copies are built in ([tpc]), without {}", open.join("; "));
                self.migration.in_part(source, words, "Decide on each of these");
            }
        }
    }

    /// How long the key of a copy holds: usually, and at most.
    fn key_lifetimes(&mut self, usual: &str, most: &str, line: &Directive) {
        for (place, word) in [("tpc.key_lifetime", usual), ("tpc.key_lifetime_max", most)] {
            if let Some(time) = duration(word).filter(|time| time != "0s") {
                self.set(place, time, &line.source);
            }
        }
    }

    /// `N` or `N,MOST`. How many are used is found by measuring here, so that the most counts.
    fn most_streams(&mut self, word: &str, line: &Directive) {
        let most = word.rsplit(',').next().unwrap_or_default();
        let count = most
            .parse::<u32>()
            .ok()
            .filter(|count| (1..=STREAMS_MAX).contains(count));
        if let Some(count) = count {
            self.set("tpc.chosen_streams", i64::from(count), &line.source);
        }
    }

    /// `ofs.osslib [++] LIBRARY`.
    fn back_end(&mut self, line: &Directive) {
        let source = &line.source;
        let names = line.words.iter().map(|word| library(word));
        let names: Vec<&str> = names.filter(|word| !matches!(*word, "" | "++" | "default")).collect();
        match names.first().copied().unwrap_or_default() {
            "libXrdPss" => self.migration.taken(source, "is [[export]] remote"),
            "libXrdS3" => self.migration.taken(source, "is [[export]] s3"),
            "libXrdMultiuser" => {
                self.multiuser = Some(source.clone());
                self.take_as("users.switch", "required", source);
            }
            "libXrdThrottle" | "throttle" => {
                let words = "clients have fair shares of connections, files and copies by themselves ([limits])";
                self.migration.not_needed(source, words);
            }
            "libXrdOss" | "libXrdOssStats" | "libXrdOssCsi" | "libXrdPosc" | "" => {
                let words = "files are stored whole, with their checksums, and counted in metrics";
                self.migration.not_needed(source, words);
            }
            "libXrdHTTPServer" | "libXrdHttpServer" => {
                let advice = "Write the URL of the server into [[export]] remote";
                self.foreign = Some(source.clone());
                self.migration
                    .no_equivalent(source, "its settings are not read", advice);
            }
            other => {
                let words = format!("the storage {other} is not ours");
                let advice = match other {
                    name if name.starts_with("libXrdCeph") => "Serve the pool by CephFS (directory) or RGW (s3)",
                    name if name.starts_with("libXrdHdfs") => "Mount HDFS, and export the directory",
                    _ => "Leave these files at XRootD, and put an [[export]] with remote in front of it",
                };
                self.foreign = Some(source.clone());
                self.migration.no_equivalent(source, words, advice);
            }
        }
    }

    /// `oss.space NAME PATH`.
    fn space(&mut self, line: &Directive) {
        match (line.word(0), line.word(1)) {
            (name, path) if path.starts_with('/') => {
                let path = plain_path(path.trim_end_matches('*'));
                let space = self.spaces.entry(name.to_owned()).or_default();
                space.push(Named::new(&path, &line.source));
            }
            _ => {
                let words = "files are not assigned to disks by their names";
                let advice = "Give each disk an [[export]] of its own, or join them by the file system";
                self.migration.no_equivalent(&line.source, words, advice);
            }
        }
    }

    /// `acc.*`.
    pub(super) fn access(&mut self, line: &Directive, name: &str) -> bool {
        let source = &line.source;
        match name {
            "authdb" => self.keep(|facts| &mut facts.authdb, Named::new(line.word(0), source)),
            "spacechar" => {
                self.space = line.word(0).chars().next();
                self.migration.taken(source, "names in the rules have spaces");
            }
            "encoding" => {
                self.space = line.after("space").and_then(|word| word.chars().next()).or(self.space);
                self.is_path_encoded = line.words.iter().any(|word| word == "pct");
                self.migration.taken(source, "names and paths in the rules are decoded");
            }
            _ => return false,
        }
        true
    }

    /// `s3.*` of the S3 plug-in: a bucket between `s3.begin` and `s3.end`.
    pub(super) fn bucket(&mut self, line: &Directive, name: &str) -> bool {
        match name {
            "begin" => self.buckets.push(Bucket::default()),
            "end" => {}
            "trace" => return false,
            _ => {
                if self.buckets.is_empty() {
                    self.buckets.push(Bucket::default());
                }
                let value = Named::new(line.word(0), &line.source);
                if let Some(bucket) = self.buckets.last_mut() {
                    bucket.keys.insert(name.to_owned(), value);
                }
                return true;
            }
        }
        self.migration.not_needed(&line.source, "each bucket is an [[export]]");
        true
    }
}
