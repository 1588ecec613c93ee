"""Bundles: what is read of a manifest, what is unpacked, and what is refused because it is not safe."""

from __future__ import annotations

import io
import json
import stat
import sys
import zipfile

import pytest

from mcp_magic.errors import ConfigError
from mcp_magic.registry import bundle as bundles
from mcp_magic.registry.bundle import bundle_recipe, read_bundle, unpack
from mcp_magic.registry.recipe import read_values
from tests.support.bundles import manifest, zipped


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / "data"


def table(content: dict, **values):
    bundle = read_bundle(zipped({"manifest.json": content}), "x.mcpb")
    recipe = bundle_recipe(bundle)
    return recipe.table(read_values(recipe.slots, values)), str(bundle.folder)


def test_bundle_is_unpacked_into_a_folder_of_its_digest(data):
    files = {"manifest.json": manifest(), "server/main.py": b"print(1)", "run.sh": b"#!/bin/sh", "empty/": b""}
    bundle = read_bundle(zipped(files, modes={"run.sh": 0o755}), "x.mcpb")
    assert not data.exists()
    folder = unpack(bundle)
    assert folder == data / "mcp_magic" / "bundles" / bundle.sha256
    assert (folder / "server" / "main.py").read_bytes() == b"print(1)"
    assert [stat.S_IMODE((folder / name).stat().st_mode) for name in ("run.sh", "server/main.py")] == [0o700, 0o600]
    assert unpack(bundle) == folder
    assert [path.name for path in folder.parent.iterdir()] == [bundle.sha256]


def test_launch_is_read_from_the_manifest(tmp_path):
    own, folder = table(
        manifest(
            mcp_config={
                "command": "node",
                "args": [
                    "${__dirname}/server/index.js",
                    "--home=${HOME}",
                    "${user_config.folders}",
                    "--n",
                    "${user_config.n}",
                ],
                "env": {"KEY": "${user_config.key}", "DIRS": "${user_config.folders}", "OFF": "${user_config.off}"},
                "platform_overrides": {sys.platform: {"command": "node22"}, "other": {"command": "no"}},
            },
            user_config={
                "folders": {"type": "directory", "multiple": True, "title": "Folders", "required": True},
                "key": {"type": "string", "sensitive": True},
                "off": {"type": "string"},
                "n": {"type": "number", "default": 3, "min": 1},
            },
        ),
        folders=["/a", "/b"],
        key="sesame",
    )
    assert own == {
        "command": "node22",
        "args": [f"{folder}/server/index.js", f"--home={tmp_path}", "/a", "/b", "--n", "3"],
        "cwd": folder,
        "env": {"KEY": "sesame", "DIRS": "/a:/b"},
    }


def test_option_without_a_value_is_left_out_with_its_flag():
    own, _ = table(
        manifest(
            mcp_config={"command": "node", "args": ["x.js", "--db", "${user_config.db}", "--v"]},
            user_config={"db": {"type": "file", "title": "Database"}},
        )
    )
    assert own["args"] == ["x.js", "--v"]


def test_program_of_the_bundle_is_run_by_its_whole_path():
    own, folder = table(manifest(type="binary", entry_point="bin/tool", mcp_config={"command": "bin/tool"}))
    assert own["command"] == f"{folder}/bin/tool"
    bundle = read_bundle(
        zipped({"manifest.json": manifest(type="binary", entry_point="bin/tool"), "bin/tool": b""}), "x"
    )
    assert (unpack(bundle) / "bin" / "tool").stat().st_mode & 0o100


def test_uv_runs_the_entry_point():
    own, folder = table(manifest(type="uv", entry_point="src/server.py", mcp_config=None))
    assert (own["command"], own["args"]) == ("uv", ["run", "--directory", folder, "src/server.py"])


def test_python_that_is_missing_is_that_of_the_kernel(monkeypatch):
    monkeypatch.setenv("PATH", "")
    own, _ = table(manifest(type="python", mcp_config={"command": "python", "args": ["main.py"]}))
    assert own["command"] == sys.executable


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../evil", "it leads out of its folder"),
        ("a/../../evil", "it leads out of its folder"),
        ("/etc/passwd", "it leads to a place of its own"),
        ("C:/evil", "it leads to a place of its own"),
        ("a\\..\\evil", "it has characters that no path should have"),
        ("a\nb", "it has characters that no path should have"),
        ("a//b", "it leads out of its folder"),
        ("./a", "it leads out of its folder"),
        ("a" * 300, "it has 300 characters"),
        ("MANIFEST.json", "on some systems it is the same as manifest.json"),
        ("manifest.json/x", "is a file and a folder"),
    ],
    ids=lambda text: text[:40],
)
def test_path_that_is_not_safe_refuses_the_bundle(name, reason, data):
    with pytest.raises(ConfigError, match=reason):
        read_bundle(zipped({"manifest.json": manifest(), name: b"x"}), "x.mcpb")
    assert not data.exists()


