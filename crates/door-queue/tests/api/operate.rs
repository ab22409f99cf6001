//! What operators see and set.

use std::sync::Arc;

use door_queue::limits::BANS_MAX;
use door_queue::queue::{Decision, HeldState, LinkState, WorkerState};
use serde_json::{Value, json};

use crate::place::Place;
use crate::queue::NOW;

const A: &str = "https://a:443";
const B: &str = "root://b:1094";

#[tokio::test]
async fn settings_are_for_operators() {
    let place = Place::new().await;
    let link = json!({"source": A, "destination": B}).to_string();
    for (line, body) in [
        ("PUT /v1/limits", json!({"storage": A, "inbound": 1}).to_string()),
        ("PUT /v1/bans", json!({"storage": A}).to_string()),
        ("PUT /v1/bans", json!({"user": "/CN=x"}).to_string()),
        ("DELETE /v1/bans?storage=https://a:443", String::new()),
        ("PUT /v1/shares", json!({"vo": "x", "shares": {}}).to_string()),
        ("POST /v1/links/pause", link.clone()),
        ("POST /v1/links/resume", link),
        ("POST /v1/workers/w1/drain", json!({"drain": true}).to_string()),
    ] {
        let refused = place.ask(&place.jane, line, &body).await;
        assert_eq!((refused.status, refused.code()), (403, "forbidden"), "{line}");
    }
    for path in ["limits", "bans", "shares", "links", "workers", "decisions", "whoami"] {
        assert_eq!(
            place.ask(&place.jane, &format!("GET /v1/{path}"), "").await.status,
            200,
            "{path}"
        );
        let anonymous = place
            .ask(&place.without_credential, &format!("GET /v1/{path}"), "")
            .await;
        assert_eq!((anonymous.status, anonymous.code()), (401, "unauthenticated"), "{path}");
    }
}

#[tokio::test]
async fn limits_are_set_changed_and_removed() {
    let place = Place::new().await;
    let put = async |body: Value| place.ask(&place.operator, "PUT /v1/limits", &body.to_string()).await;
    let storage = put(json!({"storage": "HTTPS://a:443/", "inbound": 5, "outbound_bytes_s": 1_048_576})).await;
    let expected = json!({"storage": A, "inbound": 5, "outbound": null, "inbound_bytes_s": null,
        "outbound_bytes_s": 1_048_576.0, "third_party": null});
    assert_eq!((storage.status, storage.json), (200, expected));
    let kept = put(json!({"storage": A, "outbound": 7, "inbound": null})).await.json;
    assert_eq!((&kept["inbound"], &kept["outbound"]), (&Value::Null, &json!(7)));
    let role = put(json!({"storage": A, "third_party": "pull"})).await.json;
    assert_eq!((&role["third_party"], &role["outbound"]), (&json!("pull"), &json!(7)));
    let unknown = put(json!({"storage": A, "third_party": "both"})).await;
    assert_eq!(unknown.status, 400);
    let link = put(json!({"source": A, "destination": "*", "maximum": 9, "minimum": 2}))
        .await
        .json;
    assert_eq!(
        (&link["maximum"], &link["minimum"], &link["is_paused"]),
        (&json!(9), &json!(2), &json!(false))
    );
    assert_eq!(put(json!({"vo": "atlas", "maximum": 3})).await.status, 200);
    let all = place.ask(&place.jane, "GET /v1/limits", "").await.json;
    assert_eq!(all["storages"][0]["outbound_bytes_s"], json!(1_048_576.0));
    assert_eq!(
        (&all["links"][0]["source"], &all["vos"][0]["vo"]),
        (&json!(A), &json!("atlas"))
    );

    put(json!({"storage": A, "outbound": null, "outbound_bytes_s": null, "third_party": null})).await;
    put(json!({"source": A, "destination": "*", "maximum": null, "minimum": null})).await;
    put(json!({"vo": "atlas", "maximum": null})).await;
    let none = place.ask(&place.jane, "GET /v1/limits", "").await.json;
    assert_eq!(none, json!({"storages": [], "links": [], "vos": []}));
    assert!(
        place.queue.lock().links.is_empty(),
        "settings that say nothing are removed"
    );

    for body in [
        json!({}),
        json!({"storage": A}),
        json!({"storage": "a", "inbound": 1}),
        json!({"storage": A, "maximum": 1}),
        json!({"storage": A, "source": A, "destination": B, "maximum": 1}),
        json!({"source": A, "maximum": 1}),
        json!({"source": A, "destination": B, "inbound": 1}),
        json!({"source": A, "destination": B, "maximum": 1, "minimum": 2}),
        json!({"storage": A, "inbound": -1}),
        json!({"storage": A, "inbound": 1.5}),
        json!({"storage": A, "in": 1}),
        json!({"vo": "", "maximum": 1}),
    ] {
        let refused = put(body.clone()).await;
        assert_eq!((refused.status, refused.code()), (400, "bad_request"), "{body}");
    }
}

