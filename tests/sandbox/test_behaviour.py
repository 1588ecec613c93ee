"""What a server did as a value: its table, its policy, and what a policy does not have."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_magic.errors import ConfigError
from mcp_magic.results.results import CheckFailedError
from mcp_magic.sandbox.behaviour import Behaviour, Places, Use, read_policy

HOME = str(Path.home())
CALLS = ["search", "send", "send"]
USES = [
    Use("start", (), "program", "/opt/tool/bin/python3"),
    *(Use("start", (), "read", f"/usr/lib/python3/json/{number}.py", 2) for number in range(300)),
    Use("start", (), "read", "/srv/app/server.py"),
    Use("start", (), "write", "/srv/app/__pycache__/server.cpython-311.pyc"),
    Use("start", (), "read", "/dev/urandom", 9),
    Use(1, ("search",), "host", "api.example.com"),
    Use(1, ("search",), "host", "api.example.com:443", 3),
    Use(1, ("search",), "read", "/srv/app/"),
    Use(2, ("send",), "write", "/tmp/tmpabc/part"),
    *(Use(2, ("send",), "write", f"/srv/app/out/{number}.csv") for number in range(20)),
    Use(3, ("send",), "host", "10.0.0.1:25"),
    Use("background", (), "host", "metrics.example.com"),
    Use("background", (), "read", f"{HOME}/.netrc"),
]
OVERLAPPING = [Use(number, ("search", "send"), "host", "x.example.com:80", 1, False) for number in (1, 2)]


def behaviour(*uses: Use, calls: list[str] = CALLS, folder: str = "/srv/app") -> Behaviour:
    return Behaviour("db", "python server.py", [*uses], calls, Places(folder, HOME, "/tmp"))


def test_table_has_libraries_and_full_folders_as_one_row():
    rows = [(row["call"], row["kind"], row["target"], row["times"]) for row in behaviour(*USES).rows()]
    assert rows == [
        ("start", "read", "interpreter and libraries (300 files)", 300),
        ("start", "read", "./server.py", 1),
        ("start", "program", "/opt/tool/bin/python3", 1),
        ("search", "read", "./", 1),
        ("search", "host", "api.example.com:443", 3),
        ("send (2 calls)", "write", "/tmp", 1),
        ("send (2 calls)", "write", "./out/ (20 files)", 20),
        ("send (2 calls)", "host", "10.0.0.1:25", 1),
        ("background", "read", "~/.netrc", 1),
        ("background", "host", "metrics.example.com", 1),
    ]


def test_frame_has_every_use():
    df = behaviour(*USES, *OVERLAPPING).df
    assert df.columns.tolist() == ["call", "tool", "kind", "target", "count", "certain"]
    assert len(df) == len(USES) + 2
    assert df[~df["certain"]][["call", "tool"]].to_numpy().tolist() == [[1, "search"], [2, "send"]]


def test_overlapping_calls_share_what_is_not_certain():
    shown = str(behaviour(*OVERLAPPING))
    assert "search or send  host  x.example.com:80" in shown
    assert "during search and send: calls that overlapped, so it is not certain which of them did it" in shown


def test_calls_of_one_tool_at_once_are_of_that_tool():
    uses = [Use(number, ("send", "send"), "host", "x:80", 1, False) for number in (1, 2)]
    assert [row["call"] for row in behaviour(*uses, calls=["send", "send"]).rows()] == ["send (2 calls)"]


def test_tools_may_be_called_as_the_phases_are(tmp_path):
    uses = [Use("start", (), "host", "a:1"), Use(1, ("start",), "host", "b:1"), Use("background", (), "host", "c:1")]
    value = behaviour(*uses, calls=["start"])
    assert [row["target"] for row in value.rows()] == ["a:1", "b:1", "c:1"]
    value.save(tmp_path / "db.toml")
    data = tomllib.loads((tmp_path / "db.toml").read_text())
    assert (data["start"], data["tools"]) == ({"net": ["a:1"]}, {"start": {"net": ["b:1"]}})


def test_policy_has_what_each_tool_did(tmp_path):
    (tmp_path / "server.py").touch()
    uses = [Use("start", (), "read", f"{tmp_path}/server.py"), Use("start", (), "read", f"{tmp_path}/.venv/gone")]
    (tmp_path / "data").mkdir()
    uses += [Use("start", (), "read", f"{folder}/") for folder in (f"{tmp_path}/data", HOME, "/etc")]
    behaviour(*uses, *USES, *OVERLAPPING, folder=str(tmp_path)).save(tmp_path / "db.toml")
    text = (tmp_path / "db.toml").read_text()
    assert tomllib.loads(text) == {
        "sandbox": {
            "read": ["./data", "./server.py", "/usr"],
            "write": ["/srv/app/out"],
            "net": ["10.0.0.1:25", "api.example.com:443", "x.example.com:80"],
        },
        "start": {
            "read": ["./.venv/gone", "./data/", "./server.py", "/etc/", "/srv/app/server.py", "~/"],
            "programs": ["/opt/tool/bin/python3"],
        },
        "background": {"read": ["~/.netrc"], "names": ["metrics.example.com"]},
        "tools": {
            "search": {"read": ["/srv/app/"], "net": ["api.example.com:443", "x.example.com:80"]},
            "send": {"write": ["/srv/app/out", "/tmp"], "net": ["10.0.0.1:25", "x.example.com:80"]},
        },
    }
    assert "# also what was done during search and send\n[tools.search]" in text


def test_behaviour_fits_the_policy_that_it_writes(tmp_path):
    value = behaviour(*USES, *OVERLAPPING, Use(1, ("search",), "write", "/srv/a\\udcff\nb\u00e9\U0001f600"))
    value.save(tmp_path / "db.toml")
    assert value.differences(tmp_path / "db.toml") == []
    value.check(tmp_path / "db.toml")


MORE = [
    (Use(2, ("send",), "host", "api.evil.example:443"), "send now contacts api.evil.example:443"),
    (Use(2, ("send",), "host", "api.example.com:443"), "send now contacts api.example.com:443"),
    (Use(1, ("search",), "host", "api.example.com:8443"), "search now contacts api.example.com:8443"),
    (Use(1, ("search",), "host", "evil.example"), "search now looks up evil.example"),
    (Use(1, ("search",), "host", "listens:4444"), "search now listens on port 4444"),
    (Use(1, ("search",), "read", "/srv/app/.env"), "search now reads ./.env"),
    (Use(3, ("send",), "write", f"{HOME}/.bashrc"), "send now writes ~/.bashrc"),
    (Use(3, ("send",), "program", "/usr/bin/curl"), "send now runs /usr/bin/curl"),
    (Use("start", (), "read", f"{HOME}/.ssh/id_rsa"), "db now reads ~/.ssh/id_rsa at its start"),
    (Use("background", (), "host", "1.2.3.4:80"), "db now contacts 1.2.3.4:80 between calls"),
    (Use(1, ("search", "send"), "host", "c.example:1", 1, False), "search or send now contacts c.example:1"),
    (Use("background", (), "host", "metrics.example.com:443"), "db now contacts metrics.example.com:443 between calls"),
    (Use(1, ("search",), "program", "/srv/app/__pycache__/run"), "search now runs ./__pycache__/run"),
    (Use(1, ("search",), "write", "/srv/app/__pycache__.sh"), "search now writes ./__pycache__.sh"),
    (Use(1, ("search",), "read", "/etc/ssl/private/key.pem"), "search now reads /etc/ssl/private/key.pem"),
    (Use(1, ("search",), "read", "/srv/a\\u202eb\nc"), "search now reads '/srv/a\\\\u202eb\\nc'"),
]


@pytest.mark.parametrize(("use", "line"), MORE, ids=lambda value: value if isinstance(value, str) else "")
def test_check_tells_what_a_policy_does_not_have(tmp_path, use, line):
    behaviour(*USES).save(tmp_path / "db.toml")
    value = behaviour(*USES, use)
    assert value.differences(tmp_path / "db.toml") == [line]
    with pytest.raises(CheckFailedError) as failure:
        value.check(tmp_path / "db.toml")
    assert str(failure.value) == f"db: {line}, which db.toml does not have"
    assert failure.value.result is value


def test_another_machine_has_another_path_of_the_program(tmp_path):
    start = Use("start", (), "program", "/opt/tool/bin/python3")
    replace(behaviour(start), program=start.target).save(tmp_path / "db.toml")
    assert tomllib.loads((tmp_path / "db.toml").read_text())["start"] == {}
    uses = [Use("start", (), "program", "/usr/bin/python3"), Use(1, ("send",), "program", "/usr/bin/python3")]
    value = replace(behaviour(*uses), program="/usr/bin/python3")
    assert value.differences(tmp_path / "db.toml") == ["send now runs /usr/bin/python3"]


SAME = [
    Use(2, ("send",), "write", "/srv/app/out/2026.csv"),
    Use(2, ("send",), "read", "/srv/app/out/2026.csv"),
    Use(2, ("send",), "write", "/tmp/other/name"),
    Use(2, ("send",), "read", "/srv/app/server.py"),
    Use(2, ("send",), "read", "/usr/lib/other.so"),
    Use(2, ("search", "send"), "host", "api.example.com:443", 1, False),
    Use(1, ("search",), "host", "api.example.com"),
]


@pytest.mark.parametrize("use", SAME, ids=lambda use: f"{use.tools} {use.kind} {use.target}")
def test_check_lets_pass_what_a_policy_means(tmp_path, use):
    behaviour(*USES).save(tmp_path / "db.toml")
    assert behaviour(*USES, use).differences(tmp_path / "db.toml") == []


@pytest.mark.parametrize("folder", [f"{HOME}/.ssh", "/srv/app"])
def test_many_files_of_a_place_of_the_user_do_not_stand_for_all(tmp_path, folder):
    uses = [Use(1, ("search",), "read", f"{folder}/{number}") for number in range(20)]
    behaviour(*uses).save(tmp_path / "db.toml")
    more = behaviour(*uses, Use(1, ("search",), "read", f"{folder}/key"))
    assert len(more.differences(tmp_path / "db.toml")) == 1


def test_several_differences_have_a_line_each(tmp_path):
    behaviour(*USES).save(tmp_path / "db.toml")
    with pytest.raises(CheckFailedError) as failure:
        behaviour(*(use for use, _ in MORE[:2])).check(tmp_path / "db.toml")
    assert str(failure.value).splitlines() == [
        "db: 2 things that db.toml does not have:",
        "  send now contacts api.evil.example:443",
        "  send now contacts api.example.com:443",
    ]


@pytest.mark.parametrize("name", ["start", "background"])
def test_a_tool_that_is_called_like_a_phase_hides_nothing_of_it(tmp_path, name):
    behaviour().save(tmp_path / "db.toml")
    uses = Use(name, (), "host", "1.2.3.4:80"), Use(1, (name,), "host", "5.6.7.8:80")
    lines = behaviour(*uses, calls=[name]).differences(tmp_path / "db.toml")
    assert [line.split()[3] for line in lines] == ["1.2.3.4:80", "5.6.7.8:80"]


def test_check_fails_where_not_all_was_recorded(tmp_path):
    value = behaviour(*USES)
    value.save(tmp_path / "db.toml")
    texts = [f"it used more than 5,000 different ones of the kind {kind} at once" for kind in ("read", "host")]
    value.remarks = texts
    assert value.differences(tmp_path / "db.toml") == [f"db did more than could be recorded: {texts[1]}"]


def test_file_with_a_sandbox_alone_is_for_all_calls(tmp_path):
    path = tmp_path / "db.toml"
    path.write_text('[sandbox]\nread = ["."]\nnet = ["api.example.com"]\nprograms = ["/opt/tool/bin/python3"]\n')
    uses = [Use(1, ("search",), "host", "api.example.com:443"), Use("start", (), "read", f"{tmp_path}/a/b")]
    assert behaviour(*uses, folder=str(tmp_path)).differences(path) == []
    more = behaviour(Use(1, ("search",), "write", f"{tmp_path}/a"), folder=str(tmp_path))
    assert more.differences(path) == ["search now writes ./a"]


FILES = [
    ("nonsense", "not TOML: "),
    ("[servers.a]", "is no behaviour; `%mcp behaviour SERVER --save db.toml` writes one."),
    ("tools = 3", "is no behaviour; "),
    ("[tools]\nsend = 3", "tools.send: expected a table, got a number."),
    ("[start]\nread = 'a'", "start.read: expected a list of text, got text."),
    ("[sandbox]\nread = 'a'", "sandbox.read: expected a list of text, got text."),
    ("[start]\nnet = [1]", "start.net: expected a list of text, got a list."),
]


def test_path_with_a_zero_byte_allows_nothing(tmp_path):
    (tmp_path / "db.toml").write_text('[start]\nread = ["a\\u0000b"]')
    assert not read_policy(tmp_path / "db.toml").allows((), "read", f"{tmp_path}/a")


@pytest.mark.parametrize(("text", "problem"), FILES)
def test_file_that_is_no_policy_says_why(tmp_path, text, problem):
    (tmp_path / "db.toml").write_text(text)
    with pytest.raises(ConfigError) as failure:
        read_policy(tmp_path / "db.toml")
    assert problem in str(failure.value)
    assert str(failure.value).startswith(str(tmp_path / "db.toml"))
