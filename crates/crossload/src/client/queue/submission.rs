//! The jobs of a submission, in the form of FTS's REST API: from the command line, or from a list
//! of files. Pure, apart from the files that the user names.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::Path;

use remote::Resource;
use serde_json::{Map, Value, json};
use types::{ErrorCode, Secret};

use super::service::mistake;
use crate::command_line::QueueSubmitOptions;
use crate::failure::Failure;
use crate::limits::QUEUE_LIST_BYTES_MAX;

/// Members of a file that hold credentials.
const TOKENS: [&str; 2] = ["source_tokens", "destination_tokens"];

/// Tokens for the files that have none of their own.
#[derive(Clone, Debug, Default)]
pub(super) struct FileTokens {
    pub(super) source: Option<Secret>,
    pub(super) destination: Option<Secret>,
}

/// A job that can be submitted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Job {
    params: Map<String, Value>,
    files: Vec<Value>,
}

impl Job {
    /// A job of one file, with what opens it at both ends. It is not tried again.
    pub(super) fn of_one(source: &Resource, destination: &Resource) -> Self {
        let mut file = json!({
            "sources": [source.location.to_wire()],
            "destinations": [destination.location.to_wire()],
        });
        for (name, end) in [(TOKENS[0], source), (TOKENS[1], destination)] {
            if let Some(token) = &end.access.bearer {
                file[name] = json!([token.expose()]);
            }
        }
        Self {
            params: members([("retry", Some(Value::from(-1)))]),
            files: vec![file],
        }
    }

    /// The body of the request, under this name: a second job of the same name is refused.
    pub(super) fn body(&self, name: &str) -> Secret {
        let mut params = self.params.clone();
        params.insert("id_generator".to_owned(), "deterministic".into());
        params.insert("sid".to_owned(), name.into());
        Secret::new(json!({"params": params, "files": self.files}).to_string())
    }

    /// The job without credentials, to look at.
    pub(super) fn shown(&self) -> Value {
        let mut files = self.files.clone();
        for file in &mut files {
            for name in TOKENS {
                if let Some(Value::Array(tokens)) = file.get_mut(name) {
                    tokens.iter_mut().for_each(|token| *token = "…".into());
                }
            }
        }
        json!({"params": self.params, "files": files})
    }

    /// The URLs of its files, as [`plain_url`] gives them.
    pub(super) fn urls(&self) -> BTreeSet<String> {
        let of = |file: &Value, name: &str| {
            let urls = file[name].as_array().into_iter().flatten();
            urls.filter_map(Value::as_str).map(plain_url).collect::<Vec<_>>()
        };
        let files = self.files.iter();
        files
            .flat_map(|file| [of(file, "sources"), of(file, "destinations")])
            .flatten()
            .collect()
    }

    /// How many files it has.
    pub(super) fn file_count(&self) -> usize {
        self.files.len()
    }

    /// The tokens of its files.
    pub(super) fn tokens(&self) -> impl Iterator<Item = &str> {
        let lists = self.files.iter().flat_map(|file| TOKENS.map(|name| &file[name]));
        lists.filter_map(Value::as_array).flatten().filter_map(Value::as_str)
    }

    /// Whether some file has no token for one of its ends.
    pub(super) fn lacks_tokens(&self) -> bool {
        let has = |file: &Value, name: &str| file[name].as_array().is_some_and(|tokens| !tokens.is_empty());
        let whole = |file: &Value| TOKENS.iter().all(|name| has(file, name));
        !self.files.iter().all(whole)
    }
}

/// A URL without what a queue may change: the case of its letters, and its query, which may be
/// hidden.
pub(super) fn plain_url(url: &str) -> String {
    let whole = url.split(['?', '#']).next().unwrap_or_default();
    whole.to_ascii_lowercase()
}

