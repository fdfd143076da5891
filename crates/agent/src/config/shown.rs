//! The configuration as operators may see it: with the keys of the file, and without secrets.
//!
//! What is shown is picked key by key, so that a secret is left out unless somebody picks it. The
//! types are taken apart, so that a new key cannot be forgotten.
//!
//! Left out are: passwords, the values of headers (they hold tokens), what comes before an `@` in
//! a URL, the paths of an HTTP app's methods (they may hold keys), and what is in files. The
//! classes of an HTTP app are left out, too: they are long, and change nothing by themselves.

mod http_app;
mod methods;
mod registries;

use std::path::PathBuf;
use std::time::Duration;

use flow::rules::Subset;
use serde_json::{Value, json};
use wire::{Files, ListenAddress, ListenOptions, SocketOptions};

use self::http_app::http_app;
use super::{
    AdminConfig, Advertise, AppCapacity, AppConfig, Caller, ClusterPolicy, ClusterRules, Config,
    ConnectionLimit, Cors, DubboIngressConfig, DubboLimits, DubboListenerConfig, ExportConfig,
    HashKey, HashPolicy, HttpIngressConfig, LinkListenerConfig, ListenerTls, LogConfig, LogFormat,
    OtherService, ProcessConfig, RoutingPolicy, RuleFile, Split, SplitTarget, TlsEndpoints,
    TlsFiles, UpstreamTls, access_log,
};

impl Config {
    /// The configuration as JSON. `level` is what is logged just now, if that is known.
    pub fn shown(&self, level: Option<&str>) -> Value {
        let Self {
            process,
            log,
            access_log,
            admin,
            registries: all_registries,
            http,
            dubbo,
            link,
            dubbo_exports,
            exports,
            clusters,
            access_log_place: _,
            warnings,
        } = self;
        let http = http.iter().map(|it| self.http(it));
        let ingresses: Vec<Value> = http.chain(dubbo.iter().map(|it| self.dubbo(it))).collect();
        let exports: Vec<Value> = exports.iter().map(|it| self.export(it)).collect();
        let ClusterRules { default, rules } = clusters;
        let rule = |rule: &super::ClusterRule| {
            let mut shown = policy(&rule.policy);
            shown["interface"] = rule.interface.clone().into();
            shown
        };
        json!({
            "agent": process_shown(process),
            "log": log_shown(log, level),
            "access_log": access_log::shown(access_log),
            "admin": admin.as_ref().map(admin_shown),
            "registry": all_registries.iter().map(registries::registry).collect::<Vec<_>>(),
            "ingress": ingresses,
            "link": link.as_ref().map(link_shown),
            "dubbo": dubbo_exports.as_ref().map(dubbo_exports_shown),
            "export": exports,
            "defaults": policy(default),
            "cluster": rules.iter().map(rule).collect::<Vec<_>>(),
            "warnings": warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })
    }

    fn registry_name(&self, index: usize) -> Option<&str> {
        self.registries.get(index).map(|entry| entry.name.as_str())
    }

    fn http(&self, config: &HttpIngressConfig) -> Value {
        let HttpIngressConfig {
            listen,
            socket,
            registry,
            max_connections,
            max_body_len,
            max_head_len,
            head_timeout,
            body_timeout,
            idle_timeout,
            write_timeout,
            heartbeat,
            hosts,
            cors,
            tls,
        } = config;
        json!({
            "protocol": "http",
            "listen": listen.to_string(),
            "socket_mode": socket_mode(listen),
            "registry": self.registry_name(*registry),
            "max_connections": max_connections,
            "max_body_bytes": max_body_len,
            "max_head_bytes": max_head_len,
            "head_timeout_ms": ms(*head_timeout),
            "body_timeout_ms": ms(*body_timeout),
            "idle_timeout_ms": ms(*idle_timeout),
            "write_timeout_ms": ms(*write_timeout),
            "heartbeat_ms": ms(*heartbeat),
            "hosts": hosts,
            "cors": cors.as_ref().map(cors_shown),
            "socket": listening(socket),
            "tls": tls.as_ref().map(listener_tls),
        })
    }

