//! Webhooks: what posts events, with its lines in the log.

use std::sync::Arc;
use std::time::Duration;

use queue::webhooks::{Webhook, WebhookLog, Webhooks};
use remote::Client;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::server::log::Log;

/// What posts.
pub(super) struct Posting {
    stopping: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Posting {
    /// Posts in the name of `worker`.
    pub(super) fn start(webhooks: Webhooks, client: Client, worker: &str, log: &Log) -> Self {
        let stopping = watch::Sender::new(false);
        let log = Arc::new(HookLog(log.clone()));
        let task = tokio::spawn(webhooks.run(client, worker.to_owned(), log, stopping.subscribe()));
        Self { stopping, task }
    }

    /// Ends it. What receivers have not confirmed is posted after the next start, or by others.
    pub(super) async fn stop(self, grace: Duration) {
        self.stopping.send_replace(true);
        let _ = tokio::time::timeout(grace, self.task).await;
    }
}

/// The log shows the name of a webhook, not its URL: that may hold a secret.
struct HookLog(Log);

impl WebhookLog for HookLog {
    fn failed(&self, hook: &Webhook, error: &str, pause: Duration) {
        let fields = json!({"webhook": hook.id, "error": error, "next_attempt_s": pause.as_secs()});
        self.0.write("webhook_failed", &fields);
    }

    fn recovered(&self, hook: &Webhook) {
        self.0.write("webhook_recovered", &json!({"webhook": hook.id}));
    }

    fn disabled(&self, hook: &Webhook, error: &str) {
        self.0
            .write("webhook_disabled", &json!({"webhook": hook.id, "error": error}));
    }
}
