"""Cases of Channel Delivery: one object a line, ``kind`` says what is tried (§18 of its spec).

A runner takes the line, ``$rep`` already expanded, and returns what happened as an object; of that
the members that the line's ``expect`` names are compared. In the kinds ``store`` and ``host`` each
``op`` carries its own ``expect``: there a runner returns the list of what those ops gave.

Kinds of ``WAITING`` have no runner yet; their lines are left out until one stands in ``RUNNERS``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from agentconnect.core.daemon.text import CUT_MARKER, cut, is_blank, units
from tests.support.cases.case import Case, CaseError, Given, Record

Runner = Callable[[Given], object]


def _blank(line: Given) -> object:
    return {"blank": is_blank(line["text"])}


def _cut(line: Given) -> object:
    made = cut(line["text"])
    marked = made.endswith(CUT_MARKER)
    kept = made.removesuffix(CUT_MARKER)
    assert line["text"].startswith(kept)
    return {"units": units(made), "ends_with_marker": marked, "kept_units": units(kept)}


RUNNERS: Mapping[str, Runner] = {"blank": _blank, "cut": _cut}

WAITING = frozenset(
    (
        *("delivery", "capture", "store", "reverse", "host", "prompt", "task_create"),
        *("task_patch", "notify", "auth", "adapter"),
    )
)


def cases(records: Sequence[Record]) -> Iterator[Case]:
    """Every line whose kind has a runner."""
    for line, value in records:
        kind, expect = value.get("kind"), value.get("expect")
        if not isinstance(kind, str) or not isinstance(expect, dict):
            raise CaseError(f"line {line} needs a `kind` and an `expect` object")
        if kind in WAITING:
            continue
        runner = RUNNERS.get(kind)
        if runner is None:
            known = ", ".join(sorted(RUNNERS))
            raise CaseError(f"line {line} has the unknown kind {kind!r} (of: {known})")
        by_op = [op["expect"] for op in value.get("ops", ()) if "expect" in op]
        yield Case(
            name=f"{kind} {value.get('name', f'line {line}')}",
            line=line,
            given={key: item for key, item in value.items() if key not in ("name", "expect")},
            expected=_expand(line, by_op or expect),
            run=partial(_run, runner, line, value, by_op or expect),
        )


def _run(runner: Runner, line: int, value: Given, expect: object) -> object:
    expanded = _expand(line, value)
    assert isinstance(expanded, dict)
    return _named(expect, runner(expanded))


def _named(expect: object, actual: object) -> object:
    """Of ``actual`` what ``expect`` speaks of."""
    if isinstance(expect, dict) and isinstance(actual, dict):
        return {key: _named(expect[key], actual[key]) for key in expect if key in actual}
    if isinstance(expect, list) and isinstance(actual, list) and len(expect) == len(actual):
        return [_named(one, two) for one, two in zip(expect, actual, strict=True)]
    return actual


def _expand(line: int, value: Any) -> Any:
    """``value`` with each ``{"$rep": [s, n, tail?]}`` replaced by ``s`` n times and ``tail``."""
    if isinstance(value, dict):
        if set(value) != {"$rep"}:
            return {key: _expand(line, item) for key, item in value.items()}
        try:
            piece, times, *tail = value["$rep"]
            return piece * times + "".join(tail)
        except (TypeError, ValueError) as error:
            raise CaseError(f"line {line} holds a broken `$rep`") from error
    if isinstance(value, list):
        return [_expand(line, item) for item in value]
    return value
