from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_magic.config.parsing import check_name, name_of_command, name_of_url, slug, unique_name
from mcp_magic.errors import TargetError


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("npx -y @modelcontextprotocol/server-everything stdio", "everything"),
        ("npx -y @modelcontextprotocol/server-everything@1.2.3", "everything"),
        *(("npx.cmd -y mcp-remote https://h/mcp", "remote"), ("npx -p some-package @scope/weather-mcp", "weather")),
        *(("npm exec -- @scope/mcp-server-files", "files"), ("bunx server-memory", "memory")),
        *(("uvx mcp-server-git", "git"), ("uvx mcp-server-time==1.2", "time")),
        ("uvx --from git+https://h/x.git sqlite-mcp-server", "sqlite"),
        *(("uv run --with mcp servers/math_server.py", "math"), ("uv tool run mcp-server-fetch", "fetch")),
        ("uv --directory /srv run weather.py", "weather"),
        *(("python -m mcp_server_time --local-timezone UTC", "time"), ("python3.12 -u -m weather.server", "weather")),
        *(("python -X dev -m mcp_server_git", "git"), ("python servers/math_server.py", "math")),
        *(("/usr/bin/python3 -W error /srv/my_server.py --port 1", "my"), ("python -c 1", "python")),
        *(("python", "python"), ("node dist/index.js", "index"), ("node --inspect build/weather.mjs", "weather")),
        ("docker run -i --rm -e API_KEY=1 ghcr.io/github/github-mcp-server:v1 stdio", "github"),
        *(("docker run -i --rm mcp/time", "time"), ("docker", "docker"), ("/opt/bin/weather-mcp --stdio", "weather")),
        *(("./server.sh", "server"), ("mcp-server", "server"), ("C:\\tools\\Weather.exe", "Weather")),
    ],
)
def test_a_command_is_named_after_its_script_module_or_package(line, name):
    command, *args = line.split()
    assert name_of_command(command, args) == name


@pytest.mark.parametrize(
    ("url", "name"),
    [
        *(("http://127.0.0.1:8000/mcp", "localhost_8000"), ("http://localhost:3001/sse", "localhost_3001")),
        *(("http://[::1]:8000/mcp", "localhost_8000"), ("http://localhost/mcp", "localhost")),
        *(("https://mcp.example.com:8443/mcp", "mcp_example_com"), ("https://me:secret@my-host/mcp", "my-host")),
        ("http://10.0.0.5:8000", "server_10_0_0_5"),
    ],
)
def test_a_url_is_named_after_its_host(url, name):
    assert name_of_url(url) == name


@given(st.text())
def test_whatever_the_text_its_slug_is_a_name(text):
    assert check_name(slug(text)) == slug(text)


@given(st.text(alphabet="abc", min_size=1), st.sets(st.text(alphabet="abc_23", min_size=1)))
def test_a_unique_name_is_not_taken_and_starts_with_the_name(name, taken):
    unique = unique_name(name, taken)
    assert unique not in taken
    assert re.fullmatch(rf"{name}(_\d+)?", unique)


@pytest.mark.parametrize("name", ["weather", "_x", "a-b_2"])
def test_names_that_are_valid(name):
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["2nd", "my server", "a:b", "a\n", "-x"])
def test_a_name_that_is_none_says_what_would_be(name):
    with pytest.raises(TargetError) as caught:
        check_name(name)
    assert str(caught.value) == (
        f"{name!r} is not a server name: letters, digits, _ and -. Did you mean {slug(name)!r}?"
    )
