//! `sojourn-live`: plays one run of the world `live`.

fn main() -> std::process::ExitCode {
    if sojourn_live::main() { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE }
}
