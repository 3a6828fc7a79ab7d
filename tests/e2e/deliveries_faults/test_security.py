"""Late results and what they may not do: foreign files, people who left, secrets."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import trio

from tests.e2e.deliveries_faults import matrix
from tests.e2e.deliveries_faults.rig import Json, Late, late, link
from tests.e2e.faults.stand import UPLOAD
from tests.support.worker import until

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2"
LISTED, UNCHECKED = "AGENT_CONNECT_ACP_COLLABORATORS", "AGENT_CONNECT_UNCHECKED_COLLABORATORS"


def plain_path(own: Path, other: Path) -> str:
    return (other / "private.txt").as_uri()


def symlink(own: Path, other: Path) -> str:
    (own / "a.txt").symlink_to(other / "private.txt")
    return (own / "a.txt").as_uri()


def linked_folder(own: Path, other: Path) -> str:
    (own / "sub").symlink_to(other)
    return (own / "sub" / "private.txt").as_uri()


def hard_link(own: Path, other: Path) -> str:
    os.link(other / "private.txt", own / "a.txt")
    return (own / "a.txt").as_uri()


def dots(own: Path, other: Path) -> str:
    return f"file://{own}/../{other.name}/private.txt"


def encoded_dots(own: Path, other: Path) -> str:
    return f"file://{own}/%2e%2e/{other.name}/private.txt"


def encoded_twice(own: Path, other: Path) -> str:
    return f"file://{own}/%252e%252e/{other.name}/private.txt"


def encoded_slash(own: Path, other: Path) -> str:
    return f"file://{own}/..%2f{other.name}%2fprivate.txt"


def folder_in_place(own: Path, other: Path) -> str:
    own.rename(own.with_name("aside"))
    own.symlink_to(other)
    return (own / "private.txt").as_uri()


WAYS: tuple[Callable[[Path, Path], str], ...] = (
    plain_path,
    symlink,
    linked_folder,
    hard_link,
    dots,
    encoded_dots,
    encoded_twice,
    encoded_slash,
    folder_in_place,
)


async def test_no_way_to_another_conversations_file(tmp_path: Path) -> None:
    """However it is addressed: Final, nothing of the delivery is posted, in no room."""
    async with late(tmp_path) as case:
        relay = case.relay
        two = await relay.relay.create_room("Two", relay.owner, (relay.agent,))
        await case.listening()
        to, other = await case.told(), await case.told(room=two)
        link(other["export_dir"], "private.txt", "of the second room")
        posts = case.posts()
        for way in WAYS:
            for leftover in ("a.txt", "sub"):
                (Path(to["export_dir"]) / leftover).unlink(missing_ok=True)
            uri = way(Path(to["export_dir"]), Path(other["export_dir"]))
            params = {"id": way.__name__, "binding": to["binding"], "text": "x"}
            answer = await case.deliver(way.__name__, {**params, "files": [{"uri": uri}]})
            told = answer["outcome"], answer["reason"]
            assert (way.__name__, "final", "rejected") == (way.__name__, *told)
            assert "second room" not in str(answer)
        assert posts == case.posts()
        assert [] == [*await case.late(), *await case.late(two)]


async def test_a_file_exchanged_between_judgement_and_post(tmp_path: Path) -> None:
    """Another conversation's file is put into its place: it is not what was accepted."""
    async with late(tmp_path) as case:
        relay = case.relay
        two = await relay.relay.create_room("Two", relay.owner, (relay.agent,))
        await case.listening()
        to, other = await case.told(), await case.told(room=two)
        link(other["export_dir"], "private.txt", "of the second room")
        files = [
            {"uri": link(to["export_dir"], "first.txt", "one")},
            {"uri": link(to["export_dir"], "second.txt", "two")},
        ]
        held = case.plan(UPLOAD, hold=trio.Event())
        case.send("a1", {"id": "a1", "binding": to["binding"], "files": files})
        await matrix.met(held, case)
        private = Path(other["export_dir"]) / "private.txt"
        private.rename(Path(to["export_dir"]) / "second.txt")
        matrix.let_go(held)
        answer = await case.answer("a1")
        assert ("final", "rejected", [0]) == (
            answer["outcome"],
            answer["reason"],
            [part["part"] for part in answer["delivered"]],
        )
        await case.ended("a1")
        file, notice = await case.late()
        assert ("one", True) == (await case.content(file), "second.txt" in notice.body)


