//! `pss.*` and `pfc.*`: files of another server, and the cache in front of them.

use super::facts::{Facts, Named};
use super::lines::Directive;
use super::values::{host_and_port, library, size_bytes};

/// XRootD's port.
const PORT: u16 = 1094;

impl Facts<'_> {
    /// `pss.*` and `pfc.*`.
    pub(super) fn proxy(&mut self, line: &Directive) -> bool {
        let source = &line.source;
        match line.name.as_str() {
            "pss.origin" => self.origin_of(line),
            "pss.cachelib" | "pss.ccmlib" => match library(line.word(0)) {
                "libXrdPfc" | "libXrdFileCache" => {
                    self.cache = Some(source.clone());
                    self.migration.taken(source, "is [[export]] cache_directory");
                }
                "default" => self.migration.not_needed(source, "there is no cache in memory"),
                other => {
                    let words = format!("the cache {other} is not ours");
                    self.migration
                        .no_equivalent(source, words, "Use our cache (docs/cache.md)");
                }
            },
            "pss.permit" => {
                let host = line.words.last().map(String::as_str).unwrap_or_default();
                self.permitted.push(Named::new(host, source));
            }
            "pss.localroot" => self.prefixed(line),
            "pss.persona" => match line.word(0) {
                "server" => self
                    .migration
                    .taken(source, "is [[export]] remote_identity, \"service\" by default"),
                _ => {
                    let advice = "Write remote_identity = \"client\" or \"delegated\", with a remote of https or roots";
                    let words = "this server shows the remote its own credential";
                    self.migration.in_part(source, words, advice);
                }
            },
            "pss.export" => return self.framework(line, "export"),
            "pfc.spaces" => self.keep(|facts| &mut facts.cache_space, Named::new(line.word(0), source)),
            "pfc.diskusage" => self.keep(|facts| &mut facts.cache_size, Named::new(&line.words.join(" "), source)),
            "pfc.prefetch" => self.keep(|facts| &mut facts.prefetch, Named::new(line.word(0), source)),
            "pfc.blocksize" => {
                self.block_bytes = size_bytes(line.word(0)).unwrap_or(self.block_bytes);
                self.migration.not_needed(source, "blocks of our cache have 1 MiB");
            }
            "pfc.onlyifcached" => {
                let advice = "Bring whole files into the cache by crossload cache prefetch";
                self.migration
                    .no_equivalent(source, "files are read through the cache", advice);
            }
            "pfc.writethrough" => self.migration.not_needed(source, "what is written goes to the remote"),
            _ => return false,
        }
        true
    }

    /// `pss.origin URL`, `pss.origin HOST[:PORT]` or `pss.origin =PROTOCOLS [HOST]`.
    fn origin_of(&mut self, line: &Directive) {
        let source = &line.source;
        let words: Vec<&str> = line.words.iter().map(String::as_str).collect();
        let (is_forwarding, words) = match words.split_first() {
            Some((first, rest)) if first.starts_with('=') => (true, rest),
            _ => (false, words.as_slice()),
        };
        if is_forwarding && words.is_empty() {
            // Which hosts clients may name is in pss.permit.
            return self.keep(|facts| &mut facts.origin, Named::new("=", source));
        }
        let url = match words.first().copied().unwrap_or_default() {
            url if url.contains("://") => Some(url.replacen("xroot://", "root://", 1)),
            _ => host_and_port(words, PORT).map(|(host, port)| format!("root://{host}:{port}")),
        };
        match url {
            Some(url) => self.keep(|facts| &mut facts.origin, Named::new(url.trim_end_matches('/'), source)),
            None => self
                .migration
                .unknown(source, "names no server", "Write HOST:PORT or a URL"),
        }
        if is_forwarding {
            let words = "clients do not choose the server: the one that is named serves all";
            self.migration.in_part(
                source,
                words,
                "Write remote_hosts instead of remote, if clients name servers",
            );
        }
    }

    fn prefixed(&mut self, line: &Directive) {
        let words = "what stands before the paths at the other server is not added";
        let advice = "Add it to the URL in [[export]] remote";
        self.migration.in_part(&line.source, words, advice);
    }
}
