"""Which variables of a namespace others may read: `SharedValues`, and `ClientValues` for one of these others.

Nothing is shared until the person shares it. What is shared is a name, not an object: a variable that gets another
value stays shared, and one that is deleted is not there until it exists again. `--all` is not a list of names but a
rule, so it also means variables that come later. It leaves out whatever is no data, names that look like those of
secrets, and addresses with credentials.

A client also reads what it has brought about itself: answers that were too large for it (`keep`) and what it has put
(`put`). These are variables of the namespace too, readable by this client alone until the person shares them, and only
while the variable still is that object. It reads a copy of its own, so that what the person does with the variable
afterwards stays with the person.

There is one sentence for a name that does not exist and for one that is not shared.
"""

from __future__ import annotations

import builtins
import copy
import re
import types
import unicodedata
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from mcp_magic._text import MAX_NAME, did_you_mean, is_identifier, join_names
from mcp_magic.config.masking import estimated_size, mask_text
from mcp_magic.display.document import parts_text, show_parts
from mcp_magic.display.listing import Listing
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError
from mcp_magic.schema.secrets import is_secret_name
from mcp_magic.values.classes import bases, class_name, is_among, member, module_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping

    from mcp_magic.display.document import Part

SHELL_NAMES = frozenset(["In", "Out", "exit", "quit", "get_ipython"])
"""Names that IPython has in every namespace, and uses. The cells that were run are in `In`, with what they contain."""

MAX_OWN = 100  # most variables that a client brings about; above it the oldest is deleted, if it is not shared

MAX_ADDRESS = 2_000  # characters of a text that is searched for credentials

MAX_PUT = 20_000_000  # most bytes of a value that a client puts, as JSON

_OWN_DATA = frozenset(["results", "display", "map", "evaluation"])
"""Rooms of this package whose objects are data; those of the others are connections, agents, hosts, and the like."""

_FUNCTIONS = (
    *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodWrapperType),
    *(types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType),
)
_GENERATORS = (types.GeneratorType, types.AsyncGeneratorType)
_RUNNING = (types.CoroutineType, types.FrameType, types.TracebackType)
_OTHERS = ("IPython", "ipywidgets", "ipykernel", "langchain", "langchain_core", "langgraph", "asyncio", "mcp")
"""Packages whose objects `--all` leaves out."""

_PACKAGE = __name__.partition(".")[0]


def why_never(value: Any) -> str:
    """Return what a value is if it can never be shared, such as `"a module"`; "" if it can.

    >>> import json
    >>> why_never(json), why_never(json.dumps), why_never({"a": 1})
    ('a module', 'a function', '')
    """
    kind = type(value)
    above = bases(kind)
    if types.ModuleType in above:
        return "a module"
    if type in above:
        return "a class"
    if is_among(kind, _FUNCTIONS):
        return "a function"
    if is_among(kind, _GENERATORS):
        return "a generator, which reading would use up"
    if is_among(kind, _RUNNING):
        return "a program that runs"
    for base in above:
        package, _, rest = module_of(base).partition(".")
        if package == _PACKAGE and rest.partition(".")[0] not in _OWN_DATA:
            return f"a {class_name(base)}, which is no data"
    return ""


def is_data(name: str, value: Any) -> bool:
    """Whether `--all` means a variable.

    >>> is_data("rows", [1]), is_data("_rows", [1]), is_data("api_key", "x"), is_data("db", "postgres://me:pw@host")
    (True, False, False, False)
    """
    return _is_data(name, value) and not why_secret(name, value)


def _is_data(name: str, value: Any) -> bool:
    """Whether a variable is data, which may be a secret."""
    if name.startswith("_") or name in SHELL_NAMES or not is_identifier(name):
        return False
    if why_never(value) or member(type(value), "__call__") is not None:
        return False
    return module_of(type(value)).partition(".")[0] not in _OTHERS


