"""Skills that servers offer: found in their resources, read, checked."""

from __future__ import annotations
