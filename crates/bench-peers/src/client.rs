//! The clients: curl for data, wrk for metadata. The same for every server.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use testkit::{Error, Result, require};

use crate::interrupt::EndsEarly;

/// No single client may take longer, in seconds.
const CLIENT_TIMEOUT_SECONDS: &str = "900";

/// curl and wrk, and the authority they trust. wrk need not be there when nothing is measured with
/// it.
pub(crate) struct Client {
    curl: PathBuf,
    ca_file: PathBuf,
    directory: PathBuf,
}

/// One third-party copy: sent to `url`, with `header` naming the other side.
pub(crate) struct CopyRequest {
    pub(crate) url: String,
    pub(crate) header: String,
    /// How many streams it is to take; 0, which gfal and with it FTS always send, leaves that to
    /// the server.
    pub(crate) streams: u32,
}

/// What wrk measured.
#[derive(Debug, PartialEq)]
pub(crate) struct Load {
    pub(crate) requests: u64,
    pub(crate) requests_per_second: f64,
}

impl Client {
    pub(crate) fn new(ca_file: PathBuf, directory: PathBuf) -> Result<Self> {
        Ok(Self {
            curl: require("curl")?,
            ca_file,
            directory,
        })
    }

    fn curl(&self) -> Command {
        let mut command = Command::new(&self.curl);
        command
            .args(["-sS", "--max-time", CLIENT_TIMEOUT_SECONDS, "--cacert"])
            .arg(&self.ca_file);
        command.stdin(Stdio::null());
        command
    }

    /// One curl, and so one connection, for each list of URLs; all at once. Returns the bytes
    /// received.
    pub(crate) fn download(&self, connections: &[Vec<String>]) -> Result<u64> {
        let children = connections.iter().map(|urls| {
            let mut command = self.curl();
            command.args(["-f", "-w", "%{size_download}\\n"]);
            for url in urls {
                command.args(["-o", "/dev/null", url]);
            }
            command
        });
        run_all(children)?
            .iter()
            .flat_map(|text| text.lines())
            .map(parse_bytes)
            .sum()
    }

    /// One curl, and so one connection, for each list of URLs; all at once, all sending `file`.
    pub(crate) fn upload(&self, file: &Path, connections: &[Vec<String>]) -> Result<u64> {
        let children = connections.iter().map(|urls| {
            let mut command = self.curl();
            command.args(["-f", "-w", "%{size_upload}\\n"]);
            for url in urls {
                command.arg("-T").arg(file).args(["-o", "/dev/null", url]);
            }
            command
        });
        run_all(children)?
            .iter()
            .flat_map(|text| text.lines())
            .map(parse_bytes)
            .sum()
    }

    /// Sends all `requests` at once, each on its own connection, and waits until all have ended
    /// well.
    pub(crate) fn copy(&self, requests: &[CopyRequest]) -> Result<()> {
        let body = |index: usize| self.directory.join(format!("body-{index}"));
        let mut config = String::new();
        for (index, request) in requests.iter().enumerate() {
            let _ = fs::remove_file(body(index));
            let separator = if index == 0 { "" } else { "next\n" };
            let _ = write!(
                config,
                "{separator}url = {:?}\nrequest = \"COPY\"\nheader = {:?}\n\
                 header = \"X-Number-Of-Streams: {}\"\noutput = {:?}\ncacert = {:?}\nmax-time = {}\n",
                request.url,
                request.header,
                request.streams,
                body(index),
                self.ca_file,
                CLIENT_TIMEOUT_SECONDS,
            );
        }
        let file = self.directory.join("copies.curl");
        fs::write(&file, config)?;
        let mut command = Command::new(&self.curl);
        command
            .args(["-sS", "-Z", "--parallel-immediate", "--parallel-max"])
            .arg(requests.len().to_string());
        run_all([{
            command.arg("-K").arg(file).stdin(Stdio::null());
            command
        }])?;
        for (index, request) in requests.iter().enumerate() {
            let text = fs::read_to_string(body(index)).unwrap_or_default();
            if !ends_in_success(&text) {
                return Err(Error::Failed(format!("COPY {}: {}", request.url, text.trim())));
            }
        }
        Ok(())
    }

    /// Asks on one connection `times` for what is in the directory at `url`; the last answer must
    /// have `entries`.
    pub(crate) fn list(&self, url: &str, times: usize, entries: usize) -> Result<()> {
        let body = self.directory.join("listing");
        let mut command = self.curl();
        command.args(["-f", "-X", "PROPFIND", "-H", "Depth: 1"]);
        // Only one answer is looked at, and the others, 5 MB each, need not go to a disk.
        for _ in 1..times {
            command.args(["-o", "/dev/null"]).arg(url);
        }
        command.arg("-o").arg(&body).arg(url);
        run_all([command])?;
        let found = fs::read_to_string(&body)?.matches("</D:response>").count();
        match found == entries {
            true => Ok(()),
            false => Err(Error::Failed(format!(
                "{url} has {entries} entries, and {found} were listed"
            ))),
        }
    }

    /// Asks for `url` with `method` as often as the server can, on so many `connections` for
    /// `seconds`.
    pub(crate) fn load(&self, method: &str, url: &str, connections: u64, seconds: u32) -> Result<Load> {
        self.run_wrk(&lua(method), method, url, connections, seconds)
    }

    /// Asks the server at `url` for `paths` one after the other, over and over, on 16 connections.
    pub(crate) fn load_many(&self, method: &str, url: &str, paths: &[String], seconds: u32) -> Result<Load> {
        self.run_wrk(&lua_for_many(method, paths), method, url, 16, seconds)
    }

