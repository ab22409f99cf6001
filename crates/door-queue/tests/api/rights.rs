//! What operators give to others by FTS's routes: rights, and shares of links.

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
    assert_eq!(listed.json, json!([{"dn": JANE, "operation": "config"}]));

    let dn = JANE.replace(' ', "%20").replace('/', "%2F").replace('=', "%3D");
    let remove = format!("DELETE {authorize}?dn={dn}");
    assert_eq!(place.ask(&place.john, &remove, "").await.status, 403);
    assert_eq!(place.ask(&place.operator, &remove, "").await.status, 204);
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
