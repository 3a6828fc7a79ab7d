"""What answers mean and requests look like, beyond the shared cases."""

import msgspec
import pytest

from agentconnect.core.channels import dingtalk, hooks, irc, matrix, room, slack, telegram
from agentconnect.core.channels.dingtalk import DingTalk
from agentconnect.core.channels.matrix import Matrix
from agentconnect.core.channels.sending import (
    Ask,
    DeliveryError,
    Outgoing,
    Reply,
    Verdict,
)
from agentconnect.core.destination import Target

DINGTALK = DingTalk(app_key="k", app_secret="s", robot_code="r")


def reply(status: int, value: object = None) -> Reply:
    return Reply(status=status, body=b"" if value is None else msgspec.json.encode(value))


def listed(name: str, person: str) -> Reply:
    return reply(200, {"processQueryKey": "k", name: [person]})


def body(ask: Ask) -> object:
    assert ask.content is not None
    return msgspec.json.decode(ask.content)


def chat(target: str) -> Target:
    return Target(type="chat", id=target)


def user(target: str) -> Target:
    return Target(type="user", id=target)


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (matrix.judge(reply(401, {"errcode": "M_OTHER"})), "transient"),
        (matrix.judge(reply(418)), "transient"),
        (matrix.judge(reply(302)), "transient"),
        (matrix.judge(reply(200, {"event_id": 7})), "transient"),
        (telegram.judge(reply(404)), "permanent"),
        (telegram.judge(reply(409)), "transient"),
        (telegram.judge(reply(200, {"ok": False, "error_code": 403})), "permanent"),
        (telegram.judge(reply(400, {"ok": False, "error_code": 429})), "transient"),
        (telegram.judge(reply(200, {"ok": 1})), "transient"),
        (slack.judge(reply(500, {"ok": False, "error": "invalid_auth"})), "transient"),
        (slack.judge(reply(200, {"ok": False, "error": ["invalid_auth"]})), "transient"),
        (dingtalk.judge(listed("filteredStaffIdList", "u"), "u"), "permanent"),
        (dingtalk.judge(listed("invalidStaffIdList", "v"), "u"), "delivered"),
        (dingtalk.judge(reply(403, {"code": "Throttling.User"}), "u"), "transient"),
        (dingtalk.judge(reply(500), "u"), "transient"),
        (hooks.judge_slack(reply(200)), "transient"),
        (hooks.judge_slack(reply(429)), "transient"),
        (hooks.judge_feishu(reply(200, {"code": True})), "transient"),
        (hooks.judge_feishu(reply(200, {"code": False})), "transient"),
        (hooks.judge_dingtalk(reply(500, {"errcode": 0})), "transient"),
        (hooks.judge_generic(reply(408)), "transient"),
        (hooks.judge_generic(reply(422)), "permanent"),
        (room.judge(reply(200, {"ok": True, "event_id": "$e"})), "delivered"),
        (room.judge(reply(200, {"ok": False, "event_id": "$e"})), "transient"),
        (room.judge(reply(204)), "transient"),
        (room.judge(reply(403)), "permanent"),
        (room.judge(reply(409)), "transient"),
    ],
)  # fmt: skip
def test_the_rows_of_the_tables(verdict: Verdict, expected: str) -> None:
    """Where no rule matches, it is transient."""
    assert expected == verdict.disposition


def test_a_verdict_quotes_no_sentence_of_a_provider() -> None:
    """Only words that a machine would use."""
    told = matrix.judge(reply(403, {"errcode": "User @bob:hs is not in !r:hs", "error": "x y"}))
    assert "HTTP 403" == told.why


def test_an_answer_that_is_no_object_is_empty() -> None:
    """Whatever it is instead."""
    for data in (b"", b"[1]", b"\xff", b"nul", b"[" * 100_000, b'"\\ud800"'):
        assert {} == Reply(status=200, body=data).fields


@pytest.mark.parametrize(
    ("check", "target"),
    [
        (telegram.chat_id, chat("0")),
        (telegram.chat_id, chat("1" * 20)),
        (telegram.chat_id, chat("１２")),
        (telegram.chat_id, user("@name")),
        (telegram.chat_id, chat("5\n")),
        (slack.checked, user("general")),
        (slack.checked, chat("C12\n")),
        (slack.checked, chat("two words")),
        (dingtalk.checked, user("two words")),
        (room.checked, user("!r")),
        (room.checked, chat("a\nb")),
        (irc.checked, user("a b")),
        (irc.checked, chat("#a,b")),
        (irc.checked, chat("#a\rQUIT")),
        (irc.checked, user("#a")),
        (irc.checked, chat("nick")),
        (Matrix(homeserver="https://hs", token="t").checked, chat("#no-server")),
        (Matrix(homeserver="https://hs", token="t").checked, user("@u:hs/x")),
        (Matrix(homeserver="https://hs", token="t").checked, chat("!a b")),
    ],
)
def test_an_id_that_cannot_be_one_is_refused_for_good(check: object, target: Target) -> None:
    """Before any request, without the id in what is said."""
    assert callable(check)
    with pytest.raises(DeliveryError) as refused:
        check(target)
    assert "permanent" == refused.value.disposition
    assert target.id not in str(refused.value)


