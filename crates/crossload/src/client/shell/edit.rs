//! The prompt of the shell: editing, history, and completion of names at the server.

use std::path::PathBuf;
use std::sync::Arc;

use rustyline::completion::{Completer, Pair, Quote, escape};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use storage::local::Unfit;
use tokio::runtime::Handle;

use super::line::{local_url, verbs};
use crate::client::place::Place;
use crate::client::session::{ClientContext, Info};
use crate::failure::Failure;
use crate::limits::{COMPLETION_NAMES_MAX, COMPLETION_TIME, HISTORY_LINES_MAX};
use crate::output;
use crate::remotes::replace;

/// Characters that a name needs a backslash for.
const SPECIAL: &str = " \\\"'#;&|<>()$`*?[]!{}~";

/// The prompt.
pub(super) struct Prompt {
    editor: Editor<Names, FileHistory>,
    history: Option<PathBuf>,
}

impl Prompt {
    /// Takes the terminal, and reads the history. The editor handles SIGINT, and drops the handler
    /// that was there: this comes before anything that waits for Ctrl-C.
    ///
    /// # Errors
    /// The terminal cannot be used.
    pub(super) fn open() -> Result<Self, Failure> {
        let config = Config::builder().completion_type(CompletionType::List);
        let config = config.max_history_size(HISTORY_LINES_MAX).map_err(failed)?.build();
        let mut editor = Editor::with_history(config.clone(), FileHistory::with_config(&config)).map_err(failed)?;
        let history = history_file().filter(|file| file.exists() || replace(file, b"").is_ok());
        if let Some(file) = &history {
            // Without it, the shell begins with an empty one.
            let _ = editor.load_history(file);
        }
        Ok(Self { editor, history })
    }

    /// Completes names as the session finds them.
    pub(super) fn complete_in(&mut self, session: &Arc<ClientContext>, runtime: &Handle) {
        self.editor.set_helper(Some(Names {
            session: Arc::clone(session),
            runtime: runtime.clone(),
        }));
    }

    /// The next line; `None` at the end. Ctrl-C begins a new one.
    ///
    /// # Errors
    /// The terminal cannot be read.
    pub(super) fn read(&mut self, directory: &str) -> Result<Option<String>, Failure> {
        let prompt = format!("{}> ", output::name(directory));
        loop {
            match self.editor.readline(&prompt) {
                Ok(text) => {
                    self.keep(&text);
                    return Ok(Some(text));
                }
                Err(ReadlineError::Interrupted | ReadlineError::Signal(_)) => {}
                Err(ReadlineError::Eof) => return Ok(None),
                Err(error) => return Err(failed(error)),
            }
        }
    }

    fn keep(&mut self, text: &str) {
        let is_new = is_kept(text) && self.editor.add_history_entry(text).unwrap_or_default();
        if let Some(file) = self.history.as_ref().filter(|_| is_new) {
            // The next shell can do without it.
            let _ = self.editor.append_history(file);
        }
    }
}

fn failed(error: ReadlineError) -> Failure {
    Failure::invalid(format!("terminal: {error}"))
}

/// Whether a line goes into the history: not if it begins with a blank, nor if it may have a
/// password or token, in the user or query of a URL.
fn is_kept(text: &str) -> bool {
    let has_secret = (text.contains("://") && text.contains(['@', '?'])) || text.contains("authz");
    !text.starts_with([' ', '\t']) && !has_secret
}

/// `crossload/history` in `XDG_STATE_HOME`, or in `.local/state` of `HOME` (XDG Base Directory
/// Specification).
fn history_file() -> Option<PathBuf> {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let base = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(base.join("crossload/history"))
}

/// Completes commands, and names at the server or on this machine.
struct Names {
    session: Arc<ClientContext>,
    runtime: Handle,
}

impl Completer for Names {
    type Candidate = Pair;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let Typed { words, start, word } = Typed::new(&line[..position]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (verb, has_place) = match words[..] {
            [] | ["help"] => return Ok((start, commands(&verbs(), &word))),
            ["xattr"] => return Ok((start, commands(&["get", "ls", "rm", "set"], &word))),
            [verb, ref arguments @ ..] => (verb, arguments.iter().any(|word| !word.starts_with('-'))),
        };
        // Those of other servers are not asked for.
        if word.contains("://") || word.starts_with('-') {
            return Ok((start, Vec::new()));
        }
        let find = |is_here| self.find(&word, is_here, matches!(verb, "cd" | "lcd"));
        let first_here = matches!(verb, "put" | "lcd" | "lls");
        let mut found = find(first_here);
        if found.is_empty() && has_place && matches!(verb, "get" | "put") {
            found = find(!first_here);
        }
        Ok((start, found))
    }
}

impl Names {
    /// The names that a word may become, on this machine or at the server.
    fn find(&self, word: &str, is_here: bool, only_directories: bool) -> Vec<Pair> {
        let cut = word.rfind('/').map_or(0, |slash| slash + 1);
        let (directory, prefix) = word.split_at(cut);
        let listed = self
            .runtime
            .block_on(self.list(if directory.is_empty() { "." } else { directory }, is_here));
        candidates(&listed, directory, prefix, only_directories)
    }

    /// The entries of a directory; those that came in time.
    async fn list(&self, directory: &str, is_here: bool) -> Vec<Info> {
        let mut entries = Vec::new();
        let listing = async {
            let place = match is_here {
                true => Place::parse(&local_url(directory)?)?,
                false => self.session.place(directory).await?,
            };
            let mut listing = self.session.open_listing(&place, place.side()).await?;
            while let Some(batch) = listing.next().await? {
                entries.extend(batch);
                if entries.len() >= COMPLETION_NAMES_MAX {
                    break;
                }
            }
            Ok::<_, Failure>(())
        };
        // What cannot be listed has no names to offer.
        let _ = tokio::time::timeout(COMPLETION_TIME, listing).await;
        entries
    }
}

