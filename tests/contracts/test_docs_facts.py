"""What the docs state, held against the code: names, limits, shapes, examples."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from agentconnect.channels import group, supervisor
from agentconnect.channels.file import load
from agentconnect.cli.options import USAGE
from agentconnect.config.table import NAMES, RETIRED
from agentconnect.core.channels.declared import read as read_channels
from agentconnect.core.channels.forms import FORMS
from agentconnect.core.daemon import body, events, tasks, webhook
from agentconnect.core.daemon.prompts import MAX_PENDING
from agentconnect.core.daemon.refusals import DELIVERY_STATUS
from agentconnect.core.delivery.request import Invalid, read_deliver
from agentconnect.core.status import (
    EXIT_CODES,
    ChannelsBlock,
    DaemonBlock,
    DeliveryBlock,
    RelayBlock,
    State,
    StatusFile,
)
from agentconnect.core.turns.access import Rank, read_map
from agentconnect.daemon import edge, sessions
from agentconnect.daemon.routes import ROUTES
from agentconnect.daemon.shapes import HookBody, NotifyAnswer
from agentconnect.relay.state import RelayState
from agentconnect.store.layout import Layout
from agentconnect.store.workspaces import read_workspaces

_JSON = re.compile(r"^```json\n(.*?)^```$", re.M | re.S)
_SETTING = re.compile(r"\b(?:AGENT_CONNECT_[A-Z_]*[A-Z]|REMOTE_TASK_[A-Z]+|OLLAMA_HOST)\b")
_FILE = re.compile(r"(?<![\w/.~-])(?:\./)?((?:agentconnect|docs|scripts|tests|\.ci)/[\w./-]*\w)")


def text_of(repo_root: Path, name: str) -> str:
    return (repo_root / name).read_text(encoding="utf-8")


def everything(repo_root: Path) -> Iterable[tuple[str, str]]:
    """Every page but the decisions, which tell what was."""
    for page in [*repo_root.glob("*.md"), *(repo_root / "docs").glob("*.md")]:
        yield page.name, page.read_text(encoding="utf-8")


def section(text: str, title: str) -> str:
    """What stands under a heading, to the next one."""
    return re.split(rf"^#+ {re.escape(title)}$", text, flags=re.M)[1].split("\n## ")[0]


def cells(text: str, column: int) -> list[str]:
    """The names in backticks of a table's column."""
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row.split(" | ")[column])]


def examples(repo_root: Path, page: str) -> list[str]:
    return _JSON.findall(text_of(repo_root, f"docs/{page}.md"))