    fn dubbo(&self, config: &DubboIngressConfig) -> Value {
        let DubboIngressConfig { listen, socket, registry, default_service, limits, tls } = config;
        let mut shown = dubbo_limits(*limits);
        shown["protocol"] = "dubbo".into();
        shown["socket"] = listening(socket);
        shown["tls"] = tls.as_ref().map(listener_tls).into();
        shown["listen"] = listen.to_string().into();
        shown["socket_mode"] = socket_mode(listen).into();
        shown["registry"] = self.registry_name(*registry).into();
        shown["default_service"] = default_service.as_ref().map(ToString::to_string).into();
        shown
    }

    fn export(&self, config: &ExportConfig) -> Value {
        let ExportConfig { service, app, registry, weight, capacity } = config;
        let app = match app {
            AppConfig::Dubbo { host, port, tls, serialization } => json!({
                "protocol": "dubbo",
                "tls": tls.as_ref().map(|tls| tls_files(&tls.files)),
                "address": wire::address::join(host, *port),
                "serialization": serialization.name(),
            }),
            AppConfig::Http(app) => http_app(app),
        };
        json!({
            "service": service.to_string(),
            "app": app,
            "registry": self.registry_name(*registry),
            "weight": weight,
            "capacity": app_capacity(*capacity),
        })
    }
}

fn app_capacity(capacity: AppCapacity) -> Value {
    match capacity {
        AppCapacity::Known(capacity) => json!(capacity),
        AppCapacity::Adaptive => json!("auto"),
        AppCapacity::Registered => Value::Null,
    }
}

fn process_shown(config: &ProcessConfig) -> Value {
    let ProcessConfig { name, workers, drain_timeout, memory_len, reserved_files, stage_sample } =
        config;
    json!({
        "name": name,
        "workers": workers,
        "drain_ms": ms(*drain_timeout),
        "memory_bytes": memory_len,
        "reserved_files": reserved_files.unwrap_or_else(|| Files::of_process().reserved()),
        "stage_sample": stage_sample,
    })
}

fn log_shown(config: &LogConfig, level: Option<&str>) -> Value {
    let LogConfig { filter, format } = config;
    let format = match format {
        LogFormat::Text => "text",
        LogFormat::Json => "json",
    };
    json!({ "level": level.unwrap_or(filter), "format": format })
}

/// The permissions of a socket's file; TCP has none.
fn socket_mode(listen: &ListenAddress) -> Option<String> {
    match listen {
        ListenAddress::Tcp(_) => None,
        ListenAddress::Unix { mode, .. } => Some(format!("{mode:04o}")),
    }
}

fn admin_shown(config: &AdminConfig) -> Value {
    let AdminConfig { listen, hosts, tls, shows_arguments } = config;
    let tls = tls.as_ref().map(listener_tls);
    let mode = socket_mode(listen);
    json!({
        "listen": listen.to_string(),
        "socket_mode": mode,
        "hosts": hosts,
        "tls": tls,
        "tap_arguments": shows_arguments,
    })
}

/// Which files hold certificates and keys; never what is in them.
fn tls_files(files: &TlsFiles) -> Value {
    let TlsFiles { ca_file, cert_file, key_file, server_name } = files;
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    json!({
        "ca_file": path(ca_file),
        "cert_file": path(cert_file),
        "key_file": path(key_file),
        "server_name": server_name,
    })
}

fn listener_tls(config: &ListenerTls) -> Value {
    let ListenerTls { files, requires_clients, secured } = config;
    let mut shown = tls_files(files);
    shown["clients"] = match (&files.ca_file, requires_clients) {
        (None, _) => Value::Null,
        (Some(_), true) => "require".into(),
        (Some(_), false) => "allow".into(),
    };
    shown["handshake_timeout_ms"] = ms(secured.timeout).into();
    shown
}

