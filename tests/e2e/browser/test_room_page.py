"""The room page in a real browser: asking, files, reloads, restarts."""

import re
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
import trio
from playwright.sync_api import FilePayload, expect

from tests.e2e.browser.stage import Stage, Windows, finish, placeholder, play, until
from tests.support.relay import Relay

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


def picture(width: int = 60, height: int = 40) -> bytes:
    """A small PNG."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    rows = b"".join(b"\0" + bytes((30, 140, 120)) * width for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


async def test_the_placeholder_becomes_the_answer_in_place(
    tmp_path: Path, chromium_path: str
) -> None:
    """A sent message gets a running message, which turns into the answer without a reload."""
    go_on = trio.Event()

    async def script(relay: Relay, task: dict[str, Any]) -> None:
        placed = await placeholder(relay)
        await relay.op("edit", event_id=placed, body="⏳ On it...\n\nRead README.md")
        await relay.op("edit", event_id=placed, body="⏳ On it...\n\nCount the words (step 2)")
        await go_on.wait()
        await finish(relay, task, placed, "There are **42** words.")

    def scenario(stage: Stage, windows: Windows) -> None:
        stage.script = script
        me = windows.new()
        page = me.open(stage.link)
        expect(page).not_to_have_url(re.compile("k="))
        expect(page.locator("#timeline .empty h2")).to_have_text("Ask Helper something")
        page.evaluate("window.sameDocument = true")
        page.fill("#text", "How many words?")
        page.press("#text", "Enter")
        running = page.locator("article.running")
        expect(running.locator(".live-lead")).to_have_text("On it...")
        expect(running.locator(".step.now")).to_have_text("Count the words")
        expect(page.locator(".reaction")).to_contain_text("🫡")
        element = running.element_handle()
        trio.from_thread.run_sync(go_on.set)
        expect(page.locator("article.msg strong")).to_have_text("42")
        assert element is not None
        assert "There are 42 words." in element.inner_text()  # the very same element
        expect(page.locator("article.running")).to_have_count(0)
        expect(page.locator("article.msg")).to_have_count(2)
        assert page.evaluate("window.sameDocument") is True

    await play(tmp_path, chromium_path, scenario)


async def test_an_uploaded_picture_is_shown(tmp_path: Path, chromium_path: str) -> None:
    """A picked picture is previewed, sent with its caption as one message, shown, and opened."""

    def scenario(stage: Stage, windows: Windows) -> None:
        me = windows.new()
        page = me.open(stage.link)
        shot = FilePayload(name="shot.png", mimeType="image/png", buffer=picture())
        page.set_input_files("#file-picker", files=[shot])
        expect(page.locator(".preview")).to_contain_text("shot.png")
        page.fill("#text", "What is on it?")
        page.press("#text", "Enter")
        expect(page.locator(".preview")).to_have_count(0)
        image = page.locator("article.own .image img")
        expect(image).to_have_js_property("naturalWidth", 60)
        expect(page.locator("article.own .msg-body")).to_have_text("What is on it?")
        expect(page.locator("article.local")).to_have_count(0)
        page.click("article.own .image-open")
        expect(page.locator("dialog .viewer-image")).to_have_js_property("naturalWidth", 60)
        page.keyboard.press("Escape")
        expect(page.locator("dialog")).to_have_count(0)

    await play(tmp_path, chromium_path, scenario)


async def test_a_file_of_the_agent_opens_and_saves(tmp_path: Path, chromium_path: str) -> None:
    """A text file from the agent can be read in the page and saved as it is."""

    def scenario(stage: Stage, windows: Windows) -> None:
        page = windows.new(accept_downloads=True).open(stage.link)

        async def give() -> None:
            relay = stage.relay
            await relay.relay.post_file(relay.room, relay.agent, "totals.csv", b"a,1\nb,2\n")

        stage.call(give)
        page.click("[aria-label='Open totals.csv']")
        expect(page.locator(".viewer-text")).to_have_text("a,1\nb,2\n")
        with page.expect_download() as saved:
            page.click("dialog >> text=Save")
        assert saved.value.suggested_filename == "totals.csv"
        assert saved.value.path().read_bytes() == b"a,1\nb,2\n"

    await play(tmp_path, chromium_path, scenario)


async def test_a_reload_keeps_everything(tmp_path: Path, chromium_path: str) -> None:
    """After a reload the same room is open, with its messages and the draft, still signed in."""

    def scenario(stage: Stage, windows: Windows) -> None:
        me = windows.new()
        page = me.open(stage.link)
        page.fill("#text", "hello there")
        page.press("#text", "Enter")
        expect(page.locator("article.msg strong")).to_have_text("hello there")
        page.fill("#text", "half a thou")
        until(page, "Object.keys(localStorage).some((key) => key.includes('draft'))")
        before = me.messages()
        page.reload()
        page.wait_for_selector("article.msg strong")
        assert me.messages() == before
        expect(page.locator("#text")).to_have_value("half a thou")
        expect(page.locator("#room-name")).to_have_text("Helper's room")

    await play(tmp_path, chromium_path, scenario)


async def test_a_relay_restart_reconnects(tmp_path: Path, chromium_path: str) -> None:
    """The page says that the relay is away, keeps what is written, and catches up by itself."""

    def scenario(stage: Stage, windows: Windows) -> None:
        me = windows.new()
        page = me.open(stage.link)
        page.evaluate("window.sameDocument = true")
        stage.say("before")
        expect(page.locator("article.msg strong")).to_have_text("before")
        stage.stop()
        expect(page.locator("#banner")).to_be_visible()
        page.fill("#text", "written while it was away")
        page.press("#text", "Enter")
        expect(page.locator("article.local")).to_contain_text("Waiting for the relay")
        stage.start()
        stage.say("posted meanwhile")
        expect(page.locator("#banner")).to_be_hidden()
        mine = page.locator("article.own .msg-body")
        expect(mine.filter(has_text="posted meanwhile")).to_have_count(1)
        expect(mine.filter(has_text="written while it was away")).to_have_count(1)
        expect(page.locator("article.local")).to_have_count(0)
        expect(page.locator("article.msg strong")).to_have_count(3)
        assert page.evaluate("window.sameDocument") is True

    await play(tmp_path, chromium_path, scenario, may_fail=("Failed to load resource", "net::ERR"))


async def test_a_lost_answer_to_a_send_doubles_nothing(tmp_path: Path, chromium_path: str) -> None:
    """When the relay has the message but its answer is lost, the retry is the same message."""

    def scenario(stage: Stage, windows: Windows) -> None:
        me = windows.new()
        page = me.open(stage.link)
        lost: list[int] = []

        def lose(route: Any) -> None:
            if route.request.method == "POST" and not lost:
                lost.append(route.fetch().status)
                route.abort()
            else:
                route.continue_()

        page.route("**/page/rooms/*/messages", lose)
        page.fill("#text", "only once")
        page.press("#text", "Enter")
        expect(page.locator("article.msg strong")).to_have_text("only once")
        until(page, "!Object.keys(localStorage).some((key) => key.includes('.out.'))")
        assert lost == [200]
        expect(page.locator("article.own")).to_have_count(1)
        assert [body for body in stage.call(stage.relay.bodies) if body == "only once"] == [
            "only once"
        ]

    await play(tmp_path, chromium_path, scenario, may_fail=("Failed to load resource",))


async def test_a_send_finished_before_the_history_is_there_shows_once(
    tmp_path: Path, chromium_path: str
) -> None:
    """Reloaded while a send is on its way: sent again, and shown once beside the late history."""

    def scenario(stage: Stage, windows: Windows) -> None:
        page = windows.new().open(stage.link)
        expect(page.locator("#timeline")).not_to_contain_text("Fetching messages")
        lost: list[int] = []
        held: list[tuple[Any, Any]] = []

        def lose_first(route: Any) -> None:
            if lost:
                route.continue_()
            else:
                lost.append(route.fetch().status)

        def hold_first(route: Any) -> None:
            if held:
                route.continue_()
            else:
                held.append((route, route.fetch()))

        page.route("**/page/rooms/*/messages", lose_first)
        page.fill("#text", "on its way")
        page.press("#text", "Enter")
        expect(page.locator("article.msg strong")).to_have_text("on its way")
        page.route("**/page/rooms/*/messages?*", hold_first)
        page.reload()
        while not held:
            page.wait_for_timeout(20)
        until(page, "!Object.keys(localStorage).some((key) => key.includes('.out.'))")
        route, answer = held[0]
        route.fulfill(response=answer)
        expect(page.locator("#timeline")).not_to_contain_text("Fetching messages")
        expect(page.locator("article.msg strong")).to_have_text("on its way")
        expect(page.locator("article.own")).to_have_count(1)
        assert lost == [200]

    await play(tmp_path, chromium_path, scenario, may_fail=("Failed to load resource",))


async def test_a_lost_place_in_the_stream_is_made_good(tmp_path: Path, chromium_path: str) -> None:
    """When the relay cannot go on from the page's cursor, the page looks at everything anew."""

    def scenario(stage: Stage, windows: Windows) -> None:
        me = windows.new()
        resets: list[int] = []

        def reset_once(route: Any) -> None:
            if resets:
                route.continue_()
                return
            resets.append(1)
            stage.say("missed by the stream")
            route.fulfill(
                content_type="text/event-stream", body="id: 7\nevent: reset\ndata: {}\n\n"
            )

        me.page.route("**/page/events*", reset_once)
        page = me.open(stage.link)
        expect(page.locator("article.own")).to_have_count(1)
        stage.say("and this one came by it")
        expect(page.locator("article.own")).to_have_count(2)
        assert resets == [1]

    await play(tmp_path, chromium_path, scenario)