/// The jobs that the options ask for.
///
/// # Errors
/// A list that cannot be read, or has no files; a URL that is none.
pub(super) fn jobs(options: &QueueSubmitOptions, tokens: &FileTokens) -> Result<Vec<Job>, Failure> {
    let (mut files, mut params) = match &options.file {
        Some(list) => listed(&read_list(list)?)?,
        None => (files_of(options), Map::new()),
    };
    if files.is_empty() {
        return Err(mistake(ErrorCode::BadRequest, "there are no files to copy").into());
    }
    let defaults = file_defaults(options);
    for file in &mut files {
        complete(file, &defaults, tokens)?;
    }
    params.extend(job_parameters(options));
    let is_chain = params.get("multihop") == Some(&Value::Bool(true));
    let keeps_whole = is_chain || params.get("reuse") == Some(&Value::Bool(true));
    let most = match keeps_whole {
        true => files.len(),
        false => options.files_per_job,
    };
    Ok(split(files, most, is_chain)
        .into_iter()
        .map(|files| Job {
            params: params.clone(),
            files,
        })
        .collect())
}

/// Packs files into jobs of at most `most`. A file with several sources is a job of its own.
fn split(files: Vec<Value>, most: usize, is_chain: bool) -> Vec<Vec<Value>> {
    let has_replicas = |file: &Value| !is_chain && file["sources"].as_array().is_some_and(|sources| sources.len() > 1);
    let (several, single): (Vec<Value>, Vec<Value>) = files.into_iter().partition(has_replicas);
    let mut packed: Vec<Vec<Value>> = single.chunks(most.max(1)).map(<[Value]>::to_vec).collect();
    packed.extend(several.into_iter().map(|file| vec![file]));
    packed
}

/// The files that the arguments name: one, or the hops of a chain.
fn files_of(options: &QueueSubmitOptions) -> Vec<Value> {
    let (Some(source), Some(destination)) = (&options.source, &options.destination) else {
        return Vec::new();
    };
    let file = |sources: Vec<&String>, destination: &String| {
        let mut file = json!({"sources": sources, "destinations": [destination]});
        if let Some(checksum) = &options.checksum {
            file["checksum"] = json!(checksum);
        }
        file
    };
    let stations: Vec<&String> = std::iter::once(source)
        .chain(&options.files.via)
        .chain([destination])
        .collect();
    match options.files.via.is_empty() {
        true => vec![file(
            std::iter::once(source).chain(&options.files.replica).collect(),
            destination,
        )],
        false => stations.windows(2).map(|hop| file(vec![hop[0]], hop[1])).collect(),
    }
}

fn read_list(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = match file.as_os_str() == "-" {
        true => std::io::stdin()
            .take(QUEUE_LIST_BYTES_MAX + 1)
            .read_to_string(&mut text),
        false => {
            std::fs::File::open(file).and_then(|open| open.take(QUEUE_LIST_BYTES_MAX + 1).read_to_string(&mut text))
        }
    };
    match read {
        Ok(bytes) if bytes as u64 <= QUEUE_LIST_BYTES_MAX => Ok(text),
        Ok(_) => Err(mistake(ErrorCode::BadRequest, "the list of files is too long").into()),
        Err(cause) => Err(Failure::system(file.display(), &cause)),
    }
}

/// The files and parameters of a list: JSON as of FTS's client, or lines.
fn listed(text: &str) -> Result<(Vec<Value>, Map<String, Value>), Failure> {
    if !text.trim_start().starts_with('{') {
        return Ok((lines(text)?, Map::new()));
    }
    let bad = |words: String| Failure::from(mistake(ErrorCode::BadRequest, &words));
    let mut whole: Map<String, Value> =
        serde_json::from_str(text).map_err(|cause| bad(format!("the list is not JSON: {cause}")))?;
    let files = match whole.remove("files").or_else(|| whole.remove("Files")) {
        Some(Value::Array(files)) => files,
        _ => return Err(bad("the list has no \"files\"".to_owned())),
    };
    let params = match whole.remove("params") {
        Some(Value::Object(params)) => params,
        None | Some(Value::Null) => Map::new(),
        Some(_) => return Err(bad("\"params\" of the list is no object".to_owned())),
    };
    Ok((files, params))
}

