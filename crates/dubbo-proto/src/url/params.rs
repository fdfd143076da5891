//! What a provider's URL says, with Dubbo's defaults for what it leaves out.
//!
//! A value that cannot be read counts as left out: a registry holds what other programs wrote, and
//! one of them with a strange timeout should not vanish from the list.
//! Source: apache/dubbo, `CommonConstants`, `Constants` and `AbstractLoadBalance`.

use std::str::FromStr;
use std::time::Duration;

use super::DubboUrl;
use crate::{DEFAULT_PAYLOAD_LIMIT, MAX_PAYLOAD_LIMIT, ProtoError, Serialization, ServiceKey};

/// Dubbo's weight of a provider that says nothing.
pub(crate) const DEFAULT_WEIGHT: u32 = 100;
const DEFAULT_WARMUP: Duration = Duration::from_secs(600);
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1);

impl DubboUrl {
    /// A parameter, or its `default.` form, which old consumers and providers write.
    #[must_use]
    pub fn param(&self, name: &str) -> Option<&str> {
        let value = self.params.get(name).filter(|value| !value.is_empty());
        value.or_else(|| self.params.get(&format!("default.{name}")))
    }

    /// A parameter of one method, `{method}.{name}`, or else of the whole service.
    #[must_use]
    pub fn method_param(&self, method: &str, name: &str) -> Option<&str> {
        let value = self.params.get(&format!("{method}.{name}")).filter(|value| !value.is_empty());
        value.or_else(|| self.param(name))
    }

    /// The interface; the path where no parameter names it.
    #[must_use]
    pub fn interface(&self) -> &str {
        self.param("interface").unwrap_or(&self.path)
    }

    /// The service's version; empty is none.
    #[must_use]
    pub fn version(&self) -> &str {
        self.param("version").filter(|version| *version != crate::service::NO_VERSION).unwrap_or("")
    }

    /// The service's group; empty is none.
    #[must_use]
    pub fn group(&self) -> &str {
        self.param("group").unwrap_or("")
    }

    /// The key of the service that is offered here.
    ///
    /// # Errors
    /// [`ProtoError::Name`] when the interface, the version or the group is invalid.
    pub fn service_key(&self) -> Result<ServiceKey, ProtoError> {
        ServiceKey::new(self.interface(), self.version(), self.group())
    }

    /// The methods that the provider lists; none when it lists none.
    pub fn methods(&self) -> impl Iterator<Item = &str> {
        split_list(self.param("methods").unwrap_or(""))
    }

    /// The configured weight, before warm-up. 0 means that nothing should be sent.
    #[must_use]
    pub fn weight(&self) -> u32 {
        match self.number::<i64>("weight") {
            Some(weight) => u32::try_from(weight.max(0)).unwrap_or(u32::MAX),
            None => DEFAULT_WEIGHT,
        }
    }

    /// For how long after its start a provider gets less than its weight.
    #[must_use]
    pub fn warmup(&self) -> Duration {
        self.number("warmup").map_or(DEFAULT_WARMUP, Duration::from_millis)
    }

    /// When the provider started, in milliseconds since 1970.
    #[must_use]
    pub fn timestamp_ms(&self) -> Option<u64> {
        self.number("timestamp").filter(|ms| *ms > 0)
    }

    /// The weight at this time: it grows evenly over the warm-up, from 1 up to the whole.
    #[must_use]
    pub fn weight_at(&self, now_ms: u64) -> u32 {
        let weight = self.weight();
        let Some(start_ms) = self.timestamp_ms().filter(|_| weight > 0) else {
            return weight;
        };
        let warmup_ms = self.warmup().as_millis();
        let uptime_ms = u128::from(now_ms.saturating_sub(start_ms));
        if warmup_ms <= uptime_ms {
            return weight;
        }
        let share = uptime_ms * u128::from(weight) / warmup_ms;
        u32::try_from(share).unwrap_or(weight).clamp(1, weight)
    }

