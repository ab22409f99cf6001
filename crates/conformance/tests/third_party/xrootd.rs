//! XRootD as the peer, Debian's and the newest: active and passive, pulling and pushing, open and
//! with macaroons.

use std::sync::Weak;
use std::time::Duration;

use conformance::{Answer, Endpoint, Lab, Site, Slot, Twins, bytes, last_line, macaroon, parts, shared, until};
use testkit::{XrootdAccess, XrootdVersion, available};

/// One for each release.
static SITES: [Slot<Site>; 2] = [const { Slot::new(Weak::new()) }; 2];

/// Runs a check with each release of XRootD that is there.
#[track_caller]
#[expect(
    clippy::print_stdout,
    reason = "the harness shows it when the check fails, and hides it otherwise"
)]
fn each_release(test: &str, check: impl Fn(&Site)) {
    for (version, slot) in XrootdVersion::ALL.into_iter().zip(&SITES) {
        let site = shared(slot, || Site::with_xrootd_of(version, "peers", "curl"));
        if let Some(site) = available(test, site) {
            println!("with XRootD {}", version.number());
            check(&site);
        }
    }
}

#[track_caller]
fn assert_success(answer: &Answer) {
    assert!(
        last_line(answer).starts_with("success"),
        "{}\n{}",
        answer.heads,
        answer.text()
    );
}

/// Copies a file of each size from one to the other in the given way, over TLS and in clear text.
#[track_caller]
fn copy_all(lab: &Lab, from: &Endpoint, to: &Endpoint, pull: bool, name: &str) {
    for (index, size) in [0, 1, 1_000_003, 33 << 20].into_iter().enumerate() {
        let content = bytes(size, 61);
        let name = format!("{name}/{index}");
        let source = from.put(&name, &content);
        // XRootD 5.5 cannot pull nothing over several connections, from itself neither.
        let by_xrootd = pull && !to.is_ours() && size == 0;
        for streams in if by_xrootd { &[1][..] } else { &[1, 4] } {
            let header = format!("X-Number-Of-Streams: {streams}");
            let target = to.target(&name);
            let answer = if pull {
                lab.copy(&target, &format!("Source: {source}"), &[&header])
            } else {
                lab.copy(&source, &format!("Destination: {target}"), &[&header])
            };
            assert_success(&answer);
            assert!(
                to.stored(&name) == Some(content.clone()),
                "{size} bytes with {streams} streams"
            );
        }
    }
    let name = format!("{name}/clear");
    from.put(&name, b"in clear text");
    let _ = to.target(&name);
    let (source, target) = (from.clear_url(&name), to.clear_url(&name));
    assert_success(&if pull {
        lab.copy(&target, &format!("Source: {source}"), &[])
    } else {
        lab.copy(&source, &format!("Destination: {target}"), &[])
    });
    assert_eq!(to.stored(&name).as_deref(), Some(&b"in clear text"[..]));
}

#[test]
fn ours_pulls_from_xrootd() {
    each_release("ours_pulls_from_xrootd", |site| {
        copy_all(&site.lab, site.theirs(), site.ours(), true, "ours-pulls");
    });
}

#[test]
fn ours_pushes_to_xrootd() {
    each_release("ours_pushes_to_xrootd", |site| {
        copy_all(&site.lab, site.ours(), site.theirs(), false, "ours-pushes");
    });
}

#[test]
fn xrootd_pulls_from_ours() {
    each_release("xrootd_pulls_from_ours", |site| {
        copy_all(&site.lab, site.ours(), site.theirs(), true, "xrootd-pulls");
    });
}

#[test]
fn xrootd_pushes_to_ours() {
    each_release("xrootd_pushes_to_ours", |site| {
        copy_all(&site.lab, site.theirs(), site.ours(), false, "xrootd-pushes");
    });
}

#[test]
fn our_client_reaches_xrootd_in_every_mode() {
    each_release("our_client_reaches_xrootd_in_every_mode", |site| {
        let content = bytes(5 << 20, 62);
        for (from, to) in [(site.ours(), site.theirs()), (site.theirs(), site.ours())] {
            from.put("client/source", &content);
            for mode in ["pull", "push", "stream", "auto"] {
                let (source, target) = (from.davs("client/source"), to.davs(&format!("client/{mode}")));
                let _ = to.target(&format!("client/{mode}"));
                let arguments = ["-f", "-K", "adler32", "--mode", mode, &source, &target];
                site.lab.run_client("copy", &arguments).succeeded();
                assert!(to.stored(&format!("client/{mode}")) == Some(content.clone()), "{mode}");
                std::fs::remove_file(to.data().join(format!("client/{mode}"))).expect("removed");
            }
        }
    });
}

