"""A kernel's server under attack: who has no token, who lies about who it is, and who wants more than is shared."""

import json
import re
import socket
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import pytest

from tests.support.outside_kernel import CELLS, HANDSHAKE, MODERN, SECRET, Bare, served

SETUP = CELLS

NAMES = {
    "name": "hidden",
    "frame": "hidden_frame",
    "attribute": "hidden.password",
    "item": "hidden['password']",
    "class": "hidden.__class__",
    "property": "holder.ran",
    "builtins": "__builtins__",
    "ipython": "get_ipython",
    "history": "In",
    "outputs": "Out",
    "last": "_",
    "call": "hidden()",
    "wide letters": "\uff48idden",
    "trailing": "hidden ",
    "module": "pd",
    "server": "shop",
    "long": "hidden" * 20_000,
}
"""What is not shared, or no name at all."""

QUERIES = {
    "import": "__import__('os').system('touch FILE')",
    "call": "print(price)",
    "attribute": "price.__class__",
    "attribute of text": "'a'.__class__ == 1",
    "local": "price > @hidden",
    "variable": "price > hidden",
    "lambda": "(lambda: 0)() == 0",
    "comprehension": "[n for n in [1]] == [1]",
    "walrus": "(x := 1) == 1",
    "format": "f'{hidden}' == ''",
    "power": "9 ** 9 ** 9 ** 9 > price",
    "shift": "1 << 1000000000 > price",
    "repeat": "'a' * 1000000000 == city",
    "product": "price * 10 ** 400 > 0",
    "deep": "(" * 5000 + "price" + ")" * 5000,
    "nested": "not " * 5000 + "price",
    "chain": " and ".join(["price > 1"] * 20000),
    "long": "price > " + "1" * 1_000_000,
    "pattern": "city ~ '(a+)+$'",
    "null byte": "price > 1\0",
    "statement": "price; import os",
}


@pytest.fixture(scope="module")
def served_at(kernel):
    return served(kernel)


@pytest.fixture
def bare(served_at):
    """Makes clients of bare HTTP that have shaken hands."""
    clients = []

    def bare(name="bare", version=HANDSHAKE, **headers):
        clients.append(Bare(*served_at, name, version, **headers).begin())
        return clients[-1]

    yield bare
    for client in clients:
        client.http.close()


def calls(kernel):
    return json.loads(kernel.ok("import json; print(json.dumps(calls))").stdout)


# Who gets in.


@pytest.mark.parametrize("token", ["", "guess", "Bearer"])
def test_no_or_wrong_token_is_refused(served_at, token):
    url, _ = served_at
    with Bare(url, token) as client:
        for response in (client.post(client.message("initialize", {})), client.http.get(url), client.http.delete(url)):
            assert response.status_code == 401
            assert "mcp-session-id" not in response.headers
    assert Bare(f"{url}?token=guess", "").http.get(url).status_code == 401


def test_token_in_the_url_does_not_count(served_at):
    url, token = served_at
    for query in (f"token={token}", f"access_token={token}", f"authorization=Bearer%20{token}"):
        with Bare(f"{url}?{query}", "") as client:
            assert client.post(client.message("ping", {})).status_code == 401


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://127.0.0.1.evil.example"]
)
def test_page_of_another_origin_is_refused(served_at, origin):
    with Bare(*served_at) as client:
        response = client.post(client.message("initialize", {}), origin=origin)
        assert response.status_code == 403
        preflight = client.http.options(served_at[0], headers={"origin": origin})
        assert not any(name.startswith("access-control") for name in [*response.headers, *preflight.headers])


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:80", "[::1]:80"])
def test_another_host_header_is_refused(served_at, host):
    with Bare(*served_at) as client:
        assert client.post(client.message("initialize", {}), host=host).status_code == 421


