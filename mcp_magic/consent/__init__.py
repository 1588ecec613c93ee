"""Who may call what without asking: rules, what a person decides, and the record of it."""

from __future__ import annotations
