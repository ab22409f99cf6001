//! Command lines of users and scripts, and the help.

use super::client::{Delegate, by_variable};
use super::ends::Amount;
use super::*;
use clap::CommandFactory;
use remote::Delegation;

fn parse(line: &str) -> Result<Command, clap::Error> {
    CommandLine::of(line.split_whitespace().map(OsString::from)).map(|parsed| parsed.command)
}

fn copy(line: &str) -> CopyOptions {
    match parse(&format!("crossload copy {line}")) {
        Ok(Command::Copy(options)) => *options,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_description_is_consistent() {
    CommandLine::command().debug_assert();
}

#[test]
fn gfals_letters_mean_the_same_here() {
    let options = copy("-f -p -r -n 4 -K adler32:1abc -t 60 -C job=7 --copy-mode push --scitag 66 a b");
    assert!(options.force && options.parent && options.recursive);
    assert_eq!(
        (
            options.transfer.nbstreams,
            options.transfer.mode,
            options.transfer.scitag
        ),
        (Some(4), Mode::Push, Some(66))
    );
    assert_eq!(options.common.timeout, Some(std::time::Duration::from_secs(60)));
    assert_eq!(options.common.client_info, ["job=7"]);
    let wish = options.transfer.checksum.expect("a checksum");
    assert_eq!(wish.value.map(|value| value.to_hex()).as_deref(), Some("00001abc"));
    assert_eq!(
        copy("-K SHA256 a b").transfer.checksum.and_then(|wish| wish.value),
        None
    );
    assert_eq!(copy("--copy-mode streamed a b").transfer.mode, Mode::Stream);
}

/// What gfal's tools and xrdcp take, by our command.
const HABITS: [(&str, &str); 11] = [
    (
        "copy a b",
        "-V|-4|-6|-v -vv|-D BDII:ENABLED=false|-E cert|-E cert --key key|-T 60|--transfer-timeout 60|-n 2|\
         --tcp-buffersize 65536|-K ADLER32|--checksum-mode both|--copy-mode pull|--just-copy|--no-delegation|\
         --disable-cleanup|-r|-f|-p|--abort-on-failure|--dry-run|-s|--silent|-S 4|--streams 4|-C adler32|-C auto|\
         -C md5:print|-N|--nopbar|-P|--posc|--continue|-T first|--tpc first|--parallel 4|--retry 3|\
         -A|--allow-http|--cksum adler32|--cksum auto|--cksum md5:source|-F|--coerce|-d 3|--debug 0|-Z|--dynamic-src|\
         --notlsok|--retry-policy force|--rm-bad-cksum|-y 4|--sources 4|--tlsmetalink|--tlsnodata|--tpc delegate first|\
         -X 10m|--xrate 1g|--zip-mtln-cksum|-np|-adler|-md5|-version|\
         --from-file list|-I list|--infiles list",
    ),
    (
        "ls a",
        "-1|-a|-l|-d|-H|--full-time|--time-style full-iso|--color always",
    ),
    ("rm a", "-r|-R|--dry-run|--just-delete|--bulk|--from-file list"),
    ("mkdir a", "-p|-m 0700"),
    ("cat a", "-b"),
    ("sum a ADLER32", "-v"),
    ("rename a b", "-t 60"),
    ("bringonline a", "--pin-lifetime 60|--from-file list"),
    ("archivepoll a", "--from-file list"),
    ("head a", "-1|-20"),
    ("find a", "-name b|-type file"),
];

/// Command lines of other programs, and ours for the same.
const SCRIPTS: [(&str, &str); 27] = [
    ("gfal-copy -r a b", "copy -r a/ b"),
    ("gfal-copy -p a/ b", "copy -p a/ b"),
    ("gfal-save a", "copy -q - a"),
    ("gfal-rename a b", "mv a b"),
    ("gfal-sum a ADLER32", "sum a ADLER32"),
    ("gfal-xattr a", "xattr ls a"),
    ("gfal-xattr -t 5 a user.b", "xattr get -t 5 a b"),
    ("gfal-xattr root://h//a user.b=c", "xattr set root://h//a user.b c"),
    ("xrdcp -r -t 3 root://h//a/ b", "copy -p -r --retries 3 root://h//a b"),
    ("xrdcp -t5 -E a b", "copy -p --retries 5 a b"),
    ("xrdcp -r root://h// b", "copy -p -r root://h// b"),
    ("xrdfs h", "shell root://h//"),
    ("xrdfs h ls", "ls -a --names path root://h//"),
    (
        "xrdfs root://h:1094/ ls -l -u /a",
        "ls -a --names url -l root://h:1094//a",
    ),
    (
        "xrdfs roots://h mkdir -p -mrwxr-x--- /a/b",
        "mkdir -p -m 750 roots://h//a/b",
    ),
    ("xrdfs h mkdir /a", "mkdir -m 750 root://h//a"),
    ("xrdfs h rm /a /b", "rm -q root://h//a root://h//b"),
    ("xrdfs h rmdir /a", "rm -q --rmdir root://h//a"),
    ("xrdfs h mv /a /b", "mv -f root://h//a root://h//b"),
    ("xrdfs h stat a", "stat root://h//a"),
    ("xrdfs h spaceinfo /", "df root://h//"),
    (
        "xrdfs h query checksum /a?cks.type=md5",
        "sum --without-name -a md5 root://h//a",
    ),
    ("xrdfs h tail /a", "tail -c 512 root://h//a"),
    ("xrdfs h tail -c 9 /a", "tail -c 9 root://h//a"),
    ("xrdfs h chmod /a rwxr-x--x", "chmod 751 root://h//a"),
    ("xrdfs h xattr /a set b=c", "xattr set root://h//a b c"),
    ("xrdfs h prepare -s /a /b", "stage root://h//a root://h//b"),
];

#[test]
fn command_lines_of_other_programs_become_ours() {
    // Options that say which program it was are gone when they have done their work.
    let translated = |line: &str| match parse(&format!("crossload {line}")) {
        Ok(Command::Copy(options)) => format!("{:?}", options.translated().expect(line).0),
        other => format!("{:?}", other.expect(line)),
    };
    for (theirs, ours) in SCRIPTS {
        assert_eq!(translated(theirs), translated(ours), "{theirs}");
    }
    for (line, words) in [
        ("gfal-token a", "crossload token macaroon"),
        ("xrdcp --proxy h:1080 a b", "SOCKS"),
        ("xrdfs", "give a server"),
        ("xrdfs h locate /a", "crossload why"),
        ("xrdfs h ls -C /a", "-C is not supported"),
        ("xrdfs h query config version", "only checksum and space"),
        ("xrdfs h chmod /a wxr------", "rwxr-x--x"),
    ] {
        let error = parse(&format!("crossload {line}")).expect_err(line).to_string();
        assert!(error.contains(words), "{line}: {error}");
    }
    let Ok(Command::Copy(chain)) = parse("crossload gfal-copy a b c") else {
        panic!("a copy");
    };
    let refused = chain.translated().expect_err("a chain").words;
    assert!(refused.contains("a command for each"), "{refused}");
}

#[test]
fn options_of_gfal_and_xrdcp_are_taken() {
    for (command, options) in HABITS {
        for option in options.split('|') {
            let line = format!("crossload {command} {option}");
            match parse(&line) {
                Ok(Command::Copy(options)) => drop(options.translated().expect(&line)),
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), clap::error::ErrorKind::DisplayVersion, "{line}: {error}"),
            }
        }
    }
}

