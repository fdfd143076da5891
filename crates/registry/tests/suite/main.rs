//! All tests of this crate that need several of its parts. They are one program, so that it is
//! linked once; a file is a subject.

mod applications;
mod etcd;
mod etcd_faults;
mod etcd_presence;
mod etcd_tls;
mod file;
mod hostile_stores;
mod kubernetes;
mod kubernetes_tls;
mod memory;
mod nacos;
mod remembered;
mod support;
mod zookeeper;
mod zookeeper_faults;
mod zookeeper_garbage;
mod zookeeper_tls;
