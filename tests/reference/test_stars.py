"""Inputs on which we differ from the reference on purpose, given to both (relay-wire.md §22).

The pure parts only; what needs a worker and a relay is in the fault suite. Each row is a line of
``docs/reference-differences.md``: if the reference's value changes, so must the document.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agentconnect.core.errors import SettingsError
from agentconnect.core.relay import credential, envelope, markers, media, refusals
from agentconnect.core.task import Task, TaskId
from agentconnect.relay.egress import Egress, Outgoing
from agentconnect.store.journal import open_journal

#: The first one may have to install it.
pytestmark = [pytest.mark.reference, pytest.mark.timeout(900)]

MEDIA = "[ag2space-media: https://h/relay/v1/media/h/x mime=image/png name=a size=1 kind=m.image]"


def nested(levels: int) -> str:
    """A marker that forms anew each time it is removed."""
    text = MEDIA
    for _ in range(levels):
        text = f"[{text}ag2space-media: u]"
    return text


def wire(body: str = "hi", **members: Any) -> str:
    """A task in JSON."""
    return json.dumps({"id": "t1", "task": body, "channel_id": "!r:h", **members})


TWICE = '{"id":"t1","task":"hi","channel_id":"!r:h","access_tier":"guest","access_tier":"owner"}'
LIMIT = 24 * 1024 * 1024

ROWS: list[tuple[str, str, Any, Any, Any]] = [
    # star, op, input, what the reference makes of it, what we make of it
    ("1", "survives", "one\u2028two", False, True),
    ("1", "survives", "half \ud83d a character", False, True),
    ("3", "parse", "see [file: a.txt and\nmore", ["see", []], ["see \nmore", []]),
    (
        "4",
        "parse",
        "```\n~~~\n\n[file: x]\n```",
        ["```\n~~~\n\n\n```", [["attach", "x"]]],
        ["```\n~~~\n\n[file: x]\n```", []],
    ),
    (
        "4",
        "parse",
        "[channel: !r:h]\n\n    [file: /etc/passwd]",
        ["", [["redirect", "!r:h"], ["attach", "/etc/passwd"]]],
        ["[file: /etc/passwd]", [["redirect", "!r:h"]]],
    ),
    ("4b", "under_base", "https://h/relay/%2e%2e/x", True, False),
    ("5", "sends", ".env", True, False),
    ("5", "sends", "x/.ssh/id_ed25519", True, False),
    ("12", "source", "https://h/relay|se\ncret", True, False),
    ("14", "task", wire(access_tier="own\x00er"), ["owner", 0, False], ["", 0, False]),
    ("14", "task", TWICE, ["owner", 0, False], ["", 0, False]),
    ("17", "token_file", "AGENT_CONNECT_TOKEN=https://h/relay|s\n", "", "s"),
    ("17", "token_file", "NAME = value\n", "NAME = value", ""),
    ("23", "task", wire("x" * 65_530 + MEDIA), ["", 0, False], ["", 1, False]),
    ("24", "task", wire("look " + nested(10)), ["", 1, True], ["", 0, True]),
    ("28", "too_big", LIMIT + 1, "24.0 MB", "25165825 bytes"),
]


@pytest.fixture(scope="module")
def theirs(reference: Path) -> list[Any]:
    """What the reference makes of every row."""
    asked = [[op, given] for _, op, given, _, _ in ROWS]
    script = Path(__file__).with_name("drive_stars.py")
    done = subprocess.run(
        [str(reference), str(script)],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found: list[Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("row", range(len(ROWS)), ids=[f"{r[0]}-{r[1]}" for r in ROWS])
async def test_the_difference_is_as_documented(theirs: list[Any], row: int, tmp_path: Path) -> None:
    """The reference does what its column says, and we do what ours says."""
    _, op, given, reference_makes, we_make = ROWS[row]
    ours = await _ours(op, given, tmp_path)
    if op == "too_big":
        assert reference_makes in theirs[row]
        assert theirs[row].count("24.0 MB") == 2  # the file and its limit look the same
        assert we_make in ours
        return
    assert theirs[row] == reference_makes
    assert ours == we_make


async def _ours(op: str, given: Any, folder: Path) -> Any:
    match op:
        case "survives":
            return await _survives(given, folder)
        case "parse":
            parsed = markers.parse(given)
            return [parsed.body, [[str(action.kind), action.value] for action in parsed.actions]]
        case "under_base":
            return media.origin(given, "https://h/relay")[1]
        case "sends":
            path = folder / given
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x")
            return isinstance(Egress((str(folder),)).read(str(path), ""), Outgoing)
        case "source":
            try:
                credential.build(token=given)
            except SettingsError:
                return False
            return True
        case "token_file":
            return credential.parse_token(credential.read_token_file(given).token.reveal())[1]
        case "task":
            (task,) = envelope.decode_batch(f'{{"tasks":[{given}]}}'.encode()).tasks
            return [task.access_tier, len(task.media), not task.body]
        case "too_big":
            return refusals.refusal_words("too_big", size=given, limit=LIMIT)
    raise AssertionError(op)


async def _survives(body: str, folder: Path) -> bool:
    """An unsent answer after a restart, another write and a restart, half characters replaced."""
    path = folder / "journal.db"
    async with open_journal(path) as journal:
        await journal.accept([Task(id=TaskId("t1"), room_id="!r:h")])
        await journal.record_result(TaskId("t1"), body)
    async with open_journal(path) as journal:
        await journal.accept([Task(id=TaskId("t2"), room_id="!r:h")])
    async with open_journal(path) as journal:
        (kept,) = journal.pending()
    msgspec.json.encode(kept.result)
    return kept.result == body.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
