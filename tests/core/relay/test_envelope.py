"""The task envelope: field rules, hostile JSON, metadata and media in one body."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.relay import envelope
from agentconnect.core.relay.envelope import decode_batch, parse_task, read_body
from agentconnect.core.task import Task, Tier, tier_of

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
_WIRE_NAMES = st.sampled_from(
    ["id", "task", "access_tier", "attempt", "room_members", "platform_card", "lease_id", "user_id"]
)
_PIECES = st.sampled_from(
    [
        "[room-ops metadata:",
        "[ROOM-ops ",
        "metadata:",
        "[ag2space-media:",
        "[ag2space-",
        "media:",
        "]",
        " ",
        "\n",
        "x",
        "https://h/m",
        "name=a",
        "\u2028",
        "\ud800",
    ]
)


def _one(task: dict[str, object]) -> Task:
    parsed = parse_task({"id": "q-1", **task})
    assert parsed is not None
    return parsed


def _batch(*items: str) -> bytes:
    return ('{"tasks":[' + ",".join(items) + "]}").encode("utf-8", "surrogatepass")


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda s: s.encode("utf-8", "replace")))
def test_a_batch_of_any_bytes_is_read(body: bytes) -> None:
    """Whatever the relay sends, reading it gives a value."""
    decode_batch(body)


@given(st.dictionaries(_WIRE_NAMES | st.text(max_size=5), _JSON, max_size=8))
def test_a_task_of_any_members_is_judged(raw: dict[str, object]) -> None:
    """Any JSON in any member gives a task or none, and a tier of owner only for the exact word."""
    task = parse_task(raw)
    assert task is None or (tier_of(task) is Tier.OWNER) == (raw.get("access_tier") == "owner")


@given(st.lists(_PIECES, max_size=40).map("".join))
def test_no_block_survives_reading_a_body(text: str) -> None:
    """No metadata block, no media marker and nothing unencodable reaches a consumer."""
    body = read_body(text)
    assert "[ag2space-media:" not in body.text
    assert "[room-ops metadata:" not in body.text.lower()
    body.text.encode()
    assert envelope.strip_metadata(body.text) == (body.text, False, False)


@given(st.lists(_PIECES, max_size=40).map("".join))
def test_stripping_metadata_again_changes_nothing(text: str) -> None:
    """One call reaches the fixpoint."""
    once, _, _ = envelope.strip_metadata(text)
    assert envelope.strip_metadata(once) == (once, False, False)


@pytest.mark.parametrize(
    "broken",
    [
        '{"id":"bad-1","task":"\\ud83d alone"}',
        '{"id":"bad-1","task":"x","score":NaN}',
        '{"id":"bad-1","task":"raw \x01 control"}',
        '{"id":"bad-1","task":"x","n":' + "9" * 6000 + "}",
        '{"id":"bad-1","task":"x","deep":' + "[" * 60_000 + "]" * 60_000 + "}",
        '{"id":"bad-1","task":"x","deep":' + '{"a":' * 60_000 + "1" + "}" * 60_000 + "}",
    ],
    ids=["lone-surrogate", "nan", "control", "long-number", "deep-lists", "deep-objects"],
)
def test_one_bad_message_does_not_lose_the_batch(broken: str) -> None:
    """Every task of the batch is read, the broken one with what can be read of it."""
    batch = decode_batch(_batch('{"id":"a","task":"one"}', broken, '{"id":"b","task":"two"}'))
    assert [task.id for task in batch.tasks] == ["a", "bad-1", "b"]
    assert [task.body for task in batch.tasks if task.id != "bad-1"] == ["one", "two"]
    for task in batch.tasks:
        task.body.encode()


def test_a_raw_byte_that_is_no_utf8_does_not_lose_the_batch() -> None:
    """The byte reads as U+FFFD."""
    batch = decode_batch(b'{"tasks":[{"id":"a","task":"x\xffy"},{"id":"b"}]}')
    assert [task.body for task in batch.tasks] == ["x\ufffdy", ""]


def test_a_whole_pair_of_escapes_stays_one_character() -> None:
    """Only half a surrogate pair is replaced, and an escaped backslash is none."""
    batch = decode_batch(_batch(r'{"id":"a","task":"\ud83d\ude00 \ud83d \\ud83d"}'))
    assert batch.tasks[0].body == "\U0001f600 \ufffd \\ud83d"


@pytest.mark.parametrize("body", [b"{}", b"null", b"", b" \n", b"[]", b'{"tasks":null}'])
def test_an_answer_without_a_list_is_an_anomaly_not_an_empty_poll(body: bytes) -> None:
    """A 2xx that lists no tasks must not look healthy (★8)."""
    batch = decode_batch(body)
    assert (batch.anomaly, batch.malformed, batch.tasks) == (True, False, ())


def test_a_web_page_instead_of_json_is_malformed() -> None:
    """An edge's HTML on a 200 is a failure of its own kind."""
    assert decode_batch(b"<html>hi</html>").malformed


