"""What the owner's terminal says where an agent does not start (worker.md §8.3)."""

import pytest

from agentconnect.core.turns import wording_acp as wording

PATH = "/usr/bin:/bin"


@pytest.mark.parametrize(
    "stderr",
    [
        "/usr/bin/env: ‘node’: No such file or directory\n",
        "env: 'node': No such file or directory",
        "env: node: No such file or directory",
        "env: can't execute 'node': No such file or directory",
        "/x/agent: 2: exec: node: not found",
    ],
)
def test_a_missing_interpreter_is_named_with_the_path_that_lacks_it(stderr: str) -> None:
    """A service's PATH is shorter than a shell's: the sentence names program, PATH and mend."""
    told = wording.would_not_start("agent", cause="exited (code 127)", stderr=stderr, path=PATH)
    assert "“node”" in told
    assert PATH in told
    assert "service install" in told


def test_other_last_words_are_shown_as_they_are() -> None:
    """No guess where nothing says so."""
    told = wording.would_not_start("agent", cause="exited (code 1)", stderr="no licence", path=PATH)
    assert told.endswith("it said: no licence")


def test_a_program_by_its_path_has_nothing_to_do_with_path() -> None:
    """Only names are looked for on PATH."""
    by_name = wording.not_found("agent", install="", own_command=True, path=PATH)
    by_path = wording.not_found("/opt/agent", install="", own_command=True, path=PATH)
    assert PATH in by_name
    assert PATH not in by_path
    assert "may not be executed" in by_path
