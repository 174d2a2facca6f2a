"""The error that is the user's to mend, and not ours."""

from __future__ import annotations


class Refusal(Exception):
    """Something that the user asked for and can't have: one line says what, where and what was expected."""
