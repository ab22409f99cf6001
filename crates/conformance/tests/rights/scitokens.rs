//! The same tokens at our server and at Debian's XRootD with its SciTokens plug-in (libscitokens
//! 0.7), for the same file and from the same `scitokens.cfg`. Where the two differ the table says
//! so; each difference is one that we want.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use conformance::{Endpoint, Lab, run};
use testkit::{Access, Error, Result, TokenIssuer, XrootdAccess, available, require};

const PLUGIN: &str = "libXrdAccSciTokens-5.so";
const AUDIENCE: &str = "https://storage.example";

struct Pair {
    lab: Lab,
    issuer: TokenIssuer,
    ours: Endpoint,
    theirs: Endpoint,
}

fn has_plugin() -> Result<()> {
    let places = [
        "/usr/lib",
        "/usr/lib64",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
    ];
    let found = places.iter().any(|place| Path::new(place).join(PLUGIN).exists());
    let missing = || Error::Missing(format!("{PLUGIN} of Debian's xrootd-scitokens-plugins"));
    found.then_some(()).ok_or_else(missing)
}

fn open_to_all(path: &Path) -> Result<()> {
    let mode = if path.is_dir() { 0o777 } else { 0o666 };
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}

/// Puts the issuer's keys where libscitokens keeps those that it has fetched, since it trusts no
/// authority of ours.
fn keep_keys(lab: &Lab, cache: &Path, issuer: &TokenIssuer) -> Result<()> {
    let directory = cache.join("scitokens");
    fs::create_dir_all(&directory)?;
    let keys = lab.file(issuer.jwks().as_bytes());
    let script = "import json, sqlite3, sys, time\n\
        keys = {'jwks': json.load(open(sys.argv[2])), 'next_update': int(time.time()) + 3000, 'expires': int(time.time()) + 9000}\n\
        file = sqlite3.connect(sys.argv[1])\n\
        file.execute('CREATE TABLE keycache (issuer text UNIQUE PRIMARY KEY NOT NULL, keys text NOT NULL)')\n\
        file.execute('INSERT INTO keycache VALUES (?, ?)', (sys.argv[3], json.dumps(keys)))\n\
        file.commit()\n";
    let file = directory.join("scitokens_cpp.sqllite");
    let mut command = Command::new("python3");
    command.args(["-c", script]).arg(&file).arg(keys).arg(issuer.url());
    run(&command).succeeded();
    for path in [cache, &directory, &file] {
        open_to_all(path)?;
    }
    Ok(())
}

fn pair() -> Result<Pair> {
    for program in ["curl", "python3"] {
        require(program)?;
    }
    has_plugin()?;
    let lab = Lab::new("scitokens")?;
    let issuer = TokenIssuer::start(lab.authority())?;
    let config = lab.file(
        format!(
            "[Global]\naudience = {AUDIENCE}\n[Issuer test]\nissuer = {}\nbase_path = /data\n",
            issuer.url()
        )
        .as_bytes(),
    );
    let authdb = lab.file(b"u nobody-in-particular /data a\n");
    let more = format!(
        "ofs.authorize 1\nacc.authdb {}\nofs.authlib libXrdAccSciTokens.so config={}\n",
        authdb.display(),
        config.display()
    );
    let theirs = lab.xrootd_with("theirs", XrootdAccess::Open, &more)?;
    let own = theirs.data().parent().and_then(Path::parent).expect("its directory");
    keep_keys(&lab, &own.join("cache"), &issuer)?;
    let mut options = lab.options("ours");
    options.exports[0].anonymous = Access::None;
    options.more = format!("[tokens]\nscitokens_file = \"{}\"\n", config.display());
    let ours = Endpoint::Crossload(Box::new(lab.crossload(options)?));
    let theirs = Endpoint::Xrootd(Box::new(theirs));
    for server in [&ours, &theirs] {
        server.make_directory("dir");
        server.make_directory("dirt");
    }
    Ok(Pair {
        lab,
        issuer,
        ours,
        theirs,
    })
}

