"""Oddities of a server are told once: in its log, in its card, and by the doctor."""

from __future__ import annotations

import pytest

from mcp_magic.doctor import examine
from tests.support.odd_server import MODERN, TOOL, connected

ODD = {"tools/list": {"tools": [TOOL, {"name": "odd"}, {"name": 5}]}, "tools/call good": {"content": "text"}}


async def test_each_oddity_is_told_once(host):
    async with connected(host, ODD) as connection:
        for _ in range(2):
            await connection.listing("tools", refresh=True)
            await connection.call("good")
        told = [message.data for message in connection.notices.messages if message.level == "warning"]
        assert told == list(connection.info().remarks)
        assert len(told) == len(set(told)) == 4
        assert "the tool `odd` has no inputSchema" in str(connection.info())


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_the_doctor_lists_oddities(host, transport):
    async with connected(host, ODD, transport) as connection:
        report = await examine(host, "odd", call="good")
        told = "\n".join(remark.text for remark in report["lists"].remarks if remark.status == "warning")
        assert all(remark in told for remark in connection.info().remarks)
        assert "a block is a text, not an object" in told
        assert report.ok is False, "a definition cannot be used"
        assert "not a valid definition: its name is 5, not a text" in "\n".join(report.problems)


async def test_the_doctor_names_missing_parts_of_a_page(host):
    async with connected(host, {**MODERN, "tools/list": {"tools": [TOOL]}}, protocol="auto"):
        report = await examine(host, "odd")
        assert "the answer to tools/list breaks the protocol: " in "\n".join(report.problems)


async def test_many_oddities_take_bounded_memory(host):
    async with connected(host, {"tools/list": {"tools": [{"name": f"t{n}"} for n in range(200)]}}) as connection:
        assert len(await connection.listing("tools")) == 200
        assert len(connection.info().remarks) == 50
