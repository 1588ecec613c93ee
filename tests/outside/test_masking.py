"""Secrets of servers in what an agent outside reads of errors: those of now are masked, and long texts are cut."""

from __future__ import annotations

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic.errors import ProtocolError
from mcp_magic.outside.masking import MAX_ERROR, SessionSecrets


@pytest.fixture
async def secrets(host):
    secrets = SessionSecrets(host)
    connection = await host.connect(MCPServer("vault", log_level="ERROR"), name="vault")
    assert secrets.hide("s3cr3t-of-vault") == "s3cr3t-of-vault"
    connection.spec.secret_values.add(["s3cr3t-of-vault"])  # as a helper for headers tells it later
    return secrets


async def test_a_secret_that_comes_later_is_masked(secrets):
    assert secrets.hide("it is s3cr3t-of-vault") == "it is ***"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("postgres://me:pw123@db/x", "postgres://***@db/x"),
        ('{"urls": ["https://me:p#w@x.org/a"], "n": 1}', '{"urls": ["https://***@x.org/a"], "n": 1}'),
        ("http://localhost:80/a@b, me:pw@x", "http://localhost:80/a@b, me:pw@x"),
    ],
)
async def test_passwords_in_addresses_are_masked(text, masked, secrets):
    assert secrets.hide(text) == masked


async def test_a_long_error_is_cut(secrets):
    text = secrets.text("s3cr3t-of-vault " * MAX_ERROR)
    assert text.startswith("*** *** ")
    assert text.endswith(f"\n[cut here; the error has {4 * MAX_ERROR:,} characters]")
    assert "s3cr3t" not in text


@pytest.mark.parametrize(
    ("data", "told"), [({"key": ["s3cr3t-of-vault"]}, {"key": ["***"]}), (["a" * MAX_ERROR], None), (None, None)]
)
async def test_the_data_of_an_error_is_masked_or_left_out(data, told, secrets):
    error = secrets.error(ProtocolError("no s3cr3t-of-vault", -32000, data))
    assert (error.error.code, error.error.message, error.error.data) == (-32000, "no ***", told)