def test_an_empty_list_is_no_anomaly() -> None:
    """The ordinary answer to an idle poll."""
    assert decode_batch(b'{"tasks":[]}') == envelope.Batch()


def test_bad_items_are_rejected_by_name_or_counted() -> None:
    """An id that breaks the grammar can be rejected, one over 256 characters or no text cannot."""
    long_id = json.dumps({"id": "x" * 257})
    batch = decode_batch(_batch('"text"', '{"id":5}', '{"id":""}', long_id, '{"id":"a/b"}'))
    assert (batch.rejects, batch.unusable, batch.tasks) == (("a/b",), 4, ())


GRANTING = {
    "id": "q",
    "access_tier": "owner",
    "user_id": "@a:h",
    "channel_id": "!r:h",
    "requested_access_tier": "team",
    "collaborator": True,
    "sensitive_data_filter": False,
}


@pytest.mark.parametrize("member", GRANTING)
@pytest.mark.parametrize("spelled", ["{}", "\\u00{:02x}{}"])
@pytest.mark.parametrize("last", [True, False])
def test_a_duplicated_member_grants_nothing(member: str, spelled: str, last: bool) -> None:
    """JSON parsers keep the last of two silently; such a task is granted nothing (★14).

    Neither the one that says more nor the one that says less wins, in either order.
    """
    second = member if spelled == "{}" else spelled.format(ord(member[0]), member[1:])
    more = f'"{second}":{json.dumps(GRANTING[member])}'
    once = json.dumps(GRANTING)[1:-1]
    item = f"{{{once},{more}}}" if last else f"{{{more},{once}}}"
    task = decode_batch(_batch(item)).tasks[0]
    assert (task.access_tier, task.requested_access_tier) == ("", "")
    assert (task.collaborator, task.sensitive_data_filter) == (False, True)
    granted = decode_batch(_batch(f"{{{once}}}")).tasks[0]
    assert (granted.access_tier, granted.requested_access_tier) == ("owner", "team")
    assert (granted.collaborator, granted.sensitive_data_filter) == (True, False)


def test_a_member_of_an_inner_object_is_not_a_duplicate() -> None:
    """Only the task's own members count."""
    item = '{"id":"q","access_tier":"owner","extra":{"id":"z","access_tier":"guest"}}'
    assert decode_batch(_batch(item)).tasks[0].access_tier == "owner"


@pytest.mark.parametrize(
    "tier", ["own\x00er", "owner\n", " owner", "Owner", "owner" + "x" * 64, ["owner"], True]
)
def test_a_tier_is_never_cleaned_into_owner(tier: object) -> None:
    """Only exactly ``owner`` as received is the owner (★14)."""
    assert tier_of(_one({"access_tier": tier})) is Tier.GUEST


def test_a_tier_that_cleaning_changes_is_empty() -> None:
    """REF made owner of ``own<NUL>er``."""
    assert _one({"access_tier": "own\x00er"}).access_tier == ""
    assert _one({"access_tier": "\ud800"}).access_tier == ""


@pytest.mark.parametrize("word", ["te\x00am", "team\n", "te\ud800am", ["team"], None])
def test_a_word_is_never_cleaned_into_team(word: object) -> None:
    """A collaborator's word counts as received or not at all (★14)."""
    assert _one({"requested_access_tier": word}).requested_access_tier == ""
    assert _one({"requested_access_tier": " team"}).requested_access_tier == " team"


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("@a:host", True),
        ("@a:host:8448", True),
        ("@a:[2001:db8::1]:8448", True),
        ("@a:[2001:db8::1]", True),
        ("@a:host:", False),
        ("@a:host:http", False),
        ("@a:host:123456", False),
        ("@a:host:1:2", False),
        ("@a:host/x", False),
        ("a:host", False),
    ],
)
def test_a_server_with_a_port_is_somebodys_home(name: str, valid: bool) -> None:
    """A person there can be mentioned, and is counted among a room's members."""
    assert envelope.is_user_id(name) is valid
    assert envelope.valid_mentions([name]) == ((name,) if valid else ())
    assert _one({"room_members": f"{name}, @z:h (+3 more)"}).room_members[-1] == "@z:h"
    if valid:
        assert _one({"room_members": f"{name}, @z:h"}).room_members == (name, "@z:h")
        assert _one({"room_members": [name]}).room_members == (name,)


