"""The file of a cassette: its format, what is no cassette, cassettes that unpack to gigabytes, and its bound."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage
from mcp.server.mcpserver import Image, MCPServer

from mcp_magic.agent.cassette import turns_of
from mcp_magic.cassette.cassette import Cassette, deck
from mcp_magic.errors import CassetteError
from tests.environments import ROOT
from tests.support.bundled import load
from tests.support.cassettes import GONE, hosting, lines, play, written
from tests.support.clocks import assert_linear
from tests.support.watching import Watching

if TYPE_CHECKING:
    from pathlib import Path

OLD = ROOT / "tests" / "data" / "cassettes" / "format-1.jsonl"
MATH = load("math_server").server
HEADER: dict[str, Any] = {"cassette": 1, "by": "a stranger"}
HEAD: dict[str, Any] = {"session": 1, "server": "s", "transport": "stdio", "where": "x"}


async def test_a_cassette_of_the_first_format_still_plays(monkeypatch):
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


async def test_long_base64_is_written_once(tape):
    shown = MCPServer("shown", log_level="ERROR")
    picture = bytes(range(256)) * 100

    @shown.tool()
    def draw() -> Image:
        return Image(data=picture, format="png")

    for mode in ("record", "replay"):
        async with hosting(tape, mode, in_process="replay") as host:
            connection = await host.connect(shown)
            results = [await connection.call("draw") for _ in range(3)]
            assert [bytes(result.images[0]) for result in results] == [picture] * 3
    assert tape.stat().st_size < 2 * len(picture)
    assert sum("blob" in line for line in lines(tape)) == 1


async def test_half_a_line_and_lines_of_unknown_kinds_are_passed_over(tape):
    async with hosting(tape, "record") as host:
        math = await host.connect(MATH, name="math")
        await math.call("add", a=1, b=2)
        died = tape.with_name("died.jsonl")
        shutil.copy(tape, died)  # before anything is closed
    died.write_text(died.read_text("utf-8") + '{"session": 1, "to": "ser', "utf-8")
    async with hosting(died, "auto", in_process="replay") as host:
        math = await host.connect(MATH, name="math")
        assert (await math.call("add", a=1, b=2)).data == 3
        assert (await math.call("add", a=2, b=2)).data == 4
    async with hosting(died, "replay") as host:
        math = await host.connect(GONE, name="math")
        assert (await math.call("add", a=2, b=2)).data == 4

    header, *others = lines(tape)
    strange = [{"weather": "fine"}, {"session": 1, "smell": "smoke", "id": 2}, {"doctor": 7}]
    written(tape, header, *[line for one in others for line in (one, *strange)])
    async with hosting(tape, "replay") as host:
        math = await host.connect(GONE, name="math")
        assert (await math.call("add", a=1, b=2)).data == 3
        with pytest.raises(CassetteError, match="was recorded once"):
            await math.call("add", a=1, b=2)


def test_a_byte_order_mark_of_an_editor_is_passed_over(tmp_path):
    path = written(tmp_path / "tape.jsonl", {"cassette": 1}, {"session": 1, "later": True})
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert Cassette(path, "replay").file.read() == [{"session": 1, "later": True}]


def test_a_cassette_of_a_newer_format_is_refused(tmp_path):
    newer = written(tmp_path / "a.jsonl", {**lines(OLD)[0], "cassette": 2}, *lines(OLD)[1:])
    with pytest.raises(CassetteError) as failed, deck.holding(newer, "replay"):
        pass
    assert str(failed.value) == (
        f"{newer} is a cassette of format 2; this mcp_magic reads up to 1: "
        "update mcp_magic, or record it again with `--mode record`."
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is not a cassette: its first line"),
        (b"\n" * 1000, "is not a cassette: its first line"),
        (b'{"a": 1}\n', "is not a cassette: its first line"),
        (b'{"cassette": true}\n', "is not a cassette: its first line"),
        (b'{"cassette": "1"}\n', "is not a cassette"),
        (b'{"cassette": NaN}\n', "is not a cassette"),
        (b'{"cassette": 2}\n', "is a cassette of format 2"),
        (b"nothing\n{}\n", "line 1: not a JSON object"),
        (b"[1]\n", "not a JSON object"),
        (b'{"cassette": 1}\n[1]\n{}\n', "line 2: not a JSON object"),
        (b"\xff", "cannot be read: no UTF-8"),
        (b"\x00\xff\xfe", "no UTF-8"),
        (b'{"cassette": 1}\n' + b"[" * 100_000 + b"\n", "nested deeper"),
        (b'{"cassette": 1}\n{"session": ' + b"9" * 5000 + b"}\n", "a number has more than 4,300 digits"),
    ],
)
def test_a_file_that_is_no_cassette_is_refused_in_words(content, problem, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    with pytest.raises(CassetteError, match=problem):
        play(path)


# Cassettes of strangers: small ones that unpack to gigabytes


def test_a_cassette_above_64_mb_is_refused_with_its_size(tmp_path):
    path = tmp_path / "a.jsonl"
    with path.open("wb") as file:
        file.truncate(3_000_000_000)
    with pytest.raises(CassetteError, match="it has 3,000,000,000 bytes, and at most 64,000,000 are read"):
        play(path)


BODY = [HEADER, {"blob": "b", "base64": "A" * 1_000_000}, HEAD]
USE = {"session": 1, "to": "server", "method": "m", "params": {"a": {"$blob": "b"}}}
LONG = {"turn": 0, "model": "m", "messages": [{"content": "x" * 500_000}]}
BOMBS: dict[str, list[Any]] = {
    "a body in 3,000 answers": [*BODY, *[{"session": 1, "stderr": {"$blob": "b", "prefix": "data:,"}}] * 3000],
    "a body in 3,000 requests": [*BODY, *({**USE, "id": number} for number in range(3000))],
    "turns that each have those before": [
        HEADER,
        *({"turn": n, "model": "m", "after": [n - 1, n], "messages": [{}]} for n in range(1, 4000)),
    ],
    "a long message in 4,000 turns": [
        *(HEADER, LONG),
        *({"turn": n, "model": "m", "after": [n - 1, 1]} for n in range(1, 4000)),
        *({"turn": n, "done": True} for n in range(4000)),
    ],
}

PROGRAM = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2_000_000_000, 2_000_000_000))
from pathlib import Path
from tests.support.cassettes import play
from mcp_magic.errors import CassetteError
for path in sys.argv[1:]:
    try:
        play(Path(path))
        print("played")
    except CassetteError as error:
        print(error)
"""


