//! `[defaults.socket]`, `[cluster.socket]` and `[....socket]` of listeners: how the kernel carries
//! connections.

use std::time::Duration;

use wire::{ListenOptions, SocketOptions};

use super::defaults;
use super::section::Section;

/// The keys of connections that this agent makes; what is left out is as in `base`.
pub(super) fn connecting(mut section: Section<'_>, base: &SocketOptions) -> SocketOptions {
    let options = options(&mut section, base);
    section.finish();
    options
}

/// The keys of a listener.
pub(super) fn listening(mut section: Section<'_>) -> ListenOptions {
    let base = ListenOptions::default();
    let socket = options(&mut section, &base.socket);
    let backlog = section.number("backlog", 1..=u16::MAX, base.backlog);
    if let Some(most) = somaxconn().filter(|most| *most < u32::from(backlog))
        && section.has("backlog")
    {
        let problem = format!("{backlog} connections are asked for, but this kernel allows {most}");
        section.warn("backlog", problem, format!("raise {SOMAXCONN} with sysctl, or write {most}"));
    }
    section.finish();
    ListenOptions { socket, backlog }
}

const SOMAXCONN: &str = "net.core.somaxconn";

/// What the kernel cuts the backlog of a listener to.
fn somaxconn() -> Option<u32> {
    let path = format!("/proc/sys/{}", SOMAXCONN.replace('.', "/"));
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn options(section: &mut Section<'_>, base: &SocketOptions) -> SocketOptions {
    let options = SocketOptions {
        send_buffer_len: buffer_len(section, "send_buffer_bytes", base.send_buffer_len),
        receive_buffer_len: buffer_len(section, "receive_buffer_bytes", base.receive_buffer_len),
        max_unsent_len: section.number(
            "max_unsent_bytes",
            defaults::LEAST_UNSENT_LEN..=defaults::MOST_UNSENT_LEN,
            base.max_unsent_len,
        ),
        nodelay: section.flag("nodelay", base.nodelay),
        keepalive: duration(section, "keepalive_ms", defaults::LEAST_KEEPALIVE, base.keepalive),
        user_timeout: duration(
            section,
            "user_timeout_ms",
            defaults::LEAST_USER_TIMEOUT,
            base.user_timeout,
        ),
    };
    compare_with_kernel(section, &options);
    options
}

/// 0 leaves it to the kernel.
fn buffer_len(section: &mut Section<'_>, key: &'static str, base: Option<usize>) -> Option<usize> {
    let Some(len) = section.optional_number(key, 0..=defaults::MOST_BUFFER_LEN) else {
        return base;
    };
    if 0 < len && len < defaults::LEAST_BUFFER_LEN {
        let least = defaults::LEAST_BUFFER_LEN;
        let remedy = format!("write at least {least}, or 0 to leave it to the kernel");
        section.wrong(key, format!("{len} bytes are too few for a connection"), remedy);
    }
    (len != 0).then_some(len)
}

/// 0 turns it off.
fn duration(
    section: &mut Section<'_>,
    key: &'static str,
    least: Duration,
    base: Option<Duration>,
) -> Option<Duration> {
    let unsaid = base.unwrap_or_default();
    let time = section.ms_or_none(key, defaults::LONGEST, unsaid);
    if !time.is_zero() && time < least && section.has(key) {
        let remedy = format!("write at least {}, or 0 to turn it off", least.as_millis());
        section.wrong(key, format!("{} ms is too short", time.as_millis()), remedy);
    }
    (!time.is_zero()).then_some(time)
}

/// Says what the kernel makes of the buffers that the section asks for.
fn compare_with_kernel(section: &Section<'_>, options: &SocketOptions) {
    let Ok((send_len, receive_len)) = options.granted_buffers() else { return };
    for (key, asked, granted, limit) in [
        ("send_buffer_bytes", options.send_buffer_len, send_len, "net.core.wmem_max"),
        ("receive_buffer_bytes", options.receive_buffer_len, receive_len, "net.core.rmem_max"),
    ] {
        if let Some(asked) = asked
            && granted < asked
            && section.has(key)
        {
            let problem = format!("{asked} bytes are asked for, but this kernel allows {granted}");
            section.warn(key, problem, format!("raise {limit} with sysctl, or write {granted}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use wire::{ListenOptions, SocketOptions};

    use crate::config::parse;
    use crate::config::tests::{GOOD, assert_errors_behind_good};

    #[test]
    fn sections_start_from_the_defaults() {
        let text = format!(
            "{GOOD}[ingress.socket]\nbacklog = 100\nnodelay = false\n\
             [defaults.socket]\nsend_buffer_bytes = 65536\nkeepalive_ms = 0\n\
             [[cluster]]\ninterface = 'a.B'\n[cluster.socket]\nsend_buffer_bytes = 0\n\
             receive_buffer_bytes = 32768\nmax_unsent_bytes = 4096\nuser_timeout_ms = 5000\n"
        );
        let config = parse(&text, "a.toml").unwrap();
        let base = SocketOptions::default();
        let ingress = SocketOptions { nodelay: false, ..base };
        assert_eq!(config.http[0].socket, ListenOptions { socket: ingress, backlog: 100 });
        let all = SocketOptions { send_buffer_len: Some(65_536), keepalive: None, ..base };
        assert_eq!(config.clusters.policy("c.D").socket, all);
        let one = SocketOptions {
            send_buffer_len: None,
            receive_buffer_len: Some(32_768),
            max_unsent_len: 4096,
            user_timeout: Some(Duration::from_secs(5)),
            ..all
        };
        assert_eq!(config.clusters.policy("a.B").socket, one);
    }

    #[test]
    fn what_no_connection_can_use_is_refused() {
        for (line, problem) in [
            (
                "send_buffer_bytes = 100",
                "send_buffer_bytes: 100 bytes are too few for a connection; write at least 4096, \
                 or 0 to leave it to the kernel",
            ),
            (
                "keepalive_ms = 999",
                "keepalive_ms: 999 ms is too short; write at least 1000, or 0 to turn it off",
            ),
            (
                "user_timeout_ms = 1",
                "user_timeout_ms: 1 ms is too short; write at least 100, or 0 to turn it off",
            ),
            (
                "max_unsent_bytes = 0",
                "max_unsent_bytes: 0 is out of range; write a whole number from 1024 to 1073741824",
            ),
        ] {
            let text = format!("[defaults.socket]\n{line}\n");
            assert_errors_behind_good(&text, &[&format!("a.toml:7: defaults.socket.{problem}")]);
        }
    }

    #[test]
    fn a_backlog_that_the_kernel_cuts_is_told() {
        let text = |backlog: u32| format!("{GOOD}[ingress.socket]\nbacklog = {backlog}\n");
        let warnings = |backlog| parse(&text(backlog), "a.toml").unwrap().warnings;
        assert_eq!(warnings(1), []);
        let Some(most) = super::somaxconn().filter(|most| *most < 65_535) else { return };
        let [warning] = &warnings(65_535)[..] else { panic!("no warning") };
        let told = format!(
            "a.toml:7: ingress.socket.backlog: 65535 connections are asked for, but this kernel \
             allows {most}; raise net.core.somaxconn with sysctl, or write {most}"
        );
        assert_eq!(warning.to_string(), told);
        assert_eq!(warnings(most), []);
    }

    #[test]
    fn buffers_that_the_kernel_cuts_are_told() {
        let text = format!("{GOOD}[defaults.socket]\nreceive_buffer_bytes = 1073741824\n");
        let warnings = parse(&text, "a.toml").unwrap().warnings;
        let [warning] = &warnings[..] else { panic!("{warnings:?}") };
        let warning = warning.to_string();
        let begin = "a.toml:7: defaults.socket.receive_buffer_bytes: 1073741824 bytes are asked \
                     for, but this kernel allows ";
        assert!(warning.starts_with(begin), "{warning}");
        assert!(warning.contains("; raise net.core.rmem_max with sysctl, or write "), "{warning}");
    }
}
