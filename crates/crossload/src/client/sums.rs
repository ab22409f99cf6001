//! `sum`: checksums of many files, printed or compared with a list.

use std::path::Path;
use std::pin::pin;

use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::time::timeout;
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Phase, Result};

use super::each::{complain, fitting};
use super::place::without_query;
use super::session::ClientContext;
use super::show::counted;
use crate::command_line::{SumOptions, lines_of};
use crate::exit_code::ExitCodes;
use crate::failure::{Failure, exit_code};
use crate::limits::{DIRECTORY_ASKED_AFTER, SUMS_AT_ONCE};
use crate::next_step::NO_CHECKSUM;
use crate::output;

/// Prints checksums in the format of gfal-sum, or compares those of a list.
pub(crate) async fn run(session: &ClientContext, options: &SumOptions) -> std::result::Result<u8, Failure> {
    match &options.check {
        Some(list) => check(session, options, list).await,
        None => print(session, options).await,
    }
}

async fn print(session: &ClientContext, options: &SumOptions) -> std::result::Result<u8, Failure> {
    if let Some(name) = options.unknown_algorithm() {
        return Err(Failure::invalid(format!(
            "{name}: no algorithm that is known; use adler32, crc32c, md5 or sha-256, or ./{name} for a file"
        )));
    }
    let (places, algorithm) = options.wanted();
    let sums = stream::iter(places.all()?).map(|text| async move {
        let text = text?;
        let sum = sum(session, &text, algorithm).await;
        Ok::<_, Failure>((text, sum))
    });
    let mut sums = pin!(sums.buffered(SUMS_AT_ONCE));
    let mut code = 0;
    while let Some(next) = sums.next().await {
        let (text, sum) = next?;
        let text = without_query(&text);
        match sum {
            Ok(sum) if options.common.json => {
                output::json(&json!({"name": text, "algorithm": algorithm.name(), "value": sum.to_hex()}));
            }
            Ok(sum) if options.without_name => output::line(&format!("{} {}", algorithm.name(), sum.to_hex())),
            Ok(sum) => output::line(&format!("{} {}", output::name(text), sum.to_hex())),
            Err(error) if places.is_one() => return Err(fitting("sum", error.into())),
            Err(error) => {
                code = ExitCodes::chosen().of_several(exit_code(&error));
                complain("sum", fitting("sum", error.into()));
            }
        }
    }
    Ok(code)
}

async fn sum(session: &ClientContext, text: &str, algorithm: ChecksumAlgorithm) -> Result<Checksum> {
    let place = session.place(text).await?;
    let is_directory = async || {
        let found = session.stat(&place, place.side()).await;
        found.is_ok_and(|info| info.is_directory)
    };
    let directory = || Error::new(ErrorCode::IsDirectory, place.side(), Phase::Checksum).with_subject(&place);
    let mut asked = pin!(session.sum(&place, algorithm, place.side()));
    let found = match timeout(DIRECTORY_ASKED_AFTER, asked.as_mut()).await {
        Ok(found) => found,
        // After some questions about directories, XRootD 5.5.3 answers no further one over HTTP.
        Err(_) if is_directory().await => return Err(directory()),
        Err(_) => asked.await,
    };
    let is_unsaid = |error: &Error| {
        let codes = [
            ErrorCode::ChecksumUnavailable,
            ErrorCode::PeerUnsupported,
            ErrorCode::PeerFailed,
        ];
        codes.contains(&error.code())
    };
    // Some servers say that they have none.
    if found.as_ref().is_err_and(is_unsaid) && is_directory().await {
        return Err(directory());
    }
    found.map_err(|error| match error.code() {
        // Nothing is verified here, which is what the code speaks of.
        ErrorCode::ChecksumUnavailable if error.peer_status().is_none() => {
            Error::new(ErrorCode::PeerUnsupported, place.side(), Phase::Checksum)
                .with_detail(format!("{NO_CHECKSUM} {algorithm} of the file"))
                .with_subject(&place)
        }
        _ => error,
    })
}

