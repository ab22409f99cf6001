//! Named remotes of our client: places, credentials and authorities by name; and the credentials
//! that it finds.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use conformance::{Endpoint, Lab, Run, json_lines, run};
use serde_json::json;
use testkit::{Access, IssuerMode, PUBLIC_CLIENT, ProxyOptions, Result, TokenIssuer, User, available};

/// Two servers that take tokens of one issuer, each only those that are for it.
struct Site {
    lab: Lab,
    issuer: TokenIssuer,
    first: Endpoint,
    second: Endpoint,
}

impl Site {
    fn start(name: &str) -> Result<Self> {
        let lab = Lab::new(name)?;
        let issuer = TokenIssuer::start(lab.authority())?;
        let guarded = |name: &str| {
            let mut options = lab.options(name);
            options.exports[0].anonymous = Access::None;
            options.more = format!(
                "[xroot]\nauthentication = [\"token\"]\n[[issuer]]\nurl = \"{}\"\nbase_paths = [\"/data\"]\n",
                issuer.url()
            );
            Ok::<_, testkit::Error>(Endpoint::Crossload(Box::new(lab.crossload(options)?)))
        };
        let (first, second) = (guarded("first")?, guarded("second")?);
        Ok(Self {
            lab,
            issuer,
            first,
            second,
        })
    }

    /// A file with a token that only this server takes.
    fn token_for(&self, server: &Endpoint) -> String {
        let token = self
            .issuer
            .token()
            .audience(&format!("https://localhost:{}", server.port()));
        let token = token.scope("storage.read:/ storage.modify:/ storage.create:/").mint();
        testkit::secrets::note("the token of a remote", &token);
        shown(&self.lab.file(token.as_bytes()))
    }

    fn run(&self, config: &Path, arguments: &[&str]) -> Run {
        self.run_without(&[], config, arguments)
    }

    fn run_without(&self, variables: &[&str], config: &Path, arguments: &[&str]) -> Run {
        let mut command = self.lab.client(arguments).expect("the client is built");
        command.env("XDG_CONFIG_HOME", config);
        for variable in variables {
            command.env_remove(variable);
        }
        run(&command)
    }
}

fn shown(path: &Path) -> String {
    path.to_str().expect("plain").to_owned()
}

