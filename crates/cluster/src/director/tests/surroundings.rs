//! Names above and below others.

use super::*;

/// Nodes without files, but the first has what each test says.
fn with(names: &[(&str, Says)]) -> Site {
    let site = site(&[not(1), not(1), not(1)]);
    let names = names.iter().map(|(name, says)| ((*name).to_owned(), says.clone()));
    *site.nodes.first_has.lock().unwrap() = names.collect();
    site
}

async fn store(site: &Site, name: &str) -> Result<NodeId, Undirected> {
    let directed = site.director.write(&path(name), Some(1), Client::default()).await;
    directed.map(|directed| directed.node)
}

#[tokio::test(start_paused = true)]
async fn no_file_is_stored_below_another_on_whatever_node() {
    let site = with(&[("/data/f", Says::File { size_bytes: Some(1) })]);
    for name in ["/data/f/x", "/data/f/y/z"] {
        assert_eq!(store(&site, name).await, Err(Undirected::BelowFile(path("/data/f"))));
    }
    let directory = path("/data/f/d");
    let made = site.director.make(&directory).await;
    assert!(matches!(made, Err(Undirected::BelowFile(_))));
    // A node has told of it.
    site.settle().await;
    site.director.created(&path("/data/g"), NodeId(1));
    assert_eq!(
        store(&site, "/data/g/x").await,
        Err(Undirected::BelowFile(path("/data/g")))
    );
}

#[tokio::test(start_paused = true)]
async fn no_name_is_both_a_file_and_a_directory_on_its_way() {
    let site = with(&[]);
    store(&site, "/data/a").await.unwrap();
    assert_eq!(
        store(&site, "/data/a/b").await,
        Err(Undirected::BelowFile(path("/data/a")))
    );
    let directory = path("/data/a");
    let made = site.director.make(&directory).await;
    assert!(matches!(made, Err(Undirected::Claimed)));
    store(&site, "/data/c/d/e").await.unwrap();
    for name in ["/data/c", "/data/c/d"] {
        assert_eq!(store(&site, name).await, Err(Undirected::AboveFile), "{name}");
    }
    assert!(site.director.make(&path("/data/c")).await.is_ok());
    // At once, through one redirector.
    let (file, below) = tokio::join!(store(&site, "/data/m"), store(&site, "/data/m/n"));
    assert!(file.is_ok() != below.is_ok(), "{file:?} {below:?}");
    tokio::time::advance(Duration::from_millis(EXPECTED_TIME_MS)).await;
    assert!(store(&site, "/data/c").await.is_ok(), "nothing has come below it");
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_is_being_made_is_no_file() {
    let site = with(&[]);
    let (above, name) = (path("/data/a"), path("/data/a/b"));
    let making = site.director.make(&name).await.unwrap();
    let again = site.director.make(&name).await.unwrap();
    drop(again);
    for name in [&above, &name] {
        assert_eq!(store(&site, name.as_str()).await, Err(Undirected::AboveFile));
    }
    assert!(store(&site, "/data/a/b/c").await.is_ok());
    drop(making);
    assert_eq!(store(&site, "/data/a/b/c").await, store(&site, "/data/a/b/c").await);
    let node = store(&site, "/data/a/b/c").await.unwrap();
    (0..4).for_each(|_| site.director.given_up(&path("/data/a/b/c"), node));
    assert!(store(&site, "/data/a/b").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_rename_gives_no_name_below_or_above_a_file_on_its_way() {
    let site = with(&[]);
    let (name, below) = (path("/data/d/f"), path("/data/d/f/x"));
    let claim = site.director.claim(&name).await.unwrap();
    assert_eq!(
        store(&site, "/data/d/f/x").await,
        Err(Undirected::BelowFile(name.clone()))
    );
    assert_eq!(store(&site, "/data/d").await, Err(Undirected::AboveFile));
    drop(claim);
    store(&site, "/data/d/f").await.unwrap();
    assert!(matches!(
        site.director.claim(&below).await,
        Err(Undirected::BelowFile(_))
    ));
    let above = path("/data/d");
    assert!(matches!(site.director.claim(&above).await, Err(Undirected::AboveFile)));
}

#[tokio::test(start_paused = true)]
async fn known_directories_are_not_asked_for_with_each_file() {
    let site = with(&[("/data/d/e", Says::Directory)]);
    site.settle().await;
    let mut asked = Vec::new();
    for number in 0..3 {
        let name = format!("/data/d/e/{number}");
        let node = store(&site, &name).await.unwrap();
        site.director.given_up(&path(&name), node);
        asked.push(site.asked());
    }
    // Each name once, and the directory with the first.
    assert_eq!(asked, [2, 3, 4]);
    tokio::time::advance(Duration::from_millis(UNTOLD_TIME_MS)).await;
    store(&site, "/data/d/e/f").await.unwrap();
    assert_eq!(site.asked(), 6);
    store(&site, "/data/new").await.unwrap();
    assert_eq!(site.asked(), 7, "an export is a directory");
}
