//! FTS.

use std::time::Duration;

use config::{Configuration, CopyRole};
use migrate::{DocumentKind, Outcome, System};

use crate::{Site, all_remarks, migration, site};

fn fts(files: &[&str]) -> Site {
    site(System::Fts, DocumentKind::Queue, files)
}

fn has_no_secret(site: &Site) {
    let texts = site.migration.texts.iter().map(|file| file.text.clone());
    let all = format!(
        "{}{}{}",
        site.text,
        all_remarks(&site.migration),
        texts.collect::<String>()
    );
    assert!(!all.contains("hunter2"), "{all}");
}

#[test]
fn a_server_with_proxies_becomes_a_queue() {
    let site = fts(&["fts-classic"]);
    let Configuration {
        queue,
        messages,
        server,
        ..
    } = &site.configuration;
    assert_eq!(queue.listen[0].to_string(), "127.0.0.1:8446", "not everyone was served");
    assert_eq!((queue.copies, queue.history), (800, Duration::from_secs(14 * 86_400)));
    assert_eq!(site.configuration.limits.streams, 8);
    assert_eq!(server.name.as_deref(), Some("https://fts.example.org:8446"));
    assert_eq!(queue.operators, ["/atlas/Role=ftsadmin", "/dteam/Role=ftsadmin"]);
    assert_eq!(queue.vo_operators, ["/atlas/Role=lcgadmin", "/dteam/Role=lcgadmin"]);
    assert_eq!(messages.brokers, ["stomp://mq.example.org:61613"]);
    assert_eq!(messages.broker_prefix, "/queue/");
    assert!(messages.broker_password_file.is_some());
    for (text, outcome) in [
        ("DbPassword (value not shown)", Outcome::NoEquivalent),
        ("not only atlas, dteam", Outcome::InPart),
        ("lcgadmin = all:config", Outcome::InPart),
        ("the role helper has no right", Outcome::NoEquivalent),
        ("OPTIMIZER=somewhere.else", Outcome::InPart),
        ("user and password belong into", Outcome::InPart),
        ("StrangeSetting", Outcome::Unknown),
        ("TokenRefreshMarginPeriod", Outcome::NotNeeded),
    ] {
        assert_eq!(site.remark(text).0, outcome, "{text}");
    }
    has_no_secret(&site);
}

#[test]
fn issuers_and_an_encrypted_broker_are_taken() {
    let site = fts(&["fts-tokens"]);
    let Configuration {
        queue,
        messages,
        issuers,
        tokens,
        ..
    } = &site.configuration;
    assert_eq!(queue.listen[0].to_string(), "[::]:8446");
    assert_eq!(
        (issuers.len(), &*issuers[0].url, issuers[0].vo.as_deref()),
        (1, "https://iam.lab.example/", Some("lab"))
    );
    assert!(queue.token_clients_file.is_some());
    assert_eq!(tokens.audiences, ["https://fts.example.org:8446"]);
    assert_eq!(messages.brokers, ["stomp+ssl://mq-alias.example.org:61614"]);
    assert_eq!(messages.broker_prefix, "/topic/VirtualTopic.");
    assert_eq!(messages.broker_certificate, messages.broker_key);
    assert!(messages.broker_certificate.is_some() && messages.broker_password_file.is_none());
    assert!(queue.operators.is_empty(), "roles of all organisations cannot be named");
    for (text, outcome) in [
        ("takes the role production of every organisation", Outcome::InPart),
        ("SSL_VERIFY=false", Outcome::InPart),
        ("plain = http", Outcome::NoEquivalent),
        ("Alias = localhost", Outcome::InPart),
        ("pool_size", Outcome::NotNeeded),
    ] {
        assert_eq!(site.remark(text).0, outcome, "{text}");
    }
    has_no_secret(&site);
}

#[test]
fn limits_are_keys_and_commands() {
    let names = ["se", "links", "rest", "activities", "global"].map(|name| format!("fts-limits/{name}.json"));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let site = fts(&names);
    let queue = &site.configuration.queue;
    assert_eq!(
        (
            queue.storage_copies,
            queue.link_copies,
            queue.link_copies_minimum,
            queue.retries
        ),
        (150, 120, 2, 2)
    );
    let storages: Vec<_> = queue.storages.iter().map(|one| (&*one.name, one.third_party)).collect();
    assert_eq!(
        storages,
        [
            ("davs://a.example.org", CopyRole::Pull),
            ("root://old.example.org", CopyRole::None)
        ]
    );
    let commands = &site.migration.texts[0].text;
    for command in [
        "crossload queue limits 'davs://a.example.org' --inbound 40 --inbound-rate 500MiB\n",
        "crossload queue limits 'davs://a.example.org' 'davs://it'\\''s.example.org' --max 20 --min 3\n",
        "crossload queue shares --link '*' 'davs://a.example.org' --share 'atlas=3'\n",
        "crossload queue ban --status wait 'davs://down.example.org'\n",
        "crossload queue ban --user '/DC=org/CN=Too Much'\n",
        "crossload queue shares 'atlas' 'Production=0.7' 'default=0.3'\n",
    ] {
        assert!(commands.contains(command), "{command}: {commands}");
    }
    assert!(
        !commands.contains("outbound 0") && !commands.contains("srm://"),
        "{commands}"
    );
    for (text, outcome) in [
        ("storage srm://tape.example.org", Outcome::NoEquivalent),
        ("storage davs://a.example.org", Outcome::InPart),
        ("a right of a user", Outcome::NoEquivalent),
        ("settings of cms", Outcome::InPart),
    ] {
        assert_eq!(site.remark(text).0, outcome, "{text}");
    }
}

#[test]
fn other_documents_are_remarks() {
    let all = migration(
        System::Fts,
        &["storm-policies/config/application.yml", "fts-limits/links.json"],
    );
    assert!(all.find(DocumentKind::Queue).is_some());
    assert!(all.count(Outcome::Unknown) > 0);
}