#[tokio::test]
async fn bans_of_storages_and_users_are_set_and_ended() {
    let place = Place::new().await;
    let put = async |body: Value| place.ask(&place.operator, "PUT /v1/bans", &body.to_string()).await;
    let made = put(json!({"storage": A, "vo": "atlas", "effect": "cancel", "reason": "down"})).await;
    assert_eq!((made.status, &made.json["jobs"]), (200, &json!([])));
    let ban = &made.json["ban"];
    assert_eq!(
        (&ban["storage"], &ban["vo"], &ban["effect"]),
        (&json!(A), &json!("atlas"), &json!("cancel"))
    );
    assert_eq!(ban["by"], json!("/O=Crossload test/CN=Operator"));
    put(json!({"storage": B, "allow_submit": true})).await;
    put(json!({"user": "/CN=Mallory", "reason": "too much"})).await;
    let listed = place.ask(&place.jane, "GET /v1/bans", "").await.json["items"].clone();
    assert_eq!(
        (&listed[1]["effect"], &listed[1]["allow_submit"]),
        (&json!("wait"), &json!(true))
    );
    assert_eq!(
        (&listed[2]["user"], &listed[2]["storage"]),
        (&json!("/CN=Mallory"), &Value::Null)
    );
    for (line, status) in [
        ("DELETE /v1/bans?storage=https://a:443", 404),
        ("DELETE /v1/bans?storage=https://a:443&vo=atlas", 204),
        ("DELETE /v1/bans?storage=root://b:1094", 204),
        ("DELETE /v1/bans?user=/CN=Mallory", 204),
        ("DELETE /v1/bans?user=/CN=Mallory", 404),
        ("DELETE /v1/bans", 400),
        ("DELETE /v1/bans?storage=b", 400),
    ] {
        let answer = place.ask(&place.operator, line, "").await;
        assert_eq!(answer.status, status, "{line}");
        if status == 404 {
            assert_eq!(answer.json["error"]["message"], "there is no such ban", "{line}");
        }
    }
    for body in [
        json!({}),
        json!({"storage": "not a storage"}),
        json!({"storage": "*"}),
        json!({"storage": A, "user": "x"}),
        json!({"user": "/CN=x", "vo": "atlas"}),
        json!({"user": ""}),
        // A subject alone is of the users of all issuers.
        json!({"user": "6f0c"}),
        json!({"storage": A, "effect": "cancel", "allow_submit": true}),
        json!({"storage": A, "effect": "stop"}),
    ] {
        let refused = put(body.clone()).await;
        assert_eq!((refused.status, refused.code()), (400, "bad_request"), "{body}");
    }
    let token = put(json!({"user": "6f0c@https://iam.example/"})).await;
    assert_eq!(
        (token.status, &token.json["ban"]["at_any_issuer"]),
        (200, &json!(false))
    );
    let of_fts = json!({"user_dn": "6f0d"}).to_string();
    assert_eq!(place.ask(&place.operator, "POST /ban/dn", &of_fts).await.status, 200);
    let listed = place.ask(&place.jane, "GET /v1/bans", "").await.json["items"].clone();
    assert_eq!(
        (&listed[1]["user"], &listed[1]["at_any_issuer"]),
        (&json!("6f0d"), &json!(true))
    );
    let own = put(json!({"user": "/O=Crossload test/CN=Operator"})).await;
    assert_eq!((own.status, own.code()), (403, "forbidden"));
}

