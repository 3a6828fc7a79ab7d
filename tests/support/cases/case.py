"""What a case is, and how its two values are compared."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Given = Mapping[str, Any]


class CaseError(Exception):
    """A case file cannot be run as it stands; the sentence names the line."""


class Record(NamedTuple):
    """One line of a case file."""

    line: int
    value: Given


class Case(NamedTuple):
    """One thing to try: ``run`` gives the value that must match ``expected``."""

    name: str
    line: int
    given: object
    expected: object
    run: Callable[[], object]


Kind = Callable[[Sequence[Record]], Iterator[Case]]


def by_op(operations: Mapping[str, Callable[[Given], object]]) -> Kind:
    """A kind whose every line is ``name``, ``input`` with an ``op``, and ``expected``."""

    def cases(records: Sequence[Record]) -> Iterator[Case]:
        for line, value in records:
            given = value.get("input")
            if not isinstance(given, dict) or "expected" not in value:
                raise CaseError(f"line {line} needs an `input` object and an `expected` value")
            operation = operations.get(str(given.get("op")))
            if operation is None:
                known = ", ".join(sorted(operations))
                raise CaseError(f"line {line} has the unknown op {given.get('op')!r} (of: {known})")
            yield Case(
                name=str(value.get("name", f"line {line}")),
                line=line,
                given=given,
                expected=_expand_at(line, value["expected"]),
                run=_bound(operation, given, line),
            )

    return cases


def _bound(operation: Callable[[Given], object], given: Given, line: int) -> Callable[[], object]:
    def run() -> object:
        expanded = _expand_at(line, given)
        assert isinstance(expanded, dict)
        return operation(_Members(expanded, line))

    return run


def _expand_at(line: int, value: object) -> object:
    try:
        return expand(value)
    except (TypeError, ValueError) as error:
        raise CaseError(f"line {line} holds a broken `$cat`") from error


class _Members(dict[str, Any]):
    """A case's input; a member that an operation needs and the line lacks is the file's fault."""

    def __init__(self, values: Given, line: int) -> None:
        super().__init__(values)
        self._line = line

    def __missing__(self, key: str) -> object:
        raise CaseError(f"line {self._line} lacks the input `{key}`")


def expand(value: object) -> object:
    """``value`` with each ``{"$cat": [[piece, times], …]}`` replaced by the string it means."""
    if isinstance(value, dict):
        if set(value) == {"$cat"}:
            return "".join(piece * times for piece, times in value["$cat"])
        return {key: expand(item) for key, item in value.items()}
    if isinstance(value, list):
        return [expand(item) for item in value]
    return value


def matches(expected: object, actual: object) -> bool:
    """Whether ``actual`` is ``expected``: a tuple is a list, 1 is 1.0, but 1 is not true."""
    if isinstance(expected, dict):
        if set(expected) == {"$len", "$sha256"}:
            return isinstance(actual, str) and _digest(actual) == expected
        return (
            isinstance(actual, dict)
            and expected.keys() == actual.keys()
            and all(matches(item, actual[key]) for key, item in expected.items())
        )
    if isinstance(expected, (list, tuple)):
        return (
            isinstance(actual, (list, tuple))
            and len(expected) == len(actual)
            and all(matches(one, two) for one, two in zip(expected, actual, strict=True))
        )
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    return expected == actual


def _digest(text: str) -> dict[str, object]:
    sha256 = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return {"$len": len(text), "$sha256": sha256}
