"""The child process itself: its stderr, its descriptors, its start."""

import os
import sys
from pathlib import Path

import pytest
import trio

from agentconnect.acp import PRESETS, Spawner
from agentconnect.acp.links import QUICK
from agentconnect.acp.paths import resolve
from agentconnect.acp.presets import ACP_BRIDGE_SPEC, BRIDGE_VERSION
from agentconnect.acp.process import STDERR_BYTES, STDERR_LINES

PYTHON = [sys.executable, "-c"]


async def ended(code: str) -> tuple[int, str]:
    """Run a program to its end: code and the kept stderr."""
    with Spawner() as spawner:
        child = await spawner.spawn([*PYTHON, code], cwd="/", env=dict(os.environ))
        await child.drain_stderr()
        returncode = await child.exited()
        tail = child.stderr_tail(10**9)
        await child.close()
    return returncode, tail


async def test_the_last_lines_of_stderr_are_kept() -> None:
    """By lines and by bytes, whatever comes; control characters are taken out."""
    code, tail = await ended(
        "import sys\nfor n in range(1000): print('line', n, file=sys.stderr)\n"
        "print('\\x1b[31mlast', file=sys.stderr)\nsys.exit(5)"
    )
    assert 5 == code
    assert STDERR_LINES == len(tail.splitlines())
    assert tail.endswith("line 999\n [31mlast")
    _, tail = await ended("import sys; sys.stderr.write('x' * 5_000_000)")
    assert STDERR_BYTES == len(tail)
    _, tail = await ended("import sys\nfor n in range(300): print('y' * 1000, file=sys.stderr)")
    assert len(tail) <= STDERR_BYTES


async def test_a_child_has_a_group_of_its_own_and_no_descriptors_of_ours(tmp_path: Path) -> None:
    """Locks and sockets of the worker are not inherited."""
    held = os.open(tmp_path, os.O_RDONLY)
    try:
        with Spawner() as spawner:
            code = (
                "import os, sys\n"
                "print(os.getpgid(0) == os.getpid(), sorted(os.listdir('/proc/self/fd')))"
            )
            child = await spawner.spawn([*PYTHON, code], cwd="/", env=dict(os.environ))
            said = b"".join([block async for block in child.stdout])
            await child.end(QUICK)
            await child.close()
    finally:
        os.close(held)
    assert b"True ['0', '1', '2', '3']" == said.strip()


async def test_what_cannot_be_started_is_an_os_error() -> None:
    """And a later spawn works."""
    with Spawner() as spawner:
        for argv in (["/nowhere"], [sys.executable, "a\0b"]):
            with pytest.raises(OSError):
                await spawner.spawn(argv, cwd="/", env={})
        child = await spawner.spawn([*PYTHON, "pass"], cwd="/", env=dict(os.environ))
        assert 0 == await child.exited()
        await child.close()


async def test_ending_is_bounded_and_cannot_be_asked_too_often() -> None:
    """A child that ignores everything is gone after the second step; once more is harmless."""
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True)\n"
    with Spawner() as spawner:
        child = await spawner.spawn(
            [*PYTHON, code + "time.sleep(600)"], cwd="/", env=dict(os.environ)
        )
        await child.stdout.receive_some()
        with trio.fail_after(60):
            await child.end(QUICK)
            await child.end(QUICK)
        assert -9 == child.returncode
        await child.close()


def test_pins_are_exact_and_the_bridge_has_its_new_name() -> None:
    """No ``latest``, no range; the installer repeats the constant."""
    assert "0.64.2" == BRIDGE_VERSION
    assert f"@agentclientprotocol/claude-agent-acp@{BRIDGE_VERSION}" == ACP_BRIDGE_SPEC
    assert {"claude", "gemini", "codex", "qwen", "opencode", "vibe"} == set(PRESETS)
    for preset in PRESETS.values():
        if preset.package:
            assert preset.package in preset.install
            version = preset.package.rpartition("@")[2]
            assert all(part.isdigit() for part in version.split("."))
        assert "claude-code-acp" not in preset.install


def test_an_installed_binary_is_preferred_to_npx(tmp_path: Path) -> None:
    """Without it the pinned package is run."""
    gemini = PRESETS["gemini"]
    assert ("npx", "-y", "@google/gemini-cli@0.61.0", "--acp") == gemini.command(str(tmp_path))
    binary = tmp_path / "gemini"
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    assert ("gemini", "--acp") == gemini.command(str(tmp_path))
    assert ("vibe-acp",) == PRESETS["vibe"].command(str(tmp_path / "nothing"))


def test_what_cannot_be_resolved_is_nowhere(tmp_path: Path) -> None:
    """Loops behind a missing folder, foreign hosts, absurd names."""
    (tmp_path / "loop").symlink_to("loop")
    for target in ("nope/../loop/x", "file://host/etc", "file:///%ff", "x" * 5000, "a\0b", "~q/x"):
        assert resolve(target, str(tmp_path)) is None
    assert "/a b" == resolve("file:///a%20b", str(tmp_path))
    assert str(tmp_path / "new" / "file") == resolve("new/file", str(tmp_path))
