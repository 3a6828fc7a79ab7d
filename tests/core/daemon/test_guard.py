"""Who may call (§2.2, §2.3, §14). The case file's ``auth`` lines run against the server."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentconnect.core.daemon.guard import (
    Bound,
    check_bearer,
    check_host,
    check_origin,
    check_secret,
    origin_headers,
    read_origins,
    token_digest,
)
from agentconnect.core.daemon.refusals import UNAUTHORIZED, Refusal

BOUND = Bound(host="127.0.0.1", port=4170, loopback=True)
TOKEN = token_digest("tok")
CASES = Path(__file__).parents[2] / "cases" / "channel_delivery.jsonl"


def checked(headers: dict[str, str]) -> int:
    """The status of the first check that refuses; 200: none does."""

    def values(name: str) -> list[str]:
        return [headers[name]] if name in headers else []

    refusals: Sequence[Refusal | None] = (
        check_host(BOUND, values("Host")),
        check_origin(values("Origin"), frozenset()),
        check_bearer(values("Authorization"), TOKEN),
    )
    return next((each.status for each in refusals if each is not None), 200)


def vectors() -> list[Any]:
    lines = map(json.loads, CASES.read_text(encoding="utf-8").splitlines())
    return [
        pytest.param(line, id=line["name"])
        for line in lines
        if line["kind"] == "auth" and line["expect"]["status"] in (200, 401, 403)
    ]


@pytest.mark.parametrize("line", [v for v in vectors() if "health" not in v.id])
def test_the_vectors_without_a_server(line: dict[str, Any]) -> None:
    """Host, then origin, then bearer."""
    assert line["expect"]["status"] == checked(line["headers"])


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("[::1]:4170", True),
        ("LocalHost:4170", True),
        (" 127.0.0.1:4170 ", True),
        ("::1:4170", False),
        ("127.0.0.1.:4170", False),
        ("127.0.0.2:4170", False),
        ("localhost:04170", False),
        ("localhost@evil:4170", False),
        ("localhost:4170, evil", False),
        ("", False),
    ],
)
def test_our_own_names(host: str, allowed: bool) -> None:
    """Exactly those, with the port."""
    assert allowed is (check_host(BOUND, [host]) is None)


def test_other_binds() -> None:
    """The bound address itself; port 80 may be left out; off loopback any name will do."""
    six = Bound(host="::1", port=80, loopback=True)
    four = Bound(host="127.0.0.9", port=1, loopback=True)
    assert check_host(six, ["[::1]"]) is None
    assert check_host(six, ["localhost:80"]) is None
    assert check_host(four, ["127.0.0.9:1"]) is None
    assert check_host(Bound(host="0.0.0.0", port=1, loopback=False), ["any"]) is None


def test_no_host_and_two_hosts() -> None:
    """Neither is one name of ours."""
    assert check_host(BOUND, []) is not None
    assert check_host(BOUND, ["localhost:4170", "localhost:4170"]) is not None


def test_listed_origins() -> None:
    """Word for word; ``null`` never, even if listed; an answer names the one that asked."""
    allowed = frozenset({"https://ops.example", "null"})
    assert check_origin(["https://ops.example"], allowed) is None
    for other in (
        "null",
        "https://ops.example.",
        "https://ops.example:443",
        "HTTPS://ops.example",
        "",
    ):
        refusal = check_origin([other], allowed)
        assert refusal is not None
        assert (403, (("Vary", "Origin"),)) == (refusal.status, refusal.headers)
    assert check_origin(["https://ops.example"] * 2, allowed) is not None
    assert ("Access-Control-Allow-Origin", "https://ops.example") == origin_headers(
        ["https://ops.example"]
    )[0]
    assert () == origin_headers([])


def test_the_setting_of_origins() -> None:
    """Exact ones only; the sentence names the entry."""
    assert {"https://a.b", "http://[::1]:80"} == read_origins(" https://a.b  http://[::1]:80 ")
    assert frozenset() == read_origins("")
    for wrong in (
        "*",
        "https://*.b",
        "a.b",
        "https://a.b/",
        "https://a.b?x",
        "null",
        "https://u@a.b",
    ):
        with pytest.raises(ValueError, match="is no origin"):
            read_origins(f"https://a.b {wrong}")


@pytest.mark.parametrize(
    ("value", "right"),
    [
        ("Bearer tok", True),
        ("BEARER \t tok", True),
        ("Bearer tok ", True),
        ("Bearer\ttok", False),
        ("Bearertok", False),
        ("Bearer tok tok", False),
        ("Bearer t\xf6k", False),
        ("", False),
    ],
)
def test_the_bearer(value: str, right: bool) -> None:
    """One body for whatever is wrong."""
    assert (None if right else UNAUTHORIZED) == check_bearer([value], TOKEN)


def test_two_bearers_are_none() -> None:
    """Even when both are right."""
    assert UNAUTHORIZED == check_bearer(["Bearer tok"] * 2, TOKEN)
    assert UNAUTHORIZED == check_bearer([], TOKEN)


def test_an_empty_token_is_never_right() -> None:
    """Not even against the digest of nothing."""
    assert UNAUTHORIZED == check_bearer(["Bearer "], token_digest(""))
    assert not check_secret([], token_digest(""))


def test_webhook_secrets() -> None:
    """An unknown webhook has none that would fit."""
    assert check_secret(["tok"], TOKEN)
    assert not check_secret(["tok", "tok"], TOKEN)
    assert not check_secret(["tik"], TOKEN)
    assert not check_secret(["\0"], None)