async def test_a_message_overtaking_the_history_is_not_lost(
    tmp_path: Path, chromium_path: str
) -> None:
    """What the stream brings while an older answer is still on its way stays in the room."""

    def scenario(stage: Stage, windows: Windows) -> None:
        me = windows.new()
        held: list[tuple[Any, Any]] = []

        def hold_first(route: Any) -> None:
            if held:
                route.continue_()
            else:
                held.append((route, route.fetch()))

        me.page.route("**/page/rooms/*/messages?*", hold_first)
        stage.say("first")
        relay = stage.relay
        other = stage.call(relay.relay.create_room, "Other", relay.owner, (relay.agent,))
        page = me.open(stage.link)
        page.click('.room-row:has-text("Helper\'s room")')
        while not held:
            page.wait_for_timeout(20)
        stage.call(relay.relay.post, relay.room, relay.agent, "overtaking")
        stage.call(relay.relay.post, other, relay.agent, "a sign that the stream is read")
        expect(page.locator(".room-row .count")).to_be_visible()
        route, answer = held[0]
        route.fulfill(response=answer)
        expect(page.locator(".msg-body").filter(has_text="overtaking")).to_have_count(1)
        expect(page.locator("article.own")).to_have_text(re.compile("first"))

    await play(tmp_path, chromium_path, scenario)


async def test_markup_in_a_message_is_text(tmp_path: Path, chromium_path: str) -> None:
    """Scripts, handlers and foreign links in messages, names and files run nothing."""

    def scenario(stage: Stage, windows: Windows) -> None:
        me = windows.new()
        page = me.open(stage.link)
        evil = (
            "<script>window.hit = 1</script> <img src=x onerror='window.hit = 1'> "
            "[click](javascript:window.hit=1) ![p](https://example.org/p.png)"
        )
        stage.say(evil)

        async def give() -> None:
            relay = stage.relay
            name = "<img src=x onerror=window.hit=1>.svg"
            await relay.relay.post_file(relay.room, relay.agent, name, b"<svg onload='hit=1'/>")

        stage.call(give)
        expect(page.locator("article.own .msg-body")).to_contain_text("<script>window.hit = 1")
        expect(page.locator(".file-card .file-name")).to_contain_text("onerror")
        assert (
            page.locator("article.msg img, article.msg script, article.msg a[href^=java]").count()
            == 0
        )
        assert page.evaluate("window.hit") is None

    await play(tmp_path, chromium_path, scenario)
