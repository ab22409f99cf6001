//! `crossload shell` as a script and on a terminal, against ours and XRootD over both protocols.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use conformance::{Lab, Run, background, run, until};
use testkit::{Crossload, Process, available};

use crate::root_client;

fn shell(lab: &Lab, options: &[&str], script: &str) -> Run {
    lab.run_client_with_input("shell", options, script.as_bytes())
}

#[test]
fn lines_work_in_the_directory_of_the_shell() {
    let test = "lines_work_in_the_directory_of_the_shell";
    let Some(site) = available(test, root_client::site()) else {
        return;
    };
    site.compare(|lab, server| {
        for (scheme, url) in [("davs", server.davs("")), ("root", server.root(""))] {
            let name = format!("{test}-{scheme}");
            server.make_directory(&name);
            let url = format!("{url}{name}");
            let (file, back) = (lab.file(b"content"), lab.fresh("back"));
            fs::create_dir(&back).expect("a directory");
            // Debian's XRootD moves no file over HTTP to a name with a blank.
            let script = format!(
                "# a script\nmkdir 'a b'\ncd 'a b'\npwd\nput {} g\nls\ncat g\nsum g\ncd ..\nfind . --type f\n\
                 lcd {}\nlpwd\nget -r 'a b' here/\nget 'a b/g'\nlls\nput g c\nmv c d\nls -l d\nstat d\nrm d\nrm -r 'a b'\n\
                 ls\nquit\ncat none\n",
                file.display(),
                back.display()
            );
            let ran = shell(lab, &[&url], &script).succeeded();
            let text = ran.text();
            let directory = if scheme == "davs" { "/a%20b" } else { "/a b" };
            assert!(
                text.lines().next().is_some_and(|line| line.ends_with(directory)),
                "{}",
                ran.said()
            );
            for part in ["\ng\ncontent", "\n./a b/g\n", back.to_str().expect("plain"), "g\nhere\n"] {
                assert!(text.contains(part), "{part}: {}", ran.said());
            }
            for copied in ["here/a b/g", "g"] {
                assert_eq!(read(&back.join(copied)), b"content", "{copied}: {}", ran.said());
            }
            let left = fs::read_dir(server.data().join(&name)).expect("the directory").count();
            assert_eq!(left, 0, "{}", ran.said());
        }
    });
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_default()
}

#[test]
fn the_first_failure_ends_a_script() {
    let Some(site) = available("the_first_failure_ends_a_script", root_client::site()) else {
        return;
    };
    let (lab, directory) = (&site.lab, site.lab.fresh("shell"));
    fs::create_dir(&directory).expect("a directory");
    fs::write(directory.join("kept"), "kept").expect("a file");
    let url = directory.to_str().expect("plain");
    let ended = shell(lab, &[url], "cat kept\ncd none\nrm kept\n").failed_with(2);
    assert!(
        ended.text() == "kept" && ended.stderr.contains("cd: 2 (No such file"),
        "{}",
        ended.said()
    );
    assert!(directory.join("kept").exists());
    shell(lab, &[url], "ls --no-such-option\n").failed_with(22);
    for (line, words) in [
        ("serve /", "it has "),
        ("rm -r .", "does not remove"),
        ("put - f", "standard input"),
        ("ls -k", "to the shell"),
    ] {
        let refused = shell(lab, &[url], line).failed_with(22);
        assert!(refused.stderr.contains(words), "{}", refused.said());
    }
    shell(lab, &[&format!("{url}/kept")], "ls\n").failed_with(20);
    shell(lab, &["--json", url], "ls\n").failed_with(22);
}

/// A shell on a terminal of its own.
struct Terminal {
    process: Process,
    keyboard: fs::File,
}

impl Terminal {
    fn open(lab: &Lab, url: &str, state: &Path) -> Self {
        let keyboard = lab.fresh("keyboard");
        run(Command::new("mkfifo").arg(&keyboard)).succeeded();
        let program = Crossload::binary().expect("the client is built");
        let words = lab.client_arguments("shell", &[url]);
        let words: String = words.iter().map(|word| format!(" '{word}'")).collect();
        let mut command = lab.command("sh").expect("Debian has it");
        command
            .env("XDG_STATE_HOME", state)
            .env("SHELL", "/bin/sh")
            .env("TERM", "xterm")
            .args([
                "-c",
                "exec script --quiet --flush --return --command \"$0\" /dev/null < \"$1\"",
            ])
            .arg(format!("exec '{}'{words}", program.display()))
            .arg(&keyboard);
        let process = background(&mut command, lab.scratch()).expect("it starts");
        let keyboard = OpenOptions::new().write(true).open(&keyboard).expect("it is read");
        let terminal = Self { process, keyboard };
        until("a prompt", LIMIT, || terminal.prompts() == 1);
        terminal
    }

