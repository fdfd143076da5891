//! The first bytes of Hessian 2.0 values, as hessian-lite numbers them.

pub(crate) const NULL: u8 = b'N';
pub(crate) const TRUE: u8 = b'T';
pub(crate) const FALSE: u8 = b'F';
pub(crate) const END: u8 = b'Z';

pub(crate) const INT: u8 = b'I';
pub(crate) const INT_ZERO: u8 = 0x90;
pub(crate) const INT_BYTE_ZERO: u8 = 0xc8;
pub(crate) const INT_SHORT_ZERO: u8 = 0xd4;

pub(crate) const LONG: u8 = b'L';
pub(crate) const LONG_INT: u8 = 0x59;
pub(crate) const LONG_ZERO: u8 = 0xe0;
pub(crate) const LONG_BYTE_ZERO: u8 = 0xf8;
pub(crate) const LONG_SHORT_ZERO: u8 = 0x3c;

pub(crate) const DOUBLE: u8 = b'D';
pub(crate) const DOUBLE_ZERO: u8 = 0x5b;
pub(crate) const DOUBLE_ONE: u8 = 0x5c;
pub(crate) const DOUBLE_BYTE: u8 = 0x5d;
pub(crate) const DOUBLE_SHORT: u8 = 0x5e;
pub(crate) const DOUBLE_MILL: u8 = 0x5f;

pub(crate) const DATE: u8 = 0x4a;
pub(crate) const DATE_MINUTE: u8 = 0x4b;

pub(crate) const STRING: u8 = b'S';
pub(crate) const STRING_CHUNK: u8 = b'R';
pub(crate) const STRING_DIRECT_MAX: usize = 0x1f;
pub(crate) const STRING_SHORT: u8 = 0x30;
pub(crate) const STRING_SHORT_MAX: usize = 0x3ff;
/// Java ends a chunk of text or binary at this length, and so do we.
pub(crate) const CHUNK_LEN: usize = 0x8000;

pub(crate) const BINARY: u8 = b'B';
pub(crate) const BINARY_CHUNK: u8 = b'A';
pub(crate) const BINARY_DIRECT: u8 = 0x20;
pub(crate) const BINARY_DIRECT_MAX: usize = 0x0f;
pub(crate) const BINARY_SHORT: u8 = 0x34;
pub(crate) const BINARY_SHORT_MAX: usize = 0x3ff;

pub(crate) const LIST_VARIABLE: u8 = 0x55;
pub(crate) const LIST_FIXED: u8 = b'V';
pub(crate) const LIST_VARIABLE_UNTYPED: u8 = 0x57;
pub(crate) const LIST_FIXED_UNTYPED: u8 = 0x58;
pub(crate) const LIST_DIRECT: u8 = 0x70;
pub(crate) const LIST_DIRECT_UNTYPED: u8 = 0x78;
pub(crate) const LIST_DIRECT_MAX: usize = 7;

pub(crate) const MAP: u8 = b'M';
pub(crate) const MAP_UNTYPED: u8 = b'H';

pub(crate) const CLASS_DEF: u8 = b'C';
pub(crate) const OBJECT: u8 = b'O';
pub(crate) const OBJECT_DIRECT: u8 = 0x60;
pub(crate) const OBJECT_DIRECT_MAX: u32 = 0x0f;

pub(crate) const REF: u8 = 0x51;
