//! `crossload node …`: asks a node of a cluster how it is, drains it, and waits until it is empty.

use std::time::Duration;

use cluster::announcement::{Announcement, NODE_PATH, Role};
use policy::Drain;
use remote::{ServiceAnswer, ServiceCall, ServiceMethod};
use serde_json::{Value, json};
use types::{Error, ErrorCode, Location, Phase, Secret, Side};

use super::named_code;
use super::session::ClientContext;
use crate::command_line::{NodeAction, NodeOptions};
use crate::failure::Failure;
use crate::limits::NODE_ANSWER_BYTES_MAX;
use crate::output;

/// Time between two looks while waiting.
const LOOK_PERIOD: Duration = Duration::from_millis(500);

/// Performs a command for a node and returns its exit code.
///
/// # Errors
/// The node's refusal, or no answer.
pub(super) async fn run(session: &ClientContext, action: &NodeAction) -> Result<u8, Failure> {
    let node = Node::new(session, action.options())?;
    match action {
        NodeAction::Status(_) => node.print(&node.ask().await?),
        NodeAction::Undrain(_) => {
            let told = node.order(Drain::Active).await?;
            node.print(&told);
            if told.status.drain != Drain::Active {
                let words = format!(
                    "the node stays {}: its configuration says so (cluster.drain)",
                    told.status.drain.name()
                );
                return Err(Failure::invalid(words));
            }
        }
        NodeAction::Drain(options) => {
            let drain = if options.reads { Drain::NoReads } else { Drain::NoWrites };
            let told = node.order(drain).await?;
            if !options.wait {
                node.print(&told);
                return Ok(0);
            }
            node.wait(told).await?;
        }
        NodeAction::Wait(_) => node.wait(node.ask().await?).await?,
    }
    Ok(0)
}

/// A node, as the user of this command.
struct Node<'a> {
    session: &'a ClientContext,
    location: Location,
    as_json: bool,
}

impl<'a> Node<'a> {
    fn new(session: &'a ClientContext, options: &NodeOptions) -> Result<Self, Failure> {
        let parsed = Location::parse(&session.url(&options.node)?)?;
        if !parsed.is_http() {
            let error = Error::new(ErrorCode::BadUrl, Side::Client, Phase::Open).with_subject(&options.node);
            let advice = "Give the node's https URL; both protocols have the same port.";
            return Err(Failure::advised(&error, advice));
        }
        Ok(Self {
            session,
            location: parsed.with_path(NODE_PATH),
            as_json: options.common.json,
        })
    }

    async fn ask(&self) -> Result<Announcement, Failure> {
        self.call(ServiceMethod::Get, Secret::new("")).await
    }

    async fn order(&self, drain: Drain) -> Result<Announcement, Failure> {
        let body = json!({"drain": drain}).to_string();
        self.call(ServiceMethod::Post, Secret::new(body)).await
    }

    async fn call(&self, method: ServiceMethod, body: Secret) -> Result<Announcement, Failure> {
        let call = ServiceCall {
            method,
            content_type: "application/json",
            body: &body,
            login: None,
            webhook: None,
            answer_bytes_max: NODE_ANSWER_BYTES_MAX,
        };
        let resource = self.session.resource(&self.location, Side::Active);
        let answer = self.session.client.call(&resource, &call).await?;
        if !answer.is_success() {
            return Err(refusal(&self.location, method, &answer));
        }
        serde_json::from_str(answer.body.expose()).map_err(|_| no_node(&self.location))
    }

    fn print(&self, told: &Announcement) {
        match self.as_json {
            true => output::json(&serde_json::to_value(told).unwrap_or(Value::Null)),
            false => in_words(told).iter().for_each(|line| output::line(line)),
        }
    }

    /// Waits until nothing is left, and prints what is whenever it changes.
    async fn wait(&self, mut told: Announcement) -> Result<(), Failure> {
        if told.status.drain == Drain::Active {
            return Err(Failure::invalid(
                "the node is not drained, so it would never be empty; run `crossload node drain` first",
            ));
        }
        let mut said = String::new();
        loop {
            let says = left(&told);
            if says != said {
                match self.as_json {
                    true => self.print(&told),
                    false => output::line(&says),
                }
                said = says;
            }
            if is_empty(&told) {
                return Ok(());
            }
            tokio::time::sleep(LOOK_PERIOD).await;
            told = self.ask().await?;
            if told.status.drain == Drain::Active {
                return Err(Failure::invalid("the node was taken back into use"));
            }
        }
    }
}

fn refusal(location: &Location, method: ServiceMethod, answer: &ServiceAnswer) -> Failure {
    let key = match method {
        ServiceMethod::Get => "cluster.redirectors or cluster.operators",
        _ => "cluster.operators",
    };
    match answer.status {
        401 | 403 => {
            let code = named_code(answer.body.expose()).unwrap_or(match answer.status {
                401 => ErrorCode::PeerDenied,
                _ => ErrorCode::PeerForbidden,
            });
            let error = Error::new(code, Side::Active, Phase::Authorize).with_subject(location);
            if code.refuses_token() {
                return error.into();
            }
            Failure::advised(&error, &format!("The node's configuration must name you in {key}."))
        }
        404 => no_node(location),
        status => {
            let error = Error::new(ErrorCode::PeerMisbehaved, Side::Active, Phase::Open).with_subject(location);
            let words = answer.body.expose().lines().next().unwrap_or_default().to_owned();
            error.with_detail(format!("status {status}: {words}")).into()
        }
    }
}

