//! The client's commands about files on tape, against the WLCG Tape REST API and XRootD's
//! `prepare`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use conformance::{Lab, Run, json_lines, until};
use testkit::{Result, TAPE_PROGRAM, TapeServer, Xrootd, XrootdAccess, XrootdOptions, XrootdVersion, available};

fn start(name: &str) -> Result<(Lab, TapeServer)> {
    let lab = Lab::new(name)?;
    let tape = TapeServer::start(lab.host())?;
    Ok((lab, tape))
}

/// The outcomes that a command printed, by the order of files.
fn outcomes(run: &Run) -> Vec<String> {
    let text = run.text();
    let outcomes = text.lines().filter_map(|line| line.split('\t').nth(1));
    outcomes.map(str::to_owned).collect()
}

#[test]
fn files_are_staged_located_and_evicted_over_http() {
    let test = "files_are_staged_located_and_evicted_over_http";
    let Some((lab, tape)) = available(test, start("client-tape")) else {
        return;
    };
    let [first, second] = ["/data/a", "/data/b"].map(|path| {
        tape.put_on_tape(path, b"from tape");
        tape.url(path)
    });
    let located = lab.run_client("archived", &[&first, &second]).succeeded();
    assert_eq!(outcomes(&located), ["TAPE", "TAPE"]);
    let asked = lab.run_client("stage", &["--pin", "2h", &first, &second]).succeeded();
    assert_eq!(
        asked.text(),
        format!("{first}\tREQUESTED\trequest-1\n{second}\tREQUESTED\trequest-1\n")
    );
    assert!(tape.calls()[1].body.contains("PT7200S"), "{:?}", tape.calls()[1]);
    tape.bring_online("/data/a");
    let status = |id: &str| lab.run_client("stage", &["--status", id, &first, &second]);
    let mut now = outcomes(&status("request-1").succeeded());
    now.sort_unstable();
    assert!(
        now[0] == "ONLINE" && matches!(now[1].as_str(), "WAITING" | "STARTED"),
        "{now:?}"
    );
    assert_eq!(outcomes(&status("unknown").failed_with(1)), ["FAILED", "FAILED"]);

    // A command that waits ends with the last file, and reports the one that cannot come.
    tape.set_fault("/data/b", Some("the tape is torn"));
    let waited = lab
        .run_client("stage", &["--wait", "--json", &first, &second])
        .failed_with(1);
    let last: Vec<_> = json_lines(&waited).iter().map(|line| line["outcome"].clone()).collect();
    assert_eq!(last[2..], ["ONLINE", "FAILED"], "{}", waited.said());
    assert!(waited.stderr.contains("the tape is torn"), "{}", waited.said());
    tape.set_fault("/data/b", None);
    std::thread::scope(|scope| {
        let looks = tape.calls().len() + 2;
        let waiting = scope.spawn(|| lab.run_client("stage", &["--wait", &second]));
        until("it looks at its request", std::time::Duration::from_secs(30), || {
            tape.calls().len() >= looks
        });
        tape.bring_online("/data/b");
        let waited = waiting.join().expect("it ends").succeeded();
        assert_eq!(outcomes(&waited), ["REQUESTED", "ONLINE"]);
    });

    let nameless = lab.run_client("evict", &[&first]).failed_with(22);
    assert!(
        nameless.stderr.contains("next: Give it with --request"),
        "{}",
        nameless.said()
    );
    let evicted = lab.run_client("evict", &["--request", "request-1", &first]).succeeded();
    assert_eq!(outcomes(&evicted), ["EVICTED"]);
    assert!(!tape.is_on_disk("/data/a") && tape.is_on_disk("/data/b"));
    // As scripts for gfal's tools have it.
    let bring = ["--pin-lifetime", "3600", "--desired-request-time", "7200"];
    let bring = [&bring[..], &["--staging-metadata", "{\"activity\": \"test\"}", &first]].concat();
    let asked = lab.run_client("gfal-bringonline", &bring).succeeded();
    let request = asked.text().trim_end().rsplit('\t').next().expect("a name").to_owned();
    let call = tape.calls().pop().expect("a call");
    assert!(
        call.body.contains("PT3600S") && call.body.contains("activity"),
        "{call:?}"
    );
    tape.bring_online("/data/a");
    lab.run_client("gfal-evict", &[&first, &request]).succeeded();
    assert!(!tape.is_on_disk("/data/a"));
    let canceled = lab.run_client("stage", &["--cancel", "request-1", &first]).succeeded();
    assert_eq!(outcomes(&canceled), ["CANCELED"]);
    let none = tape.url("/data/none");
    let missing = lab.run_client("archived", &[&none]).failed_with(5);
    assert!(missing.text().contains("\tFAILED"), "{}", missing.said());
    lab.run_client("archived", &[&second, &none]).failed_with(1);
    lab.run_client("stage", &["--status", "unknown", &first]).failed_with(2);
    lab.run_client("stage", &["/tmp/f"]).failed_with(38);
}

