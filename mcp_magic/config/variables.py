"""`${VAR}` in configuration: what hosts write, from the environment and a `.env` file.

Expanded are `${VAR}` and `${VAR:-default}` (Claude Code), `${env:VAR}`, `${workspaceFolder}`,
`${workspaceFolderBasename}`, `${userHome}`, `${pathSeparator}` and `${/}` (VS Code, Cursor). Anything else
in `${...}`, for example a shell's own `${1}`, stays as it is. What a variable holds is not expanded again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any

from mcp_magic.config.fields import FieldError
from mcp_magic.config.jsonfile import LARGEST, read_bytes
from mcp_magic.errors import did_you_mean
from mcp_magic.wording import sentence

__all__ = ["MissingHereError", "Variables", "read_env_file", "referenced"]

_REFERENCE = re.compile(  # what has no end is read once, however many `:-` are in it
    r"\$\{(?:(?P<kind>env|input|config|command):)?(?P<name>(?:(?!:-)[^{}])++)(?P<default>:-[^{}]*+)?\}"
)
_WITHIN_DOTENV = re.compile(r"\$\{([^}:]*)")
_VARIABLE = re.compile(r"[A-Za-z_]\w*")
_EDITOR = ("workspaceFolder", "workspaceFolderBasename", "userHome", "pathSeparator", "/")


class MissingHereError(FieldError):
    """The configuration is right, but this machine lacks a variable or a file that it asks for."""


def read_env_file(path: Path) -> dict[str, str]:
    """Return the variables that a `.env` file sets.

    Raises:
        MissingHereError: when it cannot be read.
    """
    from dotenv import dotenv_values

    try:
        text = read_bytes(path).decode("utf-8-sig")
        if _is_bomb(dotenv_values(stream=StringIO(text), interpolate=False)):
            problem = f"{path}: its variables are made of too many others."
        else:
            found = dotenv_values(stream=StringIO(text))
            return {name: value for name, value in found.items() if value is not None}
    except OSError as error:
        problem = sentence(f"{path} cannot be read", error.strerror or str(error))
    except UnicodeDecodeError:
        problem = f"{path} is not UTF-8."
    raise MissingHereError(problem)


def _is_bomb(values: Mapping[str, str | None]) -> bool:
    """Whether variables that are made of others (`B=${A}${A}`) would fill the memory, or keep python-dotenv busy."""
    sizes: dict[str, int] = {}
    for name, value in values.items():
        text = value or ""
        if text.count("${") * len(text) > 50 * LARGEST:
            return True
        sizes[name] = len(text) + sum(sizes.get(match[1], 0) for match in _WITHIN_DOTENV.finditer(text))
        if sizes[name] > LARGEST:
            return True
    return False


def referenced(value: Any) -> tuple[str, ...]:
    """Return the variables of the environment that strings refer to, each once.

    >>> referenced({"url": "https://a.example/${TOKEN}", "args": ["${env:HOST}", "${PORT:-80}", "${workspaceFolder}"]})
    ('TOKEN', 'HOST', 'PORT')
    """
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return tuple(dict.fromkeys(name for inner in value for name in referenced(inner)))
    if not isinstance(value, str):
        return ()
    return tuple(dict.fromkeys(match["name"] for match in _references(value)))


def _references(text: str) -> list[re.Match[str]]:
    found = [match for match in _REFERENCE.finditer(text) if match["kind"] in (None, "env")]
    ours = [match for match in found if match["kind"] or match["default"] or match["name"] not in _EDITOR]
    return [match for match in ours if _VARIABLE.fullmatch(match["name"])]


@dataclass(frozen=True, repr=False)  # the environment holds secrets
class Variables:
    """What `${...}` stands for in one file.

    Attributes:
        environ: The environment; it wins over the `.env` file.
        base: The folder that the file speaks for (`${workspaceFolder}`) and that may hold a `.env`.
    """

    environ: Mapping[str, str]
    base: Path | None = None

    def expand(self, value: Any) -> Any:
        """Return `value` with all strings in it expanded; keys stay.

        Raises:
            MissingHereError: naming the variable that neither the environment nor `.env` sets.
            FieldError: for `${input:...}` and other references that only an editor can answer.

        >>> Variables({"PORT": "80"}).expand(["${PORT}", {"a": "${HOST:-localhost}:${env:PORT}"}])
        ['80', {'a': 'localhost:80'}]
        """
        if isinstance(value, str):
            return _REFERENCE.sub(self._replacement, value)
        if isinstance(value, dict):
            return {key: self.expand(inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.expand(inner) for inner in value]
        return value

    def values(self, value: Any) -> dict[str, str]:
        """Return what the variables stand for that strings refer to; where a default stands in, that.

        Raises:
            MissingHereError, FieldError: as `expand`.

        >>> Variables({"PORT": "80"}).values({"url": "http://${HOST:-localhost}:${PORT}/${workspaceFolder}"})
        {'HOST': 'localhost', 'PORT': '80'}
        """
        if isinstance(value, Mapping):
            value = list(value.values())
        if isinstance(value, list | tuple):
            return {name: found for inner in value for name, found in self.values(inner).items()}
        if not isinstance(value, str):
            return {}
        return {match["name"]: self._replacement(match) for match in _references(value)}

    def _replacement(self, match: re.Match[str]) -> str:
        kind, name, default = match["kind"], match["name"], match["default"]
        if kind in ("input", "config", "command"):
            variable = re.sub(r"\W+", "_", name).strip("_").upper() or "VARIABLE"  # `api-key` is API_KEY
            instead = f"Use ${{{variable}}} and set that variable in the environment or in .env."
            raise FieldError(f"{match[0]} can be answered by an editor only. {instead}")
        if kind is None and default is None and name in self._editor_names:
            return self._editor_names[name]
        if not _VARIABLE.fullmatch(name):
            return match[0]
        found = self.environ[name] if name in self.environ else self._dotenv.get(name)
        if default is not None:
            return found or default[2:]  # as in a shell, `:-` also stands in for an empty value
        if found is None:
            hint = did_you_mean(name, [*self.environ, *self._dotenv])
            problem = f"the variable {name} is not set (environment, .env).{hint}"
            raise MissingHereError(f"{problem} ${{{name}:-default}} gives it a default.")
        return found

    @cached_property
    def _dotenv(self) -> dict[str, str]:
        path = self.base / ".env" if self.base else None
        return read_env_file(path) if path and path.is_file() else {}

    @cached_property
    def _editor_names(self) -> dict[str, str]:
        base = self.base or Path.cwd()
        home = self.environ.get("HOME") or self.environ.get("USERPROFILE") or str(Path.home())
        return {
            "workspaceFolder": str(base),
            "workspaceFolderBasename": base.name,
            "userHome": home,
            "pathSeparator": os.sep,
            "/": os.sep,
        }
