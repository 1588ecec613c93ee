"""What the eras of the protocol leave to the client."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from mcp_magic.errors import InvalidResponseError
from tests.support import SUPPORT

if TYPE_CHECKING:
    from mcp_magic._host import Host

TERSE = SUPPORT / "terse_server.py"


async def test_result_of_2026_without_type_is_complete(host: Host) -> None:
    connection = await host.connect([sys.executable, str(TERSE)], name="terse")
    assert connection.protocol_version == "2026-07-28"

    assert (await connection.call("echo")).text == "here"

    [answer] = [entry for entry in connection.trace.entries if entry.method == "tools/call" and entry.kind == "answer"]
    assert b"resultType" not in answer.text  # the trace has what came


async def test_a_result_of_a_kind_that_nobody_knows_is_an_error(host: Host) -> None:
    connection = await host.connect([sys.executable, str(TERSE), "surprise"], name="odd")

    with pytest.raises(InvalidResponseError) as raised:
        await connection.call("echo")

    assert str(raised.value) == (
        "odd:echo: the server's answer breaks the protocol: its resultType is 'surprise', which mcp_magic does not know"
    )