#[test]
fn what_has_no_counterpart_is_refused_in_words() {
    for (line, words) in [
        ("copy -S TOKEN a b", "space tokens"),
        ("copy --src-spacetoken TOKEN a b", "space tokens"),
        ("copy --dst-spacetoken TOKEN a b", "space tokens"),
        ("copy -T delegate a b", "\"delegate only\""),
        ("copy -D proxy:1080 a b", "SOCKS"),
        ("copy -DSStreamTimeout 10 a b", "leave them out"),
        ("copy --cksum zcrc32 a b", "adler32, crc32c, md5, sha-256"),
        ("copy --xrate fast a b", "10m"),
        ("copy -D X509:CERT=a a b", "--cert"),
        ("copy -D CORE:CHECKSUM_TIMEOUT=1 a b", "gfal2"),
        ("ls --xattr user.status a", "crossload xattr get"),
        ("mkdir -m u+x a", "octal"),
    ] {
        let error = parse(&format!("crossload {line}")).expect_err(line).to_string();
        assert!(error.contains(words), "{line}: {error}");
    }
    let unknown = parse("crossload tree -d a").expect_err("no such option").to_string();
    assert!(!unknown.contains("as a value"), "{unknown}");
    for (line, words) in [
        ("--evict a b", "crossload evict"),
        ("-s TOKEN root://a//f root://b//f", "space tokens"),
        ("-K md5 -C adler32 a b", "-C and -K"),
        ("-K md5 --cksum adler32 a b", "--cksum and --checksum"),
        ("--xattr a b", "crossload xattr get"),
        ("-z f a b", "unpack it"),
        ("--zip-append a b", "unpack it"),
        ("--xrate-threshold 1m a b", "--timeout"),
        ("--server a b", "crossload serve"),
        ("-H a b", "LICENSE"),
        ("-OSx=y a b", "at the end of the URL"),
        ("-T delegate only -k root://a//f root://b//f", "leave out -k"),
    ] {
        let refused = copy(line).translated().map(drop).expect_err(line);
        assert!(refused.words.contains(words), "{line}: {}", refused.words);
    }
}

