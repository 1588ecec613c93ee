"""`%mcp share`: variables are shared by name, all at once, and no longer; the listing says who has read them."""

from __future__ import annotations

import pandas as pd
import pytest

from mcp_magic.errors import ArgumentsError, CommandError
from mcp_magic.ipython.completion import candidates
from mcp_magic.notebook import host


@pytest.fixture(autouse=True)
def space(shell):
    shell.user_ns.update(df=pd.DataFrame({"a": [1, 2], "b": [3, 4]}), results=["x"], api_key="sk-1", host=host, pd=pd)
    host.values.attach(shell.user_ns, shell.user_ns_hidden)
    host.values.stop()
    yield shell.user_ns
    host.values.stop()


async def test_names_are_shared_and_listed(magic):
    nothing = "nothing is shared: `%mcp share NAME` lets agents outside read a variable"
    assert str(await magic("share")) == f"Shared values\n{nothing}"
    listing = await magic("share df results")
    assert listing.rows == [
        {"value": "df", "type": "DataFrame", "shape": "2 rows x 2 columns (a, b)", "read by": None},
        {"value": "results", "type": "list", "shape": "1 item", "read by": None},
    ]
    client = host.values.of("1", "claude-code\x1b[31m")
    client.get("df")
    client.get("df")
    listing = await magic("share")
    assert listing.rows[0]["read by"] == "claude-code 2 x"
    assert listing.note == NOT_SERVED
    assert str(host.values) == str(listing).partition("\nno agent")[0]


async def test_names_are_written_as_in_other_lines(magic):
    assert [row["value"] for row in await magic("share $df,results")] == ["df", "results"]


NOT_SERVED = "no agent can connect yet: `%mcp serve --kernel` serves this kernel"
ALL = "all variables of data are shared, also later ones"
SECRETS = "api_key (a secret's name), db (with a password)"


async def test_all_leaves_out_what_is_no_data_and_names_secrets(magic, space):
    space["db"] = "postgres://me:pw@host"
    listing = await magic("share --all")
    assert [row["value"] for row in listing] == ["df", "results"]
    assert listing.note == f"{ALL}; left out: {SECRETS}; `%mcp share --stop NAME` takes one out; {NOT_SERVED}"
    space["later"] = 1
    listing = await magic("share")
    assert [row["value"] for row in listing] == ["df", "results", "later"]
    assert [row["value"] for row in await magic("share --stop df")] == ["results", "later"]
    listing = await magic("share api_key")
    assert [row["value"] for row in listing] == ["api_key", "results", "later"]
    assert listing.note == f"{ALL}; left out: df, db (with a password); {NOT_SERVED}"
    assert "sk-1" not in str(listing)
    assert "pw" not in str(listing)
    assert [row["value"] for row in await magic("share --stop")] == []


async def test_the_only_variable_is_taken_out_of_all(magic, space):
    del space["results"], space["api_key"]
    assert [row["value"] for row in await magic("share df")] == ["df"]
    await magic("share --all")
    stopped = f"{ALL}; left out: df; `%mcp share --stop` ends that"
    assert str(await magic("share --stop df")) == f"Shared values\nno shared variable exists now\n{stopped}"
    nothing = "nothing is shared: `%mcp share NAME` lets agents outside read a variable"
    assert str(await magic("share --stop")) == f"Shared values\n{nothing}"
    listing = await magic("share df")
    assert ([row["value"] for row in listing], listing.note) == (["df"], NOT_SERVED)


async def test_a_deleted_variable_is_said_to_come_back(magic, space):
    await magic("share df results")
    del space["df"]
    listing = await magic("share")
    assert [row["value"] for row in listing] == ["results"]
    assert listing.note == f"shared once there is such data again: df; {NOT_SERVED}"
    listing = await magic("share --stop results")
    assert str(listing) == (
        "Shared values\nno shared variable exists now\n"
        "shared once there is such data again: df; no longer shared: results"
    )
    assert (await magic("share --stop df")).note == "no longer shared: df"
    space["df"] = 1
    assert host.values.names() == ()


