//! Listeners: how calls come in.

pub mod dubbo;
pub mod http;
pub mod link;
