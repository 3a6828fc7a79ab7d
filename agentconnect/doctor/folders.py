"""Folders of the owner: where the agent works, and from where files may be sent. Blocking."""

import os
import shlex
from pathlib import Path

from agentconnect.checks import private_places
from agentconnect.config import workdir
from agentconnect.config.envfile import expand_home
from agentconnect.config.settings import LoadedSettings
from agentconnect.core.doctor import (
    Finding,
    Overlap,
    failure,
    ok,
    overlap_sentence,
    overlaps,
    warning,
)
from agentconnect.relay import Egress


def working_directory(loaded: LoadedSettings) -> Path:
    """Where the agent runs, there or not."""
    repo = loaded.settings.repo
    return repo or Path(expand_home(workdir.DEFAULT_REPO, loaded.environment))


def look_at_workdir(loaded: LoadedSettings) -> list[Finding]:
    """The working directory."""
    repo = working_directory(loaded)
    if problem := workdir.problem(loaded.settings.repo, loaded.environment):
        made = f"mkdir -p {shlex.quote(str(repo))}"
        mend = made if not repo.exists() else "name another with AGENT_CONNECT_REPO"
        return [failure("workdir", problem, mend)]
    if not repo.exists():
        return [ok("workdir", f"{repo} will be made at the first start")]
    findings = []
    if about := workdir.guarded(repo.resolve(), loaded.environment):
        findings.append(warning("workdir", about, "name another with AGENT_CONNECT_REPO"))
    if not os.access(repo, os.W_OK):
        text = f"{repo} may not be written to by this user: the agent can only read there"
        findings.append(warning("workdir", text, "change its owner or mode if it should"))
    return findings or [ok("workdir", str(repo))]


def look_at_egress(loaded: LoadedSettings) -> list[Finding]:
    """The roots from which answers may send files."""
    roots = (str(working_directory(loaded)), *loaded.settings.egress_roots)
    egress = Egress(roots)
    mend = "make the folder, or take it out of AGENT_CONNECT_EGRESS_ROOTS"
    findings = [
        warning("egress", f"{root} is no usable folder: nothing is sent from there", mend)
        for root in egress.dropped
        if root in loaded.settings.egress_roots
    ]
    findings += [_overlap(pair) for pair in overlaps(egress.roots, private_places(loaded))]
    if not findings:
        shown = ", ".join(egress.roots) or "the working directory, once it is there"
        findings.append(ok("egress", f"files are sent from {shown}"))
    return findings


def _overlap(pair: Overlap) -> Finding:
    mend = (
        "name a folder outside of it"
        if pair.below
        else "name narrower folders in AGENT_CONNECT_REPO and AGENT_CONNECT_EGRESS_ROOTS"
    )
    return warning("egress", overlap_sentence(pair), mend)