async def add_bob(case: Late) -> str:
    """A collaborator of the room."""
    bob, _ = await case.relay.relay.add_person(case.relay.room, "Bob", tier="collaborator")
    return bob


@pytest.mark.parametrize("gone", ["removed from the list", "opt-out unset"])
async def test_a_collaborator_who_is_no_longer_let_in(tmp_path: Path, gone: str) -> None:
    """After the restart nothing new of theirs is taken; a known id has its stored answer."""
    async with late(tmp_path) as case:
        bob = await add_bob(case)
        await case.listening(**{LISTED: bob, UNCHECKED: "1"})
        to = await case.told(sender=bob)
        old = {"id": "old", "binding": to["binding"], "text": "before"}
        first = await case.deliver("old", old)
        assert "delivered" == first["outcome"]
        left = {LISTED: bob} if gone == "opt-out unset" else {UNCHECKED: "1"}
        await case.again(**left)
        assert first == await case.deliver("resend", old)
        answer = await case.deliver("new", {**old, "id": "new"})
        assert ("final", "rejected") == (answer["outcome"], answer["reason"])
        assert ["before"] == [message.body for message in await case.late()]


async def test_a_collaborator_who_was_made_a_guest(tmp_path: Path) -> None:
    """The first turn that is not attested takes the binding away, without a restart."""
    async with late(tmp_path) as case:
        bob = await add_bob(case)
        await case.listening(**{LISTED: bob, UNCHECKED: "1"})
        to = await case.told(sender=bob)
        assert "delivered" == (await case.deliver("a", of(to, "a")))["outcome"]
        async with case.relay.visitor() as browser:
            path = f"/page/rooms/{case.relay.room}/members"
            made = await browser.post(path, json={"user_id": bob, "tier": "guest"})
            assert 200 == made.status_code, made.text
        await case.relay.relay.ask(case.relay.room, bob, "hello?", 60)
        answer = await case.deliver("b", of(to, "b"))
        assert ("final", "rejected") == (answer["outcome"], answer["reason"])


def of(to: Json, ident: str, **more: object) -> Json:
    """A request."""
    return {"id": ident, "binding": to["binding"], "text": f"text {ident}", **more}


async def test_a_secret_on_the_owners_binding_while_a_collaborator_is_listed(
    tmp_path: Path,
) -> None:
    """A collaborator's turn gets no binding and may steer the agent to the owner's: it is scanned.

    In the text, in a text file, in a word at once; what is clean goes out.
    """
    async with late(tmp_path) as case:
        bob = await add_bob(case)
        await case.listening(**{LISTED: bob})
        to = await case.told()
        asked = await case.told(sender=bob)
        assert (None, None) == (asked["binding"], asked["destination"])
        posts = case.posts()
        secret = {"uri": link(to["export_dir"], "notes.txt", f"hello\n{SECRET}\n")}
        for name, params in (
            ("text", of(to, "text", text=f"here: {SECRET}")),
            ("file", of(to, "file", files=[secret])),
        ):
            answer = await case.deliver(name, params)
            told = answer["outcome"], answer["reason"], case.entry(name)
            assert (name, "final", "rejected", None) == (name, *told)
            assert SECRET not in str(answer)
        word = {"destination": to["destination"], "text": SECRET}
        case.send("word", word, "_ag2/notify")
        assert False is (await case.answer("word"))["posted"]
        assert posts == case.posts()
        clean = {"uri": link(to["export_dir"], "clean.txt", "nothing to see")}
        assert (
            "delivered" == (await case.deliver("clean", of(to, "clean", files=[clean])))["outcome"]
        )
        assert 2 == len(await case.late())
        assert SECRET not in case.worker.output()


async def test_links_planted_in_an_export_folder_are_not_followed(tmp_path: Path) -> None:
    """The folder of a binding that has expired goes at a start; what its links point to stays."""
    async with late(tmp_path) as case:
        await case.listening()
        to = await case.told()
        kept = tmp_path / "kept"
        kept.mkdir()
        (kept / "precious.txt").write_text("precious")
        folder = Path(to["export_dir"])
        (folder / "link").symlink_to(kept)
        (folder / "file").symlink_to(kept / "precious.txt")
        await case.kill()
        with closing(sqlite3.connect(case.store)) as store, store:
            store.execute("UPDATE bindings SET expires = 1")
        await case.listening()
        await until(lambda: not folder.exists(), "its removal")
        assert "precious" == (kept / "precious.txt").read_text()
