//! Finds the program that carries the frames.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

/// The program's name.
const PROGRAM: &str = "sojourn-live";
/// The variable of the environment that names it.
const VARIABLE: &str = "SOJOURN_LIVE";

/// Returns the program `sojourn-live`: that of the variable `SOJOURN_LIVE`, or the one next to the test's executable or
/// in the folder above, where cargo puts it, or the one in the PATH.
///
/// # Errors
/// There is none.
pub fn find() -> io::Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    search(env::var_os(VARIABLE), &env::current_exe()?, &path)
}

/// Searches for the one that was asked for, or else near an executable, and then in a path.
fn search(asked: Option<OsString>, own: &Path, path: &OsStr) -> io::Result<PathBuf> {
    if let Some(asked) = asked.map(PathBuf::from) {
        if asked.is_file() {
            return Ok(asked);
        }
        return Err(missing(format!("{VARIABLE} = {}: there is no such file", asked.display())));
    }
    let near = own.ancestors().skip(1).take(2).map(Path::to_owned);
    let found = near.chain(env::split_paths(path)).map(|folder| folder.join(PROGRAM)).find(|file| file.is_file());
    found.ok_or_else(|| {
        missing(format!(
            "there is no program {PROGRAM} next to the test or in the PATH: install sojourn's wheel, or build it in \
             sojourn's folder (cargo build --release -p {PROGRAM}) and name it, {VARIABLE}=PROGRAM"
        ))
    })
}

fn missing(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_the_one_asked_for_or_near_or_in_the_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let (near, far) = (folder.path().join("target"), folder.path().join("bin"));
        let (own, path) = (near.join("deps/test"), far.as_os_str());
        for each in [&near.join("deps"), &far] {
            std::fs::create_dir_all(each).expect("a folder");
        }
        let said = |asked| search(asked, &own, path).expect_err("none yet").to_string();
        assert!(said(None).contains("SOJOURN_LIVE=PROGRAM"), "{}", said(None));
        assert_eq!(said(Some("/no/such".into())), "SOJOURN_LIVE = /no/such: there is no such file");
        for place in [&far, &near, &near.join("deps")] {
            let program = place.join(PROGRAM);
            std::fs::write(&program, "").expect("a file");
            assert_eq!(search(None, &own, path).expect("one"), program, "the nearest one");
        }
        let asked = far.join(PROGRAM);
        assert_eq!(search(Some(asked.clone().into()), &own, path).expect("one"), asked);
    }
}
