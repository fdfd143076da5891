//! What a server answers.

use crate::jute::{JuteError, RecordReader};
use crate::request::op;

/// What is known of a node beside its data.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stat {
    /// The change that made it.
    pub made_zxid: i64,
    /// Its last change.
    pub changed_zxid: i64,
    /// When it was made, in milliseconds since 1970 by the server's clock.
    pub made_at_ms: i64,
    /// How often its data were changed.
    pub version: i32,
    /// The session that it goes with; 0 for a node that stays.
    pub owner: i64,
    /// The length of its data.
    pub data_len: usize,
    /// The last change of the list of its children.
    pub children_zxid: i64,
}

/// A good answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Answer {
    /// The names in a folder, in no order.
    Children {
        /// The names.
        names: Vec<String>,
        /// About the folder.
        stat: Stat,
    },
    /// The node exists, or has other data now.
    Stat(Stat),
    /// What is written in a node.
    Data {
        /// The bytes.
        data: Vec<u8>,
        /// About the node.
        stat: Stat,
    },
    /// It is done.
    Done,
}

/// Why a server did not do what it was asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// There is no such node, or none above it.
    #[error("no such node")]
    NoNode,
    /// The node exists already.
    #[error("the node exists already")]
    NodeExists,
    /// The node is another one than was expected.
    #[error("the node has changed meanwhile")]
    BadVersion,
    /// The node's access list does not allow it.
    #[error(
        "not allowed by the node's access list (NoAuth); check user and password, or the node's ACL"
    )]
    NoAuth,
    /// The session is over.
    #[error("the session has expired")]
    SessionExpired,
    /// The session is served by another server now.
    #[error("the session has moved to another server")]
    SessionMoved,
    /// The access list is of no use to this client.
    #[error("the access list is not valid (InvalidACL): it needs a user")]
    InvalidAcl,
    /// A node cannot have children if it goes with a session.
    #[error("the node above is ephemeral and cannot have children")]
    NoChildrenForEphemerals,
    /// A node with children cannot be deleted.
    #[error("the node has children")]
    NotEmpty,
    /// What it has answered is longer than is taken. What was asked for may be done.
    #[error("an answer of {len} bytes; the limit is {max_len} (max_message_bytes)")]
    TooLong {
        /// As the server gave it.
        len: u32,
        /// What is allowed.
        max_len: usize,
    },
    /// Another reason.
    #[error("ZooKeeper's error {code}")]
    Other {
        /// Its number, as `KeeperException.Code` has it.
        code: i32,
    },
}

impl Refusal {
    pub(crate) fn of(code: i32) -> Option<Self> {
        Some(match code {
            0 => return None,
            -101 => Self::NoNode,
            -102 => Self::NoAuth,
            -103 => Self::BadVersion,
            -108 => Self::NoChildrenForEphemerals,
            -110 => Self::NodeExists,
            -111 => Self::NotEmpty,
            -112 => Self::SessionExpired,
            -114 => Self::InvalidAcl,
            -118 => Self::SessionMoved,
            code => Self::Other { code },
        })
    }
}

/// Reads the record of a good answer to the operation `op`.
pub(crate) fn decode(
    op: i32,
    reader: &mut RecordReader<'_>,
) -> Result<Result<Answer, Refusal>, JuteError> {
    Ok(Ok(match op {
        op::GET_CHILDREN => {
            let names = reader.texts()?;
            Answer::Children { names, stat: stat(reader)? }
        }
        op::EXISTS | op::SET_DATA => Answer::Stat(stat(reader)?),
        op::GET_DATA => {
            let data = reader.buffer()?.to_vec();
            Answer::Data { data, stat: stat(reader)? }
        }
        op::MULTI => return multi(reader),
        // A created node's path, which the caller knows; or nothing.
        _ => Answer::Done,
    }))
}

/// The outcomes of several operations that were done together, or not at all.
fn multi(reader: &mut RecordReader<'_>) -> Result<Result<Answer, Refusal>, JuteError> {
    /// Of an operation that was not done because of another one. Source:
    /// `Code.RUNTIMEINCONSISTENCY`.
    const BECAUSE_OF_ANOTHER: Refusal = Refusal::Other { code: -2 };
    let mut refusal = None;
    loop {
        let (op, is_last, _) = (reader.int()?, reader.bool()?, reader.int()?);
        if is_last {
            return Ok(refusal.map_or(Ok(Answer::Done), Err));
        }
        match op {
            op::CREATE => {
                reader.buffer()?;
            }
            op::NONE => {
                let found = Refusal::of(reader.int()?);
                if matches!(refusal, None | Some(BECAUSE_OF_ANOTHER)) && found.is_some() {
                    refusal = found;
                }
            }
            _ => {}
        }
    }
}

fn stat(reader: &mut RecordReader<'_>) -> Result<Stat, JuteError> {
    let (made_zxid, changed_zxid) = (reader.long()?, reader.long()?);
    let (made_at_ms, _changed_at_ms) = (reader.long()?, reader.long()?);
    let version = reader.int()?;
    let (_children_version, _acl_version) = (reader.int()?, reader.int()?);
    let owner = reader.long()?;
    let (data_len, _n_children) = (reader.int()?, reader.int()?);
    let data_len = usize::try_from(data_len).unwrap_or(0);
    let children_zxid = reader.long()?;
    Ok(Stat { made_zxid, changed_zxid, made_at_ms, version, owner, data_len, children_zxid })
}
