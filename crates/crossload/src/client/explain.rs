//! `crossload explain ID` asks a server's admin address why it refused a request.
//! `crossload explain --url` asks a server how it would decide for the credential that is sent.

use net::tls::{ClientTls, Trust};
use remote::{Access, Client, GetOptions, Resource};
use serde_json::Value;
use types::limits::CONTROL_BODY_BYTES_MAX;
use types::{Error, ErrorCode, Location, Phase, Side};

use crate::client::session::ClientContext;
use crate::command_line::{self, Common, DisplayOptions, ExplainOptions, GfalOptions};
use crate::exit_code::ExitCodes;
use crate::failure::Failure;
use crate::made_client::new_client;
use crate::output;

/// The path where a server explains its decisions.
const QUESTION: &str = "/.well-known/crossload-explain";

/// Prints the server's explanation of a request.
///
/// # Errors
/// `not_found` if the server does not know the request, or no longer; failures to ask.
pub(crate) fn run(request_id: &str, admin: &str, as_json: bool) -> Result<u8, Failure> {
    if request_id.is_empty()
        || !request_id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    {
        return Err(Failure::invalid("a request ID has only letters, digits and hyphens"));
    }
    let base = Location::parse(admin)?;
    if !base.is_http() {
        let error = Error::new(ErrorCode::BadUrl, Side::Client, Phase::Open).with_subject(admin);
        return Err(error
            .with_detail("--admin needs a URL such as http://127.0.0.1:9090")
            .into());
    }
    let format = if as_json { "/json" } else { "" };
    let location = base.with_path(&format!("/explain/{request_id}{format}"));
    let runtime =
        execution::single_thread_runtime().map_err(|cause| Failure::system("cannot start threads", &cause))?;
    let text = runtime.block_on(fetch(location)).map_err(|error| match error.code() {
        ErrorCode::PeerNotFound => Failure::advised(&error, "Check the request ID, and ask soon after the refusal."),
        _ => error.into(),
    })?;
    output::write_out(&text);
    Ok(0)
}

/// Fetches a small page, without a token: administrators are those who can reach the address.
async fn fetch(location: Location) -> types::Result<Vec<u8>> {
    let (tls, _) = ClientTls::load(&Trust {
        system: true,
        ..Trust::default()
    })?;
    let page = Resource {
        location,
        access: Access::default(),
        side: Side::Active,
    };
    read_page(&new_client(tls), &page).await
}

/// Fetches a small page.
pub(super) async fn read_page(client: &Client, page: &Resource) -> types::Result<Vec<u8>> {
    let start = read_start(client, page, CONTROL_BODY_BYTES_MAX).await?;
    if start.is_cut {
        let error = Error::new(ErrorCode::PeerMisbehaved, Side::Active, Phase::Transfer);
        return Err(error.with_detail(format!("the answer is longer than {CONTROL_BODY_BYTES_MAX} bytes")));
    }
    Ok(start.text)
}

/// The beginning of a page.
pub(super) struct PageStart {
    pub(super) text: Vec<u8>,
    /// There was more of it.
    pub(super) is_cut: bool,
}

/// Fetches the first bytes of a page.
pub(super) async fn read_start(client: &Client, page: &Resource, bytes_max: usize) -> types::Result<PageStart> {
    let mut download = client.get(page, &GetOptions::default()).await?;
    let (mut text, mut is_cut) = (Vec::new(), false);
    while let Some(batch) = download.next().await? {
        text.extend(batch.slices().flatten());
        if text.len() > bytes_max {
            text.truncate(bytes_max);
            is_cut = true;
            break;
        }
    }
    Ok(PageStart { text, is_cut })
}

/// Asks a server how it would decide, and prints the answer. The exit code is 0 if the operation is
/// allowed, else that of the refusal.
///
/// # Errors
/// Failures to ask, or a server that does not explain.
pub(crate) fn ask(url: &str, options: &ExplainOptions) -> Result<u8, Failure> {
    let session = ClientContext::open(&common(options))?;
    let server = Location::parse(&session.url(url)?)?;
    if !server.is_http() {
        return Err(Failure::invalid("--url needs the https URL of a file or directory"));
    }
    let path = options.path.as_ref().map_or(server.path(), |path| path.as_str());
    let mut query = format!("?op={}&path={}", options.op.map_or("", |op| op.word()), encoded(path));
    if let Some(target) = &options.to {
        query.push_str(&format!("&to={}", encoded(target.as_str())));
    }
    if let Some(size_bytes) = options.size {
        query.push_str(&format!("&size={size_bytes}"));
    }
    let location = server.resolve(&format!("{QUESTION}{query}"))?;
    let runtime =
        execution::single_thread_runtime().map_err(|cause| Failure::system("cannot start threads", &cause))?;
    let body = runtime.block_on(async {
        session.use_remote(url).await?;
        read_page(&session.client, &session.resource(&location, Side::Active)).await
    })?;
    let answers: Vec<Value> = serde_json::from_slice(&body)
        .map_err(|_| Failure::invalid("this server cannot explain its decisions: it is not Crossload"))?;
    for (index, answer) in answers.iter().enumerate() {
        match options.json {
            true => output::json(answer),
            false => output::line(&format!("{}{}", if index > 0 { "\n" } else { "" }, in_words(answer))),
        }
    }
    Ok(answers.first().map_or(0, |answer| exit_code(answer["code"].as_str())))
}

/// The options for connecting and authenticating.
fn common(options: &ExplainOptions) -> Common {
    Common {
        verbose: 0,
        log_file: None,
        timeout: None,
        json: options.json,
        client_info: Vec::new(),
        display: DisplayOptions::default(),
        gfal: GfalOptions::default(),
        access: command_line::Access {
            token: None,
            insecure: options.insecure,
            cacert: options.cacert.clone(),
            capath: None,
            token_file: options.token.clone(),
            cert: options.cert.clone(),
            key: options.key.clone(),
            proxy: options.proxy.clone(),
        },
    }
}

/// The exit code of a decision, by the name of the refusal's code.
pub(crate) fn exit_code(code: Option<&str>) -> u8 {
    let known = ErrorCode::ALL.iter().find(|known| Some(known.name()) == code);
    known.map_or(0, |code| ExitCodes::chosen().of_errno(code.exit_code()))
}

/// Percent-encodes a part of a query, except unreserved characters (RFC 3986 §2.3).
pub(super) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let each = text.bytes().map(|byte| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    each.collect()
}

/// The explanation, in the same form as for a configuration file.
fn in_words(answer: &Value) -> String {
    let mut text = format!("asked     {}", answer["asked"].as_str().unwrap_or_default());
    for (name, key) in [
        ("received", "received"),
        ("read", "read"),
        ("rules", "rules"),
        ("upstream", "upstream"),
    ] {
        add(&mut text, name, &answer[key]);
    }
    add(&mut text, "decision", &Value::Array(vec![answer["decision"].clone()]));
    add(&mut text, "to pass", &answer["remedies"]);
    text
}

fn add(text: &mut String, name: &str, lines: &Value) {
    let lines = lines.as_array().into_iter().flatten().filter_map(Value::as_str);
    for (index, line) in lines.enumerate() {
        let head = if index == 0 { name } else { "" };
        text.push_str(&format!("\n{head:8}  {line}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_ends_with_its_documented_code() {
        for (code, number) in [("forbidden", 13), ("method_not_allowed", 13), ("quota_exceeded", 122)] {
            assert_eq!(exit_code(Some(code)), number, "{code}");
        }
        assert_eq!(exit_code(None), 0);
    }
}