fn upstream_tls(config: &UpstreamTls) -> Value {
    let UpstreamTls { endpoints, link, dubbo: _ } = config;
    let mut shown = tls_files(&link.files);
    shown["endpoints"] = match endpoints {
        TlsEndpoints::Offering => "offering".into(),
        TlsEndpoints::All => "all".into(),
    };
    shown
}

fn dubbo_limits(config: DubboLimits) -> Value {
    let DubboLimits { max_connections, max_body_len, body_timeout, write_timeout, heartbeat } =
        config;
    json!({
        "max_connections": max_connections,
        "max_body_bytes": max_body_len,
        "body_timeout_ms": ms(body_timeout),
        "write_timeout_ms": ms(write_timeout),
        "heartbeat_ms": ms(heartbeat),
    })
}

fn dubbo_exports_shown(config: &DubboListenerConfig) -> Value {
    let DubboListenerConfig { listen, socket, advertise, application, limits, tls } = config;
    let mut shown = dubbo_limits(*limits);
    shown["socket"] = listening(socket);
    shown["listen"] = listen.to_string().into();
    shown["socket_mode"] = socket_mode(listen).into();
    shown["advertise"] = advertised(advertise).into();
    shown["application"] = application.clone().into();
    shown["tls"] = tls.as_ref().map(listener_tls).into();
    shown
}

fn link_shown(config: &LinkListenerConfig) -> Value {
    let LinkListenerConfig {
        listen,
        socket,
        advertise,
        max_connections,
        window,
        max_body_len,
        body_timeout,
        write_timeout,
        heartbeat,
        tls,
    } = config;
    json!({
        "listen": listen.to_string(),
        "socket_mode": socket_mode(listen),
        "tls": tls.as_ref().map(listener_tls),
        "socket": listening(socket),
        "advertise": advertised(advertise),
        "max_connections": max_connections,
        "window": window,
        "max_body_bytes": max_body_len,
        "body_timeout_ms": ms(*body_timeout),
        "write_timeout_ms": ms(*write_timeout),
        "heartbeat_ms": ms(*heartbeat),
    })
}

fn advertised(config: &Advertise) -> Option<String> {
    let Advertise { host, port } = config;
    match (host, port) {
        (Some(host), Some(port)) => Some(wire::address::join(host, *port)),
        (host, _) => host.clone(),
    }
}

fn cors_shown(config: &Cors) -> Value {
    let Cors { is_for_all, origins, headers, max_age, credentials } = config;
    json!({
        "origins": if *is_for_all { vec!["*".to_owned()] } else { origins.clone() },
        "headers": headers,
        "max_age_s": max_age.as_secs(),
        "credentials": credentials,
    })
}

fn policy(config: &ClusterPolicy) -> Value {
    let ClusterPolicy {
        balance,
        timeout,
        timeout_section: _,
        max_timeout,
        max_timeout_section: _,
        connect_timeout,
        heartbeat,
        serialization,
        max_attempts,
        max_in_flight,
        endpoint_capacity,
        max_reply_len,
        long_len,
        connections,
        tells_time_left,
        priority,
        socket,
        hold,
        outlier,
        routing,
        methods,
        tls,
    } = config;
    let mut shown = json!({
        "balance": balance.name(),
        "timeout_ms": timeout.map(ms),
        "max_timeout_ms": ms(*max_timeout),
        "connect_timeout_ms": ms(*connect_timeout),
        "heartbeat_ms": heartbeat.map(ms),
        "serialization": serialization.name(),
        "max_attempts": max_attempts,
        "max_in_flight": max_in_flight,
        "endpoint_capacity": endpoint_capacity.map_or(json!(0), app_capacity),
        "max_reply_bytes": max_reply_len,
        "long_bytes": if *long_len == usize::MAX { 0 } else { *long_len },
        "connections": match connections {
            ConnectionLimit::Fixed(n) => json!(n),
            ConnectionLimit::Auto { .. } => json!("auto"),
        },
        "tell_time_left": tells_time_left,
        "priority": priority.name(),
        "hold_ms": ms(hold.time),
        "hold_percent": hold.percent,
        "eject_failures": outlier.failures,
        "eject_error_percent": outlier.error_percent,
        "eject_min_calls": outlier.min_calls,
        "eject_window_ms": ms(outlier.window),
        "eject_silence_ms": ms(outlier.silence),
        "eject_ms": ms(outlier.time),
        "eject_max_ms": ms(outlier.max_time),
        "eject_max_percent": outlier.max_percent,
        "eject_exceptions": outlier.exceptions,
        "tls": tls.as_ref().map(|tls| upstream_tls(tls)),
        "socket": connecting(socket),
        "method": methods.iter().map(|it| methods::method(it)).collect::<Vec<_>>(),
    });
    routing_shown(routing, &mut shown);
    shown
}

