//! What the codec costs: nanoseconds per value, single-threaded, for the shapes that matter.
//!
//! `cargo run --release -p hessian --example codec_bench [NAME] [SECONDS]`: only the rows whose name
//! begins with NAME; with SECONDS 0 each runs 1000 times and is not timed, for callgrind.

use std::error::Error;
use std::hint::black_box;

use hessian::json::JsonReader;
use hessian::transcode::{JsonOptions, hessian_to_json, json_to_hessian};
use hessian::{Decoder, Encoder, JavaType, Limits, Value};

/// A shape: its name, its value, and the type that its JSON is read as.
struct Shape {
    name: &'static str,
    value: Value,
    ty: Option<JavaType>,
}

fn pojo(index: i32) -> Value {
    let text = |what: &str| Value::String(format!("{what} {index}"));
    Value::object(
        "com.acme.Order",
        vec![
            ("id", Value::Long(1_000_000 + i64::from(index))),
            ("customer", text("customer")),
            ("street", text("some street with a long name")),
            ("city", text("city")),
            ("country", Value::string("CN")),
            ("quantity", Value::Int(index)),
            ("price", Value::Double(19.99)),
            ("paid", Value::Bool(true)),
            ("created", Value::Long(1_700_000_000_123)),
            ("comment", Value::Null),
            ("status", Value::string("SHIPPED")),
            ("weight", Value::Double(1.234_567)),
        ],
    )
}

fn shapes() -> Vec<Shape> {
    let order = || Some(JavaType::class("com.acme.Order"));
    let map = (0..50).map(|n| (Value::String(format!("key{n}")), Value::Int(n * 1000))).collect();
    vec![
        Shape { name: "string-100", value: Value::String("x".repeat(100)), ty: None },
        Shape { name: "pojo-12", value: pojo(7), ty: order() },
        Shape {
            name: "pojos-100",
            value: Value::list((0..100).map(pojo).collect()),
            ty: JavaType::parse("java.util.List<com.acme.Order>").ok(),
        },
        Shape { name: "map-50", value: Value::map(map), ty: None },
        Shape {
            name: "text-1m",
            value: Value::String("0123456789abcdef".repeat(65_536)),
            ty: None,
        },
        Shape { name: "chinese-1m", value: Value::String("中文".repeat(174_762)), ty: None },
    ]
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let only = args.next().unwrap_or_default();
    let seconds: f64 = args.next().map_or(Ok(0.3), |text| text.parse())?;
    println!("{:<28} {:>10} {:>12} {:>9}", "", "bytes", "ns/op", "GB/s");
    for shape in shapes() {
        let mut hessian = Vec::new();
        Encoder::new(&mut hessian).value(&shape.value);
        let mut json = Vec::new();
        let opts = JsonOptions::default();
        hessian_to_json(&mut Decoder::new(&hessian, Limits::default()), &mut json, &opts)?;
        let mut out = Vec::with_capacity(2 * json.len());
        let ty = shape.ty.as_ref();

        let mut row = |what: &str, len: usize, run: &mut dyn FnMut(&mut Vec<u8>)| {
            let name = format!("{} {what}", shape.name);
            if name.starts_with(&only) {
                measure(&name, len, seconds, || {
                    out.clear();
                    run(&mut out);
                    black_box(out.last());
                });
            }
        };
        row("skip", hessian.len(), &mut |_| {
            let mut decoder = Decoder::new(black_box(&hessian), Limits::default());
            black_box(decoder.skip_value().is_ok());
        });
        row("encode tree", hessian.len(), &mut |out| Encoder::new(out).value(&shape.value));
        row("decode tree", hessian.len(), &mut |_| {
            let mut decoder = Decoder::new(black_box(&hessian), Limits::default());
            black_box(decoder.read_value().is_ok());
        });
        row("hessian to json", hessian.len(), &mut |out| {
            let mut decoder = Decoder::new(black_box(&hessian), Limits::default());
            black_box(hessian_to_json(&mut decoder, out, &opts).is_ok());
        });
        row("json to hessian", json.len(), &mut |out| {
            let mut reader = JsonReader::new(black_box(&json), Limits::default());
            black_box(json_to_hessian(&mut reader, ty, &mut Encoder::new(out)).is_ok());
        });
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn measure(name: &str, len: usize, seconds: f64, mut run: impl FnMut()) {
    if seconds == 0.0 {
        (0..1000).for_each(|_| run());
        return;
    }
    // The best of several rounds: what else runs on the machine only ever adds.
    let (mut best, mut n_runs) = (f64::MAX, 1u64);
    let end = std::time::Instant::now() + std::time::Duration::from_secs_f64(seconds);
    while std::time::Instant::now() < end {
        let start = std::time::Instant::now();
        (0..n_runs).for_each(|_| run());
        let elapsed = start.elapsed().as_nanos() as f64;
        if elapsed < 2e6 {
            n_runs *= 2;
        } else {
            best = best.min(elapsed / n_runs as f64);
        }
    }
    println!("{name:<28} {len:>10} {best:>12.1} {:>9.2}", len as f64 / best);
}
