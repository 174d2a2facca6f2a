//! The number of files that this process may have open: as many as the host allows, because each host and each flow needs
//! some.

use std::io;
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit with which this process was started.
static GIVEN: OnceLock<Rlimit> = OnceLock::new();

/// Returns the limit with which this process was started, which is that of the one who asked.
pub fn given() -> Rlimit {
    *GIVEN.get_or_init(|| getrlimit(Resource::Nofile))
}

/// Sets the limit.
///
/// # Errors
/// The kernel refuses it.
pub fn set(limit: Rlimit) -> io::Result<()> {
    Ok(setrlimit(Resource::Nofile, limit)?)
}

/// Raises the limit as far as it goes without privileges.
pub fn raise() {
    let Rlimit { maximum, .. } = given();
    // With a kernel that refuses, the limit stays as it is; `explained` names it if it is too low.
    let _ = set(Rlimit { current: maximum, maximum });
}

/// Returns an error as a message for the user. If too many files are open, it names the limit.
pub fn explained(error: &io::Error) -> String {
    let (text, code) = (error.to_string(), format!("(os error {})", libc::EMFILE));
    if !text.contains(&code) {
        return text;
    }
    let limit = getrlimit(Resource::Nofile).maximum.map_or("unlimited".to_owned(), |most| most.to_string());
    format!("{text}; the limit of open files (ulimit -n) is {limit}: expected a higher one, or fewer flows")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_too_many_files_are_explained_by_their_limit() {
        let many = io::Error::from_raw_os_error(libc::EMFILE);
        let limit = getrlimit(Resource::Nofile).maximum.expect("a limit");
        let said = "Too many open files (os error 24); the limit of open files (ulimit -n) is ";
        assert_eq!(explained(&many), format!("{said}{limit}: expected a higher one, or fewer flows"));
        assert!(explained(&io::Error::other(format!("socket: {many}"))).starts_with(&format!("socket: {said}")));
        assert_eq!(explained(&io::Error::other("another one")), "another one");
    }
}
