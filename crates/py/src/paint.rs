//! Pictures in pixels.

use numpy::PyReadonlyArray2;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sojourn_paint::{Fonts as Found, Pen, Picture, Shape, Words};

/// Two fonts, of which text is made and measured.
#[pyclass(frozen, module = "sojourn._core")]
pub(crate) struct Fonts(Found);

/// Points, closed, colour of the area, of the outline, its width, dashes, whether it projects, alpha, clip.
type ShapeParts<'py> =
    (PyReadonlyArray2<'py, f64>, bool, Option<[u8; 3]>, Option<[u8; 3]>, f64, Vec<f64>, bool, f64, Option<[f64; 4]>);
/// Text, where its base line begins, pixels an em, bold, upright, colour.
type WordParts = (String, [f64; 2], f64, bool, bool, [u8; 3]);

#[derive(FromPyObject)]
enum Mark<'py> {
    Shape(ShapeParts<'py>),
    Words(WordParts),
}

enum Owned {
    Shape(Shape),
    Words(Words),
}

impl From<Mark<'_>> for Owned {
    fn from(mark: Mark<'_>) -> Self {
        match mark {
            Mark::Words((text, at, size, bold, upright, colour)) => {
                Self::Words(Words { text, at, size, bold, upright, colour })
            }
            Mark::Shape((points, closed, face, edge, width, dashes, projecting, alpha, clip)) => Self::Shape(Shape {
                points: points.as_array().rows().into_iter().map(|row| [row[0], row[1]]).collect(),
                closed,
                face,
                pen: edge.map(|colour| Pen { colour, width, dashes, projecting }),
                alpha,
                clip,
            }),
        }
    }
}

#[pymethods]
impl Fonts {
    /// From the bytes of two TrueType files.
    #[new]
    fn new(regular: &[u8], bold: &[u8]) -> PyResult<Self> {
        Found::new(regular.to_vec(), bold.to_vec()).map(Self).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// The width of a text, in ems.
    fn width(&self, text: &str, bold: bool) -> f64 {
        self.0.width(text, bold)
    }

    /// How far the letters of a row rise above the base line, and descend below it, in ems.
    fn row(&self, bold: bool) -> (f64, f64) {
        self.0.row(bold)
    }

    /// Red, green and blue of each pixel of a picture of marks, row by row, each row after a zero, as PNG has them.
    fn paint<'py>(
        &self,
        py: Python<'py>,
        width: usize,
        height: usize,
        marks: Vec<Mark<'py>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let marks: Vec<Owned> = marks.into_iter().map(Owned::from).collect();
        let rows = py.detach(|| {
            let mut picture = Picture::new(width, height);
            for mark in &marks {
                match mark {
                    Owned::Shape(shape) => picture.draw(shape),
                    Owned::Words(words) => picture.write(words, &self.0),
                }
            }
            picture.into_rows()
        });
        Ok(PyBytes::new(py, &rows))
    }
}
