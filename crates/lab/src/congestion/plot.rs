//! The rows as a picture: how long calls took by the number of connections, a curve for each
//! length of the buffers.

use std::path::Path;

use plotters::prelude::*;

use super::CongestionError;

const SIZE: (u32, u32) = (800, 480);

/// One curve.
#[derive(Clone, Debug)]
pub struct Curve {
    /// What it is called.
    pub name: String,
    /// Such as numbers of connections, and the mean latency in milliseconds.
    pub points: Vec<(u32, f64)>,
    /// A value that holds everywhere, such as the mean latency where the number is left to the
    /// agent. It is dashed.
    pub level: Option<f64>,
}

/// What a picture says beside its curves.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    /// Above it.
    pub title: &'a str,
    /// Below it.
    pub x: &'a str,
    /// Beside it.
    pub y: &'a str,
}

impl<'a> Labels<'a> {
    /// For latencies by the number of connections.
    #[must_use]
    pub fn by_connections(title: &'a str) -> Self {
        let x = "connections to the provider (dashed: left to the agent)";
        Self { title, x, y: "mean latency, ms" }
    }
}

/// Writes the curves as SVG.
///
/// # Errors
/// [`CongestionError::Plot`].
pub fn draw(path: &Path, labels: Labels<'_>, curves: &[Curve]) -> Result<(), CongestionError> {
    draw_on(&SVGBackend::new(path, SIZE).into_drawing_area(), labels, curves).map_err(|error| {
        CongestionError::Plot { path: path.display().to_string(), reason: error.to_string() }
    })
}

fn draw_on<B: DrawingBackend>(
    area: &DrawingArea<B, plotters::coord::Shift>,
    labels: Labels<'_>,
    curves: &[Curve],
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let most = points().map(|(n, _)| *n).max().unwrap_or(1);
    let autos = curves.iter().filter_map(|curve| curve.level);
    let highest = points().map(|(_, ms)| *ms).chain(autos).fold(1.0, f64::max);
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(area)
        .caption(labels.title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(0..most + 1, 0.0..highest * 1.1)?;
    chart.configure_mesh().disable_x_mesh().x_desc(labels.x).y_desc(labels.y).draw()?;
    for (nth, curve) in curves.iter().enumerate() {
        let color = Palette99::pick(nth).to_rgba();
        let line = LineSeries::new(curve.points.iter().copied(), color.stroke_width(2));
        let line = line.point_size(4);
        chart
            .draw_series(line)?
            .label(&curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
        if let Some(ms) = curve.level {
            let ends = [(0, ms), (most + 1, ms)];
            chart.draw_series(DashedLineSeries::new(ends, 6, 4, color.stroke_width(1)))?;
        }
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    area.present()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_names_its_curves() {
        let mut text = String::new();
        let curves = [
            Curve {
                name: "32768".into(),
                points: vec![(1, 720.0), (4, 190.0)],
                level: Some(163.0),
            },
            Curve { name: "kernel".into(), points: Vec::new(), level: None },
        ];
        let labels = Labels::by_connections("A title");
        draw_on(&SVGBackend::with_string(&mut text, SIZE).into_drawing_area(), labels, &curves)
            .unwrap();
        for part in ["A title", "32768", "kernel", "mean latency, ms", "</svg>"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
