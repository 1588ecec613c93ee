"""A registry of this machine is read: pages, versions, the cache, and what else a registry may answer."""

import gzip
import threading

import pytest

from mcp_magic.errors import ConfigError, RegistryError
from mcp_magic.registry import client as clients
from mcp_magic.registry.client import RegistryClient, registry_address
from tests.support.registry_server import Answer, entry, let_age, many, registry


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))


@pytest.fixture
def served():
    with registry(entry("org.example/clock"), *many(249)) as served:
        yield served


async def names(client, **query):
    return [item["server"]["name"] async for page in client.pages(**query) for item in page.servers]


async def refusal(client, **query):
    with pytest.raises(RegistryError) as refused:
        await names(client, **query)
    return str(refused.value)


# Addresses


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("https://registry.example.com", "https://registry.example.com"),
        (" https://registry.example.com/ ", "https://registry.example.com"),
        ("registry.example.com", "https://registry.example.com"),
        ("https://example.com/mcp/registry/", "https://example.com/mcp/registry"),
        ("https://example.com/mcp/v0.1/servers/", "https://example.com/mcp"),
        ("https://example.com/v0", "https://example.com"),
        ("https://me:pw@example.com/a?key=1#x", "https://me:pw@example.com/a?key=1"),
        ("http://localhost:8080", "http://localhost:8080"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_address_is_that_of_the_registry(text, address):
    assert registry_address(text) == address


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not the address of a registry; for example https://registry.modelcontextprotocol.io"),
        ("file:///etc/passwd", "is not the address of a registry"),
        ("https://", "is not the address of a registry"),
        ("https://a b", "is not the address of a registry"),
        ("https://example.com:port", "is not the address of a registry"),
        ("https://example.com\\@127.0.0.1", "is not the address of a registry"),
        ("http://registry.example.com", "has no https: others on the network could change what it names"),
        ("http://127.0.0.1.example.com", "has no https"),
        ("http://me:sesame@example.com", "http://***@example.com has no https"),
    ],
)
def test_address_that_cannot_be_used_is_refused(text, reason):
    with pytest.raises(ConfigError) as refused:
        RegistryClient(text)
    assert reason in str(refused.value)
    assert "sesame" not in str(refused.value)


async def test_address_may_have_a_path_and_credentials(served):
    served.path = "/mcp"
    host = served.url.removeprefix("http://")
    client = RegistryClient(f"http://me:sesame@{host}/mcp/?key=k3y&x=1")
    assert len(await names(client, limit="1000")) == 250
    assert served.requests[0] == "/mcp/v0.1/servers?key=k3y&x=1&limit=1000"
    assert served.headers[0]["authorization"].startswith("Basic ")
    assert client.place == f"{host}/mcp"
    served.answers.extend([Answer(403, "no"), Answer(403, "no")])
    message = await refusal(client, search="other")
    assert message == f"{host}/mcp wants credentials (HTTP 403); `https://USER:TOKEN@HOST` has some: no."


# Pages


async def test_pages_follow_the_cursor_to_the_end(served):
    client = RegistryClient(served.url)
    every = await names(client, limit="100")
    assert every == [item["server"]["name"] for item in served.entries]
    assert [target.partition("?")[2] for target in served.requests] == [
        "limit=100",
        "limit=100&cursor=after+100",
        "limit=100&cursor=after+200",
    ]
    assert client.notes == []


async def test_cursor_that_repeats_ends_the_list(served):
    served.shape = lambda page: {**page, "metadata": {"nextCursor": "again"}}
    served.page = lambda query: {"servers": served.entries[:2]}
    client = RegistryClient(served.url)
    assert len(await names(client)) == 4
    assert client.notes == [f"{client.place} repeats a cursor, so the list ends there"]


@pytest.mark.parametrize(
    ("limit", "value", "note"),
    [
        ("MAX_PAGES", 2, "the list ends early, after 2 pages"),
        ("MAX_ALL_BYTES", 10_000, "the list ends early, after 10,000 bytes"),
        ("ALL_SECONDS", -1, "the list ends early, after -1 seconds"),
    ],
)
async def test_list_without_an_end_is_cut(served, monkeypatch, limit, value, note):
    monkeypatch.setattr(clients, limit, value)
    client = RegistryClient(served.url)
    assert 0 < len(await names(client, limit="100")) < 250
    assert client.notes == [note]


async def test_failure_after_the_first_page_ends_the_list(served):
    page = served.page
    served.page = lambda query: page(query) if "cursor" not in query else {"servers": "gone"}
    client = RegistryClient(served.url)
    assert len(await names(client, limit="100")) == 100
    assert client.notes == [
        f"the list ends early: {client.place} answered with JSON that lists no servers; is it the address of a "
        "registry?"
    ]