    /// How long a call of this method may take.
    #[must_use]
    pub fn timeout(&self, method: &str) -> Duration {
        let ms = self.method_param(method, "timeout").and_then(|ms| ms.parse().ok());
        ms.filter(|ms| *ms > 0).map_or(DEFAULT_TIMEOUT, Duration::from_millis)
    }

    /// How many calls the provider works on at once, if it says so.
    #[must_use]
    pub fn threads(&self) -> Option<u32> {
        self.number("threads").filter(|threads| *threads > 0)
    }

    /// The longest body that the provider takes. As in Dubbo, 0 and less stand for no limit but
    /// that of a frame.
    #[must_use]
    pub fn payload(&self) -> usize {
        match self.number::<i64>("payload") {
            None => DEFAULT_PAYLOAD_LIMIT,
            Some(..=0) => MAX_PAYLOAD_LIMIT,
            Some(len) => {
                usize::try_from(len).map_or(MAX_PAYLOAD_LIMIT, |len| len.min(MAX_PAYLOAD_LIMIT))
            }
        }
    }

    /// The provider's serializations, the one to use in front: those that it prefers, then the
    /// configured one, then hessian2, which every provider reads unless it was told otherwise.
    /// Unknown names are left out.
    ///
    /// If it names hessian2 among those that it prefers, fastjson2 comes behind it, although Dubbo
    /// 3.2 puts it in front: fastjson2 leaves out fields that are 0 or false, and tells enums in
    /// fields by their numbers, so that replies in hessian2 say more to readers without the
    /// classes.
    ///
    /// The name `fastjson` does not tell its framing, but since Dubbo 3.2 only the extension with
    /// sized texts has it.
    #[must_use]
    pub fn serializations(&self) -> Vec<Serialization> {
        let preferred_list = self.param("prefer.serialization").unwrap_or("");
        let usual = Serialization::DEFAULT.name();
        let names = split_list(preferred_list).chain(self.param("serialization")).chain([usual]);
        let mut found = Vec::new();
        let is_release_from = |major, minor| self.is_release_from(major, minor);
        for serialization in
            names.filter_map(|name| Serialization::from_registered(name, is_release_from))
        {
            if !found.contains(&serialization) {
                found.push(serialization);
            }
        }
        let is_preferred = |name| split_list(preferred_list).any(|preferred| preferred == name);
        let place = |found: &[Serialization], wanted| found.iter().position(|it| *it == wanted);
        for less in Serialization::WRITTEN {
            if let Some(more) = less.shows_less_than()
                && is_preferred(more.name())
                && let (Some(less), Some(more)) = (place(&found, less), place(&found, more))
                && less < more
                && let Some(front) = found.get_mut(less..=more)
            {
                front.rotate_left(1);
            }
        }
        found
    }

    /// The version of Dubbo that the provider runs, such as `3.3.0`.
    #[must_use]
    pub fn release(&self) -> Option<&str> {
        self.param("release")
    }

    /// Whether the provider runs Dubbo `major.minor` or later, as far as it tells.
    fn is_release_from(&self, major: u32, minor: u32) -> bool {
        let mut numbers = self.release().unwrap_or("").split('.').map_while(|n| n.parse().ok());
        (numbers.next(), numbers.next()) >= (Some(major), Some(minor))
    }

    /// `providers`, `consumers`, `routers` or `configurators`.
    #[must_use]
    pub fn category(&self) -> &str {
        self.param("category").unwrap_or("providers")
    }

    /// Whether calls may be sent here: neither `disabled=true` nor `enabled=false`.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.flag("disabled") != Some(true) && self.flag("enabled") != Some(false)
    }

    /// A parameter that is `true` or `false`. Case does not matter, as in Java's
    /// `Boolean.parseBoolean`.
    #[must_use]
    pub fn flag(&self, name: &str) -> Option<bool> {
        let value = self.param(name)?;
        let is = |text: &str| value.eq_ignore_ascii_case(text);
        if is("true") { Some(true) } else { is("false").then_some(false) }
    }

    fn number<N: FromStr>(&self, name: &str) -> Option<N> {
        self.param(name).and_then(|text| text.trim().parse().ok())
    }
}

fn split_list(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|part| !part.is_empty())
}