    fn prompts(&self) -> usize {
        self.process.stdout().matches(PROMPT).count()
    }

    fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("the shell reads");
    }

    /// Types, until the screen has had `words`; at the end of a line, until another prompt is there
    /// too: keys that are typed before that are not the editor's.
    #[track_caller]
    fn type_until(&mut self, keys: &str, words: &str) {
        let before = self.prompts();
        self.type_in(keys);
        until(&format!("shown {words:?} after {keys:?}"), LIMIT, || {
            let is_ready = !keys.ends_with(['\r', '\x03']) || self.prompts() > before;
            is_ready && self.process.stdout().contains(words)
        });
    }

    #[track_caller]
    fn quit(mut self) {
        self.type_in("quit\r");
        until("left", LIMIT, || !self.process.is_running());
        let status = self.process.terminate().expect("it has ended");
        assert!(status.success(), "{status}: {}", self.process.stdout());
    }
}

const LIMIT: Duration = Duration::from_secs(60);
/// What turns bracketed paste on, before each prompt.
const PROMPT: &str = "\u{1b}[?2004h";

#[test]
fn a_terminal_has_completion_and_a_history_without_secrets() {
    let test = "a_terminal_has_completion_and_a_history_without_secrets";
    let Some(site) = available(test, root_client::site()) else {
        return;
    };
    site.compare(|lab, server| {
        for (scheme, url) in [("davs", server.davs("")), ("root", server.root(""))] {
            let name = format!("{test}-{scheme}");
            server.put(&format!("{name}/sub/one long name"), b"content");
            server.put(&format!("{name}/other"), b"");
            let state = lab.fresh("state");
            let mut terminal = Terminal::open(lab, &format!("{url}{name}"), &state);
            terminal.type_until("cat s\to\t", "cat sub/one\\ long\\ name ");
            terminal.type_until("\r", "\ncontent");
            terminal.type_until("cd \t\r", &format!("{name}/sub> "));
            terminal.type_until("cat 'one l\t", "sub> cat one\\ long\\ name ");
            terminal.type_until("\x03", "");
            terminal.type_until("ls ../o\t", "ls ../other ");
            terminal.type_until("\r", "\n../other");
            terminal.type_until("ls x?authz=hidden\r", "ls: ");
            terminal.type_until(" lpwd\r", lab.scratch().path().to_str().expect("plain"));
            terminal.quit();
            let history = state.join("crossload/history");
            let kept = fs::read_to_string(&history).expect("a history");
            let kept: Vec<_> = kept.lines().filter(|line| !line.starts_with('#')).collect();
            assert_eq!(
                kept,
                ["cat sub/one\\\\ long\\\\ name ", "cd sub/", "ls ../other ", "quit"]
            );
            let mode = fs::metadata(&history).expect("a history").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    });
}

#[test]
fn ctrl_c_ends_a_command_and_not_the_shell() {
    let Some(site) = available("ctrl_c_ends_a_command_and_not_the_shell", root_client::site()) else {
        return;
    };
    let (lab, directory) = (&site.lab, site.lab.fresh("shell"));
    fs::create_dir(&directory).expect("a directory");
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    let mut terminal = Terminal::open(lab, directory.to_str().expect("plain"), &lab.fresh("state"));
    terminal.type_in(&format!("ls http://{address}/\r"));
    let _asked = silent.accept().expect("the client connects");
    terminal.type_until("\x03", "4 (Interrupted system call) - canceled");
    let ended = format!("it was asking about http://{address}/");
    terminal.type_until(&format!("ls -t 1 http://{address}/\r"), &ended);
    // Typed while a command runs.
    terminal.type_in("mkdir made\rmkdir then\r");
    until("made", LIMIT, || directory.join("then").is_dir());
    terminal.type_until("lpwd\r", lab.scratch().path().to_str().expect("plain"));
    terminal.quit();
}
