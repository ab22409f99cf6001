//! Third-party copies over HTTP that `xrdcp` of the newest XRootD release orders: between two
//! servers of that release, which shows that the order is right, between ours and theirs in both
//! roles, and between two of ours.

use std::thread;

use conformance::{Endpoint, Lab, Twins, bytes};
use testkit::{Error, Result, XrootdAccess, XrootdVersion, available};

const NEWEST: XrootdVersion = XrootdVersion::V6;

struct Site {
    lab: Lab,
    ours: [Endpoint; 2],
    theirs: [Endpoint; 2],
}

fn site() -> Result<Site> {
    let lab = Lab::new("http-tpc")?;
    let theirs = || {
        let server = lab.xrootd_of(NEWEST, "theirs", XrootdAccess::Open)?;
        Ok::<_, Error>(Endpoint::Xrootd(Box::new(server)))
    };
    let ours = || {
        let server = lab.crossload(lab.options("ours"))?;
        Ok::<_, Error>(Endpoint::Crossload(Box::new(server)))
    };
    Ok(Site {
        theirs: [theirs()?, theirs()?],
        ours: [ours()?, ours()?],
        lab,
    })
}

#[test]
fn xrdcp_orders_copies_over_http() {
    let test = "xrdcp_orders_copies_over_http";
    let Some(site) = available(test, site()) else { return };
    let ([a, b], [c, d]) = (&site.ours, &site.theirs);
    let pairs = [
        ("theirs", c, d),
        ("to-theirs", a, c),
        ("from-theirs", d, a),
        ("ours", a, b),
    ];
    thread::scope(|scope| {
        for (pair, from, to) in pairs {
            let lab = &site.lab;
            scope.spawn(move || copies(lab, from, to, pair));
        }
    });
}

/// Schemes, who is active, and streams.
const ORDERS: [(&str, &[&str], &str); 6] = [
    ("https", &["only"], "1"),
    ("https", &["only"], "4"),
    ("https", &["push", "only"], "1"),
    ("http", &["only"], "1"),
    ("davs", &["only"], "1"),
    ("davs", &["push", "only"], "1"),
];

#[track_caller]
fn copies(lab: &Lab, from: &Endpoint, to: &Endpoint, pair: &str) {
    let content = bytes(9_000_003, 711);
    from.put("file", &content);
    to.make_directory(pair);
    for (number, (scheme, way, streams)) in ORDERS.into_iter().enumerate() {
        // XRootD cannot push to what is called so.
        if scheme == "davs" && way.contains(&"push") && !from.is_ours() {
            continue;
        }
        let at = |server: &Endpoint, name: &str| match scheme {
            "http" => server.clear_url(name),
            _ => server.url(name).replacen("https", scheme, 1),
        };
        let name = format!("{pair}/{number}");
        let (source, target) = (at(from, "file"), at(to, &name));
        let arguments = [&["-S", streams, "--tpc"], way, &[&source, &target]].concat();
        let run = lab.xrdcp_of(NEWEST, &arguments);
        assert_eq!(run.code, Some(0), "{arguments:?}: {}", run.said());
        assert!(to.stored(&name).as_ref() == Some(&content), "{arguments:?}");
    }
    let missing = lab.xrdcp_of(NEWEST, &["--tpc", "only", &from.url("none"), &to.url("missing")]);
    assert_ne!(missing.code, Some(0), "{pair}: {}", missing.said());
    assert_eq!(to.stored("missing"), None, "{pair}");
}

#[test]
fn xrdcp_shows_each_side_its_token() {
    let test = "xrdcp_shows_each_side_its_token";
    let made = NEWEST.require("xrdcp").and_then(|_| {
        let lab = Lab::new("http-tpc-tokens")?;
        let (source, destination) = (Twins::start(&lab, "source")?, Twins::start(&lab, "destination")?);
        Ok((lab, source, destination))
    });
    let Some((lab, source, destination)) = available(test, made) else {
        return;
    };
    let content = bytes(3_000_001, 712);
    source.open.put("file", &content);
    let tokens = [
        source.macaroon(&lab, "", "DOWNLOAD,LIST"),
        destination.macaroon(&lab, "", "UPLOAD,LIST,MANAGE"),
    ];
    let file = lab.file(tokens.join("\n").as_bytes());
    let shown = ["--tpc-token-file", file.to_str().expect("plain"), "--tpc"];
    for (name, way) in [("pulled", &["only"][..]), ("pushed", &["push", "only"])] {
        let urls = [&*source.guarded.url("file"), &*destination.guarded.url(name)];
        let refused = lab.xrdcp_of(NEWEST, &[&["--tpc"], way, &urls].concat());
        assert_ne!(refused.code, Some(0), "{name}: {}", refused.said());
        assert_eq!(destination.open.stored(name), None, "{name}");
        let copied = lab.xrdcp_of(NEWEST, &[&shown, way, &urls].concat());
        assert_eq!(copied.code, Some(0), "{name}: {}", copied.said());
        assert!(destination.open.stored(name).as_ref() == Some(&content), "{name}");
    }
}
