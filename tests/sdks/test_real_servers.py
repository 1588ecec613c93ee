"""Servers that nobody here wrote, of both protocol generations."""

import os
import subprocess

import pytest

from mcp_magic import errors
from tests.environments import (
    everything_command,
    filesystem_command,
    git_command,
    memory_command,
    motherduck_command,
    needs_node,
    sqlite_command,
    time_command,
)
from tests.support.processes import free_port, start_http


@needs_node
async def test_server_everything_over_stdio(host):
    connection = await host.connect([*everything_command(), "stdio"], name="everything")
    assert connection.protocol_version in {"2025-06-18", "2025-11-25", "2026-07-28"}
    assert (await connection.call("echo", message="hi")).text == "Echo: hi"
    assert (await connection.call("get-tiny-image")).images[0].mime_type == "image/png"
    structured = await connection.call("get-structured-content", location="New York")
    assert structured.data["temperature"] == 33
    assert len(structured.df) == 1
    assert (await connection.call("get-resource-links", count=3)).links[0].uri
    assert await connection.listing("resources")
    assert await connection.listing("templates")
    assert [prompt.name for prompt in await connection.listing("prompts")]


@needs_node
async def test_server_everything_over_sse(host):  # over streamable HTTP it is used by a kernel
    port = free_port()
    ready = rf"(?i)(listening|running).*?(?P<port>{port})"
    with start_http(everything_command("sse"), env={"PORT": str(port)}, ready=ready, path="/sse") as server:
        connection = await host.connect(server.url, name="everything")
        assert connection.spec.transport == "sse"
        assert (await connection.call("echo", message="hi")).text == "Echo: hi"
        assert (await connection.call_tool("get-sum", {"a": 1, "b": 2})).text == "The sum of 1 and 2 is 3."
        await host.disconnect("everything")


async def test_the_time_server_speaks_the_newest_protocol(host):
    connection = await host.connect(time_command(), name="time")
    assert connection.protocol_version == "2026-07-28"
    result = await connection.call("convert_time", source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo")
    assert "21:00" in str(result.data or result.text)
    assert (await connection.call_tool("get_current_time", {"timezone": "Nowhere/City"})).is_error


async def test_the_git_server_reads_a_repository(host, tmp_path):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for arguments in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first light"]):
        subprocess.run([*git, *arguments], check=True, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull})
    connection = await host.connect(git_command(tmp_path), name="git")
    assert connection.protocol_version == "2026-07-28"
    log = await connection.call("git_log", repo_path=str(tmp_path))
    assert "first light" in str(log.text)


async def test_first_generation_server_answers_tables_and_errors(host, tmp_path):
    connection = await host.connect(sqlite_command(tmp_path / "data.db"), name="sqlite")
    assert connection.protocol_version < "2026"
    await connection.call("create_table", query="CREATE TABLE city (name TEXT, people INTEGER)")
    await connection.call("write_query", query="INSERT INTO city VALUES ('Oslo', 700000), ('Rome', 2800000)")
    frame = (await connection.call("read_query", query="SELECT * FROM city ORDER BY people")).df
    assert list(frame["name"]) == ["Oslo", "Rome"]
    assert frame["people"].sum() == 3_500_000
    answer = await connection.call("read_query", query="SELECT * FROM nowhere")
    assert "no such table: nowhere" in str(answer.text)
    with pytest.raises(errors.NoTableError, match="no table in this result"):
        answer.df


@needs_node
async def test_memory_server_result_is_shown_once_with_named_tables(host, tmp_path):
    environment = {"MEMORY_FILE_PATH": str(tmp_path / "memory.json")}
    memory = await host.connect(memory_command(), name="memory", env=environment)
    people = [{"name": name, "entityType": "person", "observations": ["here"]} for name in ("Ada", "Bob")]
    made = await memory.call("create_entities", entities=people)
    assert str(made).count("Ada") == made._repr_mimebundle_()["text/html"].count("Ada") == 1
    assert made.df["name"].tolist() == ["Ada", "Bob"]
    await memory.call("create_relations", relations=[{"from": "Ada", "to": "Bob", "relationType": "knows"}])
    graph = await memory.call("read_graph")
    with pytest.raises(errors.NoTableError) as several:
        graph.df
    assert str(several.value) == '2 tables in this result: .frames["entities"], .frames["relations"]'
    assert "2 tables: .frames has them" in str(graph)
    assert {name: frame.shape for name, frame in graph.frames.items()} == {"entities": (2, 3), "relations": (1, 3)}
    assert graph.data["relations"][0]["to"] == "Bob"
    nobody = await memory.call("search_nodes", query="nobody of this name")
    assert {name: len(frame) for name, frame in nobody.frames.items()} == {"entities": 0, "relations": 0}
    gone = await memory.call("delete_entities", entityNames=["Bob"])
    assert str(gone).count("deleted successfully") == 1


@needs_node
async def test_frame_of_file_or_folder_is_the_table_shown(host, tmp_path):
    (tmp_path / "cities.csv").write_text("city,people\nOslo,700000\nRome,2800000\n")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("Two cities:\ncity,people\nOslo,700000\n")
    files = await host.connect(filesystem_command(tmp_path), name="files")
    table = await files.call("read_text_file", path=str(tmp_path / "cities.csv"))
    assert "2 rows x 2 columns" in str(table)
    assert table.df.to_dict("list") == {"city": ["Oslo", "Rome"], "people": [700_000, 2_800_000]}
    tree = await files.call("directory_tree", path=str(tmp_path))
    assert "2 rows x 3 columns" in str(tree)
    assert tree.df["name"].tolist() == ["cities.csv", "notes"]
    notes = await files.call("read_text_file", path=str(tmp_path / "notes" / "a.txt"))
    assert str(notes).splitlines()[0] == "Two cities:"
    assert "1 row x 2 columns" in str(notes)
    assert notes.df["people"].tolist() == [700_000]
    listed = await files.call("list_directory", path=str(tmp_path))
    with pytest.raises(errors.NoTableError, match="found text"):
        listed.df


async def test_json_in_text_is_read_as_a_table_and_as_an_error(host):
    duck = await host.connect(motherduck_command(), name="duck")
    rows = await duck.call("execute_query", sql="select 1 as n, 'x' as word union all select 2, 'y' order by n")
    assert rows.df.to_dict("list") == {"n": [1, 2], "word": ["x", "y"]}
    none = await duck.call("execute_query", sql="select 1 as n where false")
    assert list(none.df.columns) == ["n"]
    assert none.df.empty
    with pytest.raises(errors.ToolError) as failed:
        await duck.call("execute_query", sql="select * from nowhere")
    said = str(failed.value).splitlines()
    assert said[0] == "duck:execute_query failed: Catalog Error: Table with name nowhere does not exist!"
    assert "LINE 1: select * from nowhere" in said
    assert said[-1] == "… (`%mcp last` shows all of it; in Python it is `error.result`)"
    assert "CatalogException" in failed.value.result.text
