//! Configurations of XRootD as sites have them: what becomes of them, and that no line is passed
//! over in silence. Each case is a directory with the files at the paths that name them.

use std::fs;
use std::path::{Path, PathBuf};

use migrate::{DocumentKind, InMemory, Migration, Order, Outcome, System};

/// A case, read for a host and an instance.
struct Case {
    name: &'static str,
    file: &'static str,
    host: &'static str,
    instance: Option<&'static str>,
    kind: DocumentKind,
    /// What the result contains.
    lines: &'static [&'static str],
    /// What the remarks contain, each behind the outcome.
    remarks: &'static [(Outcome, &'static str)],
    /// Mistakes that the administrator has to mend.
    mistakes: usize,
}

const ENDPOINT: Case = Case {
    name: "",
    file: "",
    host: "d1.example.org",
    instance: None,
    kind: DocumentKind::Endpoint,
    lines: &[],
    remarks: &[],
    mistakes: 0,
};

use Outcome::{InPart, NoEquivalent, NotNeeded, TakenOver, Unknown};

const CASES: [Case; 16] = [
    Case {
        name: "standalone",
        file: "/etc/xrootd/xrootd-standalone.cfg",
        lines: &[
            "listen = [\"[::]:1094\", \"[::]:8443\"]",
            "certificate = \"/etc/grid-security/xrd/xrdcert.pem\"",
            "# from /etc/xrootd/config.d/10-common.cfg:4: oss.localroot $(rootdir)\ndirectory = \"/mnt/shared/store\"",
            "tls = \"optional\"",
            "authentication = [\"gsi\", \"token\"]",
            "trust_directory = \"/etc/grid-security/certificates\"",
            "grid_map_file = \"/etc/grid-security/grid-mapfile\"",
            "voms_directory = \"/etc/grid-security/vomsdir\"",
            "refresh = \"30m\"",
            "secret_file = \"/etc/xrootd/macaroon-secret\"",
            "maximum_lifetime = \"1d\"",
            "switch = \"never\"",
            "checksums = [\"md5\", \"adler32\"]",
            "idle_timeout = \"1h\"",
            "\ndestinations = [\"shoveler.example.org:9993\"]",
            "copy_destinations = [\"shoveler.example.org:9993\"]",
            "summary_destinations = [\"shoveler.example.org:9931\", \"collector.example.org:9931\"]",
            "summary_interval = \"30s\"",
            "progress_interval = \"300s\"",
            "personal_names = true",
            "key_lifetime_max = \"30s\"",
            "chosen_streams = 10",
            "transfers = 40",
            "url = \"https://tokens.example.org\"",
            "restricted_paths = [\"/shared\"]",
            "name_map_file = \"/etc/xrootd/map.json\"",
            "who = [\"vo:cms\", \"role:production\"]",
            "path = \"/user/{user}/*\"",
            "experiment = \"cms\"",
        ],
        remarks: &[
            (TakenOver, "sec.protocol ztn"),
            (InPart, "fcreds"),
            (InPart, "redir"),
            (InPart, "crc32"),
            (NotNeeded, "xrd.sched"),
            (NoEquivalent, "robots.txt"),
            (NoEquivalent, "http.listingdeny"),
        ],
        ..ENDPOINT
    },
    Case {
        name: "clustered",
        file: "/etc/xrootd/xrootd-clustered.cfg",
        lines: &[
            "managers = [\"m1.example.org:3121\"]",
            "listen = [\"[::]:1095\"]",
            "directory = \"/srv/pool/data\"",
            "reserve_bytes = \"20GiB\"",
            "who = [\"user:eve\"]",
            "last = true",
        ],
        remarks: &[
            (NotNeeded, "--host, --instance"),
            (NoEquivalent, "/etc/xrootd/authdb:3: h .example.org /data a"),
        ],
        ..ENDPOINT
    },
    Case {
        name: "clustered",
        file: "/etc/xrootd/xrootd-clustered.cfg",
        host: "m1.example.org",
        kind: DocumentKind::Redirector,
        lines: &[
            "listen = [\"[::]:1094\"]",
            "[redirector]\n",
            "path = \"/data\"",
            "[[node]]\n# from /etc/xrootd/xrootd-clustered.cfg:14: cms.allow host d1.example.org\nurl = \"root://d1.example.org:1094\"",
        ],
        remarks: &[(TakenOver, "crossload redirector"), (NotNeeded, "cms.delay startup 10")],
        ..ENDPOINT
    },
    Case {
        name: "cache",
        file: "/etc/xrootd/xrootd-cache.cfg",
        lines: &[
            "remote = \"root://federation.example.org:1094//\"",
            "cache_directory = \"/disk1/xcache/crossload\"",
            "cache_size_bytes = \"12TiB\"",
            "cache_prefetch_blocks = 5",
            "remote_certificate = \"/run/xcache/proxy.pem\"",
            "read_only = true",
            "revocation = \"required\"",
            "authentication = [\"gsi\"]",
            "managers = [\"redirector.example.org:2041\"]",
            "who = [\"group:/experiment\"]",
        ],
        remarks: &[
            (InPart, "oss.space data /disk2/xcache"),
            (NotNeeded, "pfc.ram"),
            (NoEquivalent, "xrootd.diglib"),
        ],
        ..ENDPOINT
    },
    Case {
        name: "origin",
        file: "/etc/xrootd/xrootd-origin.cfg",
        lines: &[
            "listen = [\"[::]:1094\", \"[::]:8000\"]",
            "authentication = []",
            "directory = \"/stash/public\"",
            "path = \"/protected*\"\nmay_not = [\"all\"]",
            "managers = [\"redirector.example.org:1213\"]",
        ],
        remarks: &[(NoEquivalent, "throttle.throttle"), (NotNeeded, "xrd.port 1095")],
        ..ENDPOINT
    },
    Case {
        name: "origin",
        file: "/etc/xrootd/xrootd-origin.cfg",
        instance: Some("origin-auth"),
        lines: &[
            "listen = [\"[::]:1095\"]",
            "authentication = [\"gsi\"]",
            "path = \"/protected\"",
            "who = [\"group:/ligo\"]",
            "certificate = \"/etc/grid-security/xrd/xrdcert.pem\"",
        ],
        remarks: &[(InPart, "grid-mapfile"), (NotNeeded, "xrd.port 1094")],
        ..ENDPOINT
    },
    Case {
        name: "fst",
        file: "/etc/xrd.cf.fst",
        lines: &["authentication = [\"unix\"]", "managers = [\"localhost:2131\"]"],
        remarks: &[
            (NoEquivalent, "libXrdEosFst"),
            (InPart, "all.export / nolock"),
            (NoEquivalent, "sec.protocol sss"),
            (Unknown, "fstofs.broker"),
        ],
        ..ENDPOINT
    },
    Case {
        name: "tape",
        file: "/etc/xrootd/xrootd-tape.cfg",
        lines: &["directory = \"/buffer/tape\"", "reserve_bytes = \"100GiB\""],
        remarks: &[
            (InPart, "all.export /tape stage"),
            (NoEquivalent, "oss.stagecmd"),
            (NoEquivalent, "krb5 is not among"),
            (InPart, "no credential of ours"),
            (NoEquivalent, "frm.xfr.copycmd"),
        ],
        ..ENDPOINT
    },
    Case {
        name: "forwarding",
        file: "/etc/xrootd/xrootd-forward.cfg",
        lines: &[
            "listen = [\"[::]:1096\"]",
            "remote_hosts = [\"*.example.org\", \"disk.example.com\"]",
        ],
        remarks: &[
            (NoEquivalent, "d*1.example.net"),
            (InPart, "tokens need TLS"),
            (InPart, "no credential of ours"),
        ],
        ..ENDPOINT
    },
    Case {
        name: "bucket",
        file: "/etc/xrootd/xrootd-s3.cfg",
        lines: &[
            "listen = [\"[::]:0\", \"[::]:8080\"]",
            "s3 = \"https://s3.example.org/data\"",
            "s3 = \"https://more.s3.example.org\"",
            "s3_secret_key_file = \"/etc/xrootd/secret\"",
            "s3_addressing = \"host\"",
            "s3_region = \"eu-west-1\"",
            "path = \"/buckets/more\"",
            "read_only = true",
            "base_paths = [\"/buckets/data\"]",
        ],
        remarks: &[(InPart, "s3.access_key_file"), (NotNeeded, "s3.service_name")],
        ..ENDPOINT
    },
    Case {
        name: "multiuser",
        file: "/etc/xrootd/xrootd-http.cfg",
        lines: &[
            "listen = [\"[::]:1094\", \"[::]:443\"]",
            "switch = \"required\"",
            "tls = \"data\"",
            "authentication = [\"token\"]",
            "audiences = [\"https://home.example.org\"]",
            "who = [\"authenticated\", \"issuer:https://iam.example.org/\"]\npath = \"/{user}/*\"",
            "who = [\"issuer:https://iam.example.org/\"]\npath = \"/public*\"",
            "strategy = [\"mapping\"]",
        ],
        remarks: &[
            (NoEquivalent, "X-Experiment"),
            (InPart, "onmissing = deny"),
            (InPart, "xrd.tlsca certfile"),
        ],
        ..ENDPOINT
    },
    Case {
        name: "federation",
        file: "/etc/xrootd/xrootd-federation.cfg",
        host: "region1.example.org",
        kind: DocumentKind::Redirector,
        lines: &[
            "read_only = true",
            "path = \"/\"",
            "destinations = [\"collector.example.org:9930\"]",
        ],
        remarks: &[
            (NoEquivalent, "xrootd.redirect"),
            (NoEquivalent, "all.manager meta"),
            (InPart, "cms.allow host *.example.org"),
            (InPart, "a redirector lists its nodes"),
        ],
        ..ENDPOINT
    },
    Case {
        name: "tutorial",
        file: "/etc/xrootd/xrootd-filecache-clustered.cfg",
        lines: &[
            "listen = [\"[::]:1094\", \"[::]:80\"]",
            "anonymous = \"write\"",
            "read_only = true",
            "directory = \"/tmp\"",
        ],
        remarks: &[(NotNeeded, "it may be missing")],
        ..ENDPOINT
    },
    Case {
        name: "old",
        file: "/etc/xrootd/xrootd.cfg",
        lines: &[
            "listen = [\"[::]:1094\"]",
            "who = [\"dn:/DC=org/DC=example/CN=Jane Doe\"]",
            "path = \"/store*\"\nmay_not = [\"all\"]",
            "reserve_bytes = \"2GiB\"",
            "certificate = \"/etc/grid-security/xrd/xrdcert.pem\"",
            "destinations = [\"old.example.org:9930\"]",
            "secret_file = \"/etc/xrootd/macaroon-secret\"",
        ],
        remarks: &[
            (InPart, "libXrdLcmaps"),
            (InPart, "file:/var/log/mon"),
            (NoEquivalent, "oss.namelib"),
            (NoEquivalent, "g staff /store a"),
            (InPart, "h bad.example.net /store -a"),
        ],
        ..ENDPOINT
    },
    Case {
        name: "spaces",
        file: "/etc/xrootd/xrootd-disks.cfg",
        lines: &[
            "listen = [\"127.0.0.1:1094\"]",
            "directory = \"/ns/store\"",
            "anonymous = \"write\"",
        ],
        remarks: &[
            (NoEquivalent, "xrd.allow host wn*.example.org"),
            (NoEquivalent, "oss.space atlas /disk2 xa"),
            (NoEquivalent, "oss.usage"),
            (InPart, "xrd.maxfd"),
            (Unknown, "fly.high"),
            (Unknown, "xrd.prot"),
        ],
        ..ENDPOINT
    },
    Case {
        name: "scattered",
        file: "/etc/xrootd/xrootd-scattered.cfg",
        lines: &[
            "directory = \"/data2/exp\"",
            "# from /etc/xrootd/xrootd-scattered.cfg:2: http.cert /etc/pki/host.pem\ncertificate = \"/etc/pki/host.pem\"",
            "key = \"/etc/pki/host.key\"",
            "reads = true",
            "tls = \"login\"",
            "verify = \"required\"",
            "allow_local_peers = true",
            "allow_private_peers = false",
            "voms_map_file = \"/etc/grid-security/voms-mapfile\"",
        ],
        remarks: &[
            (NotNeeded, "a later line replaces it"),
            (Unknown, "an \"if\" within another one"),
            (Unknown, "the variable nothing is not set"),
            (InPart, "no acc.authdb is named"),
        ],
        ..ENDPOINT
    },
];

