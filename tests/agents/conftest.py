"""Real agents from the npm registry, against a scripted model service on loopback.

They are installed once into ``.cache/agents`` of the checkout (git-ignored), in exactly the pinned
versions, and skipped with a reason where that is not possible.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentconnect.adapters.acp import AcpAdapter, AcpSettings
from agentconnect.store.sessions import SessionStore
from tests.agents.rig import BINARIES, PACKAGES, Rig
from tests.support.adapters import running

INSTALL_LIMIT_S = 600


@dataclass(frozen=True)
class Model:
    """The scripted model service."""

    port: int
    log: Path

    def requests(self) -> list[dict[str, object]]:
        """What reached it so far."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture(scope="session")
def installed(repo_root: Path, real_home: Path) -> Callable[[str], Path]:
    """Given a preset's name: the folder with its executable, installed when it is missing."""

    def folder(name: str) -> Path:
        package = PACKAGES[name]
        place = repo_root / ".cache" / "agents" / package.rpartition("/")[2]
        binaries = place / "node_modules" / ".bin"
        if (place / "installed").exists():
            return binaries
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("real agents: npm is not installed")
        place.mkdir(parents=True, exist_ok=True)
        (place / "package.json").write_text('{"private": true}\n')
        done = subprocess.run(
            [npm, "install", "--no-audit", "--no-fund", "--save-exact", package],
            cwd=place,
            env={**os.environ, "HOME": str(real_home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_LIMIT_S,
            check=False,
        )
        if done.returncode:
            pytest.skip(f"real agents: {package} could not be installed: {done.stderr[-300:]}")
        (place / "installed").touch()
        return binaries

    return folder


@pytest.fixture
def model(tmp_path: Path, repo_root: Path) -> Iterator[Model]:
    """A model service of this test's own."""
    log = tmp_path / "llm.log"
    log.touch()
    script = repo_root / "tests" / "support" / "fake_llm.py"
    with subprocess.Popen(
        [sys.executable, str(script), "--port", "0", "--log", str(log)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        try:
            yield Model(port=json.loads(process.stdout.readline())["port"], log=log)
        finally:
            process.kill()


@pytest.fixture
def rig(tmp_path: Path, home: Path) -> Rig:
    """Where one agent works and lives."""
    work = tmp_path / "work"
    work.mkdir()
    return Rig(work=work, home=home, sessions=tmp_path / "sessions.json")


Start = Callable[..., AbstractAsyncContextManager[AcpAdapter]]


@pytest.fixture
def start(rig: Rig, model: Model, installed: Callable[[str], Path]) -> Start:
    """Our adapter, running with one preset; started again it is a restarted worker."""

    @asynccontextmanager
    async def started(
        preset: str, *, execute: str = "refuse", credentials: bool = True, resume: bool = True
    ) -> AsyncIterator[AcpAdapter]:
        binaries = installed(preset)
        path = f"{binaries}{os.pathsep}{os.environ['PATH']}"
        hidden = [sys.executable, str(Path(__file__).with_name("without_resume.py"))]
        program, *arguments = BINARIES[preset]
        command = None if resume else (*hidden, str(binaries / program), *arguments)
        store = SessionStore(rig.sessions)
        store.load(wall_now=1_800_000_000.0, prune=False)
        adapter = AcpAdapter(
            AcpSettings(
                cwd=str(rig.work), preset=preset, command=command, execute=execute, spare=0
            ),
            environment=rig.environment(preset, model.port, path, credentials=credentials),
            store=store,
            wall_clock=lambda: 1_800_000_000.0,
        )
        async with running(adapter):
            yield adapter

    return started