async def test_stop_leaves_agents_what_they_have_caused(magic):
    host.values.of("1", "codex").put("mine", [1])
    await magic("share df")
    listing = await magic("share --stop")
    assert [(row["value"], row["only for"]) for row in listing] == [("mine", "codex")]
    assert listing.note == "agents read still what they have caused themselves; `%mcp share --stop NAME` ends that"
    assert len(await magic("share --stop mine")) == 0


async def test_a_server_is_no_variable(magic, space, monkeypatch):
    said = "%mcp share: 'math' is a server, and no variable; "
    for name in ("math", "$math", "math:add", "math:*"):
        error = await magic.error(CommandError, f"share {name}")
        assert error == f"{said}`%mcp serve --kernel` offers its tools to agents outside"
    space["math"] = host["math"]  # `math = %mcp connect ...`
    assert (await magic.error(CommandError, "share math")).startswith(said)
    error = await magic.error(CommandError, "share --stop math")
    assert error == f"{said}`%mcp deny 'math:*' --for outside` refuses calls of its tools"
    await host.serve()
    try:
        error = await magic.error(CommandError, "share df math")
    finally:
        await host.stop_serving()
    allows = "`%mcp allow 'math:*' --for outside` lets them call without asking"
    assert error == f"{said}agents outside see its tools already. {allows}"
    assert host.values.names() == ()
    space["math"] = [1]
    assert [row["value"] for row in await magic("share math")] == ["math"]


async def test_a_variable_of_a_function_is_not_shared(magic):
    error = await magic.error(CommandError, "share inner", inner=[1])
    assert error == "%mcp share: 'inner' is a variable of a function; only the notebook's are shared"


async def test_stop_takes_names_out(magic):
    await magic("share df results")
    listing = await magic("share --stop df")
    assert [row["value"] for row in listing] == ["results"]
    assert listing.note == "no longer shared: df"


@pytest.mark.parametrize(
    ("line", "error", "message"),
    [
        ("dff", ArgumentsError, "there is no variable 'dff'. Did you mean 'df'? Variables of data: df, results"),
        ("df pd", ArgumentsError, "'pd' is a module; only data is shared. None of the 2 names was shared"),
        ("host", ArgumentsError, "'host' is a NotebookHost, which is no data; only data is shared"),
        ("df.a", ArgumentsError, "'df.a' is not the name of a variable; share 'df', or make a variable of the part"),
        ("all", CommandError, "%mcp share: 'all' is no variable; `%mcp share --all` shares all variables of data"),
        (
            "--stop all",
            CommandError,
            "%mcp share: 'all' is no variable; `%mcp share --stop` without a name ends it for all",
        ),
        ("In", ArgumentsError, "'In' is IPython's own, and is not shared"),
        ("_", ArgumentsError, "'_' is not shared: names with _ first are IPython's or private; use another"),
        ("--stop df", ArgumentsError, "'df' is not shared. Shared: none"),
        ("--all df", CommandError, "%mcp share --all: shares all variables, and takes no names"),
        (
            "--all --stop",
            CommandError,
            "%mcp share: argument --stop: not allowed with argument --all. `%mcp share --help` shows what it takes.",
        ),
    ],
)
async def test_a_wrong_line_says_what_is_valid(line, error, message, magic):
    with pytest.raises(error) as caught:
        await magic(f"share {line}")
    assert str(caught.value) == message
    assert host.values.names() == ()


def test_tab_completes_variables_of_data(magic, space):
    assert candidates("share ", space)[1] == ["df", "results"]
    assert candidates("share --", space)[1] == ["--all", "--stop", "--help"]
    assert candidates("share df r", space)[1] == ["results"]
    assert candidates("share df,", space)[1] == ["df,results"]
    assert candidates("share df,r", space)[1] == ["df,results"]
    assert candidates("share $d", space)[1] == ["$df"]
    assert candidates("share $df,", space)[1] == ["$df,$results"]
    assert candidates("share df,results ", space)[1] == []
