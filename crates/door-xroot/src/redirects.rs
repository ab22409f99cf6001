//! What a session remembers of the servers to which its client was sent.
//!
//! A client that comes back names the servers that it has tried in vain by their hosts (`tried=`,
//! XRootD 5.5.3 and 6.1.0, `XRootDMsgHandler::UpdateTriedCGI`). Several servers may be on one host,
//! so the session remembers which one was meant.

use std::collections::VecDeque;

use types::{Location, LogicalPath};

use crate::limits::{XROOT_REDIRECTS_KEPT_MAX, XROOT_WAITING_NAMES_MAX};

/// What is remembered; nothing, in most sessions.
#[derive(Default)]
pub(crate) struct Redirects(Option<Box<Kept>>);

#[derive(Default)]
struct Kept {
    /// The oldest first.
    sent: VecDeque<Sent>,
    /// Names for which the client had to wait, and how often.
    waiting: VecDeque<Waiting>,
}

/// A client was sent to a server with a name.
struct Sent {
    path: LogicalPath,
    /// Host and port.
    server: String,
}

struct Waiting {
    path: String,
    times: u32,
}

/// Host and port of a place, the default port too.
pub(crate) fn port_of(place: &Location) -> String {
    format!("{}:{}", place.host(), place.port())
}

impl Redirects {
    /// The client is sent to this server, of which host and port are given.
    pub(crate) fn note(&mut self, path: &LogicalPath, server: String) {
        let sent = &mut self.0.get_or_insert_default().sent;
        if sent.len() >= XROOT_REDIRECTS_KEPT_MAX {
            sent.pop_front();
        }
        sent.push_back(Sent {
            path: path.clone(),
            server,
        });
    }

    /// The client asks for this name anew.
    pub(crate) fn forget(&mut self, path: &LogicalPath) {
        if let Some(kept) = &mut self.0 {
            kept.sent.retain(|sent| sent.path != *path);
        }
    }

    /// Servers that the client has tried, each as host and port, or as it named them if it was not
    /// sent there from here.
    pub(crate) fn tried(&self, path: &LogicalPath, hosts: &[&str]) -> Vec<String> {
        let mut tried: Vec<String> = Vec::new();
        for host in hosts {
            let all = self.0.iter().flat_map(|kept| &kept.sent);
            let meant = all.filter(|sent| sent.path == *path && is_on(&sent.server, host));
            let mut servers: Vec<String> = meant.map(|sent| sent.server.clone()).collect();
            if servers.is_empty() {
                servers.push((*host).to_owned());
            }
            servers.retain(|server| !tried.contains(server));
            tried.append(&mut servers);
        }
        tried
    }

    /// Whether the client may have to wait once more for this name, at most so often.
    pub(crate) fn may_wait(&mut self, path: &str, times_max: u32) -> bool {
        let waiting = &mut self.0.get_or_insert_default().waiting;
        match waiting.iter_mut().find(|waiting| waiting.path == path) {
            Some(known) if known.times >= times_max => {
                waiting.retain(|waiting| waiting.path != path);
                false
            }
            Some(known) => {
                known.times += 1;
                true
            }
            None => {
                if waiting.len() >= XROOT_WAITING_NAMES_MAX {
                    waiting.pop_front();
                }
                waiting.push_back(Waiting {
                    path: path.to_owned(),
                    times: 1,
                });
                true
            }
        }
    }

    /// The wait for this name is over.
    pub(crate) fn is_answered(&mut self, path: &str) {
        if let Some(kept) = &mut self.0
            && !kept.waiting.is_empty()
        {
            kept.waiting.retain(|waiting| waiting.path != path);
        }
    }
}

fn is_on(server: &str, host: &str) -> bool {
    let (name, _) = server.rsplit_once(':').unwrap_or((server, ""));
    server.eq_ignore_ascii_case(host) || name.eq_ignore_ascii_case(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{XROOT_WAIT_S, XROOT_WAITS_MAX};

    fn path(text: &str) -> LogicalPath {
        LogicalPath::parse(text).unwrap()
    }

    #[test]
    fn the_server_that_was_tried_is_the_one_to_which_the_client_was_sent() {
        let mut redirects = Redirects::default();
        let (here, other) = (path("/f"), path("/g"));
        assert_eq!(redirects.tried(&here, &["localhost"]), ["localhost"]);
        redirects.note(&here, "localhost:1".to_owned());
        redirects.note(&other, "localhost:2".to_owned());
        assert_eq!(redirects.tried(&here, &["LOCALHOST"]), ["localhost:1"]);
        redirects.note(&here, "localhost:3".to_owned());
        let tried = redirects.tried(&here, &["localhost", "localhost", "d9"]);
        assert_eq!(tried, ["localhost:1", "localhost:3", "d9"]);
        redirects.forget(&here);
        assert_eq!(redirects.tried(&here, &["localhost"]), ["localhost"]);
        assert_eq!(redirects.tried(&other, &["localhost"]), ["localhost:2"]);
    }

    #[test]
    fn an_address_is_in_brackets() {
        let mut redirects = Redirects::default();
        redirects.note(&path("/f"), "[::1]:1095".to_owned());
        assert_eq!(redirects.tried(&path("/f"), &["[::1]"]), ["[::1]:1095"]);
    }

    #[test]
    fn what_is_kept_has_a_limit() {
        let mut redirects = Redirects::default();
        for number in 0..2 * XROOT_REDIRECTS_KEPT_MAX {
            redirects.note(&path(&format!("/{number}")), "h:1".to_owned());
        }
        let kept = redirects.0.as_ref().unwrap();
        assert_eq!(kept.sent.len(), XROOT_REDIRECTS_KEPT_MAX);
        for number in 0..2 * XROOT_WAITING_NAMES_MAX {
            assert!(redirects.may_wait(&format!("/{number}"), XROOT_WAITS_MAX));
        }
        let kept = redirects.0.as_ref().unwrap();
        assert_eq!(kept.waiting.len(), XROOT_WAITING_NAMES_MAX);
    }

    #[test]
    fn a_client_waits_a_few_times_for_each_name() {
        let mut redirects = Redirects::default();
        let mut waits = || {
            (0..20)
                .take_while(|_| redirects.may_wait("/f", XROOT_WAITS_MAX))
                .count()
        };
        assert_eq!(waits(), XROOT_WAITS_MAX as usize);
        // The next request begins anew.
        assert_eq!(waits(), XROOT_WAITS_MAX as usize);
        assert!(redirects.may_wait("/f", XROOT_WAITS_MAX));
        redirects.is_answered("/f");
        let again = (0..20)
            .take_while(|_| redirects.may_wait("/f", XROOT_WAITS_MAX))
            .count();
        assert_eq!(again, XROOT_WAITS_MAX as usize);
    }

    #[test]
    fn a_client_waits_longer_than_a_server_that_has_just_started_refuses_changes() {
        let waits_s = i64::from(XROOT_WAITS_MAX * XROOT_WAIT_S);
        assert!(waits_s > credentials::limits::CAPABILITY_CLOCK_SKEW_S + 2);
    }
}
