"""Which variables others may read: sharing by name, all of them, and what a client has brought about itself."""

from __future__ import annotations

import json

import pytest

from mcp_magic.errors import ArgumentsError
from mcp_magic.notebook import Host
from mcp_magic.values.shared import MAX_OWN, SharedValues

WIDE = "\uff44\uff46"  # Python reads it as `df`
UNKNOWN = "no shared value {!r}. `list_values` lists them; the person shares more with `%mcp share NAME`"


@pytest.fixture
def space():
    return {"df": [1, 2], "secret": "s3cr3t", "__builtins__": {}, "_": 7, "In": ["password = 1"], "json": json}


@pytest.fixture
def shared(space):
    return SharedValues(space)


def refusal(call, *names) -> str:
    with pytest.raises(ArgumentsError) as caught:
        call(*names)
    return str(caught.value)


def test_nothing_is_shared_at_first(shared):
    assert shared.names() == ()
    assert shared.of("a").names() == ()


def test_a_name_stays_shared_with_another_value(shared, space):
    shared.share("df")
    space["df"] = "new"
    assert shared.of("a").get("df") == "new"


def test_a_deleted_name_vanishes_until_it_exists_again(shared, space):
    shared.share("df")
    del space["df"]
    assert shared.names() == ()
    assert refusal(shared.of("a").get, "df") == UNKNOWN.format("df")
    space["df"] = 3
    assert shared.names() == ("df",)


def test_a_shared_name_that_becomes_a_module_vanishes(shared, space):
    shared.share("df")
    space["df"] = json
    assert shared.names() == ()
    assert refusal(shared.of("a").get, "df") == UNKNOWN.format("df")


HOSTILE = [
    *("secret", "df.secret", 'df["x"]', "__builtins__", "_", "In", WIDE, "d f", "df ", "", "json", "__class__"),
    *("df\n", "df\x00", "result_1", 3, None, ["df"], {"df": 1}, ("df",), True, 1.5, b"df"),
]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_every_other_name_is_unknown(name, shared):
    shared.share("df")
    client = shared.of("a")
    assert name not in client
    message = refusal(client.get, name)
    assert message.startswith("no shared value ")
    assert "s3cr3t" not in message
    assert client.names() == ("df",)


def test_a_private_and_a_missing_name_get_the_same_sentence(shared):
    shared.share("df")
    client = shared.of("a")
    assert refusal(client.get, "secret") == refusal(client.get, "missing").replace("missing", "secret")
    assert refusal(client.get, "secrets") == UNKNOWN.format("secrets")  # no name that is not shared is suggested


def test_a_long_name_is_cut_in_the_error(shared):
    assert len(refusal(shared.of("a").get, "x" * 1_000_000)) < 400


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dff", "there is no variable 'dff'. Did you mean 'df'? Variables of data: df"),
        ("df.secret", "'df.secret' is not the name of a variable; share 'df', or make a variable of the part"),
        ("a b", "'a b' is not the name of a variable"),
        ("class", "'class' is not the name of a variable"),
        ("json", "'json' is a module; only data is shared"),
        ("_", "'_' is not shared: names with _ first are IPython's or private; use another"),
        ("In", "'In' is IPython's own, and is not shared"),
        ("host", "'host' is a NotebookHost, which is no data; only data is shared"),
        ("function", "'function' is a function; only data is shared"),
        ("kind", "'kind' is a class; only data is shared"),
    ],
)
def test_the_person_is_told_what_cannot_be_shared(name, message, shared, space):
    space.update(host=Host(), function=len, kind=dict)
    assert refusal(shared.share, name) == message
    assert refusal(shared.share, "df", name) == f"{message}. None of the 2 names was shared"
    assert shared.names() == ()


def test_a_name_is_read_as_python_reads_it(shared):
    shared.share(WIDE)
    assert shared.names() == ("df",)


