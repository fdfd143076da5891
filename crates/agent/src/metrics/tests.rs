//! Threads count, the sum is right, and the text is what a scraper reads.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use super::*;

const NAMES: &[&str] = &["timeout", "refused"];

/// The samples of a text in the OpenMetrics format, each line checked for its form.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    let mut described = "";
    let body = text.strip_suffix("# EOF\n").expect("ends with # EOF");
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.splitn(3, ' ');
            let (kind, name) = (words.next().unwrap(), words.next().unwrap());
            assert!(["HELP", "TYPE", "UNIT"].contains(&kind), "{line}");
            assert!(kind == "HELP" || described == name, "{line} is not below its HELP");
            described = name;
            continue;
        }
        let (key, value) = line.rsplit_once(' ').unwrap();
        let name = key.split('{').next().unwrap();
        assert!(name.starts_with(described), "{line} is not below its TYPE");
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{line}");
        if let Some(labels) = key.strip_prefix(name).filter(|labels| !labels.is_empty()) {
            assert!(labels.starts_with('{') && labels.ends_with("\"}"), "{line}");
        }
        let is_new = samples.insert(key.to_owned(), value.parse().unwrap()).is_none();
        assert!(is_new, "{key} stands there twice");
    }
    samples
}

/// The value of one upstream sample under the labels that the tests use.
fn upstream(samples: &BTreeMap<String, f64>, name: &str, label: &str) -> f64 {
    const LABELS: &str = "service=\"a.B\",endpoint=\"1.2.3.4:5\"";
    // The label of a bucket comes first, the one of an outcome last.
    let labels = match label {
        "" => LABELS.to_owned(),
        "outcome" => format!("{LABELS},outcome=\"ok\""),
        "failed" => format!("{LABELS},outcome=\"failed\""),
        le if le.starts_with("le") => format!("{le},{LABELS},outcome=\"ok\""),
        code => format!("{LABELS},{code}"),
    };
    samples[&format!("dubmesh_upstream_{name}{{{labels}}}")]
}

#[test]
fn counts_of_all_threads_add_up() {
    const N_CALLS: u32 = 10_000;
    let hub = Hub::new(NAMES);
    let threads: Vec<_> = (0..4_u8)
        .map(|n| {
            let stats = hub.upstream("a.B", "1.2.3.4:5");
            thread::spawn(move || {
                for _ in 0..N_CALLS {
                    stats.started();
                    stats.finished(Duration::from_millis(1 + u64::from(n)), (n == 0).then_some(1));
                }
                stats.started();
                stats
            })
        })
        .collect();
    // Reading meanwhile neither hurts nor goes backwards.
    let mut before = 0.0;
    while threads.iter().any(|thread| !thread.is_finished()) {
        let samples = samples(&hub.render(&[], &[]));
        let now = upstream(&samples, "calls_total", "code=\"ok\"");
        assert!(before <= now);
        before = now;
    }
    let writers: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let with_writers = samples(&hub.render(&[], &[]));
    drop(writers);
    let without = samples(&hub.render(&[], &[]));
    assert_eq!(upstream(&with_writers, "in_flight", ""), 4.0);
    assert_eq!(upstream(&without, "in_flight", ""), 0.0);
    for samples in [with_writers, without] {
        assert_eq!(upstream(&samples, "calls_total", "code=\"ok\""), 30_000.0);
        assert_eq!(upstream(&samples, "calls_total", "code=\"refused\""), 10_000.0);
        assert!(!samples.keys().any(|key| key.contains("timeout")));
        // The failures took 1 ms each.
        assert_eq!(upstream(&samples, "latency_seconds_count", "outcome"), 30_000.0);
        assert_eq!(upstream(&samples, "latency_seconds_sum", "outcome"), 90.0);
        assert_eq!(upstream(&samples, "latency_seconds_count", "failed"), 10_000.0);
        assert_eq!(upstream(&samples, "latency_seconds_sum", "failed"), 10.0);
        let at_most =
            |le: &str| upstream(&samples, "latency_seconds_bucket", &format!("le=\"{le}\""));
        assert_eq!((at_most("0.001"), at_most("0.002")), (0.0, 10_000.0));
        assert_eq!((at_most("0.003"), at_most("+Inf")), (20_000.0, 30_000.0));
    }
}

