//! Webhooks, as operators see them.

use serde_json::json;

use crate::place::Place;

const HOOKS: &str = "/v1/webhooks";

#[tokio::test]
async fn operators_add_see_and_remove_webhooks() {
    let place = Place::new().await;
    let post = format!("POST {HOOKS}");
    let new = json!({"url": "https://monitor.example/x?key=1", "kinds": ["state"], "vo": "atlas"}).to_string();
    assert_eq!(place.ask(&place.jane, &post, &new).await.status, 403);
    assert_eq!(place.ask(&place.jane, &format!("GET {HOOKS}"), "").await.status, 403);
    for bad in [
        json!({"url": "http://monitor.example/x"}),
        json!({"url": "https://user:secret@monitor.example/x"}),
        json!({"url": "file:///etc/passwd"}),
        json!({"url": "https://monitor.example/x", "kinds": ["start"]}),
        json!({"url": "https://monitor.example/x", "secret": "short"}),
        json!({"url": "https://monitor.example/x", "callback": true}),
    ] {
        let refused = place.ask(&place.operator, &post, &bad.to_string()).await;
        assert_eq!(refused.status, 400, "{bad}: {}", refused.text);
    }
    let made = place.ask(&place.operator, &post, &new).await;
    assert_eq!(made.status, 201, "{}", made.text);
    assert!(made.json["secret"].as_str().unwrap().starts_with("whsec_"));
    let id = made.json["id"].as_str().unwrap();
    let listed = place.ask(&place.operator, &format!("GET {HOOKS}"), "").await;
    let item = &listed.json["items"][0];
    assert_eq!(
        (&item["id"], &item["status"], &item["vo"]),
        (&json!(id), &json!("active"), &json!("atlas"))
    );
    assert!(!listed.text.contains("whsec_"));
    assert_eq!(item["url"], "https://monitor.example/x?key=hidden");
    let audit = place.ask(&place.operator, "GET /config/audit", "").await;
    assert!(!audit.text.contains("whsec_") && audit.text.contains("webhook-add"));

    let enable = |id: &str| format!("POST {HOOKS}/{id}/enable");
    assert_eq!(place.ask(&place.jane, &enable(id), "").await.status, 403);
    assert_eq!(place.ask(&place.operator, &enable("nope"), "").await.status, 404);
    assert_eq!(place.ask(&place.operator, &enable(id), "").await.status, 204);
    let remove = format!("DELETE {HOOKS}/{id}");
    assert_eq!(place.ask(&place.jane, &remove, "").await.status, 403);
    assert_eq!(place.ask(&place.operator, &remove, "").await.status, 204);
    assert_eq!(place.ask(&place.operator, &remove, "").await.status, 404);
}
