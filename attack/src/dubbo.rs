//! Dubbo requests and answers as bytes, for callers and for those who stop in the middle of one.

use std::io;

use dubbo_proto::Serialization;
use dubbo_proto::frame::{HEADER_LEN, Header};

/// A whole request of `method` with one string, in hessian2, that wants an answer.
pub(crate) fn request(interface: &str, method: &str, text: &str, id: u64) -> Vec<u8> {
    let mut body = Vec::with_capacity(text.len() + 512);
    for field in ["2.0.2", interface, "0.0.0", method, "Ljava/lang/String;", text] {
        hessian::write_string(&mut body, field);
    }
    let mut attachments = hessian::Encoder::new(&mut body);
    attachments.map_begin(None);
    for (name, value) in [("path", interface), ("interface", interface), ("timeout", "5000")] {
        attachments.string(name);
        attachments.string(value);
    }
    attachments.map_end();
    let header = Header {
        is_request: true,
        two_way: true,
        is_event: false,
        serialization: Serialization::Hessian2,
        status: 0,
        id,
        body_len: body.len(),
    };
    let mut request = header.encode().to_vec();
    request.append(&mut body);
    request
}

/// What is in front of a body.
pub(crate) fn header(bytes: &[u8; HEADER_LEN]) -> io::Result<Header> {
    Header::parse(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
