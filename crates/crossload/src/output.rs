//! Standard output and standard error. Only this module prints.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the command line program prints through these functions"
)]

use anstream::AutoStream;
pub(crate) use anstream::ColorChoice;
use anstream::stream::RawStream;
use anstyle::{AnsiColor, Style};
use std::borrow::Cow;
use std::io::{self, ErrorKind, Write as _};
use std::sync::atomic::{AtomicI32, Ordering};

pub(crate) use markup::visible as name;
use markup::{hexadecimal, is_obeyed};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::net::unix::pipe;

/// What errors call standard output.
pub(crate) const NAME: &str = "standard output";

/// The system's number of the last failure to write to standard output; 0 for none.
static FAILURE: AtomicI32 = AtomicI32::new(0);

/// A count with its noun, whose plural ends with `s`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Directories in listings.
pub(crate) const DIRECTORY: Style = AnsiColor::Blue.on_default().bold();
/// Links in listings.
pub(crate) const LINK: Style = AnsiColor::Cyan.on_default();
const GOOD: Style = AnsiColor::Green.on_default();
const DOUBTFUL: Style = AnsiColor::Yellow.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();

/// How the beginnings of lines about single files look.
const OUTCOMES: [(&str, Style); 3] = [("[DONE]", GOOD), ("[CANCELED]", DOUBTFUL), ("[FAILED]", BAD)];

/// Chooses when output has colours, for the whole program.
pub(crate) fn choose_colour(when: ColorChoice) {
    when.write_global();
}

/// Whether standard output has colours: as chosen, else as the environment says, else on terminals.
pub(crate) fn has_colour() -> bool {
    is_coloured(&io::stdout())
}

fn is_coloured<S: RawStream>(stream: &S) -> bool {
    AutoStream::choice(stream) != ColorChoice::Never
}

fn painted(text: &str, style: Style) -> String {
    format!("{style}{text}{style:#}")
}

/// Prints a line on standard output. A closed pipe (`| head`) is not an error.
pub(crate) fn line(text: &str) {
    let text = harmless(text);
    let outcome = OUTCOMES.iter().find(|(word, _)| text.starts_with(word));
    match outcome.filter(|_| has_colour()) {
        Some((word, style)) => write_out(format!("{}{}\n", painted(word, *style), &text[word.len()..]).as_bytes()),
        None => write_out(format!("{text}\n").as_bytes()),
    }
}

/// Prints a line of a listing, with the name of a directory or link in its colour.
pub(crate) fn entry(before: &str, name: &str, style: Option<Style>) {
    match style.filter(|_| has_colour()) {
        Some(style) => {
            let (before, name) = (harmless(before), painted(&harmless(name), style));
            write_out(format!("{before}{name}\n").as_bytes());
        }
        None => line(&format!("{before}{name}")),
    }
}

/// Prints what a command found in all on standard output, in the colour of its result.
pub(crate) fn verdict(text: &str, is_good: bool) {
    let style = if is_good { GOOD } else { BAD };
    entry("", text, Some(style));
}

/// Prints how much has failed in all on standard error.
pub(crate) fn conclude(text: &str) {
    let (text, stream) = (harmless(text), io::stderr());
    let _ = match is_coloured(&stream) {
        true => writeln!(stream.lock(), "{}", painted(&text, BAD)),
        false => writeln!(stream.lock(), "{text}"),
    };
}

/// Writes bytes to standard output unchanged. The program goes on after an error, and reports it at
/// its end ([`failure`]).
pub(crate) fn write_out(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        // After a closed pipe no one reads the output.
        Err(cause) if cause.kind() != ErrorKind::BrokenPipe => {
            let number = cause.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
            FAILURE.store(number, Ordering::Relaxed);
        }
        _ => {}
    }
}

/// Writes bytes to standard output, and fails if a reader leaves before the last one.
///
/// # Errors
/// They cannot be read or written.
pub(crate) fn pass_on(from: &mut dyn io::Read) -> io::Result<()> {
    let mut out = io::stdout().lock();
    io::copy(from, &mut out)?;
    out.flush()
}

/// Why output was lost, if any was.
pub(crate) fn failure() -> Option<io::Error> {
    let number = FAILURE.load(Ordering::Relaxed);
    (number != 0).then(|| io::Error::from_raw_os_error(number))
}

