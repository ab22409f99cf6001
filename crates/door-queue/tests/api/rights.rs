//! What operators give to others by FTS's routes: rights, and shares of links.

use catalog::{JobFilter, NewFile, NewJob, Owner};
use door_queue::queue::Queue;
use schedule::JobId;
use serde_json::json;

use crate::place::{JANE, Place};

#[tokio::test]
async fn rights_are_given_and_taken_back_and_count_at_once() {
    let place = Place::new().await;
    let job = json!({"files": [{"sources": ["https://a/x"], "destinations": ["https://b/x"]}]}).to_string();
    let submitted = place.ask(&place.john, "POST /jobs", &job).await;
    let of_john = format!("GET /jobs/{}", submitted.json["job_id"].as_str().unwrap());
    let authorize = "/config/authorize";
    let post = format!("POST {authorize}");
    let grant = |operation: &str| json!({"dn": JANE, "operation": operation}).to_string();

    assert_eq!(place.ask(&place.jane, &post, &grant("config")).await.status, 403);
    assert_eq!(place.ask(&place.jane, &of_john, "").await.status, 404);
    for bad in [
        grant("admin"),
        grant("fly"),
        grant(""),
        json!({"operation": "config"}).to_string(),
        json!({"dn": "*", "operation": "config"}).to_string(),
        json!({"dn": "anonymous", "operation": "config"}).to_string(),
        json!({"dn": "/CN=a\nb", "operation": "config"}).to_string(),
        json!({"dn": "/CN=a\0", "operation": "config"}).to_string(),
    ] {
        assert_eq!(place.ask(&place.operator, &post, &bad).await.status, 400, "{bad}");
    }
    let given = place.ask(&place.operator, &post, &grant("transfer")).await;
    assert_eq!(given.status, 200, "{}", given.text);
    assert_eq!(given.json, json!({"dn": JANE, "operation": "transfer"}));
    assert_eq!(place.ask(&place.jane, &of_john, "").await.status, 200);
    assert_eq!(place.ask(&place.jane, "GET /config/audit", "").await.status, 403);
    assert_eq!(place.ask(&place.operator, &post, &grant("config")).await.status, 200);
    assert_eq!(place.ask(&place.jane, "GET /config/audit", "").await.status, 200);
    let who = place.ask(&place.jane, "GET /whoami", "").await;
    assert_eq!(
        (&who.json["level"]["config"], &who.json["level"]["transfer"]),
        (&json!("all"), &json!("all"))
    );
    let listed = place
        .ask(&place.operator, &format!("GET {authorize}?operation=config"), "")
        .await;
    assert_eq!(
        (&listed.json[0]["dn"], &listed.json[0]["operation"]),
        (&json!(JANE), &json!("config"))
    );
    assert!(
        listed.json[0]["admin_dn"].as_str().is_some_and(|by| !by.is_empty()),
        "{}",
        listed.text
    );

    let dn = JANE.replace(' ', "%20").replace('/', "%2F").replace('=', "%3D");
    let remove = format!("DELETE {authorize}?dn={dn}");
    assert_eq!(place.ask(&place.john, &remove, "").await.status, 403);
    assert_eq!(place.ask(&place.operator, &remove, "").await.status, 204);
    assert_eq!(place.ask(&place.operator, &remove, "").await.status, 404, "it is gone");
    assert_eq!(place.ask(&place.jane, &of_john, "").await.status, 404);
    assert_eq!(place.ask(&place.jane, "GET /config/audit", "").await.status, 403);
    let audit = place.ask(&place.operator, "GET /config/audit", "").await;
    assert!(audit.text.contains("config granted to") && audit.text.contains("transfer revoked for"));
}

