//! The plot: a bar for every rate and for what it is beside, on a logarithmic scale. Drawn as text, readable on light and dark.

use std::fmt::Write;

use crate::report::{Row, median, show};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 420.0;
const BAR: f64 = 16.0;
const STEP: f64 = 22.0;

/// A bar: its words, its rate, and whether it is the shop's.
fn bars_of(rows: &[Row]) -> Vec<(String, f64, bool)> {
    let mut all: Vec<(String, f64, bool)> = Vec::new();
    for row in rows.iter().filter(|row| row.unit == "1/s") {
        let ours = row.figure.clone();
        // A figure that is beside three others is drawn once.
        if !all.iter().any(|(words, _, _)| *words == ours) {
            all.push((ours, median(&row.runs), true));
        }
        if let Some(theirs) = &row.baseline {
            all.push((theirs.name.clone(), median(&theirs.runs), false));
        }
    }
    all
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The whole picture.
pub fn bars(rows: &[Row]) -> String {
    let all = bars_of(rows);
    let most = all.iter().map(|(_, rate, _)| *rate).fold(10.0, f64::max).log10().ceil();
    let scale = (WIDTH - LEFT - 80.0) / (most - 1.0).max(1.0);
    let at = |rate: f64| LEFT + (rate.max(10.0).log10() - 1.0) * scale;
    let mut body = String::new();
    let (mut y, mut decade) = (30.0, 1.0);
    let mut grid = Vec::new();
    while decade <= most {
        grid.push(decade);
        decade += 1.0;
    }
    for (words, rate, ours) in &all {
        if *ours {
            y += 10.0;
        }
        let (class, middle) = (if *ours { "ours" } else { "theirs" }, y + BAR - 4.0);
        // Writing to a string cannot fail.
        let _ = writeln!(body, r#"<text x="{:.0}" y="{middle:.0}" text-anchor="end">{}</text>"#, LEFT - 8.0, escaped(words));
        let _ = writeln!(
            body,
            r#"<rect class="{class}" x="{LEFT:.0}" y="{y:.0}" width="{:.1}" height="{BAR:.0}"/>"#,
            at(*rate) - LEFT
        );
        let _ = writeln!(body, r#"<text x="{:.1}" y="{middle:.0}">{}</text>"#, at(*rate) + 6.0, show(*rate));
        y += STEP;
    }
    let mut lines = String::new();
    for decade in grid {
        let (rate, bottom) = (10_f64.powf(decade), y + 4.0);
        let x = at(rate);
        let _ = writeln!(lines, r#"<line x1="{x:.1}" x2="{x:.1}" y1="24" y2="{bottom:.0}"/>"#);
        let _ = writeln!(lines, r#"<text x="{x:.1}" y="18" text-anchor="middle">{}</text>"#, show(rate));
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {:.0}\" role=\"img\">\n\
         <title>Rates a second: the shop, and what it stands beside in the same run</title>\n\
         <style>text{{font:12px sans-serif;fill:#444}}line{{stroke:#8884}}.ours{{fill:#b4381f}}.theirs{{fill:#8a8f98}}\
         @media(prefers-color-scheme:dark){{text{{fill:#ccc}}.ours{{fill:#e8745a}}}}</style>\n{lines}{body}</svg>\n",
        y + 14.0
    )
}
