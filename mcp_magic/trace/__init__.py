"""The trace: every message of a session is recorded on the wire, masked, and paired with its answer."""

from __future__ import annotations
