//! `xrootd.monitor`, `xrootd.mongstream`, `xrd.report` and `xrootd.pmark`.

use super::facts::Facts;
use super::lines::Directive;
use super::values::{duration, seconds};
use crate::document::DocumentKind;

/// Most receivers of a kind.
const RECEIVERS_MAX: usize = 4;
/// Words of `xrootd.monitor` that a value follows, which needs nothing here.
const WITH_VALUE: [&str; 8] = ["window", "mbuff", "rbuff", "fbuff", "fbsz", "gbuff", "rnums", "level"];
/// Streams of events that we have: logins, open and closed files.
const EVENTS: [&str; 4] = ["fstat", "files", "user", "info"];
/// Streams that we do not have.
const OTHER_EVENTS: [&str; 10] = [
    "io", "iov", "redir", "tcpmon", "ccm", "pfc", "throttle", "tpc", "http", "oss",
];

impl Facts<'_> {
    /// `xrootd.monitor`.
    pub(super) fn monitor(&mut self, line: &Directive) {
        let source = &line.source;
        let mut open: Vec<String> = Vec::new();
        let mut is_destination = false;
        let mut interval = None;
        let mut words = line.words.iter().map(String::as_str).peekable();
        while let Some(word) = words.next() {
            match word {
                "all" | "..." | "lfn" | "ops" | "ssq" => {}
                "dest" => is_destination = true,
                "auth" => {
                    self.set("monitoring.personal_names", true, source);
                }
                "flush" => {
                    words.next_if(|word| *word == "io");
                    let time = words
                        .next()
                        .filter(|time| seconds(time).is_some_and(|seconds| seconds > 0));
                    if let Some(time) = time.and_then(duration) {
                        self.set("monitoring.flush_interval", time, source);
                    }
                }
                "ident" => {
                    let time = words
                        .next()
                        .filter(|time| seconds(time).is_some_and(|seconds| seconds > 0));
                    if let Some(time) = time.and_then(duration) {
                        self.set("monitoring.identity_interval", time, source);
                    }
                }
                "fstat" if !is_destination => interval = words.next().and_then(seconds),
                "xfr" => {
                    let times = words.next().and_then(|count| count.parse::<u64>().ok());
                    let progress = interval
                        .zip(times)
                        .and_then(|(interval, times)| interval.checked_mul(times));
                    if let Some(time) = progress.filter(|seconds| *seconds > 0) {
                        self.set("monitoring.progress_interval", format!("{time}s"), source);
                    }
                }
                word if WITH_VALUE.contains(&word) => _ = words.next(),
                word if EVENTS.contains(&word) => {}
                word if OTHER_EVENTS.contains(&word) => open.push(word.to_owned()),
                word if is_destination => {
                    self.receiver("monitoring.destinations", word, line, &mut open);
                    is_destination = false;
                }
                other => open.push(format!("{other} (unknown)")),
            }
        }
        self.monitored(line, open, "is [monitoring]");
    }

    /// Adds a receiver, if it is one: we send UDP, to at most so many.
    fn receiver(&mut self, place: &str, word: &str, line: &Directive, open: &mut Vec<String>) {
        let count = self.get(place).and_then(|list| list.as_array()).map_or(0, Vec::len);
        let is_fit = word.rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok_and(|port| port != 0)
        });
        match is_fit && count < RECEIVERS_MAX {
            true => _ = self.migration.push(DocumentKind::Endpoint, place, word, &line.source),
            false => open.push(format!("the receiver {word}")),
        }
    }

    fn monitored(&mut self, line: &Directive, mut open: Vec<String>, words: &str) {
        open.dedup();
        match open.is_empty() {
            true => self.migration.taken(&line.source, words),
            false => {
                let words = format!("{words}, without {}", open.join(", "));
                let advice = "What is sent is in docs/monitoring.md: logins, files, copies, requests, summaries";
                self.migration.in_part(&line.source, words, advice);
            }
        }
    }

    /// `xrootd.mongstream STREAM... use [flush T] [maxlen L] [send FORMAT [noident] HOST:PORT]`.
    pub(super) fn streams(&mut self, line: &Directive) {
        let (mut places, mut open) = (Vec::new(), Vec::new());
        for word in line.words.iter().take_while(|word| *word != "use") {
            match word.as_str() {
                "all" => places = vec!["monitoring.copy_destinations", "monitoring.http_destinations"],
                "tpc" => places.push("monitoring.copy_destinations"),
                "http" => places.push("monitoring.http_destinations"),
                other => open.push(other.to_owned()),
            }
        }
        let at = line.words.iter().position(|word| word == "send");
        let receiver = at.and_then(|at| line.words[at..].iter().find(|word| word.contains(':')));
        if let Some(receiver) = receiver {
            for place in &places {
                self.receiver(place, receiver, line, &mut open);
            }
        }
        match places.is_empty() || receiver.is_none() {
            true => {
                let advice = "The page of the server and its metrics have the state of caches and connections";
                self.migration
                    .no_equivalent(&line.source, "these streams are not ours", advice);
            }
            false => self.monitored(line, open, "is [monitoring], as JSON"),
        }
    }

    /// `xrd.report DESTINATION[,DESTINATION] [every TIME] [OPTION...]`.
    pub(super) fn report(&mut self, line: &Directive) {
        let mut open = Vec::new();
        for receiver in line.word(0).split(',') {
            self.receiver("monitoring.summary_destinations", receiver, line, &mut open);
        }
        let every = line
            .after("every")
            .filter(|time| seconds(time).is_some_and(|seconds| seconds > 0));
        if let Some(time) = every.and_then(duration) {
            self.set("monitoring.summary_interval", time, &line.source);
        }
        self.monitored(line, open, "is [monitoring] summary_destinations");
    }

    /// `xrootd.pmark`: fireflies of SciTags.
    pub(super) fn packet_marks(&mut self, line: &Directive) {
        let source = &line.source;
        let words: Vec<&str> = line.words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["ffdest", targets @ ..] => {
                let mut open = Vec::new();
                for target in targets.iter().flat_map(|word| word.split(',')) {
                    match target {
                        "origin" => _ = self.set("scitags.to_peers", true, source),
                        _ if target.contains(':') => self.receiver("scitags.destinations", target, line, &mut open),
                        _ => self.receiver("scitags.destinations", &format!("{target}:10514"), line, &mut open),
                    }
                }
                self.monitored(line, open, "is [scitags]");
            }
            ["map2exp", kind @ ("path" | "vo"), value, experiment, ..] => {
                let value = match *kind {
                    "path" => super::values::plain_path(value),
                    _ => (*value).to_owned(),
                };
                let flow = self.migration.document(DocumentKind::Endpoint).add("flow");
                flow.set(kind, value, source);
                match experiment.parse::<i64>() {
                    Ok(number) => _ = flow.set("experiment", number, source),
                    Err(_) => _ = flow.set("experiment", *experiment, source),
                }
                self.migration.taken(source, "is a [[flow]]");
            }
            ["map2exp" | "map2act", ..] => {
                let advice = "Write [[flow]] with vo or path, experiment and activity";
                self.migration
                    .no_equivalent(source, "activities by user or role are not ours", advice);
            }
            ["use" | "defsfile" | "domain" | "trace", ..] => {
                self.migration.not_needed(source, "the registry of SciTags is built in");
            }
            _ => self
                .migration
                .unknown(source, "is no option of pmark", "See docs/monitoring.md"),
        }
    }
}
