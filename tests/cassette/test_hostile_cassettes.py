"""Cassettes of strangers (small ones that unpack to gigabytes, lines that are none), and servers that flood one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from mcp.server.mcpserver import Image, MCPServer

from mcp_magic._host import Host
from mcp_magic.agent.cassette import turns_of
from mcp_magic.cassette.cassette import Cassette, deck
from mcp_magic.errors import CassetteError

HEADER: dict[str, Any] = {"cassette": 1, "by": "a stranger"}
HEAD: dict[str, Any] = {"session": 1, "server": "s", "transport": "stdio", "where": "x"}
ASKED: dict[str, Any] = {"session": 1, "to": "server", "id": 1, "method": "tools/call", "params": {"name": "t"}}
ANSWER: dict[str, Any] = {"session": 1, "to": "client", "id": 1, "result": {}, "pause": 0.1, "http": {"status": 200}}
FAILED: dict[str, Any] = {"session": 1, "to": "client", "id": 1, "error": {"code": 1, "message": "m"}}
NOISE: dict[str, Any] = {"session": 1, "garbage": "x", "id": 1, "error": {"code": 1, "message": "m"}}
LAST: dict[str, Any] = {"session": 1, "failed": "ServerExitedError", "message": "m"}
TURN: dict[str, Any] = {"turn": 1, "model": "m", "after": [0, 0], "messages": [{}], "tools": [], "stop": ["x"]}
CHUNK: dict[str, Any] = {"turn": 1, "chunk": {"content": "a"}, "pause": 0.1}
STEP: dict[str, Any] = {"step": "a", "seconds": 0.1, "found": [["ok", "b"]]}
LINT: dict[str, Any] = {"title": "a", "note": "b", "empty": "c"}
REPORT: dict[str, Any] = {"doctor": 1, "title": "a", "target": "b", "call": None, "steps": [STEP], "findings": []}
REPORT["lint"] = LINT
BLOB: dict[str, Any] = {"blob": "b", "base64": "A" * 2000}

LINES = {
    "head": HEAD,
    "asked": ASKED,
    "answer": ANSWER,
    "failed": FAILED,
    "noise": NOISE,
    "last": LAST,
    "stderr": {"session": 1, "stderr": "x"},
    "exited": {"session": 1, "exited": "x"},
    "turn": TURN,
    "chunk": CHUNK,
    "report": REPORT,
    "blob": BLOB,
}

VALUES: dict[str, Any] = {
    "null": None,
    "true": True,
    "negative": -1,
    "huge": 10**4000,
    "float": 1.5,
    "nan": float("nan"),
    "infinite": float("inf"),
    "text": "x",
    "list": [1],
    "object": {"a": 1},
    "deep": json.loads("[" * 400 + "]" * 400),
}


def play(path: Path) -> None:
    """Read all that a cassette has."""
    cassette = Cassette(path, "replay")
    turns = turns_of(cassette)
    asked = turns.request_of("m", [HumanMessage("x")], {})
    turns.find(asked)
    turns.explain(asked)
    for name in cassette.servers:
        if name in cassette.content.servers:
            server = cassette.content.servers[name]
            number = server.begin(in_process=False)
            server.find(number, "tools/call", {"name": "t"})
            server.explain("tools/call", {"name": "u"})


def written(path: Path, *lines: Any) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def refused_or_played(path: Path) -> None:
    try:
        play(path)
    except CassetteError as error:
        text = str(error)
        assert text.startswith(f"{path}, ")
        assert text.endswith(f". `%mcp record {path} --mode record` records it again.")
        assert len(text) < 1000


def test_the_lines_of_the_table_are_in_order(tmp_path: Path) -> None:
    play(written(tmp_path / "a.jsonl", HEADER, *LINES.values()))


@pytest.mark.parametrize("kind", LINES)
def test_line_without_a_member_is_read_or_refused_with_place(kind: str, tmp_path: Path) -> None:
    for name in LINES[kind]:
        less = {inner: value for inner, value in LINES[kind].items() if inner != name}
        before = [HEADER, *(line for other, line in LINES.items() if other != kind)]
        refused_or_played(written(tmp_path / "a.jsonl", *before, less))


@pytest.mark.parametrize("kind", LINES)
def test_member_of_another_type_is_read_or_refused(kind: str, tmp_path: Path) -> None:
    for name in LINES[kind]:
        for value in VALUES.values():
            before = [HEADER, *(line for other, line in LINES.items() if other != kind)]
            refused_or_played(written(tmp_path / "a.jsonl", *before, LINES[kind] | {name: value}))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (HEAD | {"session": "1"}, "session: Input should be a valid integer"),
        ({"server": "s"}, "session: Field required"),
        (ASKED | {"params": [1]}, "params: Input should be a valid dictionary"),
        (ANSWER | {"pause": float("nan")}, "pause: Input should be a finite number"),
        (ANSWER | {"pause": 1e300}, "pause: Input should be less than or equal to 1000000"),
        ({"session": 1, "to": "client", "id": 1}, "it has neither result nor error"),
        ({"session": 1, "to": "server"}, "it has neither method nor id"),
        (FAILED | {"error": {"code": "x"}}, "error.code: Input should be a valid integer"),
        (REPORT | {"steps": [{"step": "a"}]}, "steps.0.seconds: Field required"),
        (REPORT | {"steps": [STEP | {"found": [["?", "b"]]}]}, "steps: expected one of ok, warning, failed"),
        (TURN | {"after": [1]}, "after: List should have at least 2 items"),
        (ANSWER | {"result": {"a": {"$blob": "none"}}}, '{"$blob": ...} names no line {"blob": ..., "base64": ...}'),
        (ANSWER | {"result": {"a": VALUES["deep"]}}, "nested deeper than 250 levels"),
    ],
)
def test_bad_line_error_has_its_number_and_a_remedy(line: dict[str, Any], problem: str, tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", HEADER, line)
    with pytest.raises(CassetteError) as caught:
        play(path)
    assert str(caught.value).startswith(f"{path}, line 2: {problem}")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is not a cassette"),
        (b"\x00\xff\xfe", "no UTF-8"),
        (b"[1]\n", "not a JSON object"),
        (b'{"cassette": "1"}\n', "is not a cassette"),
        (b'{"cassette": 2}\n', "is a cassette of format 2"),
        (b'{"cassette": 1}\n' + b"[" * 100_000 + b"\n", "nested deeper"),
        (b'{"cassette": 1}\n{"session": ' + b"9" * 5000 + b"}\n", "a number has more than 4,300 digits"),
        (b'{"cassette": NaN}\n', "is not a cassette"),
        (b"\n" * 1000, "is not a cassette"),
    ],
)
def test_a_file_that_is_no_cassette_is_refused_in_words(content: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    with pytest.raises(CassetteError, match=problem):
        play(path)


def test_a_cassette_above_64_mb_is_refused_with_its_size(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with path.open("wb") as file:
        file.truncate(3_000_000_000)
    with pytest.raises(CassetteError, match="it has 3,000,000,000 bytes, and at most 64,000,000 are read"):
        play(path)


def test_turn_with_parts_of_no_model_is_refused_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    head = {"turn": 7, "model": "m", "messages": [{"role": "human", "content": "x"}]}
    written(path, HEADER, head, {"turn": 7, "chunk": {"content": 5}}, {"turn": 7, "done": True})
    with pytest.raises(CassetteError, match=r"a\.jsonl, turn 7: the reply is not a model's answer"):
        play(path)


def _blobs(prefix: str, place: str) -> list[Any]:
    use = {"$blob": "b", **({"prefix": prefix} if prefix else {})}
    lines = [HEADER, {"blob": "b", "base64": "A" * 1_000_000}, HEAD]
    for number in range(3000):
        lines.append({"session": 1, "to": "server", "id": number, "method": "m", place: {"a": use}})
    return lines


BOMBS: dict[str, list[Any]] = {
    "a body in 3,000 answers": [
        *_blobs("", "params")[:3],
        *({"session": 1, "stderr": {"$blob": "b", "prefix": "data:,"}} for _ in range(3000)),
    ],
    "a body in 3,000 requests": _blobs("", "params"),
    "turns that each have those before": [
        HEADER,
        *({"turn": n, "model": "m", "after": [n - 1, n], "messages": [{}]} for n in range(1, 20_000)),
    ],
    "a long message in 20,000 turns": [
        HEADER,
        {"turn": 0, "model": "m", "messages": [{"content": "x" * 500_000}]},
        *({"turn": n, "model": "m", "after": [n - 1, 1]} for n in range(1, 20_000)),
        *({"turn": n, "done": True} for n in range(20_000)),
    ],
}

PROGRAM = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2_000_000_000, 2_000_000_000))
from pathlib import Path
from tests.cassette.test_hostile_cassettes import play
from mcp_magic.errors import CassetteError
for path in sys.argv[1:]:
    try:
        play(Path(path))
        print("played")
    except CassetteError as error:
        print(error)
"""


