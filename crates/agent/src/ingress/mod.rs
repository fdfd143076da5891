//! Where calls come in.

pub mod http;
