"""What the proxy reads of messages: of a text, a batch, or what is no message at all."""

from __future__ import annotations

import pytest

from mcp_magic.outside.messages import failure, is_answer, is_notification, is_request, parsed, version_of


@pytest.mark.parametrize(
    "text",
    ["", "x", "5", "[]", "[1]", '"x"', "null", "[" * 100_000, b"\xff", "9" * 5000, '{"a": 1'],
    ids=lambda x: x[:9],
)
def test_text_without_a_message_has_none(text):
    assert parsed(text) == []


def test_message_is_one_of_three_kinds_or_none():
    kinds = (is_request, is_notification, is_answer)
    for message, is_kind in (
        ({"method": "m", "id": 0}, [True, False, False]),
        ({"method": "m", "id": ""}, [True, False, False]),
        ({"method": "m"}, [False, True, False]),
        ({"id": 1, "result": None}, [False, False, True]),
        ({"id": 1, "error": {}}, [False, False, True]),
        ({"id": 1}, [False] * 3),
        ({"method": 5, "id": 1}, [False] * 3),
        ({"method": "m", "id": None, "result": {}}, [False] * 3),
        ({"method": "m", "id": []}, [False] * 3),
    ):
        assert [is_one(message) for is_one in kinds] == is_kind, message


def test_version_is_one_that_a_header_can_have():
    for version in ("2026-07-28", "a\nb", " ", "ö", "x" * 41, 5, None):
        meta = {"io.modelcontextprotocol/protocolVersion": version}
        assert version_of({"params": {"_meta": meta}}) == (version if version == "2026-07-28" else "")
    for params in ({}, {"_meta": 5}, [], None):
        assert version_of({"params": params}) == ""


def test_failure_of_a_call_is_a_result_that_a_model_reads():
    result = failure({"id": 1, "method": "tools/call"}, "why")["result"]
    assert result == {"content": [{"type": "text", "text": "why"}], "isError": True}
    assert failure({"id": 1, "method": "ping"}, "why")["error"] == {"code": -32000, "message": "why"}
