//! Keys of S3 storages, by FTS's routes.

use serde_json::json;

use crate::place::Place;

#[tokio::test]
async fn operators_store_keys_that_no_answer_shows() {
    let place = Place::new().await;
    let storages = "/config/cloud_storage";
    let new = json!({"cloudstorage_name": "S3:h.example", "region": "eu", "alternate": true}).to_string();
    let put = format!("POST {storages}");
    assert_eq!(place.ask(&place.jane, &put, &new).await.status, 403);
    for bad in ["{}", r#"{"storage_name": "dropbox"}"#, r#"{"storage_name": "S3:a b"}"#]
        .into_iter()
        .chain([r#"{"storage_name": "S3:"}"#, r#"{"storage_name": "S3:*"}"#])
        .chain([r#"{"storage_name": "S3:.."}"#, r#"{"storage_name": "S3:a\u0000"}"#])
    {
        assert_eq!(place.ask(&place.operator, &put, bad).await.status, 400, "{bad}");
    }
    assert_eq!(place.ask(&place.operator, &put, &new).await.status, 201);
    let keys = format!("{storages}/S3:h.example");
    let key = json!({"user_dn": "/DC=org/CN=Jane", "access_key": "of-jane", "secret_key": "s3cr3t"});
    let put = format!("POST {keys}");
    let stored = place.ask(&place.operator, &put, &key.to_string()).await;
    assert_eq!(stored.status, 201, "{}", stored.text);
    assert_eq!(stored.json["user_dn"], "/DC=org/CN=Jane");
    let both = json!({"user_dn": "a", "vo_name": "b", "access_key": "x", "secret_key": "y"});
    for bad in [
        json!({"access_key": "x", "secret_key": "y"}),
        both,
        json!({"vo_name": "atlas"}),
    ] {
        assert_eq!(
            place.ask(&place.operator, &put, &bad.to_string()).await.status,
            400,
            "{bad}"
        );
    }
    let of_other = format!("POST {storages}/S3:other");
    assert_eq!(
        place.ask(&place.operator, &of_other, &key.to_string()).await.status,
        404
    );

    let all = place.ask(&place.operator, &format!("GET {storages}"), "").await;
    let shown = &all.json[0];
    assert_eq!(
        (&shown["cloudStorage_name"], &shown["alternate"]),
        (&json!("S3:H.EXAMPLE"), &json!(true))
    );
    assert_eq!(shown["users"][0]["user_dn"], "/DC=org/CN=Jane");
    let one = place.ask(&place.operator, &format!("GET {keys}"), "").await;
    assert_eq!(one.json[0]["user_dn"], "/DC=org/CN=Jane");
    let audit = place.ask(&place.operator, "GET /config/audit", "").await;
    assert!(audit.text.contains("Key for S3:H.EXAMPLE stored"), "{}", audit.text);
    assert!(
        ![&all.text, &one.text, &stored.text, &audit.text]
            .iter()
            .any(|text| text.contains("of-jane") || text.contains("s3cr3t"))
    );
    assert_eq!(place.ask(&place.jane, &format!("GET {storages}"), "").await.status, 403);

    let remove = format!("DELETE {keys}//DC=org/CN=Jane");
    assert_eq!(place.ask(&place.operator, &remove, "").await.status, 204);
    for gone in [
        remove,
        format!("DELETE {keys}/%2FDC=org%2FCN=Jane"),
        format!("DELETE {keys}/cms"),
    ] {
        assert_eq!(place.ask(&place.operator, &gone, "").await.status, 404, "{gone}");
    }
    let audit = place.ask(&place.operator, "GET /config/audit", "").await;
    assert_eq!(audit.text.matches("removed").count(), 1, "{}", audit.text);
    assert_eq!(
        place.ask(&place.operator, &format!("GET {keys}"), "").await.json,
        json!([])
    );
    assert_eq!(
        place.ask(&place.operator, &format!("DELETE {keys}"), "").await.status,
        204
    );
    assert_eq!(place.ask(&place.operator, &format!("GET {keys}"), "").await.status, 404);
}