@pytest.mark.parametrize(
    "shape",
    [
        lambda page: page["servers"],
        lambda page: {"servers": page["servers"]},
        lambda page: {"servers": page["servers"], "metadata": None},
        lambda page: {"servers": page["servers"], "metadata": {"next_cursor": "", "nextCursor": None}},
        lambda page: {**page, "metadata": {"nextCursor": ["x"]}},
        lambda page: {**page, "metadata": {"nextCursor": "x" * 5000}},
    ],
    ids=["a list", "no metadata", "null", "old names", "a wrong cursor", "a long cursor"],
)
async def test_list_is_read_in_other_shapes(served, shape):
    served.shape = shape
    assert len(await names(RegistryClient(served.url), limit="1")) == 1


async def test_list_of_null_is_empty(served):
    served.shape = lambda page: {"servers": None}
    assert await names(RegistryClient(served.url)) == []


async def test_older_cursor_and_path_are_used(served):
    served.api = "v0"
    served.shape = lambda page: {
        "servers": page["servers"],
        "metadata": {"next_cursor": page["metadata"].get("nextCursor", "")},
    }
    assert len(await names(RegistryClient(served.url), limit="100")) == 250
    assert served.requests[0].startswith("/v0.1/servers")
    assert served.requests[1].startswith("/v0/servers")


async def test_parameter_that_a_registry_refuses_is_left_out(served):
    served.refused = {"version", "limit"}
    client = RegistryClient(served.url)
    assert await names(client, search="clock", version="latest", limit="5") == ["org.example/clock"]
    assert served.requests[1] == "/v0.1/servers?search=clock"


# Entries and versions


async def test_entry_is_read_by_name_and_version(served):
    served.entries += [
        entry("org.example/old", "1.0.0+build", latest=False),
        entry("org.example/old", "2.0.0", status="deprecated", message="use clock"),
    ]
    client = RegistryClient(served.url)
    latest = await client.entry("org.example/old")
    assert (latest.version, latest.status, latest.status_message) == ("2.0.0", "deprecated", "use clock")
    assert (await client.entry("org.example/old", "1.0.0+build")).version == "1.0.0+build"
    assert served.requests[-1] == "/v0.1/servers/org.example%2Fold/versions/1.0.0%2Bbuild"
    assert [item.version for item in await client.versions("org.example/old")] == ["1.0.0+build", "2.0.0"]


async def test_missing_entry_is_an_error_even_if_it_is_cached(served):
    client = RegistryClient(served.url)
    await client.entry("org.example/clock")
    served.entries.clear()
    for name in ("org.example/clock", "org.example/other"):
        with pytest.raises(RegistryError) as refused:
            await client.entry(name)
        assert refused.value.status == 404
        assert str(refused.value) == (f"{client.place} has no server {name}. `%mcp find WORDS` searches it.")


async def test_similar_name_in_the_cache_is_proposed(served):
    client = RegistryClient(served.url)
    await names(client, search="clock")
    with pytest.raises(RegistryError, match=r"no server org\.example/clok\. Did you mean 'org\.example/clock'\? `%mcp"):
        await client.entry("org.example/clok")


async def test_entry_is_asked_for_each_time_and_cached_for_failures(served):
    client = RegistryClient(served.url)
    await client.entry("org.example/clock")
    await client.entry("org.example/clock")
    assert len(served.requests) == 2
    assert "if-none-match" in served.headers[1]
    let_age(served.url, 3600)
    served.answers.append(Answer(500))
    assert (await client.entry("org.example/clock")).name == "org.example/clock"
    assert client.notes == [f"from the cache, 1 h old: {client.place} answered HTTP 500 (internal server error)."]


async def test_entry_of_another_name_is_refused(served):
    served.answers.append(Answer(200, entry("org.example/evil\x1b[2J")))
    with pytest.raises(RegistryError, match=r"was asked for org\.example/clock and answered with"):
        await RegistryClient(served.url).entry("org.example/clock")


# The cache


async def test_fresh_answer_is_used_without_a_request(served):
    await names(RegistryClient(served.url), search="clock")
    client = RegistryClient(served.url)
    assert await names(client, search="clock") == ["org.example/clock"]
    assert len(served.requests) == 1
    assert client.notes[0].endswith("old; `--refresh` asks the registry")
    client = RegistryClient(served.url, refresh=True)
    await names(client, search="clock")
    assert len(served.requests) == 2
    assert client.notes == []


