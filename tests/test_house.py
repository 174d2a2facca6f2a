"""What a fresh clone promises."""

import subprocess


def test_the_command_stands_in_the_environment_and_explains_itself() -> None:
    done = subprocess.run(["sojourn", "--help"], capture_output=True, text=True, check=True)
    assert "Usage: sojourn" in done.stdout
