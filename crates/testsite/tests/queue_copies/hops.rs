//! A file between a storage of HTTP only and one of the XRootD protocol only, by a hop that speaks
//! both.

use catalog::{Claimed, Hop, HopPart, Overwrite, ThirdPartyRole};
use queue::{Cell, Copier as _, CopyResult, Credential, HopSite, Operation, Part, Peer, Roles};
use testsite::soon;
use transfer::Progress;
use transfer::route::Evidence;
use types::ErrorCode;

use crate::scripted::{Scripted, answer};
use crate::site::{Server, claimed, copier, copier_for_hops, copy, roles as site_roles, with};
use crate::{ROOM, content, interrupted, reason, way};

/// A claim on the way by a hop, as the queue makes it after the decision.
fn at(order: &Claimed, hop: &Hop) -> Claimed {
    let mut order = order.clone();
    let [source, destination] = hop.link().map(str::to_owned);
    (order.file.source_storage, order.file.destination_storage) = (source, destination);
    order.file.hop = Some(hop.clone());
    order.file.is_interrupted = hop.part != HopPart::Incoming && hop.destination_interrupted;
    order
}

/// Neither end of the file can be the active side with the other; on the way by the hop, the hop
/// and the destination can.
fn roles(order: &Claimed, site: Option<&HopSite>) -> Roles {
    let is_under_way = |hop: &Hop| hop.part != HopPart::GivenUp;
    Roles {
        source: ThirdPartyRole::None,
        destination: match order.file.hop.as_ref().is_some_and(is_under_way) {
            true => ThirdPartyRole::Full,
            false => ThirdPartyRole::None,
        },
        hop: site.and_then(|site| site.hop_of(&order.file)).map(Box::new),
        ..Roles::default()
    }
}

fn hop_of(result: CopyResult) -> Hop {
    match result {
        CopyResult::Hop { hop, .. } => *hop,
        other => panic!("{other:?}"),
    }
}

struct Three {
    from: Server,
    to: Server,
    hop: Server,
    site: HopSite,
    order: Claimed,
}

async fn three() -> Three {
    let (from, to, [http, root]) = (Server::http(ROOM), Server::root(), Server::both());
    from.put("f", &content()).await;
    let urls = [http.url("hop"), root.url("hop")];
    let site = HopSite::new(&urls, Vec::new(), Vec::new()).unwrap();
    let mut order = claimed(&from.url("f"), &to.url("f"), Overwrite::Never);
    order.file.source_storage = "http://from:80".to_owned();
    order.file.destination_storage = "root://to:1094".to_owned();
    Three {
        from,
        to,
        hop: http,
        site,
        order,
    }
}

#[tokio::test]
async fn a_file_passes_a_hop_that_speaks_the_protocols_of_both_sides() {
    let Three {
        to, hop, site, order, ..
    } = three().await;
    let name = format!("hop/{}-17", order.job.id);
    let chosen = hop_of(copy(&order, roles(&order, Some(&site))).await);
    assert_eq!(chosen.part, HopPart::Incoming);
    assert!(chosen.incoming.url.starts_with("http://"), "the source's protocol");
    assert!(chosen.outgoing.url.starts_with("root://"), "the destination's protocol");
    assert_eq!(hop.get(&name).await, None);

    // What an earlier attempt has left there is replaced, although the job overwrites nothing.
    hop.put(&name, b"a part").await;
    let order = at(&order, &chosen);
    let arrived = hop_of(copy(&order, roles(&order, None)).await);
    assert_eq!(arrived.part, HopPart::Outgoing);
    assert!(hop.get(&name).await == Some(content()));
    assert_eq!(arrived.size_bytes, Some(content().len() as u64));
    assert!(
        arrived.checksum.as_ref().is_some_and(|sum| sum.starts_with("adler32:")),
        "{arrived:?}"
    );

    let order = at(&order, &arrived);
    assert_eq!(way(&copy(&order, roles(&order, None)).await), "3rd pull");
    assert!(to.get("f").await == Some(content()));
    soon(copier().remove_hop(&order, &arrived.outgoing.url)).await.unwrap();
    assert_eq!(hop.get(&name).await, None);
    let again = soon(copier().remove_hop(&order, &arrived.outgoing.url)).await;
    assert_eq!(again.unwrap_err().code(), ErrorCode::PeerNotFound);
}

#[tokio::test]
async fn a_checksum_of_the_source_guards_the_second_copy_too() {
    let Three {
        to, hop, site, order, ..
    } = three().await;
    let chosen = hop_of(copy(&order, roles(&order, Some(&site))).await);
    let order = at(&order, &chosen);
    let arrived = hop_of(copy(&order, roles(&order, None)).await);
    // The hop changes a byte, and computes its checksum from that.
    let mut other = content();
    other[1000] ^= 1;
    hop.put(&format!("hop/{}-17", order.job.id), &other).await;
    let order = at(&order, &arrived);
    let told = reason(&copy(&order, roles(&order, None)).await);
    assert!(told.starts_with("checksum_precondition SOURCE"), "{told}");
    assert_eq!(to.get("f").await, None);
}