#[test]
fn everything_is_rendered() {
    let hub = Hub::new(NAMES);
    let (ingress, export) = (hub.ingress("127.0.0.1:1"), hub.export("g/a.B:1"));
    ingress.started();
    export.started();
    export.finished(Duration::from_secs(100), Some(0));
    let connections = hub.connections("127.0.0.1:1");
    let loads = ::wire::Loads::new(std::num::NonZeroUsize::MIN);
    hub.show_loads(loads.clone());
    let assigned = loads.assign();
    let registry = hub.registry("main");
    registry.set_connected(true);
    let last_change = Some(std::time::SystemTime::now());
    registry.set_activity(&::registry::RegistryActivity {
        subscriptions: 2,
        changes: 1,
        last_change,
        unused: 3,
        refused: 5,
        left_out: 7,
    });
    registry.registered();
    hub.lag_meter(1).note(std::time::Instant::now(), Duration::from_millis(70));
    // Two registries that both list a service.
    let of_a_registry = |n_waiting| super::ServiceFigures {
        service: "a.B".to_owned(),
        n_ready: 2,
        n_not_ready: 1,
        n_waiting,
    };
    let of_file = |file: &str, expires_s| CertificateExpiry { file: file.to_owned(), expires_s };
    let certificates = [of_file("/b.pem", 1_640_995_200), of_file("/a.pem", -1)];
    let samples = samples(&hub.render(&[of_a_registry(0), of_a_registry(7)], &certificates));
    for (key, value) in [
        ("dubmesh_ingress_calls_total{listener=\"127.0.0.1:1\",code=\"ok\"}", 0.0),
        ("dubmesh_ingress_in_flight{listener=\"127.0.0.1:1\"}", 1.0),
        ("dubmesh_export_calls_total{service=\"g/a.B:1\",code=\"timeout\"}", 1.0),
        (
            "dubmesh_export_latency_seconds_bucket{le=\"60.0\",service=\"g/a.B:1\",outcome=\"failed\"}",
            0.0,
        ),
        (
            "dubmesh_export_latency_seconds_bucket{le=\"+Inf\",service=\"g/a.B:1\",outcome=\"failed\"}",
            1.0,
        ),
        ("dubmesh_export_latency_seconds_count{service=\"g/a.B:1\",outcome=\"ok\"}", 0.0),
        ("dubmesh_connections_open{listener=\"127.0.0.1:1\"}", 0.0),
        ("dubmesh_connections_accepted_total{listener=\"127.0.0.1:1\"}", 0.0),
        ("dubmesh_connections_refused_total{listener=\"127.0.0.1:1\",reason=\"full\"}", 0.0),
        ("dubmesh_connections_refused_total{listener=\"127.0.0.1:1\",reason=\"no_files\"}", 0.0),
        ("dubmesh_worker_connections{worker=\"0\"}", 1.0),
        ("dubmesh_worker_lag_seconds{worker=\"1\"}", 0.07),
        ("dubmesh_worker_usual_lag_seconds{worker=\"1\"}", 0.07),
        ("dubmesh_endpoints{service=\"a.B\",state=\"ready\"}", 4.0),
        ("dubmesh_endpoints{service=\"a.B\",state=\"not_ready\"}", 2.0),
        ("dubmesh_upstream_waiting{service=\"a.B\"}", 7.0),
        ("dubmesh_registry_connected{registry=\"main\"}", 1.0),
        ("dubmesh_registry_subscriptions{registry=\"main\"}", 2.0),
        ("dubmesh_registry_registrations{registry=\"main\"}", 1.0),
        ("dubmesh_registry_changes_total{registry=\"main\"}", 1.0),
        ("dubmesh_registry_refused_entries_total{registry=\"main\"}", 5.0),
        ("dubmesh_registry_left_out_entries{registry=\"main\"}", 7.0),
        ("dubmesh_certificate_expiry_timestamp_seconds{file=\"/b.pem\"}", 1_640_995_200.0),
        ("dubmesh_certificate_expiry_timestamp_seconds{file=\"/a.pem\"}", -1.0),
        ("dubmesh_build_info{version=\"0.1.0\"}", 1.0),
    ] {
        assert_eq!(samples.get(key), Some(&value), "{key} in {samples:#?}");
    }
    // Both are after the day this was written.
    let last_change = "dubmesh_registry_last_change_timestamp_seconds{registry=\"main\"}";
    assert!(samples[last_change] > 1.7e9);
    assert_eq!(samples["dubmesh_registry_unused_entries{registry=\"main\"}"], 3.0);
    assert!(samples["process_start_time_seconds"] > 1.7e9);
    assert!(samples["process_resident_memory_bytes"] > 1e6);
    assert!(samples["process_open_fds"] < samples["process_max_fds"]);
    assert!(samples.contains_key("process_cpu_seconds_total"));
    drop(assigned);
    assert!(hub.render(&[], &[]).contains("dubmesh_worker_connections{worker=\"0\"} 0\n"));
    assert_eq!(connections.n_open(), 0);
}

#[test]
fn labels_are_escaped() {
    let hub = Hub::new(NAMES);
    let _stats = hub.export("a\"b\\c\nd");
    assert!(hub.render(&[], &[]).contains(r#"{service="a\"b\\c\nd"}"#));
}

#[test]
fn a_hub_without_counts_renders() {
    let samples = samples(&Hub::new(NAMES).render(&[], &[]));
    assert!(samples.keys().all(|name| name.contains("process_") || name.contains("build_info")));
}

#[test]
fn names_that_callers_make_up_are_bounded() {
    let hub = Hub::new(NAMES);
    let count = |service: &str, is_known| {
        let stats = hub.without_endpoint(service, is_known);
        stats.started();
        stats.finished(Duration::ZERO, Some(1));
    };
    for n in 0..10_000 {
        count(&format!("made.Up{n}"), false);
    }
    // Whoever came first, or is in a registry, keeps his name.
    count("made.Up0", false);
    count("a.Known", true);
    let samples = samples(&hub.render(&[], &[]));
    let of = |service: &str| {
        samples[&format!(
            "dubmesh_upstream_calls_total{{service=\"{service}\",endpoint=\"none\",code=\"refused\"}}"
        )]
    };
    assert_eq!((of("made.Up0"), of("a.Known"), of("other")), (2.0, 1.0, 9_936.0));
    // The pages say the same, without what was sent to an endpoint.
    hub.upstream("a.Known", "10.0.0.7:1").finished(Duration::ZERO, Some(1));
    let failed = hub.failed_without_endpoint();
    let of = |service: &str| failed[service].iter().map(|(name, n)| (&**name, *n)).collect();
    let (up, known): (Vec<_>, Vec<_>) = (of("made.Up0"), of("a.Known"));
    assert_eq!((up, known), (vec![("refused", 2)], vec![("refused", 1)]));
    let is_counter = |key: &&String| key.starts_with("dubmesh_upstream_calls_total");
    let n_series = samples.keys().filter(is_counter).count();
    // Each with `ok`, which is always there.
    assert_eq!(n_series, 2 * (64 + 2));
}
