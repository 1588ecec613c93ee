"""The subcommands of every day, through the magic, over live servers."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic import errors
from mcp_magic.ipython.completion import candidates
from mcp_magic.ipython.execution import interruptible
from mcp_magic.notebook import host
from mcp_magic.results import reasons
from tests.environments import ROOT
from tests.support.bundled import command, load
from tests.support.kernel_servers import SMALL
from tests.support.odd_server import TOOL, connected
from tests.support.processes import start_http
from tests.support.waiting import until
from tests.support.waiting_server import Waiting, waiting_server

if TYPE_CHECKING:
    from pathlib import Path


def write_config(folder: Path, **servers: Any) -> None:
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))


REFUSING = str(ROOT / "tests" / "core" / "refusing_server.py")

SERVER = {"command": SMALL[0], "args": SMALL[1:]}


async def test_config_servers_connect_in_parallel_and_failure_shows(magic: Any, tmp_path: Path) -> None:
    write_config(
        tmp_path,
        show=SERVER,
        broken={"command": sys.executable, "args": ["-c", "raise SystemExit('no licence')"]},
        off={**SERVER, "disabled": True},
        wrong={"type": "stdio"},
    )
    listing = await magic("connect --config mcp.json")
    state = {row["server"]: row["state"] for row in listing}
    assert state == {"show": "open", "broken": "failed", "off": "disabled", "wrong": "not started"}
    assert "no licence" in str(listing.df.set_index("server").loc["broken", "problem"])
    assert set(host) == {"math", "show"}


async def test_named_servers_of_a_file_connect(magic: Any, tmp_path: Path) -> None:
    write_config(tmp_path, show=SERVER, paging=SERVER)
    listing = await magic("connect --config mcp.json paging")
    assert [row["server"] for row in listing] == ["paging"]
    with pytest.raises(errors.ConfigError, match=r"mcp\.json has no server 'pagin'\. Did you mean 'paging'\?"):
        await magic("connect --config mcp.json pagin")


async def test_a_configured_name_is_a_target(magic: Any, tmp_path: Path) -> None:
    write_config(tmp_path, paging=SERVER)
    assert (await magic("connect paging")).state == "open"
    assert "paging" in [row["server"] for row in await magic("config")]


async def test_headers_take_variables_and_show_masked(magic: Any) -> None:
    with start_http(command("showcase_server", "--transport", "http", "--port", "0")) as server:
        line = "connect $url --name show --header 'Authorization: Bearer {secret.strip()}' --header 'X-Team: blue'"
        connection = await magic(line, url=server.url, secret=" sesame-123 ")
        assert (await magic("call show:headers")).data["authorization"] == "Bearer sesame-123"
        assert "sesame" not in repr(connection.spec) + str(connection._repr_mimebundle_())
        await magic("disconnect show")


async def test_a_variable_of_the_caller_is_a_target(magic: Any) -> None:
    connection = await magic("connect mine --trust", mine=load("showcase_server").server)
    assert connection.name == "mine"
    assert connection.spec.trust


async def test_the_working_directory_may_be_a_variable(magic: Any) -> None:
    line = "connect --cwd $where --name here -- {sys.executable} slow_server.py 0"
    connection = await magic(line, where=ROOT / "benchmarks", sys=sys)
    assert connection.state == "open"


async def test_a_server_of_a_cell_is_connected_already(magic: Any) -> None:
    known = host["math"]
    assert await magic("connect math") is known
    assert "open already since" in str(known._repr_mimebundle_()["text/plain"])
    with pytest.raises(errors.TargetError, match="'maths' is not a file, URL, variable or configured name"):
        await magic("connect maths")


@pytest.fixture
def gone(magic: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's folder is deleted."""
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()


NEEDS_A_FOLDER = ("connect x.py", "connect -- python x.py", "connect somewhere", "up", "config")


@pytest.mark.parametrize("line", NEEDS_A_FOLDER)
async def test_a_folder_that_was_deleted_is_named(magic: Any, gone: None, line: str) -> None:
    with pytest.raises(errors.ConfigError, match="the folder of this kernel was deleted; `%cd FOLDER`"):
        await magic(line)


