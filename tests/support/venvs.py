"""Building an environment of other people's packages: one command at a time, its failure a line."""

import subprocess


def failure_of(command: list[str], limit_s: float) -> str:
    """Why a command failed, as the last line of what it said; "" for success."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return type(error).__name__
    if done.returncode == 0:
        return ""
    lines = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
    return lines[-1][:200]
