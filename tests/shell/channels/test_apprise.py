"""The adapter ``apprise``: its addresses, and the library itself where it is installed."""

import gc
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping

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
MISSING_HERE = importlib.util.find_spec("apprise") is None and not os.environ.get("CI")
installed = pytest.mark.skipif(MISSING_HERE, reason="the extra apprise is not installed")


@pytest.fixture(autouse=True)
def tidied() -> Iterator[None]:
    """What the library leaves open is found here, and not in a later test."""
    yield
    gc.collect()


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


async def test_without_the_extra_the_channel_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At its start, and when it is checked."""
    monkeypatch.setitem(sys.modules, "apprise", None)
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
