//! What `/config` shows of an app that speaks HTTP.

use dubbo_proto::Status as DubboStatus;
use hessian::JavaType;
use hessian::transcode::{DateStyle, EnumStyle, JsonOptions};
use http::{HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::ms;
use super::registries::without_user;
use crate::config::HttpAppConfig;
use crate::config::http_app::method::{BodyShape, ErrorRule, MappedMethod, StatusTable, Statuses};

pub(super) fn http_app(config: &HttpAppConfig) -> Value {
    let HttpAppConfig {
        origin,
        timeout,
        max_connections,
        idle_timeout,
        max_answer_len,
        health,
        methods,
        headers,
        errors,
        classes: _,
        json,
    } = config;
    let JsonOptions { class_name, dates, enums, big_numbers_as_text, .. } = json;
    json!({
        "protocol": "http",
        "address": without_user(&origin.address()),
        "timeout_ms": timeout.map(ms),
        "max_connections": max_connections,
        "idle_timeout_ms": ms(*idle_timeout),
        "max_answer_bytes": max_answer_len,
        "health_interval_ms": ms(health.interval),
        "health_timeout_ms": ms(health.timeout),
        "health_failures": health.n_failures,
        "headers": names(headers),
        "errors": errors_shown(errors),
        "dates": match dates {
            DateStyle::Iso => "iso",
            DateStyle::Millis => "millis",
        },
        "enums": match enums {
            EnumStyle::Name => "name",
            EnumStyle::Object => "object",
        },
        "big_numbers": if *big_numbers_as_text { "text" } else { "number" },
        "class_names": class_name,
        "method": methods.all().into_iter().map(method).collect::<Vec<_>>(),
    })
}

/// Its path is left out: it may hold a key. Headers and errors are those of the export, too.
fn method(method: &MappedMethod) -> Value {
    let MappedMethod {
        name,
        types,
        descriptor: _,
        names: params,
        returns,
        http: _,
        path: _,
        body,
        timeout,
        headers,
        errors,
    } = method;
    let types = types.as_ref().map(|it| it.iter().map(JavaType::to_string).collect::<Vec<_>>());
    json!({
        "name": name,
        "types": types,
        "params": params,
        "returns": returns.as_ref().map(JavaType::to_string),
        "body": match body {
            BodyShape::None => "none",
            BodyShape::Array => "array",
            BodyShape::Single => "single",
            BodyShape::Object => "object",
        },
        "timeout_ms": timeout.map(ms),
        "headers": names(headers),
        "errors": errors_shown(errors),
    })
}

fn names(headers: &[(HeaderName, HeaderValue)]) -> Vec<&str> {
    headers.iter().map(|(name, _)| name.as_str()).collect()
}

fn errors_shown(table: &StatusTable) -> Value {
    let StatusTable { rules } = table;
    let rules = rules.iter().map(|(statuses, rule)| {
        let statuses = match statuses {
            Statuses::One(status) => status.to_string(),
            Statuses::Class(class) => format!("{class}xx"),
            Statuses::All => "default".to_owned(),
        };
        let becomes = match rule {
            ErrorRule::Null => "null",
            ErrorRule::Exception(class) => class,
            ErrorRule::Status(DubboStatus::ServerThreadpoolExhausted) => "busy",
            ErrorRule::Status(DubboStatus::ServerTimeout) => "timeout",
            ErrorRule::Status(DubboStatus::BadRequest) => "bad-request",
            ErrorRule::Status(_) => "failed",
        };
        (statuses, Value::from(becomes))
    });
    Value::Object(rules.collect())
}
