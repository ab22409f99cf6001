//! Whose jobs lists have.

use catalog::{Login, Owner, WorkerRecord};
use door_queue::queue::{Filter, Scope};

use super::{is_of_others, narrowed, worker_state};

#[test]
fn a_list_has_what_was_asked_for_or_nothing() {
    let jane = Owner {
        user: "/CN=Jane".to_owned(),
        delegation_id: "1".to_owned(),
        vo: "atlas".to_owned(),
        login: Login::Certificate,
    };
    let scopes = [Scope::Own(jane.clone()), Scope::Vo(jane), Scope::All];
    let list = |scope: &Scope, user: Option<&str>, vo: Option<&str>| {
        let filter = Filter {
            scope: scope.clone(),
            user: user.map(str::to_owned),
            vo: vo.map(str::to_owned),
            source_storage: None,
            destination_storage: None,
            destination: None,
            ended_since_ms: None,
            limit: 1,
        };
        let jobs = narrowed(&filter, Vec::new());
        (!is_of_others(&filter)).then_some((jobs.user, jobs.vo))
    };
    let (jane, john) = (Some("/CN=Jane"), Some("/CN=John"));
    let (atlas, cms) = (Some("atlas"), Some("cms"));
    for (user, vo, expected) in [
        (
            None,
            None,
            [Some((jane, atlas)), Some((None, atlas)), Some((None, None))],
        ),
        (
            jane,
            None,
            [Some((jane, atlas)), Some((jane, atlas)), Some((jane, None))],
        ),
        (john, None, [None, Some((john, atlas)), Some((john, None))]),
        (None, cms, [Some((jane, cms)), None, Some((None, cms))]),
    ] {
        for (scope, expected) in scopes.iter().zip(expected) {
            let expected = expected.map(|(user, vo)| (user.map(str::to_owned), vo.map(str::to_owned)));
            assert_eq!(list(scope, user, vo), expected, "{scope:?} {user:?} {vo:?}");
        }
    }
}

#[test]
fn a_worker_is_lost_when_its_lease_has_ended() {
    let is_lost = |now_ms| {
        let worker = WorkerRecord {
            name: "w".to_owned(),
            beat_ms: 1000,
            lease_ms: 2000,
            capacity: None,
            files: 1,
        };
        worker_state(worker, false, now_ms).is_lost
    };
    assert!(!is_lost(2000) && is_lost(2001));
}