#[tokio::test]
async fn shares_of_links_are_part_of_their_settings() {
    let place = Place::new().await;
    let shares = "/config/shares";
    let share = |vo: &str, share: serde_json::Value| {
        json!({"source": "davs://A.example", "destination": "davs://b.example:443", "vo": vo, "share": share})
            .to_string()
    };
    let post = format!("POST {shares}");
    assert_eq!(
        place.ask(&place.jane, &post, &share("atlas", json!(80))).await.status,
        403
    );
    for bad in [
        share("atlas", json!(-1)),
        share("atlas", json!("x")),
        share("", json!(1)),
        "{}".to_owned(),
    ] {
        assert_eq!(place.ask(&place.operator, &post, &bad).await.status, 400, "{bad}");
    }
    let set = place.ask(&place.operator, &post, &share("atlas", json!(80))).await;
    assert_eq!((set.status, set.text.as_str()), (200, "80"));
    assert_eq!(
        place
            .ask(&place.operator, &post, &share("cms", json!("20")))
            .await
            .status,
        200
    );
    let stored = place.queue.lock().links[0].clone();
    assert_eq!(stored.source, "davs://a.example");
    assert_eq!((stored.shares["atlas"], stored.shares["cms"]), (80.0, 20.0));
    let listed = place.ask(&place.operator, &format!("GET {shares}"), "").await;
    let one = json!({"source": "davs://a.example", "destination": "davs://b.example:443", "vo": "atlas", "share": 80});
    assert_eq!(listed.json[0], one);

    let remove = |vo: &str| format!("DELETE {shares}?source=davs://a.example&destination=davs://b.example:443&vo={vo}");
    assert_eq!(
        place
            .ask(&place.operator, &format!("DELETE {shares}?vo=atlas"), "")
            .await
            .status,
        400
    );
    for vo in ["atlas", "atlas", "cms"] {
        assert_eq!(place.ask(&place.operator, &remove(vo), "").await.status, 204);
    }
    assert_eq!(place.queue.lock().links, []);
}

#[tokio::test]
async fn a_right_is_given_by_those_only_who_have_it() {
    let place = Place::new().await;
    let grant = |operation: &str| json!({"dn": JANE, "operation": operation}).to_string();
    let post = "POST /config/authorize";
    assert_eq!(place.ask(&place.operator, post, &grant("config")).await.status, 200);
    let refused = place.ask(&place.jane, post, &grant("transfer")).await;
    assert_eq!(refused.status, 403, "{}", refused.text);
    let hook = r#"{"url": "https://monitor.example/x"}"#;
    let refused = place.ask(&place.jane, "POST /v1/webhooks", hook).await;
    assert_eq!(refused.status, 403, "{}", refused.text);
    assert_eq!(place.ask(&place.operator, post, &grant("transfer")).await.status, 200);
    let added = place.ask(&place.jane, "POST /v1/webhooks", hook).await;
    assert_eq!(added.status, 201, "{}", added.text);
}

#[tokio::test]
async fn a_link_has_one_record_whatever_its_name() {
    let place = Place::new().await;
    let ends = json!({"source": "davs://a:443", "destination": "davs://b:443"});
    assert_eq!(
        place
            .ask(&place.operator, "POST /v1/links/pause", &ends.to_string())
            .await
            .status,
        204
    );
    let named = |source: &str, name: &str, max: u32| {
        json!({"source": source, "destination": "davs://b:443", "symbolicname": name, "max_active": max}).to_string()
    };
    let set = place
        .ask(&place.operator, "POST /config/links", &named("davs://a:443", "mine", 5))
        .await;
    assert_eq!(
        (set.status, &set.json["is_paused"]),
        (201, &json!(true)),
        "{}",
        set.text
    );
    let links = place.queue.lock().links.clone();
    assert_eq!(links.len(), 1, "{links:?}");
    assert_eq!(
        (links[0].name.as_str(), links[0].max_active, links[0].is_paused),
        ("mine", Some(5), true)
    );
    let other = place
        .ask(&place.operator, "POST /config/links", &named("davs://c:443", "mine", 7))
        .await;
    assert_eq!(other.status, 409, "{}", other.text);
    assert_eq!(place.queue.lock().links, links);
}

#[tokio::test]
async fn a_change_of_several_is_made_whole_or_not_at_all() {
    let place = Place::new().await;
    for (line, body) in [
        (
            "POST /config/se",
            json!({"davs://a": {"se_info": {"inbound_max_active": 1}}, "davs://b": {"se_info": {"inbound_max_active": "x"}}}),
        ),
        (
            "POST /config/global",
            json!({"atlas": {"retry": 1}, "cms": {"retry": "x"}}),
        ),
    ] {
        let refused = place.ask(&place.operator, line, &body.to_string()).await;
        assert_eq!(refused.status, 400, "{}", refused.text);
    }
    let state = place.queue.lock();
    assert!(state.storages.is_empty() && state.vos.is_empty() && state.audit.is_empty());
}