#[test]
fn a_mistyped_checksum_is_refused() {
    for (line, words) in [
        ("copy -C adler23 a b", "not one of adler32"),
        ("copy -C adler32:xyz a b", "\"xyz\" is not"),
        ("xrdcp -C foo:print a b", "not one of adler32"),
        ("xrdcp -C foo=1 a b", "-C foo=1: not one of adler32"),
    ] {
        let Ok(Command::Copy(options)) = parse(&format!("crossload {line}")) else {
            panic!("{line} is not understood");
        };
        let refused = options.translated().expect_err(line);
        assert_eq!(refused.exit_code, 22, "{line}");
        assert!(refused.words.contains(words), "{line}: {}", refused.words);
    }
    let Ok(Command::Copy(options)) = parse("crossload gfal-copy -C adler23 a b") else {
        panic!("not understood");
    };
    assert_eq!(options.translated().expect("a text").0.common.client_info, ["adler23"]);
}

#[test]
fn options_of_xrdcp_do_what_they_say() {
    let (options, notices) = copy("-s -S 4 -C adler32:1abc -C job=7 -T only -t 3 root://a//f root://b//f")
        .translated()
        .expect("fine");
    assert!(
        options.transfer.quiet && notices[0].contains("--retries"),
        "{notices:?}"
    );
    assert_eq!(options.common.client_info, ["job=7"]);
    assert_eq!(
        (options.transfer.nbstreams, options.transfer.mode),
        (Some(4), Mode::Pull)
    );
    let wish = options.transfer.checksum.expect("a checksum");
    assert_eq!(wish.value.map(|value| value.to_hex()).as_deref(), Some("00001abc"));
    let (options, _) =
        copy("--cksum md5:0123456789abcdef0123456789abcdef -d 2 -X 10m root://a//f root://b//f -T delegate only")
            .translated()
            .expect("fine");
    assert_eq!(options.places, ["root://a//f", "root://b//f"]);
    assert_eq!((options.common.verbose, options.transfer.bwlimit), (2, Some(10 << 20)));
    assert_eq!(
        (options.transfer.mode, options.transfer.delegate),
        (Mode::Pull, Some(Delegate::First))
    );
    let wish = options.transfer.checksum.expect("a checksum");
    assert_eq!(wish.algorithm.name(), "md5");
    assert!(wish.value.is_some());
    for nowhere in ["/dev/null", "file:///dev/null"] {
        let (options, _) = copy(&format!("root://a//f {nowhere}")).translated().expect("fine");
        assert_eq!((options.places[1].as_str(), options.transfer.discards), ("-", true));
    }
    // What follows the end of the options is a place.
    assert_eq!(copy("-f -- -np a").places, ["-np", "a"]);
    let (options, notices) = copy("--just-copy --no-delegation -T 60 a b")
        .translated()
        .expect("fine");
    assert!(options.transfer.just_copy && notices.is_empty());
    assert_eq!(options.transfer.verify, Some(Verify::Never));
    assert_eq!(options.transfer.delegate, Some(Delegate::Never));
    assert_eq!(options.common.timeout, Some(std::time::Duration::from_secs(60)));
}

