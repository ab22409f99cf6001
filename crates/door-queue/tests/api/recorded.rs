//! What a real FTS answered, compared with what this door answers to the same requests.
//!
//! `recorded/fts-rest-answers.txt` has the exchanges of a session with fts-rest-flask 3.13, in
//! order: a line with request, status and type, then the body. One request and one answer were cut
//! when they were recorded: the request is completed, and the answer ends with its last whole
//! object. `recorded/rucio-requests.log` has what Rucio 41.5 sent to a stand-in.

use std::collections::{BTreeSet, HashMap};

use door_queue::rights::{Level, Levels};
use queue::owners::delegation_id;
use serde_json::{Value, json};
use testkit::{Authority, ProxyOptions, Scratch};

use crate::place::{Answer, JANE, Place, User, VOMS_DIRECTORY};

const EXCHANGES: &str = include_str!("recorded/fts-rest-answers.txt");
const RUCIO: &str = include_str!("recorded/rucio-requests.log");
const RECORDED_USER: &str = "/DC=ch/DC=cern/CN=Test User";
const VO: &str = "testvo";
/// The VOMS attributes of the recorded user.
const FQANS: [&str; 2] = [
    "/testvo/Role=NULL/Capability=NULL",
    "/testvo/Role=lcgadmin/Capability=NULL",
];
/// The same as this door knows them.
const SHORT_FQANS: [&str; 2] = ["/testvo", "/testvo/Role=lcgadmin"];
/// A member that one side does not have.
const ABSENT: &str = "absent";
const STATUS: &str = "(status)";
const TYPE: &str = "(type)";

/// A difference from FTS that is wanted.
struct Difference {
    /// How the request begins.
    request: &'static str,
    /// The member; `[]` is any element of a list.
    member: &'static str,
    /// How our value begins, as JSON.
    ours: &'static str,
    why: &'static str,
}

impl Difference {
    fn is_of(&self, line: &str, member: &str, value: &str) -> bool {
        line.starts_with(self.request) && member == self.member && value.starts_with(self.ours)
    }
}

const fn differs(request: &'static str, member: &'static str, ours: &'static str, why: &'static str) -> Difference {
    Difference {
        request,
        member,
        ours,
        why,
    }
}

const AUDIT: &str = "what is noted of a change is compact, and what is stored";
const FOR_ALL: &str = "an operator of all organisations bans for all";
const NO_ROUTE: &str = "no client in use asks for it";
const NO_SCHEMA: &str = "the schema of submissions is in the OpenAPI document";
const SHORT: &str = "VOMS attributes have their short form, so that both forms are one";
const WHOLE_LINK: &str = "the whole link is answered, and not what was sent";