async def test_old_answer_is_asked_for_again_by_its_etag(served):
    await names(RegistryClient(served.url), search="clock")
    let_age(served.url, 3600)
    client = RegistryClient(served.url)
    assert await names(client, search="clock") == ["org.example/clock"]
    assert served.headers[1]["if-none-match"]
    assert client.notes == []
    await names(RegistryClient(served.url), search="clock")
    assert len(served.requests) == 2, "the answer 304 made the stored one fresh"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(500, "<h1>Oops</h1>"), "answered HTTP 500 (internal server error): Oops."),
        (Answer(429, "", {"retry-after": "90"}), "asks to wait 1 min 30 s (HTTP 429)."),
        (Answer(200, "<html>", {"content-type": "text/html"}), "answered with text/html that is not JSON"),
        (Answer(200, "[" * 100_000), "answered with no type that is not JSON"),
    ],
    ids=["500", "429", "a page", "nested"],
)
async def test_failed_request_is_answered_from_the_cache(served, answer, reason):
    await names(RegistryClient(served.url), search="clock")
    let_age(served.url, 7200)
    served.answers.append(answer)
    client = RegistryClient(served.url)
    assert await names(client, search="clock") == ["org.example/clock"]
    [note] = client.notes
    assert note.startswith("from the cache, 2 h old: ")
    assert reason in note


async def test_folder_that_cannot_be_written_is_a_note(served, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "file"))
    client = RegistryClient(served.url)
    assert await names(client, search="clock") == ["org.example/clock"]
    assert client.notes == ["the answer is not cached: Not a directory"]


# Failures


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Answer(500, "<h1>Oops</h1>"), "HOST answered HTTP 500 (internal server error): Oops."),
        (Answer(401, {"detail": "log in"}), "HOST wants credentials (HTTP 401); `https://USER:TOKEN@HOST` has some"),
        (Answer(429, "", {"retry-after": "90"}), "HOST asks to wait 1 min 30 s (HTTP 429)."),
        (Answer(429, "slow down"), "HOST answered HTTP 429 (too many requests): slow down."),
        (
            Answer(200, "<html>", {"content-type": "text/html"}),
            "HOST answered with text/html that is not JSON; is it the address of a registry?",
        ),
        (
            Answer(200, {"tools": []}),
            "HOST answered with JSON that lists no servers; is it the address of a registry?",
        ),
        (
            Answer(302, "", {"location": "https://elsewhere.example/v0.1/servers?token=sesame"}),
            "HOST redirects to https://elsewhere.example/v0.1/servers, which is another host and is not asked; if that "
            "is the registry that you mean, `--registry URL` names it.",
        ),
        (Answer(302, "", {"location": "file:///etc/passwd"}), "HOST redirects to file:///etc/passwd, which is another"),
        (Answer(302, "", {"location": "http://[x"}), "HOST redirects to ***, which is another host"),
        (Answer(200, b"x" * 100_001), "HOST answered with more than 100,000 bytes."),
        (
            Answer(200, gzip.compress(b" " * 1_000_000), {"content-encoding": "gzip"}),
            "HOST answered with more than 100,000 bytes.",
        ),
        (Answer(200, b"x\r\n", {"transfer-encoding": "chunked"}), "HOST broke off:"),
    ],
    ids=lambda value: "" if isinstance(value, Answer) else value[:60],
)
async def test_failed_request_says_why(served, monkeypatch, answer, message):
    monkeypatch.setattr(clients, "MAX_BYTES", 100_000)
    served.answers.append(answer)
    client = RegistryClient(served.url)
    said = await refusal(client)
    assert said.startswith(message.replace("HOST", client.place, 1))
    assert "sesame" not in said


async def test_address_without_a_registry_says_so():
    with registry() as served:
        served.path = "/mcp"
        client = RegistryClient(served.url)
        assert await refusal(client) == f"{client.place} has no registry: nothing is at /v0.1/servers there."


async def test_registry_that_is_away_says_so():
    with registry() as served:
        url = served.url
    client = RegistryClient(url)
    assert await refusal(client) == f"nothing listens at {client.place}; is the server running?"


async def test_short_pause_of_a_registry_is_waited_for(served):
    served.answers.append(Answer(503, "", {"retry-after": "0"}))
    client = RegistryClient(served.url)
    assert await names(client, search="clock") == ["org.example/clock"]
    assert len(served.requests) == 2


async def test_answer_that_takes_too_long_is_given_up(served):
    release = threading.Event()
    served.answers.append(Answer(wait=release.wait))
    client = RegistryClient(served.url, timeout=0.2)
    try:
        assert await refusal(client) == f"{client.place} did not answer within 0.2 s."
    finally:
        release.set()


async def test_redirect_within_the_origin_is_followed(served):
    served.answers.append(Answer(307, "", {"location": "/v0.1/servers?search=clock"}))
    assert await names(RegistryClient(served.url)) == ["org.example/clock"]
    served.answers.extend([Answer(307, "", {"location": "?again"})] * 20)
    client = RegistryClient(served.url)
    assert await refusal(client, search="x") == f"{client.place} redirects in a circle."


async def test_redirect_to_another_port_gets_no_request(served):
    with registry() as other:
        served.answers.append(Answer(307, "", {"location": f"{other.url}/v0.1/servers"}))
        assert "is another host and is not asked" in await refusal(RegistryClient(served.url))
        assert other.requests == []