#[test]
fn delegation_is_asked_for_by_the_option_or_the_variable() {
    for (line, wish) in [
        ("a b", None),
        ("--delegate a b", Some(Delegate::First)),
        ("--delegate=first a b", Some(Delegate::First)),
        ("--delegate=only a b", Some(Delegate::Only)),
        ("--delegate=never a b", Some(Delegate::Never)),
    ] {
        assert_eq!(copy(line).transfer.delegate, wish, "{line}");
    }
    for (value, insecure, wanted) in [
        (None, false, Delegation::Never),
        (Some("0"), false, Delegation::Never),
        (Some("1"), false, Delegation::First),
        // XRootD's client would send the key.
        (Some("2"), false, Delegation::First),
        (Some("1"), true, Delegation::Never),
    ] {
        assert_eq!(by_variable(value, insecure), wanted, "{value:?} {insecure}");
    }
}

#[test]
fn contradictions_and_impossible_values_are_refused() {
    for line in [
        "crossload copy --delegate=always a b",
        "crossload copy --delegate -k a b",
        "crossload copy",
        "crossload copy --min-size large a b",
        "crossload copy --max-age old a b",
        "crossload copy -f --update a b",
        "crossload sync a",
        "crossload sync --max-delete 1 a b",
        "crossload compare a",
        "crossload copy -n 0 a b",
        "crossload copy -K crc a b",
        "crossload copy -K adler32:xyz a b",
        "crossload copy -t never a b",
        "crossload serve",
        "crossload serve d --cert c",
        "crossload serve --config c --write",
        "crossload serve d --path a/../b",
        "crossload demo --size huge",
        "crossload sum -a sha-3 f",
        "crossload sum",
        "crossload chmod 888 f",
        "crossload chmod 1777 f",
        "crossload chmod 640",
        "crossload sum -c list f",
        "crossload token macaroon https://a/",
        "crossload token macaroon https://a/ --activity FLY",
        "crossload queue limits https://a:443 --inbound-rate 500",
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
fn the_algorithm_of_sum_is_an_option_or_the_last_word() {
    for (line, count, algorithm) in [
        ("f", 1, "adler32"),
        ("f MD5", 1, "md5"),
        ("f g crc32c", 2, "crc32c"),
        ("md5", 1, "adler32"),
        ("-a sha256 f md5", 2, "sha-256"),
        ("--from-file /dev/null md5", 0, "md5"),
    ] {
        let Ok(Command::Sum(options)) = parse(&format!("crossload sum {line}")) else {
            panic!("{line}");
        };
        let (places, wanted) = options.wanted();
        let places = places.all().expect("they can be read").count();
        assert_eq!((places, wanted.name()), (count, algorithm), "{line}");
    }
}

#[test]
fn sum_knows_which_algorithms_it_does_not_know() {
    for (line, unknown) in [
        ("f sha1", Some("sha1")),
        ("f CRC32", Some("CRC32")),
        ("f md5", None),
        ("sha1", None),
    ] {
        let Ok(Command::Sum(options)) = parse(&format!("crossload sum {line}")) else {
            panic!("{line}");
        };
        assert_eq!(options.unknown_algorithm(), unknown, "{line}");
    }
}

#[test]
fn head_counts_bytes_as_others_do() {
    let Ok(Command::Head(options)) = parse("crossload head -c 1K f") else {
        panic!("not understood");
    };
    let amount = |count, is_start| Amount { count, is_start };
    assert_eq!(options.bytes, Some(amount(1024, false)));
    for (line, lines, bytes) in [
        ("tail f", amount(10, false), None),
        ("tail -n +5 f", amount(5, true), None),
        ("tail -c +1K f", amount(10, false), Some(amount(1024, true))),
    ] {
        let Ok(Command::Tail(options)) = parse(&format!("crossload {line}")) else {
            panic!("{line} is not understood");
        };
        assert_eq!((options.lines, options.bytes), (lines, bytes), "{line}");
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
    let help = CommandLine::command().term_width(100).render_help().to_string();
    for name in [
        "serve",
        "copy",
        "sync",
        "compare",
        "ls",
        "du",
        "df",
        "find",
        "tree",
        "stat",
        "sum",
        "mkdir",
        "rm",
        "cleanup",
        "touch",
        "chmod",
        "xattr",
        "mv",
        "cat",
        "head",
        "tail",
        "stage",
        "evict",
        "archived",
        "stdio",
        "token",
        "explain",
        "check",
        "backup",
        "restore",
        "upgrade",
        "smoke",
        "mesh",
        "stress",
        "bench",
        "cache",
        "config",
        "completions",
        "demo",
        "queue",
    ] {
        assert!(
            help.lines()
                .any(|line| line.trim_start().starts_with(&format!("{name} "))),
            "{name}:\n{help}"
        );
    }
}

/// Every command with the commands below it.
fn all_commands() -> Vec<clap::Command> {
    let mut waiting = vec![CommandLine::command()];
    let mut all = Vec::new();
    while let Some(command) = waiting.pop() {
        waiting.extend(command.get_subcommands().cloned());
        all.push(command);
    }
    all
}

/// The options of the programs of FTS's client (`fts3/cli`, 3.14), by our command.
const FTS_OPTIONS: [(&str, &str); 7] = [
    (
        "submit a b",
        "-b|--blocking|-i 1|--interval 1|-e 9|--expire 9|--delegate-when-lifetime-lt 9|-o|--overwrite|\
         --overwrite-on-retry|--overwrite-when-only-on-disk|--overwrite-hop|-r|--reuse|--job-metadata {}|\
         --file-metadata {}|--staging-metadata {}|--archive-metadata {}|--file-size 1|-g x|--gparam x|-t x|\
         --destination-spacetoken x|-S x|--source-spacetoken x|-K|--compare-checksum|-C both|--checksum-mode both|\
         --copy-pin-lifetime -1|--bring-online -1|--dst-file-report|--archive-timeout -1|--timeout 9|\
         --fail-nearline|--dry-run|--retry 1|-p 3|--priority 3|-m|--multi-hop|--cloud-credentials x|\
         --nostreams 1|--ipv4|--ipv6|--s3alternate|--buffer-size 1|--buff-size 1|--strict-copy|\
         --disable-cleanup|--activity x|--scitag 65|--src-access-token x|--dst-access-token x|--unmanaged-tokens",
    ),
    ("submit", "-f x|--file x"),
    ("delegate", "-f|--force|-H 1|--hours 1|--legacy-mode"),
    ("cancel j", ""),
    ("status j", ""),
    ("list", "-u x|--userdn x|-o x|--voname x|--source x|--destination x"),
    (
        "ban",
        "--storage x|--user x|--unban|--status WAIT|--status CANCEL|--timeout 1|--allow-submit",
    ),
];
/// Those that all of these programs have.
const FTS_COMMON_OPTIONS: &str = "-v|--verbose|-s x|--endpoint x|-j|--json|--cert x --key x|--capath x|--insecure|\
     --access-token x|--fts-access-token x";

#[test]
fn the_options_of_ftss_client_are_known() {
    for (command, options) in FTS_OPTIONS {
        // `submit` needs a source or a file.
        let common = FTS_COMMON_OPTIONS.split('|').filter(|_| command != "submit");
        for option in options.split('|').chain(common) {
            let line = format!("crossload queue {command} {option}");
            if let Err(error) = parse(&line) {
                panic!("{line}: {error}");
            }
        }
    }
    let line = "crossload queue whoami --access-token secret";
    let Ok(Command::Queue(action)) = parse(line) else {
        panic!("{line}")
    };
    let token = action.common().and_then(|common| common.access.token);
    assert_eq!(token.expect("a token").expose(), "secret");
}

#[test]
fn each_example_is_a_valid_command_line() {
    let mut examples = 0;
    for command in all_commands() {
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let joined = after.replace("\\\n", " ");
        for line in joined.lines().filter(|line| line.starts_with("  crossload ")) {
            if let Err(error) = parse(line) {
                panic!("{line}: {error}");
            }
            examples += 1;
        }
    }
    assert!(examples > 20, "{examples}");
}

#[test]
fn help_names_all_places_that_a_command_takes() {
    for name in [
        "copy", "sync", "compare", "ls", "du", "find", "tree", "stat", "sum", "mkdir", "rm", "mv", "cat", "head",
        "tail", "touch", "shell",
    ] {
        let mut whole = CommandLine::command();
        let help = whole
            .find_subcommand_mut(name)
            .expect(name)
            .render_long_help()
            .to_string();
        assert!(help.contains("NAME:PATH"), "{name}: {help}");
    }
    let help = CommandLine::command().render_long_help().to_string();
    assert!(help.contains("s3s") && help.contains("NAME:PATH"), "{help}");
}

#[test]
fn help_fits_in_the_terminal_and_in_100_columns() {
    // clap takes the smaller of the terminal's width and the limit; `term_width` stands for both.
    for width in [80, 100] {
        for command in all_commands() {
            let mut command = command.term_width(width);
            let help = command.render_long_help().to_string();
            for line in help.lines() {
                assert!(line.chars().count() <= width, "{}: {line}", command.get_name());
            }
            // An example can be copied as it is.
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in after.lines().filter(|line| line.starts_with("  ")) {
                assert!(help.lines().any(|shown| shown == line), "{line}:\n{help}");
            }
        }
    }
}

#[test]
fn an_option_of_several_commands_has_the_same_words() {
    for name in ["verbose", "json", "insecure", "cacert", "activity", "for"] {
        let mut words = Vec::new();
        for command in all_commands() {
            // The loads of `bench` write --json to a file, and `serve` trusts --cacert at peers
            // only.
            let options = command.get_arguments().filter(|option| option.get_long() == Some(name));
            let alike = options.filter(|option| match name {
                "json" => !option.get_action().takes_values(),
                // An activity of FTS is a share, not a right.
                "activity" => command.get_name() != "submit",
                _ => command.get_name() != "serve",
            });
            words.extend(alike.filter_map(|option| option.get_help().map(ToString::to_string)));
        }
        assert!(words.len() > 1, "{name}");
        words.dedup();
        assert_eq!(words.len(), 1, "{words:?}");
    }
}

#[test]
fn a_command_with_many_options_groups_them() {
    for command in all_commands() {
        let ungrouped = command
            .get_arguments()
            .filter(|argument| !argument.is_positional() && argument.get_help_heading().is_none());
        assert!(ungrouped.count() <= 10, "{}", command.get_name());
    }
}
