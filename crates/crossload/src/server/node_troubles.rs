//! Nodes that a redirector cannot use as configured, for the log: each trouble once.

use std::collections::HashMap;
use std::time::Duration;

use cluster::director::Director;
use cluster::node::{Presence, Trouble};
use tokio::time::{MissedTickBehavior, interval};

use super::node_log::{NodeLine, NodeLog};

/// Time between two looks.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// What was logged about each node.
#[derive(Debug, Default)]
pub(super) struct NodeTroubles {
    known: HashMap<String, Known>,
}

#[derive(Debug, Default)]
struct Known {
    has_come: bool,
    logged: Option<Trouble>,
}

/// A line of the log.
#[derive(Debug, PartialEq)]
enum Line {
    Unusable(String),
    Usable,
}

impl NodeTroubles {
    /// Logs what changes; does not end.
    pub(super) async fn watch(mut self, director: &Director, log: &NodeLog) {
        let mut times = interval(LOOK_PERIOD);
        times.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            times.tick().await;
            for (node, line) in self.look(director) {
                let line = match line {
                    Line::Unusable(error) => NodeLine::new("node_unusable", Some(error)),
                    Line::Usable => NodeLine::new("node_usable", None),
                };
                log.write(&node, line);
            }
            log.write_due();
        }
    }

    fn look(&mut self, director: &Director) -> Vec<(String, Line)> {
        director.with_nodes(|nodes, now_ms| {
            let mut lines = Vec::new();
            for (_, node) in nodes.iter().filter(|(_, node)| *node.presence() != Presence::Unknown) {
                let known = self.known.entry(node.config.name.clone()).or_default();
                let line = known.line(node.is_present(), node.trouble(now_ms));
                lines.extend(line.map(|line| (node.config.name.clone(), line)));
            }
            lines
        })
    }
}

impl Known {
    /// Further words of the same trouble are no news.
    fn line(&mut self, is_present: bool, trouble: Option<Trouble>) -> Option<Line> {
        self.has_come |= is_present;
        let kind = |trouble: &Option<Trouble>| trouble.as_ref().map(std::mem::discriminant);
        if kind(&trouble) == kind(&self.logged) {
            return None;
        }
        let before = std::mem::replace(&mut self.logged, trouble);
        match (&self.logged, before) {
            // `node_lost` and `node_came` say so.
            (Some(Trouble::Away(_)), _) if self.has_come => None,
            (None, Some(Trouble::Away(_)) | None) => None,
            (None, Some(_)) => Some(Line::Usable),
            (Some(trouble), _) => Some(Line::Unusable(trouble.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trouble_is_logged_once() {
        let mut known = Known::default();
        let away = |words: &str| Some(Trouble::Away(words.to_owned()));
        let refuses = || Some(Trouble::Refuses("401".to_owned()));
        // It has never come: there is no `node_lost`.
        let line = known.line(false, away("wrong certificate"));
        let expected = "It does not answer: wrong certificate.".to_owned();
        assert_eq!(line, Some(Line::Unusable(expected)));
        assert_eq!(known.line(false, away("refused")), None);
        assert_eq!(known.line(true, None), None);
        let line = known.line(true, refuses());
        assert!(matches!(line, Some(Line::Unusable(words)) if words.contains("token_file")));
        assert_eq!(known.line(true, refuses()), None);
        assert_eq!(known.line(true, None), Some(Line::Usable));
        assert_eq!(known.line(false, away("refused")), None);
    }
}