def test_all_means_the_variables_of_data(shared, space):
    space.update(host=Host(), function=len, kind=dict, api_key="x", text="t", _private=1, get_ipython=print)
    space["database"] = "postgres://me:s3cr3t@host/db"
    space["shells"] = own = object()
    shared.attach(space, {"shells": own})
    shared.share_all()
    assert shared.names() == ("df", "text")
    space["later"] = 1
    assert shared.names() == ("df", "text", "later")
    shared.share("api_key")
    assert "api_key" in shared.names()


def test_no_code_of_a_value_runs(shared, space):
    class Kind(type):
        def __getattribute__(cls, name):
            raise AssertionError(name)

    class Trap(metaclass=Kind):
        def __getattribute__(self, name):
            raise AssertionError(name)

        __eq__ = __hash__ = __bool__ = __len__ = __repr__ = __getattribute__

    space["trap"] = Trap()
    shared.share("trap")
    shared.share_all()
    assert shared.names() == ("trap", "df")
    assert [row["value"] for row in shared.listing()] == ["trap", "df"]
    assert "trap" in shared.of("1")


def test_one_name_is_taken_out_of_all(shared):
    shared.share_all()
    shared.stop("df")
    assert shared.names() == ()
    assert refusal(shared.of("a").get, "df").startswith("no shared value 'df'")
    shared.share("df")
    assert "df" in shared


def test_stop_ends_names_and_all(shared):
    shared.share("df")
    shared.stop("df")
    assert shared.names() == ()
    shared.share("df")
    assert refusal(shared.stop, "dff") == "'dff' is not shared. Did you mean 'df'? Shared: df"
    shared.stop()
    shared.share_all()
    shared.stop()
    assert shared.names() == ()


def test_listeners_hear_of_changes(shared):
    heard = []
    stop = shared.watch(lambda: heard.append(shared.names()))
    shared.share("df")
    shared.stop()
    stop()
    shared.share("df")
    assert heard == [("df",), ()]


def test_reads_are_counted_by_client(shared):
    shared.share("df")
    client = shared.of("1", "claude-code")
    client.peek("df")
    client.get("df")
    client.get("df")
    shared.of("2", "codex").get("df")
    assert shared.readers("df") == {"claude-code": 2, "codex": 1}
    shared.stop()
    shared.share("df")
    assert shared.readers("df") == {}


def test_a_kept_answer_is_readable_by_its_client_alone(shared, space):
    space["result_1"] = "the person's"
    one, two = shared.of("1"), shared.of("2")
    assert one.keep("large") == "result_2"
    assert (space["result_1"], space["result_2"]) == ("the person's", "large")
    assert one.get("result_2") == "large"
    assert two.names() == ()
    assert refusal(two.get, "result_2") == UNKNOWN.format("result_2")
    shared.share_all()
    assert "result_2" not in two
    shared.share("result_2")
    assert two.get("result_2") == "large"


def test_a_kept_answer_ends_when_the_person_takes_its_name(shared, space):
    one = shared.of("1")
    name = one.keep("large")
    space[name] = "private"
    assert refusal(one.get, name) == UNKNOWN.format(name)
    space[name] = "large"
    assert name not in one


def test_the_oldest_answers_are_deleted(shared, space):
    one = shared.of("1")
    first, second = one.keep(object()), one.keep(object())
    shared.share(second)
    for _ in range(MAX_OWN):
        one.keep(object())
    assert first not in space
    assert second in space
    assert len(one.names()) == MAX_OWN + 1


def test_the_answers_of_a_client_that_went_are_not_shared(shared, space):
    name = shared.of("1").keep("large")
    shared.forget("1")
    shared.share_all()
    assert name in space
    assert name not in shared.of("1")
    assert name not in shared.of("2")


def test_the_person_sees_and_ends_what_a_client_reads(shared, space):
    one = shared.of("1", "codex")
    one.keep("large")
    one.put("mine", [1])
    assert [(row["value"], row["only for"]) for row in shared.listing()] == [("result_1", "codex"), ("mine", "codex")]
    shared.stop("result_1")
    assert refusal(one.get, "result_1") == UNKNOWN.format("result_1")
    shared.stop()
    assert one.names() == ("mine",)
    shared.share("mine")
    assert [row.get("only for") for row in shared.listing()] == [None]
    shared.forget("1")
    shared.stop("mine")
    assert len(shared.listing()) == 0
    assert {"result_1", "mine"} <= space.keys()
    shared.share_all()
    assert shared.names() == ("df",)