#[tokio::test]
async fn shares_of_organisations_and_activities_are_set() {
    let place = Place::new().await;
    let put = async |body: Value| place.ask(&place.operator, "PUT /v1/shares", &body.to_string()).await;
    let vos = put(json!({"source": A, "destination": B, "shares": {"atlas": 3, "cms": 1.5}})).await;
    assert_eq!(
        (vos.status, &vos.json["shares"]["atlas"]),
        (200, &json!(3.0)),
        "{}",
        vos.text
    );
    put(json!({"vo": "atlas", "shares": {"Production": 0.7}})).await;
    let listed = place.ask(&place.jane, "GET /v1/shares", "").await.json["items"].clone();
    assert_eq!((&listed[0]["source"], &listed[0]["vo"]), (&json!(A), &Value::Null));
    let activities = json!({"source": "*", "destination": "*", "vo": "atlas", "shares": {"Production": 0.7}});
    assert_eq!(listed[1], activities);
    put(json!({"source": A, "destination": B, "shares": {}})).await;
    put(json!({"vo": "atlas", "shares": {}})).await;
    assert_eq!(
        place.ask(&place.jane, "GET /v1/shares", "").await.json["items"],
        json!([])
    );
    for body in [
        json!({}),
        json!({"shares": {"x": -1}}),
        json!({"shares": {"": 1}}),
        json!({"vo": "", "shares": {}}),
        json!({"source": "a", "shares": {}}),
        json!({"vo": "atlas", "source": A, "destination": B, "shares": {}}),
        json!({"shares": {"x": null}}),
    ] {
        let refused = put(body.clone()).await;
        assert_eq!((refused.status, refused.code()), (400, "bad_request"), "{body}");
    }
}

#[tokio::test]
async fn links_are_shown_paused_and_resumed() {
    let place = Place::new().await;
    place.queue.lock().link_states.push(LinkState {
        source: A.to_owned(),
        destination: B.to_owned(),
        vo: "atlas".to_owned(),
        active: 2,
        waiting: 10,
        delayed: 1,
        banned: 4,
        limit: Some(2),
        goodput_bytes_s: 1e6,
        is_paused: false,
        held: Some(HeldState {
            until_ms: NOW,
            reason: "full".to_owned(),
            detail: "full: /users/john".to_owned(),
        }),
        rationale: Some("goodput grew".to_owned()),
    });
    place.queue.lock().decisions.push(Decision {
        limit: 4,
        rationale: "doubled".to_owned(),
        ..Decision::default()
    });
    let links = place.ask(&place.jane, "GET /v1/links", "").await.json["items"].clone();
    let expected = json!({"source": A, "destination": B, "vo": "atlas", "active": 2, "waiting": 10, "delayed": 1,
        "banned": 4, "limit": 2, "goodput_bytes_s": 1e6, "is_paused": false,
        "held": {"until_ms": NOW, "reason": "full", "detail": null}, "rationale": "goodput grew"});
    assert_eq!(links, json!([expected]));
    let of_operator = place.ask(&place.operator, "GET /v1/links", "").await.json["items"].clone();
    assert_eq!(of_operator[0]["held"]["detail"], json!("full: /users/john"));
    let second = place.queue.lock().link_states[0].clone();
    place.queue.lock().link_states.push(LinkState {
        vo: "cms".to_owned(),
        ..second
    });
    let mut page = place.ask(&place.jane, "GET /v1/links?limit=1", "").await.json;
    assert_eq!(page["items"], json!([expected]));
    let next = page["next"].take().as_str().unwrap().replace(' ', "%20");
    let page = place
        .ask(&place.jane, &format!("GET /v1/links?limit=1&after={next}"), "")
        .await
        .json;
    assert_eq!((&page["items"][0]["vo"], &page["next"]), (&json!("cms"), &Value::Null));
    let decisions = place.ask(&place.jane, "GET /v1/decisions?limit=1", "").await.json["items"].clone();
    assert_eq!(
        (&decisions[0]["limit"], &decisions[0]["rationale"]),
        (&json!(4), &json!("doubled"))
    );

    let link = json!({"source": "https://A:443", "destination": B}).to_string();
    assert_eq!(
        place.ask(&place.operator, "POST /v1/links/pause", &link).await.status,
        204
    );
    assert!(place.queue.lock().links[0].is_paused);
    assert_eq!(place.queue.lock().links[0].source, A);
    assert_eq!(
        place.ask(&place.operator, "POST /v1/links/resume", &link).await.status,
        204
    );
    assert!(place.queue.lock().links.is_empty());
    let notes: Vec<String> = place
        .queue
        .lock()
        .audit
        .iter()
        .map(|entry| entry.action.clone())
        .collect();
    assert_eq!(notes, ["link-pause", "link-resume"]);
    for (line, status) in [
        ("GET /v1/links/why?source=https://a:443&destination=root://b:1094", 200),
        ("GET /v1/links/why?source=https://x:443&destination=root://b:1094", 404),
        ("GET /v1/links/why?source=https://a:443", 400),
        ("GET /v1/links/why?source=a&destination=b", 400),
    ] {
        assert_eq!(place.ask(&place.jane, line, "").await.status, status, "{line}");
    }
}

