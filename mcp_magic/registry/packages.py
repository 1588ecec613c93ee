"""From a package of a registry to what will run: its version, its digest and its command.

npm, PyPI and registries of containers are asked as their own programs would: npm itself answers for npm, with its
configuration and log-in; the index of Python packages is that of uv's or pip's configuration. Nothing is installed
and nothing runs. A version is pinned; what the package itself depends on is not, except in a container.
"""

from __future__ import annotations

import asyncio
import base64
import configparser
import os
import re
import shutil
import sys
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from mcp_magic._text import join_names, plural
from mcp_magic.config.masking import mask_text
from mcp_magic.config.parsing import is_variable
from mcp_magic.display.json import NOT_JSON, loads
from mcp_magic.display.text import LOOPBACK, host_of, one_line
from mcp_magic.errors import ConfigError, MCPMagicError, RegistryError
from mcp_magic.registry.download import fetch, target_of
from mcp_magic.registry.entry import PACKAGE_TYPES
from mcp_magic.registry.recipe import Recipe, SlotMaker, Word
from mcp_magic.schema.resolve import object_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcp_magic.registry.entry import Package

MAX_NUMBERS = 100  # characters of the numbers of a version

PROGRAM_SECONDS = 60.0
"""Seconds within which npm must answer."""

_NPM_NAME = re.compile(r"(?:@[a-z0-9~_-][\w.~-]*/)?[A-Za-z0-9~_][\w.~-]*")
_PYPI_NAME = re.compile(r"([A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)(\[[\w.,\s-]*\])?")
_NUGET_NAME = re.compile(r"[A-Za-z0-9_][\w.-]*")
_VERSION = re.compile(r"[0-9A-Za-z][\w.+!-]*")
_IMAGE = re.compile(
    r"(?:(?P<host>[a-z0-9-]+(?:\.[a-z0-9-]+)+(?::\d+)?|localhost(?::\d+)?|[a-z0-9-]+:\d+)/)?"
    r"(?P<path>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)

_REACH = {
    "npx": ("-c", "--call", "--node-options"),
    "uvx": ("--with", "--with-editable", "--with-requirements", "--env-file", "--python", "-p"),
    "docker": (
        *("-v", "--volume", "--volumes-from", "--mount", "--privileged", "--cap-add", "--device", "--security-opt"),
        *("--network", "--net", "--pid", "--ipc", "--userns", "--uts", "--group-add", "-u"),
        *("--entrypoint", "--env-file"),
    ),
}
"""Options of a launcher that change what a package does, or what it can reach."""

_FLAGS = {
    "npx": ("-y", "--yes", "-q", "--quiet", "-s", "--silent", "--prefer-online", "--prefer-offline", "--offline"),
    "uvx": (
        *("-q", "--quiet", "-v", "--verbose", "--no-progress", "-n", "--no-cache", "--refresh", "--offline"),
        *("--isolated", "--native-tls"),
    ),
    "docker": (
        *("-i", "--interactive", "-t", "--tty", "-it", "-ti", "--rm", "--init", "-P", "--publish-all"),
        *("--privileged", "--read-only", "--no-healthcheck"),
    ),
}
"""Options without a value by which a launcher runs the same package from the same place."""

_SETTINGS = {
    "npx": ("--loglevel",),
    "uvx": ("--python", "-p", "--env-file"),
    "docker": (
        *("-e", "--env", "--env-file", "-v", "--volume", "--volumes-from", "--mount", "--tmpfs", "--entrypoint"),
        *("--network", "--net", "--pid", "--ipc", "--userns", "--uts", "-p", "--publish", "--add-host", "--dns"),
        *("--name", "-w", "--workdir", "-u", "--user", "--group-add", "--cap-add", "--cap-drop", "--device"),
        *("--gpus", "--security-opt", "-m", "--memory", "--cpus", "--shm-size", "--ulimit", "-l", "--label"),
        *("--platform", "--restart"),
    ),
}
"""Those with a value. Any other option may change what runs: npm, for one, takes `--regis` for `--registry`."""

_ORIGIN_VARIABLES = re.compile(
    r"(?i)npm_config_|uv_|pip_|ld_|dyld_|docker_|container_|xdg_|ssl_cert_|node_tls_|"
    r"(?:node_options|node_path|node_extra_ca_certs|python(?:path|home|startup)|(?:https?|all)_proxy|"
    r"path|pathext|home|userprofile|(?:local)?appdata)$"
)
"""The starts of variables that change which package runs, or where it comes from."""


def check_version(version: str, identifier: str) -> str:
    """Return a version that can be part of a command; "" for the latest. Raises ConfigError if it cannot."""
    if version in ("", "latest"):
        return ""
    if _VERSION.fullmatch(version):
        return version
    raise ConfigError(f"{one_line(version, 60)!r} is not a version of {one_line(identifier, 100)}.")


async def package_recipe(package: Package, folder: Path) -> Recipe:
    """Return how a package runs, pinned as far as its registry allows. A bundle is read by `bundle.py` instead.

    Args:
        package: The package.
        folder: Where npm looks for the configuration of a project.

    Raises:
        ConfigError: It cannot be run here; the message says why.
        RegistryError: Its registry does not answer, or does not have it.
    """
    if package.transport.type != "stdio":
        raise ConfigError(
            f"{package.identifier} starts a server of its own at a URL ({package.transport.type}), and only programs "
            "that speak over stdin and stdout are started here. Run it yourself, and connect to its URL."
        )
    make = {"npm": _npm, "pypi": _pypi, "oci": _oci, "nuget": _nuget}.get(package.registry_type)
    if make is None:
        kinds = join_names(PACKAGE_TYPES)
        raise ConfigError(f"packages of {one_line(package.registry_type, 40)!r} cannot be run here; only {kinds}.")
    return await make(package, folder)


def _launched(
    package: Package, launcher: str, words: Sequence[str], pinned: str, *, after: Iterable[str] = ()
) -> Recipe:
    """Return the recipe of a package that a launcher runs: its words, the publisher's for it, the package, theirs."""
    maker = SlotMaker()
    first = [Word((text,)) for text in words]
    ours = [*first, *(Word(flag=text) for text in words)]
    runtime = [word for word in maker.arguments(package.runtime_arguments) if word not in ours]
    own = maker.arguments(package.package_arguments)
    named = [number for number, word in enumerate(runtime) if _names(word, package.identifier)]
    if named:  # the publisher wrote the package among the words of the launcher
        runtime[named[0]] = Word((pinned,))
        middle = runtime
    else:
        middle = [*runtime, Word((pinned,))]
    program = "docker" if launcher == "podman" else launcher
    options = [text.partition("=")[0] for word in runtime for text in _texts(word)]
    reach = [option for option in options if option in _REACH.get(program, ())]
    notes = [f"the publisher's {flag} changes what it does or what it can reach" for flag in dict.fromkeys(reach)]
    others = _origin_changes(runtime, pinned, program, package)
    unpinned = f"the publisher's {join_names(others)} may run something else than what was looked up" if others else ""
    if package.runtime_hint and package.runtime_hint != launcher:
        notes.append(f"the publisher names {one_line(package.runtime_hint, 40)!r} to run it; here {launcher} does")
    names = [variable.name for variable in package.environment if not is_variable(variable.name)]
    if names:
        raise ConfigError(f"{one_line(names[0], 60)!r} is not the name of a variable")
    env = maker.named(package.environment)
    end = [Word((text,)) for text in after] if own else []
    return Recipe(
        f"{package.registry_type} {package.identifier}",
        command=launcher,
        words=(*first, *middle, *end, *own),
        env=env,
        unpinned=unpinned,
        notes=(*notes, *maker.notes),
    )


def _pinned(recipe: Recipe, version: str, digest: str, why_not: str, *, place: str, notes: Iterable[str]) -> Recipe:
    """Return a recipe with what its registry says; the digest is left out if it may be that of something else."""
    digest = "" if recipe.unpinned else digest
    unpinned = recipe.unpinned or why_not
    return replace(
        recipe, version=version, digest=digest, unpinned=unpinned, place=place, notes=(*recipe.notes, *notes)
    )


def _origin_changes(runtime: list[Word], pinned: str, program: str, package: Package) -> list[str]:
    """Return what in the words of a launcher, and in the variables, may have it run something else."""
    flags, settings = _FLAGS.get(program, ()), _SETTINGS.get(program, ())
    changes = []
    before = ""  # the option, if this may be its value
    words = [(word, text) for word in runtime for text in _texts(word)]
    for word, text in (*words, (Word(), pinned)):
        is_option = text.startswith("-")
        if before in settings and (is_option or text == pinned):
            changes.append(before)  # which takes the next word for its value
        if text == pinned:
            break
        if is_option:
            option, equals, _ = text.partition("=")
            changes += [option] if option not in (*flags, *settings) else []
            before = "" if equals else text
            continue
        may_be_absent = not word.flag and not all(slot.input.required for slot in word.slots)
        if before in ("", *flags) or (before in settings and may_be_absent):
            changes.append(text)  # a launcher takes its first word for the package
        before = ""
    changes += [own.name for own in package.environment if _ORIGIN_VARIABLES.match(own.name)]
    return list(dict.fromkeys(one_line(change, 60) for change in changes))


def _texts(word: Word) -> list[str]:
    """Return what stands in the command, with `<name>` for what is filled in."""
    return word.fill({slot.key: f"<{slot.key}>" for slot in word.slots})


def _names(word: Word, identifier: str) -> bool:
    text = word.parts[0] if len(word.parts) == 1 else ""
    return isinstance(text, str) and not word.flag and re.split(r"(?<=.)[@=]", text, maxsplit=1)[0] == identifier


# npm


async def _npm(package: Package, folder: Path) -> Recipe:
    name, version = package.identifier, check_version(package.version, package.identifier)
    if not _NPM_NAME.fullmatch(name):
        raise ConfigError(f"{one_line(name, 100)!r} is not the name of an npm package.")
    facts = await _npm_facts(f"{name}@{version or 'latest'}", folder)
    exact = str(facts.get("version") or "")
    if not _VERSION.fullmatch(exact):
        raise RegistryError(f"npm has no version {version or 'to install'} of {name}.")
    digest = str(object_of(facts.get("dist")).get("integrity") or "")
    recipe = _launched(package, "npx", ["-y"], f"{name}@{exact}")
    notes = []
    if version and exact != version:
        notes.append(f"{version!r} is no exact version; today it means {exact}")
    if facts.get("deprecated"):
        notes.append(f"npm calls it deprecated: {one_line(str(facts['deprecated']), 200)}")
    if package.sha256:
        notes.append("the SHA-256 that the publisher gives is not checked: npm has another kind of digest")
    why = "" if digest else "npm gives no digest of it"
    shown = digest if re.fullmatch(r"sha\d+-[\w+/=]{20,120}", digest) else ""
    place = host_of(str(object_of(facts.get("dist")).get("tarball")))
    return _pinned(recipe, exact, shown, why, place=place, notes=notes)


async def _npm_facts(target: str, folder: Path) -> dict[str, Any]:
    """Ask npm about a package: its own configuration says which registry, and with which log-in."""
    program = shutil.which("npm")
    if program is None:
        raise ConfigError("npm is not installed, and runs this package: install Node.js (https://nodejs.org).")
    words = (program, "view", "--json", target, "name", "version", "deprecated", "dist")
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "NO_UPDATE_NOTIFIER": "1", "npm_config_fetch_retries": "1"},
    )
    try:
        async with asyncio.timeout(PROGRAM_SECONDS):
            output, errors = await process.communicate()
    except TimeoutError:
        raise RegistryError(f"npm did not answer about {target} within {PROGRAM_SECONDS:g} s.") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    value = loads(output.decode("utf-8", "replace"))
    facts = object_of(value)
    problem = object_of(facts.get("error"))
    if process.returncode or not facts or problem:
        told = str(problem.get("summary") or "") or errors.decode("utf-8", "replace").partition("\n")[0]
        told = mask_text(one_line(re.sub(r"\s*- (GET )?\S*//\S+", "", told), 200))
        many = "several versions fit" if isinstance(value, list) else ""
        raise RegistryError(f"npm does not have {target}: {many or told or 'no such version'}.")
    return facts


