"""The time zone of this machine, with its rules."""

from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from agentconnect.store.zone import FoundZone, local_zone, rule_zone

BERLIN = "CET-1CEST,M3.5.0,M10.5.0/3"


def offsets(found: FoundZone) -> list[timedelta | None]:
    """In January and in July."""
    return [datetime(2026, month, 1, tzinfo=found.zone).utcoffset() for month in (1, 7)]


def hours(*numbers: float) -> list[timedelta]:
    return [timedelta(hours=number) for number in numbers]


@pytest.fixture
def known(tmp_path: Path) -> Path:
    """A file of one zone, written by hand: an hour east of Greenwich and no summer time."""
    path = tmp_path / "localtime"
    counts = (0).to_bytes(16, "big") + (1).to_bytes(4, "big") + (4).to_bytes(4, "big")
    block = b"TZif2" + bytes(15) + counts + (3600).to_bytes(4, "big") + b"\0\0STD\0"
    path.write_bytes(block + block + b"\nSTD-1\n")
    return path


def test_a_rule_in_the_environment(known: Path) -> None:
    """It goes before the system's own, with or without a colon."""
    for stated in (BERLIN, f":{BERLIN}"):
        assert hours(1, 2) == offsets(local_zone({"TZ": stated}, known))


def test_the_systems_own(known: Path) -> None:
    """As a file, or as the path that the environment names."""
    assert hours(1, 1) == offsets(local_zone({}, known))
    assert hours(1, 1) == offsets(local_zone({"TZ": str(known)}, known.with_name("none")))


def test_a_name_that_the_machine_knows() -> None:
    """Where it knows any."""
    try:
        ZoneInfo("America/New_York")
    except KeyError:
        pytest.skip("no time zones are installed here")
    assert hours(-5, -4) == offsets(local_zone({"TZ": "America/New_York"}))


def test_no_zone_is_utc(known: Path) -> None:
    """An empty setting and a machine without the file mean it, so there is nothing to say."""
    for found in (local_zone({"TZ": ""}, known), local_zone({}, known.with_name("none"))):
        assert (hours(0, 0), "") == (offsets(found), found.problem)


@pytest.mark.parametrize(
    "stated",
    ["No/Such", "../../etc/passwd", "/no/such", "CET-1CEST,M99", "ü", "\0", "a b", "x" * 9999],
)
def test_a_zone_that_is_none(known: Path, stated: str) -> None:
    """UTC, as in the C library, and a sentence."""
    found = local_zone({"TZ": stated}, known)
    assert hours(0, 0) == offsets(found)
    assert "run by UTC" in found.problem


def test_a_broken_file(known: Path) -> None:
    """The same, and its name."""
    for data in (b"", b"TZif", b"x" * 4096, known.read_bytes()[:60]):
        known.write_bytes(data)
        assert str(known) in local_zone({}, known).problem
    assert str(known.parent) in local_zone({}, known.parent).problem


def test_a_rule_that_is_none() -> None:
    """Refused as one error."""
    for rule in ("", "x", "CET", "CET-1CEST,M13.5.0,M10.5.0"):
        with pytest.raises(ValueError, match=r"."):
            rule_zone(rule)