fn connecting(options: &SocketOptions) -> Value {
    let SocketOptions {
        send_buffer_len,
        receive_buffer_len,
        max_unsent_len,
        nodelay,
        keepalive,
        user_timeout,
    } = options;
    json!({
        "send_buffer_bytes": send_buffer_len.unwrap_or(0),
        "receive_buffer_bytes": receive_buffer_len.unwrap_or(0),
        "max_unsent_bytes": max_unsent_len,
        "nodelay": nodelay,
        "keepalive_ms": keepalive.map_or(0, ms),
        "user_timeout_ms": user_timeout.map_or(0, ms),
    })
}

fn listening(options: &ListenOptions) -> Value {
    let mut shown = connecting(&options.socket);
    shown["backlog"] = options.backlog.into();
    shown
}

fn routing_shown(config: &RoutingPolicy, shown: &mut Value) {
    fn paths<T>(files: &[RuleFile<T>]) -> Vec<&str> {
        files.iter().map(|file| &*file.path).collect()
    }
    let RoutingPolicy {
        tags,
        conditions,
        configurators,
        from_registry,
        caller,
        zone,
        hash,
        idempotent,
        retry_percent,
        splits,
    } = config;
    shown["tag_rule"] = tags.as_ref().map(|file| &*file.path).into();
    shown["condition_rules"] = paths(conditions).into();
    shown["configurators"] = paths(configurators).into();
    shown["registry_rules"] = (*from_registry).into();
    shown["zone"] = zone.clone().into();
    shown["idempotent"] = idempotent.clone().into();
    shown["split"] = splits.iter().map(split_shown).collect::<Vec<_>>().into();
    shown["retry_budget_percent"] = (*retry_percent).into();
    let HashPolicy { key, nodes } = hash;
    shown["hash_nodes"] = (*nodes).into();
    match key {
        HashKey::Arguments(indexes) => {
            let indexes: Vec<String> = indexes.iter().map(ToString::to_string).collect();
            shown["hash_arguments"] = indexes.join(",").into();
        }
        HashKey::Attachment(name) => shown["hash_attachment"] = name.clone().into(),
    }
    let Caller { host, params } = caller;
    let mut caller = json!(params);
    caller["host"] = host.clone().into();
    shown["caller"] = caller;
}

fn split_shown(split: &Split) -> Value {
    let Split { name, methods, when, percent, sticky, to } = split;
    let when = when.iter().map(|test| (test.part.to_string(), json!(test.pattern)));
    let mut shown = json!({
        "name": &**name,
        "methods": methods,
        "when": Value::Object(when.collect()),
        "percent": percent,
        "sticky": sticky.as_ref().map(ToString::to_string),
    });
    match to {
        SplitTarget::Tag { tag, force } => {
            shown["tag"] = tag.clone().into();
            shown["force"] = (*force).into();
        }
        SplitTarget::Endpoints(Subset { name: _, params, force }) => {
            shown["endpoints"] = json!(params);
            shown["force"] = (*force).into();
        }
        SplitTarget::Service(OtherService { version, group }) => {
            shown["version"] = version.clone().into();
            shown["group"] = group.clone().into();
        }
    }
    shown
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
