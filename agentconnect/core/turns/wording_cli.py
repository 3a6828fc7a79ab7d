"""The sentences of the one-shot adapters: the preamble, their endings, the owner's terminal.

Owns words only. What a program printed on stderr is stripped of secrets, shown as code and made
inert, since nothing in an error text may act (worker.md §11.5).
"""

import re
from collections.abc import Sequence

from agentconnect.core.redaction import redact
from agentconnect.core.surrogates import replace_surrogates
from agentconnect.core.turns.wording import inert
from agentconnect.core.turns.wording_acp import quoted

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]+")
_TICKS = re.compile(r"`+")


# --- what the agent reads before the message


def preamble(sandbox: str, tier: str, *, writes: bool, around: Sequence[str] = ()) -> str:
    """The circumstances of a run, on one line; ``around`` says who else is there."""
    grants = (
        "you may create and modify files in the working directory"
        if writes
        else "the filesystem is read-only for you"
    )
    line = (
        f"sandbox: {sandbox}; access tier of the person who asks: {tier}; this means that {grants}."
        " Rely on this line rather than on your own assessment of the sandbox."
    )
    if writes:
        line += (
            " To send a file to the room, write [file: <path>] on a line of its own; the path must"
            " be inside the working directory, a file elsewhere is not sent."
        )
    return f"[{' '.join([line, *around])}]"


# --- endings, in the room


def failed(name: str, code: int, stderr: str) -> str:
    """It ended badly and left no answer."""
    return f"⚠ {name} {_ended(code)} and gave no answer.{_said(stderr)}"


def ended_with(name: str, code: int) -> str:
    """It ended badly after all that it wrote."""
    return f"({name} {_ended(code)}; what stands above may be incomplete.)"


def reported(name: str, words: str) -> str:
    """It says itself that it failed."""
    return f"⚠ {name} reported an error: {quoted(redact(words))}"


def no_output(name: str, stderr: str) -> str:
    """It ended in order and wrote nothing."""
    return f"⚠ {name} finished and produced no output.{_said(stderr)}"


def timed_out(name: str, seconds: float) -> str:
    """The deadline came first."""
    return (
        f"⚠ {name} did not finish within {seconds:.0f} s and was ended; it had produced nothing "
        "until then."
    )


def not_installed(name: str, program: str, install: str) -> str:
    """The program was there at start, or nobody looked; now it is not."""
    return f"⚠ {name}: the program “{quoted(program, 200)}” was not found. {install}"


def not_started(name: str, cause: str) -> str:
    """The kernel would not run it."""
    return f"⚠ {name} could not be started: {quoted(cause)}."


def too_long(name: str, limit_bytes: int) -> str:
    """No way to hand this message over."""
    return (
        f"⚠ This message is too long for {name}, which takes at most {limit_bytes // 1000} kB at "
        "once. Send it in parts, or put the text into a file in the working directory and ask "
        "about that."
    )


def left_out(count: int) -> str:
    """In the place of what nobody kept."""
    return f"[… {count} bytes left out …]"


def _ended(code: int) -> str:
    return f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"


def _said(stderr: str) -> str:
    text = inert(_UNPRINTABLE.sub(" ", replace_surrogates(redact(stderr)))).strip()
    if not text:
        return ""
    longest = max((len(run) for run in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f" It said:\n\n{fence}\n{text}\n{fence}"


# --- ollama


def ollama_unreachable(host: str, cause: str, model: str) -> str:
    """Nobody answered at its address."""
    return (
        f"⚠ ollama cannot be reached at {quoted(host, 200)}: {quoted(cause)}. Is the server "
        f"running there, and has the model been pulled (`ollama pull {quoted(model, 100)}`)?"
    )


def ollama_error(status: int, said: str) -> str:
    """It answered with an error."""
    return f"⚠ ollama answered HTTP {status}: {quoted(redact(said)) or 'without a word'}"


def ollama_unreadable() -> str:
    """It answered with something else."""
    return "⚠ ollama's answer could not be read: it is not what its API promises."


# --- the owner's terminal, before any task (worker.md §4)


def missing(adapter: str, program: str, setting: str, install: str) -> str:
    """The program is not there."""
    where = f" ({setting} names another)" if setting else ""
    how = "is not there, or may not be executed" if "/" in program else "is not on PATH"
    return (
        f"the adapter {adapter} needs the program “{quoted(program, 200)}”, which {how}{where}. "
        f"{install}"
    )


def described(adapter: str, program: str) -> str:
    """The one line for log and status."""
    return f"{adapter}: {quoted(program, 200)}"


def ollama_absent(host: str, cause: str) -> str:
    """No server."""
    return (
        f"ollama does not answer at {quoted(host, 200)}: {quoted(cause)}. Start it (`ollama "
        "serve`), or name the right server in OLLAMA_HOST"
    )


def ollama_model_absent(host: str, model: str, known: tuple[str, ...]) -> str:
    """A server without the model."""
    have = ", ".join(quoted(name, 80) for name in known[:20]) or "none"
    return (
        f"ollama at {quoted(host, 200)} does not have the model “{quoted(model, 100)}” (it has: "
        f"{have}). Get it with: ollama pull {quoted(model, 100)}; AGENT_CONNECT_OLLAMA_MODEL "
        "names another"
    )


def bad_ollama_host(text: str) -> str:
    """An address nobody can call."""
    return (
        f"OLLAMA_HOST is “{quoted(redact(text), 200)}”: it must be an address such as "
        "http://localhost:11434 or localhost:11434"
    )
