"""Consent: rules, the user's decisions, and the record of both."""

from __future__ import annotations