def private(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


# --- names


def test_every_setting_in_the_docs_is_one(repo_root: Path) -> None:
    """Nobody sets a variable that nothing reads."""
    known = NAMES | set(RETIRED)
    for name, text in everything(repo_root):
        assert set() == set(_SETTING.findall(text)) - known, name


def test_every_file_of_the_repository_in_the_docs_is_there(repo_root: Path) -> None:
    """A page that says where something is says it rightly."""
    found = {(name, path) for name, text in everything(repo_root) for path in _FILE.findall(text)}
    assert ("testing.md", "tests/conftest.py") in found
    assert [] == sorted(each for each in found if not (repo_root / each[1]).exists())


def test_every_command_is_in_the_readme(repo_root: Path) -> None:
    """The table of commands is that of --help."""
    shown = cells(section(text_of(repo_root, "README.md"), "Commands and exit codes"), 0)
    named = {row.split()[1] for row in shown if row.startswith("agent-connect ")}
    assert set(re.findall(r"^  ([a-z]+)", USAGE, re.M)) == named


def test_every_option_in_the_docs_is_one(repo_root: Path) -> None:
    """What follows ``agent-connect`` in an example is understood by it."""
    known = set(re.findall(r"--[a-z-]+", USAGE))
    for name, text in everything(repo_root):
        calls = re.findall(r"(?<![\w./-])agent-connect( [^`\n|\"]*)", text)
        assert (
            set() == {flag for call in calls for flag in re.findall(r" (--[a-z-]+)", call)} - known
        ), name


# --- the status file


def test_the_status_file_has_the_fields_of_its_page(repo_root: Path) -> None:
    """No field is missing there, and none is made up."""
    page = section(text_of(repo_root, "docs/status-file.md"), "Fields")
    assert set(StatusFile.__struct_fields__) == set(cells(page, 0))
    blocks: list[tuple[str, tuple[str, ...]]] = [
        ("relay", RelayBlock.__struct_fields__),
        ("delivery", DeliveryBlock.__struct_fields__),
        ("channels", ChannelsBlock.__struct_fields__),
    ]
    for name, fields in blocks:
        (told,) = re.findall(rf"^`{name}`: (.*?)\n\n", page, re.M | re.S)
        assert [] == [field for field in fields if f"`{field}`" not in told], name
    assert set(DaemonBlock.__struct_fields__) == {"listen"}
    assert [] == [state for state in State if f"`{state}`" not in page]
    assert [] == [state for state in RelayState if f"`{state}`" not in page]


def test_the_codes_of_status_are_those_of_its_page(repo_root: Path) -> None:
    """A supervisor may rely on the table."""
    page = section(text_of(repo_root, "docs/status-file.md"), "Asking for it")
    for verdict, code in EXIT_CODES.items():
        assert re.search(rf"^\|[^|]*`{verdict}`[^|]*\| {code} \|$", page, re.M), verdict


def test_every_event_of_the_log_is_in_its_table(repo_root: Path) -> None:
    """Who reads the log by program knows all that ``event`` can be."""
    said: set[str] = set()
    for path in (repo_root / "agentconnect").rglob("*.py"):
        said |= set(re.findall(r'\{"event": "([a-z]+)"', path.read_text(encoding="utf-8")))
    page = section(text_of(repo_root, "docs/status-file.md"), "Beside it: the log")
    assert said == set(cells(page, 0)) - {"event"}


# --- the state folder


def test_every_path_of_the_state_folder_is_on_its_page(repo_root: Path) -> None:
    """Nothing is written there that its owner cannot look up."""
    where = Layout(state_dir=Path("/s"), instance="<instance>")
    paths = [
        getattr(where, name) for name, kind in vars(Layout).items() if isinstance(kind, property)
    ]
    named = [path for path in paths if isinstance(path, Path) and path != where.relay_dir]
    named += [where.schedules("<id>"), where.channels("<id>")]
    page = text_of(repo_root, "docs/state-on-disk.md")
    missing = [path for path in named if f"`{path.relative_to('/s')}" not in page]
    assert [] == missing


# --- the API


def test_the_routes_in_the_docs_are_served(repo_root: Path) -> None:
    """A path that the guide calls is one of the table's."""
    served = {re.sub(r"\{[a-z]+\}", "X", route.path) for route in ROUTES}
    page = text_of(repo_root, "docs/channel-delivery.md")
    called = re.findall(r'"\$API(/[^"]*)"', page)
    called += re.findall(r"`(?:GET |POST |PATCH |DELETE )(/[^` ]+)`", page)
    assert 10 < len(called)
    plain = {re.sub(r"<[a-z]+>|\$SESSION", "X", path) for path in called}
    assert set() == plain - served


def test_the_codes_of_a_delivery_are_those_of_the_guide(repo_root: Path) -> None:
    """Status and code of each refusal of Notify."""
    page = text_of(repo_root, "docs/channel-delivery.md")
    shown = {
        code: int(status) for status, code in re.findall(r"^\| (\d+) \| `(\w+)` \|", page, re.M)
    }
    assert shown == {code.value: status for code, status in DELIVERY_STATUS.items()}


def test_the_limits_of_the_api_are_those_of_the_guide(repo_root: Path) -> None:
    """Each number of the table is the one that is enforced."""
    page = section(text_of(repo_root, "docs/channel-delivery.md"), "Limits")
    told = [row.split(" | ")[1].rstrip(" |") for row in page.splitlines() if row.startswith("| ")]
    mib = 1024 * 1024
    assert supervisor.IN_FLIGHT == group.IN_FLIGHT
    assert [
        "at most",
        f"{supervisor.IN_FLIGHT}, each for {supervisor.Pace().answer_s:.0f} s",
        f"{MAX_PENDING}",
        f"{sessions.MAX_SESSIONS}",
        f"{tasks.MAX_TASKS}",
        f"{webhook.MAX_WAITING}",
        f"{body.MAX_BODY_BYTES // mib} MiB, a webhook's {body.MAX_WEBHOOK_BODY_BYTES // mib} MiB",
        f"{edge.MAX_OPEN}",
    ] == told
    kept = text_of(repo_root, "docs/channel-delivery.md")
    assert f"{events.RING_EVENTS:,} at most" in kept
    assert f"falls {events.MAX_BEHIND} behind" in kept


def test_the_types_of_channels_are_those_of_the_table(repo_root: Path) -> None:
    """Every type with all of its keys; a star where a secret is meant; who knows Markdown."""
    page = text_of(repo_root, "docs/channels.md")
    rows = {
        name: row
        for row in section(page, "Targets").splitlines()
        for name in re.findall(r"`([a-z-]+)`", row.split(" | ")[0])
        if row.startswith("| `")
    }
    assert set(FORMS) == set(rows)
    for name, form in FORMS.items():
        keys = rows[name].split(" | ")[1]
        secrets = {*form.secrets, *(form.targets or {})} - ({"url"} if form.targets else set())
        assert [] == [key for key in secrets if f"{key}\\*" not in keys], name
        assert [] == [key for key in form.options if f"`{key}`" not in keys], name
        assert (form.targets is not None) == ("`targets`" in keys), name
    (line,) = re.findall(r'^`"format": "markdown"` is for (.*?);', page, re.M | re.S)
    assert {name for name, form in FORMS.items() if form.markdown} == set(
        re.findall(r"`([^`]+)`", line)
    )


# --- examples


def test_the_channels_file_in_the_docs_is_read(repo_root: Path, tmp_path: Path) -> None:
    """As it stands, with its secrets where it says; the two further pieces fit into it."""
    whole, piece, hooks, call = examples(repo_root, "channels")
    secrets = {
        "OPS_MATRIX_TOKEN": "a",
        "ONCALL_HOOK": "https://hooks.example.org/b",
        "CI_SECRET": "c",
    }
    (tmp_path / ".secrets").mkdir()
    (tmp_path / ".secrets" / "telegram").write_text("d\n")
    file: dict[str, Any] = json.loads(whole)
    file["channels"] |= json.loads(f"{{{piece}}}")
    file["channels"]["ops"] |= json.loads(f"{{{hooks}}}")
    path = private(tmp_path / "channels.json", json.dumps(file))
    found = load(path, {"HOME": str(tmp_path), **secrets})
    assert () == found.refusals
    assert {"ops", "phone", "alerts"} == set(found.channels)
    assert () == read_channels(whole.encode()).refusals
    read = webhook.read_webhook(json.loads(call))
    assert isinstance(read, webhook.WebhookCall)
    assert read.target_ref in found.webhooks["ops"]["ci"].targets
    assert set(json.loads(call)) == set(HookBody.__struct_fields__)


def test_the_json_of_the_guide_is_read(repo_root: Path, tmp_path: Path) -> None:
    """The answer of Notify, and the file of further workspaces."""
    answer, workspaces = examples(repo_root, "channel-delivery")
    assert set(NotifyAnswer.__struct_fields__) == set(json.loads(answer))
    folder = tmp_path / "site"
    folder.mkdir()
    path = private(tmp_path / "workspaces.json", workspaces.replace("/srv/site", str(folder)))
    found = read_workspaces(path, tmp_path)
    assert () == found.problems
    assert ["main", "site"] == [each.id for each in found.workspaces]


def test_the_caps_in_the_docs_are_read(repo_root: Path) -> None:
    """The example of access.json caps whom it names."""
    (example,) = examples(repo_root, "security")
    caps = read_map(example.encode())
    assert () == caps.unknown
    assert {"@ann:example.org": Rank.GUEST, "@bob:example.org": Rank.TEAM} == caps.caps


def test_the_delivery_in_the_docs_is_taken(repo_root: Path) -> None:
    """What authors of agents are shown is a request as the worker reads it."""
    (example,) = examples(repo_root, "delivering")
    shown = example.replace("<worker id>", "a" * 32).replace("<random>", "b" * 32)
    request = json.loads(shown.replace("<binding>", "c"))
    assert "_ag2/deliver" == request["method"]
    read = read_deliver(json.dumps(request["params"]).encode())
    assert not isinstance(read, Invalid)
    assert ["report.txt"] == [file.shown_name for file in read.files]


@pytest.mark.parametrize(
    "page", ["doctor", "security", "channel-delivery", "channels", "delivering"]
)
def test_examples_are_found(repo_root: Path, page: str) -> None:
    """A page that lost its examples would pass the rest unseen."""
    assert examples(repo_root, page)
