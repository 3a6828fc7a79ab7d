"""Command-line agents that are run once for each message (worker.md §7.1).

What is special about one of them is its :class:`Program`; everything else is here: the check at
start, the notice about attachments, the run, its end. No sessions, no progress: between the
placeholder and the answer nothing is said.
"""

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

import msgspec
import trio

from agentconnect.acp import Spawner, media_type
from agentconnect.adapters import executables
from agentconnect.adapters.child import Child, Command, Watch
from agentconnect.adapters.childenv import child_environment
from agentconnect.adapters.contract import Emit, TurnContext
from agentconnect.adapters.trouble import Problem, Trouble, unheard
from agentconnect.core.errors import PreflightError
from agentconnect.core.task import Attachment, SessionKey
from agentconnect.core.turns import addressing, oneshot, wording_acp, wording_cli
from agentconnect.core.turns.events import Done, Notice
from agentconnect.core.turns.oneshot import Ask, Output
from agentconnect.core.turns.wording import file_label
from agentconnect.store.children import ChildrenFile

log = logging.getLogger("agentconnect.adapters")

KILL_WAIT_S = 2.0

Run = Callable[[Command], Awaitable[Output]]
"""Runs one command to its end.

Raises: OSError when it cannot be started; Stopped when it was told to end.
"""


class Stopped(Exception):
    """The run was told to end; ``output`` is what there was by then."""

    def __init__(self, output: Output) -> None:
        super().__init__("stopped")
        self.output = output


class Program(Protocol):
    """What is special about one command-line agent."""

    name: str
    serves_guests: bool
    install: str
    """A sentence on how to get it."""
    setting: str
    """The setting that names another program; "" where none does."""

    @property
    def binary(self) -> str: ...

    async def answer(self, ask: Ask, run: Run) -> Done:
        """Run it for one message; the ending."""
        ...

    def said(self, out: str) -> str:
        """The answer in what it wrote on stdout."""
        ...


class OneShotSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where programs run and what they must not see."""

    cwd: str
    umask: int = -1
    secret_env: tuple[str, ...] = ()


class OneShotAdapter:
    """An adapter for one :class:`Program`. Start :meth:`run` before anything else is used."""

    remote = False
    shares_files = True

    def __init__(
        self,
        program: Program,
        settings: OneShotSettings,
        *,
        environment: Mapping[str, str],
        children: ChildrenFile | None = None,
        problem: Problem = unheard,
    ) -> None:
        self.name = program.name
        self.serves_guests = program.serves_guests
        self.trouble = Trouble(problem)
        self._program = program
        self.cwd = os.path.realpath(settings.cwd)
        self._environment = child_environment(environment, settings.secret_env) | (
            children.environment if children is not None else {}
        )
        self._spawner = Spawner(settings.umask)
        self._programs: trio.Nursery | None = None
        self._children = children
        self._children_lock = trio.Lock()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold every process until cancelled; then all of them end, side by side."""
        with self._spawner:
            try:
                async with trio.open_nursery() as programs:
                    self._programs = programs
                    task_status.started()
                    await trio.sleep_forever()
            finally:
                self._programs = None

    async def preflight(self) -> str:
        """Look for the program; nothing is run.

        Raises: PreflightError with how to get it.
        """
        binary = self._program.binary
        found = executables.find(binary, self._environment, self.cwd)
        if found is None:
            program = self._program
            raise PreflightError(
                wording_cli.missing(self.name, binary, program.setting, program.install)
            )
        return wording_cli.described(self.name, found)

    @asynccontextmanager
    async def session(self, key: SessionKey) -> AsyncIterator["OneShotSession"]:
        """Nothing is kept from one message to the next."""
        yield OneShotSession(self._program, self)

    async def start(self, command: Command) -> Child:
        """Start one child.

        Raises: OSError. Cancellation: the child that was begun is ended.
        """
        assert self._programs is not None, "the adapter is not running"
        child = Child(command, cwd=self.cwd, env=self._environment)
        watch = Watch(began=self._remember, ended=self._forget) if self._children else None
        await self._programs.start(child.live, self._spawner, watch)
        return child

    def not_started(self, error: OSError) -> str:
        """What to say when it could not be run: a missing folder looks the same to the kernel."""
        program = self._program
        if not os.path.isdir(self.cwd):  # noqa: PTH112
            return wording_cli.not_started(self.name, wording_acp.cwd_missing(self.cwd))
        if executables.find(program.binary, self._environment, self.cwd) is None:
            return wording_cli.not_installed(self.name, program.binary, program.install)
        return wording_cli.not_started(self.name, error.strerror or str(error))

    async def _remember(self, pid: int) -> None:
        assert self._children is not None
        async with self._children_lock:
            await trio.to_thread.run_sync(self._children.add, pid)

    async def _forget(self, pid: int) -> None:
        assert self._children is not None
        async with self._children_lock:
            await trio.to_thread.run_sync(self._children.remove, pid)