def test_it_listens_on_this_machine_alone(kernel, served_at):
    port = int(served_at[0].rpartition(":")[2].partition("/")[0])
    lines = [*Path("/proc/net/tcp").read_text().splitlines(), *Path("/proc/net/tcp6").read_text().splitlines()]
    listening = {line.split()[1] for line in lines if line.split()[3] == "0A"}
    assert {place for place in listening if place.endswith(f":{port:04X}")} == {f"0100007F:{port:04X}"}


def test_files_for_the_proxy_are_this_users_alone(folder, served_at):
    _, token = served_at
    [place] = folder.rglob("runtime/mcp_magic")
    files = {path.suffix: path for path in place.iterdir()}
    assert [path.stat().st_mode & 0o777 for path in (place, *files.values())] == [0o700, 0o600, 0o600]
    assert {*files} == {".json", ".token"}
    assert token not in files[".json"].read_text()


def test_token_is_in_no_output(kernel, served_at):
    shown = [kernel.ok(line).data for line in ("%mcp serve --kernel", "%mcp serve", "%mcp audit")]
    assert served_at[1] not in json.dumps(shown)


# What is sent.


def test_batches_are_refused_and_call_nothing(kernel, bare):
    for client in (bare(), bare(version=MODERN)):
        before = calls(kernel)
        add = client.message("tools/call", {"name": "shop__add", "arguments": {"a": 1, "b": 2}})
        assert client.post([add, add]).status_code == 400
        assert client.post([]).status_code == 400
        assert calls(kernel) == before


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_other_content_types_are_refused(kernel, bare, kind):
    client, before = bare(), calls(kernel)
    add = client.message("tools/call", {"name": "shop__add", "arguments": {"a": 1, "b": 2}})
    assert client.post(add, content_type=kind).status_code in (400, 415)
    assert calls(kernel) == before


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'"text"',
        b"null",
        b"NaN",
        b"[" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"jsonrpc": "2.0", "id": {"a": 1}, "method": "tools/list"}',
        b'{"jsonrpc": "2.0", "id": 1, "method": 5}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": [1]}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_values", "arguments": 1}}',
        b'{"jsonrpc": "2.0", "id": ' + b"9" * 5000 + b', "method": "tools/list"}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "' + b"x" * 1_000_000 + b'"}',
    ],
    ids=lambda body: body[:20].decode(errors="replace") or "empty",
)
def test_broken_messages_are_answered_and_it_lives_on(bare, body):
    for version in (HANDSHAKE, MODERN):
        client = bare(version=version)
        response = client.post(body, mcp_method="tools/list", mcp_name="list_values")
        assert response.status_code in (200, 202, 400, 404, 413)
        assert len(response.content) < len(body) + 5_000
        assert "Traceback" not in response.text
        assert client.call("shop__add", a=1, b=2) == (False, "3")


def test_huge_messages_are_refused(bare):
    client = bare()
    add = client.message("tools/call", {"name": "shop__echo", "arguments": {"value": "x" * 5_000_000}})
    assert client.post(add).status_code == 413
    assert client.call("shop__add", a=1, b=2) == (False, "3")


