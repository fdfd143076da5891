//! All tests of this crate that need several of its parts. They are one program, so that it is
//! linked once; a file is a subject.

mod compression;
mod connections;
mod handlers;
mod in_place;
mod limits;
mod observers;
mod panics;
mod reconnect;
mod service;
mod service_streams;
mod shutdown;
mod soak;
mod streams;
mod support;
mod tls;