/// Lines with source, destination and perhaps a checksum. Empty lines, and those that begin with
/// `#`, are skipped.
fn lines(text: &str) -> Result<Vec<Value>, Failure> {
    let mut files = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            [first, ..] if first.starts_with('#') => {}
            [source, destination] => files.push(json!({"sources": [source], "destinations": [destination]})),
            [source, destination, checksum] => {
                files.push(json!({"sources": [source], "destinations": [destination], "checksum": checksum}));
            }
            _ => {
                let words = format!("line {} is not SOURCE DESTINATION [CHECKSUM]", number + 1);
                return Err(mistake(ErrorCode::BadRequest, &words).into());
            }
        }
    }
    Ok(files)
}

/// Gives a file what it does not say itself, and checks its URLs.
fn complete(file: &mut Value, defaults: &Map<String, Value>, tokens: &FileTokens) -> Result<(), Failure> {
    let Value::Object(file) = file else {
        return Err(mistake(ErrorCode::BadRequest, "a file of the list is no object").into());
    };
    for (name, value) in defaults {
        file.entry(name.clone()).or_insert_with(|| value.clone());
    }
    for (urls, token_list, token) in [
        ("sources", TOKENS[0], &tokens.source),
        ("destinations", TOKENS[1], &tokens.destination),
    ] {
        let count = check_urls(file.get(urls), urls)?;
        if let Some(token) = token {
            file.entry(token_list)
                .or_insert_with(|| vec![token.expose(); count].into());
        }
    }
    Ok(())
}

fn check_urls(urls: Option<&Value>, name: &str) -> Result<usize, Failure> {
    let urls = urls.and_then(Value::as_array).filter(|urls| !urls.is_empty());
    let urls = urls.ok_or_else(|| mistake(ErrorCode::BadRequest, &format!("a file of the list has no \"{name}\"")))?;
    for url in urls {
        let text = url.as_str().unwrap_or_default();
        // What the scheme means is for the queue to judge: an FTS knows more of them than we do.
        let is_remote = text.contains("://") && !text.starts_with("file:");
        if !is_remote {
            return Err(mistake(ErrorCode::BadUrl, "a queue copies from URL to URL")
                .with_subject(text)
                .into());
        }
    }
    Ok(urls.len())
}

/// What a file has if it says nothing else.
fn file_defaults(options: &QueueSubmitOptions) -> Map<String, Value> {
    let (files, tape) = (&options.files, &options.tape);
    let compares = files.compare_checksum || files.checksum_mode.is_some();
    // As FTS's client: with a mode and no checksum, the values of the two sides are compared.
    let checksum = files
        .checksum
        .clone()
        .or_else(|| compares.then(|| "ADLER32".to_owned()));
    members([
        ("checksum", checksum.map(Value::from)),
        ("filesize", files.file_size.map(Value::from)),
        ("activity", files.activity.clone().map(Value::from)),
        ("scitag", files.scitag.map(Value::from)),
        ("metadata", files.file_metadata.as_deref().map(text_or_json)),
        ("staging_metadata", tape.staging_metadata.as_deref().map(text_or_json)),
        ("archive_metadata", tape.archive_metadata.as_deref().map(text_or_json)),
    ])
}

