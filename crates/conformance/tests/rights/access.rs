//! Who may do what, cell by cell: every operation of HTTP and of the XRootD protocol with every
//! kind of credential. Both doors must decide alike, and as the table of the protocols' activities
//! and scopes says.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use conformance::{Endpoint, Frame, GOES_TO_TLS, Lab, RootSocket, Twins, parameters, run, tls_session_as};
use testkit::{Result, TokenIssuer, User, VomsServer, available, require};

/// The columns. What only one of the protocols has is marked `h` or `x`.
const OPERATIONS: [(&str, Operation); 13] = [
    ("look", Operation::Look),
    ("read", Operation::Read),
    ("list", Operation::List),
    ("create", Operation::Create),
    ("overwrite", Operation::Overwrite),
    ("delete", Operation::Delete),
    ("rmdir", Operation::RemoveDirectory),
    ("mkdir", Operation::MakeDirectory),
    ("rename", Operation::Rename),
    ("rename over", Operation::RenameOver),
    ("pull", Operation::Pull),
    ("push", Operation::Push),
    ("chmod (x)", Operation::ChangeMode),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Look,
    Read,
    List,
    Create,
    Overwrite,
    Delete,
    RemoveDirectory,
    MakeDirectory,
    Rename,
    RenameOver,
    Pull,
    Push,
    ChangeMode,
}

/// What a request shows.
enum Shown {
    Nothing,
    Token(String),
    /// A proxy, and the file in which it is.
    Proxy(Box<User>, PathBuf),
}

/// Rows: `+` where it is allowed, in the order of [`OPERATIONS`].
const MACAROONS: [(&str, &str); 10] = [
    ("READ_METADATA", "+------------"),
    ("UPDATE_METADATA", "+-----------+"),
    ("LIST", "+-+----------"),
    ("DOWNLOAD", "++---------+-"),
    ("UPLOAD", "+--+---+--+--"),
    ("MANAGE", "+--++-+++++--"),
    ("DELETE", "+----++------"),
    ("STAGE", "+------------"),
    ("UPLOAD,DELETE", "+--++++++++--"),
    ("LIST,DOWNLOAD,UPLOAD,MANAGE,DELETE", "++++++++++++-"),
];
const SCOPES: [(&str, &str); 8] = [
    ("storage.read:/", "+++--------+-"),
    ("storage.create:/", "+--+---+--+--"),
    ("storage.modify:/", "+--++++++++-+"),
    ("storage.stage:/", "+------------"),
    // Whether a file is on disk, and that is not asked here.
    ("storage.poll:/", "-------------"),
    ("storage.read:/ storage.modify:/", "+++++++++++++"),
    ("storage.read:/elsewhere", "-------------"),
    ("openid", "-------------"),
];
const SCITOKENS: [(&str, &str); 2] = [("read:/", "+++--------+-"), ("write:/", "+--++++++++-+")];

struct Site {
    lab: Lab,
    issuer: TokenIssuer,
    voms: VomsServer,
    twins: Twins,
    names: AtomicUsize,
}

const READER: &str = "/O=Crossload test/CN=Reader";
const WRITER: &str = "/O=Crossload test/CN=Writer";
const KEEPER: &str = "/O=Crossload test/CN=Keeper";

fn rules(lab: &Lab, issuer: &TokenIssuer, voms: &std::path::Path) -> String {
    let trust = lab.authority().trust_directory();
    format!(
        // Tokens come with the requests here, and certificates in the handshake: the login asks for
        // nothing more.
        "[xroot]\nauthentication = []\n\
         [x509]\ntrust_directory = \"{}\"\nvoms_directory = \"{}\"\n\
         [[issuer]]\nurl = \"{}\"\nbase_paths = [\"/data\"]\n\
         [[rule]]\nwho = \"dn:{READER}\"\npath = \"/data\"\nmay = \"read\"\n\
         [[rule]]\nwho = [\"dn:{WRITER}\", \"fqan:/atlas/Role=production\"]\npath = \"/data\"\nmay = [\"read\", \"write\"]\n\
         [[rule]]\nwho = \"dn:{KEEPER}\"\npath = \"/data\"\nmay = \"all\"\n\
         [[rule]]\nwho = \"dn:{KEEPER}\"\npath = \"/data\"\nmay_not = [\"delete\"]\n",
        trust.display(),
        voms.display(),
        issuer.url()
    )
}