# PyPI


@dataclass(frozen=True)
class _File:
    name: str
    sha256: str
    is_yanked: bool


async def _pypi(package: Package, folder: Path) -> Recipe:
    match = _PYPI_NAME.fullmatch(package.identifier)
    if match is None:
        raise ConfigError(f"{one_line(package.identifier, 100)!r} is not the name of a Python package.")
    name, extras = match[1], match[2] or ""
    version = check_version(package.version, package.identifier)
    files, index = await _pypi_files(name)
    if not version:
        version = _latest([text for file in files if not file.is_yanked and (text := _version_of(file.name, name))])
    own = [file for file in files if (text := _version_of(file.name, name)) and _release(text) == _release(version)]
    if not version or not own:
        raise RegistryError(f"{index} has no version {version or 'to install'} of {name}.")
    wheels = [file for file in own if file.name.endswith("-none-any.whl")]
    file = next(iter(wheels or (own if len(own) == 1 else [])), None)
    digests = {file.sha256 for file in own}
    if package.sha256 and package.sha256 not in digests:
        raise ConfigError(
            f"the SHA-256 that the publisher gives for {name} {version} is that of no file on {index}; it is not run."
        )
    if extras:
        recipe = _launched(package, "uvx", ["--from", f"{name}{extras}=={version}"], name)
    else:
        recipe = _launched(package, "uvx", [], f"{name}=={version}")
    notes = ["its maintainers have withdrawn (yanked) this version"] if any(file.is_yanked for file in own) else []
    digest = f"sha256:{file.sha256}" if file is not None and file.sha256 else ""
    why = "" if digest else f"it has {plural(len(own), 'files')}, and which one is installed depends on the machine"
    return _pinned(recipe, version, digest, why, place=index, notes=notes)