/// Returns when the program that reads standard output has ended; never if it is no pipe.
pub(crate) async fn reader_gone() {
    let is_gone = async {
        // Nothing is written to it, so that it may block.
        let out = pipe::Sender::from_owned_fd_unchecked(rustix::io::dup(std::io::stdout())?)?;
        out.ready(Interest::ERROR).await.map(drop)
    };
    if is_gone.await.is_err() {
        std::future::pending().await
    }
}

/// Whether a program may still read standard output.
pub(crate) fn has_reader() -> bool {
    let out = std::io::stdout();
    let mut asked = [PollFd::new(&out, PollFlags::empty())];
    let answer = poll(&mut asked, Some(&Timespec::default()));
    answer.is_err() || !asked[0].revents().contains(PollFlags::ERR)
}

/// Prints a JSON value as one line on standard output.
pub(crate) fn json(value: &serde_json::Value) {
    write_out(format!("{}\n", harmless_json(&value.to_string())).as_bytes());
}

/// Prints a part of a JSON value, without a line end.
pub(crate) fn json_piece(text: &str) {
    write_out(harmless_json(text).as_bytes());
}

/// JSON does not escape all control characters of Unicode, and terminals act on some of them.
fn harmless_json(text: &str) -> Cow<'_, str> {
    escape(text, is_obeyed, |c| format!("\\u{:04x}", u32::from(c)))
}

/// Prints a line on standard error. One write, so that no other line, of this or another program,
/// comes between it and its end.
pub(crate) fn complain(text: &str) {
    let (text, stream) = (harmless(text), io::stderr());
    let head = head(&text).filter(|_| is_coloured(&stream));
    let line = match head {
        Some((end, style)) => format!("{}{}\n", painted(&text[..end], style), &text[end..]),
        None => format!("{text}\n"),
    };
    let _ = stream.lock().write_all(line.as_bytes());
}

/// The end of the words that say what kind of message it is: `crossload ls error:`, `warning:`.
fn head(text: &str) -> Option<(usize, Style)> {
    const WARNINGS: [&str; 2] = ["warning:", "left out "];
    const ERROR: &str = " error:";
    if let Some(warning) = WARNINGS.iter().find(|warning| text.starts_with(**warning)) {
        return Some((warning.trim_end().len(), DOUBTFUL));
    }
    let command = text.strip_prefix("crossload ").and(text.find(ERROR))?;
    let is_command = |letter: char| letter.is_ascii_lowercase() || matches!(letter, ' ' | '-');
    text[..command]
        .chars()
        .all(is_command)
        .then_some((command + ERROR.len(), BAD))
}

/// Text without terminal control characters, which names on servers and disks may contain.
fn harmless(text: &str) -> Cow<'_, str> {
    escape(text, |c| is_obeyed(c) && !matches!(c, '\n' | '\t'), hexadecimal)
}

fn escape(text: &str, is_escaped: impl Fn(char) -> bool, written: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match is_escaped(character) {
            true => escaped.push_str(&written(character)),
            false => escaped.push(character),
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_begin_with_their_kind() {
        for (text, kind) in [
            ("crossload ls error: 2 (No such file) - x", Some("crossload ls error:")),
            ("crossload xattr get error: no", Some("crossload xattr get error:")),
            ("warning: no", Some("warning:")),
            ("crossload copies 2 files: error: no", None),
            ("left out f: it is a link", Some("left out")),
        ] {
            assert_eq!(head(text).map(|(end, _)| &text[..end]), kind);
        }
        assert_eq!(painted("d", DIRECTORY), "\u{1b}[1m\u{1b}[34md\u{1b}[0m");
    }

    #[test]
    fn a_terminal_gets_nothing_to_obey() {
        assert_eq!(harmless("a\tb\nc ä"), "a\tb\nc ä");
        assert_eq!(
            harmless("\u{1b}[31mred\u{9b}31m\r\u{7f}"),
            r"\x1b[31mred\x9b31m\x0d\x7f"
        );
        assert_eq!(harmless("to \u{202e}evil"), r"to \u{202e}evil");
        assert_eq!(name("two\nlines\tand \u{7}"), r"two\x0alines\x09and \x07");
    }
}
