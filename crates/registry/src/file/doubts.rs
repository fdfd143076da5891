//! Parameters of an endpoint that somebody has written by hand, and that are not what they have to
//! be. The endpoint is used nevertheless, as one that another program has registered: with Dubbo's
//! default. Pure.

use dubbo_proto::{DEFAULT_PAYLOAD_LIMIT, Serialization};
use parameters::Parameters;

use crate::endpoint::DEFAULT_WEIGHT;

/// What is wrong with the parameters, and what counts instead.
pub(super) fn doubts(params: &Parameters) -> Vec<String> {
    let value = |name: &str| {
        let value = params.get(name).filter(|value| !value.is_empty());
        value.or_else(|| params.get(&format!("default.{name}"))).map(str::trim)
    };
    let mut found = Vec::new();
    if let Some(text) = value("weight") {
        match text.parse::<i64>() {
            Ok(0..) => {}
            Ok(_) => found.push(format!("weight={text} is below 0; it gets no calls, as with 0")),
            Err(_) => {
                found.push(format!("weight={text} is no whole number; {DEFAULT_WEIGHT} counts"));
            }
        }
    }
    for (name, instead) in [
        ("timeout", "that of the configuration counts"),
        ("warmup", "600000 counts"),
        ("timestamp", "it counts as one that runs since long ago"),
        ("threads", "it counts as unknown"),
    ] {
        if let Some(text) = value(name)
            && !text.parse::<u64>().is_ok_and(|number| 0 < number || name == "warmup")
        {
            found.push(format!("{name}={text} is no whole number above 0; {instead}"));
        }
    }
    if let Some(text) = value("payload").filter(|text| text.parse::<i64>().is_err()) {
        found.push(format!("payload={text} is no whole number; {DEFAULT_PAYLOAD_LIMIT} counts"));
    }
    for name in ["prefer.serialization", "serialization"] {
        let names = value(name).unwrap_or_default().split(',').map(str::trim);
        for unknown in names.filter(|text| !text.is_empty() && !is_known(text)) {
            let known = Serialization::NAMED.map(Serialization::name).join(", ");
            found.push(format!(
                "{name}={unknown} is not written here, only {known}; the next that it names is \
                 used, or hessian2"
            ));
        }
    }
    found
}

fn is_known(name: &str) -> bool {
    Serialization::from_name(name).is_some_and(Serialization::is_supported)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_do_not_count_are_told() {
        for (name, value, told) in [
            ("weight", "abc", "weight=abc is no whole number; 100 counts"),
            ("weight", "-1", "weight=-1 is below 0"),
            ("default.weight", "1.5", "weight=1.5 is no whole number"),
            ("timeout", "-5", "timeout=-5 is no whole number above 0; that of the configuration"),
            ("timeout", "0", "timeout=0 is no"),
            ("warmup", "soon", "600000 counts"),
            ("payload", "64M", "8388608 counts"),
            ("timestamp", "now", "runs since long ago"),
            ("threads", "0", "counts as unknown"),
            ("serialization", "kryo", "serialization=kryo is not written here, only hessian2"),
            ("serialization", "hesian2", "serialization=hesian2"),
            ("prefer.serialization", "fury,hessian2", "prefer.serialization=fury"),
        ] {
            let found = doubts(&[(name, value)].into());
            assert!(matches!(&found[..], [one] if one.contains(told)), "{name}={value}: {found:?}");
        }
        let good = [
            ("weight", "0"),
            ("timeout", "3000"),
            ("warmup", "0"),
            ("timestamp", "1700000000000"),
            ("threads", "200"),
            ("serialization", "fastjson"),
            ("prefer.serialization", "fastjson2, hessian2"),
            ("token", "kryo"),
        ];
        assert!(doubts(&good.into()).is_empty());
        assert_eq!(doubts(&[("weight", "x"), ("timeout", "y")].into()).len(), 2);
    }
}