#[test]
fn each_remote_has_its_place_and_its_credential() {
    let Some(site) = available("each_remote_has_its_place_and_its_credential", Site::start("remotes")) else {
        return;
    };
    let config: PathBuf = site.lab.fresh("config");
    let run = |arguments: &[&str]| site.run(&config, arguments);
    let authority = shown(&site.lab.authority().ca_file());
    for (name, server) in [("one", &site.first), ("two", &site.second)] {
        let (url, token) = (server.davs(""), site.token_for(server));
        run(&[
            "config",
            "remote",
            "add",
            name,
            &url,
            "--token-file",
            &token,
            "--cacert",
            &authority,
        ])
        .succeeded();
    }
    let listed = run(&["config", "remote", "list", "--json"]).succeeded();
    let names: Vec<_> = json_lines(&listed).iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["one", "two"]);

    // Their own authorities are all that the client has here.
    let bare = |arguments: &[&str]| site.run_without(&["X509_CERT_DIR"], &config, arguments);
    let file = shown(&site.lab.file(b"content"));
    bare(&["copy", &file, "one:set/f", "-p"]).succeeded();
    bare(&["copy", "one:set/f", "two:g"]).succeeded();
    assert_eq!(site.second.stored("g").as_deref(), Some(&b"content"[..]));
    assert_eq!(bare(&["cat", "two:g"]).succeeded().text(), "content");
    let found = bare(&["find", "--type", "f", "one:"]).succeeded().text();
    assert_eq!(found, "one:set/f\n");
    bare(&["sync", "one:", "two:"]).succeeded();
    assert_eq!(site.second.stored("set/f").as_deref(), Some(&b"content"[..]));

    // A URL does not get the credential of a remote, and that of an option goes everywhere.
    run(&["cat", &site.first.davs("set/f")]).failed_with(13);
    let other = site.token_for(&site.second);
    let refused = run(&["cat", "one:set/f", "--token-file", &other]).failed_with(13);
    assert!(refused.stderr.contains(&other), "{}", refused.said());

    let job = run(&["queue", "submit", "--dry-run", "one:set/f", "two:f"]).succeeded();
    let files = &json_lines(&job)[0]["files"][0];
    let url = |server: &Endpoint, name: &str| serde_json::json!([server.davs(name)]);
    assert_eq!(files["sources"], url(&site.first, "set/f"), "{}", job.said());
    assert_eq!(files["destinations"], url(&site.second, "f"), "{}", job.said());
    // It has the remote's credential, without which nothing is allowed.
    let explained = bare(&["explain", "--url", "one:set/f", "--op", "read"]).succeeded();
    assert!(explained.text().contains("read"), "{}", explained.said());

    run(&["config", "remote", "remove", "one"]).succeeded();
    let unknown = run(&["ls", "one:"]).failed_with(22);
    assert!(unknown.stderr.contains("there are two in"), "{}", unknown.said());
    let here = site.lab.scratch().path().join("one:here");
    std::fs::write(&here, "local").expect("a file");
    for name in ["one:here", "./one:here"] {
        assert_eq!(run(&["cat", name]).succeeded().text(), "local");
    }

    let file = config.join("crossload/client.toml");
    std::fs::write(&file, "[[remote]]\nname = \"a\"\nurl = \"https://a\"\ntoken = \"x\"\n").expect("a file");
    let invalid = run(&["ls", "a:"]).failed_with(22);
    assert!(
        invalid.stderr.contains("client.toml:4: unknown key \"token\"") && !invalid.stderr.contains("URL"),
        "{}",
        invalid.said()
    );
}

#[test]
fn the_proxy_in_use_is_shown() {
    let Some(lab) = available("the_proxy_in_use_is_shown", Lab::new("proxy-info")) else {
        return;
    };
    let user = lab.authority().issue_user("/O=Crossload test/CN=john").expect("a user");
    let voms = lab.authority().issue_voms_server("testvo").expect("a VOMS server");
    let attributes = voms
        .attributes(&user, &["/testvo/Role=production"])
        .expect("attributes");
    let write = |proxy: Result<User>| {
        let written = proxy.and_then(|proxy| proxy.write_proxy(&lab.fresh("proxy")));
        written.expect("a file for the proxy")
    };
    let client = |arguments: &[&str], proxy: Option<&Path>| {
        let mut command = lab
            .client([&["proxy", "info"], arguments].concat())
            .expect("the client is built");
        command.env("X509_USER_PROXY", proxy.unwrap_or(Path::new("/nonexistent/proxy")));
        run(&command)
    };
    let proxy = write(user.voms_proxy(vec![attributes]));
    let found = json_lines(&client(&["--json", "--valid", "11h"], Some(&proxy)).succeeded()).remove(0);
    assert_eq!(
        (&found["kind"], &found["found_by"]),
        (&"proxy".into(), &"X509_USER_PROXY".into())
    );
    assert_eq!(found["identity"], "/O=Crossload test/CN=john");
    assert_eq!(found["issuer"], found["identity"]);
    assert!(
        found["subject"]
            .as_str()
            .expect("text")
            .starts_with("/O=Crossload test/CN=john/CN=")
    );
    let vo = &found["organisations"][0];
    assert_eq!(
        (&vo["name"], &vo["attributes"][0]),
        (&"testvo".into(), &"/testvo/Role=production".into())
    );
    let text = client(&[], Some(&proxy)).succeeded().text();
    assert!(text.contains("VO         testvo, ") && text.contains(" h "), "{text}");
    client(&["--valid", "2d"], Some(&proxy)).failed_with(1);

    let ended = ProxyOptions {
        ends_s: -60,
        ..ProxyOptions::default()
    };
    let ended = write(user.proxy_with(&ended));
    let told = client(&[], Some(&ended)).failed_with(1);
    assert!(told.text().contains(", expired"), "{}", told.said());
    let missing = client(&[], None).failed_with(13);
    assert!(missing.stderr.contains("/nonexistent/proxy"), "{}", missing.said());
}

