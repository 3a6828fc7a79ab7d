"""What every test gets: a home of its own, an environment without secrets, opt-in markers.

Nothing here starts a process or opens a socket; helpers that do live in ``tests/support``.
"""

import os
import shutil
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile(
    "ci",
    max_examples=120,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("nightly", parent=settings.get_profile("ci"), max_examples=5000)
settings.load_profile(
    os.environ.get("AGENTCONNECT_HYPOTHESIS") or ("ci" if os.environ.get("CI") else "dev")
)

# A shell's background job ignores the one, `nohup` the other, and so would what tests start: a
# handler of ours is not inherited.
for _number, _handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, lambda _number, _frame: None),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)

_REAL_HOME = Path.home()

#: Ours, and those by which agents, shells and supervisors would reach the person's own set-up.
_SCRUBBED_PREFIXES = (
    "AGENT_CONNECT_",
    "REMOTE_TASK_",
    "ANTHROPIC_",
    "CLAUDE_",
    "CODEX_",
    "GEMINI_",
    "GOOGLE_",
    "OPENAI_",
    "XDG_",
)
_SCRUBBED = ("OLLAMA_HOST", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")

_OPT_IN = {
    "agents": "real agents: run ./scripts/test --agents",
    "im": "real IM servers: run ./scripts/test --im",
}


def chromium() -> str | None:
    """The path of an installed Chromium, or None."""
    named = os.environ.get("AGENTCONNECT_CHROMIUM")
    if named:
        return named
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        found = shutil.which(name)
        if found:
            return found
    return None


def pytest_addoption(parser: pytest.Parser) -> None:
    for name, reason in _OPT_IN.items():
        parser.addoption(f"--{name}", action="store_true", default=False, help=reason)


def pytest_configure(config: pytest.Config) -> None:
    for name in list(os.environ):
        if name.startswith(_SCRUBBED_PREFIXES) or name in _SCRUBBED:
            del os.environ[name]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    reasons = {name: why for name, why in _OPT_IN.items() if not config.getoption(f"--{name}")}
    if chromium() is None and not os.environ.get("CI"):  # in CI its absence is a failure
        reasons["browser"] = "no Chromium on PATH (AGENTCONNECT_CHROMIUM names one)"
    if "agents" not in reasons and shutil.which("npm") is None:
        reasons["agents"] = "real agents: npm is not installed"
    for item in items:
        for name, why in reasons.items():
            if item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory of this test's own; ``~`` and HOME point to it, children included."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture(scope="session")
def real_home() -> Path:
    """The home of the person who runs the tests, for tool caches only (npm, uv, pip)."""
    return _REAL_HOME


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Where Chromium is; skips the test where there is none."""
    found = chromium()
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("no Chromium on PATH: the room page was not tested")
        pytest.skip("no Chromium on PATH (AGENTCONNECT_CHROMIUM names one)")
    return found


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """The checkout's top folder."""
    return Path(__file__).resolve().parent.parent
