//! Lines with a width, as convex parts: a rectangle a segment, and a slice of a circle at the outer side of each corner.

use std::f64::consts::PI;

use crate::{Pen, Point};

/// Gives `take` the parts that a line consists of.
pub(crate) fn stroke(points: &[Point], closed: bool, pen: &Pen, take: &mut impl FnMut(&[Point])) {
    let mut line = points.to_vec();
    line.dedup_by(|next, one| distance(*next, *one) < 1e-6);
    if closed && line.len() > 2 {
        line.push(line[0]);
    }
    if pen.dashes.iter().sum::<f64>() > 0.0 {
        for dash in dashes(&line, &pen.dashes) {
            one_line(&dash, false, pen, take);
        }
    } else {
        one_line(&line, closed, pen, take);
    }
}

fn one_line(line: &[Point], closed: bool, pen: &Pen, take: &mut impl FnMut(&[Point])) {
    let half = pen.width / 2.0;
    let normals: Vec<Point> = line.windows(2).map(|pair| normal(pair[0], pair[1], half)).collect();
    for (at, &[across, along]) in normals.iter().enumerate() {
        let (mut from, mut to) = (line[at], line[at + 1]);
        // The direction is the normal turned by a quarter.
        let (forth_x, forth_y) = (along, -across);
        if pen.projecting && !closed && at == 0 {
            from = [from[0] - forth_x, from[1] - forth_y];
        }
        if pen.projecting && !closed && at + 1 == normals.len() {
            to = [to[0] + forth_x, to[1] + forth_y];
        }
        take(&[
            [from[0] + across, from[1] + along],
            [to[0] + across, to[1] + along],
            [to[0] - across, to[1] - along],
            [from[0] - across, from[1] - along],
        ]);
        let next = if at + 1 < normals.len() { Some(normals[at + 1]) } else { closed.then(|| normals[0]) };
        if let Some(next) = next {
            corner(line[at + 1], [across, along], next, take);
        }
    }
}

/// The slice between two segments with these normals, at the side where they leave a gap.
fn corner(at: Point, from: Point, to: Point, take: &mut impl FnMut(&[Point])) {
    let turn = from[0] * to[1] - from[1] * to[0];
    let outside = if turn > 0.0 { -1.0 } else { 1.0 };
    let half = from[0].hypot(from[1]);
    let begin = (outside * from[1]).atan2(outside * from[0]);
    let mut angle = (outside * to[1]).atan2(outside * to[0]) - begin;
    if angle > PI {
        angle -= 2.0 * PI;
    } else if angle < -PI {
        angle += 2.0 * PI;
    }
    if angle.abs() < 1e-3 {
        return;
    }
    // A chord is nowhere further than a twentieth of a pixel from its arc.
    let most = 2.0 * (1.0 - (0.05 / half).min(0.5)).acos();
    let count = (angle.abs() / most).ceil() as usize;
    let arc = (0..=count).map(|step| {
        let angle = begin + angle * step as f64 / count as f64;
        [at[0] + half * angle.cos(), at[1] + half * angle.sin()]
    });
    take(&std::iter::once(at).chain(arc).collect::<Vec<_>>());
}

/// The dashes of a line, each a line of its own; `lengths` are dash, gap, dash, … and begin anew at their end.
fn dashes(line: &[Point], lengths: &[f64]) -> Vec<Vec<Point>> {
    let (mut made, mut dash) = (Vec::new(), line.first().map(|&first| vec![first]).unwrap_or_default());
    let (mut place, mut left) = (0, lengths[0]);
    for pair in line.windows(2) {
        let (mut from, to) = (pair[0], pair[1]);
        loop {
            let whole = distance(from, to);
            let drawn = place % 2 == 0;
            if whole < left {
                left -= whole;
                if drawn {
                    dash.push(to);
                }
                break;
            }
            let share = if whole > 0.0 { left / whole } else { 1.0 };
            from = [from[0] + (to[0] - from[0]) * share, from[1] + (to[1] - from[1]) * share];
            if drawn {
                dash.push(from);
                made.push(std::mem::take(&mut dash));
            } else {
                dash = vec![from];
            }
            place += 1;
            left = lengths[place % lengths.len()].max(1e-3);
        }
    }
    made.push(dash);
    made.retain(|one| one.len() > 1);
    made
}

fn distance(from: Point, to: Point) -> f64 {
    (to[0] - from[0]).hypot(to[1] - from[1])
}

/// Across the segment, `half` long.
fn normal(from: Point, to: Point, half: f64) -> Point {
    let scale = half / distance(from, to).max(1e-12);
    [-(to[1] - from[1]) * scale, (to[0] - from[0]) * scale]
}
