//! Text as outlines, from TrueType fonts.

use std::fmt;

use ttf_parser::{Face, GlyphId, OutlineBuilder};

use crate::{Point, Words};

/// A font that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FontError(String);

impl fmt::Display for FontError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "not a TrueType font: {}", self.0)
    }
}

impl std::error::Error for FontError {}

/// The two fonts of a picture.
#[derive(Clone, Debug)]
pub struct Fonts {
    regular: Vec<u8>,
    bold: Vec<u8>,
}

impl Fonts {
    /// From the bytes of two TrueType files.
    ///
    /// # Errors
    /// If one of them is none.
    pub fn new(regular: Vec<u8>, bold: Vec<u8>) -> Result<Self, FontError> {
        for font in [&regular, &bold] {
            Face::parse(font, 0).map_err(|error| FontError(error.to_string()))?;
        }
        Ok(Self { regular, bold })
    }

    /// The width of a text, in ems.
    #[must_use]
    pub fn width(&self, text: &str, bold: bool) -> f64 {
        let face = self.face(bold);
        let mut end = 0.0;
        each_glyph(&face, text, |glyph, x| end = x + advance(&face, glyph));
        end / f64::from(face.units_per_em())
    }

    /// Of a row of text: how far letters like "l" rise above the base line, and letters like "p" descend, in ems.
    #[must_use]
    pub fn row(&self, bold: bool) -> (f64, f64) {
        let face = self.face(bold);
        let (mut rise, mut descent) = (0.0_f64, 0.0_f64);
        each_glyph(&face, "lp", |glyph, _| {
            if let Some(bounds) = face.glyph_bounding_box(glyph) {
                rise = rise.max(f64::from(bounds.y_max));
                descent = descent.max(-f64::from(bounds.y_min));
            }
        });
        let em = f64::from(face.units_per_em());
        (rise / em, descent / em)
    }

    /// The outlines of a text's letters in pixels, each closed by itself.
    pub(crate) fn outlines(&self, words: &Words) -> Vec<Vec<Point>> {
        let face = self.face(words.bold);
        let grid = Grid::new(&face, words.size);
        let mut found = Flat { lines: Vec::new(), now: Vec::new(), grid, x: 0.0, upright: words.upright, at: words.at };
        each_glyph(&face, &words.text, |glyph, x| {
            found.x = x;
            face.outline_glyph(glyph, &mut found);
        });
        found.lines
    }

    fn face(&self, bold: bool) -> Face<'_> {
        let bytes = if bold { &self.bold } else { &self.regular };
        Face::parse(bytes, 0).expect("was read before")
    }
}

fn advance(face: &Face<'_>, glyph: GlyphId) -> f64 {
    f64::from(face.glyph_hor_advance(glyph).unwrap_or(0))
}

/// Calls `take` with each letter's glyph and where it begins, in the font's units. A letter that the font lacks is its
/// glyph 0, a box.
fn each_glyph(face: &Face<'_>, text: &str, mut take: impl FnMut(GlyphId, f64)) {
    let mut x = 0.0;
    let mut last: Option<GlyphId> = None;
    for letter in text.chars() {
        let glyph = face.glyph_index(letter).unwrap_or(GlyphId(0));
        x += last.map_or(0.0, |last| kerning(face, last, glyph));
        take(glyph, x);
        x += advance(face, glyph);
        last = Some(glyph);
    }
}

fn kerning(face: &Face<'_>, left: GlyphId, right: GlyphId) -> f64 {
    let Some(table) = face.tables().kern else { return 0.0 };
    let level = table.subtables.into_iter().filter(|one| one.horizontal && !one.has_cross_stream);
    level.filter_map(|one| one.glyphs_kerning(left, right)).map(f64::from).sum()
}

/// Fits heights to the pixels: the base line, small letters' height and capitals' height lie on whole ones, so that level
/// strokes there are sharp.
#[derive(Clone, Copy, Debug)]
struct Grid {
    /// Pixels a unit of the font.
    scale: f64,
    /// Small and capital letters' height in the font's units, and in pixels.
    small: (f64, f64),
    capital: (f64, f64),
}

impl Grid {
    fn new(face: &Face<'_>, size: f64) -> Self {
        let em = f64::from(face.units_per_em());
        let scale = size / em;
        let height = |letter: char, share: f64| {
            let found = face.glyph_index(letter).and_then(|glyph| face.glyph_bounding_box(glyph));
            found.map_or(share * em, |bounds| f64::from(bounds.y_max).max(1.0))
        };
        let (small, capital) = (height('x', 0.55), height('H', 0.73));
        let whole = |units: f64| (units * scale).round().max(1.0);
        Self { scale, small: (small, whole(small)), capital: (capital, whole(capital)) }
    }

    /// Pixels above the base line.
    fn height(&self, units: f64) -> f64 {
        let ((small, small_px), (capital, capital_px)) = (self.small, self.capital);
        if units <= 0.0 {
            units * self.scale
        } else if units <= small {
            units * small_px / small
        } else if units <= capital {
            small_px + (units - small) * (capital_px - small_px) / (capital - small)
        } else {
            capital_px + (units - capital) * self.scale
        }
    }
}

/// Takes outlines as lines of short pieces, in pixels.
struct Flat {
    lines: Vec<Vec<Point>>,
    now: Vec<Point>,
    grid: Grid,
    /// Where the letter begins, in the font's units.
    x: f64,
    upright: bool,
    at: Point,
}

impl Flat {
    fn place(&self, x: f32, y: f32) -> Point {
        let right = (self.x + f64::from(x)) * self.grid.scale;
        let up = self.grid.height(f64::from(y));
        // The base line lies between two rows of pixels.
        if self.upright {
            [self.at[0].round() - up, self.at[1] - right]
        } else {
            [self.at[0] + right, self.at[1].round() - up]
        }
    }

    fn curve(&mut self, pieces: usize, at: impl Fn(f64) -> Point) {
        self.now.extend((1..=pieces).map(|piece| at(piece as f64 / pieces as f64)));
    }
}

/// Straight pieces of a curve: a letter is at most some tens of pixels tall.
const PIECES: usize = 5;

impl OutlineBuilder for Flat {
    fn move_to(&mut self, x: f32, y: f32) {
        self.now.push(self.place(x, y));
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.now.push(self.place(x, y));
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let from = self.now.last().copied().unwrap_or(self.at);
        let (bend, to) = (self.place(x1, y1), self.place(x, y));
        self.curve(PIECES, |t| {
            let mix =
                |axis: usize| (1.0 - t).powi(2) * from[axis] + 2.0 * t * (1.0 - t) * bend[axis] + t * t * to[axis];
            [mix(0), mix(1)]
        });
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let from = self.now.last().copied().unwrap_or(self.at);
        let (one, two, to) = (self.place(x1, y1), self.place(x2, y2), self.place(x, y));
        self.curve(2 * PIECES, |t| {
            let rest = 1.0 - t;
            let mix = |axis: usize| {
                rest.powi(3) * from[axis]
                    + 3.0 * rest * rest * t * one[axis]
                    + 3.0 * rest * t * t * two[axis]
                    + t.powi(3) * to[axis]
            };
            [mix(0), mix(1)]
        });
    }

    fn close(&mut self) {
        let line = std::mem::take(&mut self.now);
        self.lines.push(line);
    }
}