def test_cassette_bombs_are_refused_within_two_gigabytes(tmp_path):
    paths = [written(tmp_path / f"{number}.jsonl", *bomb) for number, bomb in enumerate(BOMBS.values())]
    assert max(path.stat().st_size for path in paths) < 3_000_000
    command = [sys.executable, "-c", PROGRAM, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    said = [line.partition(": ")[2] for line in done.stdout.splitlines()]
    unpacked = "unpacked it has more than 256,000,000 characters"
    assert [line.partition(". `%mcp")[0] for line in said[:2]] == [unpacked] * 2
    assert [line[:35] for line in said[2:]] == ["the conversations up to here have m"] * 2


def test_many_notifications_are_read_in_linear_time(tmp_path):
    entries: list[Any] = [HEADER, HEAD]
    for number in range(10_000):
        entries += [
            {"session": 1, "to": "server", "id": number, "method": "subscriptions/listen"},
            {"session": 1, "to": "server", "id": f"x{number}", "method": "tools/call"},
            {"session": 1, "to": "client", "method": "notifications/message"},
        ]
    few, many = (written(tmp_path / f"{count}.jsonl", *entries[:count]) for count in (1_877, 30_002))
    assert_linear(lambda path: Cassette(path, "replay"), few, many)


# A server, or a model, that floods the recording

BOUND = 300_000


def flood_server() -> MCPServer:
    server = MCPServer("flood", log_level="ERROR")
    picture = os.urandom(60_000)

    @server.tool()
    def text(number: int) -> str:
        return f"{number} " + os.urandom(10_000).hex()

    @server.tool()
    def image(number: int) -> Image:
        return Image(data=picture, format="png")

    return server


async def recorded(tape: Path, tool: str, calls: int) -> tuple[list[str], list[str]]:
    """Record calls of the flooding server; return their answers, and what the user was told."""
    told: list[str] = []
    async with hosting(tape, "record", largest=BOUND, tell=told.append) as host:
        connection = await host.connect(flood_server(), name="flood")
        answers = [str((await connection.call(tool, number=number)).raw) for number in range(calls)]
        assert deck.cassette is not None
        assert deck.cassette.full
        assert f"{deck.cassette!r}" == f"<Cassette {str(tape)!r}: full (300,000 bytes): nothing more is recorded>"
    return answers, told


@pytest.mark.parametrize("tool", ["text", "image"])
async def test_a_recording_ends_at_its_bound_and_plays_up_to_there(tool, tape):
    answers, told = await recorded(tape, tool, 40)
    assert len(answers) == 40, "no call fails"
    assert told == [
        f"The recording on {tape} has ended: a cassette has at most 300,000 bytes. It plays up to here; "
        "`%config MCPMagics.cassette_bytes = 600000` allows more."
    ]
    assert tape.stat().st_size <= BOUND
    assert lines(tape)[-1] == {"cut": BOUND}
    async with hosting(tape, "replay", largest=BOUND, in_process="replay") as host:
        connection = await host.connect(flood_server(), name="flood")
        for number in range(5):
            assert str((await connection.call(tool, number=number)).raw) == answers[number]
        with pytest.raises(CassetteError) as caught:
            await connection.call(tool, number=39)
    assert str(caught.value).endswith(
        "; its recording ended at 300,000 bytes; `%config MCPMagics.cassette_bytes = 600000` allows more when it is "
        "recorded again)"
    )


async def test_a_full_cassette_gets_nothing_more_in_mode_auto(tape):
    await recorded(tape, "text", 20)
    async with hosting(tape, "auto", largest=BOUND, in_process="replay") as host:
        connection = await host.connect(flood_server(), name="flood")
        for number in range(10, 30):
            assert (await connection.call("text", number=number)).text.startswith(f"{number} ")
        assert deck.cassette is not None
        assert deck.cassette.full
    assert tape.stat().st_size <= BOUND
    play(tape)


@pytest.mark.parametrize("flood", ["long replies", "long conversation"])
def test_model_turns_that_fill_a_cassette_end_the_recording(tmp_path, monkeypatch, flood):
    monkeypatch.setattr("mcp_magic.agent.cassette.MOST_MESSAGES", 100)
    tape = tmp_path / "a.jsonl"
    told: list[str] = []
    with deck.holding(tape, "record", largest=BOUND, tell=told.append) as cassette:
        turns = turns_of(cassette)
        conversation: list[Any] = []
        for number in range(40):
            message = HumanMessage(f"{number}")
            conversation = [message] if flood == "long replies" else [*conversation, message]
            content = os.urandom(10_000).hex() if flood == "long replies" else "x"
            turns.write(turns.request_of("m", conversation, {}), [{"answer": {"content": content}}])
        assert cassette.full
    assert len(told) == 1
    assert tape.stat().st_size <= BOUND
    play(tape)
