//! Where lines about a transfer are: the memory of a running server, or a file.

use std::fs::File;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use remote::{Access, Resource};
use rustix::fs::{Mode, OFlags, open};
use serde_json::Value;
use types::{Error, ErrorCode, Location, Phase, Side};

use crate::client::explain::{PageStart, read_start};
use crate::client::session::ClientContext;
use crate::failure::Failure;
use crate::limits::{TRACE_LINE_BYTES_MAX, TRACE_PAGE_BYTES_MAX};
use crate::log_search::{LEFT_OUT, LastLines, Wanted};

/// What a server says that has no lines of a log.
const NO_TRACE: &str = "it has no /trace: is this an admin address?";
/// What is said of a pipe, a device or a directory.
const NO_FILE: &str = "--log needs a regular file, not a pipe, a device or a directory";

/// A server or a file.
pub(super) enum Source {
    /// The admin address of a server.
    Admin(Location),
    /// A log.
    Log(PathBuf),
}

/// The lines of a source.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Lines {
    pub(super) texts: Vec<String>,
    /// There were more.
    pub(super) is_cut: bool,
}

/// Why a source cannot be asked.
#[derive(Debug)]
pub(super) struct Silence {
    /// In words, without the name of the source.
    pub(super) why: String,
    /// The whole failure, if there is no other source.
    pub(super) failure: Failure,
}

impl Source {
    /// A server.
    ///
    /// # Errors
    /// It is no URL of HTTP.
    pub(super) fn admin(session: &ClientContext, url: &str) -> Result<Self, Failure> {
        let location = Location::parse(&session.url(url)?)?;
        match location.is_http() {
            true => Ok(Self::Admin(location)),
            false => Err(Failure::invalid("--admin needs a URL such as http://127.0.0.1:9090")),
        }
    }

    /// A file.
    pub(super) fn log(path: &Path) -> Self {
        Self::Log(path.to_owned())
    }

    /// How it is shown.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Admin(location) => location.authority(),
            Self::Log(path) => path.display().to_string(),
        }
    }

    /// Its lines with an identifier; none is no error.
    ///
    /// # Errors
    /// It cannot be asked.
    pub(super) async fn about(&self, session: &ClientContext, id: &str) -> Result<Lines, Silence> {
        match self {
            Self::Admin(location) => {
                let page = question(location, id);
                let start = read_start(&session.client, &page, TRACE_PAGE_BYTES_MAX).await;
                start.and_then(lines_in).map_err(|error| not_asked(&error))
            }
            Self::Log(path) => {
                let (path, id) = (path.clone(), id.to_owned());
                let read = execution::blocking(move || lines_of(&path, &id)).await;
                read.unwrap_or_else(|_| Err(std::io::Error::other("it was not read")))
                    .map_err(|cause| not_read(&self.name(), &cause))
            }
        }
    }
}

/// The page of an admin address, which reads no credential: it is sent none.
fn question(location: &Location, id: &str) -> Resource {
    Resource {
        location: location.with_path(&format!("/trace/{id}")),
        access: Access::default(),
        side: Side::Active,
    }
}

/// The lines in the answer of a server.
///
/// # Errors
/// `peer_not_found` if there are no lines of a log in it.
fn lines_in(start: PageStart) -> types::Result<Lines> {
    let text = String::from_utf8_lossy(&start.text);
    // The last line may have been cut, too.
    let whole = match start.is_cut {
        true => text.rsplit_once('\n').map_or("", |(whole, _)| whole),
        false => &text,
    };
    let mut lines = Lines {
        is_cut: start.is_cut,
        ..Lines::default()
    };
    for line in whole.lines().filter(|line| !line.is_empty()) {
        let fields: Option<Value> = serde_json::from_str(line).ok().filter(Value::is_object);
        let Some(fields) = fields else {
            let error = Error::new(ErrorCode::PeerNotFound, Side::Active, Phase::Transfer);
            return Err(error.with_detail("the answer has no lines of a log"));
        };
        match fields["event"] == LEFT_OUT {
            true => lines.is_cut = true,
            false => lines.texts.push(line.to_owned()),
        }
    }
    Ok(lines)
}

