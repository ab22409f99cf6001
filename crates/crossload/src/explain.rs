//! `crossload explain`: may this be done, and why? Decided here against a configuration file, by the
//! same rules and with the same words as on the server; or asked of the server that refused.

use credentials::{Credential, MacaroonKey, inspect, read_bearer};
use policy::{Explanation, Operation, Request};
use types::{Error, LogicalPath, Secret};

use crate::command_line::{AskedOperation, ExplainOptions};
use crate::configuration::Configuration;
use crate::failure::Failure;
use crate::server::{rules, secret};
use crate::{client, output, token};

/// Explains. The exit code is 0 when it is allowed (of a file that is written, as a new one), else that
/// of the refusal.
///
/// # Errors
/// When the configuration, the token or the key of macaroons cannot be read.
pub(crate) fn run(options: &ExplainOptions) -> Result<u8, Failure> {
    if let (Some(id), Some(admin)) = (&options.id, &options.admin) {
        return client::why::run(id, admin, options.json);
    }
    let configuration = Configuration::load(&options.config)?;
    let rules = rules::policy(&configuration)?;
    let shown = options
        .token
        .as_deref()
        .map(|file| token::read(Some(file)))
        .transpose()?;
    let credential = match &shown {
        None => Ok(Credential::Anonymous),
        Some(token) => read_bearer(token.expose(), &keys(&configuration)?),
    };
    let path = options.path.clone().unwrap_or_else(LogicalPath::root);
    let mut exit_code = None;
    for (index, operation) in operations(options).into_iter().enumerate() {
        let request = Request {
            operation,
            path: path.clone(),
            client_address: options.from.to_canonical(),
            now_s: token::now_s(),
            size_bytes: options.size,
        };
        let decision = policy::explain(&rules, credential.as_ref(), &request);
        let mut explanation = Explanation::new(&request, &decision);
        explanation
            .read
            .extend(unverified(&credential, shown.as_ref(), request.now_s));
        if options.json {
            output::json(&serde_json::to_value(&explanation).unwrap_or_default());
        } else {
            output::line(&format!("{}{explanation}", if index > 0 { "\n" } else { "" }));
        }
        let code = decision.refusal.map_or(0, |refusal| refusal.code.exit_code());
        exit_code.get_or_insert(code);
    }
    Ok(exit_code.unwrap_or_default())
}

/// What a token says that the server would not take; it helps to see why.
fn unverified(credential: &Result<Credential, Error>, shown: Option<&Secret>, now_s: i64) -> Vec<String> {
    match (credential, shown) {
        (Err(error), Some(token)) if error.code().refuses_token() => {
            let inspection = inspect(token.expose(), now_s).to_string();
            let lines = inspection.lines().map(|line| format!("  {line}"));
            std::iter::once("what it says of itself:".to_owned())
                .chain(lines)
                .collect()
        }
        _ => Vec::new(),
    }
}

/// The keys of the server's macaroons. None is made here: a new one would fit no macaroon.
fn keys(configuration: &Configuration) -> Result<Vec<MacaroonKey>, Failure> {
    let wanted = &configuration.macaroons;
    let Some(newest) = &wanted.secret_file else {
        return Ok(Vec::new());
    };
    let files = std::iter::once(newest).chain(&wanted.old_secret_files);
    files.map(|file| secret::load(file, false)).collect()
}

/// What is asked, as policy knows it.
fn operations(options: &ExplainOptions) -> Vec<Operation> {
    let Some(op) = options.op else {
        return Vec::new();
    };
    let one = match op {
        AskedOperation::Write => return vec![Operation::Create, Operation::Overwrite],
        AskedOperation::Stat => Operation::Stat,
        AskedOperation::Read => Operation::Read,
        AskedOperation::List => Operation::List,
        AskedOperation::Create => Operation::Create,
        AskedOperation::Overwrite => Operation::Overwrite,
        AskedOperation::Delete => Operation::Delete,
        AskedOperation::Rmdir => Operation::RemoveDirectory,
        AskedOperation::Mkdir => Operation::MakeDirectory,
        AskedOperation::Rename => Operation::Rename {
            target: options.to.clone().unwrap_or_else(LogicalPath::root),
            replaces: false,
        },
    };
    vec![one]
}