#[test]
fn remotes_of_rclone_are_taken() {
    let Some(lab) = available("remotes_of_rclone_are_taken", Lab::new("rclone-import")) else {
        return;
    };
    let Some(mut rclone) = available("remotes_of_rclone_are_taken", lab.command("rclone")) else {
        return;
    };
    let obscured = run(rclone.args(["obscure", "hunter2"])).succeeded().text();
    let text = format!(
        "[dav]\ntype = webdav\nurl = https://localhost/x\nuser = me\npass = {obscured}\nheaders = A,b\n\
         [drive]\ntype = drive\n"
    );
    let (theirs, config) = (lab.file(text.as_bytes()), lab.fresh("config"));
    let client = |arguments: &[&str]| {
        let mut command = lab.client(arguments).expect("the client is built");
        command.env("XDG_CONFIG_HOME", &config);
        run(&command)
    };
    let import = ["config", "import", "rclone", &shown(&theirs)];
    let told = client(&[&import[..], &["--dry-run"]].concat()).failed_with(1);
    assert!(
        told.text().contains("dav: taken, https://localhost/x; without headers"),
        "{}",
        told.said()
    );
    assert!(
        told.text().contains("drive: left out; there is no client"),
        "{}",
        told.said()
    );
    assert!(!config.exists(), "nothing is written");
    client(&import).failed_with(1);
    let password = config.join("crossload/secrets/dav.password");
    assert_eq!(std::fs::read_to_string(&password).expect("a file"), "hunter2\n");
    let mode = std::fs::metadata(&password).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let shown = client(&["config", "remote", "show", "dav"]).succeeded().text();
    assert!(shown.contains("user = \"me\"") && !shown.contains("hunter2"), "{shown}");
    client(&["config", "remote", "remove", "dav"]).succeeded();
    assert!(!password.exists(), "its secret goes with it");
}

#[test]
fn a_login_lasts_by_refresh_tokens_that_are_good_once() {
    let Some(site) = available(
        "a_login_lasts_by_refresh_tokens_that_are_good_once",
        Site::start("login"),
    ) else {
        return;
    };
    let config = site.lab.fresh("config");
    let run = |arguments: &[&str]| site.run(&config, arguments);
    let (url, issuer) = (site.first.davs(""), site.issuer.url());
    run(&["config", "remote", "add", "one", &url, "--issuer", &issuer]).succeeded();
    let none = run(&["ls", "one:"]).failed_with(13);
    assert!(none.stderr.contains("crossload login"), "{}", none.said());
    run(&["login", "one"]).failed_with(22);
    let away = run(&["login", "https://localhost:1", "--client-id", "x"]).failed_with(13);
    assert!(!away.stderr.contains("credential sent"), "{}", away.said());

    // Each command renews a token that lasts less than a minute.
    site.issuer.set_life_s(30);
    let audience = format!("https://localhost:{}", site.first.port());
    let login = [
        "login",
        "one",
        "--client-id",
        PUBLIC_CLIENT,
        "--audience",
        &audience,
        "--json",
    ];
    let scopes = ["--scope", "storage.read:/", "--scope", "storage.create:/"];
    let told = json_lines(&run(&[&login[..], &scopes].concat()).succeeded());
    assert_eq!(told[0]["user_code"], "ABCD-EFGH");
    assert_eq!(
        (&told[1]["event"], &told[1]["renewed"]),
        (&"login".into(), &true.into())
    );
    let file = shown(&site.lab.file(b"content"));
    run(&["copy", &file, "one:f"]).succeeded();
    assert_eq!(run(&["cat", "one:f"]).succeeded().text(), "content");
    let grants = site.issuer.grants();
    assert_eq!((grants.agreed, grants.refused), (1, 0), "{grants:?}");
    assert!(grants.refreshed >= 2, "{grants:?}");

    // Without its issuer, a token that still lasts is used.
    site.issuer.set_life_s(3600);
    run(&["cat", "one:f"]).succeeded();
    site.issuer.set_mode(IssuerMode::Dead);
    run(&["cat", "one:f"]).succeeded();
    let kept = std::fs::read_dir(config.join("crossload/logins")).expect("a directory");
    for entry in kept.map(|entry| entry.expect("an entry")) {
        let mode = entry.metadata().expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{entry:?}");
    }
    let out = run(&["logout", "one"]).succeeded();
    assert!(out.stderr.contains("was not revoked"), "{}", out.said());
    run(&["cat", "one:f"]).failed_with(13);
    run(&["logout", "one"]).failed_with(22);

    site.issuer.set_mode(IssuerMode::Well);
    run(&login).succeeded();
    let out = run(&["logout", "one"]).succeeded();
    assert!(!out.said().contains("revoked"), "{}", out.said());
    assert_eq!(site.issuer.grants().revoked, 1);
}

