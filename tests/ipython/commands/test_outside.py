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
    assert listing.note == "no agent can connect yet: `%mcp serve --kernel` serves this kernel"
    assert str(host.values) == str(listing).partition("\nno agent")[0]


async def test_names_are_written_as_in_other_lines(magic):
    assert [row["value"] for row in await magic("share $df,results")] == ["df", "results"]


async def test_all_leaves_out_what_is_no_data(magic, space):
    listing = await magic("share --all")
    assert [row["value"] for row in listing] == ["df", "results"]
    assert listing.note == (
        "all variables of data are shared, also later ones; `%mcp share --stop NAME` takes one out; "
        "no agent can connect yet: `%mcp serve --kernel` serves this kernel"
    )
    space["later"] = 1
    listing = await magic("share")
    assert [row["value"] for row in listing] == ["df", "results", "later"]
    assert [row["value"] for row in await magic("share --stop df")] == ["results", "later"]
    assert [row["value"] for row in await magic("share --stop")] == []


async def test_stop_takes_names_out(magic):
    await magic("share df results")
    listing = await magic("share --stop df")
    assert [row["value"] for row in listing] == ["results"]
    assert listing.note == "no longer shared: df"


@pytest.mark.parametrize(
    ("line", "error", "message"),
    [
        ("dff", ArgumentsError, "there is no variable 'dff'. Did you mean 'df'? Variables of data: df, results"),
        ("df pd", ArgumentsError, "'pd' is a module; only data is shared"),
        ("host", ArgumentsError, "'host' is a NotebookHost, which is no data; only data is shared"),
        ("df.a", ArgumentsError, "'df.a' is not the name of a variable; share 'df', or make a variable of the part"),
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


async def test_a_name_taken_out_of_all_leaves_the_others_shared(magic):
    await magic("share --all")
    listing = await magic("share --stop df")
    assert listing.note == (
        "no longer shared: df; all other variables of data are, also later ones; `%mcp share --stop` ends that"
    )
    assert (await magic("share --stop")).note == ""
