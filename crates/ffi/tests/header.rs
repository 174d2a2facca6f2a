//! include/sojourn.h matches the library.

use std::path::Path;

/// With `SOJOURN_WRITE` in the environment, the header is written anew.
#[test]
fn the_header_is_generated_from_the_library() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).expect("cbindgen.toml");
    let mut text = Vec::new();
    cbindgen::Builder::new()
        .with_config(config)
        .with_src(here.join("src/lib.rs"))
        .generate()
        .expect("a header")
        .write(&mut text);
    let file = here.join("include/sojourn.h");
    if std::env::var_os("SOJOURN_WRITE").is_some() {
        std::fs::write(&file, &text).expect("the header is written");
    }
    let kept = std::fs::read(&file).unwrap_or_default();
    assert!(kept == text, "SOJOURN_WRITE=1 cargo test -p sojourn-ffi --test header writes it");
}
