"""The adapters on real HTTP, against doubles of their providers."""

import pytest
import trio

from agentconnect.core.channels.ipc import Channel
from agentconnect.core.channels.sending import DeliveryError
from tests.shell.channels.doubles import (
    NOW,
    DingTalk,
    Provider,
    Slack,
    Telegram,
    dingtalk_robot,
    out,
    running,
)


def telegram(provider: Provider, token: str = "1:tok") -> Channel:
    return Channel(type="telegram", options={"base_url": provider.url}, secrets={"token": token})


def slack(provider: Provider, token: str = "xoxb") -> Channel:
    options = {"base_url": f"{provider.url}/api"}
    return Channel(type="slack", options=options, secrets={"token": token})


def dingtalk(provider: Provider, secret: str = "sec") -> Channel:
    return Channel(
        type="dingtalk",
        options={"base_url": provider.url, "robot_code": "r"},
        secrets={"app_key": "key", "app_secret": secret},
    )


async def test_telegram_takes_a_long_text_in_pieces() -> None:
    """Each within its limit of units; joined they are the text."""
    double = Telegram("1:tok", 7, "@ops")
    text = "🙂 words\n" * 2000
    async with Provider(double).running() as provider, running(telegram(provider)) as adapter:
        await adapter.send(out("user", "7", text))
        await adapter.send(out("chat", "@ops", "short"))
        assert "@ops_bot" == await adapter.check()
    assert text == "".join(piece for chat, piece in double.messages if chat == 7)
    assert ("@ops", "short") == double.messages[-1]


async def test_telegram_refuses_what_it_would_refuse_again() -> None:
    """An unknown chat, a wrong token; the piece that failed is said."""
    double = Telegram("1:tok", 7)
    async with Provider(double).running() as provider:
        async with running(telegram(provider)) as adapter:
            with pytest.raises(DeliveryError, match="HTTP 400 chunks_sent=0/2") as refused:
                await adapter.send(out("chat", "-8", "x" * 5000))
            assert "permanent" == refused.value.disposition
        async with running(telegram(provider, "2:bad")) as adapter:
            with pytest.raises(DeliveryError, match="HTTP 401") as refused:
                await adapter.check()
            assert "2:bad" not in str(refused.value)


async def test_slack_opens_a_direct_channel_once() -> None:
    """For a person; what Slack would read as marks is escaped."""
    double = Slack("xoxb", "C1", users={"U1": "D1"})
    async with Provider(double).running() as provider, running(slack(provider)) as adapter:
        await adapter.send(out("user", "U1", "<!here> one"))
        await adapter.send(out("user", "U1", "two"))
        await adapter.send(out("chat", "C1", "three"))
        assert "opsbot in Acme" == await adapter.check()
        opened = [seen for seen in provider.seen if seen.path.endswith("conversations.open")]
    assert [("D1", "&lt;!here&gt; one"), ("D1", "two"), ("C1", "three")] == double.messages
    assert 1 == len(opened)


async def test_slack_says_no_with_a_200() -> None:
    """Unknown people and channels, a bad token."""
    double = Slack("xoxb", users={})
    async with Provider(double).running() as provider:
        async with running(slack(provider)) as adapter:
            for kind, target in (("user", "U9"), ("chat", "C9")):
                with pytest.raises(DeliveryError, match="_not_found") as refused:
                    await adapter.send(out(kind, target))
                assert "permanent" == refused.value.disposition
        async with running(slack(provider, "xoxb-bad")) as adapter:
            with pytest.raises(DeliveryError, match="invalid_auth"):
                await adapter.send(out("chat", "C9"))


async def test_dingtalk_renews_its_token_before_it_ends() -> None:
    """One login for many sends; a token with under five minutes left is not used."""
    double = DingTalk("key", "sec", "u1")
    async with Provider(double).running() as provider, running(dingtalk(provider)) as adapter:
        async with trio.open_nursery() as sending:
            for number in range(5):
                sending.start_soon(adapter.send, out("user", "u1", f"n{number}"))
        await adapter.send(out("chat", "cid", "group"))
    assert 1 == double.logins
    assert 6 == len(double.messages)
    short = DingTalk("key", "sec", "u1", lasts_s=299)
    async with Provider(short).running() as provider, running(dingtalk(provider)) as adapter:
        await adapter.send(out("user", "u1"))
        await adapter.send(out("user", "u1"))
    assert 2 == short.logins


