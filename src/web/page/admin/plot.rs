//! Ten minutes in two plots on one time axis: admitted and saved a second, and how many wait. SVG without text, its labels
//! in HTML, its figures in a table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use askama::Template;

use crate::domain::ids::{Lane, VoucherId};
use crate::domain::time::Millis;
use crate::service::rings::Sample;
use crate::web::page::admin::Part;
use crate::web::page::{Chrome, format};

/// Milliseconds of one point, and how many there are: ten minutes.
const STEP: i64 = 5_000;
const POINTS: usize = 120;
/// Units of the drawing: it is stretched over whatever width there is.
const WIDE: usize = 10;
const HIGH: i64 = 1_000;

/// The samples of one sale.
#[derive(Debug, Clone)]
pub struct Series {
    /// Where its orders wait: with those of other sales of the lane.
    pub lane: Lane,
    /// Oldest first.
    pub samples: Vec<Sample>,
}

/// Sums over one step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Point {
    admitted: i64,
    saved: i64,
    waiting: i64,
}

/// One minute of the table.
struct Minute {
    at: String,
    admitted: String,
    saved: String,
    waiting: String,
}

/// The part `plot`.
#[derive(Template)]
#[template(path = "admin/part_plot.html")]
pub(super) struct PlotPart {
    c: Chrome,
    /// The scale: a second, above and in the middle; and of the waiting.
    top: String,
    half: String,
    most: String,
    admitted: String,
    saved: String,
    waiting: String,
    area: String,
    wide: usize,
    said: String,
    said_waiting: String,
    times: [String; 3],
    /// Where each second is listed.
    seconds: String,
    minutes: Vec<Minute>,
}

/// Which point an instant belongs to; the last point is the last whole step before `now`.
fn index(now: Millis, at: Millis) -> Option<usize> {
    let first = now.0 / STEP - i64::try_from(POINTS).unwrap_or(0);
    usize::try_from(at.0 / STEP - first).ok().filter(|i| *i < POINTS)
}

/// The steps of the last ten minutes, over all sales.
fn points(now: Millis, series: &[Series]) -> Vec<Point> {
    let mut points = vec![Point::default(); POINTS];
    let mut waiting: BTreeMap<(u16, usize), i64> = BTreeMap::new();
    for one in series {
        for pair in one.samples.windows(2) {
            let Some(i) = index(now, pair[1].at) else { continue };
            points[i].admitted += (pair[1].admitted - pair[0].admitted).max(0);
            points[i].saved += (pair[1].saved - pair[0].saved).max(0);
        }
        for sample in &one.samples {
            let Some(i) = index(now, sample.at) else { continue };
            let most = waiting.entry((one.lane.0, i)).or_default();
            *most = sample.waiting.max(*most); // sales of one lane share its queue
        }
    }
    for ((_, i), most) in waiting {
        points[i].waiting += most;
    }
    points
}

/// The end of a scale that holds `most`: 2, 4, 10, 20, 40, 100, … so that its middle is whole.
fn scale(most: i64) -> i64 {
    let mut ten = 1;
    loop {
        for step in [2, 4] {
            if most <= step * ten {
                return step * ten;
            }
        }
        ten *= 10;
        if most <= ten {
            return ten;
        }
    }
}

/// A line through `values`, of which `full` reaches the top.
fn line(values: impl Iterator<Item = i64>, full: i64, high: i64) -> String {
    let mut path = String::new();
    for (i, value) in values.enumerate() {
        let y = high - (value * high / full.max(1)).clamp(0, high);
        let _ = write!(path, "{}{} {y}", if i == 0 { 'M' } else { 'L' }, i * WIDE);
    }
    path
}