/// A line up to the cursor.
#[derive(Debug, Default, PartialEq, Eq)]
struct Typed {
    /// The words before the last one.
    words: Vec<String>,
    /// Where the last word begins.
    start: usize,
    /// The last word, without quotes and backslashes.
    word: String,
}

impl Typed {
    fn new(text: &str) -> Self {
        let mut typed = Self::default();
        let (mut quote, mut is_escaped, mut in_word) = (None, false, false);
        for (at, one) in text.char_indices() {
            let is_blank = quote.is_none() && !is_escaped && matches!(one, ' ' | '\t');
            if is_blank && in_word {
                typed.words.push(std::mem::take(&mut typed.word));
            }
            if !is_blank && !in_word {
                typed.start = at;
            }
            in_word = !is_blank;
            match (quote, one) {
                _ if is_blank => {}
                _ if is_escaped => {
                    typed.word.push(one);
                    is_escaped = false;
                }
                (None | Some('"'), '\\') => is_escaped = true,
                (None, '\'' | '"') => quote = Some(one),
                (Some(open), _) if one == open => quote = None,
                _ => typed.word.push(one),
            }
        }
        if !in_word {
            typed.start = text.len();
        }
        typed
    }
}

fn commands(known: &[&str], word: &str) -> Vec<Pair> {
    let fitting = known.iter().filter(|verb| verb.starts_with(word));
    let pair = |verb: &&str| Pair {
        display: (*verb).to_owned(),
        replacement: format!("{verb} "),
    };
    fitting.map(pair).collect()
}

/// The names in a directory that begin with `prefix`. Hidden ones need a dot, and names that the
/// terminal would obey cannot be typed.
fn candidates(listed: &[Info], directory: &str, prefix: &str, only_directories: bool) -> Vec<Pair> {
    let fits = |info: &&Info| {
        let is_shown = !info.name.starts_with('.') || prefix.starts_with('.');
        // The name of an entry that the server does not list is what it says of that.
        let is_named = !matches!(info.unfit, Some(Unfit::Unlisted | Unfit::Name)) && !info.name.is_empty();
        let is_typed = is_named && output::name(&info.name) == info.name;
        info.name.starts_with(prefix) && is_shown && is_typed && (info.is_directory || !only_directories)
    };
    let pair = |info: &Info| {
        // Otherwise an option, or a place in a named remote.
        let is_ambiguous = directory.is_empty() && (info.name.starts_with('-') || info.name.contains(':'));
        let here = if is_ambiguous { "./" } else { "" };
        let whole = format!("{here}{directory}{}", info.name);
        let escaped = escape(whole, Some('\\'), |one| SPECIAL.contains(one), Quote::None);
        Pair {
            display: format!("{}{}", info.name, if info.is_directory { "/" } else { "" }),
            replacement: format!("{escaped}{}", if info.is_directory { "/" } else { " " }),
        }
    };
    let mut pairs: Vec<Pair> = listed.iter().filter(fits).map(pair).collect();
    pairs.sort_by(|first, second| first.display.cmp(&second.display));
    pairs
}

impl Helper for Names {}
impl Highlighter for Names {}
impl Validator for Names {}

impl Hinter for Names {
    type Hint = String;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_completed_as_the_line_needs_them() {
        let entry = |name: &str, is_directory| Info {
            name: name.to_owned(),
            is_directory,
            ..Info::default()
        };
        let listed = [
            entry("b c", false),
            entry("bin", true),
            entry(".hidden", false),
            entry("a", false),
            entry("-x", false),
            entry("evil\u{1b}[2J", false),
            entry("", true),
            Info {
                unfit: Some(Unfit::Unlisted),
                ..entry("but two", false)
            },
        ];
        let offered = |directory: &str, prefix: &str, only| {
            let pairs = candidates(&listed, directory, prefix, only);
            pairs.into_iter().map(|pair| pair.replacement).collect::<Vec<_>>()
        };
        assert_eq!(offered("x y/", "b", false), ["x\\ y/b\\ c ", "x\\ y/bin/"]);
        assert_eq!(offered("", "", false), ["./-x ", "a ", "b\\ c ", "bin/"]);
        assert_eq!(offered("", ".", false), [".hidden "]);
        assert_eq!(offered("", "", true), ["bin/"]);
        let named = commands(&verbs(), "h").into_iter().map(|pair| pair.replacement);
        assert_eq!(named.collect::<Vec<_>>(), ["head ", "help "]);
    }

    #[test]
    fn the_word_to_complete_may_be_quoted() {
        for (text, words, start, word) in [
            ("", &[][..], 0, ""),
            ("ls  ", &["ls"], 4, ""),
            ("get 'a b' c\\ d/e", &["get", "a b"], 10, "c d/e"),
            ("get \"a b/", &["get"], 4, "a b/"),
            ("get 'ä b", &["get"], 4, "ä b"),
        ] {
            let typed = Typed::new(text);
            assert_eq!(typed.words, words, "{text}");
            assert_eq!((typed.start, typed.word.as_str()), (start, word), "{text}");
        }
    }

    #[test]
    fn the_history_has_no_secrets() {
        for kept in ["ls -l", "find --name 'a?'", "cd root://a//b", "get a@b"] {
            assert!(is_kept(kept), "{kept}");
        }
        for secret in [
            " ls",
            "cd https://me:word@a/b",
            "ls 'root://a//b?authz=x'",
            "ls f?authz=x",
        ] {
            assert!(!is_kept(secret), "{secret}");
        }
    }
}