fn no_node(location: &Location) -> Failure {
    let error = Error::new(ErrorCode::PeerUnsupported, Side::Active, Phase::Open).with_subject(location);
    Failure::advised(&error, "Only nodes that run Crossload can be asked and drained so.")
}

/// Whether nothing is left that the drained node would have to finish.
fn is_empty(told: &Announcement) -> bool {
    // Until it refuses new transfers, redirected clients may still arrive.
    told.refuses == told.status.drain && writes(told) == 0 && (told.status.drain < Drain::NoReads || reads(told) == 0)
}

fn writes(told: &Announcement) -> u32 {
    told.uploads.saturating_add(told.pulls)
}

fn reads(told: &Announcement) -> u32 {
    told.downloads.saturating_add(told.pushes)
}

/// What is left: `3 uploads, 12 downloads left`.
fn left(told: &Announcement) -> String {
    let counts = [
        (told.uploads, "upload"),
        (told.downloads, "download"),
        (told.pulls, "pull"),
        (told.pushes, "push"),
    ];
    let running = counts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = running.map(|(count, what)| counted(*count, what)).collect();
    let what = match parts.is_empty() {
        true => "nothing left".to_owned(),
        false => format!("{} left", parts.join(", ")),
    };
    match told.refuses == told.status.drain {
        true => what,
        false => format!("{what}; clients that were already sent there may still come"),
    }
}

fn counted(count: u32, what: &str) -> String {
    match (count, what) {
        (0 | 2.., "push") => format!("{count} pushes"),
        _ => output::counted(count.into(), what),
    }
}

fn in_words(told: &Announcement) -> Vec<String> {
    if told.role == Role::Redirector {
        return vec![
            format!("server      {}", told.server),
            "role        redirector: it has no files; crossload why and its /ready show its nodes".to_owned(),
        ];
    }
    let status = &told.status;
    let used_for = match status.drain {
        Drain::Active => "everything",
        Drain::NoWrites => "reading and removing: no new files (no_writes)",
        Drain::NoReads => "nothing new (no_reads)",
    };
    let mut lines = vec![
        format!("server      {}", told.server),
        format!("used for    {used_for}"),
        format!(
            "transfers   {} ({}, {}, {}, {})",
            status.transfers,
            counted(told.uploads, "upload"),
            counted(told.downloads, "download"),
            counted(told.pulls, "pull"),
            counted(told.pushes, "push"),
        ),
        format!("bytes/s     {} in, {} out", status.in_bytes_s, status.out_bytes_s),
        format!("waiting     {} ms (9 of 10 requests wait less)", status.wait_ms),
        format!(
            "load        processors {:.0} %, waiting for disks {:.0} %",
            status.processors * 100.0,
            status.disk_pressure * 100.0
        ),
        format!("free bytes  {} of {}", status.free_bytes, status.total_bytes),
    ];
    lines.extend(told.exports.iter().map(|export| {
        let how = if export.writable { "" } else { " (read only)" };
        format!("export      {}{how}", output::name(&export.path))
    }));
    lines
}

#[cfg(test)]
mod tests {
    use cluster::node::Status;

    use super::*;

    fn told(drain: Drain, uploads: u32, downloads: u32) -> Announcement {
        Announcement {
            status: Status {
                drain,
                ..Status::default()
            },
            refuses: drain,
            uploads,
            downloads,
            ..Announcement::default()
        }
    }

    #[test]
    fn each_step_waits_for_what_it_refuses() {
        assert!(!is_empty(&told(Drain::NoWrites, 1, 0)));
        assert!(is_empty(&told(Drain::NoWrites, 0, 1)));
        assert!(!is_empty(&told(Drain::NoReads, 0, 1)));
        assert!(is_empty(&told(Drain::NoReads, 0, 0)));
        let in_grace = Announcement {
            refuses: Drain::Active,
            ..told(Drain::NoReads, 0, 0)
        };
        assert!(!is_empty(&in_grace));
        assert!(left(&in_grace).contains("may still come"));
    }

    #[test]
    fn a_redirector_is_told_as_one() {
        let told = Announcement {
            role: Role::Redirector,
            ..Announcement::default()
        };
        let words = in_words(&told).join("\n");
        assert!(words.contains("redirector") && !words.contains("free bytes"), "{words}");
    }

    #[test]
    fn what_is_left_is_counted() {
        let mut told = told(Drain::NoReads, 3, 1);
        assert_eq!(left(&told), "3 uploads, 1 download left");
        (told.uploads, told.downloads, told.pushes) = (0, 0, 2);
        assert_eq!(left(&told), "2 pushes left");
        told.pushes = 0;
        assert_eq!(left(&told), "nothing left");
    }
}
