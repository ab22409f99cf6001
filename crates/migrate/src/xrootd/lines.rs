//! The lines of XRootD's files: continuations, comments, `if` and `fi`, `set`, `continue`
//! (`XrdOucStream.cc`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::condition::{Process, holds};
use super::variables::{assignment, replaced};
use crate::files::{Files, Unreadable};
use crate::limits::{DEPTH_MAX, FILES_MAX, LINES_MAX};
use crate::migration::Migration;
use crate::source::Source;

/// Directives whose end may be a condition: `if HOST... exec PROGRAM...`.
const CONDITIONAL: [&str; 9] = [
    "all.role",
    "all.manager",
    "all.subcluster",
    "xrd.port",
    "cmsd.port",
    "all.adminpath",
    "all.pidpath",
    "xrd.adminpath",
    "xrd.pidpath",
];
/// Words in the names of variables whose values are not shown.
const SECRET_WORDS: [&str; 4] = ["SECRET", "PASS", "TOKEN", "KEY"];

/// A directive: a name, such as `all.export`, and words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Directive {
    /// Its line.
    pub(crate) source: Source,
    /// Its name.
    pub(crate) name: String,
    /// The words behind it, with variables replaced.
    pub(crate) words: Vec<String>,
}

impl Directive {
    /// A word, counted from zero; empty if it is missing.
    pub(crate) fn word(&self, index: usize) -> &str {
        self.words.get(index).map(String::as_str).unwrap_or_default()
    }

    /// The value behind a word, as in `ttl 10`.
    pub(crate) fn after(&self, name: &str) -> Option<&str> {
        let at = self.words.iter().position(|word| word == name)?;
        self.words.get(at + 1).map(String::as_str)
    }

    /// Whether a word is there.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.words.iter().any(|word| word == name)
    }
}

/// Where a reading is between `if` and `fi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Branch {
    /// Outside.
    None,
    /// In a branch that holds.
    Taken,
    /// In a branch that does not hold, and none before it did.
    Open,
    /// Behind a branch that held.
    Closed,
}

/// Reads files for one process.
pub(crate) struct Reader<'a> {
    files: &'a dyn Files,
    process: Process,
    variables: BTreeMap<String, String>,
    /// The directives that hold for it.
    pub(crate) directives: Vec<Directive>,
    /// Lines that do not.
    pub(crate) skipped: Vec<Source>,
    /// Whether lines may be missing: a file could not be read, or a condition not be judged.
    pub(crate) is_incomplete: bool,
    /// What is wrong with the lines themselves.
    pub(crate) remarks: Migration,
    counts: Counts,
}

/// What was read so far.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    files: usize,
    lines: usize,
}

/// A line with its continuations.
struct Line {
    number: usize,
    text: String,
    words: Vec<String>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(files: &'a dyn Files, process: Process) -> Self {
        let known = [
            ("XRDHOST", process.host.as_str()),
            ("XRDNAME", process.instance.as_str()),
            ("XRDPROG", process.program),
        ];
        let variables = known.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self {
            files,
            variables: variables.into(),
            process,
            directives: Vec::new(),
            skipped: Vec::new(),
            is_incomplete: false,
            remarks: Migration::default(),
            counts: Counts::default(),
        }
    }

    /// Reads a file, and those that it continues with.
    ///
    /// # Errors
    /// The file itself cannot be read.
    pub(crate) fn read(&mut self, file: &Path) -> Result<(), Unreadable> {
        let mut waiting = vec![file.to_owned()];
        let mut depth = 0;
        let mut is_first = true;
        while let Some(file) = waiting.pop() {
            self.counts.files += 1;
            if self.counts.files > FILES_MAX || depth > DEPTH_MAX {
                self.is_incomplete = true;
                let words = "too many files";
                self.remarks
                    .unknown(&Source::of_file(&name_of(&file)), words, "Read them in several runs");
                break;
            }
            let text = match self.files.text(&file) {
                Ok(text) => text,
                Err(cause) if is_first => return Err(cause),
                Err(cause) => {
                    self.is_incomplete = true;
                    let words = format!("it cannot be read: {}", cause.cause);
                    self.remarks
                        .unknown(&Source::of_file(&name_of(&file)), words, "Read it in another run");
                    continue;
                }
            };
            is_first = false;
            if let Some(mut next) = self.text(&name_of(&file), &text) {
                depth += 1;
                next.reverse();
                waiting = next;
            }
        }
        Ok(())
    }

