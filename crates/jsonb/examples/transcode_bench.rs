//! Runs one step of the translation between JSON and JSONB many times and does nothing else, for
//! callgrind: the difference of two runs, divided by the difference of their counts, is what one
//! takes.
//!
//! `cargo run --release -p jsonb --example transcode_bench -- STEP N`, where STEP is
//! - `from-json`: a list of orders of a declared class;
//! - `from-json-untyped`: the same without a type;
//! - `to-json`: back again.

use std::error::Error;
use std::fmt::Write as _;
use std::hint::black_box;

use java_json::json::JsonReader;
use java_json::{JavaType, JsonOptions, Limits};
use jsonb::{Decoder, Encoder, json_to_jsonb, jsonb_to_json};

const N_ORDERS: usize = 20;

/// Orders with texts, numbers, a date, a decimal, a list and a map.
fn orders() -> String {
    let mut text = String::from("[");
    for index in 0..N_ORDERS {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(
            text,
            "{comma}{{\"id\":{},\"customer\":\"customer {index}\",\"street\":\"some street with a \
             long name {index}\",\"city\":\"Z\u{fc}rich\",\"quantity\":{index},\"price\":19.99,\
             \"paid\":true,\"created\":1700000000123,\"comment\":null,\"weight\":0.125,\"tags\":\
             [\"a\",\"bc\",7],\"more\":{{\"a\":1,\"b\":\"x\"}}}}",
            1_000_000 + index
        );
    }
    text + "]"
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [step, n] = &args[..] else { return Err("usage: transcode_bench STEP N".into()) };
    let (text, options) = (orders(), JsonOptions::default());
    let ty = JavaType::parse("java.util.List<org.dubmesh.bench.Order>")?;
    let declared = (step != "from-json-untyped").then_some(&ty);
    let (mut value, mut out) = (Vec::new(), Vec::new());
    let from_json = |out: &mut Vec<u8>| {
        let mut reader = JsonReader::new(black_box(text.as_bytes()), Limits::default());
        json_to_jsonb(&mut reader, declared, &mut Encoder::new(out))
    };
    from_json(&mut value)?;
    // Once before: whoever counts takes the difference of two runs.
    for _ in 0..=n.parse::<u32>()? {
        out.clear();
        if step == "to-json" {
            let mut decoder = Decoder::new(black_box(&value), Limits::default());
            jsonb_to_json(&mut decoder, &mut out, &options)?;
        } else {
            from_json(&mut out)?;
        }
        black_box(out.last());
    }
    Ok(())
}
