//! A site that comes over from XRootD with its `authdb`, its grid-mapfile and its macaroon secret:
//! both servers, given the same files, decide alike.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use conformance::{Endpoint, Lab, last_line, macaroon, run};
use testkit::{Access, Result, XrootdAccess, available};

const AUTHDB: &str = "\
# everybody may look at what is public
u * /data/pub lr
t pool /data/pool/ a-d
u ann /data/ann a pool \\
      /data/in lrwi
# the first path that fits counts, so that the shared part is read only
u bob /data/ann/shared lr /data/ann a /data/box i
u = /data/users/@=/ a
= banned u: eve
x banned /data/pool lr
";
const PLACES: [&str; 9] = [
    "pub",
    "public",
    "ann",
    "ann/shared",
    "pool",
    "in",
    "box",
    "home/ann",
    "other",
];
const USERS: [&str; 3] = ["ann", "bob", "eve"];
const METHODS: [&str; 6] = ["HEAD", "GET", "PUT", "PUT over", "DELETE", "MKCOL"];

fn dn(user: &str) -> String {
    format!("/O=Crossload test/CN={user}")
}

/// A file that XRootD can read, which runs as another user.
fn readable(lab: &Lab, content: &str) -> PathBuf {
    let file = lab.file(content.as_bytes());
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("permissions");
    file
}

struct Pair {
    lab: Lab,
    ours: Endpoint,
    theirs: Endpoint,
    authdb: PathBuf,
}

/// What XRootD was given.
struct Given {
    authdb: PathBuf,
    map: PathBuf,
    /// Its directory, with `xrootd.cfg` and its macaroon secret.
    directory: PathBuf,
}

/// Both servers; ours reads XRootD's own `authdb`.
fn pair() -> Result<Pair> {
    pair_with(AUTHDB, |lab, given| {
        Ok(format!(
            "[users]\nswitch = \"never\"\n[policy]\nauthdb_file = \"{}\"\n[x509]\ntrust_directory = \"{}\"\ngrid_map_file = \"{}\"\n",
            given.authdb.display(),
            lab.authority().trust_directory().display(),
            given.map.display()
        ))
    })
}

/// Both servers. `sections` gives those of ours that say who clients are and what they may do.
fn pair_with(records: &str, sections: impl FnOnce(&Lab, &Given) -> Result<String>) -> Result<Pair> {
    let lab = Lab::new("authdb")?;
    let authdb = readable(&lab, records);
    let lines: Vec<String> = USERS.iter().map(|user| format!("\"{}\" {user}\n", dn(user))).collect();
    let map = readable(&lab, &lines.concat());
    let more = format!("acc.authdb {}\nhttp.gridmap {}\n", authdb.display(), map.display());
    let theirs = lab.xrootd_with("theirs", XrootdAccess::OpenWithMacaroons, &more)?;
    let own = theirs.data().parent().and_then(Path::parent).expect("its directory");
    let given = Given {
        authdb,
        map,
        directory: own.to_owned(),
    };
    let mut options = lab.options("ours");
    options.exports[0].anonymous = Access::None;
    options.more = sections(&lab, &given)?;
    // The secret that the launcher gave to XRootD.
    let secret = given.directory.join("macaroon-secret");
    fs::create_dir_all(&options.directory)?;
    let copy = options.directory.join("macaroon.secret");
    fs::copy(secret, &copy)?;
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o600))?;
    let ours = Endpoint::Crossload(Box::new(lab.crossload(options)?));
    let theirs = Endpoint::Xrootd(Box::new(theirs));
    for server in [&ours, &theirs] {
        for place in PLACES {
            server.make_directory(place);
        }
    }
    Ok(Pair {
        lab,
        ours,
        theirs,
        authdb: given.authdb,
    })
}

/// Sections of a file of ours, each with its comments.
fn sections_of(text: &str, names: &[&str]) -> String {
    let is_named = |section: &&str| section.lines().any(|line| names.contains(&line));
    let found: Vec<&str> = text.split("\n\n").filter(is_named).collect();
    found.join("\n\n") + "\n"
}