fn site() -> Result<Site> {
    require("curl")?;
    let lab = Lab::new("access")?;
    let issuer = TokenIssuer::start(lab.authority())?;
    let voms = lab.fresh("vomsdir");
    let server = lab.authority().issue_voms_server("atlas")?;
    server.write_lsc(&voms)?;
    let more = rules(&lab, &issuer, &voms);
    let twins = Twins::start_with(&lab, "access", |guarded| guarded.more = more)?;
    Ok(Site {
        lab,
        issuer,
        voms: server,
        twins,
        names: AtomicUsize::new(0),
    })
}

impl Site {
    fn server(&self) -> &Endpoint {
        &self.twins.guarded
    }

    /// A file or directory that no other test uses; its name.
    fn fresh(&self, is_directory: bool) -> String {
        let name = format!("o{}", self.names.fetch_add(1, Ordering::Relaxed));
        match is_directory {
            true => std::fs::create_dir(self.server().data().join(&name)).expect("a directory"),
            false => drop(self.server().put(&name, b"content")),
        }
        name
    }

    fn new_name(&self) -> String {
        format!("n{}", self.names.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether HTTP allows it; `None` when HTTP has no such thing.
    fn by_http(&self, operation: Operation, shown: &Shown) -> Option<bool> {
        let over = Operation::RenameOver;
        let (method, name, header) = match operation {
            Operation::Look => ("HEAD", self.fresh(false), String::new()),
            Operation::Read => ("GET", self.fresh(false), String::new()),
            Operation::List => ("PROPFIND", self.fresh(true), "Depth: 1".to_owned()),
            Operation::Create => ("PUT", self.new_name(), String::new()),
            Operation::Overwrite => ("PUT", self.fresh(false), String::new()),
            Operation::Delete => ("DELETE", self.fresh(false), String::new()),
            Operation::RemoveDirectory => ("DELETE", self.fresh(true), String::new()),
            Operation::MakeDirectory => ("MKCOL", self.new_name(), String::new()),
            Operation::Rename | Operation::RenameOver => {
                let target = if operation == over {
                    self.fresh(false)
                } else {
                    self.new_name()
                };
                let target = format!("Destination: {}", self.server().url(&target));
                ("MOVE", self.fresh(false), target)
            }
            // There is no listener: an accepted order fails later.
            Operation::Pull => ("COPY", self.new_name(), "Source: https://localhost:1/f".to_owned()),
            Operation::Push => (
                "COPY",
                self.fresh(false),
                "Destination: https://localhost:1/f".to_owned(),
            ),
            Operation::ChangeMode => return None,
        };
        let url = self.server().url(&name);
        let body = self.lab.file(b"other");
        let mut arguments = match method {
            "HEAD" => vec!["-I".to_owned()],
            "PUT" => vec!["-T".to_owned(), body.display().to_string()],
            method => vec!["-X".to_owned(), method.to_owned()],
        };
        let token = match shown {
            Shown::Token(token) => format!("Authorization: Bearer {token}"),
            _ => String::new(),
        };
        for header in [header, token].into_iter().filter(|header| !header.is_empty()) {
            arguments.extend(["-H".to_owned(), header]);
        }
        if let Shown::Proxy(_, file) = shown {
            arguments.extend(["--cert".to_owned(), file.display().to_string()]);
        }
        arguments.push(url);
        let answer = self.lab.curl(&arguments);
        let is_copy = method == "COPY";
        match answer.status {
            401 | 403 => Some(false),
            200..300 => Some(true),
            502..=504 if is_copy => Some(true),
            other => panic!("{method} {name}: {other} {}", answer.text()),
        }
    }

    /// Whether the XRootD protocol allows it; `None` when it has no such thing here. A token stands
    /// behind the path; a certificate is shown in the handshake.
    fn by_root(&self, operation: Operation, shown: &Shown) -> Option<bool> {
        let port = self.server().port();
        let token = match shown {
            Shown::Nothing => "?".to_owned(),
            Shown::Token(token) => format!("?authz=Bearer%20{token}&"),
            Shown::Proxy(user, _) => {
                let mut clear = RootSocket::connect(port);
                assert_ne!(clear.greet(0x06) & GOES_TO_TLS, 0, "the server goes on over TLS");
                let session = tls_session_as(&self.lab.authority().ca_file(), user);
                let mut session = RootSocket::over_tls(clear, session);
                let _ = session.login();
                return self.asked(&mut session, operation, "?");
            }
        };
        self.asked(&mut RootSocket::session(port), operation, &token)
    }

    fn asked<S: Read + Write>(&self, session: &mut RootSocket<S>, operation: Operation, behind: &str) -> Option<bool> {
        let path = |name: String| format!("/data/{name}{behind}");
        let none = [0; 16];
        let mode = parameters(&[&[0; 14], &0o640_u16.to_be_bytes()]);
        let mut ask = |opcode: u16, parameters: [u8; 16], path: String| -> Frame {
            session.ask(1, opcode, &parameters, path.as_bytes())
        };
        let frame = match operation {
            Operation::Look => ask(3017, none, path(self.fresh(false))),
            Operation::List => ask(3004, none, path(self.fresh(true))),
            Operation::Delete => ask(3014, none, path(self.fresh(false))),
            Operation::RemoveDirectory => ask(3015, none, path(self.fresh(true))),
            Operation::MakeDirectory => ask(3008, mode, path(self.new_name())),
            Operation::ChangeMode => ask(3002, mode, path(self.fresh(false))),
            Operation::Read => session.try_open(&path(self.fresh(false)), 0x0010),
            Operation::Create => session.try_open(&path(self.new_name()), 0x0008),
            Operation::Overwrite => session.try_open(&path(self.fresh(false)), 0x0002),
            Operation::Pull => {
                let keys = format!(
                    "tpc.key={}&tpc.src=localhost:1&tpc.stage=copy&oss.asize=7",
                    self.new_name()
                );
                session.try_open(&format!("{}{keys}", path(self.new_name())), 0x0028)
            }
            Operation::Push => {
                let keys = format!("tpc.key={}&tpc.dst=localhost&tpc.stage=copy", self.new_name());
                session.try_open(&format!("{}{keys}", path(self.fresh(false))), 0x0010)
            }
            Operation::Rename | Operation::RenameOver => {
                let over = operation == Operation::RenameOver;
                let target = if over { self.fresh(false) } else { self.new_name() };
                let from = path(self.fresh(false));
                let length = u16::try_from(from.len()).expect("short");
                let both = format!("{from} {}", path(target));
                ask(3009, parameters(&[&[0; 14], &length.to_be_bytes()]), both)
            }
        };
        match frame.error() {
            0 => Some(true),
            3010 => Some(false),
            _ => panic!("{}", frame.words()),
        }
    }

    /// The cells of a row, and what of them is not as expected.
    fn row(&self, name: &str, shown: &Shown, expected: &str, table: &mut String) {
        let mut http = String::new();
        let mut root = String::new();
        let mark = |outcome: Option<bool>| match outcome {
            Some(true) => '+',
            Some(false) => '-',
            None => ' ',
        };
        for (_, operation) in OPERATIONS {
            http.push(mark(self.by_http(operation, shown)));
            root.push(mark(self.by_root(operation, shown)));
        }
        let differs = |found: &str| {
            found
                .chars()
                .zip(expected.chars())
                .any(|(found, cell)| found != ' ' && found != cell)
        };
        if differs(&http) || differs(&root) {
            let _ = writeln!(
                table,
                "{name}\n  expected {expected}\n  http     {http}\n  xroot    {root}"
            );
        }
    }
}

#[track_caller]
fn assert_none_differs(table: &str) {
    let columns: Vec<&str> = OPERATIONS.iter().map(|(name, _)| *name).collect();
    assert!(table.is_empty(), "columns: {}\n{table}", columns.join(", "));
}

#[test]
fn macaroons_and_nothing_allow_what_the_table_says_at_both_doors() {
    let test = "macaroons_and_nothing_allow_what_the_table_says_at_both_doors";
    let Some(site) = available(test, site()) else {
        return;
    };
    let mut table = String::new();
    site.row("nothing", &Shown::Nothing, "-------------", &mut table);
    for (activities, expected) in MACAROONS {
        let shown = Shown::Token(site.twins.macaroon(&site.lab, "", activities));
        site.row(&format!("macaroon {activities}"), &shown, expected, &mut table);
    }
    assert_none_differs(&table);
}

#[test]
fn tokens_allow_what_the_table_says_at_both_doors() {
    let test = "tokens_allow_what_the_table_says_at_both_doors";
    let Some(site) = available(test, site()) else {
        return;
    };
    let mut table = String::new();
    for (scopes, expected) in SCOPES {
        let shown = Shown::Token(site.issuer.token().scope(scopes).mint());
        site.row(&format!("WLCG {scopes}"), &shown, expected, &mut table);
    }
    for (scopes, expected) in SCITOKENS {
        let shown = Shown::Token(site.issuer.token().scitoken().scope(scopes).mint());
        site.row(&format!("SciToken {scopes}"), &shown, expected, &mut table);
    }
    assert_none_differs(&table);
}

#[test]
fn certificates_may_do_what_rules_say_at_both_doors() {
    let test = "certificates_may_do_what_rules_say_at_both_doors";
    let Some(site) = available(test, site()) else {
        return;
    };
    let shown = |proxy: User| {
        let file = proxy.write_proxy(&site.lab.fresh("proxy")).expect("a file");
        Shown::Proxy(Box::new(proxy), file)
    };
    let user = |dn: &str| site.lab.authority().issue_user(dn).expect("a user");
    let mut table = String::new();
    for (dn, expected) in [
        (READER, "+++--------+-"),
        // The rule is about her as a member of the production only.
        (WRITER, "-------------"),
        (KEEPER, "+++++--+--+++"),
        ("/O=Crossload test/CN=Stranger", "-------------"),
    ] {
        site.row(dn, &shown(user(dn).proxy().expect("a proxy")), expected, &mut table);
    }
    for (dn, fqan, expected) in [
        (WRITER, "/atlas/Role=production", "+++++-+++++++"),
        (WRITER, "/atlas/Role=pilot", "-------------"),
        (
            "/O=Crossload test/CN=Stranger",
            "/atlas/Role=production",
            "-------------",
        ),
    ] {
        let holder = user(dn);
        let attributes = site.voms.attributes(&holder, &["/atlas", fqan]).expect("attributes");
        let proxy = holder.voms_proxy(vec![attributes]).expect("a proxy");
        site.row(&format!("{dn} with {fqan}"), &shown(proxy), expected, &mut table);
    }
    assert_none_differs(&table);
}

#[test]
fn a_server_tells_whoever_asks_why_and_does_nothing() {
    let test = "a_server_tells_whoever_asks_why_and_does_nothing";
    let Some(site) = available(test, site()) else {
        return;
    };
    let user = site.lab.authority().issue_user(READER).expect("a user");
    let proxy = user
        .proxy()
        .and_then(|proxy| proxy.write_proxy(&site.lab.fresh("proxy")));
    let proxy = proxy.expect("a proxy");
    let url = site.server().url("some/file");
    let ca_file = site.lab.authority().ca_file();
    let ask = |op: &str| {
        let mut client = site
            .lab
            .client(["explain", "--op", op, "--url", &url])
            .expect("the client");
        run(client.arg("--cacert").arg(&ca_file).arg("--proxy").arg(&proxy))
    };
    let allowed = ask("read").succeeded();
    for words in [
        "asked     read /data/some/file",
        "credential: certificate",
        READER,
        "applies",
        "decision  allowed",
    ] {
        assert!(allowed.text().contains(words), "{words}: {}", allowed.said());
    }
    let refused = ask("write").failed_with(13);
    assert!(refused.text().contains("[[rule]] with who"), "{}", refused.said());
    for others in [WRITER, KEEPER] {
        assert!(
            !refused.said().contains(others),
            "it is nobody's business: {}",
            refused.said()
        );
    }
    assert!(!site.server().data().join("some").exists());
    let Endpoint::Crossload(server) = site.server() else {
        unreachable!("it is ours")
    };
    let mut offline = site
        .lab
        .client(["explain", "--op", "write", "--path", "/data/some/file"])
        .expect("the client");
    let told = run(offline
        .arg("--config")
        .arg(server.configuration())
        .arg("--proxy")
        .arg(&proxy))
    .failed_with(13);
    assert!(
        told.text().contains(READER) && told.text().contains("is for others"),
        "{}",
        told.said()
    );
}