def test_cassette_bombs_are_refused_within_two_gigabytes(tmp_path: Path) -> None:
    paths = [written(tmp_path / f"{number}.jsonl", *lines) for number, lines in enumerate(BOMBS.values())]
    assert max(path.stat().st_size for path in paths) < 3_000_000
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, paths)],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = done.stdout.splitlines()
    assert [line.partition(": ")[2].partition(". `%mcp")[0] for line in said[:2]] == [
        "unpacked it has more than 256,000,000 characters"
    ] * 2
    assert [line.partition(": ")[2][:35] for line in said[2:]] == ["the conversations up to here have m"] * 2


def test_a_cassette_with_many_notifications_is_read_in_seconds(tmp_path: Path) -> None:
    lines: list[Any] = [HEADER, HEAD]
    for number in range(10_000):
        lines += [
            {"session": 1, "to": "server", "id": number, "method": "subscriptions/listen"},
            {"session": 1, "to": "server", "id": f"x{number}", "method": "tools/call"},
            {"session": 1, "to": "client", "method": "notifications/message"},
        ]
    path = written(tmp_path / "a.jsonl", *lines)
    before = time.process_time()
    Cassette(path, "replay")
    assert time.process_time() - before < 10


# A server, or a model, that floods the recording.

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


async def recorded(tape: Path, tool: str, calls: int, **options: Any) -> tuple[list[str], list[str]]:
    """Record calls of the flooding server; return their answers, and what the user was told."""
    told: list[str] = []
    host = Host()
    with deck.holding(tape, "record", largest=BOUND, tell=told.append, **options) as cassette:
        connection = await host.connect(flood_server(), name="flood")
        answers = [str((await connection.call(tool, number=number)).raw) for number in range(calls)]
        assert cassette.full
        assert f"{cassette!r}" == f"<Cassette {str(tape)!r}: full (300,000 bytes): nothing more is recorded>"
        await host.close()
    return answers, told