def why_secret(name: str, value: Any) -> str:
    """Return why `--all` takes a variable for a secret; "" if it does not.

    >>> why_secret("api_key", "x"), why_secret("db", "postgres://me:pw@host"), why_secret("rows", [1])
    ("a secret's name", 'with a password', '')
    """
    if is_secret_name(name):
        return "a secret's name"
    if type(value) is str and len(value) <= MAX_ADDRESS and mask_text(value) != value:
        return "with a password"  # postgres://me:password@host
    return ""


def unshared(name: object, readable: Iterable[str]) -> ArgumentsError:
    """Return the one error for a name that does not exist and for one that is not shared.

    >>> print(unshared("dff", ["df"]))
    no shared value 'dff'. Did you mean 'df'? `list_values` lists them; the person shares more with `%mcp share NAME`
    """
    text = name if isinstance(name, str) else str(type(name).__name__)
    near = did_you_mean(text, readable)
    short = text if len(text) <= MAX_NAME else f"{text[: MAX_NAME - 1]}…"
    return ArgumentsError(
        f"no shared value {short!r}.{near} `list_values` lists them; the person shares more with `%mcp share NAME`"
    )


@dataclass(frozen=True, slots=True)
class Own:
    """A variable that a client has brought about."""

    client: str  # "" for one that has gone
    label: str  # its name for the person
    variable: Any  # the object in the namespace; the client reads it while the variable is this object
    read: Callable[[], Any]  # returns what the client reads, a copy of its own, always the same one


