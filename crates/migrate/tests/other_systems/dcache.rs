//! dCache.

use std::path::Path;
use std::time::Duration;

use config::{ClientCertificates, Counts, Switch, XrootTls};
use credentials::Credential;
use credentials::x509::Revocation;
use migrate::{DocumentKind, InMemory, Outcome, System};

use crate::{Site, certificate, reading_token, site, site_of, token};

fn dcache(files: &[&str]) -> Site {
    site(System::Dcache, DocumentKind::Endpoint, files)
}

#[test]
fn a_site_with_voms_keeps_its_users_and_paths() {
    let site = dcache(&["dcache-grid/door1.conf"]);
    let configuration = &site.configuration;
    let listen: Vec<String> = configuration.server.listen.iter().map(ToString::to_string).collect();
    assert_eq!(listen, ["[::]:443", "[::]:1094"]);
    assert_eq!(
        configuration.server.certificate.as_deref(),
        Some(Path::new("/etc/grid-security/hostcert.pem"))
    );
    assert_eq!(configuration.users.switch, Switch::Required);
    let limits = &configuration.limits;
    assert_eq!((limits.transfers, limits.marker_period), (300, Duration::from_secs(10)));
    for key in ["dcache.pid.dir", "webdav.cell.name"] {
        assert_eq!(site.remark(key).0, Outcome::NotNeeded, "{key}");
    }
    assert_eq!(
        configuration.x509.voms_map_file.as_deref(),
        Some(Path::new("/etc/grid-security/grid-vorolemap"))
    );
    let production = certificate("/CN=p", &["/atlas/Role=production"], Some("atlasprod"));
    assert!(site.writes(&production, "/atlas/f") && !site.reads(&production, "/cms/f"));
    assert_eq!(site.reader(&production, "/atlas/f").as_deref(), Some("5001:5000"));
    let user = certificate("/CN=u", &["/atlas"], Some("atlasuser"));
    assert!(site.reads(&user, "/atlas/f") && !site.writes(&user, "/atlas/f") && !site.deletes(&user, "/atlas/f"));
    let cms = certificate("/CN=c", &["/cms"], Some("cmsuser"));
    assert!(site.writes(&cms, "/cms/f") && !site.reads(&cms, "/atlas/f"));
    assert_eq!(site.remark("authorize cmsuser").0, Outcome::TakenOver);
    let robot = certificate("/DC=org/DC=example/CN=Robot 1", &["/cms/Role=robot"], Some("cmsrobot"));
    assert!(site.writes(&robot, "/atlas/f"), "its root is / in dCache, too");
    // No account, a ban in ban.conf, and one in the map.
    let ops = certificate("/CN=o", &["/ops"], Some("opsuser"));
    assert!(!site.reads(&ops, "/atlas/f"));
    for dn in ["/DC=org/DC=example/CN=Caught", "/DC=org/DC=example/CN=Left Long Ago"] {
        assert!(
            !site.reads(&certificate(dn, &["/atlas"], Some("atlasuser")), "/atlas/f"),
            "{dn}"
        );
    }
    assert!(!site.reads(&Credential::Anonymous, "/atlas/f"));
    assert!(
        site.remark("/ops").1.contains("no user and group ID"),
        "{}",
        site.remark("/ops").1
    );
    assert!(
        site.remark("/cms\" cmsuser")
            .1
            .contains("these clients saw /pnfs/example.org/data/cms as /")
    );
    assert!(
        site.text.contains("# from ") && site.text.contains("grid-vorolemap:2"),
        "{}",
        site.text
    );
}

