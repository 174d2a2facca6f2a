//! Rasterisation of pictures: tiny-skia draws, ttf-parser reads the outlines of glyphs, png writes the file.
//!
//! The same marks give the same bytes on every machine. Therefore tiny-skia's feature `simd` is off: with it, the
//! instructions that compute a pixel depend on the compile target.

use numpy::PyReadonlyArray2;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tiny_skia::{
    Color, FillRule, LineCap, LineJoin, Mask, Paint, Path, PathBuilder, Pixmap, Rect, Stroke, StrokeDash, Transform,
};
use ttf_parser::{Face, GlyphId, OutlineBuilder};

use crate::bug;

/// A point in pixels: to the right, and down from the upper edge.
type Point = [f64; 2];
/// Red, green and blue.
type Colour = [u8; 3];
/// A rectangle in pixels: left, top, right, bottom.
type Clip = [f32; 4];

/// A line or an area; `_core.pyi` describes its fields.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Shape {
    #[pyo3(from_py_with = points)]
    points: Vec<Point>,
    closed: bool,
    face: Option<Colour>,
    edge: Option<Colour>,
    width: f32,
    dashes: Vec<f32>,
    projecting: bool,
    alpha: f32,
    clip: Option<Clip>,
}

/// A line of text; `_core.pyi` describes its fields.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Words {
    text: String,
    at: Point,
    size: f64,
    bold: bool,
    upright: bool,
    colour: Colour,
}

#[derive(FromPyObject)]
enum Mark {
    Shape(Shape),
    Words(Words),
}

fn points(array: &Bound<'_, PyAny>) -> PyResult<Vec<Point>> {
    let array: PyReadonlyArray2<'_, f64> = array.extract()?;
    Ok(array.as_array().rows().into_iter().map(|row| [row[0], row[1]]).collect())
}

fn paint([red, green, blue]: Colour, alpha: f32) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color_rgba8(red, green, blue, (alpha * 255.0).round() as u8);
    paint
}

// ---- shapes ----

/// Maximum number of corners of a line that is aligned to whole pixels.
const MOST_SNAPPED: usize = 1024;

impl Shape {
    /// Draws the shape over the canvas.
    fn draw(&self, canvas: &mut Pixmap, mask: Option<&Mask>) {
        let snaps = self.is_rectilinear();
        if let Some(face) = self.face
            && let Some(path) = self.path((snaps && self.edge.is_none()).then_some(0.0))
        {
            canvas.fill_path(&path, &paint(face, self.alpha), FillRule::Winding, Transform::identity(), mask);
        }
        // A line with an odd width covers whole pixels if its centre is at the centre of a pixel.
        let beyond = if (self.width.round() as i64) % 2 == 0 { 0.0 } else { 0.5 };
        if let Some(edge) = self.edge
            && let Some(path) = self.path(snaps.then_some(beyond))
        {
            let stroke = Stroke {
                width: self.width,
                line_cap: if self.projecting { LineCap::Square } else { LineCap::Butt },
                line_join: LineJoin::Round,
                dash: StrokeDash::new(self.dashes.clone(), 0.0),
                ..Stroke::default()
            };
            canvas.stroke_path(&path, &paint(edge, self.alpha), &stroke, Transform::identity(), mask);
        }
    }

    /// Returns whether all segments are horizontal or vertical. Such lines look sharper if aligned to whole pixels.
    fn is_rectilinear(&self) -> bool {
        let level = |from: Point, to: Point| (from[0] - to[0]).abs() < 1e-4 || (from[1] - to[1]).abs() < 1e-4;
        let back = self.points.last().zip(self.points.first()).filter(|_| self.closed);
        self.points.len() <= MOST_SNAPPED
            && self.points.windows(2).all(|pair| level(pair[0], pair[1]))
            && back.is_none_or(|(&last, &first)| level(last, first))
    }

