//! A line of the shell: a command of its own, or one of the program's.

use std::ffi::OsString;

use clap::CommandFactory as _;
use clap::error::ErrorKind;
use types::encode_path;

use crate::command_line::{Command, CommandLine, names_stdio};
use crate::failure::Failure;

/// Commands of the program that the shell has.
const COMMANDS: [&str; 20] = [
    "archived", "cat", "chmod", "copy", "df", "du", "evict", "find", "head", "ls", "mkdir", "mv", "rm", "stage",
    "stat", "sum", "tail", "touch", "tree", "xattr",
];
/// Commands of the shell alone.
const OWN: [&str; 9] = ["cd", "get", "help", "lcd", "lls", "lpwd", "put", "pwd", "quit"];
/// Commands that are about the directory if they name none.
const ABOUT_DIRECTORIES: [&str; 6] = ["df", "du", "find", "ls", "stat", "tree"];

/// A line.
#[derive(Debug)]
pub(super) enum Line {
    Nothing,
    Quit,
    Help,
    /// The help of a command.
    HelpOf(String),
    Where,
    Go(Option<String>),
    /// The directory on this machine.
    WhereHere,
    GoHere(Option<String>),
    Command(Box<Command>),
    /// Not a command line, in clap's words.
    Refused(String),
}

/// All commands, sorted.
pub(super) fn verbs() -> Vec<&'static str> {
    let mut all = [&COMMANDS[..], &OWN].concat();
    all.sort_unstable();
    all
}

impl Line {
    /// Parses a line. Quotes and backslashes are those of a shell; `#` begins a comment.
    ///
    /// # Errors
    /// There is no such command, a quote is open, or the current directory has no name.
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let words = shell_words::split(text).map_err(|_| Failure::invalid("a quote is not closed"))?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if words.iter().any(|word| names_stdio(word)) {
            let refusal = "- cannot be used here: standard input belongs to the shell";
            return Err(Failure::invalid(refusal));
        }
        Ok(match words[..] {
            [] => Self::Nothing,
            ["quit" | "exit" | "bye"] => Self::Quit,
            ["help" | "?"] => Self::Help,
            ["help", verb] if OWN.contains(&verb) => Self::HelpOf(help_of(verb).to_owned()),
            ["help", verb] => Self::of_program(&[verb, "--help"])?,
            ["pwd"] => Self::Where,
            ["cd"] => Self::Go(None),
            ["cd", to] => Self::Go(Some(to.to_owned())),
            ["lpwd"] => Self::WhereHere,
            ["lcd"] => Self::GoHere(None),
            ["lcd", to] => Self::GoHere(Some(to.to_owned())),
            ["lls", ref arguments @ ..] => Self::of_program(&[&["ls"], arguments].concat())?.here()?,
            ["get", ref arguments @ ..] => Self::of_program(&[&["copy"], arguments].concat())?.copied(false)?,
            ["put", ref arguments @ ..] => Self::of_program(&[&["copy"], arguments].concat())?.copied(true)?,
            [
                verb @ ("quit" | "exit" | "bye" | "help" | "pwd" | "cd" | "lpwd" | "lcd"),
                ..,
            ] => {
                return Err(Failure::invalid(format!("too many arguments; {}", help_of(verb))));
            }
            ref words => Self::of_program(words)?,
        })
    }

    fn of_program(words: &[&str]) -> Result<Self, Failure> {
        let program = CommandLine::command();
        let verb = program.find_subcommand(words[0]).map(clap::Command::get_name);
        let Some(verb) = verb.filter(|verb| COMMANDS.contains(verb)) else {
            let all = verbs().join(", ");
            let refusal = format!("the shell has no command {}; it has {all}", words[0]);
            return Err(Failure::invalid(refusal));
        };
        let parse = |words: &[&str]| CommandLine::of([&["crossload"], words].concat().iter().map(OsString::from));
        let parsed = match parse(words) {
            Err(error) if error.kind() == ErrorKind::MissingRequiredArgument && ABOUT_DIRECTORIES.contains(&verb) => {
                parse(&[words, &["."]].concat())
            }
            parsed => parsed,
        };
        Ok(match parsed {
            Ok(parsed) => Self::Command(Box::new(parsed.command)),
            Err(refusal) if refusal.use_stderr() => Self::Refused(refusal.to_string()),
            Err(help) => Self::HelpOf(help.to_string()),
        })
    }

    /// The same for `lls`: all places are on this machine.
    ///
    /// # Errors
    /// The current directory has no name.
    fn here(mut self) -> Result<Self, Failure> {
        if let Self::Command(command) = &mut self
            && let Command::Ls(options) = &mut **command
        {
            options.places.change(local_url)?;
        }
        Ok(self)
    }

    /// The same for `get` and `put`: one side is this machine. Without a second place, the other
    /// side is the directory.
    ///
    /// # Errors
    /// The current directory has no name. The files to upload are in a list.
    fn copied(mut self, is_upload: bool) -> Result<Self, Failure> {
        if let Self::Command(command) = &mut self
            && let Command::Copy(options) = &mut **command
        {
            if is_upload && options.from_file.is_some() {
                return Err(Failure::invalid("put takes no --from-file; copy does, with URLs"));
            }
            if options.places.len() == 1 && options.from_file.is_none() {
                options.places.push("./".to_owned());
            }
            if let Some((last, sources)) = options.places.split_last_mut() {
                let local = if is_upload { sources } else { std::slice::from_mut(last) };
                for place in local {
                    *place = local_url(place)?;
                }
            }
        }
        Ok(self)
    }
}

