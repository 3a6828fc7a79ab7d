"""Folders of the owner: where the agent works, and from where files may be sent. Blocking."""

import os
from pathlib import Path

from agentconnect.config import workdir
from agentconnect.config.envfile import expand_home
from agentconnect.config.settings import LoadedSettings
from agentconnect.core.doctor import Finding, Overlap, failure, ok, overlaps, warning
from agentconnect.relay import Egress
from agentconnect.store.layout import Layout


def working_directory(loaded: LoadedSettings) -> Path:
    """Where the agent runs, there or not."""
    repo = loaded.settings.repo
    return repo or Path(expand_home(workdir.DEFAULT_REPO, loaded.environment))


def look_at_workdir(loaded: LoadedSettings) -> list[Finding]:
    """The working directory."""
    repo = working_directory(loaded)
    if problem := workdir.problem(loaded.settings.repo, loaded.environment):
        mend = f"mkdir -p {repo}" if not repo.exists() else "name another with AGENT_CONNECT_REPO"
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


def look_at_egress(loaded: LoadedSettings, where: Layout) -> list[Finding]:
    """The roots from which answers may send files."""
    roots = (str(working_directory(loaded)), *loaded.settings.egress_roots)
    egress = Egress(roots)
    mend = "make the folder, or take it out of AGENT_CONNECT_EGRESS_ROOTS"
    findings = [
        warning("egress", f"{root} is no usable folder: nothing is sent from there", mend)
        for root in egress.dropped
        if root in loaded.settings.egress_roots
    ]
    private = [os.path.realpath(where.state_dir)]
    if loaded.config_file is not None:
        private.append(os.path.realpath(loaded.config_file))
    findings += [_overlap(pair) for pair in overlaps(egress.roots, private)]
    if not findings:
        shown = ", ".join(egress.roots) or "the working directory, once it is there"
        findings.append(ok("egress", f"files are sent from {shown}"))
    return findings


def _overlap(pair: Overlap) -> Finding:
    if pair.below:
        text = f"{pair.root} lies in {pair.private}: nothing is ever sent from there"
        return warning("egress", text, "name a folder outside of it")
    text = (
        f"{pair.root} contains {pair.private}: that itself is never sent, but the agent can read "
        "it and send a copy, the token included"
    )
    return warning("egress", text, "keep the worker's own files outside of what the agent works in")
