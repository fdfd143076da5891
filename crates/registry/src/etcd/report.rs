//! Dubbo's metadata report: the service definitions that providers put into etcd.
//!
//! Version and group stand in the key, each left out if there is none, so that one of both alone
//! cannot be told from the other. The document tells them too: all of an interface are read, and
//! those of the service chosen. Source: `EtcdMetadataReport` and `BaseServiceMetadataIdentifier`
//! in apache/dubbo 2.7.
//!
//! The keys are read first, and then one document after the other: what is too long takes no other
//! one away.

use dubbo_proto::definition::MAX_DOCUMENT_LEN;
use dubbo_proto::url::encode_key;
use etcd_client::{Error, GetOptions, KeyValue, KvClient, SortOrder, SortTarget};
use tonic::Code;

use super::connection::Connection;
use crate::definitions::{Away, Document, Origin};
use crate::kept::shown_key;

/// The most documents of one interface: its variants, and the applications that offer them.
const MAX_DOCUMENTS: usize = 64;

/// The most keys that are looked through for them: consumers report, too, and are many.
const MAX_KEYS: i64 = 1024;

/// The longest list of keys, and about the longest documents of one interface together.
const MAX_TOTAL_LEN: usize = 16 << 20;

/// What an answer with one document has beside it: its key, twice at most.
const MAX_KEY_LEN: usize = 64 << 10;

/// The documents of an interface, the newest first.
pub(super) async fn read(
    connection: &Connection,
    root: &str,
    interface: &str,
) -> Result<Vec<Document>, Away> {
    let away = || Away("etcd cannot be reached".to_owned());
    let live = connection.lent.live_within_timeout().await.ok_or_else(away)?;
    let prefix = format!("/{root}/metadata/{}/", encode_key(interface));
    let documents = async {
        let of_keys = live.kv_client().max_decoding_message_size(MAX_TOTAL_LEN);
        let keys = keys(of_keys, prefix).await?;
        let one = live.kv_client().max_decoding_message_size(MAX_DOCUMENT_LEN + MAX_KEY_LEN);
        documents(one, interface, keys).await
    };
    let documents = connection.request("reading the metadata report", documents).await;
    documents.map_err(|error| Away(error.to_string()))
}

/// The keys of documents, that of the newest first.
async fn keys(mut client: KvClient, prefix: String) -> Result<Vec<Vec<u8>>, Error> {
    let options = GetOptions::new()
        .with_prefix()
        .with_keys_only()
        .with_limit(MAX_KEYS)
        .with_sort(SortTarget::Mod, SortOrder::Descend);
    let answer = client.get(prefix, Some(options)).await?;
    // Consumers report, too, but no methods.
    let is_provider = |key: &&[u8]| String::from_utf8_lossy(key).contains("/provider/");
    let keys = answer.kvs().iter().map(KeyValue::key).filter(is_provider);
    Ok(keys.take(MAX_DOCUMENTS).map(<[u8]>::to_vec).collect())
}

async fn documents(
    mut client: KvClient,
    interface: &str,
    keys: Vec<Vec<u8>>,
) -> Result<Vec<Document>, Error> {
    let (mut found, mut total_len, mut left_out) = (Vec::new(), 0, Vec::new());
    for key in keys {
        if MAX_TOTAL_LEN <= total_len {
            left_out.push(key);
            continue;
        }
        let answer = match client.get(key.clone(), None).await {
            Ok(answer) => answer,
            Err(error) if is_too_long(&error) => {
                left_out.push(key);
                continue;
            }
            Err(error) => return Err(error),
        };
        // It may be gone by now.
        let Some(kv) = answer.kvs().first() else { continue };
        total_len += kv.value().len();
        let key = String::from_utf8_lossy(&key).into_owned();
        found.push(Document { origin: Origin::Report(key), text: kv.value().to_vec() });
    }
    if let Some(first) = left_out.first() {
        tracing::warn!(
            interface,
            left_out = left_out.len(),
            first = shown_key(first),
            max_len = MAX_DOCUMENT_LEN,
            max_total_len = MAX_TOTAL_LEN,
            "definitions in the metadata report are left out, since they are too long; the others \
             are used",
        );
    }
    Ok(found)
}

/// Whether the answer is longer than is taken.
fn is_too_long(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status) if status.code() == Code::OutOfRange)
}
