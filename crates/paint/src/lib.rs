//! Pictures in pixels: lines, areas and words, antialiased.
//!
//! A pixel's coverage is the exact area of the shape within it. The result depends on nothing but the marks: the same
//! marks give the same bytes on every machine.

mod area;
mod font;
mod stroke;

pub use font::{FontError, Fonts};

use area::Area;

/// A place in pixels: to the right, and down from the upper edge.
pub type Point = [f64; 2];

/// Red, green and blue.
pub type Colour = [u8; 3];

/// A rectangle in pixels: left, top, right, bottom.
pub type Clip = [f64; 4];

/// The outline of a shape.
#[derive(Clone, Debug)]
pub struct Pen {
    /// Its colour.
    pub colour: Colour,
    /// Its width in pixels.
    pub width: f64,
    /// Lengths of dashes and gaps in turn, in pixels; none: a whole line.
    pub dashes: Vec<f64>,
    /// Whether the line begins and ends half its width beyond its first and last point.
    pub projecting: bool,
}

/// A line or an area.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Its corners.
    pub points: Vec<Point>,
    /// Whether the last corner is joined to the first.
    pub closed: bool,
    /// How the area is filled.
    pub face: Option<Colour>,
    /// How the outline is drawn, over the area.
    pub pen: Option<Pen>,
    /// Opacity, 0 to 1.
    pub alpha: f64,
    /// What of the picture it may cover.
    pub clip: Option<Clip>,
}

/// A line of text.
#[derive(Clone, Debug)]
pub struct Words {
    /// What it says.
    pub text: String,
    /// Where its base line begins.
    pub at: Point,
    /// Pixels an em.
    pub size: f64,
    /// Whether it is in bold letters.
    pub bold: bool,
    /// Whether it reads from below, turned by 90°.
    pub upright: bool,
    /// Its colour.
    pub colour: Colour,
}

/// A picture in the making, white at first.
#[derive(Clone, Debug)]
pub struct Picture {
    width: usize,
    height: usize,
    rows: Vec<u8>,
    area: Area,
}

impl Picture {
    /// A white picture of this size in pixels.
    #[must_use]
    pub fn new(width: usize, height: usize) -> Self {
        let mut rows = vec![255; (1 + 3 * width) * height];
        rows.iter_mut().step_by(1 + 3 * width).for_each(|first| *first = 0);
        Self { width, height, rows, area: Area::default() }
    }

    /// Red, green and blue of each pixel, row by row from the top, each row after a zero: as PNG has them unfiltered.
    #[must_use]
    pub fn into_rows(self) -> Vec<u8> {
        self.rows
    }

    /// Draws a shape over what is there.
    pub fn draw(&mut self, shape: &Shape) {
        let clip = self.clip(shape.clip);
        let straight = is_rectilinear(&shape.points, shape.closed);
        if let Some(face) = shape.face {
            let points =
                if straight && shape.pen.is_none() { snapped(&shape.points, 0.0) } else { shape.points.clone() };
            self.area.reset(bounds(&points, 0.0), clip);
            self.area.polygon(&points);
            self.blend(face, shape.alpha);
        }
        if let Some(pen) = &shape.pen {
            let odd = (pen.width.round() as i64) % 2 != 0;
            let points =
                if straight { snapped(&shape.points, if odd { 0.5 } else { 0.0 }) } else { shape.points.clone() };
            self.area.reset(bounds(&points, pen.width), clip);
            stroke::stroke(&points, shape.closed, pen, &mut |part| self.area.convex(part));
            self.blend(pen.colour, shape.alpha);
        }
    }

    /// Writes a line of text over what is there.
    pub fn write(&mut self, words: &Words, fonts: &Fonts) {
        let outlines = fonts.outlines(words);
        let clip = self.clip(None);
        let all = outlines.iter().flatten().copied().collect::<Vec<_>>();
        self.area.reset(bounds(&all, 0.0), clip);
        for outline in &outlines {
            self.area.polygon(outline);
        }
        self.blend(words.colour, 1.0);
    }

    fn clip(&self, clip: Option<Clip>) -> [usize; 4] {
        let [left, top, right, bottom] = clip.unwrap_or([0.0, 0.0, self.width as f64, self.height as f64]);
        let within = |value: f64, most: usize| (value.max(0.0).round() as usize).min(most);
        [within(left, self.width), within(top, self.height), within(right, self.width), within(bottom, self.height)]
    }

    /// Covers what is in `area` with a colour.
    fn blend(&mut self, colour: Colour, alpha: f64) {
        let (rows, width) = (&mut self.rows, self.width);
        self.area.each(|x, y, coverage| {
            let share = coverage * alpha as f32;
            let at = y * (1 + 3 * width) + 1 + 3 * x;
            for (channel, paint) in rows[at..at + 3].iter_mut().zip(colour) {
                let old = f32::from(*channel);
                *channel = (old + (f32::from(paint) - old) * share + 0.5) as u8;
            }
        });
    }
}

/// The box around points, with so much more on each side: left, top, right, bottom.
fn bounds(points: &[Point], margin: f64) -> [f64; 4] {
    let start = [f64::INFINITY, f64::INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY];
    let [left, top, right, bottom] = points
        .iter()
        .fold(start, |[left, top, right, bottom], &[x, y]| [left.min(x), top.min(y), right.max(x), bottom.max(y)]);
    [left - margin, top - margin, right + margin, bottom + margin]
}

/// The most corners of a line that is put on whole pixels.
const MOST_SNAPPED: usize = 1024;

