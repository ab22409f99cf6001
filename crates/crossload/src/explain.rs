//! `crossload explain`: whether an operation is allowed, and why. It decides by a configuration
//! file, with the code of the server, or asks a server.

use std::sync::Arc;

use config::Configuration;
use credentials::{Credential, inspect};
use net::tls::ClientIdentity;
use policy::{Operation, Request};
use types::{Error, LogicalPath, Secret};

use crate::command_line::{AskedOperation, ExplainOptions};
use crate::failure::Failure;
use crate::server::configured;
use crate::server::explained::{explained, respelled};
use crate::server::offline::{self, ReadToken};
use crate::server::rules;
use crate::{client, output, token};

/// Explains. The exit code is 0 if the operation is allowed, else that of the refusal. For `write`
/// it is that of `create`.
///
/// # Errors
/// An unreadable configuration, credential or macaroon secret, or failures to ask the server.
pub(crate) fn run(options: &ExplainOptions) -> Result<u8, Failure> {
    if let (Some(id), Some(admin)) = (&options.id, &options.admin) {
        return client::explain::run(id, admin, options.json);
    }
    if let Some(url) = &options.url {
        return client::explain::ask(url, options);
    }
    let configuration = configured::load(&options.config)?;
    let policy = rules::policy(&configuration)?;
    let (read, shown) = credential(options, &configuration)?;
    let ReadToken { credential, notes } = read;
    let path = options.path.clone().unwrap_or_else(LogicalPath::root);
    let path = respelled(&configuration, path)?;
    let mut exit_code = None;
    for (index, operation) in operations(options).into_iter().enumerate() {
        let request = Request {
            operation,
            path: path.clone(),
            client_address: options.from.to_canonical(),
            now_s: token::now_s(),
            size_bytes: options.size,
        };
        let mut explanation = explained(&configuration, &policy, &credential, &request)?;
        explanation.read.extend(notes.iter().cloned());
        explanation
            .read
            .extend(unverified(&credential, shown.as_ref(), request.now_s));
        if options.json {
            output::json(&serde_json::to_value(&explanation).unwrap_or_default());
        } else {
            output::line(&format!("{}{explanation}", if index > 0 { "\n" } else { "" }));
        }
        exit_code.get_or_insert(client::explain::exit_code(explanation.code));
    }
    Ok(exit_code.unwrap_or_default())
}

/// The credential of the options as the server would read it, and the text of a token.
fn credential(options: &ExplainOptions, configuration: &Configuration) -> Result<(ReadToken, Option<Secret>), Failure> {
    let plain = |credential| ReadToken {
        credential: Ok(credential),
        notes: Vec::new(),
    };
    if let Some(certificate) = options.cert.as_ref().or(options.proxy.as_ref()) {
        let key = options.key.as_ref().unwrap_or(certificate);
        let identity = ClientIdentity::load(certificate, key).map_err(|error| error.at_side(types::Side::Client))?;
        let judged = offline::authenticator(configuration).certificates(Some(identity.chain()));
        return Ok((plain(judged), None));
    }
    if options.token.is_none() {
        return Ok((plain(Arc::new(Credential::Anonymous)), None));
    }
    let runtime =
        execution::single_thread_runtime().map_err(|cause| Failure::system("cannot start threads", &cause))?;
    let shown = token::read(options.token.as_deref())?;
    let read = runtime.block_on(offline::bearer(
        configuration,
        shown.expose(),
        options.online,
        token::now_s(),
    ))?;
    Ok((read, Some(shown)))
}

/// The content of a token that the server would refuse. It helps to see why.
fn unverified(credential: &Result<Arc<Credential>, Error>, shown: Option<&Secret>, now_s: i64) -> Vec<String> {
    match (credential, shown) {
        (Err(error), Some(token)) if error.code().refuses_token() => {
            let inspection = inspect(token.expose(), now_s).to_string();
            let lines = inspection.lines().map(|line| format!("  {line}"));
            std::iter::once("content of the token:".to_owned())
                .chain(lines)
                .collect()
        }
        _ => Vec::new(),
    }
}

/// The operations of the options, in the types of policy.
fn operations(options: &ExplainOptions) -> Vec<Operation> {
    let asked = options.op.map(AskedOperation::word);
    let operations = asked.and_then(|word| Operation::from_word(word, options.to.clone()));
    operations.unwrap_or_default()
}
