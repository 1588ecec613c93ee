"""How a written program reaches a server: values of code, in which each secret is a variable of the environment."""

from __future__ import annotations

import os
import re
import shlex
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic._text import free_name
from mcp_magic.config.masking import mask_arguments, mask_url
from mcp_magic.config.parsing import working_directory
from mcp_magic.config.references import mark_references
from mcp_magic.config.specs import InProcessSpec, Spec, StdioSpec, UrlSpec, WebSocketSpec
from mcp_magic.display.text import one_line
from mcp_magic.errors import CommandError
from mcp_magic.schema.secrets import MASK, is_declared_secret
from mcp_magic.server.literals import (
    PYTHON,
    Beside,
    Joined,
    Program,
    Variable,
    literal,
    unmasked,
    variable_name,
    variables_in,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_magic.server.exchange import Recording


@dataclass(frozen=True)
class Target:
    """How a program reaches a server.

    Attributes:
        transport: `"stdio"`, `"http"`, `"sse"` or `"ws"`.
        command: The command and its arguments.
        options: `env`, `cwd`, `headers`, `verify`, `cert`, as far as they are not the default.
        url: The URL.
        protocol: That of the spec: `"auto"`, `"handshake"` or a version.
        token: The `Authorization` of a client on the bare SDK, which does not log in as a session does; or None.
        remarks: What the user should know.
    """

    transport: str
    command: list[Any] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    url: Any = ""
    protocol: str = "auto"
    token: Joined | None = None
    remarks: tuple[str, ...] = ()

    @property
    def variables(self) -> set[str]:
        """The names of the variables of the environment that it needs."""
        return variables_in([self.command, self.url, self.options])

    def with_token(self) -> Target:
        """Return the target of a client on the bare SDK."""
        if self.token is None:
            return self
        headers = {**self.options.get("headers", {}), "Authorization": self.token}
        return replace(self, options={**self.options, "headers": headers})

    def arguments_of_connect(self, server: str, indent: int) -> str:
        """Return the code of the arguments of `Host.connect`, on lines of their own; the call begins at a column."""
        options: dict[str, Any] = {"name": server}
        if self.transport == "sse":
            options["transport"] = "sse"
        if self.protocol != "auto":
            options["protocol"] = self.protocol
        inner = indent + 4
        values = [literal(self.command or self.url, PYTHON, inner)]
        values += [f"{name}={literal(value, PYTHON, inner)}" for name, value in (options | self.options).items()]
        lines = "".join(f"{' ' * inner}{value},\n" for value in values)
        return f"\n{lines}{' ' * indent}"


def target_of(recording: Recording, file: Path, variables: Mapping[str, Any]) -> Target:
    """Return how the program `file` reaches a server; `variables` may have the user's names of its secrets.

    Raises:
        CommandError: No program can reach it.
    """
    spec, name = recording.spec, recording.server
    if isinstance(spec, InProcessSpec) or recording.transport == "in-process":
        raise CommandError(
            f"%mcp export: {name} runs in this kernel, where no other program can start it. `%mcp export {name} "
            f"{name}.py` writes a server of a cell as a program: connect that, and make the calls there. A report "
            "needs none: `--report FILE.html`."
        )
    if getattr(spec, "client_factory", None) is not None:
        raise CommandError(f"%mcp export: {name} has a client_factory, which no other program has.")
    if spec is not None and not isinstance(spec, WebSocketSpec):
        return target_of_spec(spec, name, file, variables, has_log_in=recording.has_log_in)
    if spec is None and recording.transport == "stdio":
        words = _words(recording.where)
        spec = StdioSpec(command=sys.executable if words[:1] == ["python"] else words[0], args=tuple(words[1:]))
        target = target_of_spec(spec, name, file, variables)
        remarks = [f"the command is that of the cassette, {one_line(recording.where, 200)}: check it"]
        return replace(target, remarks=(*target.remarks, *remarks))
    if spec is None and recording.transport in ("http", "sse"):
        url = unmasked(recording.where, name, "SECRET")
        return Target(recording.transport, url=url, remarks=("a cassette has no headers: add those that it needs",))
    raise CommandError(f"%mcp export: the SDKs have no client for the transport {recording.transport!r} of {name}.")


def _words(line: str) -> list[str]:
    """Return the words of a command line, of which a cassette may have the beginning only."""
    try:
        words = shlex.split(line)
    except ValueError:  # it ends within quotes
        words = line.split()
    return words or ["server"]


def target_of_spec(
    spec: Spec, server: str, file: Path, variables: Mapping[str, Any], *, has_log_in: bool = False
) -> Target:
    """Return how the program `file` reaches the server of a spec; one in this kernel is a program beside it."""
    secrets = _Secrets(spec, server, variables)
    if isinstance(spec, StdioSpec):
        return _stdio(spec, file, secrets)
    if isinstance(spec, UrlSpec):
        return _web(spec, secrets, has_log_in=has_log_in)
    program = f"{server}.py"
    remark = f"the server runs in a kernel: `%mcp export {server} {program}` writes it as a program"
    command = [Program(sys.executable), Beside(program)]
    return Target("stdio", command, protocol=spec.protocol, remarks=(remark,))


class _Secrets:
    """The variables for the secrets of a spec: those that hold them already, else one of its own for each."""

    def __init__(self, spec: Spec, server: str, variables: Mapping[str, Any]) -> None:
        self.server = server
        self._secrets = spec.secrets  # such as are long enough to be looked for
        self._variables: dict[str, str] = {}  # by secret
        for source in (variables, os.environ, spec.variables):
            for name, value in source.items():
                is_secret = isinstance(value, str) and value in self._secrets
                if is_secret and re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII):
                    self._variables[value] = name

    def variable(self, secret: str, name: str) -> str:
        """Return the name of the variable of a secret: `name`, unless it has one, or another secret has that."""
        if secret not in self._variables:
            self._variables[secret] = free_name(name, {*self._variables.values()})
        return self._variables[secret]

    def coded(self, text: str, masked: str, name: str) -> Any:
        """Return a text of the spec, of which a part is masked, with variables; `name` is what it is the value of."""
        for secret in sorted(self._secrets & self._variables.keys(), key=len, reverse=True):
            if secret in text and MASK not in masked:  # its name tells nothing, but a declaration does
                masked = text.replace(secret, MASK)
        if MASK not in masked:
            return text
        match = re.fullmatch("(.+?)".join(map(re.escape, masked.split(MASK))), text, re.DOTALL)
        secrets = iter(match.groups() if match is not None else ())

        def variable(own: str) -> str:
            secret = next(secrets, None)
            return own if secret is None else self.variable(secret, own)

        return unmasked(masked, self.server, name, variable)


