//! What a user sees on a terminal of 80 columns.

use std::time::Duration;

use conformance::{Lab, Reply, Scripted, Terminal, bytes, run, until};
use testkit::{available, require};

use crate::client::site;

const PATIENCE: Duration = Duration::from_secs(60);

/// Colours are for terminals; the environment and `--color` may ask for them, or refuse them.
#[test]
fn colours_are_where_they_are_wanted() {
    let test = "colours_are_where_they_are_wanted";
    let Some(site) = available(test, site()) else { return };
    let lab = &site.lab;
    site.first.put("coloured/d/f", b"x");
    let (url, missing) = (site.first.davs("coloured"), site.first.davs("coloured/none"));
    let ends = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut client = lab
            .client(lab.client_arguments("ls", arguments))
            .expect("the client is built");
        client.envs(variables.iter().copied());
        run(&client)
    };
    let (directory, error) = (
        "\u{1b}[1m\u{1b}[34md\u{1b}[0m",
        "\u{1b}[31mcrossload ls error:\u{1b}[0m 2",
    );
    for (arguments, variables, is_coloured) in [
        (&[][..], &[][..], false),
        (&["--color", "always"], &[], true),
        (&["--color", "always"], &[("NO_COLOR", "1")], true),
        (&["--color", "never"], &[("CLICOLOR_FORCE", "1")], false),
        (&[], &[("CLICOLOR_FORCE", "1")], true),
        (&[], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
        (&["--color", "auto"], &[("TERM", "xterm-256color")], false),
    ] {
        let listed = ends(&[arguments, &["-l", &url]].concat(), variables).succeeded();
        assert_eq!(
            listed.text().contains(directory),
            is_coloured,
            "{arguments:?}: {}",
            listed.said()
        );
        let failed = ends(&[arguments, &[&missing]].concat(), variables).failed_with(2);
        assert_eq!(
            failed.stderr.contains(error),
            is_coloured,
            "{arguments:?}: {}",
            failed.said()
        );
        let json = ends(&[arguments, &["--json", &url]].concat(), variables).succeeded();
        assert!(!json.text().contains('\u{1b}'), "{}", json.said());
    }
    let Some(terminal) = available(test, Terminal::new(lab)) else {
        return;
    };
    let over = lab.fresh("colours-over");
    let here = lab.fresh("coloured-here");
    std::fs::create_dir_all(here.join("d")).expect("a directory");
    let client = lab.client(["ls"]).expect("the client is built");
    let line = format!(
        "{} ls {}; touch {}; sleep 60",
        client.get_program().display(),
        here.display(),
        over.display()
    );
    terminal.start(80, &here, &line);
    until("it is over", PATIENCE, || over.exists());
    until("the name has its colour", PATIENCE, || {
        terminal.coloured().contains("[34md")
    });
}

/// The last picture of a tree's copy: what was done, and no rest of the progress bar.
#[test]
fn the_last_picture_of_a_tree_is_its_summary() {
    let test = "the_last_picture_of_a_tree_is_its_summary";
    let needed = require("tmux").and_then(|_| site());
    let Some(site) = available(test, needed) else { return };
    for number in 0..30 {
        let name = format!("pictured/a-name-that-is-long-enough-to-fill-a-line-{number:02}");
        site.first.put(&name, &bytes(50_000, 601));
    }
    let lab = &site.lab;
    let (back, over) = (lab.fresh("back"), lab.fresh("over"));
    let target = format!("{}/", back.display());
    let arguments = lab.client_arguments("copy", &["-r", &site.first.davs("pictured/"), &target]);
    let command = lab.client(&arguments).expect("the client is built");
    let line = format!(
        "{} {}; touch {}; sleep 60",
        command.get_program().display(),
        arguments.join(" "),
        over.display()
    );
    let terminal = Terminal::new(lab).expect("tmux is installed");
    terminal.start(80, lab.scratch().path(), &line);
    until("the copy is over", PATIENCE, || over.exists());
    let shown = || terminal.picture().join("\n");
    until("its summary is shown", PATIENCE, || shown().contains("30 files"));
    let picture = terminal.picture();
    let last = picture.last().expect("a summary");
    assert!(last.contains("30 files") && last.contains("1.4 MiB"), "{picture:#?}");
    assert!(picture.iter().all(|line| line.chars().count() <= 80), "{picture:#?}");
    // A bar that is not wiped away would stay between the lines.
    let is_bar = |line: &&String| line.contains("left") || line.contains("\u{2588}") || line.contains('\u{1b}');
    assert_eq!(picture.iter().find(is_bar), None, "{picture:#?}");
    assert_eq!(std::fs::read_dir(&back).expect("the copies").count(), 30);
}

/// A server that is none of ours answers anything.
#[test]
fn top_says_where_pages_are_if_an_answer_is_none() {
    let test = "top_says_where_pages_are_if_an_answer_is_none";
    let Some(lab) = available(test, Lab::new(test)) else {
        return;
    };
    for (status, body) in [
        ("200 OK", &b"<html></html>"[..]),
        ("200 OK", b"[]"),
        ("501 Not Implemented", b""),
    ] {
        let server = Scripted::start(move |seen| Reply::whole(seen, status, &[], body));
        let refused = run(&lab
            .client(["top", "--once", &server.url("")])
            .expect("the client is built"));
        assert_ne!(refused.code, Some(0), "{}", refused.said());
        assert!(refused.stderr.contains("[web] listen"), "{}", refused.said());
        assert!(!refused.stderr.contains("--mode"), "{}", refused.said());
    }
}

/// `top` takes the whole screen, and gives the terminal back as it was.
#[test]
fn top_follows_a_server_and_ends_with_a_key() {
    let test = "top_follows_a_server_and_ends_with_a_key";
    let Some(lab) = available(test, Lab::new("top")) else {
        return;
    };
    let Some(terminal) = available(test, Terminal::new(&lab)) else {
        return;
    };
    let mut options = lab.options("watched");
    options.more = "[web]\nlisten = \"127.0.0.1:0\"\n".to_owned();
    let Some(server) = available(test, lab.crossload(options)) else {
        return;
    };
    let client = lab.client(["top"]).expect("the client is built");
    let line = format!(
        "echo before; stty -a > before; {} top {}; stty -a > after; echo ended; sleep 60",
        client.get_program().display(),
        server.log().pages_url("http")
    );
    let directory = lab.fresh("top-ends");
    std::fs::create_dir(&directory).expect("a directory");
    terminal.start(80, &directory, &line);
    let shows = |text: &str| terminal.shows(text);
    until("copies are shown", PATIENCE, || shows("copies: 0 running, 0 stalled"));
    assert!(!shows("before"), "the other screen: {:?}", terminal.picture());
    terminal.press(&["/", "q", "x", "Enter"]);
    until("the filter is shown", PATIENCE, || shows("filter: qx"));
    drop(server);
    until("the fault is shown", PATIENCE, || shows("! no answer: "));
    terminal.press(&["q"]);
    until("it ends", PATIENCE, || shows("ended") && shows("before"));
    let modes = |name: &str| std::fs::read_to_string(directory.join(name)).expect("modes");
    assert_eq!(modes("before"), modes("after"));
}
