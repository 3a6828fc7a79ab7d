"""The channels file: what it declares, and a sentence for each entry that is refused (§15.1).

Secrets are named here, not held: ``X_env`` is a variable's name, ``X_file`` a file's. A faulty
entry costs its own channel only; a sentence names keys, never values.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from agentconnect.core.channels.forms import FORMS, Form, Plain
from agentconnect.core.destination import MAX_NAME_UNITS, Target, blank, units

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_COMMON = frozenset(("type", "format", "webhooks"))
_MOST_CHANNELS = 100
_MOST_TARGETS = 1000


class SecretRef(msgspec.Struct, frozen=True, kw_only=True):
    """Where a secret is: a variable, or a file."""

    env: str = ""
    file: str = ""


class Ingress(msgspec.Struct, frozen=True, kw_only=True):
    """One source of webhooks (§14): its secret, and whom it may speak to by which reference."""

    secret: SecretRef
    targets: Mapping[str, Target]


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """One channel as the file has it."""

    name: str
    type: str
    markdown: bool
    options: Mapping[str, Plain]
    secrets: Mapping[str, SecretRef]
    targets: Mapping[str, Mapping[str, SecretRef]]
    webhooks: Mapping[str, Ingress]

    @property
    def refs(self) -> tuple[SecretRef, ...]:
        """Every secret it names."""
        fixed = (ref for target in self.targets.values() for ref in target.values())
        hooks = (hook.secret for hook in self.webhooks.values())
        return (*self.secrets.values(), *fixed, *hooks)


class ChannelsFile(msgspec.Struct, frozen=True, kw_only=True):
    """All that can be used, and why the rest cannot."""

    channels: tuple[Declared, ...] = ()
    refusals: tuple[str, ...] = ()

    @property
    def secret_variables(self) -> frozenset[str]:
        """The variables that hold secrets: no agent's environment may have them."""
        return frozenset(ref.env for one in self.channels for ref in one.refs if ref.env)


class _Broken(Exception):
    """Why an entry is refused."""


class _Twice(ValueError):
    """A name that stands twice."""


def read(data: bytes) -> ChannelsFile:
    """The file's text, judged. Never raises."""
    try:
        found = json.loads(data.decode("utf-8"), object_pairs_hook=_once)
    except _Twice as twice:
        return ChannelsFile(refusals=(f"{twice} stands there twice in one object",))
    except (ValueError, RecursionError):
        return ChannelsFile(refusals=("it is no JSON",))
    version = found.get("v") if isinstance(found, dict) else None
    channels = found.get("channels") if isinstance(found, dict) else None
    if version != 1 or isinstance(version, bool) or not isinstance(channels, dict):
        return ChannelsFile(refusals=('it must be {"v": 1, "channels": {NAME: {...}}}',))
    if extra := _unknown(found, {"v", "channels"}):
        return ChannelsFile(refusals=(f"{extra} is no key of it",))
    if len(channels) > _MOST_CHANNELS:
        return ChannelsFile(refusals=(f"it has more than {_MOST_CHANNELS} channels",))
    usable: list[Declared] = []
    refusals: list[str] = []
    for name, entry in channels.items():
        try:
            usable.append(_channel(name, entry))
        except _Broken as broken:
            refusals.append(f"channel {quoted(name)} is left out: {broken}")
    return ChannelsFile(channels=tuple(usable), refusals=tuple(refusals))


def quoted(name: str) -> str:
    """A name from the file, fit for a line of text."""
    shown = "".join(c if c.isprintable() else "?" for c in name[:60])
    return f'"{shown}"'


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise _Twice(quoted(next(name for name in names if names.count(name) > 1)))
    return found


def _unknown(entry: Mapping[str, object], known: set[str] | frozenset[str]) -> str:
    return next((quoted(key) for key in entry if key not in known), "")


def _channel(name: str, entry: object) -> Declared:
    if blank(name) or units(name) > MAX_NAME_UNITS or not _encodable(name):
        raise _Broken(f"a name needs 1 to {MAX_NAME_UNITS} characters")
    found = _object(entry, "it")
    kind = found.get("type")
    form = FORMS.get(kind) if isinstance(kind, str) else None
    if form is None:
        raise _Broken(f"type must be one of {', '.join(FORMS)}")
    _only_known(found, form)
    return Declared(
        name=name,
        type=str(kind),
        markdown=_markdown(found, str(kind), form),
        options=_options(found, form),
        secrets=_secrets(found, form.secrets, ""),
        targets=_targets(found, form),
        webhooks=_webhooks(found),
    )


