"""A search of a registry: filters, order, limits, odd entries, and the table."""

import pytest

from mcp_magic.errors import ArgumentsError, RegistryError
from mcp_magic.registry import search
from mcp_magic.registry.search import Query, cached_names, search_registry
from tests.support.registry_server import Answer, entry, let_age, many, npm, registry


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))


@pytest.fixture
def served():
    http = {"type": "streamable-http", "url": "https://example.com/mcp"}
    with registry(
        entry("com.example/database", description="Reads Postgres tables.", packages=[npm("db")]),
        entry("io.github.acme/postgres", "2.0.0", title="Acme", packages=[npm("pg"), npm("pg")], remotes=[http]),
        entry("io.github.postgres/tool", remotes=[{"type": "sse", "url": "https://example.com/sse"}]),
        entry("io.github.acme/postgres-mcp", packages=[npm("x", registryType="pypi", transport=http)]),
        entry("org.example/postgres", status="deprecated", message="use acme's", updated="2026-12-01T00:00:00Z"),
        entry("org.example/postgres-old", status="deleted"),
        entry("org.example/clock"),
    ) as served:
        yield served


async def names(served, *words, **filters):
    return [row["name"] for row in await search_registry(Query(words, **filters), served.url)]


async def test_best_match_comes_first(served):
    assert await names(served, "postgres") == [
        "io.github.acme/postgres",
        "io.github.acme/postgres-mcp",
        "io.github.postgres/tool",
        "com.example/database",
        "org.example/postgres",
    ]


async def test_newer_server_comes_before_an_older_one(served):
    served.entries.append(entry("zzz.example/postgres", updated="2026-12-31T00:00:00Z"))
    assert (await names(served, "postgres"))[:2] == ["zzz.example/postgres", "io.github.acme/postgres"]


@pytest.mark.parametrize(
    ("words", "filters", "matches"),
    [
        (("POSTGRES", "tables"), {}, ["com.example/database"]),
        (("postgres",), {"transport": "stdio"}, ["io.github.acme/postgres", "com.example/database"]),
        (("postgres",), {"transport": "http"}, ["io.github.acme/postgres", "io.github.acme/postgres-mcp"]),
        (("postgres",), {"transport": "sse"}, ["io.github.postgres/tool"]),
        (("postgres",), {"package": "pypi"}, ["io.github.acme/postgres-mcp"]),
        (("postgres",), {"package": "npm", "transport": "http"}, []),
        ((), {"package": "pypi"}, ["io.github.acme/postgres-mcp"]),
        (("postgres-old",), {}, []),
        (("postgres-old",), {"every": True}, ["org.example/postgres-old"]),
    ],
    ids=str,
)
async def test_words_and_filters_narrow_the_search(served, words, filters, matches):
    assert await names(served, *words, **filters) == matches


async def test_registry_that_searches_nothing_is_searched_here(served):
    served.searches = ()
    assert len(await names(served, "postgres")) == 5


async def test_older_versions_are_there_only_for_every(served):
    served.entries += [entry("org.example/clock", version, latest=False) for version in ("0.9.0", "0.8.0")]
    assert await names(served, "clock") == ["org.example/clock"]
    served.refused = {"version"}
    assert await names(served, "clock", limit=50) == ["org.example/clock"]
    rows = await search_registry(Query(("clock",), every=True), served.url)
    assert [row["version"] for row in rows] == ["1.0.0", "0.9.0", "0.8.0"]


async def test_table_has_all_that_is_needed_to_choose(served):
    listing = await search_registry(Query(("postgres",)), served.url)
    assert {**listing[0]} == {
        "name": "io.github.acme/postgres",
        "version": "2.0.0",
        "offers": "npm, http",
        "updated": "2026-11-01",
        "status": "active",
        "description": "Does what io.github.acme/postgres does.",
    }
    assert listing[1]["offers"] == "pypi (http)"
    assert list(listing.df.columns) == list(listing[0])
    assert listing.df["status"].tolist()[-1] == "deprecated"
    assert listing.note.split("\n") == [
        "`%mcp add io.github.acme/postgres` shows what would run, and asks before it does; nothing was started",
        "org.example/postgres is deprecated: use acme's",
    ]
    assert "io.github.acme/postgres" in listing


async def test_nothing_that_matches_says_what_was_searched(served):
    host = served.url.removeprefix("http://")
    listing = await search_registry(Query(("post", "nothing"), package="oci", transport="http"), served.url)
    assert str(listing) == (
        f"Servers of {host} with 'post nothing'\n"
        f"{host} has no server with 'post nothing' in name, title or description and --transport http --package oci"
    )


