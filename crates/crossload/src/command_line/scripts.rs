//! Command lines of other programs with `crossload` in front: `crossload gfal-copy …`, `crossload
//! xrdcp …` and `crossload xrdfs HOST …` do what these programs do, for scripts that were written
//! for them. `docs/compare.md` lists what is refused.

use std::ffi::OsString;

use super::habits::{NO_SOCKS_PROXY, permissions};

/// Options of gfal's tools that have a value, apart from those of gfal-copy.
const GFAL_VALUED: [&str; 12] = [
    "-D",
    "--definition",
    "-t",
    "--timeout",
    "-E",
    "--cert",
    "--key",
    "-C",
    "--client-info",
    "--log-file",
    "--cacert",
    "--capath",
];

/// How many bytes `xrdfs tail` prints if it is not told.
const XRDFS_TAIL_BYTES: &str = "512";

/// Permissions of the directories that `xrdfs mkdir` makes if it is not told.
const XRDFS_DIRECTORY_MODE: &str = "rwxr-x---";

/// The command of ours for a command line of another program. The first argument is the name of
/// our program; command lines of ours stay as they are.
///
/// # Errors
/// What this program does not do, and what to use instead.
pub(super) fn in_our_commands(arguments: Vec<OsString>) -> Result<Vec<OsString>, String> {
    let Some(tool) = arguments.get(1).and_then(|word| word.to_str()).filter(is_foreign) else {
        return Ok(arguments);
    };
    let words: Option<Vec<String>> = arguments[2..]
        .iter()
        .map(|word| Some(word.to_str()?.to_owned()))
        .collect();
    let words = words.ok_or("an argument is not UTF-8")?;
    let ours = match tool {
        "xrdcp" | "xrdcopy" => of_xrdcp(words)?,
        "xrdfs" => of_xrdfs(words)?,
        gfal => of_gfal(gfal, words)?,
    };
    let program = arguments.into_iter().take(1);
    Ok(program.chain(ours.into_iter().map(OsString::from)).collect())
}

fn is_foreign(word: &&str) -> bool {
    matches!(*word, "xrdcp" | "xrdcopy" | "xrdfs") || word.starts_with("gfal-")
}

/// Words that may be borrowed, as a command line.
fn line<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

fn of_gfal(tool: &str, words: Vec<String>) -> Result<Vec<String>, String> {
    let command = match tool.trim_start_matches("gfal-") {
        "copy" => return Ok([line(["copy", "--tree-rule=gfal"]), words].concat()),
        "save" => return Ok([line(["copy", "--quiet", "-"]), words].concat()),
        "xattr" => return of_gfal_xattr(words),
        "ls" => return Ok([line(["ls", "--gfal-columns"]), words].concat()),
        "evict" => return of_gfal_evict(words),
        "rename" => "mv",
        "bringonline" => "stage",
        "archivepoll" => "archived",
        same @ ("rm" | "sum" | "mkdir" | "stat" | "cat" | "chmod") => same,
        "token" => return Err(format!("{tool}: use crossload token macaroon")),
        _ => return Err(format!("{tool}: no tool of gfal that this program replaces")),
    };
    Ok([line([command]), words].concat())
}

/// `gfal-evict FILE` and `FILE REQUEST`.
fn of_gfal_evict(words: Vec<String>) -> Result<Vec<String>, String> {
    let (options, operands) = apart(words, &GFAL_VALUED);
    let ours = match operands.as_slice() {
        [place] => line(["evict", place]),
        [place, request] => line(["evict", "--request", request, place]),
        _ => return Err("gfal-evict: give a file, and the token of the request if the storage wants it".to_owned()),
    };
    Ok([ours, options].concat())
}