/// The files of a case, at the paths that name them.
fn files(name: &str) -> InMemory {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/xrootd").join(name);
    let mut files = InMemory::default();
    let mut left = vec![root.clone()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => left.push(path),
                false => {
                    let inner = path.strip_prefix(&root).expect("below the case");
                    let text = fs::read_to_string(&path).expect("a text");
                    files.0.insert(Path::new("/").join(inner), text);
                }
            }
        }
    }
    files
}

fn migrated(case: &Case, files: &InMemory) -> Migration {
    let order = Order {
        files: vec![PathBuf::from(case.file)],
        instance: case.instance.map(str::to_owned),
        host: case.host.to_owned(),
    };
    System::Xrootd.migrate(&order, files).expect("the file is there")
}

/// The lines of a text with a directive, a record or a key; not those that only divide it.
fn lines(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut is_continued = false;
    for (index, line) in text.lines().enumerate() {
        let first = line.split_whitespace().next().unwrap_or_default();
        let is_plain = !first.is_empty() && !first.starts_with(['#', '[']);
        if is_plain && !is_continued && !["if", "else", "fi", "set"].contains(&first) {
            found.push(index + 1);
        }
        is_continued = line.trim_end().ends_with('\\');
    }
    found
}

#[test]
fn configurations_of_the_field_are_translated() {
    for case in &CASES {
        let name = format!("{} for {} {:?}", case.name, case.host, case.instance);
        let migration = migrated(case, &files(case.name));
        let kinds: Vec<DocumentKind> = migration.documents.iter().map(|document| document.kind).collect();
        assert_eq!(kinds, [case.kind], "{name}");
        let text = migration.documents[0].render(case.file);
        let mistakes = migration.documents[0].mistakes(&text, Path::new("/etc/crossload"));
        assert_eq!(mistakes.len(), case.mistakes, "{name}: {mistakes:#?}\n{text}");
        for line in case.lines {
            assert!(text.contains(line), "{name}: {line} is missing in\n{text}");
        }
        let remarks: Vec<String> = migration.remarks.iter().map(migrate::Remark::line).collect();
        for (outcome, words) in case.remarks {
            let mut found = migration.remarks.iter().zip(&remarks);
            let is_there = found.any(|(remark, line)| remark.outcome == *outcome && line.contains(words));
            assert!(
                is_there,
                "{name}: {outcome:?} {words} is missing in\n{}",
                remarks.join("\n")
            );
        }
    }
}

