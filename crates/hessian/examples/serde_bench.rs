//! What serde adds to the codec: nanoseconds per value for a class of twelve fields, by derives
//! and by hand on [`Encoder`] and [`Decoder`].
//!
//! `cargo run --release -p hessian --features serde --example serde_bench [SECONDS]`

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use hessian::{Decoder, Encoder, HessianError, Limits};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename = "com.acme.Order")]
struct BenchOrder {
    id: i64,
    customer: String,
    street: String,
    city: String,
    country: String,
    quantity: i32,
    price: f64,
    paid: bool,
    created: i64,
    comment: Option<String>,
    status: String,
    weight: f64,
}

const FIELDS: [&str; 12] = [
    "id", "customer", "street", "city", "country", "quantity", "price", "paid", "created",
    "comment", "status", "weight",
];

fn order(index: i32) -> BenchOrder {
    BenchOrder {
        id: 1_000_000 + i64::from(index),
        customer: format!("customer {index}"),
        street: format!("some street with a long name {index}"),
        city: format!("city {index}"),
        country: "CN".into(),
        quantity: index,
        price: 19.99,
        paid: true,
        created: 1_700_000_000_123,
        comment: None,
        status: "SHIPPED".into(),
        weight: 1.234_567,
    }
}

fn write(order: &BenchOrder, enc: &mut Encoder<'_>) {
    enc.object_begin("com.acme.Order", &FIELDS);
    enc.long(order.id);
    enc.string(&order.customer);
    enc.string(&order.street);
    enc.string(&order.city);
    enc.string(&order.country);
    enc.int(order.quantity);
    enc.double(order.price);
    enc.bool(order.paid);
    enc.long(order.created);
    match &order.comment {
        Some(comment) => enc.string(comment),
        None => enc.null(),
    }
    enc.string(&order.status);
    enc.double(order.weight);
}

/// As one writes it by hand: each field by the name that the class gives it.
fn read(dec: &mut Decoder<'_>) -> Result<BenchOrder, HessianError> {
    let mut order = BenchOrder::default();
    let mut object = dec.read_object_begin()?;
    while let Some(index) = object.next(dec) {
        let class = dec.class(object.class()).and_then(|class| class.fields.get(index));
        match class.map_or("", |name| &**name) {
            "id" => order.id = dec.read_long()?,
            "customer" => order.customer = dec.read_string()?.into_owned(),
            "street" => order.street = dec.read_string()?.into_owned(),
            "city" => order.city = dec.read_string()?.into_owned(),
            "country" => order.country = dec.read_string()?.into_owned(),
            "quantity" => order.quantity = dec.read_int()?,
            "price" => order.price = dec.read_double()?,
            "paid" => order.paid = dec.read_bool()?,
            "created" => order.created = dec.read_long()?,
            "comment" => order.comment = dec.read_opt_string()?.map(Into::into),
            "status" => order.status = dec.read_string()?.into_owned(),
            "weight" => order.weight = dec.read_double()?,
            _ => dec.skip_value()?,
        }
    }
    Ok(order)
}

fn write_all(orders: &[BenchOrder], enc: &mut Encoder<'_>) {
    enc.list_begin(None, orders.len());
    orders.iter().for_each(|order| write(order, enc));
}

fn read_all(dec: &mut Decoder<'_>) -> Result<Vec<BenchOrder>, HessianError> {
    let mut list = dec.read_list_begin()?;
    let mut orders = Vec::with_capacity(list.left().unwrap_or(0));
    while list.next(dec)? {
        orders.push(read(dec)?);
    }
    Ok(orders)
}

fn main() -> Result<(), Box<dyn Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(0.5), |text| text.parse())?;
    let one = order(7);
    let hundred: Vec<_> = (0..100).map(order).collect();
    let mut out = Vec::with_capacity(1 << 16);

    println!("{:<20} {:>12} {:>12} {:>7}", "", "by hand ns", "serde ns", "ratio");
    let row = |name: &str, by_hand: f64, serde: f64| {
        println!("{name:<20} {by_hand:>12.1} {serde:>12.1} {:>7.2}", serde / by_hand);
    };
    let hand = best(seconds, || {
        out.clear();
        write(black_box(&one), &mut Encoder::new(&mut out));
        black_box(out.last());
    });
    let serde = best(seconds, || {
        out.clear();
        black_box(hessian::serde::to_writer(black_box(&one), &mut out).is_ok());
    });
    row("encode 1", hand, serde);
    let bytes = hessian::serde::to_vec(&one)?;
    let decoder = |bytes| Decoder::new(black_box(bytes), Limits::default());
    let hand = best(seconds, || {
        black_box(read(&mut decoder(&bytes)).is_ok());
    });
    let serde = best(seconds, || {
        black_box(hessian::serde::from_slice::<BenchOrder>(black_box(&bytes)).is_ok());
    });
    row("decode 1", hand, serde);
    let hand = best(seconds, || {
        out.clear();
        write_all(black_box(&hundred), &mut Encoder::new(&mut out));
        black_box(out.last());
    });
    let serde = best(seconds, || {
        out.clear();
        black_box(hessian::serde::to_writer(black_box(&hundred), &mut out).is_ok());
    });
    row("encode 100", hand, serde);
    let bytes = hessian::serde::to_vec(&hundred)?;
    assert_eq!(read_all(&mut decoder(&bytes))?, hundred);
    let hand = best(seconds, || {
        black_box(read_all(&mut decoder(&bytes)).is_ok());
    });
    let serde = best(seconds, || {
        black_box(hessian::serde::from_slice::<Vec<BenchOrder>>(black_box(&bytes)).is_ok());
    });
    row("decode 100", hand, serde);
    Ok(())
}

/// Nanoseconds of one run: the best of many rounds, for what else runs only ever adds.
#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn best(seconds: f64, mut run: impl FnMut()) -> f64 {
    let (mut best, mut n_runs) = (f64::MAX, 16u32);
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    while Instant::now() < end {
        let start = Instant::now();
        (0..n_runs).for_each(|_| run());
        let elapsed = start.elapsed();
        best = best.min(elapsed.as_secs_f64() * 1e9 / f64::from(n_runs));
        if elapsed < Duration::from_millis(1) {
            n_runs *= 2;
        }
    }
    best
}