    /// Reads a text; gives the files with which it continues, in order.
    fn text(&mut self, file: &str, text: &str) -> Option<Vec<PathBuf>> {
        let mut branch = Branch::None;
        let mut next = None;
        for line in logical(text) {
            self.counts.lines += 1;
            if self.counts.lines > LINES_MAX {
                self.is_incomplete = true;
                self.remarks
                    .unknown(&Source::of_file(file), "too many lines", "Read it in parts");
                break;
            }
            let source = source(file, &line);
            if next.is_some() {
                let words = "stands behind \"continue\", which XRootD does not return from";
                self.remarks.not_needed(&source, words);
                continue;
            }
            branch = match (line.words[0].as_str(), branch) {
                ("if", Branch::None) => self.enter(&line.words[1..], &source),
                ("if", _) => self.refused(&source, "an \"if\" within another one"),
                ("else", Branch::None) => self.refused(&source, "no \"if\" stands before \"else\""),
                ("else", Branch::Open) => match line.words.get(1).map(String::as_str) {
                    None => Branch::Taken,
                    Some("if") => self.enter(&line.words[2..], &source),
                    Some(_) => self.refused(&source, "\"else\" is followed by \"if\" or nothing"),
                },
                ("else", _) => Branch::Closed,
                ("fi", _) => Branch::None,
                (_, Branch::Open | Branch::Closed) => {
                    self.skipped.push(source);
                    branch
                }
                ("continue", _) => {
                    next = self.next_files(&line, &source);
                    branch
                }
                _ => {
                    self.directive(line, source);
                    branch
                }
            };
        }
        if branch != Branch::None && next.is_none() {
            self.refused(&Source::of_file(file), "an \"if\" without \"fi\"");
        }
        next
    }

    fn enter(&mut self, condition: &[String], source: &Source) -> Branch {
        let condition = self.substituted(condition, source);
        match holds(&condition, &self.process, &self.variables) {
            Ok(true) => Branch::Taken,
            Ok(false) => Branch::Open,
            Err(words) => self.refused(source, &words),
        }
    }

    /// XRootD would not start: what follows is left out.
    fn refused(&mut self, source: &Source, words: &str) -> Branch {
        self.is_incomplete = true;
        self.remarks
            .unknown(source, words, "Correct it: XRootD refuses the line, too");
        Branch::Open
    }

    /// `continue PATH *SUFFIX... if CONDITION`: the rest is in other files, and this one is not
    /// read further.
    fn next_files(&mut self, line: &Line, source: &Source) -> Option<Vec<PathBuf>> {
        let words = self.substituted(&line.words[1..], source);
        let (words, condition) = divided(&words);
        if let Some(condition) = condition
            && self.enter(condition, source) != Branch::Taken
        {
            self.skipped.push(source.clone());
            return None;
        }
        let path = words.first()?;
        let (path, may_miss) = match path.strip_prefix('?') {
            Some(path) => (Path::new(path), true),
            None => (Path::new(path), false),
        };
        let suffixes: Vec<&str> = words[1..].iter().filter_map(|word| word.strip_prefix('*')).collect();
        if let Ok(files) = self.files.list(path) {
            let is_kept = |file: &PathBuf| {
                let name = name_of(file.file_name().map(Path::new).unwrap_or(file));
                let is_left =
                    name.starts_with('.') || [".rpmsave", ".rpmnew", "~"].iter().any(|end| name.ends_with(end));
                !is_left && (suffixes.is_empty() || suffixes.iter().any(|suffix| name.ends_with(suffix)))
            };
            self.remarks.taken(source, "the files were read");
            return Some(files.into_iter().filter(is_kept).collect());
        }
        match self.files.text(path) {
            Ok(_) => {
                self.remarks.taken(source, "the file was read");
                Some(vec![path.to_owned()])
            }
            Err(_) if may_miss => {
                self.remarks
                    .not_needed(source, "there is no such file, and it may be missing");
                None
            }
            Err(cause) => {
                self.is_incomplete = true;
                let advice = "Copy the files here, and name each of them behind this one";
                self.remarks
                    .no_equivalent(source, format!("it cannot be read: {}", cause.cause), advice);
                None
            }
        }
    }