/// Whether a request is allowed, and the status that says so.
fn ask(lab: &Lab, server: &Endpoint, method: &str, place: &str, shown: &[String]) -> (bool, u16) {
    let name = format!("{place}/{}", method.replace(' ', "-"));
    let file = server.data().join(&name);
    let _ = fs::remove_file(&file);
    let _ = fs::remove_dir(&file);
    if !matches!(method, "PUT" | "MKCOL") {
        server.put(&name, b"content");
    }
    let body = lab.file(b"other");
    let mut arguments: Vec<String> = match method {
        "HEAD" => vec!["-I".to_owned()],
        "PUT" | "PUT over" => vec!["-T".to_owned(), body.display().to_string()],
        method => vec!["-X".to_owned(), method.to_owned()],
    };
    arguments.extend(shown.iter().cloned());
    arguments.push(server.url(&name));
    let status = lab.curl(&arguments).status;
    ((200..300).contains(&status), status)
}

/// Clients with what they show: none, and each user a certificate.
fn people(lab: &Lab) -> Vec<(&'static str, Vec<String>)> {
    let own = lab.scratch().create("users").expect("a directory");
    let certificate = |user: &str| {
        let issued = lab.authority().issue_user(&dn(user)).expect("a user");
        let (certificate, key) = issued.write_pair(&own, user).expect("files");
        let flag = |name: &str, file: PathBuf| [name.to_owned(), file.display().to_string()];
        [flag("--cert", certificate), flag("--key", key)].concat()
    };
    let mut people = vec![("nobody", Vec::new())];
    people.extend(USERS.map(|user| (user, certificate(user))));
    people
}

#[test]
fn an_authdb_means_the_same_here_as_at_xrootd() {
    let test = "an_authdb_means_the_same_here_as_at_xrootd";
    let Some(pair) = available(test, pair()) else {
        return;
    };
    let people = people(&pair.lab);
    let (mut differs, mut allowed) = (Vec::new(), 0);
    for (who, shown) in &people {
        for place in PLACES {
            for method in METHODS {
                let (ours, our_status) = ask(&pair.lab, &pair.ours, method, place, shown);
                let (theirs, their_status) = ask(&pair.lab, &pair.theirs, method, place, shown);
                allowed += usize::from(ours);
                assert!(
                    ours || matches!(our_status, 401 | 403),
                    "{who} {method} {place}: {our_status}"
                );
                // Here any right on a file includes looking at it.
                let may_look = method == "HEAD" && ours && *who == "bob" && place == "box";
                // XRootD looks at compound records only for people with attributes of VOMS; here
                // they hold.
                if ours != theirs && !may_look && *who != "eve" {
                    differs.push(format!(
                        "{who} {method} {place}: {our_status} here, {their_status} at XRootD"
                    ));
                }
            }
        }
    }
    assert!(differs.is_empty(), "{}", differs.join("\n"));
    assert!(allowed > 40, "something is allowed: {allowed}");
    let eve = people.last().map(|(_, shown)| shown.clone()).unwrap_or_default();
    assert!(
        ask(&pair.lab, &pair.ours, "GET", "pool", &eve).0,
        "her own record holds"
    );
    assert!(!ask(&pair.lab, &pair.ours, "GET", "pub", &eve).0, "and no other");
}