impl Pair {
    /// Asks for a file, or stores one under a new name, in `dir`.
    fn ask(&self, server: &Endpoint, method: &str, scheme: &str, token: &str) -> u16 {
        let header = format!("Authorization: {scheme} {token}");
        let _ = fs::remove_file(server.data().join("dir/new"));
        match method {
            "PUT" => self.lab.upload(&server.url("dir/new"), b"new", &[&header]).status,
            _ => {
                server.put("dir/f", b"content");
                self.lab.request(method, &server.url("dir/f"), &[&header]).status
            }
        }
    }
}

#[test]
fn both_servers_read_tokens_alike_but_where_we_want_it() {
    let test = "both_servers_read_tokens_alike_but_where_we_want_it";
    let Some(pair) = available(test, pair()) else {
        return;
    };
    let token = |scopes: &str| pair.issuer.token().audience(AUDIENCE).scope(scopes);
    let reads = || token("storage.read:/dir");
    // What it is, method, scheme, token, our status, theirs.
    let table = [
        ("good", "GET", "Bearer", reads().mint(), 200, 200),
        (
            "good, to write",
            "PUT",
            "Bearer",
            token("storage.create:/dir").mint(),
            201,
            200,
        ),
        ("reading is not writing", "PUT", "Bearer", reads().mint(), 403, 403),
        (
            "writing is not reading",
            "GET",
            "Bearer",
            token("storage.modify:/dir").mint(),
            403,
            403,
        ),
        (
            "creating is not deleting",
            "DELETE",
            "Bearer",
            token("storage.create:/dir").mint(),
            403,
            403,
        ),
        (
            "another path",
            "GET",
            "Bearer",
            token("storage.read:/other").mint(),
            403,
            403,
        ),
        (
            "no path of its own",
            "GET",
            "Bearer",
            token("storage.read:/dir/g").mint(),
            403,
            403,
        ),
        // A token that is not valid is 401 here (RFC 6750 §3.1); there it counts as none.
        ("expired", "GET", "Bearer", reads().lifetime_s(-100).mint(), 401, 403),
        (
            "another audience",
            "GET",
            "Bearer",
            reads().audience("https://else.example").mint(),
            401,
            403,
        ),
        ("no audience", "GET", "Bearer", reads().without("aud").mint(), 401, 403),
        (
            "no scheme of signing",
            "GET",
            "Bearer",
            reads().algorithm(testkit::TokenAlgorithm::None).mint(),
            401,
            403,
        ),
        // A path ends at a slash: /di does not hold /dir.
        (
            "prefix without boundary",
            "GET",
            "Bearer",
            token("storage.read:/di").mint(),
            403,
            200,
        ),
        // What could mean two things is refused, where they take the one meaning.
        (
            "two dots",
            "GET",
            "Bearer",
            token("storage.read:/dirt/../dir").mint(),
            401,
            200,
        ),
        // The path is a must (WLCG profile §2.2.1); for them it is the root.
        ("no path", "GET", "Bearer", token("storage.read").mint(), 401, 200),
        // Any 1.x is 1.x.
        (
            "version 1.3",
            "GET",
            "Bearer",
            reads().claim("wlcg.ver", "1.3").mint(),
            200,
            403,
        ),
        // The case of the scheme does not matter (RFC 9110 §11.1).
        ("bearer in lower case", "GET", "bearer", reads().mint(), 200, 403),
    ];
    let mut wrong = String::new();
    for (name, method, scheme, token, of_ours, of_theirs) in &table {
        let ours = pair.ask(&pair.ours, method, scheme, token);
        let theirs = pair.ask(&pair.theirs, method, scheme, token);
        if (ours, theirs) != (*of_ours, *of_theirs) {
            wrong.push_str(&format!(
                "{name}: ours {ours}, not {of_ours}; theirs {theirs}, not {of_theirs}\n"
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
