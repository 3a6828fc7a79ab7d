"""The programs of a service manager, called as a person would call them.

Blocking. A program that is missing, and a manager that cannot be reached, are answers and no
errors: there is always the way without a manager.
"""

import subprocess

import msgspec

LIMIT_S = 400.0  # a start waits for READY=1, a restart for the stop before it


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """How a call ended; ``code`` is None where the program is missing or did not end."""

    code: int | None
    output: str = ""

    @property
    def ok(self) -> bool:
        return self.code == 0


def call(*words: str, limit_s: float = LIMIT_S) -> Done:
    """Run one program to its end; its two outputs together."""
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=limit_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return Done(code=None)
    return Done(code=done.returncode, output=done.stdout.decode(errors="replace").strip())


def user_systemctl(*words: str, limit_s: float = LIMIT_S) -> Done:
    """``systemctl --user``."""
    return call("systemctl", "--user", *words, limit_s=limit_s)


def lingers(user: str) -> bool:
    """Whether this user's services outlive the last logout."""
    answer = call("loginctl", "show-user", user, "-p", "Linger", "--value", limit_s=20)
    return answer.ok and answer.output == "yes"


def last_line(text: str) -> str:
    """The last line that says something; managers and logs end with what matters."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""
