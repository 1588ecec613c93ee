"""Entries of registries: `server.json` of each date as values, and what a publisher may get wrong."""

from __future__ import annotations

import json

import pytest

from mcp_magic.registry.entry import MAX_ITEMS, MAX_REMARKS, OFFICIAL, Input, Package, Remote, read_entry

CURRENT = {
    "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
    "name": "io.github.example/files",
    "title": "Files",
    "description": "Files of a folder.",
    "version": "1.0.2",
    "repository": {"url": "https://github.com/example/files", "source": "github", "id": "1"},
    "websiteUrl": "https://example.com",
    "icons": [{"src": "https://example.com/icon.png"}],
    "packages": [
        {
            "registryType": "npm",
            "registryBaseUrl": "https://registry.npmjs.org",
            "identifier": "@example/files",
            "version": "1.0.2",
            "fileSha256": "AB" * 32,
            "runtimeHint": "npx",
            "transport": {"type": "stdio"},
            "runtimeArguments": [{"type": "named", "name": "--prefer-offline"}],
            "packageArguments": [
                {
                    "type": "positional",
                    "valueHint": "folder",
                    "format": "filepath",
                    "isRequired": True,
                    "isRepeated": 1,
                },
                {"type": "named", "name": "--mode", "default": "local", "choices": ["local", "proxy", 3, "local"]},
                {"type": "positional", "value": "dst={target}", "variables": {"target": {"default": "/project"}}},
            ],
            "environmentVariables": [
                {"name": "API_KEY", "description": "The key.", "isRequired": True, "isSecret": True},
                {"name": "PORT", "format": "number", "default": 8080, "placeholder": "8080"},
            ],
        }
    ],
    "remotes": [
        {
            "type": "streamable-http",
            "url": "https://{tenant}.example.com/mcp",
            "headers": [
                {"name": "Authorization", "value": "Bearer {token}", "variables": {"token": {"isSecret": True}}}
            ],
            "variables": {"tenant": {"isRequired": True}},
        }
    ],
}


def test_entry_of_today_is_read_wholly():
    entry = read_entry({"server": CURRENT, "_meta": {OFFICIAL: {"status": "deprecated", "isLatest": False}}})
    assert (entry.name, entry.title, entry.version) == ("io.github.example/files", "Files", "1.0.2")
    assert (entry.repository, entry.website) == ("https://github.com/example/files", "https://example.com")
    assert (entry.status, entry.latest) == ("deprecated", False)
    [package] = entry.packages
    assert (package.registry_type, package.identifier, package.version) == ("npm", "@example/files", "1.0.2")
    assert (package.sha256, package.transport, package.runtime_hint) == ("ab" * 32, Remote("stdio"), "npx")
    assert package.runtime_arguments == (Input("--prefer-offline", "named"),)
    folder, mode, target = package.package_arguments
    assert folder == Input("", "positional", hint="folder", format="filepath", required=True, repeated=True)
    assert (mode.label, mode.default, mode.choices) == ("mode", "local", ("local", "proxy", "3"))
    assert (target.value, target.variables) == ("dst={target}", (Input("target", default="/project"),))
    key, port = package.environment
    assert (key.name, key.required, key.secret) == ("API_KEY", True, True)
    assert (port.default, port.format, port.placeholder) == ("8080", "number", "8080")
    [remote] = entry.remotes
    assert (remote.type, remote.url) == ("streamable-http", "https://{tenant}.example.com/mcp")
    assert remote.variables == (Input("tenant", required=True),)
    assert remote.headers[0].variables == (Input("token", secret=True),)
    assert entry.remarks == ("packages[0].packageArguments[0].isRepeated is neither true nor false",)


@pytest.mark.parametrize(
    "value",
    [
        {"name": "a/b", "version_detail": {"version": "1.0", "release_date": "2023-06-15"}, "status": "deprecated"},
        {"name": "a/b", "version": "1.0", "status": "deprecated", "_meta": {OFFICIAL: {"published_at": "2023-06-15"}}},
        {
            "server": {"name": "a/b", "version": 1.0},
            "_meta": {"x": {"status": "Deprecated", "publishedAt": "2023-06-15"}},
        },
    ],
    ids=["first schema", "2025-07-09", "another registry"],
)
def test_status_and_dates_of_each_schema_are_read(value):
    entry = read_entry(value)
    assert (entry.name, entry.version, entry.status) == ("a/b", "1.0", "deprecated")
    assert (entry.published, entry.remarks) == ("2023-06-15", ())


