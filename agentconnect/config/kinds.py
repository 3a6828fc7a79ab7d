"""What a row of the table of settings is made of."""

from enum import StrEnum

import msgspec


class Kind(StrEnum):
    """How a setting's text is read; the value is the word that the docs show."""

    TEXT = "text"
    LOWER = "word"
    PATH = "path"
    FLAG_ON = "flag, on unless switched off"
    FLAG_OFF = "flag, off unless switched on"
    WHOLE = "whole number"
    NUMBER = "number"
    ABOVE_ZERO = "number above 0"
    CHOICE = "one of"
    INSTANCE = "name"
    COMMAND = "command line"
    PATHS = "list of paths"
    ORIGINS = "list of origins"
    USERS = "list of user ids"


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One row: ``default`` is the text that would give the default, "" when there is none."""

    name: str
    kind: Kind
    field: str
    doc: str
    default: str = ""
    default_doc: str = ""
    choices: tuple[str, ...] = ()
    secret: bool = False
    group: str
