//! The OpenAPI document.

use serde_json::Value;

use crate::place::Place;

#[test]
fn the_document_in_docs_is_that_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let stored = std::fs::read_to_string(path).unwrap();
    assert!(stored == door_queue::document().unwrap(), "run `cargo xtask docs`");
}

#[test]
fn every_operation_says_its_answers_and_errors() {
    let document: Value = serde_json::from_str(&door_queue::document().unwrap()).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    let mut operations = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        assert!(path.starts_with("/v1/"), "{path}");
        for (method, operation) in methods.as_object().unwrap() {
            operations += 1;
            let has_words = operation["summary"].as_str().is_some_and(|words| !words.ends_with('.'));
            assert!(has_words && operation["operationId"].is_string(), "{method} {path}");
            let answers = operation["responses"].as_object().unwrap();
            let is_good = answers.keys().any(|status| status.starts_with('2'));
            let has_errors = answers.contains_key("default") || path == "/v1/openapi.json";
            assert!(is_good && has_errors, "{method} {path}");
        }
    }
    assert_eq!(operations, 32);
}

#[tokio::test]
async fn the_document_is_served_to_everyone() {
    let place = Place::new().await;
    let served = place.ask(&place.without_credential, "GET /v1/openapi.json", "").await;
    assert_eq!((served.status, served.content_type.as_str()), (200, "application/json"));
    assert!(served.text == door_queue::document().unwrap());
}
