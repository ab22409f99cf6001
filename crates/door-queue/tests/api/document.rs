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
    assert_eq!(operations, 33);
}

#[tokio::test]
async fn a_parameter_that_is_not_described_is_refused_with_those_that_are() {
    let place = Place::new().await;
    let document: Value = serde_json::from_str(&door_queue::document().unwrap()).unwrap();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let line = format!("{} {path}?nonsense=1", method.to_ascii_uppercase());
            let line = ["job", "file", "worker", "webhook"]
                .iter()
                .fold(line, |line, name| line.replace(&format!("{{{name}}}"), "1"));
            assert!(!line.contains('{'), "{line}");
            let refused = place.ask(&place.operator, &line, "").await;
            assert_eq!((refused.status, refused.code()), (400, "bad_request"), "{line}");
            let words = refused.json["error"]["message"].as_str().unwrap();
            assert!(words.contains("nonsense"), "{line}: {words}");
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            for known in parameters.filter(|parameter| parameter["in"] == "query") {
                let name = known["name"].as_str().unwrap();
                assert!(words.contains(name), "{line} does not name {name}: {words}");
            }
        }
    }
    for path in ["/v1/nothing?a=1", "/v1/jobs/x/nothing?a=1"] {
        assert_eq!(
            place.ask(&place.operator, &format!("GET {path}"), "").await.status,
            404,
            "{path}"
        );
    }
    assert_eq!(place.ask(&place.operator, "PUT /v1/jobs?a=1", "").await.status, 405);
}

#[tokio::test]
async fn the_document_is_served_to_everyone() {
    let place = Place::new().await;
    let served = place.ask(&place.without_credential, "GET /v1/openapi.json", "").await;
    assert_eq!((served.status, served.content_type.as_str()), (200, "application/json"));
    assert!(served.text == door_queue::document().unwrap());
}