def _stdio(spec: StdioSpec, file: Path, secrets: _Secrets) -> Target:
    words: list[Any] = []
    option = ""
    for word, masked in zip(spec.args, mask_arguments(spec.args), strict=True):
        coded = secrets.coded(word, mark_references(masked, MASK), option.lstrip("-"))
        words.append(_beside(coded, file) if isinstance(coded, str) else coded)
        option = word
    options: dict[str, Any] = {}
    here = working_directory()
    if spec.cwd is not None or any(not Path(word).is_absolute() and (here / word).exists() for word in spec.args):
        options["cwd"] = _beside(str(spec.cwd or here), file)
    if spec.env:
        options["env"] = env = {}
        for name, value in spec.env.items():
            masked = mark_references(value, MASK)
            is_secret = is_declared_secret(name)
            env[name] = Variable(secrets.variable(value, name)) if is_secret else secrets.coded(value, masked, name)
    python = Program(_beside(sys.executable, file)) if spec.command == sys.executable else spec.command
    remark = f"the server is {spec.isolation}; the program starts it without that"
    remarks = (remark,) if spec.sandbox is not None else ()
    return Target("stdio", [python, *words], options, protocol=spec.protocol, remarks=remarks)


def _beside(path: str, file: Path) -> Any:
    """Return a path that is near the program relative to it, because a project is moved as a whole."""
    if not Path(path).is_absolute() or not Path(path).exists():
        return path
    relative = os.path.relpath(path, file.parent)
    return Beside(Path(relative).as_posix()) if relative.count("..") <= 4 else path


def _web(spec: UrlSpec, secrets: _Secrets, *, has_log_in: bool) -> Target:
    headers: dict[str, Any] = {}
    for name, value in spec.headers.items():
        masked = mark_references(value, MASK)
        if is_declared_secret(name):
            scheme, space, _ = value.rpartition(" ")
            masked = f"{scheme}{space}{MASK}"
        headers[name] = secrets.coded(value, masked, "token" if name.lower() == "authorization" else name)
    options: dict[str, Any] = {"headers": headers} if headers else {}
    if spec.verify is not True:
        options["verify"] = spec.verify
    if spec.cert is not None:
        options["cert"] = list(spec.cert) if isinstance(spec.cert, tuple) else spec.cert
    token = None
    if (has_log_in or spec.headers_helper is not None) and "authorization" not in map(str.lower, headers):
        token = Joined(("Bearer ", Variable(variable_name(secrets.server, "token"))))
    url = secrets.coded(spec.url, mask_url(mark_references(spec.url, MASK)), "secret")
    return Target(spec.transport, options=options, url=url, protocol=spec.protocol, token=token)


_KEPT = ("env", "headers")  # options that a mock gets, too


def replayed(target: Target, url: str, command: list[str]) -> Target:
    """Return the target at which a mock of the server answers: at a URL, or a command."""
    options: dict[str, Any] = {name: target.options[name] for name in _KEPT if name in target.options}
    if target.transport == "stdio":
        return replace(target, command=command, options={**options, "cwd": str(Path.cwd())})
    return replace(target, transport="http", url=url, options=options)