#[tokio::test]
async fn only_what_a_request_names_changes() {
    let place = Place::new().await;
    for (line, body) in [
        ("PUT /v1/limits", json!({"storage": "davs://a:443", "inbound": 0})),
        (
            "POST /config/se",
            json!({"https://a:443": {"se_info": {"outbound_max_active": 7}}}),
        ),
    ] {
        let changed = place.ask(&place.operator, line, &body.to_string()).await;
        assert_eq!(changed.status, 200, "{}", changed.text);
    }
    let stored = place.queue.lock().storages.clone();
    assert_eq!(stored.len(), 1, "{stored:?}");
    let own = &stored["https://a:443"];
    assert_eq!((own.inbound_max_active, own.outbound_max_active), (Some(0), Some(7)));
}

#[tokio::test]
async fn an_operator_of_one_organisation_stays_within_it() {
    let place = Place::new().await;
    let job = json!({"files": [{"sources": ["https://a/x"], "destinations": ["https://b/x"]}]}).to_string();
    let submitted = place.ask(&place.jane, "POST /jobs", &job).await;
    let of_jane = format!("/jobs/{}", submitted.json["job_id"].as_str().unwrap());
    let filter = JobFilter {
        limit: 1,
        ..JobFilter::default()
    };
    let stored = place.queue.catalog.list_jobs(&filter).await.unwrap().remove(0);
    let file = place.queue.catalog.files(stored.id).await.unwrap().remove(0);
    let elsewhere = NewJob {
        id: JobId([7; 16]),
        kind: stored.kind,
        owner: Owner {
            vo: "others".to_owned(),
            ..stored.owner
        },
        submitted_ms: stored.submitted_ms,
        priority: stored.priority,
        expires_ms: None,
        options: stored.options,
        metadata: None,
        files: vec![NewFile {
            index: 0,
            source: file.source,
            destination: file.destination,
            source_storage: file.source_storage,
            destination_storage: file.destination_storage,
            state: file.state,
            size_bytes: None,
            activity: file.activity,
            options: file.options,
        }],
    };
    let of_others = format!("/jobs/{}", elsewhere.id);
    place.queue.catalog.submit(elsewhere).await.unwrap();
    let ask = async |line: String, body: serde_json::Value| {
        let answer = place.ask(&place.vo_operator, &line, &body.to_string()).await;
        (answer.status, answer.text)
    };
    let who = place.ask(&place.vo_operator, "GET /whoami", "").await;
    assert_eq!(who.json["level"]["config"], json!("vo"), "{}", who.text);
    assert_eq!(ask(format!("GET {of_jane}"), json!(null)).await.0, 200);
    assert_eq!(ask(format!("GET {of_others}"), json!(null)).await.0, 404);
    assert_eq!(ask(format!("DELETE {of_jane}"), json!(null)).await.0, 200);
    assert_eq!(ask(format!("DELETE {of_others}"), json!(null)).await.0, 404);

    for vo in ["*", "others"] {
        let fts = json!({"storage": "https://b", "vo_name": vo});
        assert_eq!(ask("POST /ban/se".to_owned(), fts).await.0, 403, "{vo}");
        let ours = json!({"storage": "https://b", "vo": vo});
        assert_eq!(ask("PUT /v1/bans".to_owned(), ours).await.0, 403, "{vo}");
    }
    let (status, text) = ask("PUT /v1/bans".to_owned(), json!({"storage": "https://b"})).await;
    assert_eq!(status, 200, "{text}");
    let bans = place.queue.bans().await.unwrap();
    assert_eq!(bans.iter().map(|ban| &*ban.vo).collect::<Vec<_>>(), ["testers"]);
    let retry = |vo: &str| json!({vo: {"retry": 2}});
    let (status, text) = ask("POST /config/global".to_owned(), retry("testers")).await;
    assert_eq!(status, 200, "{text}");
    for (line, body) in [
        ("POST /config/global", retry("others")),
        ("POST /config/global", retry("*")),
        ("POST /config/authorize", json!({"dn": JANE, "operation": "config"})),
        (
            "POST /v1/links/pause",
            json!({"source": "https://a", "destination": "https://b"}),
        ),
        ("POST /v1/webhooks", json!({"url": "https://monitor.example/x"})),
    ] {
        assert_eq!(ask(line.to_owned(), body).await.0, 403, "{line}");
    }
}
