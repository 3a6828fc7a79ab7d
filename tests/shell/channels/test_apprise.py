"""The adapter ``apprise``: its addresses, and the library itself where it is installed."""

import importlib.util
from collections.abc import Mapping

import pytest
import trio

from agentconnect.channels.apprise import MISSING, AppriseAdapter, forced
from agentconnect.core.channels.sending import DeliveryError
from tests.shell.channels.doubles import Provider, out

#: The library and what it loads use parts of Python that warn.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
INSTALLED = importlib.util.find_spec("apprise") is not None
installed = pytest.mark.skipif(not INSTALLED, reason="the extra apprise is not installed")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("mailto://u:p@h/x", "mailto://u:p@h/x?retry=0&overflow=split&cto=5&rto=15"),
        ("json://h/?retry=9&x=1", "json://h/?x=1&retry=0&overflow=split&cto=5&rto=15"),
    ],
)
def test_our_limits_stand_in_every_address(url: str, expected: str) -> None:
    """Whatever the owner wrote."""
    assert expected == forced(url)


@pytest.mark.skipif(INSTALLED, reason="the extra apprise is installed")
async def test_without_the_extra_the_channel_says_what_to_install() -> None:
    """At its start, and when it is checked."""
    with pytest.raises(DeliveryError) as refused:
        await AppriseAdapter({"ops": {"url": "json://127.0.0.1"}}).check()
    assert MISSING == str(refused.value)


async def sent(targets: Mapping[str, Mapping[str, str]], label: str) -> None:
    adapter = AppriseAdapter(targets)
    async with trio.open_nursery() as standing:
        await standing.start(adapter.run)
        await adapter.send(out("chat", label))
        standing.cancel_scope.cancel()


@installed
async def test_the_library_sends_it() -> None:
    """To any service that it knows."""
    async with Provider(lambda _: (200, b"ok")).running() as provider:
        port = provider.server.port
        await sent({"ops": {"url": f"json://127.0.0.1:{port}/x"}}, "ops")
        assert "hello" == provider.seen[0].json["message"]


@installed
@pytest.mark.parametrize("status", [403, 500])
async def test_a_failure_of_the_library_is_transient_and_tried_once(status: int) -> None:
    """It does not say why."""
    async with Provider(lambda _: (status, b"no")).running() as provider:
        targets = {"ops": {"url": f"json://127.0.0.1:{provider.server.port}/x?retry=5"}}
        with pytest.RaisesGroup(DeliveryError, flatten_subgroups=True) as refused:
            await sent(targets, "ops")
        (error,) = refused.value.exceptions
        assert isinstance(error, DeliveryError)
        assert "transient" == error.disposition
        assert 1 == len(provider.seen)


@installed
async def test_an_address_that_is_none_keeps_the_channel_from_starting() -> None:
    """And is not repeated."""
    with pytest.raises(DeliveryError) as refused:
        await AppriseAdapter({"ops": {"url": "no-such-scheme://s3cret"}}).check()
    assert "permanent" == refused.value.disposition
    assert "s3cret" not in str(refused.value)