def _only_known(found: Mapping[str, object], form: Form) -> None:
    known = _COMMON | set(form.options) | _spelled(form.secrets)
    if form.targets is not None:
        known |= {"targets"}
    if extra := _unknown(found, known):
        inline = extra.strip('"')
        if inline in form.secrets:
            raise _Broken(f"{inline} must not stand in the file: use {inline}_env or {inline}_file")
        raise _Broken(f"{extra} is no key of this type")


def _spelled(secrets: Mapping[str, bool]) -> set[str]:
    return {f"{name}_{where}" for name in secrets for where in ("env", "file")}


def _markdown(found: Mapping[str, object], kind: str, form: Form) -> bool:
    shape = found.get("format", "plain")
    if shape not in ("plain", "markdown"):
        raise _Broken("format must be plain or markdown")
    if shape == "markdown" and not form.markdown:
        raise _Broken(f"{kind} has no format markdown")
    return shape == "markdown"


def _options(found: Mapping[str, object], form: Form) -> dict[str, Plain]:
    options: dict[str, Plain] = {}
    for name, option in form.options.items():
        if name not in found:
            if option.default is None:
                raise _Broken(f"{name} is missing")
            options[name] = option.default
            continue
        value = found[name]
        if problem := option.check(value):
            raise _Broken(f"{name} {problem}")
        if isinstance(value, str | int):
            options[name] = value
    if "url" in form.options and not options["url"] and not {"url_env", "url_file"} & set(found):
        raise _Broken("url, url_env or url_file is missing")
    return options


def _secrets(
    found: Mapping[str, object], wanted: Mapping[str, bool], at: str
) -> dict[str, SecretRef]:
    refs: dict[str, SecretRef] = {}
    for name, needed in wanted.items():
        env, file = found.get(f"{name}_env"), found.get(f"{name}_file")
        if env is not None and file is not None:
            raise _Broken(f"{at}{name}_env and {name}_file exclude each other")
        if env is not None:
            if not isinstance(env, str) or not _VARIABLE.fullmatch(env):
                raise _Broken(f"{at}{name}_env must be the name of a variable")
            refs[name] = SecretRef(env=env)
        elif file is not None:
            if not isinstance(file, str) or not file.startswith(("/", "~/")) or "\0" in file:
                raise _Broken(f"{at}{name}_file must be an absolute path")
            refs[name] = SecretRef(file=file)
        elif needed:
            raise _Broken(f"{at}{name}_env or {name}_file is missing")
    return refs


def _targets(found: Mapping[str, object], form: Form) -> dict[str, dict[str, SecretRef]]:
    if form.targets is None:
        return {}
    labels = _object(found.get("targets"), "targets")
    if not 0 < len(labels) <= _MOST_TARGETS:
        raise _Broken(f"targets must name 1 to {_MOST_TARGETS} destinations")
    fixed: dict[str, dict[str, SecretRef]] = {}
    for label, entry in labels.items():
        at = f"targets.{quoted(label)}"
        if blank(label) or units(label) > MAX_NAME_UNITS or not _encodable(label):
            raise _Broken("a label of targets is empty or too long")
        inner = _object(entry, at)
        if extra := _unknown(inner, _spelled(form.targets)):
            raise _Broken(f"{extra} is no key of {at}")
        fixed[label] = _secrets(inner, form.targets, f"{at}.")
    return fixed


def _webhooks(found: Mapping[str, object]) -> dict[str, Ingress]:
    if "webhooks" not in found:
        return {}
    sources: dict[str, Ingress] = {}
    for source, entry in _object(found["webhooks"], "webhooks").items():
        at = f"webhooks.{quoted(source)}"
        inner = _object(entry, at)
        if blank(source) or not _encodable(source):
            raise _Broken("a source of webhooks has no name")
        if extra := _unknown(inner, {"secret_env", "secret_file", "target"}):
            raise _Broken(f"{extra} is no key of {at}")
        refs = _object(inner.get("target"), f"{at}.target")
        sources[source] = Ingress(
            secret=_secrets(inner, {"secret": True}, f"{at}.")["secret"],
            targets={ref: _target(value, f"{at}.target") for ref, value in refs.items()},
        )
    return sources


def _target(value: object, at: str) -> Target:
    try:
        target = msgspec.convert(value, Target)
    except msgspec.ValidationError:
        target = None
    if target is None or blank(target.id) or units(target.id) > MAX_NAME_UNITS:
        raise _Broken(f'{at} must be {{REF: {{"type": "user" or "chat", "id": TEXT}}}}')
    return target


def _object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Broken(f"{what} must be an object")
    return value


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
