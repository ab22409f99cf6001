//! What rules can say of places, from the configuration to the answers of both doors: the name of
//! the local user in a path, exceptions, and rules that end the search.

use std::net::TcpStream;

use conformance::{ABLE_TLS, Endpoint, GOES_TO_TLS, Lab, RootSocket, WANT_TLS, opcode, tls_session_as};
use testkit::{Access, Result, User, available, require};

const ANN: &str = "/O=Crossload test/CN=Ann";
const BOB: &str = "/O=Crossload test/CN=Bob";

struct Site {
    lab: Lab,
    server: Endpoint,
}

/// Ann and Bob are known by name; what is closed is closed for Bob alone, because his rule is the
/// last one for him.
fn site() -> Result<Site> {
    require("curl")?;
    let lab = Lab::new("access-rules")?;
    let map = lab.file(format!("\"{ANN}\" ann\n\"{BOB}\" bob\n").as_bytes());
    let mut options = lab.options("rules");
    options.exports[0].anonymous = Access::None;
    options.more = format!(
        "[users]\nswitch = \"never\"\n\
         [xroot]\nauthentication = []\n\
         [x509]\ntrust_directory = \"{}\"\ngrid_map_file = \"{}\"\n\
         [[rule]]\nwho = \"user:bob\"\npath = \"/data/closed\"\nmay = \"stat\"\nlast = true\n\
         [[rule]]\nwho = \"authenticated\"\npath = \"/data\"\nexcept = [\"/data/users\", \"/data/closed/vault\"]\nmay = \"read\"\n\
         [[rule]]\nwho = \"authenticated\"\npath = \"/data/users/{{user}}\"\nmay = \"all\"\n",
        lab.authority().trust_directory().display(),
        map.display(),
    );
    let server = Endpoint::Crossload(Box::new(lab.crossload(options)?));
    for name in [
        "plain/f",
        "users/ann/f",
        "users/anna/f",
        "users/bob/f",
        "closed/f",
        "closed/vault/f",
    ] {
        server.put(name, b"content");
    }
    Ok(Site { lab, server })
}

impl Site {
    /// Whether the file may be looked at, read and stored anew, over HTTP: `+++`, `+--`, …
    fn by_http(&self, user: &User, name: &str) -> String {
        let proxy = user.write_proxy(&self.lab.fresh("proxy")).expect("a file");
        let (proxy, url) = (proxy.display().to_string(), self.server.url(name));
        let body = self.lab.file(b"content").display().to_string();
        let asked = [vec!["-I"], vec!["-X", "GET"], vec!["-T", &body]];
        let cells = asked.into_iter().map(|mut arguments| {
            arguments.extend(["--cert", &proxy, &url]);
            match self.lab.curl(&arguments).status {
                200..300 => '+',
                403 => '-',
                other => panic!("{name}: {other}"),
            }
        });
        cells.collect()
    }

    /// The same over the XRootD protocol.
    fn by_root(&self, user: &User, name: &str) -> String {
        let mut clear: RootSocket<TcpStream> = RootSocket::connect(self.server.port());
        assert_ne!(
            clear.greet(ABLE_TLS | WANT_TLS) & GOES_TO_TLS,
            0,
            "the server goes on over TLS"
        );
        let mut session = RootSocket::over_tls(clear, tls_session_as(&self.lab.authority().ca_file(), user));
        let _ = session.login();
        let path = format!("/data/{name}");
        let looked = session.ask(1, opcode::STAT, &[0; 16], path.as_bytes());
        let read = session.try_open(&path, 0x0010);
        // Replaces what is there.
        let stored = session.try_open(&path, 0x0002);
        let cells = [looked, read, stored].map(|frame| match frame.error() {
            0 => '+',
            3010 => '-',
            _ => panic!("{name}: {}", frame.words()),
        });
        cells.iter().collect()
    }
}

#[test]
fn names_in_paths_exceptions_and_last_rules_hold_at_both_doors() {
    let test = "names_in_paths_exceptions_and_last_rules_hold_at_both_doors";
    let Some(site) = available(test, site()) else {
        return;
    };
    let user = |dn: &str| {
        let user = site.lab.authority().issue_user(dn).expect("a user");
        user.proxy().expect("a proxy")
    };
    let (ann, bob, stranger) = (user(ANN), user(BOB), user("/O=Crossload test/CN=Stranger"));
    let mut wrong = String::new();
    for (name, of_ann, of_bob, of_stranger) in [
        ("plain/f", "++-", "++-", "++-"),
        // The user's own directory, but not that of a user whose name has this one as prefix.
        ("users/ann/f", "+++", "---", "---"),
        ("users/anna/f", "---", "---", "---"),
        ("users/bob/f", "---", "+++", "---"),
        // The first rule is Bob's last one there.
        ("closed/f", "++-", "+--", "++-"),
        ("closed/vault/f", "---", "+--", "---"),
    ] {
        for (who, user, expected) in [
            ("ann", &ann, of_ann),
            ("bob", &bob, of_bob),
            ("stranger", &stranger, of_stranger),
        ] {
            let (http, root) = (site.by_http(user, name), site.by_root(user, name));
            if http != expected || root != expected {
                wrong.push_str(&format!(
                    "{who} {name}: expected {expected}, http {http}, xroot {root}\n"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "look, read, store\n{wrong}");
}
