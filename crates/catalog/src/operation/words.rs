//! The dictionary, and the queues that its words make.

use std::collections::{BTreeMap, BTreeSet};

use types::Result;

use super::count::QueueKey;
use crate::store::{Transaction, Value, damaged};

/// Numbers of these words; new ones are added.
pub(super) async fn word_ids(
    transaction: &mut dyn Transaction,
    words: BTreeSet<&str>,
) -> Result<BTreeMap<String, i64>> {
    let mut known = known_words(transaction, &words).await?;
    let missing: BTreeSet<&str> = words.into_iter().filter(|word| !known.contains_key(*word)).collect();
    if !missing.is_empty() {
        let sets: Vec<Vec<Value>> = missing.iter().map(|word| vec![(*word).into()]).collect();
        let sql = "INSERT INTO word (text) VALUES ($1) ON CONFLICT (text) DO NOTHING";
        transaction.execute_each(sql, &sets).await?;
        known.extend(known_words(transaction, &missing).await?);
    }
    Ok(known)
}

async fn known_words(transaction: &mut dyn Transaction, words: &BTreeSet<&str>) -> Result<BTreeMap<String, i64>> {
    let sets: Vec<Vec<Value>> = words.iter().map(|word| vec![(*word).into()]).collect();
    let sql = "SELECT id FROM word WHERE text = $1";
    let found = transaction.query_each(sql, &sets).await?;
    let mut known = BTreeMap::new();
    for (mut rows, word) in found.into_iter().zip(words) {
        if let Some(row) = rows.first_mut() {
            known.insert((*word).to_owned(), row.integer()?);
        }
    }
    Ok(known)
}

/// The number of a word; it is added if it is new.
pub(super) async fn word_id(transaction: &mut dyn Transaction, word: &str) -> Result<i64> {
    let ids = word_ids(transaction, BTreeSet::from([word])).await?;
    word_of(&ids, word)
}

/// The number of a word that was asked for. Texts are stored without NUL.
pub(super) fn word_of(ids: &BTreeMap<String, i64>, word: &str) -> Result<i64> {
    ids.get(word).copied().ok_or_else(|| damaged("a word is missing"))
}

/// The number of a queue, if a file was ever in it.
pub(super) async fn known_queue(transaction: &mut dyn Transaction, key: &QueueKey) -> Result<Option<i64>> {
    let word = |number: u8| format!("(SELECT id FROM word WHERE text = ${number})");
    let sql = format!(
        "SELECT id FROM queue WHERE source = {} AND destination = {} AND vo = {} AND activity = {} AND user_name = {}",
        word(1),
        word(2),
        word(3),
        word(4),
        word(5)
    );
    let words = [&key.source, &key.destination, &key.vo, &key.activity, &key.user];
    let parameters = words.map(|text| text.as_str().into());
    let mut rows = transaction.query(&sql, &parameters).await?;
    rows.first_mut().map(|row| row.integer()).transpose()
}

/// The numbers of a queue's words: source, destination, virtual organisation, activity, user.
pub(super) type QueueWords = [i64; 5];

/// Numbers of queues, by the numbers of their words; new ones are added.
pub(super) async fn queue_ids(
    transaction: &mut dyn Transaction,
    keys: BTreeSet<QueueWords>,
) -> Result<BTreeMap<QueueWords, i64>> {
    let mut known = known_queues(transaction, &keys).await?;
    let missing: BTreeSet<QueueWords> = keys.into_iter().filter(|key| !known.contains_key(key)).collect();
    if !missing.is_empty() {
        let sets: Vec<Vec<Value>> = missing.iter().map(|key| key.map(Value::from).to_vec()).collect();
        let sql = "INSERT INTO queue (source, destination, vo, activity, user_name) VALUES ($1, $2, $3, $4, $5) \
            ON CONFLICT (source, destination, vo, activity, user_name) DO NOTHING";
        transaction.execute_each(sql, &sets).await?;
        known.extend(known_queues(transaction, &missing).await?);
    }
    Ok(known)
}

async fn known_queues(
    transaction: &mut dyn Transaction,
    keys: &BTreeSet<QueueWords>,
) -> Result<BTreeMap<QueueWords, i64>> {
    let sets: Vec<Vec<Value>> = keys.iter().map(|key| key.map(Value::from).to_vec()).collect();
    let sql = "SELECT id FROM queue WHERE source = $1 AND destination = $2 AND vo = $3 AND activity = $4 \
        AND user_name = $5";
    let found = transaction.query_each(sql, &sets).await?;
    let mut known = BTreeMap::new();
    for (mut rows, key) in found.into_iter().zip(keys) {
        if let Some(row) = rows.first_mut() {
            known.insert(*key, row.integer()?);
        }
    }
    Ok(known)
}
