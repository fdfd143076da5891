//! The command line of Dubmesh.
fn main() {}
