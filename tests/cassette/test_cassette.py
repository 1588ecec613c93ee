"""Servers that are recorded on a cassette, and replayed from it while they cannot be reached."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client
from mcp.server.mcpserver import MCPServer

from mcp_magic._host import Host, begin_again, leave_replayed
from mcp_magic.ask.elicitation import Answer
from mcp_magic.cassette.cassette import deck
from mcp_magic.config.specs import HttpSpec, StdioSpec
from mcp_magic.errors import CassetteError, ProtocolError, ToolError
from tests.support.asgi import Forgetful, serving
from tests.support.bundled import load
from tests.support.eliciting_server import trip_server
from tests.support.persons import Scripted
from tests.support.processes import PLAIN
from tests.support.reporting_server import reporting_server
from tests.test_progress import SERVER, Watching

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

OLD = Path(__file__).parents[1] / "data" / "cassettes" / "format-1.jsonl"
GONE = ["/nonexistent/server"]


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return tmp_path / "cassettes" / "a.jsonl"


@asynccontextmanager
async def hosting(tape: Path, mode: str, **options: Any) -> AsyncIterator[Host]:
    """A host whose servers are recorded or replayed."""
    host = Host()
    with deck.holding(tape, mode, **options):
        try:
            yield host
        finally:
            await host.close()


def lines(tape: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in tape.read_text("utf-8").splitlines()]


async def everything(host: Host, target: Any) -> dict[str, Any]:
    """Use a server in many ways, and return what was seen of it."""
    watching = host.reports.reporter = Watching()
    connection = await host.connect(target, name="reports")
    seen: dict[str, Any] = {"version": connection.protocol_version, "tools": []}
    seen["tools"] = [tool.name for tool in await connection.listing("tools")]
    seen["first"] = (await connection.call("work", values=[1, 2, 3], total=4, message="<b>hi</b>")).text
    seen["second"] = (await connection.call("work", values=[7])).text
    seen["logged"] = (await connection.call("log", level="warning", data="careful", count=2)).text
    try:
        await connection.call("fail")
    except ToolError as error:
        seen["error"] = str(error)
    seen["read"] = (await connection.read("reports://long")).text
    seen["prompt"] = [message.content for message in (await connection.prompt("slow")).messages]
    seen["reports"] = [(r.title, r.meter.done, r.meter.total, r.meter.message, r.state) for r in watching.reports]
    own = [message for message in connection.notices.messages if message.logger == "reports"]
    seen["messages"] = [(message.level, message.data) for message in own]
    return seen


@pytest.mark.lowest
@pytest.mark.parametrize("way", ["in process", "stdio, handshake", "http", "http, handshake"])
async def test_a_replay_shows_what_was_seen_without_the_server(tape: Path, way: str) -> None:
    kind, _, era = way.partition(", ")
    server = reporting_server(handshake=bool(era))
    async with AsyncExitStack() as stack:
        target: Any = server if kind == "in process" else [*SERVER, "--era", era or "modern"]
        if kind == "http":
            app = server.streamable_http_app()
            url = await stack.enter_async_context(serving(Forgetful(app) if era else app))
            target = f"{url}/mcp"
        async with hosting(tape, "record") as host:
            recorded = await everything(host, target)
    assert recorded["version"] == ("2025-11-25" if era else "2026-07-28")
    assert recorded["reports"][0] == ("reports:work", 3, 4, "<b>hi</b>", "done")
    assert recorded["messages"] == [("warning", "careful")] * 2

    target = target if kind != "stdio" else GONE  # the port is closed by now
    async with hosting(tape, "replay", in_process="replay") as host:
        assert await everything(host, target) == recorded


async def test_cassette_runs_kernel_servers_and_replays_others(tape: Path) -> None:
    kept: list[str] = []
    notes = MCPServer("notes", log_level="ERROR")

    @notes.tool()
    def keep(text: str) -> int:
        kept.append(text)
        return len(kept)

    for mode in ("record", "replay"):
        async with hosting(tape, mode) as host:
            connection = await host.connect(notes)
            await connection.call("keep", text=mode)

    assert kept == ["record", "replay"]


@pytest.mark.parametrize("era", ["rounds", "handshake"])
async def test_cassette_replays_answers_where_no_person_can_be_asked(
    tape: Path, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if era == "handshake":
        monkeypatch.setattr("mcp.Client", partial(Client, mode="legacy"))
    answers = [Answer.accept({"city": "Oslo", "days": 2}), Answer.decline()]
    async with hosting(tape, "record") as host:
        host.elicitation.elicitor = Scripted(*answers)
        connection = await host.connect(trip_server(), name="trip")
        assert (connection.protocol_version == "2025-11-25") is (era == "handshake")
        assert [(await connection.call("plan")).text for _ in answers] == ["accept Oslo 2", "decline"]

    async with hosting(tape, "replay", in_process="replay") as host:
        connection = await host.connect(trip_server(), name="trip")
        assert [(await connection.call("plan")).text for _ in answers] == ["accept Oslo 2", "decline"]


@pytest.mark.parametrize("era", ["rounds", "handshake"])
async def test_cassette_asks_person_again_and_needs_same_answer(
    tape: Path, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if era == "handshake":
        monkeypatch.setattr("mcp.Client", partial(Client, mode="legacy"))
    async with hosting(tape, "record") as host:
        host.elicitation.elicitor = Scripted(*[Answer.accept({"city": "Oslo", "days": 2})] * 2)
        connection = await host.connect(trip_server(), name="trip")
        await connection.call("plan")
        await connection.call("plan")

    monkeypatch.setattr(deck, "asks", lambda: True)
    async with hosting(tape, "replay", in_process="replay") as host:
        same, other = Answer.accept({"city": "Oslo", "days": 2}), Answer.accept({"city": "Rome", "days": 2})
        scripted = host.elicitation.elicitor = Scripted(same, other)
        connection = await host.connect(trip_server(), name="trip")
        assert (await connection.call("plan")).text == "accept Oslo 2"
        assert scripted.asked[0].message == "Where to?"
        with pytest.raises(CassetteError, match='"Rome" here, "Oslo" there'):
            await connection.call("plan")


def math_server() -> Any:
    return load("math_server").server


async def record_sums(tape: Path, *pairs: tuple[int, int]) -> None:
    async with hosting(tape, "record") as host:
        math = await host.connect(math_server(), name="math")
        for a, b in pairs:
            await math.call("add", a=a, b=b)


async def test_cassette_names_nearest_request_and_difference(tape: Path) -> None:
    await record_sums(tape, (1, 2), (5, 6))

    async with hosting(tape, "replay") as host:
        math = await host.connect(GONE, name="math")
        with pytest.raises(CassetteError) as failed:
            await math.call("add", a=1, b=3)
        assert str(failed.value) == (
            "math: add(a=1, b=3) is not in it; the nearest is add(a=1, b=2): arguments.b is 3 here, 2 there.\n"
            f"  (cassette {tape}; `%mcp record FILE --mode auto` adds what is missing)"
        )
        with pytest.raises(CassetteError, match=r"resources/read math://nothing is not in it; it has .*tools/call"):
            await math.read("math://nothing")
        assert (await math.call("add", a=5, b=6)).data == 11


async def test_cassette_replays_calls_as_recorded_and_listings_freely(tape: Path) -> None:
    server = MCPServer("counter", log_level="ERROR")
    counted = iter(range(1, 10))

    @server.tool()
    def count() -> int:
        return next(counted)

    async with hosting(tape, "record") as host:
        counter = await host.connect(server)
        assert [(await counter.call("count")).data for _ in range(3)] == [1, 2, 3]

    async with hosting(tape, "replay", in_process="replay") as host:
        counter = await host.connect(server)
        for _ in range(3):
            assert [tool.name for tool in await counter.listing("tools", refresh=True)] == ["count"]
        assert [(await counter.call("count")).data for _ in range(3)] == [1, 2, 3]
        with pytest.raises(CassetteError, match=r"count\(\) was recorded 3 times, and was sent once more"):
            await counter.call("count")


async def test_cassette_matches_calls_masked_by_older_version(tape: Path) -> None:
    server = MCPServer("vault", log_level="ERROR")

    @server.tool()
    def login(accessKey: str, token_count: int, user: str) -> str:
        return f"hello {user}"

    given: dict[str, Any] = {"accessKey": "AKIA-1234", "token_count": 12, "user": "ada"}
    async with hosting(tape, "record") as host:
        await (await host.connect(server)).call("login", **given)
    text = tape.read_text("utf-8")
    assert '"accessKey": "***", "token_count": 12' in text
    tape.write_text(text.replace('"***", "token_count": 12', '"AKIA-1234", "token_count": "***"'), "utf-8")

    async with hosting(tape, "replay", in_process="replay") as host:
        vault = await host.connect(server)
        with pytest.raises(CassetteError, match=r"user is .bob. here"):
            await vault.call("login", **{**given, "user": "bob"})
        assert (await vault.call("login", **given)).text == "hello ada"


async def test_sessions_of_one_name_are_played_in_their_order(tape: Path) -> None:
    def server(answer: str, *tools: str) -> MCPServer:
        made = MCPServer("mended", log_level="ERROR")
        for name in tools:
            made.add_tool(lambda: answer, name=name)
        return made

    async def seen(host: Host) -> list[Any]:
        found = []
        for target in (server("broken", "a"), server("mended", "a", "b")):
            connection = await host.connect(target, name="mended")
            found += [[tool.name for tool in await connection.listing("tools")], (await connection.call("a")).text]
        return found

    async with hosting(tape, "record") as host:
        recorded = await seen(host)
    assert recorded == [["a"], "broken", ["a", "b"], "mended"]

    async with hosting(tape, "replay", in_process="replay") as host:
        assert await seen(host) == recorded


async def test_cassette_gives_concurrent_calls_their_own_answers(tape: Path) -> None:
    async def seen(host: Host, target: Any) -> Any:
        watching = host.reports.reporter = Watching()
        connection = await host.connect(target, name="reports")
        calls = [connection.call("work", values=[n, n + 1], total=100, every=0.01) for n in (10, 20, 30)]
        texts = [result.text for result in await asyncio.gather(*calls)]
        return texts, sorted(report.meter.done for report in watching.reports)

    async with hosting(tape, "record") as host:
        recorded = await seen(host, reporting_server())
    async with hosting(tape, "replay") as host:
        assert await seen(host, GONE) == recorded == (["2 reports"] * 3, [11, 21, 31])


async def test_no_secret_is_written_and_what_is_masked_is_found_again(
    tape: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "env-secret-4711")
    safe = MCPServer("safe", log_level="ERROR")

    @safe.tool()
    def login(user: str, password: str) -> dict[str, str]:
        return {"user": user, "token": "answer-secret-0815", "echo": f"{password} env-secret-4711"}

    @safe.tool()
    def use(text: str) -> str:
        return f"used {text}"

    async def session(host: Host, spec: Any, password: str) -> str:
        connection = await host.connect_spec(spec, "safe")
        got = (await connection.call("login", user="me", password=password)).data
        return (await connection.call("use", text=got["token"])).text

    async with serving(safe.streamable_http_app()) as url:
        spec = HttpSpec(url=f"{url}/mcp", headers={"Authorization": "Bearer header-secret-42"})
        async with hosting(tape, "record") as host:
            await session(host, spec, "call-secret-1234")
            shown = await host.connect(safe)
            await shown.call("login", user="me", password="call-secret-1234")

    text = tape.read_text("utf-8")
    assert [line for line in text.splitlines() if "secret" in line] == []
    assert text.count('"password": "***"') == 2

    monkeypatch.delenv("SHOP_API_KEY")
    async with hosting(tape, "replay") as host:
        again = StdioSpec(command=GONE[0])
        assert await session(host, again, "another-password") == "used ***"


async def test_cassette_auto_asks_server_for_missing_and_keeps_it(tape: Path) -> None:
    await record_sums(tape, (1, 2))
    before = tape.read_text("utf-8")

    async with hosting(tape, "auto") as host:
        math = await host.connect(PLAIN, name="math")
        assert (await math.call("add", a=1, b=2)).data == 3
        assert tape.read_text("utf-8") == before
        assert (await math.call("add", a=1, b=3)).data == 4
        assert (await math.call("add", a=1, b=4)).data == 5
    assert tape.read_text("utf-8").startswith(before)

    async with hosting(tape, "replay") as host:
        math = await host.connect(GONE, name="math")
        assert [(await math.call("add", a=1, b=b)).data for b in (4, 3, 2)] == [5, 4, 3]


async def test_cassette_auto_reports_unreachable_server(tape: Path) -> None:
    await record_sums(tape, (1, 2))

    async with hosting(tape, "auto") as host:
        math = await host.connect(GONE, name="math")
        assert (await math.call("add", a=1, b=2)).data == 3
        for _ in range(2):
            with pytest.raises(
                CassetteError, match=r"the server cannot be asked: .*'/nonexistent/server' does not exist"
            ):
                await math.call("add", a=1, b=3)


async def test_cassette_once_records_first_then_replays(tape: Path) -> None:
    async with hosting(tape, "once") as host:
        math = await host.connect(math_server(), name="math")
        assert (await math.call("add", a=1, b=2)).data == 3
    kept = tape.read_text("utf-8")

    async with hosting(tape, "once") as host:
        math = await host.connect(GONE, name="math")
        assert (await math.call("add", a=1, b=2)).data == 3
        with pytest.raises(CassetteError, match=r"other is not in the cassette .*; it has math"):
            await host.connect(GONE, name="other")
    assert tape.read_text("utf-8") == kept


async def test_cassette_recorded_again_keeps_same_lines(tape: Path) -> None:
    def fewer(text: str) -> list[str]:
        text = re.sub(r"listen-\d+", "listen-1", text)  # the SDK counts them over all sessions of a process
        without = [{k: v for k, v in json.loads(line).items() if k != "pause"} for line in text.splitlines()]
        return sorted(json.dumps(entry) for entry in without)  # listings are asked for at the same time

    await record_sums(tape, (1, 2), (3, 4))
    first = tape.read_text("utf-8")
    await record_sums(tape, (1, 2), (3, 4))

    assert fewer(tape.read_text("utf-8")) == fewer(first)


async def test_long_base64_is_written_once(tape: Path) -> None:
    shown = MCPServer("shown", log_level="ERROR")
    picture = bytes(range(256)) * 100

    @shown.tool()
    def draw() -> Any:
        from mcp.server.mcpserver import Image

        return Image(data=picture, format="png")

    for mode in ("record", "replay"):
        async with hosting(tape, mode, in_process="replay") as host:
            connection = await host.connect(shown)
            results = [await connection.call("draw") for _ in range(3)]
            assert [bytes(result.images[0]) for result in results] == [picture] * 3
    assert tape.stat().st_size < 2 * len(picture)
    assert sum("blob" in line for line in lines(tape)) == 1


async def test_cassette_replays_in_another_folder_and_omits_its_own(tape: Path) -> None:
    files = MCPServer("files", log_level="ERROR")

    @files.tool()
    def read(path: str) -> str:
        return f"from {path}, file://{path} and {path}/b; not /mnt{path}, nor {path}2"

    async def seen(host: Host, folder: str) -> str:
        connection = await host.connect(files)
        assert (await connection.call("read", path=folder)).text.startswith(f"from {folder}, ")
        return (await connection.call("read", path=f"{folder}/a")).text

    async with hosting(tape, "record", here=Path("/srv/first")) as host:
        await seen(host, "/srv/first")
    async with hosting(tape, "replay", in_process="replay", here=Path("/home/me")) as host:
        said = await seen(host, "/home/me")
    assert said == "from /home/me/a, file:///home/me/a and /home/me/a/b; not /mnt/srv/first/a, nor /home/me/a2"
    others = ("/mnt/srv/first", "/srv/first2")
    text = tape.read_text("utf-8")
    assert [word for word in text.split() if "/srv/first" in word and not any(other in word for other in others)] == []


async def test_cassette_survives_dying_kernel_and_skips_half_a_line(tape: Path) -> None:
    async with hosting(tape, "record") as host:
        math = await host.connect(math_server(), name="math")
        await math.call("add", a=1, b=2)
        died = tape.with_name("died.jsonl")
        shutil.copy(tape, died)  # before anything is closed
    died.write_text(died.read_text("utf-8") + '{"session": 1, "to": "ser', "utf-8")

    async with hosting(died, "auto", in_process="replay") as host:
        math = await host.connect(math_server(), name="math")
        assert (await math.call("add", a=1, b=2)).data == 3
        assert (await math.call("add", a=2, b=2)).data == 4
    async with hosting(died, "replay") as host:
        math = await host.connect(GONE, name="math")
        assert (await math.call("add", a=2, b=2)).data == 4


async def test_cassette_replays_stderr_and_protocol_errors(tape: Path) -> None:
    async def seen(host: Host, target: Any) -> tuple[str, str, int]:
        connection = await host.connect(target, name="reports")
        await connection.call("stderr", text="from the server")
        await connection.call("add", a=1, b=2)
        with pytest.raises(ProtocolError) as failed:
            await connection.call_tool("nothing", {}, validate=False)
        return connection.stderr(), str(failed.value), failed.value.code

    async with hosting(tape, "record") as host:
        recorded = await seen(host, PLAIN)
    assert "from the server" in recorded[0]
    async with hosting(tape, "replay") as host:
        assert await seen(host, GONE) == recorded


async def test_the_trace_has_what_is_replayed(tape: Path) -> None:
    await record_sums(tape, (1, 2))

    async with hosting(tape, "replay") as host:
        math = await host.connect(GONE, name="math")
        await math.call("add", a=1, b=2)
        assert [entry.kind for entry in host.trace.entries("math") if entry.method == "tools/call"] == [
            "request",
            "answer",
        ]


async def test_cassette_restarts_open_sessions_and_ends_replayed_ones(tape: Path) -> None:
    host = Host()
    try:
        await host.connect(math_server(), name="math")
        with deck.holding(tape, "record"):
            assert await begin_again(host) == (["math"], {})
            await host["math"].call("add", a=1, b=2)
        await host["math"].call("add", a=1, b=9)  # it is out, and the session goes on
        with deck.holding(tape, "replay", in_process="replay"):
            await begin_again(host)
            assert (await host["math"].call("add", a=1, b=2)).data == 3
            with pytest.raises(CassetteError):
                await host["math"].call("add", a=1, b=9)
        assert await leave_replayed(host) == ["math"]
        assert len(host) == 0
    finally:
        await host.close()


def rewritten(tape: Path, change: Callable[[dict[str, Any]], Any], source: Path = OLD) -> Path:
    """Write a cassette whose header is changed."""
    header, *others = source.read_text("utf-8").splitlines()
    tape.parent.mkdir(parents=True, exist_ok=True)
    tape.write_text("\n".join([json.dumps(change(json.loads(header))), *others]) + "\n", "utf-8")
    return tape


async def test_a_cassette_of_the_first_format_still_plays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deck, "asks", lambda: False)
    async with hosting(OLD, "replay") as host:
        watching = host.reports.reporter = Watching()
        reports = await host.connect(GONE, name="reports")
        assert reports.protocol_version == "2025-11-25"
        assert (await reports.call("work", values=[1, 2], total=2, message="half")).text == "2 reports"
        assert [(report.meter.done, report.meter.message) for report in watching.reports] == [(2, "half")]
        trip = await host.connect(GONE, name="trip")
        assert trip.protocol_version == "2026-07-28"
        assert (await trip.call("plan")).text == "accept Oslo 2"
        with pytest.raises(CassetteError, match="was recorded once"):
            await trip.call("plan")


def test_a_cassette_of_a_newer_format_is_refused(tape: Path) -> None:
    newer = rewritten(tape, lambda header: {**header, "cassette": 2})

    with pytest.raises(CassetteError) as failed, deck.holding(newer, "replay"):
        pass
    assert str(failed.value) == (
        f"{newer} is a cassette of format 2; this mcp_magic reads up to 1: "
        "update mcp_magic, or record it again with `--mode record`."
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a cassette: its first line"),
        ('{"a": 1}\n', "is not a cassette: its first line"),
        ('{"cassette": true}\n', "is not a cassette: its first line"),
        ("nothing\n{}\n", "line 1: not a JSON object"),
        ('{"cassette": 1}\n[1]\n{}\n', "line 2: not a JSON object"),
        ("\udcff", "cannot be read: no UTF-8"),
    ],
)
def test_what_is_no_cassette_is_said_to_be_none(tape: Path, text: str, said: str) -> None:
    tape.parent.mkdir()
    tape.write_bytes(text.encode("utf-8", "surrogateescape"))

    with pytest.raises(CassetteError, match=said), deck.holding(tape, "replay"):
        pass


def test_a_cassette_that_is_not_there_is_not_replayed(tape: Path) -> None:
    with pytest.raises(CassetteError, match=r"there is no cassette .*; `%mcp record FILE` makes it"):
        deck.insert(tape, "replay")
    assert deck.cassette is None


def test_cassette_error_for_unknown_mode_lists_modes(tape: Path) -> None:
    with pytest.raises(CassetteError, match=r"'recrod' is not a mode of a cassette. Did you mean 'record'"):
        deck.insert(tape, "recrod")
