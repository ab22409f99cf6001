//! What only a real client can do by itself: logins by gsi, delegation, further streams of a
//! session.

use std::process::Command;

use conformance::{Run, run};

use super::site::{Shown, Site};
use crate::dice::Dice;

/// How often in a row XRootD's client may crash.
const CRASHES_MAX: usize = 2;

fn proxy<'a>(site: &'a Site, dice: &mut Dice) -> &'a Shown {
    &site.proxies[dice.below(site.proxies.len())]
}

/// A command of our client.
fn ours(site: &Site, command: &str, arguments: &[&str]) -> Run {
    site.lab.run_client(command, arguments)
}

fn xrootd(site: &Site, program: &str, shown: Option<&Shown>) -> Command {
    let mut command = site.lab.command(program).expect("it was there");
    // On a busy machine a login by gsi takes longer than the ten seconds that other tests allow.
    command.env("XRD_CONNECTIONWINDOW", "60");
    if let Some(shown) = shown {
        command.env("X509_USER_PROXY", &shown.file).env("XrdSecPROTOCOL", "gsi");
    }
    command
}

/// Our client shows a proxy by gsi.
pub(crate) fn gsi(site: &Site, dice: &mut Dice) {
    let url = site.server.root_url(&format!("/data/{}", site.file(dice).name));
    let shown = proxy(site, dice);
    ours(site, "stat", &["--proxy", &shown.file, &url]).succeeded();
}

/// XRootD's client does. It cannot use elliptic keys, as the last proxy has one.
pub(crate) fn gsi_of_xrootd(site: &Site, dice: &mut Dice) {
    let shown = &site.proxies[dice.below(site.proxies.len() - 1)];
    let mut command = xrootd(site, "xrdfs", Some(shown));
    command.arg(format!("localhost:{}", site.port())).args(["ls", "/data"]);
    run(&command).succeeded();
}

/// A proxy that is not believed gives no right.
pub(crate) fn bad_gsi(site: &Site, dice: &mut Dice) {
    let shown = &site.bad_proxies[dice.below(site.bad_proxies.len())];
    let url = site.server.root_url(&format!("/data/{}", site.file(dice).name));
    let run = ours(site, "cat", &["--proxy", &shown.file, &url]);
    assert_ne!(run.code, Some(0), "{}", run.said());
}

/// A copy of what only the user may read: our client delegates its proxy over HTTP.
pub(crate) fn delegated(site: &Site, dice: &mut Dice) {
    let shown = &site.proxies[0];
    let from = format!("https://localhost:{}/jane/{}", site.peer.port(), site.file(dice).name);
    let to = site.server.url(&site.target("data"));
    let arguments = [
        "-f",
        "--proxy",
        &shown.file,
        "--delegate=only",
        "--mode",
        "pull",
        &from,
        &to,
    ];
    ours(site, "copy", &arguments).succeeded();
}

/// A copy of the XRootD protocol with the proxy that our client delegates in its login: from and to
/// where only the user may read and write.
pub(crate) fn lite(site: &Site, dice: &mut Dice) {
    let shown = &site.proxies[0];
    let from = site.guarded.root_url(&format!("/data/{}", site.file(dice).name));
    let to = site.server.root_url(&site.target("data"));
    let arguments = [
        "-f",
        "--proxy",
        &shown.file,
        "--delegate=only",
        "--mode",
        "pull",
        &from,
        &to,
    ];
    ours(site, "copy", &arguments).succeeded();
}

/// A login in which XRootD's client signs a proxy. The server asks for one when the last one ends
/// within hours and before a new one would, so each time the client's own ends a little later.
pub(crate) fn gsi_delegating(site: &Site, _: &mut Dice) {
    let user = site.next_delegating();
    let file = site.lab.fresh("delegating");
    user.write_proxy(&file).expect("a file");
    let mut command = xrootd(site, "xrdfs", None);
    command
        .arg(format!("localhost:{}", site.port()))
        .args(["stat", "/open"])
        .env("X509_USER_PROXY", &file)
        .env("XrdSecPROTOCOL", "gsi")
        .env("XrdSecGSIDELEGPROXY", "1");
    run(&command).succeeded();
    let _ = std::fs::remove_file(&file);
}

/// A download over several streams of a session.
pub(crate) fn streams(site: &Site, _: &mut Dice) {
    let url = site.server.root_url(&format!("/open/{}", site.longest().name));
    let target = site.lab.fresh("streams");
    let mut command = xrootd(site, "xrdcp", None);
    command.args(["--nopbar", "-S", "3", &url]).arg(&target);
    // Now and then this client crashes in a thread of its own: that is no fault of the server's.
    let crashed = |run: &Run| run.code.is_none();
    let mut ended = run(&command);
    for _ in 0..CRASHES_MAX {
        if !crashed(&ended) {
            break;
        }
        let _ = std::fs::remove_file(&target);
        ended = run(&command);
    }
    ended.succeeded();
    assert!(std::fs::read(&target).expect("copied") == site.longest().content);
    let _ = std::fs::remove_file(&target);
}

/// A third-party copy ordered by `xrdcp`.
pub(crate) fn xrdcp_copy(site: &Site, dice: &mut Dice) {
    let from = site.peer.root_url(&format!("/data/{}", site.file(dice).name));
    let to = site.server.root_url(&site.target("open"));
    let mut command = xrootd(site, "xrdcp", None);
    command.args(["--nopbar", "-f", "--tpc", "only", &from, &to]);
    run(&command).succeeded();
}
