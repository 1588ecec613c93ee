"""Resources that are watched: their updates, shown as they come."""

from __future__ import annotations
