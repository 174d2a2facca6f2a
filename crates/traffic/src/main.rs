//! `sojourn-guest`: the program that runs inside a guest of the kernel world.

fn main() -> std::process::ExitCode {
    if sojourn_traffic::init::main() { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE }
}