/// An issuer that is slow or lies cannot give orders to a terminal, nor leave a login behind that
/// nothing can use.
#[test]
fn a_hostile_issuer_gives_no_login() {
    let Some(site) = available("a_hostile_issuer_gives_no_login", Site::start("hostile")) else {
        return;
    };
    let config = site.lab.fresh("config");
    let issuer = site.issuer.url();
    let login = |more: &[&str]| {
        let arguments = ["login", issuer.as_str(), "--client-id", PUBLIC_CLIENT];
        site.run(&config, &[&arguments, more].concat())
    };
    let answers = [
        json!({"device_code": "c", "user_code": "A\n\u{1b}[2Jlogged in at", "verification_uri": "https://p\r\n",
            "interval": u64::MAX, "expires_in": 1}),
        json!({"device_code": "c", "user_code": "A", "verification_uri": "https://p", "interval": 1, "expires_in": 600,
            "access_token": "a\r\nX-Other: b"}),
        json!({"device_code": "c", "user_code": "A", "verification_uri": "https://p", "interval": 1, "expires_in": 600,
            "access_token": "a".repeat(100_000)}),
        json!({"device_code": "c", "user_code": "A", "verification_uri": "https://p", "expires_in": -1}),
        json!({"device_code": ["c"], "user_code": 1}),
        json!("nonsense"),
    ];
    for answer in answers {
        site.issuer.set_answer(Some(answer.clone()));
        let told = login(&["--timeout", "8"]);
        assert!(told.code.is_some_and(|code| code != 0), "{answer}: {}", told.said());
        let said = told.said();
        assert!(
            !said.contains('\u{1b}') && !said.contains("\nlogged in at"),
            "{answer}: {said}"
        );
    }
    site.issuer.set_answer(None);
    site.issuer.set_mode(IssuerMode::Hang);
    login(&["--timeout", "1"]).failed_with(110);
    site.issuer.set_mode(IssuerMode::Well);
    let kept = || {
        let entries = std::fs::read_dir(config.join("crossload/logins")).into_iter().flatten();
        let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("plain"));
        names.filter(|name| name != "lock").collect::<Vec<_>>()
    };
    assert!(kept().is_empty(), "{:?}", kept());
    // Two at once keep one login, and nothing else.
    std::thread::scope(|scope| {
        let both: Vec<_> = (0..2).map(|_| scope.spawn(|| login(&[]))).collect();
        for one in both {
            one.join().expect("it ends").succeeded();
        }
    });
    assert_eq!(kept().len(), 1, "{:?}", kept());
    site.run(&config, &["logout", &issuer]).succeeded();
    assert!(kept().is_empty(), "{:?}", kept());
}
