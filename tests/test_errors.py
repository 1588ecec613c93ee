"""Errors of ours reach other processes whole."""

from __future__ import annotations

import pickle

import pytest

from mcp_magic import errors

RAISED = [
    *(errors.CommandError("no such subcommand"), errors.MissingDependencyError("not installed")),
    *(errors.HTTPStatusError("busy", 503, 2.0), errors.SessionClosedError("closed", stderr="ended")),
    *(errors.RequestTimeoutError("60 s"), errors.ProtocolError("refused", -32602, {"field": "a"}, status=400)),
    *(errors.UnknownToolError("no tool"), errors.ToolError("failed", {"content": []})),
    errors.DeniedError("denied", "the rule"),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_errors_survive_pickle(error):
    error.add_note("of a child")
    twin = pickle.loads(pickle.dumps(error))
    assert (type(twin), str(twin), vars(twin)) == (type(error), str(error), vars(error))