def _version_of(file: str, name: str) -> str:
    """Return the version in the name of a file of a package, or ""."""
    stem = re.sub(r"(\.tar\.(gz|bz2|xz)|\.zip|\.whl|\.tgz)$", "", file)
    start = re.match(re.sub(r"[-_.]+", "[-_.]+", re.escape(name).replace(r"\-", "-").replace(r"\.", ".")), stem, re.I)
    if start is None or stem[start.end() : start.end() + 1] != "-":
        return ""
    rest = stem[start.end() + 1 :]
    return rest.partition("-")[0] if file.endswith(".whl") else rest


_RELEASE = re.compile(r"v?(?:\d+!)?(\d+(?:\.\d+)*)(.*)", re.DOTALL)


def _release(version: str) -> tuple[tuple[int, ...], str]:
    """Return the numbers of a version, without zeros at the end, and the rest, such as `rc1`."""
    match = _RELEASE.fullmatch(version.lower())
    if match is None or len(match[1]) > MAX_NUMBERS:
        return (), version
    numbers = [int(number) for number in match[1].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers), match[2].strip(".-_")


def _latest(versions: Iterable[str]) -> str:
    """Return the highest version that is no pre-release, or else the highest."""
    by_release = {text: _release(text) for text in versions}
    final = [text for text, (_, rest) in by_release.items() if not rest or rest.startswith(("post", "+"))]
    return max(final or by_release, key=lambda text: by_release[text], default="")