/// The parameters that options give. What no option says is left to the list and the queue.
fn job_parameters(options: &QueueSubmitOptions) -> Map<String, Value> {
    let (job, tape) = (&options.job, &options.tape);
    let yes = |flag: bool| flag.then_some(Value::Bool(true));
    let has_checksum = options.checksum.is_some() || options.files.checksum.is_some();
    let sides = match (
        options.files.checksum_mode,
        options.files.compare_checksum || has_checksum,
    ) {
        (Some(sides), _) => Some(sides.word()),
        (None, true) => Some("both"),
        (None, false) => None,
    };
    members([
        ("verify_checksum", sides.map(Value::from)),
        ("overwrite", yes(options.overwrite)),
        ("overwrite_on_retry", yes(job.overwrite_on_retry)),
        ("overwrite_hop", yes(job.overwrite_hop)),
        ("overwrite_when_only_on_disk", yes(job.overwrite_when_only_on_disk)),
        ("multihop", yes(job.multi_hop || !options.files.via.is_empty())),
        ("reuse", yes(job.reuse)),
        ("retry", job.retry.map(Value::from)),
        ("retry_delay", job.retry_delay.map(Value::from)),
        ("priority", job.priority.map(Value::from)),
        ("timeout", job.timeout.map(Value::from)),
        ("max_time_in_queue", job.max_time_in_queue.as_deref().map(text_or_json)),
        ("job_metadata", job.job_metadata.as_deref().map(text_or_json)),
        ("nostreams", job.nostreams.map(Value::from)),
        ("buffer_size", job.buffer_size.map(Value::from)),
        ("strict_copy", yes(job.strict_copy)),
        ("disable_cleanup", yes(job.disable_cleanup)),
        ("ipv4", yes(job.ipv4)),
        ("ipv6", yes(job.ipv6)),
        ("s3alternate", yes(job.s3alternate)),
        ("bring_online", tape.bring_online.map(Value::from)),
        ("copy_pin_lifetime", tape.copy_pin_lifetime.map(Value::from)),
        ("archive_timeout", tape.archive_timeout.map(Value::from)),
        ("dst_file_report", yes(tape.dst_file_report)),
        (
            "destination_spacetoken",
            tape.destination_spacetoken.clone().map(Value::from),
        ),
        ("source_spacetoken", tape.source_spacetoken.clone().map(Value::from)),
        ("unmanaged_tokens", yes(options.tokens.unmanaged_tokens)),
    ])
}

fn members<const COUNT: usize>(all: [(&str, Option<Value>); COUNT]) -> Map<String, Value> {
    let given = all
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    given.collect()
}