    fn directive(&mut self, line: Line, source: Source) {
        let name = line.words[0].clone();
        if name == "set" {
            return self.set(&line.words[1..], &source);
        }
        let words = self.substituted(&line.words[1..], &source);
        let words = match CONDITIONAL.contains(&name.as_str()) {
            true => {
                let (words, condition) = divided(&words);
                if let Some(condition) = condition
                    && self.enter(condition, &source) != Branch::Taken
                {
                    return self.skipped.push(source);
                }
                words.to_vec()
            }
            false => words,
        };
        self.directives.push(Directive { source, name, words });
    }

    fn set(&mut self, words: &[String], source: &Source) {
        let Some((name, value)) = assignment(words) else {
            if !words.first().is_some_and(|word| word.starts_with('-')) {
                self.is_incomplete = true;
                let advice = "Replace the variable by its value in a copy of the file";
                self.remarks
                    .no_equivalent(source, "the value of the variable is in a file", advice);
            }
            return;
        };
        let value = match value.strip_prefix('$') {
            Some(_) => match replaced(&value, &self.variables) {
                (value, missing) if missing.is_empty() => value,
                _ => {
                    self.is_incomplete = true;
                    let words = "the value is in the environment of XRootD, which is not known here";
                    let advice = "Write the value into a copy of the file";
                    self.remarks.no_equivalent(source, words, advice);
                    String::new()
                }
            },
            None => value,
        };
        self.variables.insert(name, value);
    }

    fn substituted(&mut self, words: &[String], source: &Source) -> Vec<String> {
        let mut out = Vec::with_capacity(words.len());
        for word in words {
            let (word, missing) = replaced(word, &self.variables);
            for name in missing {
                let advice = "Set it in a copy of the file: XRootD refuses the line, too";
                self.remarks
                    .unknown(source, format!("the variable {name} is not set"), advice);
            }
            if !word.is_empty() {
                out.push(word);
            }
        }
        out
    }
}

/// The words before `if`, and those behind it.
fn divided(words: &[String]) -> (&[String], Option<&[String]>) {
    match words.iter().position(|word| word == "if") {
        Some(at) => (&words[..at], Some(&words[at + 1..])),
        None => (words, None),
    }
}

fn name_of(file: &Path) -> String {
    file.display().to_string()
}

/// The line as it is shown: values that may be secrets are not.
fn source(file: &str, line: &Line) -> Source {
    let name = line.words.get(1).map(|word| word.split('=').next().unwrap_or_default());
    let is_secret = match (line.words[0].as_str(), name) {
        ("set" | "setenv", Some(name)) => {
            let name = name.to_ascii_uppercase();
            SECRET_WORDS.iter().any(|word| name.contains(word))
        }
        // A key may stand there itself, in place of its file.
        ("http.secretkey", Some(value)) => !value.starts_with('/'),
        _ => false,
    };
    match is_secret {
        true => Source::hidden(file, line.number, &line.words[0]),
        false => Source::new(file, line.number, &line.text),
    }
}

