"""Settings of the environment; `tests/kernel/test_settings.py` has those of a kernel."""

import pytest

from mcp_magic.errors import ConfigError
from mcp_magic.ipython.settings import Settings


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("DISPLAY_ROWS", "many", "MCP_MAGIC_DISPLAY_ROWS: 'many' does not fit"),
        ("TOKENS", "sesame-1234", "***"),
        ("APPROVAL", "https://me:sesame@auth.example.com", "'https://***@auth.example.com'"),
        ("TELEMETRY", "http://me:sesame@otel.example.com:4318", "'http://***@otel.example.com:4318' is none of"),
    ],
)
def test_secret_in_wrong_environment_variable_is_masked(name, value, shown):
    with pytest.raises(ConfigError) as refused:
        Settings().read_environment({f"MCP_MAGIC_{name}": value})
    assert shown in str(refused.value)
    assert "sesame" not in str(refused.value)