/// The wanted differences. Each must be met, so that none stays here when it has gone.
const DIFFERENCES: &[Difference] = &[
    differs("GET /", "api.minor", "14", "it is the API of 3.14"),
    differs("GET /", "api.patch", "0", "it is the API of 3.14"),
    differs("GET /", "core", "{", "the recorded server ran without its core"),
    differs(
        "GET /",
        "schema",
        "{",
        "the recorded server ran without its database schema",
    ),
    differs("GET /", "_links.fts:apidocs", ABSENT, "there are no such pages"),
    differs(
        "GET /",
        "_links.fts:archive",
        ABSENT,
        "ended jobs are found by their own routes",
    ),
    differs("GET /", "_links.fts:submitschema", ABSENT, NO_SCHEMA),
    differs("GET /", "_links.fts:jobsubmit.hints.representations", ABSENT, NO_SCHEMA),
    differs("GET /whoami", "level.admin", "\"\"", "later releases show it"),
    differs("GET /whoami", "level.deleg", "\"vo\"", "later releases show it"),
    differs(
        "GET /whoami",
        "level.datamanagement",
        "\"\"",
        "the queue changes no names on storages",
    ),
    differs("GET /whoami", "voms_cred[]", "\"/testvo", SHORT),
    differs(
        "GET /delegation/",
        "voms_attrs",
        "[\"/testvo\",",
        "the recorded proxy was stored by hand",
    ),
    differs(
        "POST /jobs",
        "message",
        "\"No delegation found for \\\"",
        "what to do follows FTS's words",
    ),
    differs(
        "POST /jobs",
        "message",
        "\"https://a is banned: dt\"",
        "the operator's reason follows FTS's words",
    ),
    differs(
        "GET /jobs/",
        "[].file_state_initial",
        "\"",
        "the recorded release leaves it empty",
    ),
    differs(
        "POST /jobs/",
        "files[].file_state_initial",
        "\"",
        "the recorded release leaves it empty",
    ),
    differs(
        "GET /files",
        "[].file_state_initial",
        "\"",
        "the recorded release leaves it empty",
    ),
    differs("GET /ban/se", "[].vo", "\"*\"", FOR_ALL),
    differs("POST /config/links", TYPE, "\"application/json\"", "it is JSON"),
    differs("POST /config/links", "tcp_buffer_size", "null", WHOLE_LINK),
    differs("POST /config/links", "no_delegation", "false", WHOLE_LINK),
    differs("POST /config/links", "is_paused", "false", "links can be paused"),
    differs("GET /config/links", "[].is_paused", "false", "links can be paused"),
    differs("GET /config/links/", "is_paused", "false", "links can be paused"),
    differs("GET /config/audit", "[].config", "\"{\\\"", AUDIT),
    differs(
        "GET /config/audit",
        "[].config",
        "\"Set config davs://a.x: {\\\"",
        AUDIT,
    ),
    differs(
        "GET /config/audit",
        "[].config",
        "\"Set limits for davs://a.x: {\\\"",
        AUDIT,
    ),
    differs(
        "GET /config/audit",
        "[].config",
        "\"Storage https://a for * banned (WAIT)",
        FOR_ALL,
    ),
    differs("GET /archive/", "_links", ABSENT, NO_ROUTE),
    differs(
        "GET /archive/",
        "message",
        "\"The requested URL was not found",
        NO_ROUTE,
    ),
    differs("GET /archive/", "status", "\"404 Not Found\"", NO_ROUTE),
    differs("GET /archive/", STATUS, "404", NO_ROUTE),
    differs(
        "GET /api-docs/",
        "message",
        "\"The requested URL was not found",
        NO_ROUTE,
    ),
    differs("GET /api-docs/", "status", "\"404 Not Found\"", NO_ROUTE),
    differs("GET /api-docs/", STATUS, "404", NO_ROUTE),
    differs("GET /api-docs/", "properties", ABSENT, NO_ROUTE),
    differs("GET /api-docs/", "title", ABSENT, NO_ROUTE),
    differs("GET /api-docs/", "type", ABSENT, NO_ROUTE),
];

/// A recorded request with its answer, with our names in place of the recorded ones.
struct Exchange {
    /// Method and path.
    line: String,
    body: String,
    status: u16,
    content_type: &'static str,
    answer: String,
}

impl Exchange {
    fn read(text: &'static str, names: &HashMap<String, String>) -> Self {
        let (head, answer) = text.split_once('\n').unwrap();
        let (request, outcome) = head.split_once("-> ").unwrap();
        let mut words = request.splitn(3, ' ');
        let mut word = || words.next().unwrap();
        let ours = |text: &str| named(text.trim(), names);
        Self {
            line: ours(&format!("{} {}", word(), word())),
            body: ours(word()),
            status: outcome[..3].parse().unwrap(),
            content_type: outcome.split_once('[').unwrap().1.trim_end_matches(']'),
            answer: ours(answer),
        }
    }

    /// The recorded name of a new job, unless its client has chosen it: then it must be ours, too.
    fn new_job(&self) -> Option<String> {
        let is_new = self.line == "POST /jobs" && !self.body.contains("deterministic");
        let answer: Value = serde_json::from_str(&self.answer).ok().filter(|_| is_new)?;
        answer["job_id"].as_str().map(str::to_owned)
    }
}

/// A text with our names in place of the recorded ones.
fn named(text: &str, names: &HashMap<String, String>) -> String {
    let text = text.to_owned();
    names
        .iter()
        .fold(text, |text, (recorded, ours)| text.replace(recorded, ours))
}