@pytest.mark.parametrize(
    ("mode", "reason"), [(stat.S_IFLNK | 0o777, "it is a link"), (stat.S_IFIFO | 0o600, "neither a file nor a folder")]
)
def test_link_refuses_the_bundle(mode, reason):
    with pytest.raises(ConfigError, match=reason):
        read_bundle(zipped({"manifest.json": manifest(), "a": b"/etc/passwd"}, modes={"a": mode}), "x.mcpb")


def test_file_that_is_there_twice_refuses_the_bundle():
    stream = io.BytesIO(zipped({"manifest.json": manifest()}))
    with zipfile.ZipFile(stream, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("manifest.json", json.dumps(manifest(name="other")))
    with pytest.raises(ConfigError, match="it is there twice"):
        read_bundle(stream.getvalue(), "x.mcpb")


def test_size_is_bounded_whatever_the_zip_says(monkeypatch):
    monkeypatch.setattr(bundles, "MAX_UNPACKED", 100_000)
    data = zipped({"manifest.json": manifest(), "zeros": bytes(200_000)})
    with pytest.raises(ConfigError, match="would unpack to"):
        read_bundle(data, "x.mcpb")
    # a size that is a lie, in the directory and in front of the file
    lie = data.replace((200_000).to_bytes(4, "little"), (200).to_bytes(4, "little"))
    with pytest.raises(ConfigError, match=r"larger than it says|cannot be unpacked"):
        unpack(read_bundle(lie, "x.mcpb"))
    assert not any(bundles.bundles_folder().iterdir())
    monkeypatch.setattr(bundles, "MAX_FILES", 1)
    with pytest.raises(ConfigError, match="has 2 files; at most 1"):
        read_bundle(data, "x.mcpb")


def test_directory_is_bounded_before_it_is_read(monkeypatch):
    monkeypatch.setattr(bundles, "MAX_DIRECTORY", 1_000)
    many = zipped({"manifest.json": manifest(), **{str(number): b"" for number in range(100)}})
    for data in (many, many + b"PK\x05\x06" + bytes(18)):  # a second end that says less
        with pytest.raises(ConfigError, match="has too many files"):
            read_bundle(data, "x.mcpb")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"no zip", "is no zip that can be read", id="no zip"),
        pytest.param(b"", "is no zip that can be read", id="empty"),
        pytest.param(zipped({"a": b""}), "has no manifest.json", id="no manifest"),
        pytest.param(zipped({"manifest.json": b"{"}), "not JSON", id="no JSON"),
        pytest.param(zipped({"manifest.json": []}), "does not describe a server", id="no object"),
        pytest.param(zipped({"manifest.json": b" " * 2_000_000}), "has 2,000,000 bytes", id="large manifest"),
    ],
)
def test_file_that_is_no_bundle_is_refused(data, reason):
    with pytest.raises(ConfigError, match=reason):
        read_bundle(data, "x.mcpb")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (manifest(type="ruby"), "the type of its server is ruby, and can be node, python, binary, uv"),
        (manifest(compatibility={"platforms": ["plan9"]}), f"is made for plan9, and this is {sys.platform}"),
        (manifest(mcp_config={"args": []}), "has no command for its server"),
        (manifest(mcp_config={"command": "x", "args": "y"}), "args are not a list"),
        (manifest(mcp_config={"command": "x", "args": ["${AWS_SECRET}"]}), "refers to .* which no bundle has"),
        (manifest(mcp_config={"command": "${user_config.a}"}, user_config={"a": {}}), "depends on what you fill in"),
        (manifest(mcp_config={"command": "x", "env": {"A B": "1"}}), "'A B' is not the name of a variable"),
        (manifest(type="uv", entry_point="../x", mcp_config=None), "has no entry_point in the bundle"),
    ],
    ids=["type", "platform", "no command", "args", "reference", "command", "variable", "entry point"],
)
def test_manifest_that_cannot_be_run_is_refused(content, reason):
    with pytest.raises(ConfigError, match=reason):
        table(content)


def test_digest_of_the_publisher_is_checked():
    data = zipped({"manifest.json": manifest()})
    with pytest.raises(ConfigError, match="is not what its publisher names: its SHA-256 is"):
        read_bundle(data, "x.mcpb", "0" * 64)