#[tokio::test]
async fn a_file_that_the_hop_has_lost_is_copied_there_again_and_at_last_goes_without() {
    let Three { site, order, .. } = three().await;
    let chosen = hop_of(copy(&order, roles(&order, Some(&site))).await);
    let mut hop = Hop {
        part: HopPart::Outgoing,
        ..chosen
    };
    for (part, losses) in [(HopPart::Incoming, 1), (HopPart::Incoming, 2), (HopPart::GivenUp, 2)] {
        let order = at(&order, &hop);
        hop = hop_of(copy(&order, roles(&order, None)).await);
        assert_eq!((hop.part, hop.losses), (part, losses));
        if part == HopPart::Incoming {
            hop.part = HopPart::Outgoing;
        }
    }
    let order = at(&order, &hop);
    assert_eq!(way(&copy(&order, roles(&order, Some(&site))).await), "streamed");
}

#[tokio::test]
async fn what_a_lost_worker_left_is_looked_for_at_the_end_of_its_part() {
    let Three {
        to, hop, site, order, ..
    } = three().await;
    let name = format!("hop/{}-17", order.job.id);
    let chosen = hop_of(copy(&order, roles(&order, Some(&site))).await);
    // It was lost with the last byte at the hop. What the destination has is another client's.
    hop.put(&name, &content()).await;
    to.put("f", &content()).await;
    let order = at(&order, &chosen);
    let CopyResult::Hop {
        hop: there,
        copied_bytes,
    } = copy(&interrupted(order.clone(), 5), roles(&order, None)).await
    else {
        panic!("it is at the hop");
    };
    assert_eq!((there.part, copied_bytes), (HopPart::Outgoing, None));
    assert_eq!(there.size_bytes, Some(content().len() as u64));
    assert!(there.checksum.as_ref().is_some_and(|sum| sum.starts_with("adler32:")));
    let order = at(&order, &there);
    let told = reason(&copy(&order, roles(&order, None)).await);
    assert!(told.starts_with("peer_exists DESTINATION"), "{told}");
    // It was lost with the last byte at the destination.
    let order = interrupted(order, 5);
    let result = copy(&order, roles(&order, None)).await;
    assert!(
        matches!(
            result,
            CopyResult::Found {
                size_bytes: 3_000_000,
                ..
            }
        ),
        "{result:?}"
    );
}

#[tokio::test]
async fn what_a_lost_worker_left_at_the_destination_is_known_after_the_hop_has_lost_the_file() {
    let Three {
        to, hop, site, order, ..
    } = three().await;
    let chosen = hop_of(copy(&order, roles(&order, Some(&site))).await);
    let last = Hop {
        part: HopPart::Outgoing,
        ..chosen
    };
    let order = interrupted(at(&order, &last), 1_000_000);
    to.put("f", &content()).await;
    let mut lost = hop_of(copy(&order, roles(&order, None)).await);
    assert_eq!((lost.part, lost.destination_interrupted), (HopPart::Incoming, true));
    let order = at(&order, &lost);
    lost = hop_of(copy(&order, roles(&order, None)).await);
    assert!(lost.destination_interrupted);
    let order = at(&order, &lost);
    let result = copy(&order, roles(&order, None)).await;
    assert!(matches!(result, CopyResult::Found { .. }), "{result:?}");
    // A part may be another client's by now: the bytes that moved last went to the hop.
    to.put("f", &content()[..1_500_000]).await;
    let told = reason(&copy(&order, roles(&order, None)).await);
    assert!(told.starts_with("peer_exists DESTINATION"), "{told}");
    assert!(hop.get(&format!("hop/{}-17", order.job.id)).await.is_some());
}

/// A user's server, which the file comes from or goes to, and the hop of the operators.
struct Users {
    server: Scripted,
    hop: Server,
    order: Claimed,
}

async fn with_users(part: HopPart) -> Users {
    let (server, [http, root]) = (Scripted::start(refuses_data), Server::both());
    let other = Server::root();
    let site = HopSite::new(&[http.url("hop"), root.url("hop")], Vec::new(), Vec::new()).unwrap();
    let (mut order, storages) = match part {
        HopPart::Incoming => {
            server.store(&content());
            let order = claimed(&server.url(), &other.url("f"), Overwrite::Never);
            (order, ["http://user:80", "root://to:1094"])
        }
        _ => {
            let order = claimed(&other.url("f"), &server.url(), Overwrite::Never);
            (order, ["root://from:1094", "http://user:80"])
        }
    };
    [order.file.source_storage, order.file.destination_storage] = storages.map(str::to_owned);
    let way = Hop {
        part,
        ..site.hop_of(&order.file).unwrap()
    };
    http.put(&format!("hop/{}-17", order.job.id), &content()).await;
    Users {
        server,
        hop: http,
        order: at(&order, &way),
    }
}