    fn run_wrk(&self, lua: &str, method: &str, url: &str, connections: u64, seconds: u32) -> Result<Load> {
        let script = self.directory.join(format!("{method}.lua"));
        fs::write(&script, lua)?;
        let mut command = Command::new(require("wrk")?);
        command.args([
            "-t",
            "2",
            "-c",
            &connections.to_string(),
            "-d",
            &format!("{seconds}s"),
            "--timeout",
            "20s",
            "-s",
        ]);
        command.arg(script).arg(url).stdin(Stdio::null());
        let text = run_all([command])?.concat();
        parse_wrk(&text).map_err(|reason| Error::Failed(format!("{method} {url}: {reason}")))
    }
}

/// Runs all at once and returns what each wrote. An interruption ends them.
pub(crate) fn run_all(commands: impl IntoIterator<Item = Command>) -> Result<Vec<String>> {
    let children: Vec<(EndsEarly, Child)> = commands
        .into_iter()
        .map(|mut command| {
            let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
            Ok((EndsEarly::new(&child), child))
        })
        .collect::<std::io::Result<_>>()?;
    let mut texts = Vec::new();
    let mut failure = None;
    // Every child is waited for, whatever became of the others.
    for (_ends_early, child) in children {
        let output = child.wait_with_output()?;
        if output.status.success() {
            texts.push(String::from_utf8_lossy(&output.stdout).into_owned());
        } else {
            let words = String::from_utf8_lossy(&output.stderr);
            failure = Some(format!("client {}: {}", output.status, words.trim()));
        }
    }
    failure.map_or(Ok(texts), |reason| Err(Error::Failed(reason)))
}

fn parse_bytes(line: &str) -> Result<u64> {
    line.trim()
        .parse()
        .map_err(|_| Error::Failed(format!("curl wrote {line:?} instead of a size")))
}

/// WLCG HTTP-TPC: the outcome of a copy is the last line of its body, whatever the status was.
fn ends_in_success(body: &str) -> bool {
    body.trim_end()
        .lines()
        .next_back()
        .is_some_and(|line| line.trim_start().to_ascii_lowercase().starts_with("success"))
}

/// The request that wrk repeats. PROPFIND asks for what davix asks for.
fn lua(method: &str) -> String {
    let mut text = format!("wrk.method = \"{method}\"\n");
    if method == "PROPFIND" {
        text.push_str(
            "wrk.headers[\"Depth\"] = \"0\"\n\
             wrk.headers[\"Content-Type\"] = \"text/xml\"\n\
             wrk.body = '<?xml version=\"1.0\" ?><D:propfind xmlns:D=\"DAV:\"><D:allprop/></D:propfind>'\n",
        );
    }
    text
}

/// The same for many paths. The requests are made before the clock runs; each thread of wrk begins
/// with the first.
fn lua_for_many(method: &str, paths: &[String]) -> String {
    let mut text = lua(method);
    text.push_str("local paths = {\n");
    for path in paths {
        let _ = writeln!(text, "{path:?},");
    }
    text.push_str(
        "}\n\
         local requests, at = {}, 0\n\
         init = function() for index, path in ipairs(paths) do requests[index] = wrk.format(nil, path) end end\n\
         request = function() at = at % #requests + 1 return requests[at] end\n",
    );
    text
}

fn parse_wrk(text: &str) -> std::result::Result<Load, String> {
    for trouble in ["Non-2xx or 3xx responses:", "Socket errors:"] {
        if let Some(line) = text.lines().find(|line| line.trim_start().starts_with(trouble)) {
            return Err(line.trim().to_owned());
        }
    }
    let requests = text
        .lines()
        .find(|line| line.contains(" requests in "))
        .and_then(|line| line.split_whitespace().next())
        .and_then(|word| word.parse().ok());
    let rate = text
        .lines()
        .find_map(|line| line.strip_prefix("Requests/sec:"))
        .and_then(|word| word.trim().parse::<f64>().ok());
    match (requests, rate) {
        (Some(requests), Some(requests_per_second)) if requests > 0 => Ok(Load {
            requests,
            requests_per_second,
        }),
        _ => Err("no request was answered".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "Running 2s test @ http://localhost:1/f\n  2 threads and 16 connections\n  \
        109053 requests in 2.10s, 72.59MB read\nRequests/sec:  51945.26\nTransfer/sec:     34.58MB\n";

    #[test]
    fn wrk_is_read() {
        assert_eq!(
            parse_wrk(GOOD),
            Ok(Load {
                requests: 109_053,
                requests_per_second: 51_945.26
            })
        );
    }

    #[test]
    fn wrk_with_errors_or_without_answers_is_a_failure() {
        let refused = GOOD.replace("Requests/sec", "  Non-2xx or 3xx responses: 3\nRequests/sec");
        assert_eq!(parse_wrk(&refused), Err("Non-2xx or 3xx responses: 3".to_owned()));
        assert!(parse_wrk(&GOOD.replace("109053", "0")).is_err());
        assert!(parse_wrk("").is_err());
    }

    #[test]
    fn only_the_last_line_of_a_copy_counts() {
        assert!(ends_in_success("Perf Marker\nEnd\nsuccess: Created"));
        assert!(ends_in_success("Success: Created\n"));
        assert!(!ends_in_success("success: Created\nfailure: late\n"));
        assert!(!ends_in_success(""));
    }
}