/// Compares the files of a list with the checksums in it, as `md5sum -c` does.
async fn check(session: &ClientContext, options: &SumOptions, list: &Path) -> std::result::Result<u8, Failure> {
    let compared = stream::iter(lines_of(list)?).map(|line| async move {
        let line = line?;
        let Some(listed) = Listed::parse(&line, options.algorithm) else {
            return Ok::<_, Failure>(Err(line));
        };
        let found = sum(session, &listed.name, listed.expected.algorithm()).await;
        Ok(Ok((listed, found)))
    });
    let mut compared = pin!(compared.buffered(SUMS_AT_ONCE));
    let mut tally = Tally::default();
    while let Some(next) = compared.next().await {
        match next? {
            Ok((listed, found)) => tally.add(&listed, found, options.common.json),
            Err(line) => {
                output::complain(&format!("{}: not a line with a checksum: {line}", list.display()));
                tally.unread += 1;
            }
        }
    }
    tally.conclude(list)
}

/// How the comparisons ended.
#[derive(Default)]
struct Tally {
    equal: u64,
    different: u64,
    failed: u64,
    /// Lines that have no checksum.
    unread: u64,
    /// The exit code of the last failure.
    last: Option<u8>,
}

impl Tally {
    fn add(&mut self, listed: &Listed, found: Result<Checksum>, is_json: bool) {
        let (outcome, words) = match &found {
            Ok(found) if *found == listed.expected => ("ok", "OK"),
            Ok(_) => ("different", "FAILED"),
            Err(_) => ("failed", "FAILED to read"),
        };
        match outcome {
            "ok" => self.equal += 1,
            "different" => self.different += 1,
            _ => self.failed += 1,
        }
        let value: Value = found.as_ref().map_or(Value::Null, |found| found.to_hex().into());
        if is_json {
            let Listed { name, expected } = listed;
            output::json(&json!({"name": name, "algorithm": expected.algorithm().name(),
                "expected": expected.to_hex(), "value": value, "outcome": outcome}));
        } else {
            output::line(&format!("{}: {words}", output::name(&listed.name)));
        }
        match found {
            Ok(found) if found != listed.expected => output::complain(&format!(
                "crossload sum error: {} has {found}, expected is {}",
                output::name(&listed.name),
                listed.expected
            )),
            Ok(_) => {}
            Err(error) => {
                self.last = Some(exit_code(&error));
                complain("sum", error);
            }
        }
    }

    fn conclude(&self, list: &Path) -> std::result::Result<u8, Failure> {
        let Self {
            equal,
            different,
            failed,
            unread,
            last,
        } = *self;
        let files = equal + different + failed;
        if files == 0 {
            return Err(Failure::invalid(format!("{}: no line has a checksum", list.display())));
        }
        if files == equal && unread == 0 {
            return Ok(0);
        }
        let found = format!(
            "of {}: {different} different, {failed} not readable; lines without a checksum: {unread}",
            counted(files, "file", "files")
        );
        output::conclude(&found);
        let codes = ExitCodes::chosen();
        Ok(match different {
            // A line without a checksum is what gfal's tools call invalid.
            0 => codes.of_several(last.unwrap_or(codes.of_usage())),
            _ => codes.of_no(),
        })
    }
}

/// A line of a list.
#[derive(Debug, PartialEq, Eq)]
struct Listed {
    name: String,
    expected: Checksum,
}

impl Listed {
    /// Reads `NAME VALUE` (`sum`, gfal-sum), `VALUE NAME` (xrdadler32), `VALUE  NAME` or
    /// `VALUE *NAME` (md5sum), with a backslash in front where the name has escapes, or an object
    /// of `sum --json`.
    fn parse(line: &str, algorithm: Option<ChecksumAlgorithm>) -> Option<Self> {
        if line.starts_with('{') {
            return Self::parse_json(line);
        }
        if let Some(escaped) = line.strip_prefix('\\') {
            let listed = Self::parse(escaped, algorithm)?;
            let name = unescaped(&listed.name);
            return Some(Self { name, ..listed });
        }
        let value = |text: &str| value_of(text, algorithm);
        let (first, behind) = line.split_once(' ')?;
        let (before, last) = line.rsplit_once(' ')?;
        let of_coreutils = behind.strip_prefix([' ', '*']);
        let (name, expected) = match (value(first), value(last), of_coreutils) {
            (Some(expected), _, Some(name)) => (name, expected),
            (_, Some(expected), _) => (before, expected),
            (Some(expected), None, None) => (behind, expected),
            (None, None, _) => return None,
        };
        Some(Self {
            name: name.trim().to_owned(),
            expected,
        })
    }