fn help_of(verb: &str) -> &'static str {
    match verb {
        "cd" => "cd [DIRECTORY] goes to a directory, or back to the first one",
        "get" => "get FILE... [LOCAL] takes the options of copy; help copy lists them",
        "put" => "put LOCAL... [PLACE] takes the options of copy; help copy lists them",
        "lcd" => "lcd [DIRECTORY] goes to a directory of this machine, or back to the first one",
        "lls" => "lls [LOCAL...] takes the options of ls; help ls lists them",
        "lpwd" => "lpwd prints the directory on this machine",
        "pwd" => "pwd prints the directory",
        "help" => "help [COMMAND] lists the commands, or the options of one",
        _ => "quit leaves the shell",
    }
}

/// A path on this machine as a URL, which is not relative to a directory of the server.
///
/// # Errors
/// The current directory has no name, or none in UTF-8.
pub(super) fn local_url(text: &str) -> Result<String, Failure> {
    if text.contains("://") {
        return Ok(text.to_owned());
    }
    let path = std::path::absolute(text).map_err(|cause| Failure::system(text, &cause))?;
    let path = path
        .to_str()
        .ok_or_else(|| Failure::invalid("the current directory is not UTF-8"))?;
    // They stand for what is in the directory.
    let is_directory = matches!(text.rsplit('/').next(), Some("" | "." | ".."));
    let slash = if is_directory && !path.ends_with('/') { "/" } else { "" };
    Ok(format!("file://{}{slash}", encode_path(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(text: &str) -> Command {
        match Line::parse(text) {
            Ok(Line::Command(command)) => *command,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn places(text: &str) -> Vec<String> {
        match command(text) {
            Command::Copy(options) => options.places,
            Command::Ls(options) => options.places.all().unwrap().map(Result::unwrap).collect(),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn one_side_of_get_and_put_is_this_machine() {
        let here = std::env::current_dir().unwrap();
        let here = format!("file://{}", encode_path(here.to_str().unwrap()));
        assert_eq!(places("get f"), ["f".to_owned(), format!("{here}/")]);
        assert_eq!(places("get -r 'a b' g /tmp/x"), ["a b", "g", "file:///tmp/x"]);
        assert_eq!(places("put 'a b'"), [format!("{here}/a%20b"), "./".to_owned()]);
        assert_eq!(places("put -r . /there"), [format!("{here}/"), "/there".to_owned()]);
        assert_eq!(places("lls -l"), [format!("{here}/")]);
        assert_eq!(places("lls --sort time a"), [format!("{here}/a")]);
        assert_eq!(places("cp a b"), ["a", "b"]);
    }

    #[test]
    fn lines_are_read_as_a_shell_does() {
        assert!(matches!(Line::parse("  # nothing"), Ok(Line::Nothing)));
        assert!(matches!(Line::parse("cd 'a b'"), Ok(Line::Go(Some(to))) if to == "a b"));
        assert!(matches!(Line::parse("help ls"), Ok(Line::HelpOf(help)) if help.contains("--sort")));
        assert!(matches!(Line::parse("ls --no-such"), Ok(Line::Refused(words)) if words.contains("--no-such")));
        assert!(
            matches!(Line::parse("rm"), Ok(Line::Refused(_))),
            "never the directory itself"
        );
        let Command::Ls(options) = command("ls -l") else {
            panic!()
        };
        assert!(options.places.is_one(), "the directory");
        assert!(matches!(command("head -1 f"), Command::Head(_)), "spelled as elsewhere");
        let broken = [
            "put - f",
            "rm --from-file=-",
            "put --from-file list /there",
            "serve /",
            "help serve",
            "fly",
            "ls 'a",
            "cd a b",
            "config remote list",
        ];
        for broken in broken {
            assert!(Line::parse(broken).is_err(), "{broken}");
        }
        for verb in verbs() {
            assert!(
                matches!(Line::parse(&format!("help {verb}")), Ok(Line::HelpOf(help)) if help.contains(verb)),
                "{verb}"
            );
        }
    }
}
