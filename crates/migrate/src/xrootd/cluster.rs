//! `cms.*`: the cluster.

use super::facts::{Facts, Named};
use super::lines::Directive;
use super::values::size_bytes;

/// What is less is no room, but a count or a time.
const LEAST_BYTES: u64 = 1 << 20;

impl Facts<'_> {
    /// `cms.*`.
    pub(super) fn cluster(&mut self, line: &Directive, name: &str) -> bool {
        let source = &line.source;
        match name {
            "space" => self.free_space(line),
            "allow" => self.allowed_nodes.push(Named::new(line.word(1), source)),
            "port" => self
                .migration
                .not_needed(source, "our redirectors ask the nodes, at their usual ports"),
            "delay" | "sched" | "ping" | "perf" | "fxhold" | "nbsendq" | "repstats" | "vnid" | "cidtag" | "mode"
            | "subcluster" => {
                let words = "redirectors know load, room and files of the nodes by themselves";
                self.migration.not_needed(source, words);
            }
            "dfs" => {
                let words = "a file that several nodes have is read from each of them";
                self.migration.not_needed(source, words);
            }
            "prep" | "prepmsg" => {
                let advice = "Serve tape by the system behind the directory";
                self.migration
                    .no_equivalent(source, "files are not brought online from tape", advice);
            }
            "blacklist" | "whitelist" | "altds" => {
                let advice = "Leave nodes out of the redirector's file, or drain them by crossload node drain";
                self.migration
                    .no_equivalent(source, "no file lists nodes that are not used", advice);
            }
            _ => return false,
        }
        true
    }

    /// `cms.space [linger N] [min [PERCENT%] BYTES [BYTES]]`: room that new files must leave.
    fn free_space(&mut self, line: &Directive) {
        let at = line.words.iter().position(|word| word == "min");
        let words = at.map_or(line.words.as_slice(), |at| &line.words[at + 1..]);
        let size = words
            .iter()
            .find(|word| size_bytes(word).is_some_and(|bytes| bytes >= LEAST_BYTES));
        match size {
            Some(size) => self.keep(|facts| &mut facts.reserve, Named::new(size, &line.source)),
            None => self
                .migration
                .not_needed(&line.source, "[[export]] reserve_bytes has a default"),
        }
    }
}
