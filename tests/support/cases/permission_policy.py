"""Cases of the permission policy: trees on disk, a tool call, the decision.

``tree`` lines describe folders below a scratch directory; ``options`` lines name option lists;
``case`` lines are run. ``$BASE``, ``$ROOT``, ``$OUT`` and ``$HOME`` stand in every string.
"""

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentconnect.acp import resolve_all
from agentconnect.core.acp.permission import judge, read_options, targets
from agentconnect.core.acp.updates import read_tool_call
from tests.support.cases.case import Case, CaseError, Given, Record


def cases(records: Sequence[Record]) -> Iterator[Case]:
    """The ``case`` records, each run in a tree of its own."""
    trees: dict[str, Given] = {}
    options: dict[str, Any] = {}
    for line, value in records:
        match value.get("record"):
            case "tree":
                trees[str(value["name"])] = value
            case "options":
                options[str(value["name"])] = value["options"]
            case "case":
                yield _case(line, value, trees, options)
            case other:
                raise CaseError(f"line {line} has the unknown record {other!r}")


def _case(line: int, value: Given, trees: dict[str, Given], options: dict[str, Any]) -> Case:
    try:
        tree = trees[value["tree"]]
        offered = value["options"]
        offered = options[offered] if isinstance(offered, str) else offered
        given = {"cwd": value["cwd"], "tool_call": value["tool_call"], "options": offered}
        expected = dict(value["expect"])
    except KeyError as error:
        raise CaseError(f"line {line} lacks or names an unknown {error}") from error
    return Case(
        name=str(value.get("id", f"line {line}")),
        line=line,
        given=given,
        expected=expected,
        run=lambda: _decide(tree, given),
    )


def _decide(tree: Given, given: dict[str, Any]) -> object:
    with tempfile.TemporaryDirectory(prefix="policy-") as scratch:
        base = os.path.realpath(scratch)
        names = {"$BASE": base}
        for name, key in (("$ROOT", "root"), ("$OUT", "out"), ("$HOME", "home")):
            names[name] = _put(tree[key], names)
        _build(Path(base), tree["entries"], names)
        with _home(names["$HOME"]):
            found = _judged(_put(given, names))
        return _unput(found, names)


def _judged(given: dict[str, Any]) -> dict[str, object]:
    call = read_tool_call(given["tool_call"])
    root = os.path.realpath(given["cwd"])
    decision = judge(
        call,
        read_options(given["options"]),
        roots=(root,),
        real=resolve_all(targets(call), root),
    )
    return {
        "allowed": decision.allowed,
        "option_id": decision.option_id,
        "reason": decision.reason.value,
        "paths": list(decision.paths),
        "outside": list(decision.outside),
        "title": decision.title,
    }


def _put(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, str):
        for name, real in names.items():
            value = value.replace(name, real)
        return value
    if isinstance(value, list):
        return [_put(item, names) for item in value]
    if isinstance(value, dict):
        return {key: _put(item, names) for key, item in value.items()}
    return value


def _unput(value: Any, names: dict[str, str]) -> Any:
    """The placeholders back in place of whole leading folders, the longest first."""
    if isinstance(value, str):
        for name, real in sorted(names.items(), key=lambda pair: -len(pair[1])):
            value = re.sub(rf"{re.escape(real)}(?=/|$)", name, value)
        return value
    if isinstance(value, list):
        return [_unput(item, names) for item in value]
    if isinstance(value, dict):
        return {key: _unput(item, names) for key, item in value.items()}
    return value


def _build(base: Path, entries: Sequence[Sequence[str]], names: dict[str, str]) -> None:
    for kind, name, *rest in entries:
        path = base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "dir":
            path.mkdir(parents=True, exist_ok=True)
        elif kind == "file":
            path.write_text("x", encoding="utf-8")
        else:
            path.symlink_to(_put(rest[0], names))


@contextmanager
def _home(path: str) -> Iterator[None]:
    before = os.environ.get("HOME")
    os.environ["HOME"] = path
    try:
        yield
    finally:
        if before is None:
            del os.environ["HOME"]
        else:
            os.environ["HOME"] = before
