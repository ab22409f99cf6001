//! Words of other programs that no option can be declared for, in our spelling.

use std::ffi::OsString;

/// Respells what clap does not take. The first argument is the name of the program.
///
/// - xrdcp: `-T delegate only`, and the older `-np`, `-adler`, `-md5` and `-version`
/// - `head -1` and `tail -1`
/// - `find -name` and `-type`
pub(super) fn in_our_spelling(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut given = arguments.into_iter();
    let mut spelled: Vec<OsString> = given.by_ref().take(2).collect();
    let command = spelled.get(1).and_then(|word| word.to_str()).unwrap_or_default();
    let respell: fn(&str) -> Vec<String> = match command {
        "copy" | "cp" | "put" => of_xrdcp,
        "head" | "tail" => of_coreutils,
        "find" => of_find,
        _ => |_| Vec::new(),
    };
    let is_copy = matches!(command, "copy" | "cp" | "put");
    for word in given.by_ref() {
        if word == "--" {
            spelled.push(word);
            break;
        }
        if is_copy && matches!(word.to_str(), Some("first" | "only")) && ends_with_delegate(&spelled) {
            let joined = format!("delegate-{}", word.to_string_lossy());
            spelled.pop();
            spelled.push(joined.into());
            continue;
        }
        match word.to_str().map(respell).unwrap_or_default() {
            ours if ours.is_empty() => spelled.push(word),
            ours => spelled.extend(ours.into_iter().map(OsString::from)),
        }
    }
    spelled.extend(given);
    spelled
}

fn ends_with_delegate(spelled: &[OsString]) -> bool {
    matches!(spelled, [.., option, word] if (option == "-T" || option == "--tpc") && word == "delegate")
}

fn of_xrdcp(word: &str) -> Vec<String> {
    let ours: &[&str] = match word {
        "-np" => &["--nopbar"],
        "-adler" => &["--cksum", "adler32"],
        "-md5" => &["--cksum", "md5"],
        "-version" => &["--version"],
        _ => &[],
    };
    ours.iter().map(|word| (*word).to_owned()).collect()
}

fn of_coreutils(word: &str) -> Vec<String> {
    let is_count = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match word.strip_prefix('-').filter(is_count) {
        Some(count) => vec!["-n".to_owned(), count.to_owned()],
        None => Vec::new(),
    }
}

fn of_find(word: &str) -> Vec<String> {
    match word {
        "-name" | "-type" => vec![format!("-{word}")],
        _ => Vec::new(),
    }
}
