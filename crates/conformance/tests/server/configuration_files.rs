//! A configuration of several files: those of a directory are merged over the main one.

use std::time::Duration;

use conformance::{Lab, alone, log_lines, until};
use testkit::available;

/// Limit for what must happen.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_file_that_comes_and_goes_is_followed() {
    let test = "a_file_that_comes_and_goes_is_followed";
    let Some((lab, server)) = alone(test, |_| ()) else {
        return;
    };
    let directory = server.configuration().with_file_name("conf.d");
    let files = server.configuration().with_file_name("more");
    std::fs::create_dir(&directory).expect("a directory");
    std::fs::create_dir(&files).expect("a directory");
    std::fs::write(files.join("file"), "content").expect("a file");
    let status = || lab.curl(&[&server.clear_url("/more/file")]).status;
    assert_ne!(status(), 200);

    let (first, second) = (directory.join("10-more.toml"), directory.join("20-open.toml"));
    // No signal: the directory is watched. The file is complete when it gets its name.
    let made = directory.join("unfinished");
    std::fs::write(
        &made,
        "[[export]]\npath = \"/more\"\ndirectory = \"more\"\nanonymous = \"read\"\n",
    )
    .expect("a file");
    std::fs::rename(&made, &first).expect("its name");
    until("the export is there", SOON, || status() == 200);
    let reloaded = log_lines(server.log());
    let reloaded = reloaded
        .iter()
        .rfind(|line| line["event"] == "reloaded")
        .expect("a line");
    let read = reloaded["configuration"].as_array().expect("the files");
    assert_eq!(read.last(), Some(&first.to_string_lossy().into()), "{reloaded}");

    std::fs::write(&second, "[server]\nlistne = []\n").expect("a broken file");
    let failed = || {
        let lines = log_lines(server.log());
        lines.into_iter().rfind(|line| line["event"] == "reload_failed")
    };
    until("the mistake is found", SOON, || failed().is_some());
    let error = failed().expect("a line")["error"].to_string();
    assert!(error.contains(&format!("{}:2: ", second.display())), "{error}");
    assert!(error.contains("did you mean"), "{error}");
    assert_eq!(status(), 200, "the old configuration stays in use");

    std::fs::remove_file(&second).expect("gone");
    std::fs::remove_file(&first).expect("gone");
    until("the export is gone", SOON, || status() != 200);
}

#[test]
fn commands_name_the_files_that_they_read() {
    let test = "commands_name_the_files_that_they_read";
    let Some(lab) = available(test, Lab::new("conf-d-check")) else {
        return;
    };
    let directory = lab.fresh("site");
    std::fs::create_dir_all(directory.join("front.d")).expect("a directory");
    std::fs::create_dir(directory.join("data")).expect("a directory");
    let (main, part) = (directory.join("front.toml"), directory.join("front.d/a.toml"));
    std::fs::write(&main, "[[export]]\npath = \"/\"\ndirectory = \"data\"\n").expect("a file");
    std::fs::write(&part, "[server]\nlisten = [\"127.0.0.1:1\"]\n").expect("a file");
    let [file, shown_part] = [&main, &part].map(|path| path.to_str().expect("text"));
    let run = |arguments: &[&str]| conformance::run(&lab.client(arguments.iter().copied()).expect("the program"));

    let checked = run(&["config", "check", file]).succeeded().text();
    let lines: Vec<String> = [file, shown_part]
        .map(|file| format!("{file}: no mistakes found"))
        .into();
    assert_eq!(checked.lines().collect::<Vec<_>>(), lines);
    let checked = run(&["check", "--offline", "--config", file]).text();
    assert!(
        checked.contains(&format!("{file}, {shown_part} are valid")),
        "{checked}"
    );

    std::fs::write(&part, "\n[server]\nlisten = 3\n").expect("a file");
    for arguments in [&["config", "check", file], &["serve", "--config", file]] {
        let refused = run(arguments);
        assert_ne!(refused.code, Some(0));
        assert!(
            refused.stderr.contains(&format!("{shown_part}:3: listen: ")),
            "{}",
            refused.stderr
        );
    }
    let checked = run(&["check", "--offline", "--config", file]).text();
    assert!(
        checked.contains(&format!("at {shown_part}:3 server.listen")),
        "{checked}"
    );
}