/// `gfal-xattr FILE`, `FILE NAME` and `FILE NAME=VALUE`.
fn of_gfal_xattr(words: Vec<String>) -> Result<Vec<String>, String> {
    let (options, operands) = apart(words, &GFAL_VALUED);
    let ours = match operands.as_slice() {
        [place] => line(["ls", place]),
        [place, attribute] => {
            // The system's own name; ours are those of this namespace.
            let is_local = !place.contains("://") || place.starts_with("file:");
            let name = attribute
                .strip_prefix("user.")
                .filter(|_| is_local)
                .unwrap_or(attribute);
            match name.split_once('=') {
                Some((name, value)) => line(["set", place, name, value]),
                None => line(["get", place, name]),
            }
        }
        _ => return Err("gfal-xattr: give a file, and at most one attribute".to_owned()),
    };
    Ok([line(["xattr"]), ours, options].concat())
}

/// Options with their values, and the other words.
fn apart(words: Vec<String>, valued: &[&str]) -> (Vec<String>, Vec<String>) {
    let (mut options, mut operands) = (Vec::new(), Vec::new());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if !word.starts_with('-') || word.len() == 1 {
            operands.push(word);
            continue;
        }
        let has_value = valued.contains(&word.as_str());
        options.push(word);
        if has_value {
            options.extend(words.next());
        }
    }
    (options, operands)
}

/// The `-t` of xrdcp is a number of retries, and its `-E` has no value.
fn of_xrdcp(words: Vec<String>) -> Result<Vec<String>, String> {
    let mut ours = line(["copy", "--tree-rule=xrdcp"]);
    for word in words {
        match word.as_str() {
            "-E" => {}
            "--path" => ours.push("-p".to_owned()),
            "-R" => ours.push("-r".to_owned()),
            "-t" => ours.push("--retries".to_owned()),
            proxy if proxy.starts_with("-D") || proxy.starts_with("--proxy") => return Err(NO_SOCKS_PROXY.to_owned()),
            other => match other.strip_prefix("-t").filter(|count| count.parse::<u32>().is_ok()) {
                Some(count) => ours.push(format!("--retries={count}")),
                None => ours.push(word),
            },
        }
    }
    Ok(ours)
}

/// A server of `xrdfs`.
struct Server {
    scheme: String,
    address: String,
}

impl Server {
    /// `HOST`, `HOST:PORT` or a URL without a path.
    fn parse(text: &str) -> Self {
        let (scheme, address) = text.split_once("://").unwrap_or(("root", text));
        Self {
            scheme: scheme.trim_start_matches('x').to_owned(),
            address: address.trim_end_matches('/').to_owned(),
        }
    }

    fn url(&self, path: &str) -> String {
        let (scheme, address) = (&self.scheme, &self.address);
        format!("{scheme}://{address}//{}", path.trim_start_matches('/'))
    }

    fn urls(&self, paths: &[String]) -> Vec<String> {
        paths.iter().map(|path| self.url(path)).collect()
    }
}