    /// Returns the outline. With `snap`, corners are placed at this offset from the nearest whole pixel.
    fn path(&self, snap: Option<f64>) -> Option<Path> {
        let mut path = PathBuilder::new();
        for point in &self.points {
            let [x, y] = point.map(|value| snap.map_or(value, |beyond| (value + 0.5).floor() + beyond) as f32);
            if path.is_empty() { path.move_to(x, y) } else { path.line_to(x, y) }
        }
        if self.closed {
            path.close();
        }
        path.finish()
    }
}

/// A mask of the clip rectangle, rounded to whole pixels. A shape is drawn only inside its mask.
fn mask_of(clip: Clip, canvas: &Pixmap) -> Option<Mask> {
    let mut mask = Mask::new(canvas.width(), canvas.height())?;
    let [left, top, right, bottom] = clip.map(f32::round);
    if let Some(inside) = Rect::from_ltrb(left, top, right, bottom) {
        mask.fill_path(&PathBuilder::from_rect(inside), FillRule::Winding, false, Transform::identity());
    }
    Some(mask)
}

// ---- text ----

/// Two fonts, with which text is drawn and measured.
#[pyclass(frozen, module = "sojourn._core")]
pub(crate) struct Fonts {
    regular: Vec<u8>,
    bold: Vec<u8>,
}

impl Fonts {
    fn face(&self, bold: bool) -> Face<'_> {
        Face::parse(if bold { &self.bold } else { &self.regular }, 0).expect("was read before")
    }

    /// Draws a line of text over the canvas.
    fn write(&self, words: &Words, canvas: &mut Pixmap) {
        let face = self.face(words.bold);
        let mut letters = Letters::new(&face, words);
        for (glyph, x) in placed(&face, &words.text).0 {
            letters.x = x;
            face.outline_glyph(glyph, &mut letters);
        }
        if let Some(path) = letters.path.finish() {
            canvas.fill_path(&path, &paint(words.colour, 1.0), FillRule::Winding, Transform::identity(), None);
        }
    }
}

/// The glyph of each letter with its start, and the end of the text, in units of the font.
///
/// A letter that the font lacks becomes glyph 0, a box.
fn placed(face: &Face<'_>, text: &str) -> (Vec<(GlyphId, f64)>, f64) {
    let (mut glyphs, mut x) = (Vec::<(GlyphId, f64)>::new(), 0.0);
    for letter in text.chars() {
        let glyph = face.glyph_index(letter).unwrap_or(GlyphId(0));
        x += glyphs.last().map_or(0.0, |&(last, _)| kerning(face, last, glyph));
        glyphs.push((glyph, x));
        x += f64::from(face.glyph_hor_advance(glyph).unwrap_or(0));
    }
    (glyphs, x)
}

fn kerning(face: &Face<'_>, left: GlyphId, right: GlyphId) -> f64 {
    let Some(table) = face.tables().kern else { return 0.0 };
    let level = table.subtables.into_iter().filter(|one| one.horizontal && !one.has_cross_stream);
    level.filter_map(|one| one.glyphs_kerning(left, right)).map(f64::from).sum()
}

/// The outlines of a line of text in pixels.
///
/// Heights are aligned to pixels: the base line, the x-height and the cap height are whole numbers, so that horizontal
/// strokes are sharp there.
struct Letters {
    path: PathBuilder,
    at: Point,
    upright: bool,
    /// Start of the current letter, in units of the font.
    x: f64,
    /// Pixels per unit of the font.
    scale: f64,
    /// The x-height and the cap height, each in units of the font and in pixels.
    small: (f64, f64),
    capital: (f64, f64),
}

impl Letters {
    fn new(face: &Face<'_>, words: &Words) -> Self {
        let em = f64::from(face.units_per_em());
        let scale = words.size / em;
        let height = |letter: char, share: f64| {
            let found = face.glyph_index(letter).and_then(|glyph| face.glyph_bounding_box(glyph));
            let units = found.map_or(share * em, |bounds| f64::from(bounds.y_max).max(1.0));
            (units, (units * scale).round().max(1.0))
        };
        let (small, capital) = (height('x', 0.55), height('H', 0.73));
        Self { path: PathBuilder::new(), at: words.at, upright: words.upright, x: 0.0, scale, small, capital }
    }

    /// Converts a height above the base line to pixels.
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