async def test_an_open_server_works_without_a_folder(magic: Any, gone: None) -> None:
    assert (await magic("call math:add a=1 b=2")).data == 3
    listing = str(await magic("servers"))
    assert "math" in listing
    assert "the folder of this kernel was deleted" in listing
    assert candidates("connect ", {"shop": host["math"].spec}).texts
    await magic("reconnect math")
    await magic("disconnect math")
    assert not len(host)


async def test_trio_is_named_where_a_cell_runs_on_it(magic: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lowlevel = SimpleNamespace(current_task=lambda: "a task of trio")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "trio", SimpleNamespace(lowlevel=lowlevel))
        with pytest.raises(errors.CommandError, match="`%autoawait asyncio` goes back"):
            await interruptible(magic("servers"))


async def test_last_shows_a_refused_request_whole(magic: Any) -> None:
    data = {"message": "Invalid:\n[]", "code": -32602}
    reasons.forget_failure()
    with pytest.raises(errors.CommandError, match="nothing has failed yet"):
        await magic("last")
    await magic(f"connect --name shop -- {sys.executable} {REFUSING} $data", data=json.dumps(data))
    with pytest.raises(errors.ProtocolError, match="`%mcp last` shows the whole text"):
        await magic("call shop:add")
    shown = await magic("last")
    assert "Invalid:\n[]" in str(shown._repr_mimebundle_()["text/plain"])
    assert shown.error.code == -32602


async def test_disconnect_and_reconnect(magic: Any) -> None:
    old = host["math"]
    assert (await magic("reconnect math")) is host["math"] is old
    assert len(await magic("disconnect math")) == 0
    assert "math" not in host
    with pytest.raises(errors.CommandError, match="name the servers, or say --all"):
        await magic("disconnect")
    with pytest.raises(errors.UnknownServerError):
        await magic("reconnect math")


async def test_listings_are_searched(magic: Any) -> None:
    assert [row["tool"] for row in await magic("tools --search PRIME")] == ["math:primes"]
    assert "no tools with 'zzz'" in str(await magic("tools math --search zzz"))
    assert [row["prompt"] for row in await magic("prompts math")] == ["math:explain"]
    assert len(await magic("templates")) == 1
    assert len(await magic("resources")) == 1


async def test_tool_card_has_arguments_hints_and_working_example(magic: Any) -> None:
    card = await magic("tool math:add")
    assert {row["name"] for row in card.arguments} == {"a", "b"}
    assert "read-only" in str(card)
    assert not (await magic(card.example.removeprefix("%mcp "))).is_error


async def test_a_call_returns_a_value_or_a_dataframe(magic: Any) -> None:
    assert (await magic("call math:add a=1 b=2")).data == 3
    frame = await magic("call math:statistics numbers=1 numbers=3 --df")
    assert frame["mean"][0] == 2
    assert (await magic("call math:statistics", '{"numbers": [1, 3]}')).data["mean"] == 2
    with pytest.raises(errors.ArgumentsError, match="the cell below %%mcp call is not JSON: Expecting"):
        await magic("call math:statistics", "{numbers")
    with pytest.raises(errors.ArgumentsError, match="must be a JSON object, not list"):
        await magic("call math:statistics", "[1]")


async def test_a_call_takes_a_time_out(magic: Any) -> None:
    await host.connect(load("showcase_server").server, name="show")
    with pytest.raises(errors.RequestTimeoutError):
        await magic("call show:slow seconds=30 --timeout 0.1")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("read waiting://never", "waiting: waiting://never"),
        ("prompt waiting:never", "waiting:never"),
        ('raw waiting tools/call {"name":"never"}', "waiting: tools/call"),
    ],
)
async def test_reads_prompts_and_requests_take_time_outs(magic: Any, line: str, what: str) -> None:
    await host.connect(waiting_server(Waiting()), name="waiting")
    told = "The call was cancelled."
    with pytest.raises(errors.RequestTimeoutError, match=rf"^{what}: timed out: no answer within 0\.1 s\. {told}"):
        await magic(f"{line} --timeout 0.1")
    with pytest.raises(errors.RequestTimeoutError, match=rf"^{what}: timed out: no answer within 0\.1 s in total"):
        await magic(f"{line} --timeout 9 --max-total-timeout 0.1")
    magic.settings.call_timeout = 0.1
    with pytest.raises(errors.RequestTimeoutError, match=r"within 0\.1 s"):
        await magic(line)