fn of_xrdfs(words: Vec<String>) -> Result<Vec<String>, String> {
    let mut words = words.into_iter().filter(|word| word != "--no-cwd");
    let server = words.next().ok_or("xrdfs: give a server")?;
    let server = Server::parse(&server);
    let Some(command) = words.next() else {
        return Ok(line(["shell", &server.url("/")]));
    };
    let (flags, paths) = apart(
        words.collect(),
        &["-c", "-a", "-p"].map(|option| match command.as_str() {
            "tail" | "prepare" => option,
            _ => "",
        }),
    );
    let refused = |instead: &str| Err(format!("xrdfs {command}: {instead}"));
    if let Some(flag) = flags.iter().find(|flag| !is_taken(&command, flag)) {
        return refused(&format!("{flag} is not supported"));
    }
    let has = |flag: &str| flags.iter().any(|given| given == flag);
    let urls = server.urls(&paths);
    let with = |start: Vec<String>| [start, urls.clone()].concat();
    Ok(match command.as_str() {
        "ls" => {
            let names = if has("-u") { "--names=url" } else { "--names=path" };
            let mut ours = line(["ls", "--all", names]);
            ours.extend(
                flags
                    .iter()
                    .filter(|flag| matches!(flag.as_str(), "-l" | "-R"))
                    .cloned(),
            );
            match urls.is_empty() {
                true => [ours, vec![server.url("/")]].concat(),
                false => with([ours, line(["--"])].concat()),
            }
        }
        "mkdir" => {
            let mode = flags.iter().find_map(|flag| flag.strip_prefix("-m"));
            let mode = permissions(mode.unwrap_or(XRDFS_DIRECTORY_MODE))?;
            let mut ours = line(["mkdir", "--mode", &mode]);
            ours.extend(has("-p").then(|| "--parents".to_owned()));
            with(ours)
        }
        "rm" => with(line(["rm", "--quiet"])),
        "rmdir" => with(line(["rm", "--quiet", "--rmdir"])),
        "mv" => with(line(["mv", "--force"])),
        "stat" | "cat" => with(line([&command])),
        "statvfs" | "spaceinfo" => with(line(["df"])),
        "tail" => {
            let bytes = flags.get(1).map_or(XRDFS_TAIL_BYTES, String::as_str);
            with(line(["tail", "--bytes", bytes]))
        }
        "chmod" => match paths.as_slice() {
            [path, mode] => line(["chmod", &permissions(mode)?, &server.url(path)]),
            _ => return refused("give a path and permissions such as rwxr-x--x"),
        },
        "query" => return of_query(&server, &paths),
        "xattr" => return of_xrdfs_xattr(&server, &paths),
        "prepare" => match (has("-s"), has("-e"), has("-a")) {
            (true, false, false) => with(line(["stage"])),
            (false, true, false) => with(line(["evict"])),
            _ => return refused("use crossload stage or evict"),
        },
        "locate" => return refused("use crossload why"),
        "truncate" => return refused("copy a part of the file instead"),
        _ => return refused("no such command"),
    })
}

/// Whether an option of a command of `xrdfs` is taken, with its value.
fn is_taken(command: &str, flag: &str) -> bool {
    match command {
        "ls" => matches!(flag, "-l" | "-u" | "-R" | "-D"),
        "mkdir" => flag == "-p" || flag.starts_with("-m"),
        "tail" => flag == "-c" || !flag.starts_with('-'),
        "prepare" => matches!(flag, "-s" | "-e" | "-f" | "-w") || !flag.starts_with('-'),
        _ => false,
    }
}

/// `query checksum PATH[?cks.type=ALG]` and `query space PATH`.
fn of_query(server: &Server, words: &[String]) -> Result<Vec<String>, String> {
    match words {
        [code, path] if code == "checksum" => {
            let (path, algorithm) = path.split_once("?cks.type=").unwrap_or((path, "adler32"));
            Ok(line([
                "sum",
                "--without-name",
                "--algorithm",
                algorithm,
                &server.url(path),
            ]))
        }
        [code, path] if code == "space" => Ok(line(["df", &server.url(path)])),
        _ => Err("xrdfs query: only checksum and space are supported".to_owned()),
    }
}

/// `xattr PATH set NAME=VALUE`, `get NAME`, `del NAME` and `list`.
fn of_xrdfs_xattr(server: &Server, words: &[String]) -> Result<Vec<String>, String> {
    let url = |path: &str| server.url(path);
    match words {
        [path, code] if code == "list" => Ok(line(["xattr", "ls", &url(path)])),
        [path, code, name] if code == "get" => Ok(line(["xattr", "get", &url(path), name])),
        [path, code, name] if code == "del" => Ok(line(["xattr", "rm", &url(path), name])),
        [path, code, pair] if code == "set" => {
            let (name, value) = pair.split_once('=').ok_or("xrdfs xattr: write NAME=VALUE")?;
            Ok(line(["xattr", "set", &url(path), name, value]))
        }
        _ => Err("xrdfs xattr: write PATH set, get, del or list, with one attribute".to_owned()),
    }
}
