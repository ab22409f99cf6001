//! Changes of settings by several at once, and the list of changes.

use std::collections::BTreeMap;

use catalog::limits::AUDIT_MAX;
use catalog::{Audit, NO_ACTOR, SealedSecret, SecretKind, SettingKind, VoSettings};
use types::ErrorCode;

use crate::place::{NOW, Place, for_each_database};

fn entry(actor: &str, action: &str) -> Audit {
    Audit {
        at_ms: NOW,
        actor: actor.to_owned(),
        action: action.to_owned(),
        detail: "words".to_owned(),
    }
}

fn key(name: &str) -> SealedSecret {
    SealedSecret {
        kind: SecretKind::S3,
        name: name.to_owned(),
        sealed: b"sealed".to_vec(),
        expires_ms: None,
        owner: "S3:H".to_owned(),
        renews_ms: None,
        lease_ms: None,
        renewed_by: None,
    }
}

for_each_database! {
    async fn no_change_of_eight_clients_is_lost(place: Place) {
        let kind = SettingKind::Vo;
        let clients = (0..8).map(|client| {
            let catalog = place.catalog.clone();
            async move {
                for number in 0..10 {
                    let change = move |all: &mut BTreeMap<String, VoSettings>| {
                        let own = all.entry("atlas".to_owned()).or_default();
                        own.activity_shares.insert(format!("{client} {number}"), 1.0);
                        Ok::<_, ()>(vec![entry("root", "share")])
                    };
                    catalog.change_settings(kind, NOW, change).await.unwrap().unwrap();
                }
            }
        });
        let tasks: Vec<_> = clients.map(tokio::spawn).collect();
        for task in tasks {
            task.await.unwrap();
        }
        let stored: VoSettings = place.catalog.setting(kind, "atlas").await.unwrap().unwrap();
        assert_eq!(stored.activity_shares.len(), 80);
        let noted = place.catalog.audit(None, 1000).await.unwrap();
        assert_eq!(noted.len(), 80, "though all came in one millisecond");
    }

    async fn a_refused_change_leaves_all_as_it_was(place: Place) {
        let (catalog, kind) = (&place.catalog, SettingKind::Vo);
        let version = catalog.settings_version().await.unwrap();
        let refused = catalog
            .change_settings(kind, NOW, |all: &mut BTreeMap<String, VoSettings>| {
                all.insert("atlas".to_owned(), VoSettings::default());
                Err::<Vec<Audit>, _>("no")
            })
            .await;
        assert_eq!(refused.unwrap(), Err("no"));
        assert!(catalog.settings::<VoSettings>(kind).await.unwrap().is_empty());
        assert_eq!(catalog.settings_version().await.unwrap(), version);
        let unnoted = |all: &mut BTreeMap<String, VoSettings>| {
            all.insert("atlas".to_owned(), VoSettings::default());
            Ok::<_, ()>(Vec::new())
        };
        catalog.change_settings(kind, NOW, unnoted).await.unwrap().unwrap();
        assert!(catalog.settings_version().await.unwrap() > version, "other processes read it");
        assert!(catalog.audit(None, 10).await.unwrap().is_empty());
    }

    async fn a_setting_and_its_entry_are_one_change(place: Place) {
        let (catalog, kind) = (&place.catalog, SettingKind::Ban);
        let before = catalog.settings_version().await.unwrap();
        catalog.put_noted(kind, "b", &1, entry("root", "ban")).await.unwrap();
        assert_eq!(catalog.settings_version().await.unwrap(), before + 1, "no second change notes the first");
        assert_eq!(catalog.audit(None, 9).await.unwrap(), [entry("root", "ban")]);
        assert!(catalog.delete_noted(kind, "b", entry("root", "unban")).await.unwrap());
        assert!(!catalog.delete_noted(kind, "b", entry("root", "unban")).await.unwrap());
        assert_eq!(catalog.settings_version().await.unwrap(), before + 2);
        assert_eq!(catalog.audit(None, 1).await.unwrap(), [entry("root", "unban")]);
        let delete = || catalog.delete_secret_noted(SecretKind::S3, "a", entry("root", "gone"));
        assert!(!delete().await.unwrap());
        catalog.put_setting(SettingKind::CloudStorage, "S3:H", &1, NO_ACTOR, NOW).await.unwrap();
        let stored = catalog.put_secret_of(SettingKind::CloudStorage, "S3:H", key("a"), 2, entry("root", "key"));
        assert!(stored.await.unwrap() && delete().await.unwrap());
        assert_eq!(catalog.audit(None, 1).await.unwrap(), [entry("root", "gone")]);
    }

    async fn a_flood_drives_out_no_entries_of_others(place: Place) {
        let catalog = &place.catalog;
        catalog.note(vec![entry("root", "ban")]).await.unwrap();
        let flood = usize::try_from(AUDIT_MAX).unwrap() + 50;
        catalog.note(vec![entry("mallory", "share"); flood]).await.unwrap();
        catalog.note(vec![entry("mallory", "last")]).await.unwrap();
        let all = catalog.audit(None, 2 * flood).await.unwrap();
        assert_eq!(all.len(), flood - 50);
        assert_eq!(all[0].action, "last");
        assert_eq!(all.last().unwrap(), &entry("root", "ban"));
        assert_eq!(catalog.audit(Some("root".to_owned()), 10).await.unwrap().len(), 1);
        let late = Audit { at_ms: NOW + catalog::limits::AUDIT_KEPT_MS + 1, ..entry("root", "late") };
        catalog.note(vec![late.clone()]).await.unwrap();
        assert_eq!(catalog.audit(None, 10).await.unwrap(), [late], "old ones go");
    }

    async fn a_secret_goes_with_its_setting(place: Place) {
        let (catalog, kind) = (&place.catalog, SettingKind::CloudStorage);
        let put = |name: &'static str, most| catalog.put_secret_of(kind, "S3:H", key(name), most, entry("root", "key"));
        assert!(!put("a", 2).await.unwrap(), "there is no such storage");
        assert_eq!(catalog.secret(SecretKind::S3, "a").await.unwrap(), None);
        catalog.put_setting(kind, "S3:H", &1, NO_ACTOR, NOW).await.unwrap();
        assert!(put("a", 2).await.unwrap() && put("b", 2).await.unwrap() && put("a", 2).await.unwrap());
        assert_eq!(put("c", 2).await.unwrap_err().code(), ErrorCode::Overloaded);
        let delete = || catalog.delete_setting_and_secrets(kind, "S3:H", SecretKind::S3, entry("root", "gone"));
        assert!(delete().await.unwrap());
        assert!(!delete().await.unwrap());
        assert!(catalog.secrets_of(SecretKind::S3, "S3:H", 9).await.unwrap().is_empty());
        assert_eq!(catalog.audit(None, 9).await.unwrap().len(), 4);
    }
}
