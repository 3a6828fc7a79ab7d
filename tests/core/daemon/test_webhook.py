"""What a webhook brings (§14)."""

from typing import Any

import pytest

from agentconnect.core.daemon.body import read_body
from agentconnect.core.daemon.refusals import Refusal
from agentconnect.core.daemon.text import CUT_MARKER
from agentconnect.core.daemon.webhook import BAD_WEBHOOK, WebhookCall, read_webhook
from agentconnect.core.destination import MAX_TEXT_UNITS, units

GOOD: dict[str, Any] = {"eventType": "alert", "targetRef": "ops", "title": "disk full"}


def call(**fields: Any) -> WebhookCall:
    found = read_webhook(GOOD | fields)
    assert isinstance(found, WebhookCall)
    return found


def test_the_fields_and_the_prompt() -> None:
    """The target is not in what the agent reads; a payload of null is one."""
    assert ("alert", "ops", "disk full") == (
        call().event_type,
        call().target_ref,
        call(other=1).title,
    )
    prompt = call(payload={"host": "a\nb"}).prompt()
    assert '"host": "a\\nb"' in prompt
    assert "ops" not in prompt
    assert "payload" not in call().prompt()
    assert '"payload": null' in call(payload=None).prompt()


def test_a_huge_payload_is_cut() -> None:
    """As everything that is long."""
    prompt = call(payload="😀" * MAX_TEXT_UNITS).prompt()
    assert prompt.endswith(CUT_MARKER)
    assert units(prompt) <= MAX_TEXT_UNITS


@pytest.mark.parametrize("field", ["eventType", "targetRef", "title"])
@pytest.mark.parametrize("value", [None, "", " ", 5, [], "x" * 2049])
def test_each_text_is_needed(field: str, value: object) -> None:
    """400 for one that is missing, blank, too long or no text."""
    assert BAD_WEBHOOK == read_webhook(GOOD | {field: value})
    missing = {key: item for key, item in GOOD.items() if key != field}
    assert isinstance(read_webhook(missing), Refusal)


def test_two_targets_are_refused() -> None:
    """Two readers could see two of them."""
    body = read_body(b'{"eventType":"a","targetRef":"x","targetRef":"y","title":"t"}')
    assert isinstance(body, dict)
    assert BAD_WEBHOOK == read_webhook(body)
