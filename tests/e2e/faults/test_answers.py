"""Answers that are awkward to deliver: at a message's limit, or naming files that may not go."""

import os
from pathlib import Path

from agentconnect.core.turns.wording import pointer_long
from tests.e2e.faults.stand import Stand, stand
from tests.support.worker import until

EDIT_UNITS = 4000
CHUNK = 12_000
TOO_BIG = 24 * 1024 * 1024 + 1


def long_text(length: int) -> str:
    """So many characters: a wide one at each edge, a code fence that is never closed."""
    head, tail = "🐧 long\n```python\n", "end🐧"
    lines = "".join(f"line {number:06}\n" for number in range(length // 12))
    return head + lines[: length - len(head) - len(tail)] + tail


async def ask(case: Stand, text: str, room: str) -> str:
    """Ask for exactly this answer in a room; what the relay was given as the answer."""
    (case.repo / "answer.txt").write_text(text)
    source = await case.relay.say("read answer.txt", room=room)
    await case.closed(source)
    (task,) = await case.relay.relay.tasks_of(source)
    return str(task.answer)


async def test_answers_above_the_platforms_limit_vanish_without_a_word(tmp_path: Path) -> None:
    """D18: what fits is edited in; what does not is a message of its own, and a pointer says so."""
    async with stand(tmp_path) as case:
        await case.start()
        for length in (3998, 3999, 4000, 4001, 50_000):
            room = await case.relay.relay.create_room(
                str(length), case.relay.owner, (case.relay.agent,)
            )
            text = long_text(length)
            assert len(text) == length
            assert await ask(case, text, room) == text
            fits = len(text.encode("utf-16-le")) // 2 <= EDIT_UNITS

            async def complete(room: str = room, fits: bool = fits) -> bool:
                found = await case.texts(room)
                return fits or (len(found) > 1 and found[0] == pointer_long())

            await until(complete, f"the pointer to {length} characters")
            found = await case.texts(room)
            if fits:
                assert found == [text]
            elif length <= CHUNK:
                assert found == [pointer_long(), text]
            else:
                assert whole(found[1:]) == whole([text])


def whole(pieces: list[str]) -> list[str]:
    """The lines of a text in pieces, without the fences that pieces open and close."""
    return [line for piece in pieces for line in piece.splitlines() if not line.startswith("```")]


def awkward(repo: Path, outside: Path) -> list[str]:
    """Paths that must not be sent, made in a folder."""
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (outside / "twice").write_text("secret")
    (repo / "link").symlink_to("/etc/passwd")
    (repo / "folder").symlink_to(outside)
    os.mkfifo(repo / "pipe")
    (repo / "plain").mkdir()
    (repo / "hard").hardlink_to(outside / "twice")
    with (repo / "big").open("wb") as file:
        file.truncate(TOO_BIG)
    outside_names = ["folder/secret", "../outside/secret", str(outside / "secret")]
    return ["link", *outside_names, "pipe", "plain", "hard", "big", "gone.txt"]


async def test_files_that_may_not_leave_are_named_with_a_reason(tmp_path: Path) -> None:
    """D19: none of them is uploaded, each is named in the reply, and a good one arrives with it."""
    async with stand(tmp_path) as case:
        await case.start()
        bad = awkward(case.repo, tmp_path / "outside")
        (case.repo / "good.txt").write_text("good")
        text = "Here.\n" + "\n".join(f"[file: {name}]" for name in (*bad, "good.txt"))
        await ask(case, text, case.relay.room)
        await case.settled()
        files = [m for m in await case.mine() if m.kind == "file"]
        assert len(files) == 1
        (reply,) = [found for found in await case.texts() if found.startswith("Here.")]
        for name in bad:
            assert f"[attachment not sent: {name} (" in reply
        assert "good.txt" not in reply
        assert "[file:" not in reply


async def test_a_file_name_over_two_lines_costs_only_its_line(tmp_path: Path) -> None:
    """D19: a name with a line break is no file; the text after it is still there."""
    async with stand(tmp_path) as case:
        await case.start()
        (case.repo / "a\nb.txt").write_text("x")
        await ask(case, "Before.\n[file: a\nb.txt]\nAfter.", case.relay.room)
        await case.settled()
        assert not [m for m in await case.mine() if m.kind == "file"]
        assert (await case.texts())[-1].endswith("After.")