def test_unfinished_requests_of_strangers_do_not_keep_others_out(served_at, bare):
    port = int(served_at[0].rpartition(":")[2].partition("/")[0])
    strangers = [socket.create_connection(("127.0.0.1", port)) for _ in range(300)]
    try:
        for stranger in strangers:
            stranger.sendall(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n")
        assert bare().call("shop__add", a=1, b=2) == (False, "3")
    finally:
        for stranger in strangers:
            stranger.close()


# What is not shared.


def leaks(text, own=""):
    """Return which words of unshared values are in a text, but those that the client has written itself."""
    words = (SECRET, "secret_column", "password", "Holder", "hunter", "Traceback")
    return [word for word in words if word in text and word not in own]


def test_unshared_and_unknown_names_get_one_sentence(kernel, bare):
    client = bare()
    for tool in ("describe_value", "read_value"):
        failed, sentence = client.call(tool, name="nothing")
        assert failed
        for case, name in NAMES.items():
            failed, text = client.call(tool, name=name)
            assert (case, failed) == (case, True)
            assert (case, re.sub("['\"].*['\"]", "'nothing'", text, flags=re.DOTALL)) == (case, sentence)
            assert len(text) < 400
    assert not {"property", "getattr", "repr"} & {*calls(kernel)}


def test_listings_have_nothing_that_is_not_shared(bare):
    client = bare()
    answers = [client.request(f"{kind}/list") for kind in ("tools", "resources", "resources/templates", "prompts")]
    text = json.dumps([*answers, client.call("list_values"), client.call("describe_value", name="df")])
    assert (leaks(text), "hidden" in text, "df" in text) == ([], False, True)
    assert client.call("list_values", search="hid")[1].count("hid") <= 1


def test_queries_run_no_code_and_end_soon(kernel, folder, bare):
    client, file = bare(), folder / "ran"
    for case, query in QUERIES.items():
        failed, text = client.call("read_value", name="df", query=query.replace("FILE", str(file)))
        assert (case, failed, len(text) < 2000, leaks(text, query)) == (case, True, True, []), text[:500]
    assert not file.exists()
    assert client.call("shop__add", a=1, b=2) == (False, "3")
    assert not {"property", "getattr", "repr"} & {*calls(kernel)}


URIS = ("hidden", "value://hidden", "df", "file:///etc/passwd", "shop+file:///etc/passwd", "shop://../hidden")


@pytest.mark.parametrize("uri", URIS)
def test_resource_uris_reach_no_value(bare, uri):
    answer = bare().request("resources/read", uri=uri)
    assert "error" in answer, answer
    assert leaks(json.dumps(answer)) == []
    assert "root:" not in json.dumps(answer)


def test_completion_offers_no_names(bare):
    for reference in ({"type": "ref/prompt", "name": "shop__haggle"}, {"type": "ref/resource", "uri": "{name}"}):
        answer = bare().request("completion/complete", ref=reference, argument={"name": "item", "value": "hid"})
        assert "hidden" not in json.dumps(answer)


ODD = {
    "unshared": {"$value": "hidden"},
    "frame": {"$value": "hidden_frame"},
    "attribute": {"$value": "df.__class__"},
    "list": {"$value": ["hidden"]},
    "nested": {"$value": {"$value": "df"}},
    "number": {"$value": 1},
    "none": {"$value": None},
    "column": {"$value": "df", "columns": ["secret_column"]},
    "column of code": {"$value": "df", "columns": ["__class__"]},
    "rows of text": {"$value": "df", "rows": "hidden"},
    "rows of numbers": {"$value": "df", "rows": [0, -1]},
    "more members": {"$value": "df", "other": 1},
    "query of code": {"$value": "df", "query": "@hidden"},
}
"""References that are answered with an error."""

PLAIN = [
    {"\uff04value": "hidden"},
    {"$value ": "hidden"},
    {"$VALUE": "hidden"},
    {"$$value": "hidden"},
    "$value",
    ["$value"],
]
"""What looks like a reference, and is data."""


def test_references_to_other_things_are_refused(kernel, bare):
    client = bare()
    for case, odd in ODD.items():
        deep = odd
        for _ in range(40):
            deep = {"a": [deep]}
        for value in (odd, [1, odd], {"a": {"b": odd}}, deep):
            failed, text = client.call("shop__echo", value=value)
            assert (case, failed, leaks(text, json.dumps(odd))) == (case, True, []), text
    for value in PLAIN:
        assert json.loads(client.call("shop__echo", value=value)[1]) == value
    assert client.call("shop__echo", **{"$value": "df"})[0]
    text = json.dumps(client.request("prompts/get", name="shop__haggle", arguments={"item": '{"$value": "hidden"}'}))
    assert leaks(text) == []
    assert client.call("read_value", name={"$value": "df"})[0]
    assert not {"property", "getattr", "repr"} & {*calls(kernel)}


def test_reference_in_an_answer_or_a_value_is_data(kernel, bare):
    client = bare()
    kernel.ok("tricky = [{'$value': 'hidden'}, {'a': {'$value': 'hidden'}}]\n%mcp share tricky")
    assert json.loads(client.call("shop__echo", value={"$value": "tricky"})[1])[0] == {"$value": "hidden"}
    for _, text in (client.call("shop__bait"), client.call("read_value", name="tricky")):
        assert (leaks(text), "$value" in text) == ([], True)
    assert leaks(client.call("put_value", name="from_bait", value=[{"$value": "hidden"}])[1]) == []


def test_rules_match_what_a_reference_stands_for(kernel, bare):
    client = bare()
    kernel.ok("one = 1\n%mcp share one\n%mcp deny shop:add a=1 --for outside --first")
    for value in (1, 1.0, {"$value": "one"}):
        failed, text = client.call("shop__add", a=value, b=2)
        assert failed
        assert "denied by rule" in text
    assert client.call("shop__add", a=2, b=2) == (False, "4")
    kernel.ok("%mcp approvals --remove 1")


def test_values_of_the_person_are_neither_replaced_nor_read(kernel, bare):
    client = bare()
    kernel.ok("%mcp allow :put_value --for outside")
    for name in ("df", "hidden", "calls", "print", "__class__", "In", "_", "get_ipython", "class", "a.b"):
        failed, text = client.call("put_value", name=name, value=[1])
        assert (name, failed, leaks(text)) == (name, True, [])
    assert not client.call("put_value", name="fresh", value=[1])[0]
    assert not client.call("read_value", name="fresh")[0]
    kernel.ok(f"fresh = {SECRET!r}")
    failed, text = client.call("read_value", name="fresh")
    assert (failed, leaks(text)) == (True, [])
    assert client.call("put_value", name="fresh", value=[2])[0]
    assert kernel.ok("del fresh\nhidden").text == repr({"password": SECRET})
    kernel.ok("%mcp approvals --remove 2")


# Other clients.


@pytest.fixture
def handle(bare):
    """The handle of a large answer that a client got."""
    client = bare("twin")
    _, text = client.call("shop__many", count=5000)
    handle = next(word.strip("[]:,.`'") for word in text.split() if "result_" in word)
    assert not client.call("read_value", name=handle)[0]
    return handle


@pytest.mark.parametrize("version", [HANDSHAKE, MODERN])
def test_handles_of_another_client_are_not_there(bare, handle, version):
    for name in ("twin", "other", "outside twin", "twin (2)"):
        thief = bare(name, version)
        failed, text = thief.call("read_value", name=handle)
        assert (name, failed, "item 1" in text) == (name, True, False)
        assert thief.call("read_value", name="result_999") == (True, text.replace(handle, "result_999"))
        assert handle not in thief.call("list_values")[1]
        failed, text = thief.call("shop__echo", value={"$value": handle})
        assert (name, failed, "item 1" in text) == (name, True, False)
        assert thief.call("put_value", name=handle, value=[1])[0]


def test_header_of_proxies_keeps_clients_of_one_name_apart(bare):
    one, other = (bare("twin", MODERN, Mcp_Magic_Client=character * 32) for character in "ab")
    handle = re.search(r"result_\d+", one.call("shop__many", count=5000)[1])[0]
    assert [client.call("read_value", name=handle)[0] for client in (one, other, bare("twin", MODERN))] == [0, 1, 1]


def test_session_of_another_needs_the_token_and_ends(served_at, bare):
    owner = bare("owner")
    url, _ = served_at
    with Bare(url, "guess") as thief:
        thief.session = owner.session
        assert thief.post(thief.message("tools/list", {})).status_code == 401
        assert thief.http.delete(url, headers={"mcp-session-id": owner.session}).status_code == 401
    assert owner.call("shop__add", a=1, b=2) == (False, "3")
    owner.http.delete(url, headers={"mcp-session-id": owner.session})
    assert owner.post(owner.message("tools/list", {})).status_code == 404
    with Bare(*served_at) as thief:
        thief.session = "0" * 32
        assert thief.post(thief.message("tools/list", {})).status_code == 404


@pytest.mark.parametrize(
    "name", ["\x1b[2J\x1b]0;x\x07", "<img src=x onerror=alert(1)>", "a\nyou: yes", "\u202eyes", "n" * 100_000, ""]
)
def test_claimed_names_are_shown_escaped_and_short(kernel, bare, name):
    client = bare(name)
    assert client.call("shop__add", a=1, b=2) == (False, "3")
    audit = kernel.ok("%mcp audit").data
    last = audit["text/plain"].splitlines()
    assert not any(character in audit["text/plain"] for character in "\x1b\x07\u202e")
    assert max(map(len, last)) < 400
    assert "<img" not in audit["text/html"]


# Floods.


def test_many_sessions_and_calls_leave_the_kernel_alive(kernel, served_at, bare):
    def one(number):
        with Bare(*served_at, f"flood {number}") as client:
            try:
                client.begin()
                return [client.call("shop__add", a=1, b=number) for _ in range(2)]
            except (AssertionError, KeyError):
                return [(True, "refused")]

    with ThreadPoolExecutor(16) as pool:
        outcomes = [outcome for outcomes in pool.map(one, range(20)) for outcome in outcomes]
    assert outcomes
    assert kernel.ok("1 + 1").text == "2"
    assert bare().call("list_values")[0] is False


def test_many_subscriptions_leave_the_kernel_alive(kernel, bare):
    client = bare()
    for number in range(100):
        client.request("resources/subscribe", uri=f"shop://{number}")
    assert kernel.ok("1 + 1").text == "2"


def test_unknown_methods_are_refused(bare):
    client = bare()
    for method in ("tasks/list", "sampling/createMessage", "roots/list", "shutdown", "kernel/run", "a/" * 1000):
        assert client.request(method)["error"]["code"] in (-32601, -32602)


# Without a yes.


def test_code_is_not_offered_and_values_are_put_only_with_a_yes(kernel, bare):
    client = bare()
    assert "run_code" not in [tool["name"] for tool in client.request("tools/list")["result"]["tools"]]
    assert client.call("run_code", code="calls.append('ran')")[0]
    failed, text = client.call("put_value", name="fresh", value=[1])
    assert failed
    assert text.startswith("put_value was not called; denied")
    assert kernel.run("fresh").ename == "NameError"
    assert "ran" not in calls(kernel)


def test_taken_names_are_not_told_without_a_yes(bare):
    client = bare()
    taken, free = (client.call("put_value", name=name, value=[1]) for name in ("hidden", "quiets"))
    assert taken == (free[0], free[1].replace("quiets", "hidden"))


def test_stop_ends_calls_and_closes_the_port(kernel, folder, bare):
    client = bare("greedy", MODERN)
    with ThreadPoolExecutor(20) as pool:
        waiting = [pool.submit(client.call, "shop__forever") for _ in range(20)]
        refused = [future.result() for _, future in zip(range(4), as_completed(waiting), strict=False)]
        assert {text.partition(";")[0] for _, text in refused} == {
            "nothing was called: 16 calls of yours run or wait already"
        }
        kernel.ok("%mcp serve --kernel --stop")
        assert len([future for future in waiting if future.exception()]) == 16
    kernel.ok("import asyncio\nwhile calls.count('ended') < 16:\n    await asyncio.sleep(0.01)")
    with pytest.raises(Exception, match=r"refused|disconnected|closed|reset"):
        client.call("shop__add", a=1, b=2)
    assert not [*folder.rglob("runtime/mcp_magic/*")]
