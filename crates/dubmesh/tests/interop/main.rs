//! The program beside real Java peers, etcd and ZooKeeper.

mod applications;
mod classes;
mod describe;
mod dubbo;
mod http_apps;
mod matrix;
mod modes;
mod moving;
mod providers;
mod support;
mod tls;
mod types;
mod values;
mod zookeeper;
