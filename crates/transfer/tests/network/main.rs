//! Clients and servers over real sockets.

mod bad_input;
mod moving;
mod support;
