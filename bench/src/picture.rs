//! Rows as JSON, and as a picture beside it.

use std::path::PathBuf;

use lab::congestion::{CongestionError, draw};
pub(crate) use lab::congestion::{Curve, Labels};
use serde_json::Value;

use crate::error::BenchError;
use crate::machine;
use crate::plan::Plan;

/// A row, with where and when it was measured.
pub(crate) fn with_origin(mut row: Value) -> Value {
    if let (Value::Object(fields), Value::Object(origin)) = (&mut row, machine::origin()) {
        fields.extend(origin);
    }
    row
}

/// Writes `results/NAME.json`.
pub(crate) fn write_rows(plan: &Plan, name: &str, rows: Vec<Value>) -> Result<PathBuf, BenchError> {
    let path = plan.results.join(format!("{name}.json"));
    let text = format!("{:#}\n", Value::from(rows));
    std::fs::write(&path, text).map_err(BenchError::file(&path))?;
    Ok(path)
}

/// Writes `results/NAME.json` and `results/NAME.svg`, and says so.
pub(crate) fn write(
    plan: &Plan,
    name: &str,
    rows: Vec<Value>,
    labels: Labels<'_>,
    curves: &[Curve],
) -> Result<(), BenchError> {
    let path = write_rows(plan, name, rows)?;
    let picture = plan.results.join(format!("{name}.svg"));
    let failed = |error: CongestionError| std::io::Error::other(error.to_string());
    draw(&picture, labels, curves).map_err(failed).map_err(BenchError::file(&picture))?;
    println!("\nwritten: {} and {}", path.display(), picture.display());
    Ok(())
}

/// The curve of that name, which is begun if there is none.
pub(crate) fn curve(curves: &mut Vec<Curve>, name: String) -> &mut Curve {
    let at = curves.iter().position(|curve| curve.name == name).unwrap_or_else(|| {
        curves.push(Curve { name, points: Vec::new(), level: None });
        curves.len() - 1
    });
    &mut curves[at]
}
