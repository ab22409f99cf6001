//! Directives that need nothing here, or that have no equivalent, in a table.

use super::facts::Facts;
use super::lines::Directive;
use crate::remark::Outcome;

/// What becomes of the directives with a name. A name that ends with `*` stands for all that begin
/// so.
struct Known {
    name: &'static str,
    outcome: Outcome,
    words: &'static str,
    /// Empty if nothing is to be done.
    advice: &'static str,
}

const fn unneeded(name: &'static str, words: &'static str) -> Known {
    Known {
        name,
        outcome: Outcome::NotNeeded,
        words,
        advice: "",
    }
}

const fn missing(name: &'static str, words: &'static str, advice: &'static str) -> Known {
    Known {
        name,
        outcome: Outcome::NoEquivalent,
        words,
        advice,
    }
}

const THREADS: &str = "threads, buffers and sockets are managed by themselves";
const LOG: &str = "the log has a line for each request and transfer ([log], docs/logging.md)";
const FILES: &str = "state is in files of the service itself, such as /var/lib/crossload";
const CACHE: &str = "our cache manages memory, blocks and writing by itself (docs/cache.md)";
const CLIENT: &str = "our own client is used, with its own times ([limits])";
const STATIC: &str = "pages and files of the server itself are not served";
const TAPE: &str = "files are not moved to and from tape";
const TAPE_ADVICE: &str = "Serve tape by the system behind the directory, or leave it at XRootD";

