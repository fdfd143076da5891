//! Dubbo's metadata report: the service definitions that providers put into etcd.
//!
//! Version and group stand in the key, each left out if there is none, so that one of both alone
//! cannot be told from the other. The document tells them too: all of an interface are read, and
//! those of the service chosen. Source: `EtcdMetadataReport` and `BaseServiceMetadataIdentifier`
//! in apache/dubbo 2.7.
//!
//! The keys are read first, and then one document after the other: what is too long takes no other
//! one away, be it a document or a key.

use std::collections::BTreeSet;
use std::sync::Arc;

use dubbo_proto::definition::MAX_DOCUMENT_LEN;
use dubbo_proto::url::encode_key;
use etcd_client::{Error, GetOptions, GetResponse, KvClient, SortOrder, SortTarget};
use tonic::Code;

use super::connection::{Live, SharedConnection};
use crate::definitions::{Away, DefinitionOrigin, Document, ReadAllowance, Unread};

/// The most documents of one interface: its variants, and the applications that offer them.
const MAX_DOCUMENTS: usize = 64;

/// The most keys that are looked through for them: consumers report, too, and are many.
const MAX_KEYS: i64 = 1024;

/// The longest answer with keys.
const MAX_ANSWER_LEN: usize = 16 << 20;

/// Keys that are asked for at a time where more of them are too long for an answer. As many of the
/// longest that etcd takes, unless it is told otherwise, fit into one (`--max-request-bytes`).
const PAGE_LEN: i64 = 8;

/// As much as is read of long keys before older ones are given up.
const MAX_KEYS_LEN: usize = 64 << 20;

/// The longest key of a document: far longer than the names of an interface and an application. It
/// is in an answer with a document, beside that.
const MAX_KEY_LEN: usize = 64 << 10;

/// The documents of an interface, the newest first.
pub(super) async fn read(
    connection: &SharedConnection,
    root: &str,
    interface: &str,
) -> Result<Vec<Document>, Away> {
    let prefix = format!("/{root}/metadata/{}/", encode_key(interface));
    let read = async |live: Arc<Live>| {
        let of_keys = live.kv_client().max_decoding_message_size(MAX_ANSWER_LEN);
        let one = live.kv_client().max_decoding_message_size(MAX_DOCUMENT_LEN + MAX_KEY_LEN);
        let documents = async { documents(one, keys(of_keys, &prefix).await?).await };
        live.request("reading the metadata report", documents).await
    };
    connection.ask_once(read).await
}

/// The keys of documents, that of the newest first. Long keys cost more answers, and are left out.
async fn keys(mut client: KvClient, prefix: &str) -> Result<Vec<Vec<u8>>, Error> {
    match newest(&mut client, prefix, MAX_KEYS, 0).await {
        Ok(answer) => return Ok(take_keys(&answer, &mut BTreeSet::new())),
        Err(error) if is_too_long(&error) => {}
        Err(error) => return Err(error),
    }
    let (mut found, mut known) = (Vec::new(), BTreeSet::new());
    let (mut total_len, mut until) = (0, 0);
    for _ in 0..MAX_KEYS / PAGE_LEN {
        if MAX_KEYS_LEN <= total_len || MAX_DOCUMENTS <= found.len() {
            break;
        }
        let answer = newest(&mut client, prefix, PAGE_LEN, until).await?;
        found.extend(take_keys(&answer, &mut known));
        total_len += answer.kvs().iter().map(|kv| kv.key().len()).sum::<usize>();
        let revisions = || answer.kvs().iter().map(etcd_client::KeyValue::mod_revision);
        let Some((oldest, newest)) = revisions().min().zip(revisions().max()) else { break };
        // Several keys may be of one revision: it is asked for again, unless it fills a page.
        until = if oldest == newest { oldest - 1 } else { oldest };
        if until < 1 || revisions().count() < usize::try_from(PAGE_LEN).unwrap_or_default() {
            break;
        }
    }
    found.truncate(MAX_DOCUMENTS);
    Ok(found)
}

/// The newest keys below a prefix, up to a revision if there is one.
async fn newest(
    client: &mut KvClient,
    prefix: &str,
    limit: i64,
    until: i64,
) -> Result<GetResponse, Error> {
    let options = GetOptions::new()
        .with_prefix()
        .with_keys_only()
        .with_limit(limit)
        .with_max_mod_revision(until)
        .with_sort(SortTarget::Mod, SortOrder::Descend);
    client.get(prefix, Some(options)).await
}

/// The keys in an answer that are those of documents, each once.
fn take_keys(answer: &GetResponse, known: &mut BTreeSet<Vec<u8>>) -> Vec<Vec<u8>> {
    // Consumers report, too, but no methods.
    let is_provider = |key: &&[u8]| String::from_utf8_lossy(key).contains("/provider/");
    let keys = answer.kvs().iter().map(etcd_client::KeyValue::key);
    let keys = keys.filter(|key| key.len() <= MAX_KEY_LEN).filter(is_provider);
    let new = keys.filter(|key| known.insert(key.to_vec()));
    new.take(MAX_DOCUMENTS).map(<[u8]>::to_vec).collect()
}

async fn documents(mut client: KvClient, keys: Vec<Vec<u8>>) -> Result<Vec<Document>, Error> {
    let (mut found, mut allowance) = (Vec::new(), ReadAllowance::default());
    for key in keys {
        let origin = DefinitionOrigin::Report(String::from_utf8_lossy(&key).into_owned());
        // Nobody knows its length before it is read.
        if !allowance.has_room() {
            found.push(Document { origin, text: Err(Unread::NoRoom) });
            continue;
        }
        let text = match client.get(key, None).await {
            Ok(answer) => match answer.kvs().first() {
                Some(kv) => allowance.take(kv.value().len()).map(|()| kv.value().to_vec()),
                // It is gone by now.
                None => continue,
            },
            Err(error) if is_too_long(&error) => Err(Unread::TooLong),
            Err(error) => return Err(error),
        };
        found.push(Document { origin, text });
    }
    Ok(found)
}

/// Whether the answer is longer than is taken.
fn is_too_long(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status) if status.code() == Code::OutOfRange)
}
