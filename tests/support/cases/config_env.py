"""Cases of the config file: :mod:`agentconnect.config.envfile` and ``export``.

A line is ``kind``, ``id`` and ``expect``; ``upstream``, where given, is what the reference does.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from agentconnect.config import envfile, export
from agentconnect.config.envfile import About
from agentconnect.config.table import NAMES, RETIRED
from agentconnect.core.errors import SettingsError
from tests.support.cases.case import Case, CaseError, Given, Record

_COUNTED = (About.DUPLICATED, About.IGNORED, About.PERMISSIONS)
_SHOW = "import json, os; print(json.dumps(dict(os.environ)))"


def cases(records: Sequence[Record]) -> Iterator[Case]:
    """One case a line."""
    for line, value in records:
        run = _RUNS.get(str(value.get("kind")))
        if run is None or not isinstance(value.get("expect"), dict):
            raise CaseError(f"line {line} needs a `kind` of {', '.join(_RUNS)} and an `expect`")
        yield Case(
            name=f"{value['kind']} {value.get('id', line)}",
            line=line,
            given={key: value[key] for key in value.keys() - {"expect", "upstream", "note"}},
            expected=_sorted(value["expect"]),
            run=partial(run, value),
        )


def _sorted(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """The names that were applied have no order."""
    return {name: sorted(value) if name == "applied" else value for name, value in outcome.items()}


def _parse(case: Given) -> dict[str, Any]:
    parsed = envfile.parse(case["text"])
    return {
        "values": parsed.values,
        "ignored": list(parsed.ignored),
        "duplicated": list(parsed.duplicated),
    }


def _apply(case: Given) -> dict[str, Any]:
    values, env = envfile.parse(case["text"]).values, case["env"]
    applied = envfile.apply(values, env)
    lines = export.lines(values, env)
    for shell in shells():
        evaluated = _evaluate(shell, lines, env)
        if evaluated != applied.environment:
            return {f"evaluated by {shell}": evaluated, "env_after": applied.environment}
    return {
        "applied": sorted(applied.applied),
        "overridden": list(applied.overridden),
        "env_after": applied.environment,
        "exported": [line.removeprefix("export ").partition("=")[0] for line in lines],
    }


def shells() -> tuple[str, ...]:
    """The POSIX shells of this machine, each program once."""
    found = (shutil.which(name) for name in ("sh", "dash", "bash"))
    return tuple({os.path.realpath(path): path for path in found if path}.values())


def _evaluate(shell: str, lines: tuple[str, ...], env: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program that a shell starts after ``eval`` of the lines."""
    script = 'eval "$LINES"\nunset LINES\nexec "$PYTHON" -I -c "$SHOW"'
    given = {**env, "LINES": "\n".join(lines), "PYTHON": sys.executable, "SHOW": _SHOW}
    done = subprocess.run(
        [shell, "-c", script], env=given, capture_output=True, check=True, timeout=60
    )
    after: dict[str, str] = json.loads(done.stdout)
    ours = {"PYTHON", "SHOW", "PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"} - set(env)
    return {name: value for name, value in after.items() if name not in ours}


def _warn(case: Given) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.env"
        path.write_text(case["text"], encoding="utf-8")
        path.chmod(int(case["mode"], 8))
        notices = envfile.warnings(envfile.read(path), known=NAMES, retired=RETIRED)
    return {
        "warnings": [
            {"about": notice.about.value, "keys": list(notice.keys)}
            for notice in notices
            if notice.about in _COUNTED
        ]
    }


def _locate(case: Given) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        base, home = Path(scratch, "base"), Path(scratch, "home")
        base.mkdir()
        home.mkdir()
        places = {"$BASE": str(base), "$HOME": str(home)}
        env = {name: _placed(value, places) for name, value in case["env"].items()}
        for name in case["files"]:
            target = Path(_placed(name, places))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.mkdir() if name.endswith("/") else target.touch()
        flag = None if case["flag"] is None else _placed(case["flag"], places)
        try:
            found = envfile.locate(flag, {"HOME": str(home), **env})
        except SettingsError as error:
            expected = _placed(case["expect"].get("path", ""), places)
            named = case["expect"].get("path") if f"{expected}," in str(error) else None
            return {"result": "error", "path": named}
        if found is None:
            return {"result": "none"}
        text = str(found)
        for name, place in places.items():
            text = text.replace(place, name)
        return {"result": "file", "path": text}


def _placed(text: str, places: Mapping[str, str]) -> str:
    for name, place in places.items():
        text = text.replace(name, place)
    return text


_RUNS: dict[str, Callable[[Given], object]] = {
    "parse": _parse,
    "apply": _apply,
    "warn": _warn,
    "locate": _locate,
}
