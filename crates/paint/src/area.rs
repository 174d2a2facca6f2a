//! How much of each pixel polygons cover.
//!
//! Each edge adds the area between itself and the right border, signed by its direction, to the pixels that it crosses
//! and its height to those behind them; a sum along each row then gives the coverage.

use crate::Point;

/// The coverage of the pixels within a box.
#[derive(Clone, Debug, Default)]
pub(crate) struct Area {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
    /// By row, one more than the row has pixels.
    sums: Vec<f32>,
}

impl Area {
    /// Starts anew with the pixels that lie both in the box around a shape and in `clip` (left, top, right, bottom).
    pub(crate) fn reset(&mut self, around: [f64; 4], clip: [usize; 4]) {
        let within = |value: f64, low: usize, high: usize| (value.max(0.0) as usize).clamp(low, high.max(low));
        self.left = within(around[0].floor(), clip[0], clip[2]);
        self.top = within(around[1].floor(), clip[1], clip[3]);
        self.width = within(around[2].ceil(), self.left, clip[2]) - self.left;
        self.height = within(around[3].ceil(), self.top, clip[3]) - self.top;
        self.sums.clear();
        self.sums.resize((self.width + 2) * self.height, 0.0);
    }

    /// Adds a polygon.
    pub(crate) fn polygon(&mut self, points: &[Point]) {
        for pair in points.windows(2) {
            self.edge(pair[0], pair[1]);
        }
        if let (Some(&last), Some(&first)) = (points.last(), points.first()) {
            self.edge(last, first);
        }
    }

    /// Adds a convex polygon; overlapping ones add up, whichever way their outlines run.
    pub(crate) fn convex(&mut self, points: &[Point]) {
        let twice: f64 = (0..points.len())
            .map(|at| {
                let ([x, y], [next_x, next_y]) = (points[at], points[(at + 1) % points.len()]);
                x * next_y - next_x * y
            })
            .sum();
        if twice < 0.0 {
            for at in (0..points.len()).rev() {
                self.edge(points[(at + 1) % points.len()], points[at]);
            }
        } else {
            self.polygon(points);
        }
    }

    /// Adds an edge, cut where it leaves the box: left of it, it runs along the box's left side.
    fn edge(&mut self, from: Point, to: Point) {
        let (sign, [x0, y0], [x1, y1]) = if from[1] < to[1] { (1.0, from, to) } else { (-1.0, to, from) };
        let (x0, x1) = (x0 - self.left as f64, x1 - self.left as f64);
        let (y0, y1) = (y0 - self.top as f64, y1 - self.top as f64);
        let (begin, end) = (y0.max(0.0), y1.min(self.height as f64));
        if begin >= end || !(x0 + x1 + y0 + y1).is_finite() {
            return;
        }
        let slope = (x1 - x0) / (y1 - y0);
        let at = |y: f64| x0 + (y - y0) * slope;
        let width = self.width as f64;
        if x0.min(x1) >= 0.0 && x0.max(x1) <= width {
            self.within(sign, [at(begin), begin], [at(end), end]);
            return;
        }
        let mut cuts = [begin, end, end, end];
        let mut count = 1;
        for border in [0.0, width] {
            let y = y0 + (border - x0) / slope;
            if y > begin && y < end {
                cuts[count] = y;
                count += 1;
            }
        }
        cuts[1..count].sort_by(f64::total_cmp);
        cuts[count] = end;
        let inside = |x: f64| x.clamp(0.0, width);
        for pair in 0..count {
            let (begin, end) = (cuts[pair], cuts[pair + 1]);
            let middle = at((begin + end) / 2.0);
            let (first, last) = if middle < 0.0 || middle > width {
                (inside(middle), inside(middle))
            } else {
                (inside(at(begin)), inside(at(end)))
            };
            self.within(sign, [first, begin], [last, end]);
        }
    }

    /// Adds a falling edge that lies in the box, row by row.
    fn within(&mut self, sign: f64, from: Point, to: Point) {
        let ([x0, y0], [x1, y1]) = (from, to);
        let slope = (x1 - x0) / (y1 - y0);
        let mut x = x0;
        for row in y0 as usize..(y1.ceil() as usize).min(self.height) {
            let begin = y0.max(row as f64);
            let end = y1.min((row + 1) as f64);
            let fall = end - begin;
            if fall <= 0.0 {
                continue;
            }
            let next = if end == y1 { x1 } else { x + slope * fall };
            self.row(row, sign * fall, x.min(next), x.max(next));
            x = next;
        }
    }

    /// Adds an edge within a row, from `low` to `high`, that falls by `fall`.
    fn row(&mut self, row: usize, fall: f64, low: f64, high: f64) {
        let start = row * (self.width + 2);
        let (first, last) = (low as usize, high as usize);
        let sums = &mut self.sums[start..start + self.width + 2];
        if first == last {
            let behind = (first + 1) as f64 - (low + high) / 2.0;
            sums[first] += (fall * behind) as f32;
            sums[first + 1] += (fall * (1.0 - behind)) as f32;
            return;
        }
        // What lies left of each pixel's right side, of the edge's area: it grows as a parabola within the edge.
        let length = high - low;
        let area_before = |x: f64| {
            if x <= low {
                0.0
            } else if x >= high {
                x - (low + high) / 2.0
            } else {
                (x - low).powi(2) / (2.0 * length)
            }
        };
        let (mut before, mut covered) = (0.0, 0.0);
        for (pixel, sum) in sums.iter_mut().enumerate().take(last + 2).skip(first) {
            let until = area_before((pixel + 1) as f64);
            let coverage = until - before;
            *sum += (fall * (coverage - covered)) as f32;
            (before, covered) = (until, coverage);
        }
    }

    /// Calls `take` with each pixel that is covered: column, row, coverage from 0 to 1.
    pub(crate) fn each(&self, mut take: impl FnMut(usize, usize, f32)) {
        for row in 0..self.height {
            let start = row * (self.width + 2);
            let mut sum = 0.0_f32;
            for column in 0..self.width {
                sum += self.sums[start + column];
                let coverage = sum.abs().min(1.0);
                if coverage > 1.0 / 512.0 {
                    take(self.left + column, self.top + row, coverage);
                }
            }
        }
    }
}
