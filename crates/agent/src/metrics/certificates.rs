//! When the certificates expire that the agent shows.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

/// More files are a mistake in somebody's configuration.
const MAX_FILES: usize = 256;

/// When the first certificate of a file expires.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CertificateExpiry {
    /// The file.
    pub file: String,
    /// Seconds since 1970.
    pub expires_s: i64,
}

/// Those that expire first.
pub(super) fn certificates(
    out: &mut DescriptorEncoder<'_>,
    files: &[CertificateExpiry],
) -> fmt::Result {
    let mut files: Vec<_> = files.iter().collect();
    files.sort_by_key(|it| (it.expires_s, &it.file));
    let help = "When the first certificate of a file that this agent shows expires";
    let name = "dubmesh_certificate_expiry_timestamp_seconds";
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for CertificateExpiry { file, expires_s } in files.into_iter().take(MAX_FILES) {
        metric.encode_family(&[("file", file.as_str())])?.encode_gauge(expires_s)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::metrics::Hub;

    use super::*;

    #[test]
    fn those_of_too_many_that_expire_first_are_shown() {
        let of = |nth: usize| CertificateExpiry {
            file: format!("/{nth}.pem"),
            expires_s: i64::try_from(1000 - nth).unwrap(),
        };
        let all: Vec<_> = (0..MAX_FILES + 2).map(of).collect();
        let text = Hub::new(&[]).render(&[], &all);
        assert_eq!(
            text.matches("dubmesh_certificate_expiry_timestamp_seconds{").count(),
            MAX_FILES
        );
        assert!(!text.contains("/0.pem") && !text.contains("/1.pem") && text.contains("/2.pem"));
    }
}