#[test]
fn no_line_is_passed_over_and_none_without_advice() {
    for case in &CASES {
        let files = files(case.name);
        let migration = migrated(case, &files);
        for (file, text) in &files.0 {
            let file = file.display().to_string();
            let of_file = || migration.remarks.iter().filter(|remark| remark.source.file == file);
            // An authdb of another instance is not read.
            for line in lines(text).into_iter().filter(|_| of_file().next().is_some()) {
                let is_there = of_file().any(|remark| remark.source.line == line);
                assert!(is_there, "{} for {}: {file}:{line} has no remark", case.name, case.host);
            }
        }
        for remark in &migration.remarks {
            let line = remark.line();
            assert_eq!(remark.outcome.is_open(), remark.advice.is_some(), "{line}");
            assert!(!remark.words.is_empty() && !line.contains('\n'), "{line}");
        }
    }
}

#[test]
fn a_right_is_given_only_where_a_record_gives_one() {
    // The rules of "old" that give something are those of its two records that rules can express.
    let case = CASES.iter().find(|case| case.name == "old").expect("the case");
    let text = migrated(case, &files(case.name)).documents[0].render(case.file);
    let giving = text.split("[[rule]]").skip(1).filter(|rule| rule.contains("\nmay = "));
    let who: Vec<&str> = giving
        .filter_map(|rule| rule.lines().find(|line| line.starts_with("who")))
        .collect();
    let (jane, anyone) = ("who = [\"dn:/DC=org/DC=example/CN=Jane Doe\"]", "who = [\"anyone\"]");
    assert_eq!(who, [jane, anyone, anyone], "{text}");
}