def test_telegram_gets_numbers_as_numbers() -> None:
    """And names as they are."""
    assert -100123 == telegram.chat_id(chat("-100123"))
    assert 7 == telegram.chat_id(user("7"))
    assert "@ops" == telegram.chat_id(chat("@ops"))


def test_a_matrix_room_is_one_path_segment() -> None:
    """Also one without a server; the transaction names delivery and piece."""
    ask = Matrix(homeserver="https://hs/", token="t").message(
        "!a/b:hs", matrix.txn("d/1", 2), "hi", ""
    )
    path = "rooms/%21a%2Fb%3Ahs/send/m.room.message/ag2-d%2F1-2"
    assert f"https://hs/_matrix/client/v3/{path}" == ask.url
    assert {"msgtype": "m.text", "body": "hi"} == body(ask)


def test_a_formatted_body_that_is_too_large_is_left_out() -> None:
    """The text alone always fits."""
    ask = Matrix(homeserver="https://hs", token="t").message("!r", "t", "x" * 31_000, "y" * 31_000)
    assert {"msgtype", "body"} == set(msgspec.json.decode(ask.content or b""))


def test_dingtalk_puts_json_inside_json() -> None:
    """For a person and for a group, plain and as markdown."""
    found = body(DINGTALK.message(user("u1"), 'say "x"', "tok"))
    assert {
        "robotCode": "r",
        "msgKey": "sampleText",
        "msgParam": '{"content":"say \\"x\\""}',
        "userIds": ["u1"],
    } == found
    fancy = msgspec.structs.replace(DINGTALK, markdown=True)
    found = body(fancy.message(chat("cid"), "**x**", "tok"))
    assert {
        "robotCode": "r",
        "msgKey": "sampleMarkdown",
        "msgParam": '{"title":"Message","text":"**x**"}',
        "openConversationId": "cid",
    } == found


def test_a_dingtalk_token_without_a_time_is_not_kept() -> None:
    """It is asked for again before the next send."""
    assert ("t", 7200.0) == dingtalk.logged_in(reply(200, {"accessToken": "t", "expireIn": 7200}))
    assert ("t", 0.0) == dingtalk.logged_in(reply(200, {"accessToken": "t", "expireIn": True}))
    with pytest.raises(DeliveryError, match="without a token") as refused:
        dingtalk.logged_in(reply(200, {"accessToken": "a\nb"}))
    assert "transient" == refused.value.disposition


def test_signatures_are_those_of_the_documents() -> None:
    """Computed here by another program."""
    ask = hooks.feishu("https://f/h", "SECs3cret", "hi", 1_750_000_000.9)
    assert {
        "msg_type": "text",
        "content": {"text": "hi"},
        "timestamp": "1750000000",
        "sign": "mX/do/sFSMYoPAdNtyp1oCb6wHmuJxwxQYqt3KzgxPA=",
    } == body(ask)
    ask = hooks.dingtalk("https://d/robot/send?access_token=T", "SECs3cret", "hi", 1_750_000_000.0)
    sign = "hlhyzCpL%2B4wFKLYqgJvDK94pDE9etxm2ndlKGrLzxg4%3D"
    expected = f"https://d/robot/send?access_token=T&timestamp=1750000000000&sign={sign}"
    assert expected == ask.url
    out = Outgoing(delivery_id="d1", channel="c", target=chat("x"), text="hi")
    ask = hooks.generic("https://w/in", "SECs3cret", out)
    digest = "d5f4a97f2ae9b5ef38278cdae8c3d8f1c36c048d673d13410bf0fb2e36aa156b"
    assert f"sha256={digest}" == ask.headers["X-AgentConnect-Signature"]
    assert "d1" == ask.headers["Idempotency-Key"]


def test_slack_reads_no_marks() -> None:
    """A text that names somebody calls nobody."""
    found = body(hooks.slack("https://s/h", "<!channel> & *b*"))
    assert {"text": "&lt;!channel&gt; &amp; *b*", "mrkdwn": False} == found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b":irc.test 401 bot nobody :No such nick", ("401", ("bot", "nobody", "No such nick"))),
        (b"PING :abc", ("PING", ("abc",))),
        (b"@time=1 :irc.test PONG irc.test :ag2-1\r", ("PONG", ("irc.test", "ag2-1"))),
        (b"", ("", ())),
        (b":only", ("", ())),
        (b"\xff\xfe", ("\ufffd\ufffd", ())),
    ],
)
def test_lines_of_irc_are_read_without_their_prefix(
    line: bytes, expected: tuple[str, tuple[str, ...]]
) -> None:
    """Command and words; nothing raises."""
    found = irc.read(line)
    assert expected == (found.command, found.words)
