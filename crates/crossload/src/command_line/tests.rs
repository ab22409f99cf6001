//! Command lines as people and scripts write them.

use super::client::Mode;
use super::*;
use clap::CommandFactory;

fn parse(line: &str) -> Result<Command, clap::Error> {
    CommandLine::try_parse_from(line.split_whitespace()).map(|parsed| parsed.command)
}

fn copy(line: &str) -> CopyOptions {
    match parse(&format!("crossload copy {line}")) {
        Ok(Command::Copy(options)) => options,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_description_is_sound() {
    CommandLine::command().debug_assert();
}

#[test]
fn gfals_letters_mean_the_same_here() {
    let options = copy("-f -p -r -n 4 -K adler32:1abc -t 60 -C job=7 --copy-mode push --scitag 66 a b");
    assert!(options.force && options.parent && options.recursive);
    assert_eq!(
        (options.nbstreams, options.mode, options.scitag),
        (Some(4), Mode::Push, Some(66))
    );
    assert_eq!(options.common.timeout, Some(std::time::Duration::from_secs(60)));
    assert_eq!(options.common.client_info, ["job=7"]);
    let wish = options.checksum.expect("a checksum");
    assert_eq!(wish.value.map(|value| value.to_hex()).as_deref(), Some("00001abc"));
    assert_eq!(copy("-K SHA256 a b").checksum.and_then(|wish| wish.value), None);
    assert_eq!(copy("--copy-mode streamed a b").mode, Mode::Stream);
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for line in [
        "crossload copy",
        "crossload copy -n 0 a b",
        "crossload copy -K crc a b",
        "crossload copy -K adler32:xyz a b",
        "crossload copy -t never a b",
        "crossload serve",
        "crossload serve d --cert c",
        "crossload serve --config c --write",
        "crossload serve d --path a/../b",
        "crossload demo --size huge",
        "crossload sum f sha-3",
        "crossload token macaroon https://a/",
        "crossload token macaroon https://a/ --activity FLY",
        "crossload explain",
        "crossload explain 1a2b",
        "crossload explain 1a2b --admin http://h:1 --op read --path /a",
        "crossload explain --admin http://h:1 --op read --path /a",
        "crossload explain --op read",
        "crossload explain --op rename --path /a",
        "crossload explain --op fly --path /a",
        "crossload token attenuate --for 0",
        "crossload token attenuate --ip here",
    ] {
        let error = parse(line).expect_err(line);
        assert_eq!(error.exit_code(), 2, "{line}");
    }
}

#[test]
fn a_directory_is_served_without_a_file() {
    let Ok(Command::Serve(options)) = parse("crossload serve /d --listen 127.0.0.1:0 --listen [::1]:0 --write") else {
        panic!("not understood");
    };
    assert_eq!(options.listen.len(), 2);
    assert!(options.write && options.config.is_none());
}

#[test]
fn the_help_names_every_command() {
    let help = CommandLine::command().render_help().to_string();
    for name in [
        "serve", "copy", "ls", "stat", "sum", "mkdir", "rm", "mv", "cat", "token", "explain", "config", "demo",
    ] {
        assert!(
            help.lines()
                .any(|line| line.trim_start().starts_with(&format!("{name} "))),
            "{name}:\n{help}"
        );
    }
}