/// Whether a line runs along the pixels' edges only, so that it looks sharper where it lies on whole pixels.
fn is_rectilinear(points: &[Point], closed: bool) -> bool {
    let level = |[from, to]: [Point; 2]| (from[0] - to[0]).abs() < 1e-4 || (from[1] - to[1]).abs() < 1e-4;
    points.len() <= MOST_SNAPPED
        && points.windows(2).all(|pair| level([pair[0], pair[1]]))
        && (!closed || points.len() < 2 || level([points[points.len() - 1], points[0]]))
}

/// The points on the nearest whole pixels, or so much beyond.
fn snapped(points: &[Point], beyond: f64) -> Vec<Point> {
    points.iter().map(|point| point.map(|value| (value + 0.5).floor() + beyond)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square(left: f64, top: f64, size: f64) -> Vec<Point> {
        vec![[left, top], [left + size, top], [left + size, top + size], [left, top + size]]
    }

    fn filled(points: Vec<Point>, clip: Option<Clip>) -> Picture {
        let mut picture = Picture::new(8, 8);
        picture.draw(&Shape { points, closed: true, face: Some([0, 0, 0]), pen: None, alpha: 1.0, clip });
        picture
    }

    /// The red of a pixel.
    fn red(picture: &Picture, x: usize, y: usize) -> u8 {
        picture.rows[y * (1 + 3 * picture.width) + 1 + 3 * x]
    }

    /// How many pixels are black, in parts of them.
    fn ink(picture: &Picture) -> f64 {
        let pixels = (0..picture.height).flat_map(|y| (0..picture.width).map(move |x| (x, y)));
        pixels.map(|(x, y)| f64::from(255 - red(picture, x, y)) / 255.0).sum()
    }

    #[test]
    fn a_pixels_coverage_is_the_area_of_the_shape_within_it() {
        let triangle = filled(vec![[1.0, 1.0], [5.0, 1.0], [1.0, 5.0]], None);
        assert!((ink(&triangle) - 8.0).abs() < 0.02);
        assert_eq!(red(&triangle, 1, 1), 0, "a pixel inside is covered");
        assert_eq!(red(&triangle, 1, 4), 128, "the edge halves a pixel");
    }

    #[test]
    fn either_direction_of_an_outline_fills_it() {
        let mut points = vec![[0.5, 0.25], [6.5, 1.0], [3.0, 7.75]];
        let one = filled(points.clone(), None);
        points.reverse();
        assert_eq!(one.rows, filled(points, None).rows);
    }

    #[test]
    fn what_lies_outside_of_the_clip_or_of_the_picture_is_left_out() {
        let clipped = filled(square(-20.0, -20.0, 60.0), Some([2.0, 3.0, 5.0, 7.0]));
        assert!((ink(&clipped) - 12.0).abs() < 1e-9);
        assert!((ink(&filled(square(-20.0, -20.0, 60.0), None)) - 64.0).abs() < 1e-9);
        assert!(ink(&filled(square(20.0, 20.0, 4.0), None)).abs() < 1e-9);
        let slanted = filled(vec![[-4.0, 0.0], [4.0, 8.0], [-4.0, 8.0]], None);
        assert!((ink(&slanted) - 8.0).abs() < 0.05, "half of a triangle is left of the picture");
    }

    #[test]
    fn a_line_covers_its_length_times_its_width() {
        let pen = |width, projecting| Pen { colour: [0, 0, 0], width, dashes: Vec::new(), projecting };
        for (width, projecting, expected) in [(1.5, false, 6.0), (1.5, true, 8.25)] {
            let mut picture = Picture::new(8, 8);
            let points = vec![[2.0, 4.0], [3.0, 4.0], [3.0, 4.0], [4.7, 4.1], [6.0, 4.0]];
            let pen = Some(pen(width, projecting));
            picture.draw(&Shape { points, closed: false, face: None, pen, alpha: 1.0, clip: None });
            assert!((ink(&picture) - expected).abs() < 0.1, "{} for {expected}", ink(&picture));
        }
    }

    #[test]
    fn a_dashed_line_has_gaps() {
        let mut picture = Picture::new(8, 8);
        let pen = Pen { colour: [0, 0, 0], width: 1.0, dashes: vec![1.0, 1.0], projecting: false };
        let points = vec![[0.0, 3.0], [8.0, 3.0]];
        picture.draw(&Shape { points, closed: false, face: None, pen: Some(pen), alpha: 1.0, clip: None });
        assert!((ink(&picture) - 4.0).abs() < 0.1);
    }

    #[test]
    fn an_upright_line_of_one_pixel_is_one_pixel_wide_wherever_it_lies() {
        for x in [3.0, 3.3, 3.5, 3.9] {
            let mut picture = Picture::new(8, 8);
            let pen = Pen { colour: [0, 0, 0], width: 1.2, dashes: Vec::new(), projecting: false };
            picture.draw(&Shape {
                points: vec![[x, 0.0], [x, 8.0]],
                closed: false,
                face: None,
                pen: Some(pen),
                alpha: 1.0,
                clip: None,
            });
            let dark = (0..8).filter(|&x| red(&picture, x, 1) < 128).count();
            assert_eq!(dark, 1);
        }
    }

    #[test]
    fn half_opaque_black_on_white_is_grey() {
        let mut picture = Picture::new(2, 2);
        let points = square(0.0, 0.0, 2.0);
        picture.draw(&Shape { points, closed: true, face: Some([0, 0, 0]), pen: None, alpha: 0.5, clip: None });
        assert_eq!(picture.into_rows(), [0, 128, 128, 128, 128, 128, 128, 0, 128, 128, 128, 128, 128, 128]);
    }
}