/// The table. The first name that fits counts.
const TABLE: [Known; 80] = [
    unneeded("all.adminpath", FILES),
    unneeded("all.pidpath", FILES),
    unneeded("all.homepath", FILES),
    unneeded("xrd.adminpath", FILES),
    unneeded("xrd.pidpath", FILES),
    unneeded("xrd.homepath", FILES),
    unneeded("xrd.sched", THREADS),
    unneeded("xrd.buffers", THREADS),
    unneeded("xrd.network", THREADS),
    unneeded(
        "xrd.tlsciphers",
        "the ciphers are those of TLS 1.2 and 1.3 that are held to be secure",
    ),
    missing(
        "xrd.tcpmonlib",
        "connections are counted in metrics only",
        "Use [server] admin_listen",
    ),
    unneeded("xrootd.async", THREADS),
    unneeded("xrootd.bindif", "sessions may have connections from several addresses"),
    unneeded(
        "xrootd.fsoverload",
        "what is too much is refused, to be tried again ([limits])",
    ),
    unneeded("xrootd.limit", "clients have fair shares by themselves ([limits])"),
    unneeded("xrootd.log", LOG),
    unneeded(
        "xrootd.tlsreuse",
        "sessions of TLS are resumed ([limits] tls_session_bytes)",
    ),
    unneeded("xrootd.prep", "requests to bring files online are answered at once"),
    missing(
        "xrootd.diglib",
        "configuration, log and processes are not served as files",
        "Use [web] listen, [server] admin_listen and crossload trace",
    ),
    missing(
        "xrootd.redirect",
        "single operations or paths are not sent to another server",
        "Use crossload redirector, [tpc] forward_to, or an [[export]] with remote for these paths",
    ),
    missing(
        "xrootd.redirlib",
        "plug-ins for redirection are not ours",
        "Use crossload redirector",
    ),
    missing(
        "xrootd.gpflib",
        "whole files are sent by reads and writes",
        "Nothing, for xrdcp and gfal",
    ),
    missing(
        "throttle.throttle",
        "clients have fair shares, without limits in bytes or operations each second",
        "Lower [limits] client_share_percent, or shape the traffic of the service by the system",
    ),
    missing(
        "throttle.*",
        "load is shared between clients, and not moved to other servers",
        "Put crossload redirector in front of several servers",
    ),
    unneeded(
        "http.tlsreuse",
        "sessions of TLS are resumed ([limits] tls_session_bytes)",
    ),
    unneeded(
        "http.cipherfilter",
        "the ciphers are those of TLS 1.2 and 1.3 that are held to be secure",
    ),
    unneeded(
        "http.sslcipherfilter",
        "the ciphers are those of TLS 1.2 and 1.3 that are held to be secure",
    ),
    unneeded("http.sslverifydepth", "chains of any usual length are verified"),
    unneeded(
        "http.secretkey",
        "clients are sent on with capabilities of our own ([hand_over])",
    ),
    unneeded(
        "http.desthttps",
        "clients are sent to the protocol that the node has in its URL",
    ),
    unneeded("http.maxdelay", "waits have limits of their own ([limits])"),
    unneeded(
        "http.allowmissingcrl",
        "lists of revoked certificates may be missing ([x509] revocation)",
    ),
    missing(
        "http.listingredir",
        "listings are made here",
        "Clients may ask the other server itself",
    ),
    missing("http.staticredir", STATIC, "Put a web server beside it"),
    missing(
        "http.staticpreload",
        STATIC,
        "Put a web server beside it, for robots.txt and the like",
    ),
    missing(
        "http.staticheader",
        "headers are not added to answers",
        "Put a proxy in front, if browsers need them",
    ),
    missing(
        "http.cors",
        "headers for pages of other sites are not added",
        "Put a proxy in front, if browsers need them",
    ),
    missing(
        "http.auth",
        "plug-ins for authentication are not ours",
        "Use certificates or tokens",
    ),
    unneeded("http.embeddedstatic", "pages have their own style"),
    unneeded(
        "ofs.cks*",
        "checksums are computed here, of what is stored ([server] checksums)",
    ),
    unneeded("ofs.dirlist", "listings are read from the directory"),
    unneeded("ofs.maxdelay", "waits have limits of their own ([limits])"),
    unneeded(
        "ofs.persist",
        "an upload appears under its name when it is whole, and never in part",
    ),
    unneeded("ofs.crmode", "files have the modes of the system (umask)"),
    unneeded("ofs.xattr", "extended attributes are stored with the files"),
    missing(
        "ofs.xattrlib",
        "attributes are stored in the file system",
        "Use one with extended attributes",
    ),
    missing("ofs.ctllib", "plug-ins for control are not ours", "Do without it"),
    missing(
        "ofs.cmslib",
        "plug-ins for clusters are not ours",
        "Use [cms] managers or crossload redirector",
    ),
    missing(
        "ofs.forward",
        "changes are made on one server",
        "Use crossload redirector, which makes them on all nodes",
    ),
    missing("ofs.notify*", "no program gets events", "Use [monitoring] or the log"),
    missing("ofs.preplib", TAPE, TAPE_ADVICE),
    missing("oss.stagecmd", TAPE, TAPE_ADVICE),
    missing("oss.stagemsg", TAPE, TAPE_ADVICE),
    missing("oss.xfr", TAPE, TAPE_ADVICE),
    missing("oss.mss*", TAPE, TAPE_ADVICE),
    missing("oss.rss*", TAPE, TAPE_ADVICE),
    missing("frm.*", TAPE, TAPE_ADVICE),
    missing("oss.remoteroot", TAPE, TAPE_ADVICE),
    missing(
        "oss.namelib",
        "names are those of the directories: no library translates them",
        "Give each tree an [[export]] with its path and directory, or make links",
    ),
    missing("oss.statlib", "files are looked for in the directory", "Do without it"),
    missing(
        "oss.quotafile",
        "spaces have no quotas",
        "Write [[quota]] for organisations, or [[export]] quota_bytes",
    ),
    missing(
        "oss.usage",
        "spaces have no quotas",
        "Write [[quota]] for organisations, or [[export]] quota_bytes",
    ),
    unneeded("oss.*", "the file system does this by itself"),
    unneeded("acc.authrefresh", "changed rules count within seconds"),
    unneeded("acc.audit", LOG),
    unneeded("acc.gid*", "there are no groups of Unix in rules"),
    unneeded("acc.pgo", "there are no groups of Unix in rules"),
    unneeded("acc.nisdomain", "there are no netgroups in rules"),
    missing(
        "pss.namelib",
        "names are those at the other server: no library translates them",
        "Write the path there into [[export]] remote, one for each tree",
    ),
    unneeded("pss.*", CLIENT),
    missing(
        "pfc.decisionlib",
        "everything that is read is cached",
        "Export what must not be cached without a cache",
    ),
    unneeded("pfc.*", CACHE),
    unneeded("bwm.*", "copies have slots and shares ([limits])"),
    unneeded("dig.*", "configuration, log and processes are not served as files"),
    unneeded("multiuser.umask", "files have the modes of the system (umask)"),
    unneeded(
        "multiuser.*",
        "checksums are computed of all that is written ([server] checksums)",
    ),
    missing(
        "httpserver.*",
        "the settings of this plug-in are not read",
        "Write the URL of the server into [[export]] remote",
    ),
    missing(
        "ceph.*",
        "pools are not read by librados",
        "Serve the pool by CephFS (directory) or RGW (s3)",
    ),
    missing(
        "hdfs.*",
        "HDFS is not read by its library",
        "Mount it, and export the directory",
    ),
    unneeded("scitokens.*", LOG),
];

impl Facts<'_> {
    /// Notes what the table says of a directive, or that it is unknown.
    pub(super) fn by_table(&mut self, line: &Directive) {
        if line.name.ends_with(".trace") {
            return self.migration.not_needed(&line.source, LOG);
        }
        let fits = |known: &&Known| match known.name.strip_suffix('*') {
            Some(begin) => line.name.starts_with(begin),
            None => line.name == known.name,
        };
        match TABLE.iter().find(fits) {
            Some(known) => {
                let advice = (!known.advice.is_empty()).then(|| known.advice.to_owned());
                self.migration.note(known.outcome, &line.source, known.words, advice);
            }
            None => {
                let advice = "Look whether it is misspelled; a plug-in of XRootD is not ours";
                self.migration
                    .unknown(&line.source, "XRootD's manuals do not name it", advice);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_hidden_by_an_earlier_one_and_each_gap_has_advice() {
        for (index, known) in TABLE.iter().enumerate() {
            let hides = |earlier: &Known| match earlier.name.strip_suffix('*') {
                Some(begin) => known.name.starts_with(begin),
                None => known.name == earlier.name,
            };
            assert!(!TABLE[..index].iter().any(hides), "{}", known.name);
            assert_eq!(
                known.outcome == Outcome::NotNeeded,
                known.advice.is_empty(),
                "{}",
                known.name
            );
        }
    }
}
