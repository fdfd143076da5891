//! The watched file, on a real file system.

use std::fs;
use std::path::Path;
use std::process::Command;

use registry::{Freshness, Registry, RegistryConfig, RegistryError};
use tempfile::TempDir;

use crate::support::{link, registration, service, shows, status_is};

fn open(path: &Path) -> Registry {
    Registry::open(RegistryConfig::File { path: path.to_owned() }).unwrap()
}

fn text(endpoints: &str) -> String {
    format!("[[service]]\ninterface = \"a.B\"\nendpoints = [{endpoints}]\n")
}

#[tokio::test]
async fn follows_every_way_of_writing_a_file() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("services.toml");
    fs::write(&path, text("\"link://h:1\"")).unwrap();
    let registry = open(&path);
    let subscription = registry.subscribe(&service("a.B"));
    let now = subscription.current();
    assert_eq!((now.status, now.endpoints.len()), (Freshness::Current, 1), "at once");

    fs::write(&path, text("\"link://h:1\", \"dubbo://h:2\"")).unwrap();
    shows(&subscription, Freshness::Current, &["link://h:1", "dubbo://h:2"]).await;

    // As editors and `mv` do it, twice: the second one replaces the replaced file.
    for port in [3, 4] {
        let new = folder.path().join("services.toml.new");
        fs::write(&new, text(&format!("\"link://h:{port}\""))).unwrap();
        fs::rename(&new, &path).unwrap();
        shows(&subscription, Freshness::Current, &[&format!("link://h:{port}")]).await;
    }

    fs::write(&path, "service = []").unwrap();
    shows(&subscription, Freshness::Current, &[]).await;
}

#[tokio::test]
async fn a_broken_file_keeps_the_last_good_list() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("services.toml");
    fs::write(&path, text("\"link://h:1\"")).unwrap();
    let registry = open(&path);
    let subscription = registry.subscribe(&service("a.B"));

    for broken in ["[[service]]\ninterface = \"a.B\"\nendpo", "", "[[service]]\ninterfaces = 1"] {
        fs::write(&path, broken).unwrap();
        shows(&subscription, Freshness::Stale, &["link://h:1"]).await;
        let names_it = |error: &String| error.contains("services.toml:");
        status_is(&registry, "the mistake's line", |status| {
            !status.connected && status.last_error.as_ref().is_some_and(names_it)
        })
        .await;
        // The very same good text counts again.
        fs::write(&path, text("\"link://h:1\"")).unwrap();
        shows(&subscription, Freshness::Current, &["link://h:1"]).await;
    }

    fs::remove_file(&path).unwrap();
    shows(&subscription, Freshness::Stale, &["link://h:1"]).await;
    fs::write(&path, text("\"link://h:2\"")).unwrap();
    shows(&subscription, Freshness::Current, &["link://h:2"]).await;
}

/// Nobody may ever write into it. Two threads, so that a wait for that is a failure.
#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_in_the_place_of_the_file_is_not_waited_for() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("services.toml");
    fs::write(&path, text("\"link://h:1\"")).unwrap();
    let registry = open(&path);
    let subscription = registry.subscribe(&service("a.B"));
    fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    status_is(&registry, "what is wrong with the file", |status| {
        let said = status.last_error.as_deref().unwrap_or_default();
        said.contains("it is not a regular file")
    })
    .await;
    shows(&subscription, Freshness::Stale, &["link://h:1"]).await;
    fs::remove_file(&path).unwrap();
    fs::write(&path, text("\"link://h:2\"")).unwrap();
    shows(&subscription, Freshness::Current, &["link://h:2"]).await;
}

#[tokio::test]
async fn the_file_and_its_folder_may_come_later() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("later").join("services.toml");
    let registry = open(&path);
    let subscription = registry.subscribe(&service("a.B"));
    assert_eq!(subscription.current().status, Freshness::Pending);
    let says_so = |error: &String| error.contains("cannot read");
    assert!(registry.status().borrow().last_error.as_ref().is_some_and(says_so));
    fs::create_dir(folder.path().join("later")).unwrap();
    fs::write(&path, text("\"link://h:1\"")).unwrap();
    shows(&subscription, Freshness::Current, &["link://h:1"]).await;
    status_is(&registry, "the connection", |status| status.connected).await;
}

#[tokio::test]
async fn nothing_can_register() {
    let folder = TempDir::new().unwrap();
    let registry = open(&folder.path().join("services.toml"));
    let error = registry.register(&registration("a.B", link(1))).unwrap_err();
    assert!(matches!(error, RegistryError::ReadOnly { .. }));
    assert!(error.to_string().contains("write the endpoint into the file"), "{error}");
}
