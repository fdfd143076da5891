//! What a client asks for, and how that is written.

use bytes::{BufMut, BytesMut};

use crate::jute::{put_buffer, put_text};

/// Numbers of operations. Source: `ZooDefs.OpCode` in apache/zookeeper.
pub(crate) mod op {
    pub(crate) const CREATE: i32 = 1;
    pub(crate) const DELETE: i32 = 2;
    pub(crate) const EXISTS: i32 = 3;
    pub(crate) const GET_DATA: i32 = 4;
    pub(crate) const SET_DATA: i32 = 5;
    pub(crate) const PING: i32 = 11;
    pub(crate) const GET_CHILDREN: i32 = 12;
    pub(crate) const MULTI: i32 = 14;
    pub(crate) const REMOVE_WATCHES: i32 = 18;
    pub(crate) const AUTH: i32 = 100;
    pub(crate) const CLOSE: i32 = -11;
    /// Ends a list of operations, and stands for one that failed.
    pub(crate) const NONE: i32 = -1;
}

/// Node flags. Source: `CreateMode` in apache/zookeeper.
const EPHEMERAL: i32 = 1;

/// Permissions. Source: `ZooDefs.Perms` in apache/zookeeper.
const READ: i32 = 1;
const ALL: i32 = 31;

/// Who may do what with a node that is made.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Acl {
    /// Everybody may do everything.
    #[default]
    Open,
    /// Only who has authenticated as its maker may do anything, as Dubbo has it with a user.
    Creator,
    /// The same, but everybody may read it.
    CreatorAndReaders,
}

/// Who the client is, by one of ZooKeeper's schemes. Its `Debug` form hides the secret.
#[derive(Clone, Eq, PartialEq)]
pub struct Identity {
    /// Such as `digest`.
    pub scheme: String,
    /// What the scheme wants, such as `user:password`.
    pub secret: Vec<u8>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

/// An operation. Paths are absolute. A watcher of `W` is told once, when what was read changes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Request<W> {
    /// The names in a folder. A watch fires when the list changes or the folder goes.
    Children {
        /// The folder.
        path: String,
        /// Who is told. There is no watch on a folder that does not exist.
        watcher: Option<W>,
    },
    /// Whether a node exists. A watch fires when the node comes, changes or goes.
    Exists {
        /// The node.
        path: String,
        /// Who is told, also if the node does not exist.
        watcher: Option<W>,
    },
    /// What is written in a node. A watch fires when that changes or the node goes.
    Data {
        /// The node.
        path: String,
        /// Who is told. There is no watch on the data of a node that does not exist.
        watcher: Option<W>,
    },
    /// Makes a node.
    Create {
        /// The node; what is above it has to exist.
        path: String,
        /// What is written in it.
        data: Vec<u8>,
        /// Who may do what with it.
        acl: Acl,
        /// Whether it goes with its session.
        is_ephemeral: bool,
    },
    /// Writes other data into a node.
    SetData {
        /// The node.
        path: String,
        /// What is written in it.
        data: Vec<u8>,
        /// The version of what was written there before.
        version: i32,
    },
    /// Deletes a node and makes it anew for this session, both or nothing.
    TakeOver {
        /// The node.
        path: String,
        /// What is written in it.
        data: Vec<u8>,
        /// Who may do what with it.
        acl: Acl,
        /// The version of the one to delete.
        version: i32,
    },
    /// Deletes a node.
    Delete {
        /// The node.
        path: String,
        /// Its version.
        version: i32,
    },
    /// Ends the session, and with it its ephemeral nodes.
    Close,
}

impl<W> Request<W> {
    /// The path that it is about.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Children { path, .. }
            | Self::Exists { path, .. }
            | Self::Data { path, .. }
            | Self::Create { path, .. }
            | Self::SetData { path, .. }
            | Self::TakeOver { path, .. }
            | Self::Delete { path, .. } => path,
            Self::Close => "",
        }
    }

    pub(crate) fn op(&self) -> i32 {
        match self {
            Self::Children { .. } => op::GET_CHILDREN,
            Self::Exists { .. } => op::EXISTS,
            Self::Data { .. } => op::GET_DATA,
            Self::Create { .. } => op::CREATE,
            Self::SetData { .. } => op::SET_DATA,
            Self::TakeOver { .. } => op::MULTI,
            Self::Delete { .. } => op::DELETE,
            Self::Close => op::CLOSE,
        }
    }

    /// Writes the record after its header.
    pub(crate) fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Children { path, watcher }
            | Self::Exists { path, watcher }
            | Self::Data { path, watcher } => {
                put_text(out, path);
                put_bool(out, watcher.is_some());
            }
            Self::Create { path, data, acl, is_ephemeral } => {
                put_create(out, path, data, *acl, *is_ephemeral);
            }
            Self::SetData { path, data, version } => {
                put_text(out, path);
                put_buffer(out, data);
                out.put_i32(*version);
            }
            Self::TakeOver { path, data, acl, version } => {
                put_multi_header(out, op::DELETE, false);
                put_delete(out, path, *version);
                put_multi_header(out, op::CREATE, false);
                put_create(out, path, data, *acl, true);
                put_multi_header(out, op::NONE, true);
            }
            Self::Delete { path, version } => put_delete(out, path, *version),
            Self::Close => {}
        }
    }
}

pub(crate) fn put_auth(out: &mut BytesMut, identity: &Identity) {
    // The type, which nobody uses.
    out.put_i32(0);
    put_text(out, &identity.scheme);
    put_buffer(out, &identity.secret);
}

pub(crate) fn put_remove_watches(out: &mut BytesMut, path: &str) {
    /// Of children and of data. Source: `WatcherType.Any` in apache/zookeeper.
    const ANY: i32 = 3;
    put_text(out, path);
    out.put_i32(ANY);
}

fn put_bool(out: &mut BytesMut, is: bool) {
    out.put_u8(u8::from(is));
}

fn put_create(out: &mut BytesMut, path: &str, data: &[u8], acl: Acl, is_ephemeral: bool) {
    put_text(out, path);
    put_buffer(out, data);
    let entries: &[(i32, &str, &str)] = match acl {
        Acl::Open => &[(ALL, "world", "anyone")],
        Acl::Creator => &[(ALL, "auth", "")],
        Acl::CreatorAndReaders => &[(ALL, "auth", ""), (READ, "world", "anyone")],
    };
    out.put_i32(i32::try_from(entries.len()).unwrap_or_default());
    for (permissions, scheme, id) in entries {
        out.put_i32(*permissions);
        put_text(out, scheme);
        put_text(out, id);
    }
    out.put_i32(if is_ephemeral { EPHEMERAL } else { 0 });
}

fn put_delete(out: &mut BytesMut, path: &str, version: i32) {
    put_text(out, path);
    out.put_i32(version);
}

fn put_multi_header(out: &mut BytesMut, op: i32, is_last: bool) {
    out.put_i32(op);
    put_bool(out, is_last);
    // An error, which only answers have.
    out.put_i32(-1);
}