    fn parse_json(line: &str) -> Option<Self> {
        let object: Value = serde_json::from_str(line).ok()?;
        let algorithm = ChecksumAlgorithm::from_name(object["algorithm"].as_str()?)?;
        Some(Self {
            name: object["name"].as_str()?.to_owned(),
            expected: Checksum::from_hex(algorithm, object["value"].as_str()?)?,
        })
    }
}

/// A name in which md5sum has escaped backslashes and line ends.
fn unescaped(name: &str) -> String {
    let (mut plain, mut rest) = (String::with_capacity(name.len()), name.chars());
    while let Some(letter) = rest.next() {
        match (letter, rest.as_str().chars().next()) {
            ('\\', Some(escaped @ ('\\' | 'n' | 'r'))) => {
                rest.next();
                plain.push(match escaped {
                    'n' => '\n',
                    'r' => '\r',
                    same => same,
                });
            }
            _ => plain.push(letter),
        }
    }
    plain
}

/// A checksum: `adler32:1a2b3c4d`, or digits whose number tells the algorithm. Eight are Adler-32
/// unless another is chosen.
fn value_of(text: &str, algorithm: Option<ChecksumAlgorithm>) -> Option<Checksum> {
    if let Some((name, value)) = text.split_once(':') {
        return Checksum::from_hex(ChecksumAlgorithm::from_name(name)?, value);
    }
    let usual = [
        ChecksumAlgorithm::Adler32,
        ChecksumAlgorithm::Md5,
        ChecksumAlgorithm::Sha256,
    ];
    let fits = |known: &ChecksumAlgorithm| known.value_bytes() * 2 == text.len();
    let algorithm = algorithm.or_else(|| usual.into_iter().find(fits))?;
    Some(algorithm)
        .filter(fits)
        .and_then(|algorithm| Checksum::from_hex(algorithm, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str, algorithm: Option<ChecksumAlgorithm>) -> Option<(String, String)> {
        let listed = Listed::parse(line, algorithm)?;
        Some((listed.name, listed.expected.to_string()))
    }

    #[test]
    fn lines_of_all_tools_are_read() {
        let md5 = "d41d8cd98f00b204e9800998ecf8427e";
        for (line, name, expected) in [
            (
                "https://a/f 1A2b3c4d".to_owned(),
                "https://a/f",
                "adler32:1a2b3c4d".to_owned(),
            ),
            (
                "/d/two words 1a2b3c4d".to_owned(),
                "/d/two words",
                "adler32:1a2b3c4d".to_owned(),
            ),
            (
                "1a2b3c4d root://a//f".to_owned(),
                "root://a//f",
                "adler32:1a2b3c4d".to_owned(),
            ),
            (format!("{md5}  two words"), "two words", format!("md5:{md5}")),
            (format!("{md5} *f"), "f", format!("md5:{md5}")),
            (format!(r"\{md5}  a\\b\nc\r\x"), "a\\b\nc\r\\x", format!("md5:{md5}")),
            (format!("{md5}  1a2b3c4d"), "1a2b3c4d", format!("md5:{md5}")),
            (
                "deadbeef 1a2b3c4d".to_owned(),
                "deadbeef",
                "adler32:1a2b3c4d".to_owned(),
            ),
            ("f crc32c:1a2b3c4d".to_owned(), "f", "crc32c:1a2b3c4d".to_owned()),
            (
                r#"{"algorithm":"crc32c","name":"a b","value":"1a2b3c4d"}"#.to_owned(),
                "a b",
                "crc32c:1a2b3c4d".to_owned(),
            ),
        ] {
            assert_eq!(parsed(&line, None), Some((name.to_owned(), expected)), "{line}");
        }
        let chosen = parsed("f 1a2b3c4d", Some(ChecksumAlgorithm::Crc32c));
        assert_eq!(chosen, Some(("f".to_owned(), "crc32c:1a2b3c4d".to_owned())));
        for line in [
            "f",
            "f g",
            "f 1a2b3c4",
            "{",
            "f sha1:1a2b3c4d",
            "https://a/f adler32:xyz",
        ] {
            assert_eq!(parsed(line, None), None, "{line}");
        }
        assert_eq!(parsed(&format!("f {md5}"), Some(ChecksumAlgorithm::Adler32)), None);
    }
}