fn xrootd(lab: &Lab, version: XrootdVersion) -> Result<Xrootd> {
    let options = lab.xrootd_options("tape", XrootdAccess::Open);
    let own = options.directory.clone();
    fs::create_dir_all(own.join("tape"))?;
    fs::create_dir_all(own.join("files/data"))?;
    let program = own.join("tape-program");
    fs::write(&program, TAPE_PROGRAM)?;
    // XRootD and its program run as another user.
    for path in [&program, &own, &own.join("files/data")] {
        fs::set_permissions(path, Permissions::from_mode(0o777))?;
    }
    fs::write(own.join("tape/f"), b"from tape")?;
    Xrootd::start(&XrootdOptions {
        version,
        more: format!(
            "ofs.preplib libXrdOfsPrepGPI.so -admit stage,query,cancel,evict -run {}\n",
            program.display()
        ),
        ..options
    })
}

#[test]
fn files_are_staged_and_evicted_by_the_xrootd_protocol() {
    let test = "files_are_staged_and_evicted_by_the_xrootd_protocol";
    for version in XrootdVersion::ALL {
        let Some(lab) = available(test, Lab::new("client-prepare")) else {
            return;
        };
        let Some(server) = available(test, xrootd(&lab, version)) else {
            continue;
        };
        let [file, torn] = ["/data/f", "/data/torn"].map(|path| server.root_url(path));
        let asked = lab.run_client("stage", &[&file, &torn]).succeeded();
        let text = asked.text();
        let request = text
            .lines()
            .next()
            .and_then(|line| line.split('\t').nth(2))
            .expect("its name");
        // The program runs beside the answer, and until then the files are nowhere.
        until("the request ends", std::time::Duration::from_secs(20), || {
            let status = lab
                .run_client("stage", &["--status", request, &file, &torn])
                .failed_with(1);
            outcomes(&status) == ["ONLINE", "FAILED"] && status.stderr.contains("the tape is torn")
        });
        let located = lab.run_client("archived", &[&file]).failed_with(3);
        assert_eq!(located.text(), format!("{file}\tDISK\n"));
        lab.run_client("evict", &[&file]).succeeded();
        let on_disk = server.data().join("f");
        until("the program evicts it", std::time::Duration::from_secs(20), || {
            !on_disk.exists()
        });
        let missing = server.root_url("/data/missing");
        assert_eq!(
            outcomes(&lab.run_client("evict", &[&missing]).failed_with(2)),
            ["FAILED"]
        );
    }
}

#[test]
fn a_missing_file_is_not_evicted() {
    let test = "a_missing_file_is_not_evicted";
    let Some(lab) = available(test, Lab::new("client-evict")) else {
        return;
    };
    let Some(server) = available(test, lab.crossload(lab.options("disks"))) else {
        return;
    };
    fs::write(server.data().join("f"), b"on disk").expect("a file");
    let [file, missing] = ["/data/f", "/data/missing"].map(|path| server.root_url(path));
    assert_eq!(outcomes(&lab.run_client("evict", &[&file]).succeeded()), ["EVICTED"]);
    assert_eq!(
        outcomes(&lab.run_client("evict", &[&missing]).failed_with(2)),
        ["FAILED"]
    );
    let both = lab.run_client("evict", &[&missing, &file]).failed_with(1);
    assert_eq!(outcomes(&both), ["FAILED", "EVICTED"]);
}
