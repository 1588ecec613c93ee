"""Every message that goes over a session: taken where it passes, masked, kept in a ring, paired."""

from __future__ import annotations
