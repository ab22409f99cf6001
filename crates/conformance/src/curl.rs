//! Requests by curl, with everything that came back.

use std::process::Command;

use serde_json::Value;
use testkit::{Result, require, secrets};

use crate::lab::Lab;
use crate::run::{Run, run_with_input};

/// What a server answered.
#[derive(Debug)]
pub struct Answer {
    /// The status of the last answer; 0 when there was none.
    pub status: u16,
    /// All heads, interim ones and those of redirects included, as they came.
    pub heads: String,
    /// The body.
    pub body: Vec<u8>,
    /// curl's exit code.
    pub exit: i32,
    /// What curl complained about.
    pub complaint: String,
}

impl Answer {
    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The value of a header in the last head; its name in any case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let last = self.heads.trim_end().rsplit("\r\n\r\n").next().unwrap_or_default();
        last.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// Whether it comes from a server of ours.
    #[must_use]
    pub fn is_from_us(&self) -> bool {
        self.header("server").is_some_and(|name| name.starts_with("crossload"))
    }

    /// Demands a status.
    ///
    /// # Panics
    /// With all that came back, when it is another.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(
            self.status,
            status,
            "exit {} {}\n{}{}",
            self.exit,
            self.complaint,
            self.heads,
            self.text().chars().take(2000).collect::<String>()
        );
        self
    }
}

/// Notes the token in a header or a URL.
fn note_credentials(argument: &str) {
    let lower = argument.to_ascii_lowercase();
    let behind = |mark: &str| lower.find(mark).map(|found| &argument[found + mark.len()..]);
    let is_header = lower.starts_with("authorization:") || lower.starts_with("transferheaderauthorization:");
    let token = match behind("authz=") {
        Some(value) => value.trim_start_matches("Bearer%20").split('&').next(),
        None => behind("bearer ").filter(|_| is_header),
    };
    secrets::note("a token in a request", token.unwrap_or_default());
}

/// The last line of a third-party copy's answer, which says how it ended.
#[must_use]
pub fn last_line(answer: &Answer) -> String {
    answer.text().lines().last().unwrap_or_default().to_owned()
}

impl Lab {
    /// A command of curl that trusts the authority and waits for at most a minute.
    ///
    /// # Errors
    /// [`testkit::Error::Missing`] without curl.
    pub fn curl_command<S: AsRef<str>>(&self, arguments: &[S]) -> Result<Command> {
        require("curl")?;
        let mut command = self.command("curl")?;
        command
            .args(["-sS", "--noproxy", "*", "--max-time", "60", "--cacert"])
            .arg(self.authority().ca_file())
            .args(arguments.iter().map(AsRef::as_ref));
        Ok(command)
    }

    /// Runs curl.
    ///
    /// # Panics
    /// When curl is missing.
    #[track_caller]
    pub fn curl<S: AsRef<str>>(&self, arguments: &[S]) -> Answer {
        self.curl_with_input(arguments, &[])
    }

    /// A page of a server as it is for programs.
    ///
    /// # Panics
    /// When it is not there, or is no JSON.
    #[track_caller]
    pub fn page_json(&self, url: &str) -> Value {
        let text = self.curl(&["-H", "Accept: application/json", url]).expect(200).text();
        serde_json::from_str(&text).unwrap_or_else(|cause| panic!("{cause}: {text}"))
    }

    /// Runs curl and feeds it `input`.
    ///
    /// # Panics
    /// When curl is missing.
    #[track_caller]
    pub fn curl_with_input<S: AsRef<str>>(&self, arguments: &[S], input: &[u8]) -> Answer {
        let heads = self.fresh("heads");
        let body = self.fresh("body");
        let mut command = self.curl_command(arguments).expect("curl is installed");
        command.arg("-D").arg(&heads).arg("-o").arg(&body);
        let Run { code, stderr, .. } = run_with_input(&command, input);
        let heads_text = String::from_utf8_lossy(&std::fs::read(&heads).unwrap_or_default()).into_owned();
        let status = heads_text
            .lines()
            .filter_map(|line| line.strip_prefix("HTTP/")?.split(' ').nth(1)?.parse().ok())
            .next_back()
            .unwrap_or(0);
        let answer = Answer {
            status,
            heads: heads_text,
            body: std::fs::read(&body).unwrap_or_default(),
            exit: code.unwrap_or(-1),
            complaint: stderr,
        };
        let _ = std::fs::remove_file(&heads);
        let _ = std::fs::remove_file(&body);
        for argument in arguments {
            note_credentials(argument.as_ref());
        }
        if answer.is_from_us() && answer.status >= 400 {
            secrets::demand_none("the head of a refusal", &answer.heads);
            secrets::demand_none("the body of a refusal", &answer.text());
        }
        answer
    }

    /// A request with a method and headers, each `Name: value`.
    ///
    /// # Panics
    /// When curl is missing.
    #[track_caller]
    pub fn request(&self, method: &str, url: &str, headers: &[&str]) -> Answer {
        let mut arguments = vec!["-X", method];
        if method == "HEAD" {
            arguments = vec!["-I"];
        }
        for header in headers {
            arguments.extend(["-H", header]);
        }
        arguments.push(url);
        self.curl(&arguments)
    }

    /// Uploads `content` with further headers.
    ///
    /// # Panics
    /// When curl is missing.
    #[track_caller]
    pub fn upload(&self, url: &str, content: &[u8], headers: &[&str]) -> Answer {
        let file = self.file(content);
        let mut arguments = vec!["-T", file.to_str().expect("plain path")];
        for header in headers {
            arguments.extend(["-H", header]);
        }
        arguments.push(url);
        let answer = self.curl(&arguments);
        let _ = std::fs::remove_file(&file);
        answer
    }

    /// Orders a third-party copy; `source_or_destination` is the whole header.
    ///
    /// # Panics
    /// When curl is missing.
    #[track_caller]
    pub fn copy(&self, url: &str, source_or_destination: &str, headers: &[&str]) -> Answer {
        let mut all = vec![source_or_destination];
        all.extend(headers);
        self.request("COPY", url, &all)
    }
}