#[test]
fn a_missing_source_is_told_and_leaves_nothing() {
    each_release("a_missing_source_is_told_and_leaves_nothing", |site| {
        let (lab, ours, theirs) = (&site.lab, site.ours(), site.theirs());
        let pulled = lab
            .copy(
                &ours.url("missing/a"),
                &format!("Source: {}", theirs.url("no/such")),
                &[],
            )
            .expect(404);
        assert!(last_line(&pulled).starts_with("failure: "), "{}", pulled.text());
        assert!(
            pulled.text().contains("No such file or directory") && pulled.text().contains("404"),
            "{}",
            pulled.text()
        );
        assert_eq!(ours.stored("missing/a"), None);
        let target = theirs.target("missing/b");
        let refused = lab.copy(&target, &format!("Source: {}", ours.url("no/such")), &[]);
        assert!(last_line(&refused).contains("404"), "{}", refused.text());
    });
}

#[test]
fn macaroons_of_either_open_the_other_party() {
    let test = "macaroons_of_either_open_the_other_party";
    let Some(lab) = available(test, Lab::new("tokens")) else {
        return;
    };
    let Some(twins) = available(test, Twins::start(&lab, "twins")) else {
        return;
    };
    for version in XrootdVersion::ALL {
        let started = lab.xrootd_of(version, "theirs", XrootdAccess::OpenWithMacaroons);
        if let Some(theirs) = available(test, started) {
            let theirs = Endpoint::Xrootd(Box::new(theirs));
            macaroons_open(&lab, &twins, &theirs, &format!("tokens-{version:?}"));
        }
    }
}

/// Copies in both directions, with the macaroons of ours and of theirs.
#[track_caller]
fn macaroons_open(lab: &Lab, twins: &Twins, theirs: &Endpoint, directory: &str) {
    let name = |name: &str| format!("{directory}/{name}");
    let content = bytes(3 << 20, 63);
    twins.open.put(&name("source"), &content);
    let read = twins.macaroon(lab, &name("source"), "DOWNLOAD");
    let hand_over = format!("TransferHeaderAuthorization: Bearer {read}");
    let source = format!("Source: {}", twins.guarded.url(&name("source")));
    let target = theirs.target(&name("pulled"));
    let without = lab.copy(&target, &source, &["Credential: none"]);
    assert!(last_line(&without).contains("401"), "{}", without.text());
    assert_success(&lab.copy(&target, &source, &["Credential: none", &hand_over]));
    assert!(theirs.stored(&name("pulled")) == Some(content.clone()));

    let write = twins.macaroon(lab, &name("pushed"), "UPLOAD");
    let hand_over = format!("TransferHeaderAuthorization: Bearer {write}");
    let destination = format!("Destination: {}", twins.guarded.url(&name("pushed")));
    assert_success(&lab.copy(&target, &destination, &["Credential: none", &hand_over]));
    assert!(twins.open.stored(&name("pushed")) == Some(content.clone()));

    // XRootD's macaroon, shown by ours. It reads the scheme's name in one spelling only.
    let theirs_token = macaroon(lab, &theirs.url(&name("pulled")), &["activity:DOWNLOAD"], &[]);
    let hand_over = format!("TransferHeaderAuthorization: Bearer {theirs_token}");
    let own = twins.macaroon(lab, &name("back"), "UPLOAD");
    let own = format!("Authorization: Bearer {own}");
    let source = format!("Source: {}", theirs.url(&name("pulled")));
    let back = lab.copy(&twins.guarded.url(&name("back")), &source, &[&own, &hand_over]);
    assert_success(&back);
    assert!(twins.open.stored(&name("back")) == Some(content));
}

#[test]
fn xrootd_that_dies_in_the_middle_leaves_no_part() {
    let test = "xrootd_that_dies_in_the_middle_leaves_no_part";
    let Some(lab) = available(test, Lab::new("dies")) else {
        return;
    };
    let mut options = lab.options("ours");
    options.limits = "attempts = 2\nconnect_timeout = \"2s\"\n".to_owned();
    let Some(ours) = available(test, lab.crossload(options)) else {
        return;
    };
    let ours = Endpoint::Crossload(Box::new(ours));
    let started = lab.xrootd("theirs", XrootdAccess::Open);
    let Some(theirs) = available(test, started) else { return };
    let mut theirs = Endpoint::Xrootd(Box::new(theirs));
    let source = theirs.put("large", &bytes(64 << 20, 64));
    std::thread::scope(|scope| {
        let copy = scope.spawn(|| lab.copy(&ours.url("large"), &format!("Source: {source}"), &[]));
        until("a part is begun", Duration::from_secs(30), || {
            parts(ours.data())
                .iter()
                .any(|part| part.metadata().is_ok_and(|facts| facts.len() > 0))
        });
        theirs.process().kill_hard();
        let answer = copy.join().expect("curl ran");
        // The copy may have been quicker than the kill.
        if last_line(&answer).starts_with("success") {
            assert!(ours.stored("large") == Some(bytes(64 << 20, 64)));
        } else {
            assert!(last_line(&answer).starts_with("failure: source"), "{}", answer.text());
            assert_eq!(ours.stored("large"), None);
        }
    });
    until("all parts are gone", Duration::from_secs(10), || {
        parts(ours.data()).is_empty()
    });
}