impl PlotPart {
    /// `of`: the one sale that `series` is of; none: all of them.
    pub(super) fn new(c: &Chrome, of: Option<VoucherId>, series: &[Series]) -> Self {
        let points = points(c.now, series);
        let a_second = |sum: i64| (sum * 1000 + STEP / 2) / STEP;
        let most = points.iter().map(|p| p.admitted.max(p.saved)).max().unwrap_or(0);
        let (top, full_wait) = (scale(a_second(most)), scale(points.iter().map(|p| p.waiting).max().unwrap_or(0)));
        let full = top * STEP / 1000;
        let width = (POINTS - 1) * WIDE;
        let waiting = line(points.iter().map(|p| p.waiting), full_wait, HIGH);
        let last = points.last().copied().unwrap_or_default();
        let peak = |of: fn(&Point) -> i64| format::figure(points.iter().map(of).max().unwrap_or(0));
        let rate = |of: fn(&Point) -> i64| format::figure(a_second(points.iter().map(of).max().unwrap_or(0)));
        let ago = |minutes: i64| format::minute(c, Millis(c.now.0 - minutes * 60_000));
        Self {
            top: format::figure(top),
            half: format::figure(top / 2),
            most: format::figure(full_wait),
            admitted: line(points.iter().map(|p| p.admitted), full, HIGH),
            saved: line(points.iter().map(|p| p.saved), full, HIGH),
            area: format!("{waiting}L{width} {HIGH}L0 {HIGH}Z"),
            waiting,
            wide: width,
            said: c.f(
                "plot-said",
                &[
                    ("admitted", &rate(|p| p.admitted)),
                    ("saved", &rate(|p| p.saved)),
                    ("now", &format::figure(a_second(last.admitted))),
                ],
            ),
            said_waiting: c.f("plot-said-waiting", &[("most", &peak(|p| p.waiting)), ("now", &format::figure(last.waiting))]),
            times: [ago(10), ago(5), ago(0)],
            seconds: of.map_or_else(|| String::from("/admin/seconds"), |id| format!("/admin/seconds?voucherId={id}")),
            minutes: minutes(c, &points),
            c: c.clone(),
        }
    }

    pub(super) fn part(&self) -> Part {
        (String::from("plot"), self.render().unwrap_or_default())
    }
}

fn minutes(c: &Chrome, points: &[Point]) -> Vec<Minute> {
    let first = c.now.0 / STEP - i64::try_from(POINTS).unwrap_or(0);
    let mut by_minute: BTreeMap<i64, Point> = BTreeMap::new();
    for (i, point) in (0..).zip(points) {
        let sum = by_minute.entry((first + i) * STEP / 60_000).or_default();
        sum.admitted += point.admitted;
        sum.saved += point.saved;
        sum.waiting = sum.waiting.max(point.waiting);
    }
    let worded = |(minute, sum): (i64, Point)| Minute {
        at: format::minute(c, Millis(minute * 60_000)),
        admitted: format::figure(sum.admitted),
        saved: format::figure(sum.saved),
        waiting: format::figure(sum.waiting),
    };
    by_minute.into_iter().map(worded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: i64, admitted: i64, saved: i64, waiting: i64) -> Sample {
        Sample { at: Millis(at), admitted, saved, paid: 0, refused: 0, left: 0, waiting }
    }

    #[test]
    fn a_step_sums_what_came_in_it_and_lanes_share_their_queue() {
        let now = Millis(1_000_000_003);
        let before = now.0 / STEP * STEP; // the step that is under way is not shown yet
        let ring = |base: i64| vec![sample(before - 9_000, base, base, 4), sample(before - 4_000, base + 6, base + 2, 7)];
        let series = |lane, base| Series { lane: Lane(lane), samples: ring(base) };
        let points = points(now, &[series(0, 100), series(0, 5), series(1, 0)]);
        assert_eq!(points[POINTS - 1], Point { admitted: 18, saved: 6, waiting: 14 });
        assert_eq!(points[POINTS - 2], Point { admitted: 0, saved: 0, waiting: 8 });
        assert!(points[..POINTS - 2].iter().all(|p| *p == Point::default()));
    }

    #[test]
    fn a_scale_holds_its_highest_value_and_has_a_whole_middle() {
        let scales = [(0, 2), (2, 2), (3, 4), (5, 10), (10, 10), (11, 20), (150, 200), (401, 1000)];
        assert!(scales.iter().all(|(most, end)| scale(*most) == *end && end % 2 == 0));
        assert_eq!(line([0, 5, 10, 99].into_iter(), 10, 100), "M0 100L10 50L20 0L30 0");
    }
}