#[test]
fn tokens_keep_their_directories() {
    let site = dcache(&["dcache-tokens"]);
    let configuration = &site.configuration;
    let audiences = &configuration.tokens.audiences;
    assert_eq!(*audiences, ["https://dav.example.org", "roots://dav.example.org:1094"]);
    let issuer = |url: &str| configuration.issuers.iter().find(|issuer| issuer.url == url).unwrap();
    assert_eq!(issuer("https://iam.lab.example/").base_paths[0].as_str(), "/lab");
    assert!(
        issuer("https://iam.lab.example/")
            .strategy
            .contains(&Counts::Capability)
    );
    // One has no scopes, and the line of the other names no group ID, so dCache refuses the login.
    for url in ["https://login.example.org/realms/x", "https://iam.shared.example/"] {
        assert!(
            issuer(url).strategy.iter().all(|counts| *counts != Counts::Capability),
            "{url}"
        );
    }
    let lab = reading_token("https://iam.lab.example/", "/lab");
    assert_eq!(site.reader(&lab, "/lab/f").as_deref(), Some("3000:3000"));
    let paths: Vec<&str> = configuration
        .exports
        .iter()
        .map(|export| export.path.as_str())
        .collect();
    assert_eq!(paths, ["/lab", "/people"], "both doors show these");
    let login = "https://login.example.org/realms/x";
    assert_eq!(
        site.reader(&token(login, "5ba9-2d", &[]), "/people/ann/f").as_deref(),
        Some("1001:1000")
    );
    assert!(!site.reads(&token(login, "other", &[]), "/people/ann/f"));
    assert!(
        !site.reads(&token("https://iam.lab.example/", "77-1", &["/lab/writers"]), "/lab/f"),
        "banned"
    );
    assert!(site.reads(&token("https://iam.lab.example/", "77-2", &["/lab/writers"]), "/lab/f"));
    let ann = certificate("/DC=org/DC=example/CN=Ann Example", &[], None);
    assert_eq!(site.reader(&ann, "/people/ann/f").as_deref(), Some("1001:1000"));
    assert!(!site.reads(&ann, "/people/bob/f"), "her prefix");
    assert!(!site.writes(&ann, "/people/ann/f"), "DEFAULT is read only");
    let guest = certificate("/DC=org/DC=example/CN=Guest", &[], None);
    assert!(!site.reads(&guest, "/people/f"));
    assert_eq!(site.remark("email:ann@").0, Outcome::NoEquivalent);
    assert_eq!(site.remark("-suppress=audience").0, Outcome::InPart);
    assert_eq!(site.remark("pnfsmanager.enable.acl").0, Outcome::NoEquivalent);
    assert!(!site.text.contains("do-not-show-me"));
    assert!(!crate::all_remarks(&site.migration).contains("do-not-show-me"));
    let macaroons = &configuration.macaroons;
    assert_eq!(macaroons.default_lifetime, macaroons.maximum_lifetime);
}

#[test]
fn a_ban_that_no_rule_can_say_closes_the_server_for_who_may_be_banned() {
    let files = InMemory::default()
        .with(
            "/d/l.conf",
            "[c/gplazma]\ngplazma.oidc.provider!a = https://a.example/\n[c/webdav]\n",
        )
        .with(
            "/d/gplazma.conf",
            "auth optional x509\nauth optional oidc\nmap optional multimap\naccount requisite banfile\n",
        )
        .with(
            "/d/multi-mapfile",
            "op:a uid:1000 gid:1000,true\ndn:/CN=x uid:1001 gid:1000,true\n",
        )
        .with("/d/ban.conf", "ban email:gone@example.org\n");
    let read = |files: &InMemory| site_of(System::Dcache, DocumentKind::Endpoint, files, &["/d/l.conf"]);
    let closed = read(&files);
    let (token, holder) = (token("https://a.example/", "s", &[]), certificate("/CN=x", &[], None));
    assert!(
        !closed.reads(&token, "/f") && closed.reads(&holder, "/f"),
        "{}",
        closed.text
    );
    assert!(
        closed.text.contains("# CLOSED: this ban cannot be written as a rule"),
        "{}",
        closed.text
    );
    let open = read(&files.clone().with("/d/ban.conf", ""));
    assert!(open.reads(&token, "/f") && open.writes(&holder, "/f"), "{}", open.text);
    // Without the file with bans, everyone may be banned.
    let mut missing = files;
    missing.0.remove(Path::new("/d/ban.conf"));
    assert!(!read(&missing).reads(&holder, "/f"));
}

#[test]
fn a_banned_user_is_banned_by_every_name_that_leads_there() {
    let files = InMemory::default()
        .with("/d/l.conf", "[c/gplazma]\n[c/webdav]\nwebdav.authn.protocol=https\n")
        .with(
            "/d/gplazma.conf",
            "auth optional x509\nmap optional multimap\naccount requisite banfile\n",
        )
        .with(
            "/d/multi-mapfile",
            "dn:/CN=one username:ann\ndn:/CN=two username:bob\n\
            username:ann uid:1001 gid:100,true\nusername:bob uid:1002 gid:101,true\n",
        )
        .with("/d/ban.conf", "ban username:ann\n");
    let read = |files: &InMemory| site_of(System::Dcache, DocumentKind::Endpoint, files, &["/d/l.conf"]);
    let (one, two) = (certificate("/CN=one", &[], None), certificate("/CN=two", &[], None));
    let site = read(&files);
    assert!(!site.reads(&one, "/f") && site.reads(&two, "/f"), "{}", site.text);
    let by_group = read(&files.with("/d/ban.conf", "ban gid:101\n"));
    assert!(
        by_group.reads(&one, "/f") && !by_group.reads(&two, "/f"),
        "{}",
        by_group.text
    );
}

#[test]
fn without_gplazma_modes_of_files_still_decide() {
    let layout = "[c/webdav]\nwebdav.authz.anonymous-operations=READONLY\nwebdav.authn.protocol=https-jglobus\n";
    let files = InMemory::default().with("/d/l.conf", layout);
    let site = site_of(System::Dcache, DocumentKind::Endpoint, &files, &["/d/l.conf"]);
    assert!(site.reads(&Credential::Anonymous, "/f") && !site.writes(&Credential::Anonymous, "/f"));
    assert_eq!(site.configuration.users.switch, Switch::Required);
    assert_eq!(site.configuration.users.default_user.as_deref(), Some("nobody"));
    assert!(
        site.configuration.server.certificate.is_some(),
        "another word than http means TLS"
    );
    assert_eq!(site.remark("gplazma.conf was not found").0, Outcome::InPart);
}

