"""cline: ``cline --json -y``, whose events hold the answer (worker.md §7.1). It asks nobody before
it acts, and nothing confines it.
"""

from agentconnect.adapters.child import Command
from agentconnect.adapters.oneshot import Run
from agentconnect.core.turns import oneshot, wording_cli
from agentconnect.core.turns.cli_text import cline_answer
from agentconnect.core.turns.events import Done
from agentconnect.core.turns.oneshot import Ask


class Cline:
    """The program ``cline``."""

    name = "cline"
    serves_guests = False
    setting = "AGENT_CONNECT_CLINE_BIN"
    install = "Install it with: npm i -g cline (Node.js 22 or newer)"

    def __init__(self, *, binary: str = "cline", provider: str = "", model: str = "") -> None:
        self.binary = binary
        self._provider = provider
        self._model = model

    def command(self, ask: Ask) -> Command | None:
        """The command line; None where the message is too long for one."""
        prompt = oneshot.word(ask.prompt)
        if prompt is None:
            return None
        provider = ("-P", self._provider) if self._provider else ()
        model = ("-m", self._model) if self._model else ()
        return Command(argv=(self.binary, "--json", "-y", *provider, *model, prompt))

    async def answer(self, ask: Ask, run: Run) -> Done:
        """One run."""
        command = self.command(ask)
        if command is None:
            return oneshot.failure(wording_cli.too_long(self.name, oneshot.WORD_MAX_BYTES))
        output = await run(command)
        said, is_error = cline_answer(output.out)
        if is_error:
            return oneshot.failure(wording_cli.reported(self.name, said))
        return oneshot.ending(self.name, output, said)

    def said(self, out: str) -> str:
        """The result among the events, else all of stdout."""
        return cline_answer(out)[0]
