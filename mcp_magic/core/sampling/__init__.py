"""What servers ask of a model: shown to the person, answered by the configured model."""

from __future__ import annotations
