"""Run in the reference environment: what its pure parts make of the inputs given as JSON."""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from ag2_relay_client import (  # type: ignore[import-not-found]
    credentials,
    egress,
    envelope,
    markers,
    media,
    transport,
)
from ag2_relay_client.journal import Journal  # type: ignore[import-not-found]


def parse(text: str) -> list[Any]:
    """An answer's body and its actions."""
    found = markers.parse(text)
    return [found.body, [list(action)[:2] for action in found.actions]]


def task(text: str) -> list[Any]:
    """A task in JSON: tier, number of attachments, whether the body is gone."""
    read = envelope.parse_task(json.loads(text))
    body, found = media.strip_markers(read.body)
    return [read.access_tier, len(found), not body]


def token_file(text: str) -> str:
    """The secret of a token file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "token"
        path.write_text(text)
        return str(credentials.read_token_file(path).secret)


def source(token: str) -> bool:
    """Whether a token is taken."""
    try:
        credentials.TokenSource(token=token)
    except credentials.CredentialError:
        return False
    return True


def under_base(url: str) -> bool:
    """Whether the bearer would travel there."""
    return bool(transport.under_base(url, "https://h/relay"))


def sends(name: str) -> bool:
    """Whether a file of that name inside a root may be sent."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder).resolve() / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        return bool(egress.EgressAllowlist([str(path.parents[name.count("/")])]).allows(str(path)))


def survives(body: str) -> bool:
    """Whether an unsent answer is there after a restart, another write and a restart."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.jsonl"
        first = Journal(path).load()
        first.accept("t1", "!r:h")
        try:
            first.record_result("t1", {"id": "t1", "body": body})
            second = Journal(path).load()
            second.accept("t2", "!r:h")
        except (OSError, ValueError):
            return False
        owed = dict(Journal(path).load().pending_results())
        return bool(owed.get("t1", {}).get("body") == body)


def too_big(size: int) -> str:
    """The words for a file over 24 MiB."""
    return str(egress._too_big(size, 24 * 1024 * 1024))


OPS = {
    made.__name__: made
    for made in (
        parse,
        task,
        token_file,
        source,
        under_base,
        sends,
        survives,
        too_big,
    )
}

if __name__ == "__main__":
    asked = json.load(sys.stdin)
    json.dump([OPS[op](argument) for op, argument in asked], sys.stdout)
