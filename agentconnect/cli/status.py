"""``agent-connect status``: the verdict on status files, and the exit code for a supervisor.

Reads files and looks whether a pid is there, nothing else; it loads neither trio nor httpx, since
supervisors run it often (worker.md §1, §15).
"""

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from agentconnect.cli.console import put
from agentconnect.cli.options import Options
from agentconnect.config import envfile, settings
from agentconnect.core.errors import StoreUnreadableError
from agentconnect.core.status import Judgement, StatusView, Verdict, judge
from agentconnect.core.status_text import Process, Seen, lines
from agentconnect.store.layout import Layout
from agentconnect.store.peek import peek

WATCH_S = 1.0
STATUS_BYTES = 1024 * 1024
_ANEW = "\x1b[H\x1b[2J"


def run_status(options: Options) -> int:
    """Print the verdict on each file; the highest exit code of them."""
    paths = [Path(envfile.expand_home(word, os.environ)) for word in options.words]
    paths = paths or [_own_file(options)]
    last = 0
    try:
        if not options.watch:
            seen = [look(path) for path in paths]
            last = _exit_code(seen)
            _print(_shown(seen, as_json=options.json), as_json=options.json)
            return last
        known = ""
        while True:
            seen = [look(path) for path in paths]
            last = _exit_code(seen)
            known = _redraw(seen, known, as_json=options.json)
            time.sleep(WATCH_S)
    except KeyboardInterrupt:
        return last
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return last


def _own_file(options: Options) -> Path:
    """Where the worker of these settings writes. Raises: SettingsError."""
    path = envfile.locate(options.config, os.environ)
    values = envfile.read(path).parsed.values if path is not None else {}
    chosen = settings.load(os.environ, values, config_file=path).settings
    return chosen.status_file or Layout(state_dir=chosen.workspace).status


def look(path: Path) -> Seen:
    """One file, judged by the clock and the processes of this machine. Never raises."""
    try:
        raw = peek(path, STATUS_BYTES)
    except StoreUnreadableError as error:
        refused = Judgement(verdict=Verdict.ERROR, detail=str(error))
        return Seen(path=str(path), judgement=refused)
    judgement = judge(raw, time.time())
    view = judgement.status
    if raw is None or view is None:
        return Seen(path=str(path), judgement=judgement)
    return Seen(
        path=str(path),
        judgement=judgement,
        process=_process(view.pid),
        extra={
            name: value
            for name, value in _object(raw).items()
            if name not in StatusView.__struct_fields__
        },
    )


def _process(pid: int | None) -> Process:
    if pid is None or pid <= 0:
        return Process.UNKNOWN
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return Process.GONE
    except PermissionError:
        return Process.RUNNING
    except (OSError, OverflowError):
        return Process.UNKNOWN
    return Process.RUNNING


def _exit_code(seen: list[Seen]) -> int:
    return max(one.judgement.exit_code for one in seen)


def _redraw(seen: list[Seen], known: str, *, as_json: bool) -> str:
    """A terminal is drawn anew; anything else gets a block for each change. What is known now."""
    if sys.stdout.isatty() and not as_json:
        print(_ANEW + _shown(seen, as_json=False), flush=True)
        return known
    now = "\n".join(line for one in seen for line in lines(one, 0.0, moving=False))
    if now != known:
        _print(_shown(seen, as_json=as_json), as_json=as_json)
    return now


def _print(text: str, *, as_json: bool) -> None:
    if as_json:
        put([text])
    else:
        print(text, flush=True)


def _shown(seen: list[Seen], *, as_json: bool) -> str:
    if as_json:
        objects = [_as_object(one) for one in seen]
        found = objects[0] if len(objects) == 1 else objects
        return msgspec.json.encode(found, order="sorted").decode()
    now = time.time()
    return "\n".join(line for one in seen for line in lines(one, now))


def _as_object(seen: Seen) -> dict[str, object]:
    judged = seen.judgement
    return {
        "file": seen.path.encode("utf-8", "replace").decode(),
        "verdict": judged.verdict.value,
        "exit_code": judged.exit_code,
        "state": judged.state,
        "detail": judged.detail.encode("utf-8", "replace").decode(),
        "age_s": None if judged.age_s is None else round(judged.age_s, 3),
        "process": seen.process.value,
        "status": _status(seen),
    }


def _status(seen: Seen) -> Mapping[str, object] | None:
    """The file's own object, unknown blocks included; None where there is none."""
    view = seen.judgement.status
    if view is None:
        return None
    return {**msgspec.to_builtins(view), **seen.extra}


def _object(raw: bytes) -> Mapping[str, object]:
    try:
        found = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
