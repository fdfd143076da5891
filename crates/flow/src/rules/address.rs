//! Addresses in tag rules: `10.1.0.1:20880`, `10.1.0.1-9`, `10.1.*.*:20880`, `10.1.0.0/16`.
//!
//! The meaning is that of Dubbo's `NetUtils.matchIpExpression`. What cannot be read matches
//! nobody.

use std::net::{IpAddr, Ipv4Addr};

/// Whether an expression means the endpoint at `host:port`.
pub(super) fn is_match(expression: &str, host: &str, port: u16) -> bool {
    let Some(address) = parse(host) else {
        return is_name_match(expression.trim(), host, port);
    };
    if let Some((network, len)) = expression.split_once('/') {
        return is_in_network(network, len, address).unwrap_or(false);
    }
    match is_in_range(expression.trim(), address, port) {
        Some(true) => true,
        Some(false) => expression.strip_prefix("0.0.0.0:").is_some_and(|at| at == port.to_string()),
        // Dubbo gives up on an expression that it cannot read.
        None => false,
    }
}

/// A host's name is compared as it is written.
fn is_name_match(expression: &str, host: &str, port: u16) -> bool {
    if matches!(expression, "*" | "*.*.*.*") {
        return true;
    }
    match expression.rsplit_once(':') {
        None => expression == host,
        Some((name, at)) => at == port.to_string() && (name == host || name == "0.0.0.0"),
    }
}

/// As in Dubbo, addresses are numbers here: those of IPv4 are also among those of `::/96`. A
/// length below 0 is as good as 0.
fn is_in_network(network: &str, len: &str, address: IpAddr) -> Option<bool> {
    let len: i32 = len.parse().ok()?;
    let (network, n_bits) = number(parse(network)?);
    let n_free = n_bits.saturating_sub(u32::try_from(len).unwrap_or_default());
    let free = u128::MAX.checked_shr(u128::BITS - n_free).unwrap_or_default();
    let first = network & !free;
    Some((first..=first | free).contains(&number(address).0))
}

/// An address as a number, and how many bits such numbers have.
fn number(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)), u32::BITS),
        IpAddr::V6(address) => (u128::from(address), u128::BITS),
    }
}

/// `None` if the expression cannot be read for such an address.
fn is_in_range(expression: &str, address: IpAddr, port: u16) -> Option<bool> {
    if matches!(expression, "*" | "*.*.*.*") {
        return Some(true);
    }
    let is_v4 = address.is_ipv4();
    let (pattern, wanted_port) = host_and_port(expression, is_v4);
    if wanted_port.is_some_and(|wanted| wanted != port.to_string()) {
        return Some(false);
    }
    let separator = if is_v4 { '.' } else { ':' };
    let mut masks: Vec<&str> = pattern.split(separator).collect();
    while masks.last().is_some_and(|mask| mask.is_empty()) {
        masks.pop();
    }
    let is_expression = pattern.contains(['*', '-']);
    let is_readable = match (is_v4, masks.len()) {
        (true, n) => n == 4,
        (false, 8) => true,
        (false, _) => !is_expression && pattern.contains("::"),
    };
    if !is_readable {
        return None;
    }
    if !is_expression {
        return Some(parse(pattern)? == address);
    }
    let parts: Vec<u16> = match address {
        IpAddr::V4(address) => address.octets().map(u16::from).to_vec(),
        IpAddr::V6(address) => address.segments().to_vec(),
    };
    for (mask, part) in masks.into_iter().zip(parts) {
        if !is_part_match(mask, part, is_v4)? {
            return Some(false);
        }
    }
    Some(true)
}

/// One number of an address against `*`, a number or `1-9`; hexadecimal in IPv6.
fn is_part_match(mask: &str, part: u16, is_v4: bool) -> Option<bool> {
    let text = if is_v4 { part.to_string() } else { format!("{part:x}") };
    if mask == "*" || mask == text {
        return Some(true);
    }
    if mask.contains('-') {
        let number = |text: &str| i32::from_str_radix(text, if is_v4 { 10 } else { 16 }).ok();
        let mut ends = mask.split('-').filter(|end| !end.is_empty());
        let (first, last) = (number(ends.next()?)?, number(ends.next()?)?);
        return ends.next().is_none().then(|| (first..=last).contains(&i32::from(part)));
    }
    Some(part == 0 && matches!(mask, "0" | "00" | "000" | "0000"))
}

fn host_and_port(expression: &str, is_v4: bool) -> (&str, Option<&str>) {
    if let Some(inner) = expression.strip_prefix('[') {
        if let Some((host, port)) = inner.split_once("]:") {
            return (host, Some(port));
        }
        if let Some(host) = inner.strip_suffix(']') {
            return (host, None);
        }
    }
    match expression.split_once(':') {
        Some((host, port)) if is_v4 => (host, Some(port)),
        _ => (expression, None),
    }
}

/// An address, without looking names up. As in Java, numbers of IPv4 may begin with zeros.
fn parse(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse().ok();
    }
    let mut octets = [0_u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *octet = part.parse().ok()?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets).into())
}
