//! Our client explains, follows and steers our own queue.

use conformance::{bytes, last_json};
use testkit::available;

use crate::ours::{ours, site_with_file};

#[test]
fn a_file_that_waits_says_why_and_goes_on() {
    let test = "a_file_that_waits_says_why_and_goes_on";
    let content = bytes(500_000, 64);
    let Some((site, from, to)) = available(test, site_with_file("ours-why", &content)) else {
        return;
    };
    // A queue has one name for davs and https.
    let storage = format!("https://localhost:{}", site.second.port());
    let source = format!("https://localhost:{}", site.first.port());
    let ban = ["--status", "wait", "--allow-submit", "--reason", "downtime", &storage];
    ours(&site, "ban", &ban).succeeded();
    let bans = ours(&site, "ban", &[]).succeeded().text();
    assert!(bans.contains(&storage) && bans.contains("downtime"), "{bans}");

    let job = ours(&site, "submit", &["-K", &from, &to]).succeeded().text();
    let job = job.trim();
    let why = ours(&site, "why", &[job]).succeeded().text();
    assert!(why.contains("ban") && why.contains(&storage), "{why}");
    let why = last_json(&ours(&site, "why", &[job, "--json"]).succeeded());
    let file = why["file_id"].to_string();
    assert!(
        why["reasons"].as_array().is_some_and(|reasons| !reasons.is_empty()),
        "{why}"
    );
    for name in [file.clone(), format!("{job}:{file}")] {
        let same = last_json(&ours(&site, "why", &[&name, "--json"]).succeeded());
        assert_eq!(same["reasons"], why["reasons"], "by {name}");
    }

    // The link is paused before the ban ends, and then it is the pause that holds the file.
    ours(&site, "pause", &[&source, &storage]).succeeded();
    let other_name = format!(
        "{}/",
        storage
            .replacen("https://", "davs://", 1)
            .replacen("http://", "DAV://", 1)
    );
    ours(&site, "ban", &["--unban", &other_name]).succeeded();
    let missing = ours(&site, "ban", &["--unban", &storage]).failed_with(2);
    assert!(missing.stderr.contains("is not banned"), "{}", missing.said());
    let why = ours(&site, "why", &[job]).succeeded().text();
    assert!(why.contains("paused"), "{why}");
    let links = ours(&site, "links", &[]).succeeded().text();
    assert!(links.contains("paused") && links.contains(&storage), "{links}");
    let link = ours(&site, "links", &["--why", &source, &storage]).succeeded().text();
    assert!(link.contains("paused") && !link.contains("limit 0"), "{link}");
    let same = ours(&site, "why", &[&source, &storage]).succeeded().text();
    assert!(same.contains("paused") && same.contains(&storage), "{same}");
    ours(&site, "resume", &[&source, &storage]).succeeded();
    let watched = ours(&site, "watch", &[job]).succeeded().text();
    assert!(watched.contains("FINISHED"), "{watched}");
    assert!(std::fs::read(site.second.data().join("f")).expect("there") == content);

    // The destination exists now.
    let failed = ours(&site, "submit", &[&from, &to]).succeeded().text();
    let failed = ours(&site, "watch", &[failed.trim()]).failed_with(1);
    assert!(failed.text().contains("FAILED"), "{}", failed.said());
}