def test_names_that_builtins_have_are_the_persons(shared, space):
    space["open"], space["display"] = [1.5], [2]
    shared.share("open")
    shared.share_all()
    assert shared.names() == ("open", "df", "display")


# What a client puts.


def test_a_table_that_is_put_is_a_frame(shared, space):
    one = shared.of("1")
    assert one.put("joined", [{"a": 1, "b": "x"}, {"a": 2, "b": None}]) == "DataFrame, 2 rows x 2 columns (a, b)"
    assert space["joined"].fillna("").to_dict("list") == {"a": [1, 2], "b": ["x", ""]}
    assert one.put("config", {"a": [1]}) == "dict, 1 member (a)"
    assert space["config"] == {"a": [1]}
    assert one.put("numbers", [1, 2]) == "list, 2 items"
    assert one.put("empty", []) == "list, 0 items"
    assert one.put("n", 5) == "int"
    assert one.names() == ("joined", "config", "numbers", "empty", "n")
    assert shared.of("2").names() == ()


@pytest.mark.parametrize("name", ["df", "secret", "json"])
def test_nothing_is_put_over_a_variable(name, shared, space):
    before = dict(space)
    message = refusal(shared.of("1").put, name, [1])
    assert message == f"the name {name!r} is taken; put the value under another name"
    assert space == before


@pytest.mark.parametrize(
    "name",
    [
        *(
            "class",
            "None",
            "print",
            "In",
            "Out",
            "get_ipython",
            "exit",
            "open",
            "_",
            "_x",
            "__x",
            "a b",
            "a.b",
            "1a",
            "",
        ),
        *(WIDE, "x" * 65, "x\n", 3, None, ["a"], {"$value": "a"}),
    ],
    ids=ascii,
)
def test_a_wrong_name_is_not_put(name, shared, space):
    before = dict(space)
    message = refusal(shared.of("1").put, name, [1])
    assert message.startswith(("this name cannot be used: a name has letters", f"the name {name!r} is Python's own"))
    assert space == before


def test_a_client_replaces_what_it_has_put(shared, space):
    one, two = shared.of("1"), shared.of("2")
    one.put("joined", [1])
    one.put("joined", [2])
    assert (space["joined"], one.get("joined")) == ([2], [2])
    assert refusal(two.put, "joined", [3]).startswith("the name 'joined' is taken")
    space["joined"] = [4]
    assert refusal(one.put, "joined", [5]).startswith("the name 'joined' is taken")
    assert refusal(one.get, "joined") == UNKNOWN.format("joined")


def test_what_the_person_adds_stays_with_the_person(shared, space):
    one = shared.of("1")
    one.put("joined", [{"a": 1}])
    one.put("config", {"a": 1})
    space["joined"]["salary"] = [1000]
    space["config"]["password"] = "s3cr3t"
    assert list(one.get("joined").columns) == ["a"]
    assert one.get("config") == {"a": 1}
    shared.share("config")
    assert one.get("config") == {"a": 1, "password": "s3cr3t"}


def test_what_is_put_is_bounded(shared, space):
    one = shared.of("1")
    assert refusal(one.put, "big", "x" * 30_000_000) == "big: about 30.0 MB are too much; at most 20 MB can be put"
    sparse = [{f"c{number}": 1} for number in range(4000)]
    assert refusal(one.put, "sparse", sparse).startswith("sparse: 4,000 rows x 4,000 columns, of which 4,000 cells")
    assert "big" not in space
    assert "sparse" not in space


def test_a_handle_is_no_name_that_was_shared(space):
    shared = SharedValues(space)
    space["result_1"] = [1]
    shared.share("result_1")
    del space["result_1"]
    assert shared.of("1").keep([2]) == "result_2"
    assert shared.of("2").names() == ()