/// The lines with words; a backslash at the end continues one, and words behind `#` are a comment.
fn logical(text: &str) -> impl Iterator<Item = Line> {
    let mut lines = text.lines().enumerate();
    std::iter::from_fn(move || {
        let (index, first) = lines.next()?;
        let mut line = Line {
            number: index + 1,
            text: String::new(),
            words: Vec::new(),
        };
        let mut now = first.trim();
        loop {
            let is_comment = now.starts_with('#');
            let (plain, is_continued) = match now.strip_suffix('\\') {
                Some(plain) if !is_comment => (plain, true),
                _ => (now, is_comment && !line.words.is_empty()),
            };
            if !is_comment {
                line.text.push_str(plain);
                line.text.push(' ');
                let words = plain.split_whitespace().take_while(|word| !word.starts_with('#'));
                line.words.extend(words.map(str::to_owned));
            }
            match is_continued.then(|| lines.next()).flatten() {
                Some((_, next)) => now = next.trim(),
                None => break,
            }
        }
        Some(line)
    })
    .filter(|line| !line.words.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::InMemory;

    fn read(files: &InMemory, program: &'static str) -> (Vec<String>, usize, Vec<String>) {
        let process = Process {
            host: "d1.example.org".to_owned(),
            program,
            instance: "anon".to_owned(),
        };
        let mut reader = Reader::new(files, process);
        reader.read(Path::new("/x.cfg")).unwrap();
        let told = reader.directives.iter().map(|directive| {
            let words = directive.words.join(" ");
            format!("{} {} {words}", directive.source.line, directive.name)
        });
        let remarks = reader.remarks.remarks.iter().map(crate::Remark::line).collect();
        (told.collect(), reader.skipped.len(), remarks)
    }

    #[test]
    fn lines_are_joined_and_branches_chosen() {
        let text = "\
# a comment
set root = /srv/data   # with another
set manager=m1.example.org
oss.localroot $(root)/x
sec.protocol gsi -cert:/c \\
   # between
   -key:/k
if exec cmsd
cms.space min 2g
else if $(manager)
all.role manager
else
all.role server
xrd.port 1094 if exec xrootd
xrd.port 2131 if exec cmsd
fi
xrd.port $undefined
";
        let files = InMemory::default().with("/x.cfg", text);
        let (told, skipped, remarks) = read(&files, "xrootd");
        let expected = [
            "4 oss.localroot /srv/data/x",
            "5 sec.protocol gsi -cert:/c -key:/k",
            "13 all.role server",
            "14 xrd.port 1094",
            "17 xrd.port ",
        ];
        assert_eq!(told, expected);
        assert_eq!(skipped, 3);
        assert!(
            remarks.len() == 1 && remarks[0].contains("undefined is not set"),
            "{remarks:?}"
        );
        assert_eq!(read(&files, "cmsd").0[2], "9 cms.space min 2g");
    }

    #[test]
    fn a_file_continues_with_others_and_is_not_read_further() {
        let files = InMemory::default()
            .with("/x.cfg", "all.sitename a\ncontinue /etc/d *.cfg\nall.sitename never\n")
            .with("/etc/d/20.cfg", "c 2\n")
            .with("/etc/d/10.cfg", "b 1\n")
            .with("/etc/d/30.txt", "d 3\n")
            .with("/etc/d/.40.cfg", "e 4\n");
        let (told, _, remarks) = read(&files, "xrootd");
        assert_eq!(told, ["1 all.sitename a", "1 b 1", "1 c 2"]);
        assert!(
            remarks.iter().any(|remark| remark.contains("does not return")),
            "{remarks:?}"
        );
        let optional = InMemory::default().with("/x.cfg", "continue ?/none\na 1\n");
        assert_eq!(read(&optional, "xrootd").0, ["2 a 1"]);
        let circle = InMemory::default().with("/x.cfg", "continue /x.cfg\n");
        assert!(
            read(&circle, "xrootd")
                .2
                .iter()
                .any(|remark| remark.contains("too many files"))
        );
    }

    #[test]
    fn secrets_are_not_in_sources() {
        let text = "setenv AWS_SECRET_ACCESS_KEY = hunter2\nhttp.secretkey hunter2\nhttp.secretkey /file\n";
        let files = InMemory::default().with("/x.cfg", text);
        let process = Process {
            host: String::new(),
            program: "xrootd",
            instance: String::new(),
        };
        let mut reader = Reader::new(&files, process);
        reader.read(Path::new("/x.cfg")).unwrap();
        let shown: Vec<&str> = reader.directives.iter().map(|line| line.source.text.as_str()).collect();
        assert!(!shown.concat().contains("hunter2"), "{shown:?}");
        assert!(shown[2].contains("/file"));
    }
}