def test_what_a_registry_says_wins_over_the_publisher():
    entry = read_entry({"server": {"name": "a/b", "status": "active"}, "_meta": {OFFICIAL: {"status": "deleted"}}})
    assert entry.status == "deleted"
    message = {OFFICIAL: {"status": "deprecated", "statusMessage": "Use a/c."}}
    assert read_entry({"server": {"name": "a/b"}, "_meta": message}).status_message == "Use a/c."


def test_packages_of_earlier_schemas_are_read():
    first = {"registry_name": "docker", "name": "mcp/files", "version": "1", "runtime_arguments": []}
    second = {"registry_type": "mcpb", "identifier": "https://example.com/a.mcpb", "file_sha256": "0" * 64}
    second |= {"environment_variables": [{"name": "A", "is_secret": True}]}
    remote = {"transport_type": "streamable", "url": "https://example.com/mcp"}
    entry = read_entry({"name": "a/b", "packages": [first, second], "remotes": [remote]})
    assert entry.packages == (
        Package("oci", "mcp/files", "1"),
        Package("mcpb", "https://example.com/a.mcpb", sha256="0" * 64, environment=(Input("A", secret=True),)),
    )
    assert entry.remotes == (Remote("streamable-http", "https://example.com/mcp"),)


@pytest.mark.parametrize(
    ("change", "remark"),
    [
        ({"packages": 3}, "packages is not a list"),
        ({"packages": [3]}, "packages[0] is not an object"),
        ({"packages": [{"identifier": "x"}]}, "packages[0] has no registryType"),
        ({"packages": [{"registryType": "npm", "identifier": ["x"]}]}, "packages[0].identifier is not text"),
        (
            {"packages": [{"registryType": "npm", "identifier": "x\ny"}]},
            "packages[0].identifier has control characters",
        ),
        ({"packages": [{"registryType": "npm", "identifier": "x" * 9999}]}, "identifier has 9,999 characters"),
        ({"packages": [{"registryType": "mcpb", "identifier": "x", "fileSha256": "12"}]}, "is not a SHA-256 hash"),
        ({"packages": [{"registryType": "npm", "identifier": "x", "transport": {"type": "udp"}}]}, "'udp' is unknown"),
        ({"remotes": [{"type": "sse"}]}, "remotes[0] has no url"),
        ({"remotes": [{"url": "https://x"}]}, "remotes[0] has no type"),
        ({"remotes": [{"type": "sse", "url": "https://x", "variables": []}]}, "remotes[0].variables is not an object"),
        ({"remotes": [{"type": "sse", "url": "https://x", "headers": [{}]}]}, "remotes[0].headers[0] has no name"),
        ({"title": {"en": "x"}}, "title is not text"),
        ({"status": "gone"}, "status: 'gone' is unknown"),
        ({"remotes": [{"type": "udp"}] * (MAX_ITEMS + 1)}, "remotes has 201 items; the first 200 are read"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_bad_part_becomes_a_remark_and_the_rest_stays(change, remark):
    entry = read_entry({"name": "a/b", "description": "Kept.", **change})
    assert entry.description == "Kept."
    assert any(remark in text for text in entry.remarks)
    assert len(entry.remarks) <= MAX_REMARKS


@pytest.mark.parametrize("value", [None, [], "x", {}, {"server": []}, {"server": {}}, {"_meta": 3}], ids=str)
def test_value_that_is_no_entry_has_no_name(value):
    entry = read_entry(value)
    assert entry.name == ""
    assert entry.remarks


def test_variables_within_variables_are_not_read():
    deep: dict = {}
    for _ in range(900):
        deep = {"variables": {"a": deep}}
    entry = read_entry({"name": "a/b", "remotes": [{"type": "sse", "url": "https://x", **deep}]})
    assert entry.remotes[0].variables == (Input("a"),)


def test_entries_are_hashable_values():
    assert hash(read_entry(CURRENT)) == hash(read_entry(json.loads(json.dumps(CURRENT))))
