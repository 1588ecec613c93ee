"""A tool over a table: rows, their pace, the journal and the run."""

from __future__ import annotations