@pytest.mark.parametrize("line", ["waiting:never", "waiting:never --prompt", "waiting://{name} name=never"])
async def test_forms_of_all_kinds_take_the_time_out_too(magic: Any, line: str) -> None:
    await host.connect(waiting_server(Waiting()), name="waiting")
    magic.settings.call_timeout = 0.1
    for more in ("", " --timeout 0.2"):
        form = await magic(f"form {line}{more}")
        with closing(form), pytest.raises(errors.RequestTimeoutError, match="within 0.2 s" if more else "within 0.1 s"):
            await form.run()


async def test_explorer_forms_take_time_out_setting_when_opened(magic: Any) -> None:
    await host.connect(waiting_server(Waiting()), name="waiting")
    with closing(await magic("ui")) as explorer:
        magic.settings.call_timeout = 0.1
        for kind, item in (("tools", "never"), ("prompts", "never"), ("templates", "waiting://{name}")):
            explorer.kinds.value, explorer.search.value = kind, item
            await until(lambda: bool(explorer.found))
            [chosen] = [found for found in explorer.found if found.kind == kind]
            explorer.choose(chosen)
            explorer.detail.open_form()
            explorer.detail.form.set_arguments({"name": "never"} if kind == "templates" else {})
            with pytest.raises(errors.RequestTimeoutError, match=r"within 0\.1 s"):
                await explorer.detail.form.run()


async def test_listing_takes_time_out_and_invalid_one_is_refused(magic: Any) -> None:
    handlers = Waiting()
    await host.connect(waiting_server(handlers), name="waiting")
    handlers.stuck = True
    listing = await magic("prompts --refresh --timeout 0.2")
    assert [row["prompt"] for row in listing] == ["math:explain"]
    assert "waiting: prompts: not listed within 0.2 s; --timeout S waits longer." in str(listing)
    for word in ("soon", "0", "-1", "nan"):
        for line in ("read math://constants --timeout", "form math:add --timeout", "ping --timeout", "logs --seconds"):
            with pytest.raises(errors.CommandError, match=f"expected seconds above 0, for example 2.5, got '{word}'"):
                await magic(f"{line}={word}")


async def test_resources_and_prompts_are_read(magic: Any) -> None:
    assert (await magic("read math://constants")).data["pi"] > 3
    assert (await magic("read $uri --server math", uri="math://table/2")).df is not None
    prompt = await magic("prompt math:explain topic=primes level=beginner")
    assert "primes" in prompt.messages[0].content


async def test_logs_have_stderr_and_messages_with_secrets_masked(magic: Any) -> None:
    connection = await host.connect(command("showcase_server"), name="show", env={"API_TOKEN": "sesame-123"})
    await connection.call("write_stderr", text="using sesame-123")
    await connection.call("log", level="warning", message="mind the gap")
    listing = await magic("logs show")
    text = str(listing)
    assert "using ***" in text
    assert "mind the gap" in text
    assert {row["source"] for row in listing} >= {"stderr"}


STDERR_OF_A_SERVER = """\
INFO:     Started server process [12]
2026-11-23 10:00:00,123 - shop - WARNING - low stock
ERROR:root:it failed
Traceback (most recent call last):
  File "a.py", line 3, in f
ZeroDivisionError: division by zero

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 5, in g
ValueError: bad
Traceback (most recent call last):
  File "b.py", line 9
KeyError: 'x'
done
"""


async def test_a_record_of_a_server_is_one_row_with_its_level(magic: Any) -> None:
    host.failed["shop"] = STDERR_OF_A_SERVER
    listing = await magic("logs shop")

    records = [(row["level"], row["text"].splitlines()[0], row["text"].splitlines()[-1]) for row in listing]
    assert records == [
        ("info", *["INFO:     Started server process [12]"] * 2),
        ("warning", *["2026-11-23 10:00:00,123 - shop - WARNING - low stock"] * 2),
        ("error", "ERROR:root:it failed", "ValueError: bad"),
        ("error", "Traceback (most recent call last):", "KeyError: 'x'"),
        (None, "done", "done"),
    ]
    assert STDERR_OF_A_SERVER.splitlines()[4] in str(listing), "its lines keep their spaces"
    assert len(await magic("logs shop --last 2")) == 2