fn not_asked(error: &Error) -> Silence {
    match error.code() {
        ErrorCode::PeerNotFound => Silence {
            why: NO_TRACE.to_owned(),
            failure: Failure::advised(error, "Give --admin the address of server.admin_listen."),
        },
        _ => Silence {
            why: error.public(),
            failure: error.clone().into(),
        },
    }
}

fn not_read(name: &str, cause: &std::io::Error) -> Silence {
    Silence {
        why: cause.to_string(),
        failure: match cause.kind() {
            ErrorKind::InvalidInput => Failure::invalid(format!("{name}: {cause}")),
            _ => Failure::system(name, cause),
        },
    }
}

/// Opens a log. Pipes and devices may have no end, and a pipe without a writer never opens: so this
/// does not wait.
fn open_log(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty())?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(std::io::Error::new(ErrorKind::InvalidInput, NO_FILE)),
    }
}

/// The lines of a file with an identifier, the last ones if there are too many.
fn lines_of(path: &Path, id: &str) -> std::io::Result<Lines> {
    let mut reader = BufReader::new(open_log(path)?);
    let (wanted, mut found, mut line) = (Wanted::new(id), LastLines::new(), Vec::new());
    loop {
        line.clear();
        let mut limited = (&mut reader).take(TRACE_LINE_BYTES_MAX);
        if limited.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if wanted.is_named_in(&line) {
            found.push(String::from_utf8_lossy(&line).trim_end().to_owned());
        }
    }
    Ok(Lines {
        is_cut: found.left_out() > 0,
        texts: found.into_lines().into(),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::limits::TRACE_LINES_MAX;

    fn answer(text: &str, is_cut: bool) -> types::Result<Lines> {
        let text = text.as_bytes().to_vec();
        lines_in(PageStart { text, is_cut })
    }

    #[test]
    fn what_is_no_log_is_no_answer() {
        assert_eq!(answer("", false).unwrap(), Lines::default());
        let texts = vec!["{\"a\":1}".to_owned(), "{\"b\":2}".to_owned()];
        let whole = Lines { texts, is_cut: false };
        assert_eq!(answer("{\"a\":1}\n{\"b\":2}\n", false).unwrap(), whole);
        let cut = Lines { is_cut: true, ..whole };
        assert_eq!(answer("{\"a\":1}\n{\"b\":2}\n{\"c\"", true).unwrap(), cut);
        let told = "{\"event\":\"lines_left_out\",\"lines\":7}\n{\"a\":1}\n{\"b\":2}\n";
        assert_eq!(answer(told, false).unwrap(), cut);
        for page in ["<!DOCTYPE html>\n", "ok", "[]", "{\"a\":1}\n<html>"] {
            assert_eq!(
                answer(page, false).unwrap_err().code(),
                ErrorCode::PeerNotFound,
                "{page}"
            );
        }
    }

    #[test]
    fn an_admin_address_sees_no_credential() {
        let page = question(&Location::parse("http://127.0.0.1:9090").unwrap(), "65f2a1c09b3d");
        assert_eq!(page.location.path(), "/trace/65f2a1c09b3d");
        assert!(page.access.bearer.is_none() && page.access.identity.is_none());
    }

    #[test]
    fn what_may_have_no_end_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
        for path in [pipe.as_path(), Path::new("/dev/zero"), directory.path()] {
            let cause = lines_of(path, "0123456789abcdef").unwrap_err();
            assert_eq!(cause.to_string(), NO_FILE, "{}", path.display());
            let silence = not_read("log", &cause);
            assert_eq!(silence.failure.words, format!("log: {NO_FILE}"));
            assert_eq!(silence.failure.exit_code, 22);
        }
        let missing = lines_of(&directory.path().join("none"), "0123456789abcdef").unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_file_gives_its_last_lines() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let line = |number: usize| format!("{{\"n\":{number},\"job\":\"0123456789abcdef\"}}");
        for number in 0..=TRACE_LINES_MAX {
            writeln!(file, "{}\n{{\"job\":\"0123456789abcdef0\"}}", line(number)).unwrap();
        }
        let found = lines_of(file.path(), "0123456789abcdef").unwrap();
        assert!(found.is_cut);
        assert_eq!(found.texts.first(), Some(&line(1)));
        assert_eq!(found.texts.last(), Some(&line(TRACE_LINES_MAX)));
    }
}