#[tokio::test]
async fn workers_are_drained() {
    let place = Place::new().await;
    let worker = WorkerState {
        name: "host:1:2".to_owned(),
        seen_ms: NOW,
        active: 3,
        is_draining: false,
        is_lost: false,
    };
    place.queue.lock().workers.push(worker);
    let body = json!({"drain": true}).to_string();
    let drained = place
        .ask(&place.operator, "POST /v1/workers/host:1:2/drain", &body)
        .await;
    assert_eq!((drained.status, &drained.json["is_draining"]), (200, &json!(true)));
    let listed = place.ask(&place.jane, "GET /v1/workers", "").await.json["items"].clone();
    assert_eq!(listed, json!([drained.json]));
    assert_eq!(listed[0]["is_lost"], json!(false));
    let missing = place.ask(&place.operator, "POST /v1/workers/other/drain", &body).await;
    assert_eq!((missing.status, missing.code()), (404, "not_found"));
}

#[tokio::test]
async fn a_client_is_told_who_it_is() {
    let place = Place::new().await;
    let jane = place.ask(&place.jane, "GET /v1/whoami", "").await.json;
    assert_eq!(
        (&jane["name"], &jane["is_operator"]),
        (&json!("/O=Crossload test/CN=Jane Doe"), &json!(false))
    );
    assert_eq!(
        (&jane["vos"], &jane["delegated_until_ms"]),
        (&json!(["testers"]), &Value::Null)
    );
    let operator = place.ask(&place.operator, "GET /v1/whoami", "").await.json;
    assert_eq!(operator["is_operator"], json!(true));
    assert_ne!(operator["delegation_id"], jane["delegation_id"]);
}

#[tokio::test]
async fn a_storage_has_one_name_in_each_route() {
    let place = Place::new().await;
    let ask = async |line: &str, body: Value| {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        place.ask(&place.operator, line, &body).await
    };
    let noted = async |action: &str| {
        let audit = ask("GET /config/audit", Value::Null).await.json;
        let entries = audit.as_array().expect("a list").iter();
        entries.filter(|entry| entry["action"] == action).count()
    };
    let made = ask("POST /ban/se", json!({"storage": "https://Ban.example:0443/"})).await;
    assert_eq!(made.status, 200, "{}", made.text);
    let bans = ask("GET /ban/se", Value::Null).await.json;
    assert_eq!(bans[0]["se"], json!("https://ban.example:443"));
    // As at an FTS, the answer is the same where no ban ends.
    let line = "DELETE /ban/se?storage=https://ban.example.:443/";
    assert_eq!(ask(line, Value::Null).await.status, 204);
    assert_eq!(ask("GET /ban/se", Value::Null).await.json, json!([]));
    assert_eq!(ask(line, Value::Null).await.status, 204);
    assert_eq!(noted("unban-se").await, 1, "only a change is noted");
    assert_eq!(ask("DELETE /ban/se?storage=ban.example", Value::Null).await.status, 400);

    let limit = json!({"http://S.example:80/": {"se_info": {"inbound_max_active": 3}}});
    assert_eq!(ask("POST /config/se", limit).await.status, 200);
    let shown = ask("GET /config/se?se=dav://S.example:080/", Value::Null).await.json;
    assert_eq!(
        shown["http://s.example:80"]["se_info"]["inbound_max_active"],
        json!(3),
        "{shown}"
    );
    let line = "DELETE /config/se?se=DAV://s.example:80/";
    assert_eq!(ask(line, Value::Null).await.status, 204);
    assert_eq!(ask("GET /config/se", Value::Null).await.json, json!({}));
    assert_eq!(ask(line, Value::Null).await.status, 204);
    assert_eq!(noted("delete-se").await, 1, "only a change is noted");
}