    fn place(&self, x: f32, y: f32) -> (f32, f32) {
        let right = (self.x + f64::from(x)) * self.scale;
        let up = self.height(f64::from(y));
        // The base line lies between two rows of pixels.
        let [x, y] = if self.upright {
            [self.at[0].round() - up, self.at[1] - right]
        } else {
            [self.at[0] + right, self.at[1].round() - up]
        };
        (x as f32, y as f32)
    }
}

impl OutlineBuilder for Letters {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.place(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.place(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.place(x1, y1), self.place(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.place(x1, y1), self.place(x2, y2), self.place(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

// ---- Python interface ----

#[pymethods]
impl Fonts {
    /// Reads two TrueType fonts from bytes.
    #[new]
    fn new(regular: Vec<u8>, bold: Vec<u8>) -> PyResult<Self> {
        for font in [&regular, &bold] {
            Face::parse(font, 0).map_err(|error| PyValueError::new_err(format!("not a TrueType font: {error}")))?;
        }
        Ok(Self { regular, bold })
    }

    /// Returns the width of a text, in ems.
    fn width(&self, text: &str, bold: bool) -> f64 {
        let face = self.face(bold);
        placed(&face, text).1 / f64::from(face.units_per_em())
    }

    /// Returns the height of letters like "l" above the base line and the depth of letters like "p" below it, in ems.
    fn row(&self, bold: bool) -> (f64, f64) {
        let face = self.face(bold);
        let bounds = |letter| face.glyph_index(letter).and_then(|glyph| face.glyph_bounding_box(glyph));
        let em = f64::from(face.units_per_em());
        let rise = bounds('l').map_or(0.0, |found| f64::from(found.y_max));
        let descent = bounds('p').map_or(0.0, |found| -f64::from(found.y_min));
        (rise / em, descent / em)
    }

    /// Returns a picture of marks as a PNG of this size in pixels, with the resolution `dpi`.
    fn png<'py>(
        &self,
        py: Python<'py>,
        width: u32,
        height: u32,
        dpi: f64,
        marks: Vec<Mark>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let mut canvas = Pixmap::new(width, height)
            .ok_or_else(|| PyValueError::new_err(format!("a picture of {width}×{height}")))?;
        let file = py.detach(|| {
            self.draw(&marks, &mut canvas);
            encode(&canvas, dpi)
        });
        Ok(PyBytes::new(py, &file.map_err(bug)?))
    }
}

impl Fonts {
    /// Draws marks on a white background, in order.
    fn draw(&self, marks: &[Mark], canvas: &mut Pixmap) {
        canvas.fill(Color::WHITE);
        let mut last: Option<(Clip, Option<Mask>)> = None;
        for mark in marks {
            match mark {
                Mark::Words(words) => self.write(words, canvas),
                Mark::Shape(shape) => {
                    // Shapes of the same axes share a clip.
                    if let Some(clip) = shape.clip
                        && last.as_ref().is_none_or(|(known, _)| *known != clip)
                    {
                        last = Some((clip, mask_of(clip, canvas)));
                    }
                    let mask = last.as_ref().and_then(|(_, mask)| mask.as_ref());
                    shape.draw(canvas, shape.clip.and(mask));
                }
            }
        }
    }
}

/// Encodes the canvas, which is opaque, as a PNG. Drawings compress best without PNG's filters, and the fastest level
/// takes half the time of the next one for a tenth more bytes.
fn encode(canvas: &Pixmap, dpi: f64) -> Result<Vec<u8>, png::EncodingError> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, canvas.width(), canvas.height());
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_deflate_compression(png::DeflateCompression::Level(1));
    encoder.set_filter(png::Filter::NoFilter);
    let metre = (dpi / 0.0254).round() as u32;
    encoder.set_pixel_dims(Some(png::PixelDimensions { xppu: metre, yppu: metre, unit: png::Unit::Meter }));
    encoder.add_text_chunk("Software".to_owned(), "sojourn".to_owned())?;
    let pixels: Vec<u8> = canvas.data().chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
    encoder.write_header()?.write_image_data(&pixels)?;
    Ok(file)
}
