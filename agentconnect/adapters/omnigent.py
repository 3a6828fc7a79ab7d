"""omnigent: one program that drives many agents; a message may choose which (worker.md §7.1)."""

from agentconnect.adapters.child import Command
from agentconnect.adapters.oneshot import Run
from agentconnect.core.turns import oneshot, wording_cli
from agentconnect.core.turns.cli_text import harness_of
from agentconnect.core.turns.events import Done
from agentconnect.core.turns.oneshot import Ask


class Omnigent:
    """The program ``omnigent``."""

    name = "omnigent"
    serves_guests = False
    setting = "AGENT_CONNECT_OMNIGENT_BIN"
    install = "Install it with: uv tool install omnigent"

    def __init__(
        self, *, binary: str = "omnigent", harness: str = "claude", model: str = ""
    ) -> None:
        self.binary = binary
        self._harness = harness
        self._model = model

    def command(self, ask: Ask) -> Command | None:
        """The command line; None where the message is too long for one."""
        harness, message = harness_of(ask.message)  # the message's own words, no preamble before
        prompt = oneshot.word(ask.about(message))
        if prompt is None:
            return None
        model = ("--model", self._model) if self._model else ()
        chosen = harness or self._harness
        return Command(argv=(self.binary, "run", "--harness", chosen, *model, "-p", prompt))

    async def answer(self, ask: Ask, run: Run) -> Done:
        """One run."""
        command = self.command(ask)
        if command is None:
            return oneshot.failure(wording_cli.too_long(self.name, oneshot.WORD_MAX_BYTES))
        output = await run(command)
        return oneshot.ending(self.name, output, self.said(output.out))

    def said(self, out: str) -> str:
        """All of stdout."""
        return oneshot.uncoloured(out)
