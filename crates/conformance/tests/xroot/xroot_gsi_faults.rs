//! Invalid certificates, shown by XRootD's own client through `gsi` to a server that demands one:
//! each is refused with its own code. And the refusal of a server that is configured for `gsi` but
//! cannot do it.

use std::time::Duration;

use conformance::{Lab, Run, log_lines};
use testkit::{Access, Crossload, KeyKind, ProxyFault, ProxyOptions, Result, User, available, require};

const PATIENCE: Duration = Duration::from_secs(30);
const DN: &str = "/O=Crossload test/CN=Jane Doe";

struct Site {
    lab: Lab,
    server: Crossload,
}

fn site(key: KeyKind) -> Result<Site> {
    require("xrdfs")?;
    let lab = Lab::new("gsi-faults")?;
    let host = lab.authority().issue_host("gsi", &["localhost"], key)?;
    let mut options = lab.options("gsi");
    options.certificate = Some(host);
    options.exports[0].anonymous = Access::Read;
    options.more = format!(
        "[xroot]\nauthentication = [\"gsi\"]\n[x509]\ntrust_directory = \"{}\"\n",
        lab.authority().trust_directory().display(),
    );
    let server = lab.crossload(options)?;
    Ok(Site { lab, server })
}

impl Site {
    /// Looks at the export with a proxy.
    fn look(&self, proxy: &User) -> Run {
        let proxy = proxy.write_proxy(&self.lab.fresh("proxy")).expect("a file");
        let address = format!("root://localhost:{}", self.server.port());
        let mut command = self.lab.command("xrdfs").expect("as before");
        command.args([&address, "stat", "/data"]).env("X509_USER_PROXY", proxy);
        conformance::run(&command)
    }

    /// How many refusals had this code so far.
    fn count(&self, code: &str) -> usize {
        self.codes().iter().filter(|found| *found == code).count()
    }

    /// The codes of all refusals so far.
    fn codes(&self) -> Vec<String> {
        let lines = log_lines(self.server.log());
        let codes = lines.iter().filter_map(|line| line["error"]["code"].as_str());
        codes.map(str::to_owned).collect()
    }
}

#[test]
fn each_fault_has_its_own_code() {
    let Some(site) = available("each_fault_has_its_own_code", site(KeyKind::Rsa2048)) else {
        return;
    };
    let authority = site.lab.authority();
    let user = |dn: &str| authority.issue_user(dn).expect("a user");
    let jane = user(DN);
    site.look(&jane.proxy().expect("a proxy")).succeeded();
    let limited = ProxyOptions {
        is_limited: true,
        ..ProxyOptions::default()
    };
    let limited = jane.proxy_with(&limited).expect("a proxy");
    // Storage takes limited proxies; they are for what only running programs may not do.
    site.look(&limited).succeeded();
    assert_eq!(site.codes(), Vec::<String>::new());

    let expired = ProxyOptions {
        starts_s: -7200,
        ends_s: -60,
        ..ProxyOptions::default()
    };
    let fault = |fault: ProxyFault| {
        let options = ProxyOptions {
            fault: Some(fault),
            ..ProxyOptions::default()
        };
        jane.proxy_with(&options).expect("a proxy")
    };
    let revoked = user("/O=Crossload test/CN=Revoked");
    authority
        .revoke(&[revoked.serial().expect("a number")], 3600)
        .expect("a list");
    conformance::until("the list is read", PATIENCE, || {
        site.look(&revoked.proxy().expect("a proxy")).code != Some(0)
    });
    for (name, proxy, expected) in [
        ("revoked", revoked.proxy().expect("a proxy"), "certificate_revoked"),
        ("limited, then full", limited.proxy().expect("a proxy"), "proxy_widened"),
        ("altered", fault(ProxyFault::AlteredPolicy), "certificate_signature"),
        ("legacy", fault(ProxyFault::Legacy), "proxy_legacy"),
    ] {
        let before = site.count(expected);
        assert_ne!(site.look(&proxy).code, Some(0), "{name}");
        // The log may be a moment behind.
        conformance::until(name, PATIENCE, || site.count(expected) > before);
    }
    // This one XRootD's client keeps to itself.
    assert_ne!(site.look(&jane.proxy_with(&expired).expect("a proxy")).code, Some(0));
}

#[test]
fn a_key_that_gsi_cannot_use_is_told_to_whoever_comes() {
    let Some(site) = available(
        "a_key_that_gsi_cannot_use_is_told_to_whoever_comes",
        site(KeyKind::EcdsaP256),
    ) else {
        return;
    };
    let jane = site.lab.authority().issue_user(DN).expect("a user");
    let ran = site.look(&jane.proxy().expect("a proxy"));
    assert_ne!(ran.code, Some(0), "{}", ran.said());
    conformance::until("the log says why", PATIENCE, || {
        log_lines(site.server.log()).iter().any(|line| {
            let message = line["error"]["message"].as_str().unwrap_or_default();
            line["error"]["code"] == "certificate_unusable" && message.contains("RSA")
        })
    });
}