async def _pypi_files(name: str) -> tuple[list[_File], str]:
    """Return the files of a package, and the index that has them, as it is shown."""
    base = python_index()
    normal = re.sub(r"[-_.]+", "-", name).lower()
    parts = urlsplit(base)
    accept = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
    headers = {"accept": accept}
    host = parts.netloc.rpartition("@")[2]
    if parts.username:
        login = f"{parts.username}:{parts.password or ''}"
        headers["authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
    url = parts._replace(netloc=host, path=f"{parts.path.rstrip('/')}/{normal}/").geturl()
    answer = await fetch(url, headers=headers)
    if answer.status == 404:
        raise RegistryError(f"{host} has no package {name}.")
    if answer.status != 200:
        raise RegistryError(f"{host} answered HTTP {answer.status} about {name}.")
    text = answer.body.decode("utf-8", "replace")
    value = loads(text) if "json" in answer.headers.get("content-type", "") else NOT_JSON
    return (_files_of_html(text) if value is NOT_JSON else _files_of_json(value)), host


def _files_of_json(value: Any) -> list[_File]:
    items = object_of(value).get("files")
    files = []
    for item in map(object_of, items if isinstance(items, list) else []):
        digest = object_of(item.get("hashes")).get("sha256")
        files.append(
            _File(
                str(item.get("filename") or ""),
                digest if isinstance(digest, str) and re.fullmatch(r"[0-9a-f]{64}", digest) else "",
                bool(item.get("yanked")),
            )
        )
    return files


def _files_of_html(text: str) -> list[_File]:
    """Read the links of a simple page (PEP 503): `<a href="URL#sha256=...">NAME</a>`."""
    files = []
    for match in re.finditer(r"<a\s([^<>]*)>([^<]*)</a\s*>", text, re.I):
        digest = re.search(r"#sha256=([0-9a-f]{64})", match[1])
        files.append(_File(match[2].strip(), digest[1] if digest else "", "data-yanked" in match[1]))
    return files


def python_index(environ: Mapping[str, str] | None = None) -> str:
    """Return the index of Python packages that uv, or else pip, is configured for; may hold credentials."""
    environ = os.environ if environ is None else environ
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL"):
        if environ.get(name):
            return environ[name].partition("=")[2] if re.match(r"[\w-]+=https?://", environ[name]) else environ[name]
    home = Path(environ.get("HOME") or environ.get("USERPROFILE") or Path.home())
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    for path in (Path(environ.get("UV_CONFIG_FILE") or config / "uv" / "uv.toml"), Path("/etc/uv/uv.toml")):
        if url := _uv_index(path):
            return url
    if environ.get("PIP_INDEX_URL"):
        return environ["PIP_INDEX_URL"]
    files = [config / "pip" / "pip.conf", home / ".pip" / "pip.conf", Path(sys.prefix) / "pip.conf"]
    files = [Path(environ["PIP_CONFIG_FILE"])] if environ.get("PIP_CONFIG_FILE") else files
    for path in (*files, Path("/etc/pip.conf")):
        if url := _pip_index(path):
            return url
    return "https://pypi.org/simple"


def _uv_index(path: Path) -> str:
    try:
        table = tomllib.loads(path.read_text())
    except (OSError, ValueError):
        return ""
    indexes = [object_of(index) for index in table.get("index", []) if object_of(index).get("default")]
    url = indexes[0].get("url") if indexes else table.get("index-url")
    return url if isinstance(url, str) else ""


def _pip_index(path: Path) -> str:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text())
    except (OSError, ValueError, configparser.Error):
        return ""
    for section in ("install", "global"):
        if parser.has_option(section, "index-url"):
            return parser.get(section, "index-url").strip()
    return ""


