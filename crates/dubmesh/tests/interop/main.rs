//! The program beside real Java peers, etcd, ZooKeeper, and rnacos where that is installed.

mod applications;
mod classes;
mod describe;
mod dubbo;
mod http_apps;
mod matrix;
mod modes;
mod moving;
mod nacos;
mod providers;
mod support;
mod tls;
mod types;
mod values;
mod zookeeper;