#[test]
fn operators_see_and_change_settings() {
    let test = "operators_see_and_change_settings";
    let Some((site, ..)) = available(test, site_with_file("ours-settings", b"x")) else {
        return;
    };
    let storage = "https://b.example.org:443";
    let set = ours(&site, "limits", &[storage, "--inbound", "7", "--outbound", "9"])
        .succeeded()
        .text();
    assert!(set.contains(storage) && set.contains('7') && set.contains('9'), "{set}");
    let set = last_json(&ours(&site, "limits", &[storage, "--inbound", "none", "--json"]).succeeded());
    let info = &set["storages"][storage]["se_info"];
    assert!(
        info["inbound_max_active"].is_null() && info["outbound_max_active"] == 9,
        "{set}"
    );
    let set = last_json(&ours(&site, "limits", &[storage, "--inbound-rate", "512MiB", "--json"]).succeeded());
    let info = &set["storages"][storage]["se_info"];
    assert!(
        info["inbound_max_throughput"] == 512.0 && info["outbound_max_active"] == 9,
        "{set}"
    );
    let set = ours(&site, "limits", &[storage, "--third-party", "pull"])
        .succeeded()
        .text();
    assert!(set.contains("THIRD-PARTY") && set.contains("pull"), "{set}");
    let set = last_json(&ours(&site, "limits", &[storage, "--third-party", "default", "--json"]).succeeded());
    assert!(set["storages"][storage]["se_info"]["tpc_support"].is_null(), "{set}");
    let link = ["https://a.example.org:443", storage];
    ours(&site, "limits", &[link[0], link[1], "--max", "20"]).succeeded();
    let set = last_json(&ours(&site, "limits", &[link[0], link[1], "--min", "3", "--json"]).succeeded());
    let (minimum, maximum) = (&set["links"][0]["min_active"], &set["links"][0]["max_active"]);
    assert!(minimum == 3 && maximum == 20, "{set}");

    ours(&site, "shares", &["atlas", "production=0.7", "default=0.3"]).succeeded();
    let shares = ours(&site, "shares", &[]).succeeded().text();
    assert!(
        shares.contains("atlas") && shares.contains("production") && shares.contains("0.7"),
        "{shares}"
    );
    assert_eq!(ours(&site, "shares", &["atlas", "--remove"]).succeeded().text(), "");

    let of_link = |shares: &[&str]| {
        let line = ["--link", "*", storage].into_iter().chain(shares.iter().copied());
        ours(&site, "shares", &line.collect::<Vec<_>>()).succeeded().text()
    };
    let shares = of_link(&["--share", "atlas=3", "--share", "cms=1"]);
    assert!(shares.contains("atlas") && shares.contains("cms"), "{shares}");
    assert!(!of_link(&["--share", "cms=0"]).contains("cms"));
    assert_eq!(of_link(&["--share", "atlas=0"]), "");

    let workers = last_json(&ours(&site, "drain", &["--json"]).succeeded());
    let name = workers["name"].as_str().expect("a worker").to_owned();
    let draining = ours(&site, "drain", &[&name]).succeeded().text();
    assert!(draining.contains("draining"), "{draining}");
    let works = ours(&site, "drain", &[&name, "--off"]).succeeded().text();
    assert!(!works.contains("draining"), "{works}");
    // By the configured part of its name, which is that of the machine unless `worker` is set.
    let short = name.rsplitn(3, ':').last().expect("a name");
    let draining = ours(&site, "drain", &[short]).succeeded().text();
    assert!(draining.contains("draining"), "{draining}");
    ours(&site, "drain", &[short, "--off"]).succeeded();
    let unknown = ours(&site, "drain", &["unknown-worker"]);
    assert!(
        unknown.code != Some(0) && unknown.stderr.contains("queue"),
        "{}",
        unknown.said()
    );
}

#[test]
fn operators_ban_users_and_keep_webhooks() {
    let test = "operators_ban_users_and_keep_webhooks";
    let Some((site, from, to)) = available(test, site_with_file("ours-webhooks", b"x")) else {
        return;
    };
    for (user, words) in [
        ("6f0c@https://iam.example.org/", "banned; it concerns 0 jobs"),
        ("/O=Crossload test/CN=John Roe", "banned; it concerns 0 jobs"),
    ] {
        let banned = ours(&site, "ban", &["--user", user, "--reason", "too much"])
            .succeeded()
            .text();
        assert!(banned.contains(words), "{banned}");
        let bans = ours(&site, "ban", &[]).succeeded().text();
        assert!(bans.contains(user) && bans.contains("too much"), "{bans}");
        ours(&site, "ban", &["--user", user, "--unban"]).succeeded();
    }
    // A subject alone may be of the users of several issuers.
    let vague = ours(&site, "ban", &["--user", "6f0c"]);
    assert!(
        vague.code != Some(0) && vague.stderr.contains("subject@issuer"),
        "{}",
        vague.said()
    );

    let url = "https://monitor.example.org/x";
    let added = ours(&site, "webhooks add", &["--kinds", "state", "--vo", "atlas", url])
        .succeeded()
        .text();
    let (name, secret) = added.trim().split_once('\n').expect("name and secret");
    assert!(secret.starts_with("secret whsec_"), "{added}");
    let listed = ours(&site, "webhooks list", &[]).succeeded().text();
    assert!(
        listed.contains(name) && listed.contains(url) && listed.contains("state"),
        "{listed}"
    );
    assert!(!listed.contains("whsec_"), "{listed}");
    let metrics = site.admin("/metrics");
    let pending = format!("crossload_queue_webhook_pending_events{{webhook=\"{name}\"}}");
    assert!(metrics.contains(&pending), "{metrics}");
    ours(&site, "webhooks enable", &[name]).succeeded();
    ours(&site, "webhooks remove", &[name]).succeeded();
    let gone = ours(&site, "webhooks remove", &[name]);
    assert!(
        gone.code != Some(0) && gone.stderr.contains("webhooks list"),
        "{}",
        gone.said()
    );

    // An expired token is refused here, before the queue is asked.
    let claims = "eyJleHAiOjEwMDB9";
    let token = site.lab.file(format!("eyJhbGciOiJSUzI1NiJ9.{claims}.YQ").as_bytes());
    let token = token.to_str().expect("plain path");
    let refused = ours(&site, "submit", &["--source-token-file", token, &from, &to]);
    assert!(
        refused.code != Some(0) && refused.stderr.contains("at 1970-01-01T00:16:40Z"),
        "{}",
        refused.said()
    );
}
