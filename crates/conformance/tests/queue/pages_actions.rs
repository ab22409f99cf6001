//! What operators do on the pages of a queue: canceling jobs, draining workers.

use std::time::Duration;

use conformance::{Lab, Look, Terminal, assert_pages_are_good, look_at, until};
use serde_json::Value;
use testkit::{Result, TokenIssuer, available};

use crate::pages::PagedSite;

const LIMIT: Duration = Duration::from_secs(60);

struct Operated {
    paged: PagedSite,
    issuer: TokenIssuer,
}

impl Operated {
    fn start(name: &str) -> Result<Self> {
        let lab = Lab::new(name)?;
        let issuer = TokenIssuer::start(lab.authority())?;
        let web = format!(
            "operators = [[\"issuer:{0}\", \"subject:olga\"]]\n[[issuer]]\nurl = \"{0}\"\nvo = \"wlcg\"\n",
            issuer.url()
        );
        let paged = PagedSite::start_in(lab, &web)?;
        Ok(Self { paged, issuer })
    }

    fn token(&self, subject: &str) -> String {
        self.issuer.token().claim("sub", subject).mint()
    }

    /// Orders an action as a program.
    fn order(&self, path: &str, subject: &str, fields: &[&str]) -> conformance::Answer {
        let bearer = format!("Authorization: Bearer {}", self.token(subject));
        let place = format!("{}{path}", self.paged.url);
        let mut words = vec!["-H", "Accept: application/json", "-H", &bearer];
        fields
            .iter()
            .for_each(|field| words.extend(["--data-urlencode", field]));
        words.push(&place);
        self.paged.site.lab.curl(&words)
    }
}

#[test]
fn top_cancels_jobs_and_drains_workers() {
    let name = "top_cancels_jobs_and_drains_workers";
    let Some(operated) = available(name, Operated::start("queue-top")) else {
        return;
    };
    let (paged, lab) = (&operated.paged, &operated.paged.site.lab);
    let Some(terminal) = available(name, Terminal::new(lab)) else {
        return;
    };
    std::fs::write(paged.site.endpoint.data().join("f"), b"content").expect("a file");
    // Its destination does not answer: it waits.
    let job = paged.submit(&paged.site.endpoint.clear_url("/data/f"), "http://localhost:1/data/f");
    let token = lab.file(operated.token("olga").as_bytes());
    let arguments = [
        "top",
        paged.url.as_str(),
        "--token-file",
        token.to_str().expect("plain"),
    ];
    let program = lab.client(arguments).expect("our client").get_program().to_owned();
    let line = format!("{} {}", program.display(), arguments.join(" "));
    terminal.start(200, lab.scratch().path(), &line);
    let sees = |what: &str, text: &str| until(what, LIMIT, || terminal.shows(text));
    sees("links", "links: ");
    terminal.press(&["Tab"]);
    sees("jobs", &job);
    terminal.press(&["j", "c"]);
    sees("a question", &format!("Cancel the job {job}? (y/n)"));
    sees("its facts", "to http://localhost:1");
    terminal.press(&["y"]);
    sees("an answer", &format!("Canceled the job {job}"));
    until("canceled", LIMIT, || {
        paged.get(&format!("/queue/jobs/{job}"))["state"] == "canceled"
    });
    terminal.press(&["c"]);
    sees("a refusal", &format!("The job {job} has ended already"));

    terminal.press(&["Tab"]);
    sees("workers", "workers: 1 with");
    for (question, answer, is_draining, sums) in [
        ("Drain the worker", "takes no new files", true, "1 draining"),
        ("Use the worker", "takes new files again", false, "0 draining"),
    ] {
        terminal.press(&["j", "d"]);
        sees("a question", question);
        terminal.press(&["y"]);
        sees("an answer", answer);
        assert_eq!(paged.get("/queue")["workers"][0]["is_draining"], is_draining);
        sees("the state", sums);
    }
    terminal.press(&["?"]);
    sees("the keys", "drain the selected worker");
}

#[test]
fn operators_cancel_jobs_and_drain_workers() {
    let name = "operators_cancel_jobs_and_drain_workers";
    let Some(operated) = available(name, Operated::start("queue-operators")) else {
        return;
    };
    let (paged, lab) = (&operated.paged, &operated.paged.site.lab);
    std::fs::write(paged.site.endpoint.data().join("f"), b"content").expect("a file");
    // Its destination does not answer: it waits.
    let job = paged.submit(&paged.site.endpoint.clear_url("/data/f"), "http://localhost:1/data/f");
    let id = format!("id={job}");
    operated.order("/queue/cancel", "jane", &[&id]).expect(403);
    lab.curl(&["-d", &id, &format!("{}/queue/cancel", paged.url)])
        .expect(403);
    let paths = [
        format!("/queue/jobs/{job}"),
        format!("/queue/cancel?{id}"),
        "/queue".to_owned(),
    ];
    let paths = [paths[0].as_str(), paths[1].as_str(), paths[2].as_str()];
    let look = Look::new(&paged.url, &paths).signed_in_with(&operated.token("olga"));
    if let Some(seen) = available(name, look_at(lab, &look)) {
        assert_pages_are_good(&seen, &paths);
        assert!(seen.iter().all(|page| page["status"] == 200), "{seen:?}");
    }
    operated.order("/queue/cancel", "olga", &["id=nonsense"]).expect(404);
    let done: Value =
        serde_json::from_str(&operated.order("/queue/cancel", "olga", &[&id]).expect(200).text()).expect("JSON");
    assert_eq!(
        (&done["action"], &done["subject"]),
        (&"cancel_job".into(), &job.as_str().into())
    );
    until("canceled", LIMIT, || {
        paged.get(&format!("/queue/jobs/{job}"))["state"] == "canceled"
    });
    let shown = paged.get(&format!("/queue/jobs/{job}")).to_string();
    assert!(shown.contains("canceled by an operator"), "{shown}");
    operated.order("/queue/cancel", "olga", &[&id]).expect(409);

    let worker = paged.get("/queue")["workers"][0]["name"]
        .as_str()
        .expect("a worker")
        .to_owned();
    let named = format!("worker={worker}");
    operated
        .order("/queue/drain", "jane", &[&named, "drain=yes"])
        .expect(403);
    operated
        .order("/queue/drain", "olga", &["worker=none", "drain=yes"])
        .expect(404);
    for (drain, is_draining) in [("drain=yes", true), ("drain=no", false)] {
        operated.order("/queue/drain", "olga", &[&named, drain]).expect(200);
        assert_eq!(paged.get("/queue")["workers"][0]["is_draining"], is_draining);
    }
    let log = paged.site.queue.log();
    for action in ["cancel_job", "drain_worker", "undrain_worker"] {
        assert!(log.contains(&format!("\"action\":\"{action}\"")), "{log}");
    }
}