#[test]
fn an_open_server_is_open_for_reading_only() {
    let site = dcache(&["dcache-public/all.conf"]);
    assert_eq!(
        site.configuration.server.listen[0].to_string(),
        "127.0.0.1:2880",
        "a host name is no address"
    );
    assert!(!site.configuration.xroot.enabled);
    assert_eq!(
        site.configuration.x509.client_certificates,
        Some(ClientCertificates::Off),
        "it has no TLS"
    );
    let anonymous = Credential::Anonymous;
    assert!(site.reads(&anonymous, "/f") && !site.lists(&anonymous, "/") && !site.writes(&anonymous, "/f"));
    let curator = certificate("/DC=org/CN=Curator", &[], None);
    assert!(
        site.lists(&curator, "/") && !site.writes(&curator, "/f"),
        "the door is read only"
    );
    assert_eq!(site.configuration.users.default_user.as_deref(), Some("nobody"));
    assert_eq!(site.remark("pool1 in /srv/dcache/pool1 with 12T").0, Outcome::NotNeeded);
    assert_eq!(site.remark("pool.hsm").0, Outcome::NoEquivalent);
    assert!(site.remark("2 pools in all").1.contains("crossload sync"));
    assert!(
        site.remark("1 accounts log in by password")
            .1
            .contains("tokens or certificates")
    );
    assert!(!site.text.contains("6a4cd089"));
}

#[test]
fn where_doors_differ_the_narrower_one_counts() {
    let site = dcache(&["dcache-mixed/door.conf"]);
    let configuration = &site.configuration;
    let paths: Vec<&str> = configuration
        .exports
        .iter()
        .map(|export| export.path.as_str())
        .collect();
    assert_eq!(paths, ["/data"]);
    assert!(configuration.exports[0].is_read_only());
    assert_eq!(configuration.xroot.tls, XrootTls::Session);
    assert_eq!(configuration.x509.revocation, Revocation::Required);
    assert!(
        !site.reads(&Credential::Anonymous, "/data/f"),
        "clients without a credential act as 800:800 in dCache"
    );
    // Argus may have banned anyone.
    let pilot = certificate("/CN=p", &["/vo/Role=pilot"], Some("vopilot"));
    assert!(!site.reads(&pilot, "/data/f"));
    assert_eq!(site.remark("Argus decides").0, Outcome::NoEquivalent);
    let map = &site.migration.texts[0];
    assert!(
        map.text.contains("\"/DC=org/CN=Every Attribute\" \"/*\" voany\n"),
        "{}",
        map.text
    );
    assert!(!map.text.contains("vostar") && map.text.contains("vopilot"));
    for line in [
        "site.port is not defined",
        "its root /scratch differs",
        "what is this",
        "never acts as root",
    ] {
        assert!(site.remark(line).0.is_open(), "{line}");
    }
    assert!(
        site.remark("lets clients write where another door does not")
            .1
            .contains("Remove read_only")
    );
}

#[test]
fn what_may_refuse_a_login_and_is_not_ours_closes_the_server() {
    let layout = "[c/gplazma]\n[c/webdav]\nwebdav.authz.anonymous-operations = READONLY\n\
        webdav.authz.anonymous-listing = true\n";
    let read = |layout: &str, plugin: &str| {
        let stack = format!("auth optional x509\nmap optional multimap\n{plugin}\n");
        let files = InMemory::default()
            .with("/d/l.conf", layout)
            .with("/d/gplazma.conf", &stack)
            .with("/d/multi-mapfile", "dn:/CN=x uid:1001 gid:1000,true\n")
            .with("/d/ban.conf", "ban dn:/CN=y\n")
            .with("/d/more.conf", "ban dn:/CN=x\n");
        site_of(System::Dcache, DocumentKind::Endpoint, &files, &["/d/l.conf"])
    };
    let holder = certificate("/CN=x", &[], None);
    for plugin in [
        "",
        "account requisite banfile",
        "auth optional lab",
        "session optional lab",
    ] {
        let site = read(layout, plugin);
        assert!(site.reads(&holder, "/f"), "{plugin}: {}", site.text);
        assert!(site.reads(&Credential::Anonymous, "/f"), "{plugin}: {}", site.text);
    }
    for plugin in [
        "account requisite lab",
        "account optional lab",
        "Account Requisite lab",
        "auth requisite lab",
        "map required lab",
        "account requisite banfile\naccount requisite banfile gplazma.banfile.path=/d/more.conf",
    ] {
        let site = read(layout, plugin);
        assert!(!site.reads(&holder, "/f"), "{plugin}: {}", site.text);
    }
    let demanding = format!("{layout}webdav.authn.require-client-cert = true\n");
    let site = read(&demanding, "");
    assert!(!site.reads(&Credential::Anonymous, "/f"), "{}", site.text);
}