async def test_a_problem_is_shown_whole_in_a_terminal(magic: Any, tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"a": {"command": "no-such-program-" + "x" * 60}}}))
    (tmp_path / "mcp_magic.toml").write_text('[servers.b]\nurl = "http://127.0.0.1:9/${NO_SUCH_VARIABLE_OF_MINE}"\n')

    for line in ("connect --config mcp.json", "up"):
        listing = await magic(line)
        whole = " ".join(listing.rows[-1]["problem"].split())
        assert len(whole) > 100
        assert whole in " ".join(str(listing).split())


async def test_the_listing_of_servers_has_state_counts_and_latency(magic: Any) -> None:
    (row,) = await magic("")
    assert (row["server"], row["state"], row["transport"], row["tools"]) == ("math", "open", "in-process", 8)
    assert row["latency"].endswith(" ms")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("conect", "Did you mean 'connect'?"),
        ("list", "Did you mean 'tools', 'resources' or 'prompts', or `%mcp` alone for the servers?"),
        ("inspect", "Did you mean 'ui'?"),
        ("frobnicate", "'frobnicate'. `%mcp --help` lists them."),
    ],
)
async def test_a_word_that_is_no_subcommand_says_which_is_meant(magic: Any, word: str, said: str) -> None:
    with pytest.raises(errors.CommandError) as caught:
        await magic(f"{word} math")
    assert said in str(caught.value)


async def test_help_is_there_for_all_and_for_one(magic: Any) -> None:
    assert "%mcp connect" in str(await magic("--help"))
    assert str(await magic("call --help")).startswith("%mcp call")
    with pytest.raises(errors.CommandError, match="%%mcp tools takes no cell below"):
        await magic("tools", "a cell")


@pytest.mark.parametrize("line", ["logs", "roots", "docs", "stubs", "snapshot", "diff"])
async def test_the_name_of_the_only_server_may_be_left_out(magic: Any, line: str) -> None:
    await magic("snapshot math")
    assert "math" in str(await magic(line))
    await magic("connect $show --name show", show=load("showcase_server").server)
    with pytest.raises(errors.ArgumentsError, match=r"^which server\? Connected: math, show$"):
        await magic(line)
    await magic("disconnect show")
    await magic("disconnect math")
    with pytest.raises(errors.UnknownServerError, match=r"no server is connected; `%mcp connect TARGET` opens one"):
        await magic(line)


async def test_a_file_of_the_home_folder_is_typed_with_a_tilde(
    magic: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (home / "mcp.json").write_text('{"mcpServers": {"paging": {"command": "server"}}}')
    (home / "answers.json").write_text("[]")

    assert [row["server"] for row in await magic("config ~/mcp.json")] == ["paging"]
    assert (await magic("call math:add a=1 b=2 --answers ~/answers.json")).data == 3


async def test_a_read_that_is_kept_says_so_and_refresh_asks_again(magic: Any) -> None:
    await magic("connect orchard --name orchard", orchard=load("orchard_server").server)
    prices = await magic("read orchard://prices")
    kept = await magic("read orchard://prices")
    assert (prices.age, kept.data) == (None, prices.data)
    assert "`%mcp read orchard://prices --server orchard --refresh` asks the server" in str(kept).splitlines()[0]
    assert (await magic("read orchard://prices --refresh")).age is None
    rows = await magic("trace orchard --method resources/read")
    assert [row["way"] for row in rows] == ["→", "←", "kept", "→", "←"]
    [row] = [row for row in await magic("servers") if row["server"] == "orchard"]
    assert row["kept"].startswith("tools for ")
    assert row["kept"].endswith(", 1 read resource")


async def test_a_listing_names_what_cannot_be_used(magic: Any) -> None:
    async with connected(host, {"tools/list": {"tools": [TOOL, {"name": 5}]}}):
        listing = await magic("tools odd")
        assert [row["tool"] for row in listing] == ["odd:good"]
        assert "unusable: odd:5: its name is 5, not a text (fault: the server)" in str(listing)
        assert "unusable" not in str(await magic("tools odd --search good"))
