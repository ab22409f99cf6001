//! A queue between two endpoints that let one user in, who has delegated.

use std::path::{Path, PathBuf};
use std::process::Command;

use conformance::{Lab, Run, run};
use testkit::{Access, Crossload, Queue, QueueOptions, Result, User, require_queue_python};

/// The user whose jobs they are.
pub(crate) const DN: &str = "/O=Crossload test/CN=Jane Doe";

/// A queue and its storages.
pub(crate) struct Site {
    pub(crate) lab: Lab,
    pub(crate) first: Crossload,
    pub(crate) second: Crossload,
    pub(crate) queue: Queue,
    pub(crate) proxy: PathBuf,
    pub(crate) user: User,
}

impl Site {
    /// Endpoints that let only the user in, and a queue with these lines in its section.
    pub(crate) fn start(name: &str, queue: &str) -> Result<Self> {
        let lab = Lab::new(name)?;
        let options = options(&lab, queue);
        Self::start_of(lab, options)
    }

    /// The same with these options of the queue.
    pub(crate) fn start_of(lab: Lab, queue: QueueOptions) -> Result<Self> {
        let user = lab.authority().issue_user(DN)?;
        let proxy = user.proxy()?.write_proxy(&lab.fresh("proxy"))?;
        let endpoint = |name: &str| {
            let mut options = lab.options(name);
            options.exports[0].anonymous = Access::None;
            let trust = lab.authority().trust_directory();
            options.more = format!(
                "[x509]\ntrust_directory = {trust:?}\n[delegation]\ndirectory = \"delegated\"\nkey_file = \
                 \"delegation.key\"\n[[rule]]\nwho = \"dn:{DN}\"\npath = \"/data\"\nmay = [\"all\"]\n"
            );
            Crossload::start(options)
        };
        let (first, second) = (endpoint("first")?, endpoint("second")?);
        let queue = Queue::start(queue)?;
        Ok(Self {
            first,
            second,
            queue,
            proxy,
            user,
            lab,
        })
    }

    /// The URL of a file of the first endpoint.
    pub(crate) fn source(&self, name: &str) -> String {
        davs(&self.first.url(&format!("/data/{name}")))
    }

    /// The URL of a file of the second endpoint.
    pub(crate) fn destination(&self, name: &str) -> String {
        davs(&self.second.url(&format!("/data/{name}")))
    }

    /// A command of FTS's client with the user's proxy.
    pub(crate) fn fts(&self, program: &str, arguments: &[&str]) -> Result<Run> {
        self.fts_at(&self.queue, program, arguments)
    }

    /// The same, at another queue.
    pub(crate) fn fts_at(&self, queue: &Queue, program: &str, arguments: &[&str]) -> Result<Run> {
        let mut command: Command = self.lab.prepared(&require_queue_python(program)?);
        command.env("X509_USER_PROXY", &self.proxy);
        command.args(["-s", &queue.url()]).args(arguments);
        Ok(run(&command))
    }

    /// Status and body of the queue's answer to curl with a proxy, these arguments and a path.
    pub(crate) fn ask(&self, proxy: &Path, arguments: &[&str], path: &str) -> (u16, String) {
        let mut curl = self.lab.command("curl").expect("curl");
        curl.args(["-s", "-w", "\\n%{http_code}", "--cacert"]);
        curl.arg(self.lab.authority().ca_file()).arg("-E").arg(proxy);
        curl.args(arguments).arg(format!("{}{path}", self.queue.url()));
        let text = run(&curl).succeeded().text();
        let (body, status) = text.rsplit_once('\n').expect("a status");
        (status.parse().expect("a number"), body.to_owned())
    }

    /// What the queue answers at its admin port.
    pub(crate) fn admin(&self, path: &str) -> String {
        let mut curl = self.lab.command("curl").expect("curl");
        curl.arg("-s").arg(self.queue.admin_url(path));
        run(&curl).succeeded().text()
    }

    /// Delegates the user's proxy to the queue.
    pub(crate) fn delegate(&self) -> Result<()> {
        self.fts("fts-rest-delegate", &["-f"])?.succeeded();
        Ok(())
    }
}

/// Options of a queue with TLS, with further lines in its section.
pub(crate) fn options(lab: &Lab, queue: &str) -> QueueOptions {
    QueueOptions {
        certificate: Some(lab.host().clone()),
        ..lab.queue_options(queue)
    }
}

fn davs(url: &str) -> String {
    url.replacen("https", "davs", 1)
}