# Containers

_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
)
_DOCKER_HUB = ("docker.io", "index.docker.io", "registry-1.docker.io")


async def _oci(package: Package, folder: Path) -> Recipe:
    image = package.identifier
    registry = host_of(package.registry_url)
    match = _IMAGE.fullmatch(image)
    if match is None:
        raise ConfigError(f"{one_line(image, 100)!r} is not a reference of an image, such as ghcr.io/acme/server:1.0.")
    host, path, tag, digest = match["host"] or "", match["path"], match["tag"] or "", match["digest"] or ""
    if not host and registry and registry not in _DOCKER_HUB:
        host = registry  # before 2025-10-11, host and tag had fields of their own
    tag = tag or check_version(package.version, image)
    why = ""
    if not digest:
        try:
            digest = await _image_digest(host, path, tag or "latest")
        except MCPMagicError as error:
            why = f"the tag {tag or 'latest'} may mean another image tomorrow, and its digest is not known: {error}"
    name = f"{host}/{path}" if host else path
    reference = f"{name}@{digest}" if digest else f"{name}:{tag or 'latest'}"
    only_podman = shutil.which("docker") is None and shutil.which("podman") is not None
    launcher = "podman" if package.runtime_hint == "podman" or only_podman else "docker"
    start = ("run", "-i", "--rm")
    recipe = _launched(package, launcher, start, reference)
    place = host or _DOCKER_HUB[0]
    recipe = replace(recipe, env_at=len(start))
    return _pinned(recipe, tag, digest, why, place=place, notes=())


