//! Completions for shells and manual pages, made from the descriptions of the commands.

use std::fs;
use std::io;

use clap::CommandFactory as _;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::command_line::{CommandLine, CompletedShell, CompletionsOptions, ManualOptions};
use crate::failure::Failure;
use crate::output;

/// The program, as shells know it.
const PROGRAM: &str = "crossload";
/// What a manual page says of the program.
const SOURCE: &str = concat!("crossload ", env!("CARGO_PKG_VERSION"));
/// How the text below the options of a command begins, if it has examples.
const EXAMPLES: &str = "Examples:";

/// Prints the completions for a shell.
pub(crate) fn complete(options: &CompletionsOptions) {
    let shell = match options.shell {
        CompletedShell::Bash => Shell::Bash,
        CompletedShell::Zsh => Shell::Zsh,
        CompletedShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut CommandLine::command(), PROGRAM, &mut script);
    output::write_out(&script);
}

/// Writes a page for each command into a directory.
///
/// # Errors
/// The directory cannot be made, or a file in it cannot be written.
pub(crate) fn write_pages(options: &ManualOptions) -> Result<(), Failure> {
    let directory = &options.directory;
    fs::create_dir_all(directory).map_err(|cause| Failure::system(directory.display(), &cause))?;
    for command in pages() {
        let file = directory.join(file_name(&command));
        let written = page(&command).and_then(|page| fs::write(&file, page));
        written.map_err(|cause| Failure::system(file.display(), &cause))?;
    }
    Ok(())
}

/// The commands that have a page: the program, and those that its help shows.
fn pages() -> Vec<clap::Command> {
    let mut program = CommandLine::command().disable_help_subcommand(true);
    program.build();
    let (mut pages, mut waiting) = (Vec::new(), vec![program]);
    while let Some(command) = waiting.pop() {
        waiting.extend(command.get_subcommands().filter(|below| !below.is_hide_set()).cloned());
        pages.push(command);
    }
    pages
}

fn file_name(command: &clap::Command) -> String {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    format!("{name}.1")
}

/// The manual page of a command. What stands below its options keeps its lines, since it has
/// examples.
///
/// # Errors
/// None: it is written into memory.
fn page(command: &clap::Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let described = command.clone().after_help(None::<&'static str>);
    Man::new(described)
        .source(SOURCE)
        .manual("Crossload")
        .render(&mut page)?;
    let Some(below) = command.get_after_help().map(ToString::to_string) else {
        return Ok(page);
    };
    let (title, below) = match below.strip_prefix(EXAMPLES) {
        Some(examples) => ("EXAMPLES", examples.trim_start_matches('\n')),
        None => ("NOTES", below.as_str()),
    };
    let mut section = Roff::new();
    section.control("SH", [title]).control("nf", []);
    for line in below.lines() {
        section.text([roman(line)]);
    }
    section.control("fi", []);
    section.to_writer(&mut page)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The names of a command's pages and of those below it, by its help.
    fn shown(name: &str, command: &clap::Command, all: &mut BTreeSet<String>) {
        all.insert(format!("{name}.1"));
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            shown(&format!("{name}-{}", below.get_name()), below, all);
        }
    }

    #[test]
    fn every_command_has_a_page_with_its_options() {
        let mut expected = BTreeSet::new();
        shown(PROGRAM, &CommandLine::command(), &mut expected);
        let pages = pages();
        let written: BTreeSet<String> = pages.iter().map(file_name).collect();
        assert_eq!(written, expected);
        assert!(written.contains("crossload-queue-submit.1"), "{written:?}");
        for command in &pages {
            let name = file_name(command);
            let text = String::from_utf8(page(command).unwrap()).unwrap();
            for section in [".SH NAME", ".SH SYNOPSIS"] {
                assert!(text.contains(section), "{name}: {section}");
            }
            let options = command.get_arguments().filter(|option| !option.is_hide_set());
            for option in options.filter_map(clap::Arg::get_long) {
                let escaped = format!("\\-\\-{}", option.replace('-', "\\-"));
                assert!(text.contains(&escaped), "{name}: --{option}");
            }
            let has_more = [".SH EXAMPLES", ".SH NOTES"]
                .iter()
                .any(|section| text.contains(section));
            assert_eq!(has_more, command.get_after_help().is_some(), "{name}");
        }
    }

    #[test]
    fn completions_know_commands_and_options() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut CommandLine::command(), PROGRAM, &mut script);
            let script = String::from_utf8(script).unwrap();
            for needed in ["webhooks", "token-file", "report-cacert"] {
                assert!(script.contains(needed), "{shell}: {needed}");
            }
        }
    }
}
