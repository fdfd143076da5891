//! Dubbo's metadata report: the service definitions that providers put into etcd.
//!
//! Version and group stand in the key, each left out if there is none, so that one of both alone
//! cannot be told from the other. The document tells them too: all of an interface are read, and
//! those of the service chosen. Source: `EtcdMetadataReport` and `BaseServiceMetadataIdentifier`
//! in apache/dubbo 2.7.

use dubbo_proto::url::encode_key;
use etcd_client::{GetOptions, SortOrder, SortTarget};

use super::connection::Connection;
use crate::definitions::{Away, Document, Origin};

/// The most documents of one interface: its variants, and the applications that offer them.
const MAX_DOCUMENTS: i64 = 64;

/// The longest answer. etcd takes 1.5 MiB for a value unless told otherwise.
const MAX_MESSAGE_LEN: usize = 16 << 20;

/// The documents of an interface, the newest first.
pub(super) async fn read(
    connection: &Connection,
    root: &str,
    interface: &str,
) -> Result<Vec<Document>, Away> {
    let away = || Away("etcd cannot be reached".to_owned());
    let live = connection.lent.live_within_timeout().await.ok_or_else(away)?;
    let prefix = format!("/{root}/metadata/{}/", encode_key(interface));
    let options = GetOptions::new()
        .with_prefix()
        .with_limit(MAX_DOCUMENTS)
        .with_sort(SortTarget::Mod, SortOrder::Descend);
    let mut client = live.kv_client().max_decoding_message_size(MAX_MESSAGE_LEN);
    let get = client.get(prefix, Some(options));
    let answer = connection.request("reading the metadata report", get).await;
    let answer = answer.map_err(|error| Away(error.to_string()))?;
    let documents = answer.kvs().iter().filter_map(|kv| {
        let key = String::from_utf8_lossy(kv.key()).into_owned();
        // Consumers report, too, but no methods.
        key.contains("/provider/")
            .then(|| Document { origin: Origin::Report(key), text: kv.value().to_vec() })
    });
    Ok(documents.collect())
}
