"""OpenTelemetry spans, their export, and metrics."""

from __future__ import annotations