async def _image_digest(host: str, path: str, tag: str) -> str:
    """Ask a registry, without credentials, for the digest of a tag."""
    if not host or host in _DOCKER_HUB:
        host, path = "registry-1.docker.io", path if "/" in path else f"library/{path}"
    scheme = "http" if host.partition(":")[0] in LOOPBACK else "https"
    url = f"{scheme}://{host}/v2/{path}/manifests/{tag}"
    headers = {"accept": _MANIFESTS}
    answer = await fetch(url, method="HEAD", headers=headers)
    if answer.status == 401:
        token = await _anonymous_token(url, answer.headers.get("www-authenticate", ""))
        answer = await fetch(url, method="HEAD", headers={**headers, "authorization": f"Bearer {token}"})
    digest = answer.headers.get("docker-content-digest", "")
    if answer.status != 200 or not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise RegistryError(f"{host} answered HTTP {answer.status} about {path}:{tag}.")
    return digest


async def _anonymous_token(url: str, challenge: str) -> str:
    fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge[:2_000]))
    if not challenge.lower().startswith("bearer ") or not fields.get("realm"):
        raise RegistryError(f"{urlsplit(url).netloc} wants credentials.")
    realm = target_of(url, fields["realm"])
    query = urlencode({name: fields[name] for name in ("service", "scope") if name in fields}, quote_via=quote)
    answer = await fetch(f"{realm}{'&' if '?' in realm else '?'}{query}")
    value = object_of(loads(answer.body.decode("utf-8", "replace")))
    token = value.get("token") or value.get("access_token")
    if answer.status != 200 or not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]{1,20000}", token):
        raise RegistryError(f"{urlsplit(url).netloc} gives no token without a log-in.")
    return token


# NuGet


async def _nuget(package: Package, folder: Path) -> Recipe:
    name, version = package.identifier, check_version(package.version, package.identifier)
    if not _NUGET_NAME.fullmatch(name):
        raise ConfigError(f"{one_line(name, 100)!r} is not the name of a NuGet package.")
    if not version:
        raise ConfigError(f"the NuGet package {name} has no version in its entry: say which, `--version 1.0.0`.")
    recipe = _launched(replace(package, runtime_hint=""), "dnx", [], f"{name}@{version}", after=["--"])
    at = next(number for number, word in enumerate(recipe.words) if word == Word((f"{name}@{version}",)))
    words = (*recipe.words[: at + 1], Word(("--yes",)), *recipe.words[at + 1 :])
    unpinned = recipe.unpinned or "NuGet is not asked for its digest"
    return replace(recipe, words=words, version=version, unpinned=unpinned)