async def test_dingtalk_lists_who_it_does_not_know() -> None:
    """In an answer that looks good; a bad secret is refused at the login."""
    double = DingTalk("key", "sec", "u1")
    async with Provider(double).running() as provider:
        async with running(dingtalk(provider)) as adapter:
            with pytest.raises(DeliveryError, match="invalidStaffIdList") as refused:
                await adapter.send(out("user", "u2"))
            assert "permanent" == refused.value.disposition
        async with running(dingtalk(provider, "bad")) as adapter:
            with pytest.raises(DeliveryError, match="invalidClientIdOrSecret") as refused:
                await adapter.check()
            assert "permanent" == refused.value.disposition


async def test_a_robot_address_is_signed() -> None:
    """With the right secret it takes the text, with another it refuses for good."""
    async with Provider(dingtalk_robot("SEC1")).running() as provider:
        url = f"{provider.url}/robot/send?access_token=T"
        for secret, error in (("SEC1", None), ("SEC2", "310000")):
            targets = {"ops": {"url": url, "secret": secret}}
            async with running(Channel(type="dingtalk-webhook", targets=targets)) as adapter:
                if error is None:
                    await adapter.send(out("chat", "ops"))
                    continue
                with pytest.raises(DeliveryError, match=error) as refused:
                    await adapter.send(out("chat", "ops"))
                assert "permanent" == refused.value.disposition
        assert {"msgtype": "text", "text": {"content": "hello"}} == provider.seen[0].json
        assert str(round(NOW * 1000)) in provider.seen[0].path


@pytest.mark.parametrize("kind", ["slack-webhook", "mattermost-webhook", "feishu-webhook"])
async def test_fixed_destinations_are_the_only_ones(kind: str) -> None:
    """An unknown label and a person are refused without a request; a check sends none either."""
    async with Provider(lambda _: (200, b"ok")).running() as provider:
        targets = {"ops": {"url": f"{provider.url}/hook"}}
        async with running(Channel(type=kind, targets=targets)) as adapter:
            for one in (out("chat", "other"), out("user", "ops")):
                with pytest.raises(DeliveryError, match="no such destination") as refused:
                    await adapter.send(one)
                assert "permanent" == refused.value.disposition
            assert "1 destinations can be reached" in await adapter.check()
        assert [] == provider.seen


async def test_the_generic_webhook_is_one_signed_request() -> None:
    """However long the text is."""
    async with Provider(lambda _: (204, b"")).running() as provider:
        channel = Channel(
            type="webhook", options={"url": f"{provider.url}/in"}, secrets={"secret": "s"}
        )
        async with running(channel) as adapter:
            await adapter.send(out("user", "anybody at all", "x" * 100_000, delivery="T:1"))
        (seen,) = provider.seen
    assert {
        "deliveryId": "T:1",
        "channelName": "ops",
        "target": {"type": "user", "id": "anybody at all"},
        "text": "x" * 100_000,
    } == seen.json
    assert "T:1" == seen.headers["idempotency-key"]


async def test_a_room_is_posted_to_as_the_relay_wants_it() -> None:
    """By one op, under the name that the relay's edge lets pass."""
    answers = iter([(200, {"ok": True, "event_id": "$e"}), (403, {}), (404, {})])
    async with Provider(lambda _: next(answers)).running() as provider:
        channel = Channel(
            type="room", options={"base": f"{provider.url}/gw"}, secrets={"secret": "s3"}
        )
        async with running(channel) as adapter:
            await adapter.send(out("chat", "!r:hs", "hi"))
            with pytest.raises(DeliveryError) as refused:
                await adapter.send(out("chat", "!r:hs", "hi"))
            assert "permanent" == refused.value.disposition
            assert "not known" in await adapter.check()
        first, _, third = provider.seen
    assert ("POST", "/gw/v1/room") == (first.method, first.path)
    assert {"op": "message", "room_id": "!r:hs", "body": "hi"} == first.json
    assert "Bearer s3" == first.headers["authorization"]
    assert "sutando-gateway-client/1.0" == first.headers["user-agent"]
    assert ("GET", "/gw/v1/capabilities") == (third.method, third.path)