class SharedValues:
    """The variables of a namespace that others may read.

    Attributes:
        all: Whether all variables of data are shared, but those that were taken out.
    """

    def __init__(
        self, namespace: MutableMapping[str, Any] | None = None, hidden: Mapping[str, Any] | None = None
    ) -> None:
        """Share from a namespace; `hidden` are names that a shell has put there, with their values."""
        self.all = False
        self._namespace: MutableMapping[str, Any] = {} if namespace is None else namespace
        self._hidden: Mapping[str, Any] = hidden or {}
        self._names: dict[str, None] = {}  # in the order of sharing
        self._stopped: set[str] = set()  # the exceptions from `all`
        self._own: dict[str, Own] = {}
        self._readers: dict[str, Counter[str]] = {}
        self._callbacks: dict[object, Callable[[], None]] = {}
        self._answers = 0

    def attach(self, namespace: MutableMapping[str, Any], hidden: Mapping[str, Any] | None = None) -> None:
        """Use another namespace."""
        self._namespace, self._hidden = namespace, hidden or {}

    # What is shared.

    def share(self, *names: str) -> None:
        """Share variables by name, also for values that they get later.

        Raises:
            ArgumentsError: There is no such variable, or it can never be shared. Then none of them is shared.
        """
        try:
            checked = [self._checked(name) for name in names]
        except ArgumentsError as error:
            if len(names) == 1:
                raise
            raise ArgumentsError(f"{error}. None of the {len(names)} names was shared") from None
        self._names |= dict.fromkeys(checked)
        self._stopped -= set(checked)
        self._announce()

    def share_all(self) -> None:
        """Share all variables of data, also those that come later; not names with `_` first or like a secret's."""
        self.all = True
        self._stopped.clear()
        self._announce()

    def stop(self, *names: str) -> None:
        """Share these names no longer; without names, nothing at all but what clients have brought about themselves.

        Raises:
            ArgumentsError: A name is not shared.
        """
        if not names:
            self._names.clear()
            self._stopped.clear()
            self.all = False
        checked = [_normal(name) for name in names]
        for name in checked:
            if name not in self._names and name not in self and self._reader_of(name) is None:
                near = did_you_mean(name, self.names())
                raise ArgumentsError(f"{name!r} is not shared.{near} Shared: {join_names(self.names())}")
        for name in checked:
            self._names.pop(name, None)
            if (own := self._reader_of(name)) is not None:
                self._own[name] = replace(own, client="", read=_nothing)
        if self.all:
            self._stopped |= set(checked)
        self._announce()

    def names(self) -> tuple[str, ...]:
        """Return the names that are shared and exist now, in the order of sharing."""
        names = [name for name in self._names if name in self]
        if self.all:
            names += [name for name in tuple(self._namespace) if name not in self._names and name in self]
        return tuple(names)

    def variables(self) -> tuple[str, ...]:
        """Return the names of all variables of data."""
        space = self._namespace
        return tuple(n for n in tuple(space) if is_data(n, space[n]) and not self._is_shells(n, space[n]))

    def readers(self, name: str) -> Mapping[str, int]:
        """Return who has read a value how often since it is shared."""
        return self._readers.get(name, Counter())

    def listing(self, *notes: str) -> Listing:
        """Return what is shared now, with types and shapes, and who has read it how often; `notes` stand below."""
        rows = []
        own = {name: own.label for name in tuple(self._own) if (own := self._reader_of(name)) and name not in self}
        for name in [*self.names(), *own]:
            kind, shape = _outline(self._namespace[name])
            readers = _readers_text(self.readers(name))
            row = {"value": name, "type": kind, "shape": shape or None, "read by": readers or None}
            rows.append(row | ({"only for": one_line(own[name], 60)} if name in own else {}))
        return Listing(
            rows,
            title="Shared values",
            columns=["value", "type", "shape", "read by", "only for"],
            empty="no shared variable exists now"
            if self.all or self._names
            else "nothing is shared: `%mcp share NAME` lets agents outside read a variable",
            note="; ".join([*self._remarks(), *notes]),
            kind="values",
        )

    def _remarks(self) -> Iterator[str]:
        """Yield what the rows of the listing do not say: what is shared later, and what `--all` leaves out."""
        if self.all:
            yield "all variables of data are shared, also later ones"
        left_out = [f"{name}{f' ({reason})' if reason else ''}" for name, reason in self._left_out().items()]
        if left_out:
            yield f"left out: {join_names(left_out)}"
        if gone := [name for name in self._names if name not in self]:
            yield f"shared once there is such data again: {join_names(gone)}"

    def _left_out(self) -> dict[str, str]:
        """Return the variables of data that `--all` leaves out: each with why it is taken for a secret, "" if not."""
        space = self._namespace
        return {
            name: why_secret(name, space[name])
            for name in (tuple(space) if self.all else ())
            if name not in self
            and _is_data(name, space[name])
            and not self._is_shells(name, space[name])
            and self._own_of(name) is None
        }

    def parts(self) -> list[Part]:
        """Return the listing for a display."""
        return self.listing().parts()

    _repr_mimebundle_ = show_parts
    __str__ = parts_text

    def of(self, client: str, label: str = "") -> ClientValues:
        """Return what one client may read; `client` tells it from the others, `label` is its name for the person."""
        return ClientValues(self, client, label or client)

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Run a callback after each change of what is shared; return a function that ends that."""
        key = object()
        self._callbacks[key] = callback
        return lambda: self._callbacks.pop(key, None) and None

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or name not in self._namespace:
            return False
        if name in self._names:
            return not why_never(self._namespace[name])
        return self.all and name not in self._stopped and self._is_persons(name)

    def __getitem__(self, name: str) -> Any:
        """Return a shared value; ArgumentsError if there is none of this name."""
        if name not in self:
            raise unshared(name, self.names())
        return self._namespace[name]

    # What clients do. `ClientValues` is their door.

    def note_read(self, name: str, label: str) -> None:
        """Count a read."""
        self._readers.setdefault(name, Counter())[label] += 1

    def own(self, client: str) -> dict[str, Own]:
        """Return what a client has brought about and what is still there, by name."""
        owns = {name: self._own_of(name) for name in tuple(self._own)}
        return {name: own for name, own in owns.items() if own is not None and own.client == client}

    def add_own(self, name: str, own: Own) -> None:
        """Make a new variable that a client may read.

        Raises:
            ArgumentsError: The name is taken by another's variable, or is none for a variable.
        """
        check_new(name)
        if name in self._namespace and ((before := self._own_of(name)) is None or before.client != own.client):
            raise ArgumentsError(f"the name {name!r} is taken; put the value under another name")
        self._own.pop(name, None)
        self._namespace[name] = own.variable
        self._own[name] = own
        self._make_room(own.client)
        self._announce()

    def next_handle(self) -> str:
        """Return a name for an answer, `result_3`, which no variable has, and none that the person has shared had."""
        while True:
            self._answers += 1
            if (name := f"result_{self._answers}") not in self._namespace and name not in self._names:
                return name

    def forget(self, client: str) -> None:
        """Let a client that has gone own nothing any longer; the variables stay."""
        for name in self.own(client):
            self._own[name] = replace(self._own[name], client="", read=_nothing)  # still not the person's
        self._make_room("")

    # Within.

    def _make_room(self, client: str) -> None:
        for name in [*self.own(client)][:-MAX_OWN]:
            del self._own[name]
            if name not in self._names:
                del self._namespace[name]

    def _is_persons(self, name: str) -> bool:
        """Whether it is a variable of data that no client has brought about."""
        value = self._namespace[name]
        return is_data(name, value) and not self._is_shells(name, value) and self._own_of(name) is None

    def _own_of(self, name: str) -> Own | None:
        own = self._own.get(name)
        if own is not None and self._namespace.get(name) is not own.variable:
            del self._own[name]  # deleted, or the person's now
            return None
        return own

    def _reader_of(self, name: str) -> Own | None:
        """Return what is the own of a client that is still there, under a name."""
        own = self._own_of(name)
        return own if own is not None and own.client else None

    def _is_shells(self, name: str, value: Any) -> bool:
        return name in self._hidden and self._hidden[name] is value

    def _checked(self, name: str) -> str:
        """Return the name of a variable that can be shared, as Python reads it."""
        name = _normal(name)
        space = self._namespace
        if not is_identifier(name):
            part = re.match(r"\w+", name)
            hint = f"; share {part[0]!r}, or make a variable of the part" if part and part[0] in space else ""
            raise ArgumentsError(f"{name!r} is not the name of a variable{hint}")
        if name.startswith("_"):
            raise ArgumentsError(f"{name!r} is not shared: names with _ first are IPython's or private; use another")
        if name not in space:
            names = self.variables()
            near = did_you_mean(name, names)
            raise ArgumentsError(f"there is no variable {name!r}.{near} Variables of data: {join_names(names)}")
        if name in SHELL_NAMES or self._is_shells(name, space[name]):
            raise ArgumentsError(f"{name!r} is IPython's own, and is not shared")
        if reason := why_never(space[name]):
            raise ArgumentsError(f"{name!r} is {reason}; only data is shared")
        return name

    def _announce(self) -> None:
        names = self.names()
        for name in [name for name in self._readers if name not in names and name not in self._own]:
            del self._readers[name]
        for callback in tuple(self._callbacks.values()):
            callback()


def _copies(value: Any) -> Callable[[], Any]:
    copied = copy.deepcopy(value)
    return lambda: copied


def _nothing() -> None:
    """Stand for the copy of a client that has gone."""


def _outline(value: Any) -> tuple[str, str]:
    """Return the type and the shape of a value in words."""
    from mcp_magic.values.reading import shape_of

    return class_name(type(value)), shape_of(value)[0]


def _readers_text(readers: Mapping[str, int]) -> str:
    """Return who has read a value, as the clients call themselves."""
    texts = [f"{one_line(name, 60)} {count:,} x" for name, count in readers.items()]
    return join_names(texts, 5) if texts else ""


class ClientValues:
    """What one client may read: the shared values, and what it has brought about itself."""

    def __init__(self, shared: SharedValues, client: str, label: str) -> None:
        self.client = client
        self.label = label
        self._shared = shared

    def names(self) -> tuple[str, ...]:
        """Return the names that this client may read."""
        return tuple(dict.fromkeys([*self._shared.names(), *self._shared.own(self.client)]))

    def get(self, name: str) -> Any:
        """Return a value, and note that it is read.

        Raises:
            ArgumentsError: There is no such name, or it is not shared; the sentence is the same.
        """
        value = self.peek(name)
        self._shared.note_read(name, self.label)
        return value

    def note_reads(self, names: Iterable[str]) -> None:
        """Note that values, or parts of them, leave in the arguments of a call."""
        for name in names:
            self._shared.note_read(name.partition(".")[0], self.label)

    def peek(self, name: str) -> Any:
        """Return a value without a note that it is read: for its type and shape."""
        if not isinstance(name, str):
            raise unshared(name, self.names())
        if name in self._shared:
            return self._shared[name]
        own = self._shared.own(self.client)
        if name not in own:
            raise unshared(name, self.names())
        return own[name].read()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._shared or name in self._shared.own(self.client))

    def own(self) -> tuple[str, ...]:
        """Return the names of what this client has brought about."""
        return tuple(self._shared.own(self.client))

    def put(self, name: str, value: Any) -> str:
        """Make a new variable of JSON, a DataFrame of a list of objects, and return what it is.

        The client may put another value under its own name, as long as the variable is what it has put.

        Raises:
            ArgumentsError: The name is taken, or no name for a variable; or the value is too large.
        """
        check_put(name, value)
        is_table = isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)
        variable = _frame(name, value) if is_table else value
        self._shared.add_own(name, Own(self.client, self.label, variable, _copies(variable)))
        return ", ".join(filter(None, _outline(variable)))

    def keep(self, answer: Any, read: Callable[[], Any] | None = None) -> str:
        """Make a variable of an answer, and return its name, which is the handle of this client.

        `read` returns the copy that the client reads, and is called when that is needed first; without it, the copy is
        made now.
        """
        read = _copies(answer) if read is None else cache(read)
        name = self._shared.next_handle()
        self._shared.add_own(name, Own(self.client, self.label, answer, read))
        return name


def _frame(name: str, rows: list[dict[str, Any]]) -> Any:
    """Return a DataFrame of objects."""
    from mcp_magic.display.frames import escaped  # it imports pandas
    from mcp_magic.display.tables import Records, check_shape

    table = Records(values=rows)
    try:
        check_shape(*table.shape())
    except ValueError as error:
        raise ArgumentsError(f"{name}: {str(error).partition('. ')[0]}; put it in a denser form") from None
    return escaped(table.frame())


def check_put(name: object, value: Any) -> None:
    """Raise ArgumentsError if a client cannot put a value under a name, whatever variables there are."""
    check_new(name)
    if (size := estimated_size(value)) > MAX_PUT:
        raise ArgumentsError(
            f"{name}: about {size / 1_000_000:,.1f} MB are too much; at most {MAX_PUT // 1_000_000} MB can be put"
        )


def check_new(name: object) -> None:
    """Raise ArgumentsError if a client cannot give a name to a new variable: it is none, or Python's or IPython's."""
    rule = "a name has letters, digits and _, and starts with a letter"
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,63}", name):
        raise ArgumentsError(f"this name cannot be used: {rule}, at most 64 characters, such as 'joined'")
    if not is_identifier(name) or name in SHELL_NAMES or hasattr(builtins, name):
        raise ArgumentsError(f"the name {name!r} is Python's own; add a word to it, such as '{name}_1'")


def _normal(name: object) -> str:
    """Return a name as Python reads it in code: wide letters are the usual ones."""
    if not isinstance(name, str):
        raise ArgumentsError(f'the name of a variable is a text, not {type(name).__name__}: share("df")')
    return unicodedata.normalize("NFKC", name)
