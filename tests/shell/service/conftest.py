"""The machine that the tests of this folder install on."""

from tests.installer.rig import machine

__all__ = ["machine"]