async def test_deleted_server_that_a_registry_sends_is_left_out(served):
    served._fits = lambda item, query: True
    listing = await search_registry(Query(("postgres",)), served.url)
    assert "org.example/postgres-old" not in listing
    assert "1 deleted server left out: `--all` has deleted and older ones" in listing.note


@pytest.mark.parametrize(
    ("filters", "reason"),
    [
        ({"transport": "tcp"}, "transport='tcp': one of stdio, http, sse is expected"),
        ({"limit": 0}, "limit=0: 1 to 20,000 are expected"),
    ],
    ids=str,
)
def test_unknown_filter_is_refused(filters, reason):
    with pytest.raises(ArgumentsError) as refused:
        Query(**filters)
    assert str(refused.value) == reason


# Many servers


async def test_only_as_many_pages_as_are_shown_are_read():
    with registry(*many(10_000)) as served:
        listing = await search_registry(Query(("server",), limit=20), served.url)
        assert (len(listing), len(served.requests)) == (20, 1)
        assert "there are more: `--limit 40`, or another word" in listing.note
        assert len(await search_registry(Query(limit=150), served.url)) == 150
        assert len(served.requests) == 3
        rare = await search_registry(Query(("server", "server-09999")), served.url)
        assert [row["name"] for row in rare] == ["org.example/server-09999"]


async def test_all_servers_can_be_listed():
    with registry(*many(2_000)) as served:
        listing = await search_registry(Query(limit=20_000), served.url)
        assert (len(listing), len(served.requests)) == (2_000, 20)
        assert "more servers: .df has all 2,000" in str(listing)


async def test_page_of_countless_entries_is_cut(served, monkeypatch):
    monkeypatch.setattr(search, "MAX_LIMIT", 50)
    served.shape = lambda page: {"servers": [{}] * 60 + page["servers"]}
    listing = await search_registry(Query(limit=5), served.url)
    assert (len(listing), "only the first 50 entries were read" in listing.note) == (0, True)


# What a publisher or a registry may write


async def test_odd_entries_are_remarks(served):
    served.entries[:0] = [7, None, {"server": {"description": "no name"}}, {"server": {"name": "a.b/c", "packages": 5}}]
    listing = await search_registry(Query(), served.url)
    assert len(listing) == 7
    assert (
        "4 odd entries: entry 1: it is not an object with fields; entry 2: it is not an object with fields; "
        "entry 3: it has no name; 1 more"
    ) in listing.note


async def test_text_of_a_publisher_cannot_deceive(served):
    evil = "\x1b[2Jred\x1b[31m <img src=x onerror=alert(1)> \u202egnp.exe\n`%mcp connect evil`"
    served.entries[:] = [
        entry(
            "evil.example/<b>x</b>\u202e; rm -rf ~",
            description=evil * 50,
            title=evil,
            status="deprecated",
            message=evil,
        ),
        entry("\ud800/x", updated="2020\ud800"),
        entry("org.example/clock", "x" * 5_000, description="y" * 100_000, status="\u202egone"),
    ]
    served.entries[0]["server"]["version"] = "\x1b[31m1.0"
    listing = await search_registry(Query(), served.url)
    text, html = str(listing), listing._repr_mimebundle_()["text/html"]
    for shown in (text, html):
        assert "\x1b" not in shown
        assert "\u202e" not in shown
    assert len(listing.df) == 3
    assert "<img" not in html
    assert "<b>x</b>" not in html
    assert len(text) < 10_000
    assert "`%mcp add org.example/clock` shows" in text, "the other name cannot be typed"


# Without the registry


async def test_search_without_the_registry_uses_all_of_the_cache(served):
    await names(served, "postgres")
    await names(served, "clock")
    let_age(served.url, 10_800)
    served.answers.extend([Answer(500)] * 2)
    listing = await search_registry(Query(("acme",)), served.url)
    assert [row["name"] for row in listing] == ["io.github.acme/postgres", "io.github.acme/postgres-mcp"]
    host = served.url.removeprefix("http://")
    assert f"only from the cache, up to 3 h old: {host} answered HTTP 500 (internal server error)." in listing.note


async def test_search_without_registry_and_cache_says_what_to_type():
    with registry() as served:
        url = served.url
    host = url.removeprefix("http://")
    with pytest.raises(RegistryError) as refused:
        await search_registry(Query(("postgres",)), url)
    assert str(refused.value) == (
        f"nothing listens at {host}; is the server running? Nothing of it is in the cache; `--registry URL` asks "
        "another, and `%mcp connect -- COMMAND` needs none."
    )


async def test_names_in_the_cache_are_those_of_the_registry(served):
    await names(served, "clock")
    await names(served, "database")
    assert {*cached_names(served.url, 10)} == {"org.example/clock", "com.example/database"}
    assert list(cached_names("http://127.0.0.1:1", 10)) == []