@pytest.mark.parametrize("tool", ["text", "image"])
async def test_a_recording_ends_at_its_bound_and_plays_up_to_there(tool: str, tmp_path: Path) -> None:
    tape = tmp_path / "a.jsonl"
    answers, told = await recorded(tape, tool, 40)
    assert len(answers) == 40, "no call fails"
    assert told == [
        f"The recording on {tape} has ended: a cassette has at most 300,000 bytes. It plays up to here; "
        "`%config MCPMagics.cassette_bytes = 600000` allows more."
    ]
    assert tape.stat().st_size <= BOUND
    assert json.loads(tape.read_text().splitlines()[-1]) == {"cut": BOUND}

    host = Host()
    with deck.holding(tape, "replay", largest=BOUND, in_process="replay"):
        connection = await host.connect(flood_server(), name="flood")
        for number in range(5):
            assert str((await connection.call(tool, number=number)).raw) == answers[number]
        with pytest.raises(CassetteError) as caught:
            await connection.call(tool, number=39)
        await host.close()
    assert str(caught.value).endswith(
        "; its recording ended at 300,000 bytes; `%config MCPMagics.cassette_bytes = 600000` allows more when it is "
        "recorded again)"
    )


async def test_a_full_cassette_gets_nothing_more_in_mode_auto(tmp_path: Path) -> None:
    tape = tmp_path / "a.jsonl"
    await recorded(tape, "text", 40)
    host = Host()
    with deck.holding(tape, "auto", largest=BOUND, in_process="replay") as cassette:
        connection = await host.connect(flood_server(), name="flood")
        for number in range(20, 60):
            assert (await connection.call("text", number=number)).text.startswith(f"{number} ")
        assert cassette.full
        await host.close()
    assert tape.stat().st_size <= BOUND
    play(tape)


def test_model_turns_that_fill_a_cassette_end_the_recording(tmp_path: Path) -> None:
    tape = tmp_path / "a.jsonl"
    told: list[str] = []
    with deck.holding(tape, "record", largest=BOUND, tell=told.append) as cassette:
        turns = turns_of(cassette)
        for number in range(40):
            asked = turns.request_of("m", [HumanMessage(f"{number}")], {})
            turns.write(asked, [{"answer": {"content": os.urandom(10_000).hex()}}])
    assert len(told) == 1
    play(tape)
    assert tape.stat().st_size <= BOUND


def test_conversation_too_long_to_replay_ends_the_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_magic.agent.cassette.MOST_MESSAGES", 100)
    tape = tmp_path / "a.jsonl"
    with deck.holding(tape, "record") as cassette:
        turns = turns_of(cassette)
        conversation: list[Any] = []
        for number in range(30):
            conversation.append(HumanMessage(f"{number}"))
            turns.write(turns.request_of("m", conversation, {}), [{"answer": {"content": "x"}}])
        assert cassette.full
    play(tape)