#[tokio::test]
async fn routes_of_fts_refuse_what_v1_refuses() {
    let place = Place::new().await;
    let long = "x".repeat(256);
    let many: serde_json::Map<String, Value> = (0..1001).map(|number| (format!("v{number}"), json!(1))).collect();
    let of_storage = |info: Value| json!({"https://s:443": {"se_info": info}});
    let of_link = |name: &str, value: Value| json!({"source": "*", "destination": "*", name: value});
    for (line, body) in [
        ("POST /ban/se", json!({"storage": "*"})),
        ("POST /ban/se", json!({"storage": A, "message": long})),
        ("POST /ban/se", json!({"storage": A, "vo_name": long})),
        ("POST /ban/dn", json!({"user_dn": "/CN=x", "message": long})),
        ("POST /ban/dn", json!({"user_dn": long})),
        ("POST /config/se", of_storage(json!({"inbound_max_throughput": -1}))),
        ("POST /config/se", of_storage(json!({"site": long}))),
        ("POST /config/se", of_storage(json!({"se_metadata": "x".repeat(2049)}))),
        (
            "POST /config/se",
            json!({"https://s:443": {"operations": {long.clone(): {"staging": 1}}}}),
        ),
        ("POST /config/global", json!({"atlas": {"share": -5}})),
        ("POST /config/global", json!({"atlas": {"sec_per_mb": -1}})),
        ("POST /config/global", json!({"atlas": {"activity_shares": {"a": -1}}})),
        ("POST /config/links", of_link("shares", json!({"atlas": -1}))),
        ("POST /config/links", of_link("shares", json!({long.clone(): 1}))),
        ("POST /config/links", of_link("shares", Value::Object(many))),
        ("POST /config/links", of_link("nostreams", json!(65535))),
        ("POST /config/links", of_link("optimizer_mode", json!(255))),
        (
            "POST /config/activity_shares",
            json!({"vo": "atlas", "share": {long.clone(): 1}}),
        ),
    ] {
        let refused = place.ask(&place.operator, line, &body.to_string()).await;
        assert_eq!(refused.status, 400, "{line} {body}: {}", refused.text);
    }
    let audit = place.ask(&place.operator, "GET /config/audit", "").await.json;
    assert_eq!(audit, json!([]), "nothing was changed");
}

#[tokio::test]
async fn with_as_many_bans_as_there_may_be_jobs_are_taken_and_further_bans_are_not() {
    let place = Place::new().await;
    let ban = |number: usize| catalog::Ban {
        storage: format!("https://banned{number}:443"),
        vo: String::new(),
        effect: catalog::BanEffect::Wait,
        message: String::new(),
        by: String::new(),
        since_ms: NOW,
        cancels_ms: None,
    };
    place.queue.lock().bans = Arc::new((0..BANS_MAX).map(ban).collect());
    let more = json!({"storage": "https://one-more"}).to_string();
    for line in ["PUT /v1/bans", "POST /ban/se"] {
        let refused = place.ask(&place.operator, line, &more).await;
        assert_eq!(refused.status, 400, "{}", refused.text);
        assert!(
            refused.text.contains("there are 10000 bans already"),
            "{}",
            refused.text
        );
    }
    let file = |number: usize| json!({"sources": [format!("https://a{number}/x")], "destinations": [format!("https://b{number}/x")]});
    let files: Vec<Value> = (0..500).map(file).collect();
    let submitted = place
        .ask(&place.jane, "POST /jobs", &json!({"files": files}).to_string())
        .await;
    assert_eq!(submitted.status, 200, "{}", submitted.text);
    let banned = json!({"files": [{"sources": ["https://a/x"], "destinations": ["davs://banned9999/x"]}]});
    let refused = place.ask(&place.jane, "POST /jobs", &banned.to_string()).await;
    assert_eq!(refused.status, 403, "{}", refused.text);
}