fn text_or_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| json!(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::{Command, CommandLine, QueueAction};
    use clap::Parser as _;

    fn options(line: &str) -> QueueSubmitOptions {
        let words = ["crossload", "queue", "submit", "-s", "https://q:8446"];
        let words = words.into_iter().chain(line.split_whitespace());
        match CommandLine::try_parse_from(words).unwrap().command {
            Command::Queue(QueueAction::Submit(options)) => *options,
            other => panic!("{other:?}"),
        }
    }

    fn made(line: &str) -> Vec<Value> {
        let jobs = jobs(&options(line), &FileTokens::default()).unwrap();
        jobs.iter().map(Job::shown).collect()
    }

    fn from_list(list: &str, line: &str) -> Vec<Value> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), list).unwrap();
        made(&format!("-f {} {line}", file.path().display()))
    }

    #[test]
    fn options_of_ftss_client_become_its_parameters() {
        let job = &made(
            "-o -K --retry -1 --retry-delay 5 -p 4 --timeout 60 --bring-online 100 --archive-timeout 200 \
             --copy-pin-lifetime 300 --file-metadata {\"n\":1} --job-metadata label -t TAPE --activity A \
             --max-time-in-queue 12h --scitag 66 --file-size 7 davs://a/f davs://b/f ADLER32:12",
        )[0];
        let wanted = json!({
            "params": {
                "overwrite": true, "verify_checksum": "both", "retry": -1, "retry_delay": 5, "priority": 4,
                "timeout": 60, "bring_online": 100, "archive_timeout": 200, "copy_pin_lifetime": 300,
                "job_metadata": "label", "destination_spacetoken": "TAPE", "max_time_in_queue": "12h"},
            "files": [{
                "sources": ["davs://a/f"], "destinations": ["davs://b/f"], "checksum": "ADLER32:12",
                "metadata": {"n": 1}, "activity": "A", "scitag": 66, "filesize": 7}],
        });
        assert_eq!(*job, wanted);
        assert_eq!(made("davs://a/f davs://b/f")[0]["params"], json!({}));
        assert_eq!(
            made("-C source davs://a/f davs://b/f")[0]["params"]["verify_checksum"],
            "source"
        );
        assert_eq!(
            made("--checksum md5 davs://a/f davs://b/f")[0]["files"][0]["checksum"],
            "md5"
        );
    }

    #[test]
    fn a_job_is_known_by_its_files() {
        let urls = |line: &str| jobs(&options(line), &FileTokens::default()).unwrap()[0].urls();
        assert_eq!(urls("davs://A/f?authz=x davs://b/f"), urls("davs://a/f davs://b/f"));
        assert_ne!(urls("davs://a/g davs://b/f"), urls("davs://a/f davs://b/f"));
    }

    #[test]
    fn replicas_and_hops_are_one_job() {
        let job = &made("--replica davs://c/f davs://a/f davs://b/f")[0];
        assert_eq!(job["files"][0]["sources"], json!(["davs://a/f", "davs://c/f"]));
        let job = &made("--via davs://h/f --via davs://i/f davs://a/f root://b//f")[0];
        assert_eq!(job["params"], json!({"multihop": true}));
        let hops = job["files"].as_array().unwrap();
        assert_eq!(hops.len(), 3);
        assert_eq!(hops[1]["sources"], json!(["davs://h/f"]));
        assert_eq!(hops[2]["destinations"], json!(["root://b//f"]));
    }

    #[test]
    fn lists_are_split_into_jobs() {
        let list = "# the first\ndavs://a/1 davs://b/1\n\ndavs://a/2 davs://b/2 md5:1\ndavs://a/3 davs://b/3\n";
        let jobs = from_list(list, "--files-per-job 2 -o");
        assert_eq!(jobs.len(), 2);
        assert_eq!(jobs[0]["files"][1]["checksum"], "md5:1");
        assert_eq!(jobs[1]["files"][0]["sources"], json!(["davs://a/3"]));
        assert_eq!(jobs[1]["params"], json!({"overwrite": true}));
        assert_eq!(from_list(list, "--files-per-job 2 -m").len(), 1, "a chain stays whole");

        let list = r#"{"files": [
            {"sources": ["davs://a/1", "davs://c/1"], "destinations": ["davs://b/1"], "activity": "B"},
            {"sources": ["davs://a/2"], "destinations": ["davs://b/2"]}], "params": {"retry": 2, "priority": 1}}"#;
        let jobs = from_list(list, "--activity A -p 5");
        assert_eq!(jobs.len(), 2, "a file with replicas is a job of its own");
        assert_eq!(jobs[0]["files"][0]["activity"], "A");
        assert_eq!(jobs[1]["files"][0]["activity"], "B");
        assert_eq!(
            jobs[1]["params"],
            json!({"retry": 2, "priority": 5}),
            "options count before the list"
        );
    }

    #[test]
    fn what_no_queue_can_copy_is_refused_here() {
        for list in [
            "",
            "davs://a/1",
            "davs://a/1 davs://b/1 md5:1 more",
            "/a /b",
            "{",
            "{}",
            r#"{"files": [{}]}"#,
            r#"{"files": [1]}"#,
            r#"{"files": [], "params": 1}"#,
        ] {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), list).unwrap();
            let line = format!("-f {}", file.path().display());
            jobs(&options(&line), &FileTokens::default()).expect_err(list);
        }
        jobs(&options("/a davs://b/f"), &FileTokens::default()).unwrap_err();
        jobs(&options("davs://a/f file:///b"), &FileTokens::default()).unwrap_err();
    }

    #[test]
    fn tokens_go_with_each_file_and_are_not_shown() {
        let tokens = FileTokens {
            source: Some(Secret::new("reading")),
            destination: Some(Secret::new("writing")),
        };
        let options = options("--replica davs://c/f davs://a/f davs://b/f");
        let with = jobs(&options, &tokens).unwrap();
        assert!(!with[0].lacks_tokens());
        let body: Value = serde_json::from_str(with[0].body("n").expose()).unwrap();
        assert_eq!(body["files"][0]["source_tokens"], json!(["reading", "reading"]));
        assert_eq!(body["files"][0]["destination_tokens"], json!(["writing"]));
        assert_eq!(body["params"], json!({"id_generator": "deterministic", "sid": "n"}));
        assert!(!with[0].shown().to_string().contains("ing"));
        assert!(jobs(&options, &FileTokens::default()).unwrap()[0].lacks_tokens());
    }
}
