"""The scheduled tasks of the worker beside the relay, as the room page shows them."""

from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from agentconnect.core.daemon.outcomes import Shown
from tests.e2e.browser.stage import NARROW, WIDE, Stage, Windows, play

NINE = 1_750_064_400_000
REPORT = Shown(
    title="<b>Report</b>",
    workspace="main",
    cron="0 9 * * *",
    to="ops",
    next_at=NINE,
    last_at=NINE - 86_400_000,
    result="It ran and was answered.",
    delivery="Not delivered: The channel refused this delivery.",
    failed=True,
)
ONCE = Shown(title="Once", workspace="main", once=True, result="The agent refused it.", failed=True)
OFF = Shown(title="w" * 120, workspace="main", cron="0 9 * * *", enabled=False)


async def test_the_owner_sees_what_runs_when(tmp_path: Path, chromium_path: str) -> None:
    """When, what came of it and why it did not arrive, as text; folded it stays folded."""
    told: dict[str, Any] = {"scheduled": [REPORT, ONCE, OFF]}

    async def telling() -> object:
        return told

    def scenario(stage: Stage, windows: Windows) -> None:
        wide = windows.new(WIDE, color_scheme="light", timezone_id="UTC", locale="en-GB")
        wide.page.clock.install()
        page = wide.open(stage.link)
        part = page.locator("#extras details")
        expect(part.locator("summary")).to_have_text("Scheduled")
        report, once, off = (part.locator("li").nth(at) for at in range(3))
        expect(report.locator(".extras-title")).to_have_text("<b>Report</b>")
        expect(report).to_contain_text("Next: 16 June 2025, 09:00 (0 9 * * *)")
        expect(report).to_contain_text("15 June 2025, 09:00: It ran and was answered.")
        expect(report).to_contain_text("To ops: Not delivered: The channel refused this delivery.")
        expect(part.locator("li:has(.icon)")).to_have_count(2)
        expect(report.locator("time").first).to_have_attribute(
            "datetime", "2025-06-16T09:00:00.000Z"
        )
        expect(once).to_contain_text("Once: it will not run again.The agent refused it.")
        expect(off).to_contain_text("Switched off.")
        part.locator("summary").click()
        expect(once).to_be_hidden()
        told["scheduled"] = [OFF]
        page.clock.fast_forward(31_000)
        expect(part.locator("li")).to_have_count(1)
        expect(part.locator("li")).to_be_hidden()
        small = windows.new(NARROW, color_scheme="dark").open(stage.link)
        small.get_by_role("button", name="Back to the rooms").click()
        expect(small.locator("#extras li")).to_be_visible()
        assert small.evaluate("document.documentElement.scrollWidth <= innerWidth")
        _, link = stage.call(stage.relay.relay.add_person, stage.relay.room, "Gus")
        guest = windows.new().open(f"{stage.link.partition('#')[0]}#k={link}")
        expect(guest.locator("[data-room]")).to_have_count(1)
        expect(guest.locator("#extras")).to_be_hidden()

    await play(tmp_path, chromium_path, scenario, extras=telling)