#[test]
fn the_migrated_configuration_of_an_xrootd_decides_as_it_did() {
    let test = "the_migrated_configuration_of_an_xrootd_decides_as_it_did";
    // The last records can be no rules: they give nothing here, and the last one takes.
    let records = format!("{AUTHDB}g staff /data/other lr\nh .example.org /data/other/ r-w\n");
    let pair = pair_with(&records, |lab, given| {
        let output = lab.fresh("migrated");
        let mut command = lab.client(["migrate", "xrootd", "--host", "localhost"])?;
        let command = command
            .arg(given.directory.join("xrootd.cfg"))
            .arg("--output")
            .arg(&output);
        let told = run(command).failed_with(1);
        assert!(
            told.stderr.contains(":11: g staff /data/other lr: no equivalent"),
            "{}",
            told.stderr
        );
        let file = output.join("crossload.toml");
        run(lab.client(["config", "check"])?.arg(&file)).succeeded();
        let again = run(command).failed_with(17);
        assert!(
            again.stderr.contains("exists, and nothing was written"),
            "{}",
            again.stderr
        );
        let forced = run(command.args(["--force", "--json"])).failed_with(1);
        let json: serde_json::Value = serde_json::from_str(&forced.text()).expect("JSON");
        assert_eq!(json["files"][0]["name"], "crossload.toml", "{json}");
        assert_eq!(json["counts"]["unknown"], 0, "{json}");
        let text = fs::read_to_string(&file)?;
        Ok(sections_of(&text, &["[[rule]]", "[users]", "[x509]"]))
    });
    let Some(pair) = available(test, pair) else {
        return;
    };
    let (mut differs, mut allowed, mut refused) = (Vec::new(), 0, 0);
    // Eve has a compound record, which XRootD looks at only for people with attributes of VOMS.
    for (who, shown) in people(&pair.lab).iter().filter(|(who, _)| *who != "eve") {
        for place in PLACES {
            for method in ["GET", "PUT"] {
                let (ours, our_status) = ask(&pair.lab, &pair.ours, method, place, shown);
                let (theirs, their_status) = ask(&pair.lab, &pair.theirs, method, place, shown);
                match ours {
                    true => allowed += 1,
                    false => refused += 1,
                }
                if ours != theirs {
                    differs.push(format!(
                        "{who} {method} {place}: {our_status} here, {their_status} at XRootD"
                    ));
                }
            }
        }
    }
    assert!(differs.is_empty(), "{}", differs.join("\n"));
    assert!(allowed > 10 && refused > 10, "{allowed} allowed, {refused} refused");
}

#[test]
fn an_authdb_is_printed_as_rules_that_can_be_used_and_faults_have_their_lines() {
    let test = "an_authdb_is_printed_as_rules_that_can_be_used_and_faults_have_their_lines";
    let Some(lab) = available(test, Lab::new("authdb")) else {
        return;
    };
    let file = readable(&lab, AUTHDB);
    let import = |file: &Path| {
        let mut command = lab.client(["config", "import-authdb"]).expect("the program");
        run(command.arg(file))
    };
    let printed = import(&file).succeeded().text();
    let whole = readable(&lab, &printed);
    let check = run(lab.client(["config", "check"]).expect("the program").arg(&whole));
    check.succeeded();
    let broken = readable(&lab, "u * /data lr\nh .example.org /data a\n");
    let fault = import(&broken).failed_with(22);
    assert!(
        fault.stderr.contains(&format!("{}:2: ", broken.display())),
        "{}",
        fault.stderr
    );
}

#[test]
fn a_macaroon_of_either_server_is_good_at_the_other() {
    let test = "a_macaroon_of_either_server_is_good_at_the_other";
    let Some(pair) = available(test, pair()) else {
        return;
    };
    assert!(pair.authdb.is_file());
    let servers = [("ours", &pair.ours), ("XRootD's", &pair.theirs)];
    for (whose, issuer) in servers {
        let text = macaroon(&pair.lab, &issuer.url("pub/f"), &["activity:DOWNLOAD"], &[]);
        let header = format!("Authorization: Bearer {text}");
        for (at, server) in servers {
            server.put("pub/f", b"content");
            server.put("ann/f", b"content");
            let read = pair.lab.request("GET", &server.url("pub/f"), &[&header]);
            assert_eq!(read.status, 200, "{whose} at {at}: {}", last_line(&read));
            let other = pair.lab.request("GET", &server.url("ann/f"), &[&header]).status;
            assert!(matches!(other, 401 | 403), "{whose} at {at}: {other}");
        }
        // One bit of the signature is wrong.
        let broken = format!("{}AAAAAAAA", &text[..text.len() - 8]);
        let header = format!("Authorization: Bearer {broken}");
        let refused = pair.lab.request("GET", &pair.ours.url("pub/f"), &[&header]);
        assert_eq!(refused.status, 401, "{}", last_line(&refused));
    }
}