/// It takes every order, and neither gives nor takes data.
fn refuses_data(method: &str, _: &str, _: &mut Option<Vec<u8>>) -> String {
    match method {
        "copy" => answer("201 Created", "failure: no such day\n"),
        "put" | "get" => answer("405 No", "no data"),
        _ => String::new(),
    }
}

#[tokio::test]
async fn the_token_for_a_hop_is_shown_to_no_server_of_a_user() {
    for part in [HopPart::Incoming, HopPart::Outgoing] {
        let Users { server, order, .. } = with_users(part).await;
        // Whatever the user's server could do, all ways are tried.
        let copier = copier_for_hops();
        let result = soon(copier.copy(
            &order,
            Roles {
                hop: None,
                ..site_roles()
            },
            &Progress::new(),
        ))
        .await;
        for head in server.heads() {
            assert!(!head.contains("authorization") && !head.starts_with("copy"), "{head}");
        }
        assert!(server.heads().len() > 1, "{part:?}: {result:?}");
    }
}

#[tokio::test]
async fn a_hop_without_macaroons_is_given_up_if_it_cannot_be_the_active_side() {
    let Users { server, order, hop, .. } = with_users(HopPart::Outgoing).await;
    let copier = copier_for_hops();
    let only_pulled = Roles {
        source: ThirdPartyRole::None,
        ..site_roles()
    };
    let given_up = hop_of(soon(copier.copy(&order, only_pulled, &Progress::new())).await);
    assert_eq!(given_up.part, HopPart::GivenUp);
    let why = given_up.given_up_for.unwrap_or_default();
    assert!(why.contains("goes to no other server"), "{why}");
    assert!(!server.asked().contains(&"copy".to_owned()), "{:?}", server.asked());
    let hops = copier.capabilities().of(&order.file.source_storage);
    let shown = hops.iter().find(|one| one.cell.credential == Credential::Macaroon);
    assert!(
        shown.is_some_and(|one| !one.known.can && one.cell.part == Part::Passive),
        "{hops:?}"
    );
    assert!(hop.get(&format!("hop/{}-17", order.job.id)).await.is_some());
}

#[tokio::test]
async fn a_hop_is_taken_only_if_no_storage_can_make_the_copy() {
    let Three {
        from, to, site, order, ..
    } = three().await;
    let both_can = Roles {
        source: ThirdPartyRole::Full,
        destination: ThirdPartyRole::Full,
        ..roles(&order, Some(&site))
    };
    assert!(way(&copy(&order, both_can).await).starts_with("3rd"));
    let on_order = |overwrite| claimed(&from.url("f"), &to.url("f"), overwrite);
    // Without a hop for it, the data go through this machine, or nowhere.
    let again = on_order(Overwrite::Always);
    assert_eq!(way(&copy(&again, roles(&again, None)).await), "streamed");
    let mut never = roles(&again, None);
    never.limits.never_streams = true;
    assert!(reason(&copy(&again, never).await).starts_with("peer_unsupported"));
    let mut streamed = with(on_order(Overwrite::Always), |_| {});
    streamed.file.options.copy_mode = Some(catalog::CopyMode::Streamed);
    assert_eq!(way(&copy(&streamed, roles(&order, Some(&site))).await), "streamed");
    let missing = claimed(&from.url("none"), &to.url("g"), Overwrite::Never);
    let told = reason(&copy(&missing, roles(&order, Some(&site))).await);
    assert!(told.starts_with("peer_not_found SOURCE"), "{told}");
    let others = HopSite::new(&[from.url("hop")], vec!["*.example.org".to_owned()], Vec::new()).unwrap();
    assert_eq!(others.hop_of(&order.file), None);
}

#[tokio::test]
async fn what_a_destination_says_of_itself_is_remembered() {
    let Three { order, .. } = three().await;
    let copier = copier();
    // Operators rule it out as the active side, so no copy shows it.
    let ruled_out = roles(&order, None);
    let copied = soon(copier.copy(&order, ruled_out, &Progress::new())).await;
    assert_eq!(way(&copied), "streamed");
    let all = copier.capabilities().of("root://to:1094");
    let told: Vec<_> = all.iter().filter(|one| one.known.evidence == Evidence::Told).collect();
    let cell = Cell {
        operation: Operation::Write,
        part: Part::Active,
        peer: Peer::Http,
        credential: Credential::None,
    };
    assert!(told.len() == 1 && told[0].cell == cell && told[0].known.can, "{all:?}");
}
