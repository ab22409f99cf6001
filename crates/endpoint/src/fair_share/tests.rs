//! Shares of clients, taken and given back.

use super::*;

const KIND: ShareKind = ShareKind::TpcKeys;

#[derive(Default)]
struct Reports(Mutex<Vec<ShareUsedUp>>);

impl ShareEvents for Reports {
    fn share_used_up(&self, record: &ShareUsedUp) {
        self.0.lock().unwrap().push(record.clone());
    }
}

fn fair(limit: usize, percent: u32) -> (FairShare, Arc<Reports>) {
    let limits = ShareLimits {
        tpc_keys: limit,
        client_percent: percent,
        ..ShareLimits::default()
    };
    let told = Arc::new(Reports::default());
    (FairShare::new(&limits, Some(told.clone())), told)
}

fn client(last: u8) -> ClientId {
    ClientId::at(IpAddr::from([192, 0, 2, last]))
}

fn take_all(fair: &FairShare, client: &ClientId) -> Vec<Share> {
    std::iter::from_fn(|| fair.take(KIND, client).ok()).collect()
}

#[test]
fn one_client_gets_half_and_the_next_half_of_the_rest() {
    let (fair, told) = fair(1000, 50);
    let first = take_all(&fair, &client(1));
    assert_eq!(first.len(), 500);
    assert_eq!(fair.take(KIND, &client(1)).unwrap_err().code(), ErrorCode::ShareUsedUp);
    assert_eq!(take_all(&fair, &client(2)).len(), 250);
    let told = told.0.lock().unwrap();
    let of_first: Vec<bool> = told
        .iter()
        .filter(|one| one.held == 500)
        .map(|one| one.is_first)
        .collect();
    assert_eq!(of_first, [true, false]);
    drop(first);
    assert_eq!(fair.in_use(KIND), 0);
}

#[test]
fn an_identity_has_one_share_from_all_its_addresses() {
    let (fair, told) = fair(100, 50);
    let ann = |last| ClientId {
        identity: Some("certificate  /CN=Ann".into()),
        ..client(last)
    };
    let held: Vec<Share> = (0..200).filter_map(|last| fair.take(KIND, &ann(last)).ok()).collect();
    assert_eq!(held.len(), 50);
    assert!(fair.take(KIND, &client(7)).is_ok());
    let told = told.0.lock().unwrap();
    assert_eq!(told[0].identity.as_deref(), Some("certificate  /CN=Ann"));
}

#[test]
fn hosts_of_one_network_are_one_client() {
    let (fair, _) = fair(100, 50);
    let host = |last: u16| ClientId::at(IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, last]));
    let held: Vec<Share> = (0..200).filter_map(|last| fair.take(KIND, &host(last)).ok()).collect();
    assert_eq!(held.len(), 50);
    assert!(
        fair.take(KIND, &ClientId::at("2001:db8:0:2::1".parse().unwrap()))
            .is_ok()
    );
    assert_eq!(ClientId::at("::ffff:192.0.2.1".parse().unwrap()), client(1));
}

#[test]
fn small_counts_are_free_and_a_share_of_100_percent_is_all() {
    let (fair, _) = self::fair(CLIENT_SHARE_MIN, 50);
    let all = take_all(&fair, &client(1));
    assert_eq!(all.len(), CLIENT_SHARE_MIN);
    assert_eq!(fair.take(KIND, &client(2)).unwrap_err().code(), ErrorCode::Overloaded);
    assert!(fair.is_short(KIND));
    let (fair, _) = self::fair(100, 100);
    assert_eq!(take_all(&fair, &client(1)).len(), 100);
}

#[test]
fn of_several_who_want_much_one_has_all_of_it() {
    let (fair, told) = fair(1000, 50);
    let first = fair.take_many(KIND, &client(1), 400).unwrap();
    assert_eq!(fair.in_use(KIND), 400);
    for other in [1, 2] {
        let refused = fair.take_many(KIND, &client(other), 400).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::ShareUsedUp);
    }
    assert_eq!(
        fair.take_many(KIND, &client(2), 601).unwrap_err().code(),
        ErrorCode::Overloaded
    );
    assert_eq!(told.0.lock().unwrap().len(), 2);
    assert_eq!(fair.in_use(KIND), 400, "a refusal holds nothing");
    drop(first);
    let whole = fair.take_many(KIND, &client(2), 500).unwrap();
    assert!(fair.take(KIND, &client(2)).is_err());
    drop(whole);
    assert_eq!(fair.in_use(KIND), 0);
    assert!(fair.pool(KIND).lock().is_empty());
}

#[test]
fn a_unit_identified_later_counts_once() {
    let (fair, _) = fair(100, 50);
    let share = fair.take(KIND, &client(1)).unwrap();
    assert!(fair.identify(KIND, &Credential::Anonymous).unwrap().is_none());
    assert_eq!(fair.in_use(KIND), 1);
    drop(share);
    assert_eq!(fair.in_use(KIND), 0);
}
