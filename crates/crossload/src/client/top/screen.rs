//! A terminal that shows one frame, and its keys.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, IsTerminal as _, Read as _, Write as _};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// The terminal of the process.
const TERMINAL: &str = "/dev/tty";
/// Pause between polls for a key.
const KEY_PAUSE: Duration = Duration::from_millis(50);

/// The other screen, without a cursor; and back.
const BEGIN: &[u8] = b"\x1b[?1049h\x1b[?25l";
const END: &[u8] = b"\x1b[?25h\x1b[?1049l";
/// If the terminal does not tell its size.
const SIZE: Size = Size { columns: 80, rows: 24 };

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Character(char),
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    PageUp,
    PageDown,
}

/// Columns and rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// What a terminal shows.
#[derive(Debug)]
pub(super) struct Frame {
    /// Lines that fit, without control characters.
    pub(super) lines: Vec<String>,
    /// Which of them is marked.
    pub(super) selected: Option<usize>,
}

/// The terminal while it shows frames. Dropping it gives it back as it was.
pub(super) struct Screen {
    terminal: File,
    before: Termios,
    /// The terminal once more: reads from it do not wait, and writes of frames do.
    input: File,
    keys: VecDeque<Key>,
}

impl Screen {
    /// Takes the terminal; `None`: the output is none.
    pub(super) fn open() -> Option<Self> {
        if !std::io::stdout().is_terminal() {
            return None;
        }
        let terminal = File::options().read(true).write(true).open(TERMINAL).ok()?;
        let before = tcgetattr(&terminal).ok()?;
        let mut now = before.clone();
        // Ctrl-C stays a signal.
        now.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        let input = open(
            TERMINAL,
            OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let mut screen = Self {
            terminal,
            before,
            input: File::from(input.ok()?),
            keys: VecDeque::new(),
        };
        tcsetattr(&screen.terminal, OptionalActions::Now, &now).ok()?;
        screen.write(BEGIN);
        Some(screen)
    }

    pub(super) fn size(&self) -> Size {
        match tcgetwinsize(&self.terminal) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => Size {
                columns: size.ws_col.into(),
                rows: size.ws_row.into(),
            },
            _ => SIZE,
        }
    }

    /// The next key; `None`: there will be none.
    pub(super) async fn key(&mut self) -> Option<Key> {
        loop {
            if let Some(key) = self.keys.pop_front() {
                return Some(key);
            }
            let mut bytes = [0; 64];
            match self.input.read(&mut bytes) {
                Ok(0) => return None,
                Ok(count) => self.keys.extend(keys_of(&bytes[..count])),
                Err(cause) if cause.kind() == ErrorKind::WouldBlock => tokio::time::sleep(KEY_PAUSE).await,
                Err(_) => return None,
            }
        }
    }

    /// Forgets the keys that were pressed before now.
    pub(super) fn forget_keys(&mut self) {
        self.keys.clear();
        let mut bytes = [0; 64];
        // It ends when nothing is left, or a read fails; that failure ends the next wait for a key.
        while self.input.read(&mut bytes).is_ok_and(|count| count > 0) {}
    }

    /// Shows a frame.
    pub(super) fn draw(&mut self, frame: &Frame) {
        self.write(sequence(frame).as_bytes());
    }

    /// A terminal that is gone shows nothing; its signal ends the command.
    fn write(&mut self, bytes: &[u8]) {
        let _ = self.terminal.write_all(bytes);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.write(END);
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

/// What shows a frame on a terminal.
fn sequence(frame: &Frame) -> String {
    let mut sequence = String::from("\x1b[H");
    for (number, line) in frame.lines.iter().enumerate() {
        if number > 0 {
            sequence.push_str("\r\n");
        }
        match frame.selected == Some(number) {
            // In reverse, which needs no colours.
            true => sequence.push_str(&format!("\x1b[7m{line}\x1b[0m")),
            false => sequence.push_str(line),
        }
        sequence.push_str("\x1b[K");
    }
    sequence.push_str("\x1b[J");
    sequence
}

/// The keys of what a terminal sent at once.
fn keys_of(mut bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while let Some((key, rest)) = next_key(bytes) {
        keys.extend(key);
        bytes = rest;
    }
    keys
}

/// The first key, if it has a meaning here, and what follows it.
fn next_key(bytes: &[u8]) -> Option<(Option<Key>, &[u8])> {
    const SEQUENCES: [(&[u8], Key); 6] = [
        (b"\x1b[A", Key::Up),
        (b"\x1bOA", Key::Up),
        (b"\x1b[B", Key::Down),
        (b"\x1bOB", Key::Down),
        (b"\x1b[5~", Key::PageUp),
        (b"\x1b[6~", Key::PageDown),
    ];
    for (sequence, key) in SEQUENCES {
        if let Some(rest) = bytes.strip_prefix(sequence) {
            return Some((Some(key), rest));
        }
    }
    match bytes {
        [] => None,
        // Another sequence: nothing of it is text.
        [0x1b, _, ..] => Some((None, &[])),
        [0x1b] => Some((Some(Key::Escape), &[])),
        [b'\r' | b'\n', rest @ ..] => Some((Some(Key::Enter), rest)),
        [0x7f | 0x08, rest @ ..] => Some((Some(Key::Backspace), rest)),
        [byte, rest @ ..] if byte.is_ascii() => Some((Some(Key::Character(char::from(*byte))), rest)),
        _ => {
            let text = match std::str::from_utf8(bytes) {
                Ok(text) => text,
                Err(cause) => std::str::from_utf8(&bytes[..cause.valid_up_to()]).unwrap_or_default(),
            };
            let first = text.chars().next();
            let width = first.map_or(1, char::len_utf8);
            Some((first.map(Key::Character), &bytes[width..]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_terminals_send_them() {
        let found = keys_of(b"a\x1b[A\x1bOB\x1b[6~\r\x7f\xc3\xa4/");
        let wanted = [
            Key::Character('a'),
            Key::Up,
            Key::Down,
            Key::PageDown,
            Key::Enter,
            Key::Backspace,
            Key::Character('\u{e4}'),
            Key::Character('/'),
        ];
        assert_eq!(found, wanted);
        assert_eq!(keys_of(b"\x1b"), [Key::Escape]);
        assert_eq!(keys_of(b"\x1b[24~x"), [], "unknown sequences are no text");
        assert_eq!(keys_of(b"\xff\xffq"), [Key::Character('q')], "invalid UTF-8 is skipped");
    }
    #[test]
    fn the_selected_line_is_marked() {
        let frame = Frame {
            lines: vec!["a".to_owned(), "b".to_owned()],
            selected: Some(1),
        };
        assert_eq!(sequence(&frame), "\x1b[Ha\x1b[K\r\n\x1b[7mb\x1b[0m\x1b[K\x1b[J");
    }
}
