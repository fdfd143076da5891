//! Why a gRPC request failed, in words: tonic keeps the reason behind its errors for itself.

use std::error::Error;

/// What an error says, and whatever caused it.
pub(crate) fn words_of(error: &(dyn Error + 'static)) -> String {
    with_causes(&error.to_string(), error)
}

/// `said` of an error, and whatever caused it.
pub(crate) fn with_causes(said: &str, error: &(dyn Error + 'static)) -> String {
    if let Some(words) = wire::tls::words_of_cause(error, "server") {
        return words;
    }
    let (mut words, mut cause) = (said.to_owned(), error.source());
    while let Some(error) = cause {
        let text = error.to_string();
        if let Some(alert) = refused_certificate(&text) {
            return format!(
                "{words}: the server refused our certificate, or requires one, but none was \
                 shown ({alert})"
            );
        }
        if !words.contains(&text) {
            words = format!("{words}: {text}");
        }
        cause = error.source();
    }
    words
}

/// The alert by which a server refuses a client's certificate. HTTP/2's errors keep the text alone
/// of what comes after the handshake, which is where TLS 1.3 has this alert.
fn refused_certificate(text: &str) -> Option<&str> {
    let (_, alert) = text.split_once("received fatal alert: ")?;
    (alert.contains("Certificate") || alert == "UnknownCA").then_some(alert)
}