/// Adds the members whose values differ, with ours as JSON.
fn compare(member: &str, recorded: Option<&Value>, ours: Option<&Value>, found: &mut Vec<(String, String)>) {
    match (recorded, ours) {
        (Some(Value::Object(recorded)), Some(Value::Object(ours))) => {
            let names: BTreeSet<&String> = recorded.keys().chain(ours.keys()).collect();
            for name in names {
                let path = format!("{member}.{name}");
                let path = path.trim_start_matches('.');
                compare(path, recorded.get(name), ours.get(name), found);
            }
        }
        (Some(Value::Array(recorded)), Some(Value::Array(ours))) if recorded.len() == ours.len() => {
            for (recorded, ours) in recorded.iter().zip(ours) {
                compare(&format!("{member}[]"), Some(recorded), Some(ours), found);
            }
        }
        (Some(recorded), Some(ours)) if is_equal(member, recorded, ours) => {}
        (_, ours) => {
            let ours = ours.map_or_else(|| ABSENT.to_owned(), Value::to_string);
            found.push((member.to_owned(), ours));
        }
    }
}

/// Times differ, and so does the number that stands for a job's random name; their forms do not.
fn is_equal(member: &str, recorded: &Value, ours: &Value) -> bool {
    match (recorded, ours) {
        (Value::String(recorded), Value::String(ours)) if is_time(recorded) => is_time(ours),
        _ if member.ends_with("hashed_id") => ours.is_u64(),
        _ => recorded == ours,
    }
}

/// Whether it is a time as Rucio parses it, such as `2026-11-21T18:46:30`.
fn is_time(text: &str) -> bool {
    let digits_as_zero = |sign: char| if sign.is_ascii_digit() { '0' } else { sign };
    text.chars().map(digits_as_zero).eq("0000-00-00T00:00:00".chars())
}

/// An answer as JSON. Lists that FTS gives in the order of its tables are sorted.
fn answer_of(line: &str, text: &str) -> Value {
    let mut answer: Value = serde_json::from_str(text).unwrap_or_default();
    let has_no_order = line.starts_with("GET /files?") || line.starts_with("POST /ban/se");
    if let Some(list) = answer.as_array_mut().filter(|_| has_no_order) {
        list.sort_by_key(|element| element.get("file_id").unwrap_or(element).to_string());
    }
    answer
}

/// A door as the recorded FTS was set up, with delegation, and a user whose role is an operator's.
async fn recorded_place() -> (Place, testkit::User) {
    let scratch = Scratch::new("recorded").unwrap();
    let authority = Authority::new(scratch.path()).unwrap();
    let server = authority.issue_voms_server(VO).unwrap();
    server.write_lsc(&scratch.join(VOMS_DIRECTORY)).unwrap();
    let jane = authority.issue_user(JANE).unwrap();
    let options = ProxyOptions {
        attributes: vec![server.attributes(&jane, &FQANS).unwrap()],
        ..ProxyOptions::default()
    };
    let levels = Levels {
        transfer: Level::Vo,
        config: Level::All,
    };
    let place = Place::start(scratch, authority, |settings, proxies| {
        settings.rights.roles.insert("lcgadmin".to_owned(), levels);
        settings.shown.host = "localhost".to_owned();
        settings.proxies = Some(proxies);
    });
    (place.await, jane.proxy_with(&options).unwrap())
}

/// Delegates a proxy as FTS's client does.
async fn delegate(place: &Place, user: &User, proxy: &testkit::User, id: &str) {
    let request = place.ask(user, &format!("GET /delegation/{id}/request"), "").await;
    assert_eq!(request.status, 200, "{}", request.text);
    let signed = proxy.sign_request(&request.text, 60).unwrap();
    let line = format!("PUT /delegation/{id}/credential");
    let stored = place.ask(user, &line, &signed).await;
    assert_eq!(stored.status, 201, "{}", stored.text);
}

/// What differs in an answer from the recorded one: members, with our values as JSON.
fn found(recorded: &Exchange, ours: &Answer) -> Vec<(String, String)> {
    let mut answers = [&recorded.answer, &ours.text].map(|text| answer_of(&recorded.line, text));
    if recorded.line.starts_with("GET /files?") {
        // The recorded list was cut.
        let files = answers[0].as_array().unwrap().len();
        answers[1].as_array_mut().unwrap().truncate(files);
    }
    let mut found = Vec::new();
    compare("", Some(&answers[0]), Some(&answers[1]), &mut found);
    let statuses = [json!(recorded.status), json!(ours.status)];
    compare(STATUS, Some(&statuses[0]), Some(&statuses[1]), &mut found);
    if recorded.status != 204 {
        let types = [json!(recorded.content_type), json!(ours.content_type)];
        compare(TYPE, Some(&types[0]), Some(&types[1]), &mut found);
    }
    found
}