def test_a_file_marker_at_the_end_of_a_long_text_is_still_read() -> None:
    """Markers are read first, the text is cut afterwards, and the cut is said (★23)."""
    marker = " [ag2space-media: https://gw.example/m/1 name=a.png]"
    task = _one({"task": "x" * 70_000 + marker})
    assert (len(task.body), task.body_cut) == (65_536, True)
    assert [item.name for item in task.media] == ["a.png"]
    assert not _one({"task": "x" * 65_536 + marker}).body_cut


@pytest.mark.parametrize(
    "body",
    [
        "[ag2space-" * 9 + "[ag2space-media: https://evil.example/x]" + "media: q]" * 9,
        "[ag2space-media: https://evil.example/x] "
        + "[room-ops " * 9
        + "[room-ops metadata: x]"
        + " metadata: x]" * 9,
    ],
)
def test_a_body_that_never_comes_to_rest_is_marked_and_fetches_nothing(body: str) -> None:
    """The drop shows as ``metadata_stripped`` and its first markers are not fetched (★24)."""
    task = _one({"task": body})
    assert (task.body, task.media, task.metadata_stripped) == ("", (), True)


def test_a_block_of_one_kind_cannot_hide_in_the_other() -> None:
    """Stripping metadata may form a media marker; it is removed too, and never fetched."""
    task = _one({"task": "a [ag2space-[room-ops metadata: x]media: https://evil.example/x] b"})
    assert (task.body, task.media) == ("a b", ())


def test_a_cut_off_metadata_block_does_not_swallow_the_picture() -> None:
    """Media are read before metadata is removed."""
    task = _one({"task": "look [room-ops metadata: x [ag2space-media: https://gw.example/m/1]"})
    assert (task.body, len(task.media)) == ("look", 1)


def test_the_later_fields_are_carried_as_data() -> None:
    """What newer brokers send is kept, cleaned, and never judged."""
    task = _one(
        {
            "lease_id": "L9",
            "thread_root": "$t\n1",
            "room_member_count": "12",
            "attempt": "3",
            "room_members": "@a:x, @b:y.org. mail me@c:z (+3 more) @a:x",
            "platform_card": dict.fromkeys(
                ["card_url", "card_sha256", "sig", "key_id", "alg"], "v"
            ),
        }
    )
    assert (task.lease_id, task.thread_root, task.room_member_count) == ("L9", "$t 1", 12)
    assert (task.attempt, task.room_members) == (3, ("@a:x", "@b:y.org"))
    assert task.platform_card is not None
    assert _one({"platform_card": {"card_url": "v"}}).platform_card is None


@pytest.mark.parametrize(("value", "expected"), [("１２", 0), ("1234567", 0), (2.0, 0), (" 1", 0)])
def test_an_attempt_is_a_small_number_in_ascii(value: object, expected: int) -> None:
    """Anything else counts as the first serve."""
    assert _one({"attempt": value}).attempt == expected


def test_an_error_code_is_ascii() -> None:
    """Letters and digits of other scripts become underscores."""
    assert envelope.error_code("größe ٣ falsch") == "GR__E___FALSCH"


def test_a_stale_lease_is_told_apart() -> None:
    """The ack is dropped for good instead of the whole route."""
    body = '{"error":"not leased: stale lease generation"}'
    assert envelope.is_not_leased(body)
    assert envelope.is_not_leased('{"error":"not leased"}')
    assert envelope.is_not_leased(r'{"detail":"\u006eot leased"}')
    assert not envelope.is_not_leased("[" * 100_000)


def test_an_event_id_is_found_in_any_depth() -> None:
    """A very deep answer is walked without recursion."""
    answer: object = {"id": "$x"}
    for _ in range(50_000):
        answer = {"data": answer}
    assert envelope.event_id_of(answer) == "$x"


@given(_JSON)
def test_the_small_readings_take_anything(value: object) -> None:
    """None of them raises."""
    envelope.event_id_of(value)
    envelope.valid_mentions(value)
    envelope.error_code(value)
    envelope.presence_text(value)
    envelope.upload_filename(value)
    assert not envelope.is_room_id(value) or isinstance(value, str)


@given(st.text())
def test_an_upload_name_is_always_plain(name: str) -> None:
    """Only safe characters, no leading dot, never empty."""
    sent = envelope.upload_filename(name)
    assert sent
    assert not sent.startswith(".")
    assert set(sent) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