class OneShotSession:
    """One message's run, or several in order where the program needs them."""

    def __init__(self, program: Program, adapter: OneShotAdapter) -> None:
        self._program = program
        self._adapter = adapter
        self._child: Child | None = None
        self._stopping = False

    async def turn(self, ctx: TurnContext, emit: Emit) -> Done:
        """Run the program for one message. Cancellation: its process group is ended."""
        began = trio.current_time()
        self._stopping, self._child = False, None
        ask = begun(ctx, self._adapter.cwd, emit)
        try:
            done = await self._program.answer(ask, self._run)
        except Stopped as stopped:
            said = self._program.said(stopped.output.out)
            return oneshot.stopped(self._adapter.name, trio.current_time() - began, said)
        except OSError as error:
            done = oneshot.failure(self._adapter.not_started(error))
        else:
            if self._child is None:  # nothing was run: the message's fault, not the machine's
                return done
        self._adapter.trouble.failed(oneshot.problem_of(done))
        self._adapter.trouble.ended(done)
        return done

    async def interrupt(self) -> None:
        """End the running program: TERM, then KILL, to its group. Idempotent."""
        self._stopping = True
        if self._child is not None:
            self._child.stop()

    async def kill(self) -> None:
        """End it now. Idempotent, bounded."""
        self._stopping = True
        if self._child is not None:
            self._child.stop(now=True)
            with trio.CancelScope(shield=True), trio.move_on_after(KILL_WAIT_S):
                await self._child.ended.wait()

    async def _run(self, command: Command) -> Output:
        if self._stopping:
            raise Stopped(Output(code=0))
        self._child = child = await self._adapter.start(command)
        try:
            if self._stopping:
                child.stop()
            await child.ended.wait()
        finally:
            child.stop()
        if self._stopping:
            raise Stopped(child.output)
        output = child.output
        if output.code:
            log.warning("%s ended with code %d", self._adapter.name, output.code)
        return output


def begun(ctx: TurnContext, cwd: str, emit: Emit) -> Ask:
    """What the agent is asked; the room is told of files that it is not given."""
    if notice := _unsent_notice(ctx.task.attachments):
        emit(Notice(text=notice))
    return Ask(
        message=ctx.prompt,
        sandbox=oneshot.sandbox_of(ctx.tier),
        tier=ctx.tier,
        cwd=cwd,
        around=addressing.preamble(ctx.task),
    )


def _unsent_notice(attachments: Sequence[Attachment]) -> str:
    """What the room hears about files that a text-only agent cannot take; "" without any."""
    lines = [
        (
            file_label(item),
            media_type(item),
            "this agent takes text only" if item.ok else item.reason or "it could not be fetched",
        )
        for item in attachments
    ]
    return wording_acp.unsent_files_notice(lines, ()) if lines else ""