#[tokio::test]
async fn requests_are_answered_as_a_recorded_fts_did() {
    let (place, proxy) = recorded_place().await;
    let user = place.user(&proxy, "proxy");
    let id = |user: &str, fqans: [&str; 2]| delegation_id([user].into_iter().chain(fqans));
    let (own_id, recorded_id) = (id(JANE, SHORT_FQANS), id(RECORDED_USER, FQANS));
    assert_eq!(recorded_id, "ac4ba2be183546e6");
    let mut names = HashMap::from([
        (RECORDED_USER.to_owned(), JANE.to_owned()),
        (recorded_id, own_id.clone()),
    ]);
    let (mut met, mut unwanted) = (BTreeSet::new(), Vec::new());
    for text in EXCHANGES.split("=== ").skip(1) {
        let asked = Exchange::read(text, &names);
        let ours = place.ask(&user, &asked.line, &asked.body).await;
        if let Some(job) = asked.new_job() {
            let own_job = ours.json["job_id"].as_str().unwrap_or_default();
            names.insert(job, own_job.to_owned());
        }
        if asked.status == 419 {
            delegate(&place, &user, &proxy, &own_id).await;
        }
        for (member, value) in found(&Exchange::read(text, &names), &ours) {
            let is_it = |difference: &Difference| difference.is_of(&asked.line, &member, &value);
            match DIFFERENCES.iter().position(is_it) {
                Some(index) => drop(met.insert(index)),
                None => unwanted.push(format!("{} {}: {member} is {value}", asked.line, asked.body)),
            }
        }
    }
    assert!(unwanted.is_empty(), "{}", unwanted.join("\n"));
    let gone = DIFFERENCES.iter().enumerate().filter(|(index, _)| !met.contains(index));
    let gone = gone.map(|(_, gone)| format!("{} {}: {}", gone.request, gone.member, gone.why));
    let gone: Vec<String> = gone.collect();
    assert!(gone.is_empty(), "these are as in FTS: {gone:#?}");
}

/// The parts of a log: each request with what was answered.
fn logged(text: &'static str) -> impl Iterator<Item = [&'static str; 3]> {
    text.split(">>> ").skip(1).map(|part| {
        let (request, answer) = part.split_once("<<< ").unwrap();
        let (_, line) = request.split_once("[wire: ").unwrap();
        let (line, rest) = line.split_once(" HTTP/1.1]").unwrap();
        let (_, body) = rest.split_once("\n\n").unwrap();
        [line, body.trim(), answer.split_once('\n').unwrap().1]
    })
}

#[tokio::test]
async fn what_rucio_sends_is_taken_and_shown_as_it_was_sent() {
    let place = Place::new().await;
    let mut names = HashMap::new();
    for [line, body, answer] in logged(RUCIO) {
        let line = named(line, &names);
        let ours = place.ask(&place.jane, &line, body).await;
        assert_eq!(ours.status, 200, "{line}: {}", ours.text);
        let expected: Value = serde_json::from_str(&named(answer, &names)).unwrap();
        let Some(jobs) = expected.as_array() else {
            let ids = [&expected, &ours.json].map(|answer| answer["job_id"].as_str().unwrap().to_owned());
            let [recorded, own] = ids;
            names.insert(recorded, own);
            continue;
        };
        let kinds: Vec<&Value> = ours
            .json
            .as_array()
            .unwrap()
            .iter()
            .map(|job| &job["job_type"])
            .collect();
        assert_eq!(kinds, ["H", "R", "N", "N"]);
        for (recorded, own) in jobs.iter().zip(ours.json.as_array().unwrap()) {
            for member in ["job_id", "priority", "job_metadata", "http_status"] {
                assert_eq!(own[member], recorded[member], "{member}");
            }
            let files = [recorded, own].map(|job| job["files"].as_array().unwrap());
            assert_eq!(files[1].len(), files[0].len());
            for (recorded, own) in files[0].iter().zip(files[1]) {
                let members = [recorded, own].map(|file| file.as_object().unwrap().keys().collect::<BTreeSet<_>>());
                assert_eq!(members[0], members[1]);
                for member in ["source_surl", "dest_surl", "file_metadata"] {
                    assert_eq!(own[member], recorded[member], "{member}");
                }
            }
        }
    }
    assert_eq!(names.len(), 5, "{names:?}");
}
