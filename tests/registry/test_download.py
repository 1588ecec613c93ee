"""Downloads: bounds, redirects, and addresses that are not asked."""

from __future__ import annotations

import pytest

from mcp_magic.errors import RegistryError
from mcp_magic.registry.download import check_address, check_direction, fetch
from tests.support.registry_server import Answer, registry


@pytest.fixture
def served():
    with registry() as served:
        yield served


async def test_redirects_are_followed_within_limits(served):
    served.replies["/a"] = Answer(302, "", {"location": "/b"})
    served.replies["/b"] = Answer(200, "here")
    assert (await fetch(f"{served.url}/a")).body == b"here"
    served.replies["/b"] = Answer(302, "", {"location": "/a"})
    with pytest.raises(RegistryError, match="redirects more than 5 times"):
        await fetch(f"{served.url}/a")


async def test_credentials_do_not_follow_to_another_origin(served):
    with registry() as other:
        served.replies["/a"] = Answer(302, "", {"location": f"{other.url}/b"})
        other.replies["/b"] = Answer(200, "here")
        await fetch(f"{served.url}/a", headers={"Authorization": "Bearer sesame", "accept": "text/plain"})
        assert "authorization" in served.headers[-1]
        assert "authorization" not in other.headers[-1]


async def test_redirect_to_another_scheme_is_refused(served):
    served.replies["/a"] = Answer(302, "", {"location": "file:///etc/passwd"})
    with pytest.raises(RegistryError, match=r"/etc/passwd is not asked"):
        await fetch(f"{served.url}/a")


async def test_redirect_to_no_url_is_refused(served):
    served.replies["/a"] = Answer(302, "", {"location": "http://[x"})
    with pytest.raises(RegistryError, match="is not asked: it is not a URL with a host"):
        await fetch(f"{served.url}/a")


async def test_large_answer_is_cut_off(served):
    served.replies["/a"] = Answer(200, "x" * 1001)
    with pytest.raises(RegistryError, match=r"127.0.0.1 answered with more than 1,000 bytes"):
        await fetch(f"{served.url}/a", limit=1000)


async def test_server_that_is_not_there_is_named():
    with pytest.raises(RegistryError, match=r"127.0.0.1"):
        await fetch("http://127.0.0.1:9/a")


@pytest.mark.parametrize(
    "url",
    ["http://example.com/a", "ftp://127.0.0.1/a", "https://", "https://a b/", "x", "https://[", "http://10.0.0.1/"],
)
def test_address_is_https_or_of_this_machine(url):
    with pytest.raises(RegistryError, match="is not asked"):
        check_address(url)


def test_another_machine_asks_nothing_of_this_one():
    check_direction("127.0.0.1", "http://127.0.0.1:1/a")
    check_direction("registry.example.com", "https://files.example.com/a")
    with pytest.raises(RegistryError, match=r"registry.example.com leads to localhost, which is this machine"):
        check_direction("registry.example.com", "http://localhost:8888/api")
    with pytest.raises(RegistryError, match="it is not a URL with a host"):
        check_direction("registry.example.com", "http://[x/tool.mcpb")