#[test]
fn rights_that_another_instance_judges_are_judged() {
    let text = "all.export /x\nif named other\nofs.authorize\nelse\nall.sitename mine\nfi\n";
    let migrated = |file: &str, instance: Option<&str>| {
        let order = Order {
            files: vec![PathBuf::from(file)],
            instance: instance.map(str::to_owned),
            host: String::new(),
        };
        let files = InMemory::default().with(file, text);
        System::Xrootd.migrate(&order, &files).expect("the file")
    };
    for (file, instance) in [
        ("/x.cfg", None),
        ("/x.cfg", Some("other")),
        ("/xrootd-other.cfg", None),
        ("/xrootd-other.cfg", Some("third")),
    ] {
        let migration = migrated(file, instance);
        let result = migration.documents[0].render(file);
        assert!(!result.contains("anonymous"), "{file} {instance:?}: {result}");
        // It is either in a branch of others, or without a file of rights.
        assert!(migration.count(InPart) > 0, "{file} {instance:?}");
    }
    let site = |instance: Option<&str>| migrated("/xrootd-other.cfg", instance).documents[0].render("x");
    assert!(!site(None).contains("mine") && site(Some("third")).contains("mine"));
}

#[test]
fn rights_are_judged_where_lines_are_missing() {
    for text in [
        "all.export /x\ncontinue /etc/xrootd/config.d/\n",
        "all.export /x\nif named fly && high\nofs.authorize\nfi\n",
        "all.export /x\nif named other\n",
    ] {
        let order = Order {
            files: vec![PathBuf::from("/x.cfg")],
            ..Order::default()
        };
        let migration = System::Xrootd
            .migrate(&order, &InMemory::default().with("/x.cfg", text))
            .expect("the file");
        let result = migration.documents[0].render("/x.cfg");
        assert!(!result.contains("anonymous"), "{text}: {result}");
        assert!(!migration.is_complete(), "{text}");
    }
}

#[test]
fn a_file_that_is_missing_is_an_error_and_one_that_is_named_a_remark() {
    let order = Order {
        files: vec![PathBuf::from("/none.cfg")],
        ..Order::default()
    };
    let refused = System::Xrootd.migrate(&order, &InMemory::default()).unwrap_err();
    assert_eq!(refused.file, Path::new("/none.cfg"));
    let files = InMemory::default().with(
        "/none.cfg",
        "all.export /x\nofs.authorize\nacc.authdb /gone\nofs.authlib libXrdAccSciTokens.so\n",
    );
    let migration = System::Xrootd.migrate(&order, &files).expect("the file");
    let text = migration.documents[0].render("none.cfg");
    assert!(!text.contains("[[rule]]") && !text.contains("anonymous"), "{text}");
    assert_eq!(migration.count(InPart), 2, "{:#?}", migration.remarks);
    assert!(!migration.is_complete());
}
