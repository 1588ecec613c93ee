"""Packages become commands: versions and digests from registries on 127.0.0.1, as the programs are configured."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mcp_magic.errors import ConfigError, RegistryError
from mcp_magic.registry.entry import Input, Package, Remote
from mcp_magic.registry.packages import check_version, package_recipe, python_index
from mcp_magic.registry.recipe import read_values
from tests.environments import needs_node
from tests.support.registry_server import Answer, registry

DIGEST = "sha256:" + "ab" * 32
INTEGRITY = "sha512-" + "A" * 86 + "=="


@pytest.fixture
def served(monkeypatch, tmp_path):
    """A server that is the registry of each kind."""
    with registry() as served:
        monkeypatch.setenv("npm_config_registry", f"{served.url}/npm/")
        monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"{served.url}/simple")
        yield served


def packument(name: str, *versions: str, **fields):
    dist = {"integrity": INTEGRITY, "tarball": "http://127.0.0.1:1/x.tgz"}
    each = {version: {"name": name, "version": version, "dist": dist, **fields} for version in versions}
    return Answer(200, {"name": name, "dist-tags": {"latest": versions[-1]}, "versions": each})


def simple(name: str, *files: tuple[str, str], yanked: bool = False):
    listed = [{"filename": file, "url": file, "hashes": {"sha256": digest}, "yanked": yanked} for file, digest in files]
    kind = {"content-type": "application/vnd.pypi.simple.v1+json"}
    return Answer(200, {"meta": {"api-version": "1.0"}, "name": name, "files": listed}, kind)


async def recipe_of(package: Package):
    return await package_recipe(package, Path.cwd())


def command(recipe, **values) -> list[str]:
    table = recipe.table(read_values(recipe.slots, values))
    return [table["command"], *table["args"]]


# npm


@needs_node
async def test_npm_package_is_pinned_by_npm_itself(served):
    served.replies["/npm/@example%2ffiles"] = packument("@example/files", "1.0.0", "1.2.0", deprecated="Use other.")
    recipe = await recipe_of(
        Package(
            "npm",
            "@example/files",
            runtime_arguments=(Input("-y", "named"), Input("--loglevel", "named", value="error")),
            package_arguments=(Input("", "positional", hint="folder"),),
        )
    )
    assert (recipe.version, recipe.digest, recipe.unpinned) == ("1.2.0", INTEGRITY, "")
    assert command(recipe, folder="/a") == ["npx", "-y", "--loglevel", "error", "@example/files@1.2.0", "/a"]
    assert recipe.notes == ("npm calls it deprecated: Use other.",)


@needs_node
async def test_npm_version_is_that_of_the_entry(served):
    served.replies["/npm/files"] = packument("files", "1.0.0", "1.2.0")
    named = Package("npm", "files", "1.0.0", runtime_arguments=(Input("", "positional", value="files@latest"),))
    assert command(await recipe_of(named)) == ["npx", "-y", "files@1.0.0"]
    with pytest.raises(RegistryError, match=r"npm does not have files@3.0.0"):
        await recipe_of(Package("npm", "files", "3.0.0"))


@pytest.mark.parametrize(
    ("package", "reason"),
    [
        (Package("npm", "--evil"), "is not the name of an npm package"),
        (Package("npm", "git+https://x/y"), "is not the name of an npm package"),
        (Package("npm", "../x"), "is not the name of an npm package"),
        (Package("npm", "x", "1.0.0; rm -r ."), "is not a version of x"),
        (Package("npm", "x", "^1.0"), "is not a version of x"),
        (Package("pypi", "x @ https://y"), "is not the name of a Python package"),
        (Package("pypi", "-r"), "is not the name of a Python package"),
        (Package("oci", "--privileged"), "is not a reference of an image"),
        (Package("oci", "a b"), "is not a reference of an image"),
        (Package("nuget", "X"), "has no version in its entry"),
        (Package("nuget", "X/Y", "1.0"), "is not the name of a NuGet package"),
        (Package("cargo", "x", "1.0"), "packages of 'cargo' cannot be run here; only npm, pypi, oci, mcpb, nuget"),
        (Package("npm", "x", transport=Remote("sse", "http://localhost")), "starts a server of its own at a URL"),
    ],
    ids=lambda part: part.identifier if isinstance(part, Package) else "",
)
async def test_package_that_is_no_package_is_refused(package, reason):
    with pytest.raises(ConfigError, match=reason):
        await recipe_of(package)


def test_latest_is_no_version():
    assert check_version("latest", "x") == check_version("", "x") == ""


# PyPI


async def test_python_package_is_pinned_with_the_digest_of_its_file(served):
    served.replies["/simple/my-server/"] = simple(
        "my-server",
        ("my_server-1.0-py3-none-any.whl", "cd" * 32),
        ("my_server-1.1.0-py3-none-any.whl", "ab" * 32),
        ("my_server-1.1.0.tar.gz", "ef" * 32),
        ("my_server-2.0rc1-py3-none-any.whl", "12" * 32),
        ("my_server_extra-9.0-py3-none-any.whl", "13" * 32),
    )
    recipe = await recipe_of(Package("pypi", "My_Server", environment=(Input("KEY", secret=True),)))
    assert (recipe.version, recipe.digest, recipe.unpinned) == ("1.1.0", DIGEST, "")
    assert command(recipe) == ["uvx", "My_Server==1.1.0"]
    assert command(await recipe_of(Package("pypi", "my-server", "1"))) == ["uvx", "my-server==1"]
    extra = await recipe_of(
        Package("pypi", "my-server[cli]", "1.0", package_arguments=(Input("", "positional", value="x"),))
    )
    assert command(extra) == ["uvx", "--from", "my-server[cli]==1.0", "my-server", "x"]


async def test_digest_of_the_publisher_must_be_that_of_a_file(served):
    served.replies["/simple/x/"] = simple("x", ("x-1.0-py3-none-any.whl", "ab" * 32))
    assert (await recipe_of(Package("pypi", "x", "1.0", sha256="ab" * 32))).digest == DIGEST
    with pytest.raises(ConfigError, match=r"the SHA-256 that the publisher gives for x 1.0 is that of no file"):
        await recipe_of(Package("pypi", "x", "1.0", sha256="cd" * 32))


async def test_what_pins_no_file_is_told(served):
    served.replies["/simple/x/"] = simple("x", ("x-1-a.whl", "1" * 64), ("x-1-b.whl", "2" * 64), yanked=True)
    recipe = await recipe_of(Package("pypi", "x", "1"))
    assert recipe.digest == ""
    assert recipe.unpinned == "it has 2 files, and which one is installed depends on the machine"
    assert recipe.notes == ("its maintainers have withdrawn (yanked) this version",)


async def test_index_may_answer_with_a_page(served):
    page = f'<a href="x-1.0.tar.gz#sha256={"ab" * 32}">x-1.0.tar.gz</a><a href="y">x-0.9.tar.gz</a>'
    served.replies["/simple/x/"] = Answer(200, page, {"content-type": "text/html"})
    assert (await recipe_of(Package("pypi", "x"))).digest == DIGEST


async def test_credentials_of_the_index_are_sent_and_not_shown(served, monkeypatch):
    monkeypatch.setenv("UV_DEFAULT_INDEX", served.url.replace("//", "//me:sesame@") + "/simple")
    with pytest.raises(RegistryError) as caught:
        await recipe_of(Package("pypi", "x"))
    assert str(caught.value) == f"{urlsplit(served.url).netloc} has no package x."
    assert served.headers[-1]["authorization"] == "Basic bWU6c2VzYW1l"


async def test_answers_that_are_no_index_are_refused(served):
    for answer in (
        Answer(500, "no"),
        Answer(200, "{", {"content-type": "application/json"}),
        Answer(200, {"files": 3}),
    ):
        served.answers.append(answer)
        with pytest.raises(RegistryError, match=r"answered HTTP 500|has no version to install of x"):
            await recipe_of(Package("pypi", "x"))


@pytest.mark.parametrize(
    ("files", "environ", "index"),
    [
        ({}, {}, "https://pypi.org/simple"),
        ({}, {"PIP_INDEX_URL": "https://a/simple"}, "https://a/simple"),
        ({}, {"PIP_INDEX_URL": "https://a/simple", "UV_INDEX_URL": "https://b/simple"}, "https://b/simple"),
        ({}, {"UV_DEFAULT_INDEX": "mine=https://c/simple"}, "https://c/simple"),
        ({".config/uv/uv.toml": '[[index]]\nurl = "https://d"\ndefault = true\n'}, {}, "https://d"),
        ({".config/pip/pip.conf": "[global]\nindex-url = https://e\n"}, {}, "https://e"),
        ({"own.conf": "[global]\nindex-url = https://f\n"}, {"PIP_CONFIG_FILE": "own.conf"}, "https://f"),
        ({".config/uv/uv.toml": "[[", ".config/pip/pip.conf": "["}, {"UV_INDEX_URL": ""}, "https://pypi.org/simple"),
    ],
    ids=["none", "pip", "uv", "named", "uv file", "pip file", "own file", "broken"],
)
def test_index_is_that_of_the_configuration(tmp_path, monkeypatch, files, environ, index):
    monkeypatch.chdir(tmp_path)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert python_index({"HOME": str(tmp_path), **environ}) == index


@pytest.mark.parametrize(
    ("package", "culprit"),
    [
        pytest.param({"runtime_arguments": (Input("--index", "named", value="http://evil"),)}, "--index", id="option"),
        pytest.param({"runtime_arguments": (Input("", "positional", value="-i=http://evil"),)}, "-i", id="word"),
        pytest.param(
            {"runtime_arguments": (Input("", "positional", value="-ihttp://evil"),)}, "-ihttp://evil", id="joined"
        ),
        pytest.param(
            {"runtime_arguments": (Input("--defau", "named", value="http://evil"),)}, "--defau", id="shortened"
        ),
        pytest.param({"runtime_arguments": (Input("", "positional", value="evil"),)}, "evil", id="another package"),
        pytest.param({"runtime_arguments": (Input("-q", "named", value="evil"),)}, "evil", id="value of a flag"),
        pytest.param(
            {"runtime_arguments": (Input("-q", "named"), Input("", "positional", value="evil"))},
            "evil",
            id="after a flag",
        ),
        pytest.param({"runtime_arguments": (Input("-p", "named"),)}, "-p", id="option that takes the package"),
        pytest.param(
            {"runtime_arguments": (Input("-p", "named"), Input("", "positional", hint="x"))}, "<x>", id="value left out"
        ),
        pytest.param(
            {"runtime_arguments": (Input("-p", "named"), Input("-q", "named", value="evil"))},
            "-p, evil",
            id="option as a value",
        ),
        pytest.param({"runtime_arguments": (Input("", "positional", hint="x"),)}, "<x>", id="package to fill in"),
        pytest.param({"environment": (Input("UV_INDEX", value="http://evil"),)}, "UV_INDEX", id="variable"),
        pytest.param({"environment": (Input("https_proxy", value="http://evil"),)}, "https_proxy", id="proxy"),
    ],
)
async def test_publisher_who_changes_the_origin_pins_nothing(served, package, culprit):
    served.replies["/simple/x/"] = simple("x", ("x-1.0-py3-none-any.whl", "ab" * 32))
    recipe = await recipe_of(Package("pypi", "x", "1.0", **package))
    assert recipe.unpinned == f"the publisher's {culprit} may run something else than what was looked up"
    assert recipe.digest == ""


# Containers


async def test_tag_is_pinned_by_the_digest_of_its_registry(served):
    host = urlsplit(served.url).netloc
    served.replies["/v2/acme/tool/manifests/1.0"] = Answer(200, "", {"docker-content-digest": DIGEST})
    recipe = await recipe_of(
        Package(
            "oci",
            f"{host}/acme/tool:1.0",
            environment=(Input("KEY", secret=True), Input("OFF")),
            runtime_arguments=(Input("-e", "named", value="FIXED=1"), Input("-v", "named", value="/:/host")),
            package_arguments=(Input("", "positional", value="serve"),),
        )
    )
    table = recipe.table({"KEY": "sesame"})
    assert table["command"] in ("docker", "podman")
    words = ["run", "-i", "--rm", "-e", "KEY", "-e", "FIXED=1", "-v", "/:/host", f"{host}/acme/tool@{DIGEST}", "serve"]
    assert table["args"] == words
    assert table["env"] == {"KEY": "sesame"}
    assert (recipe.digest, recipe.unpinned) == (DIGEST, "")
    assert recipe.notes == ("the publisher's -v changes what it does or what it can reach",)


async def test_container_starts_with_run_also_if_the_publisher_says_it(served):
    words = ("run", "--init", "-i", "--name", "tool")
    package = Package(
        "oci",
        f"ghcr.io/acme/tool@{DIGEST}",
        environment=(Input("KEY"),),
        runtime_arguments=tuple(Input("", "positional", value=word) for word in words),
    )
    recipe = await recipe_of(package)
    start = ["run", "-i", "--rm", "-e", "KEY", "--init", "--name", "tool"]
    assert recipe.table({"KEY": "1"})["args"] == [*start, f"ghcr.io/acme/tool@{DIGEST}"]
    assert recipe.unpinned == ""


@pytest.mark.parametrize("words", [["-i", "evil"], ["--init", "evil"], ["--rootfs", "/evil"], ["-H", "tcp://evil"]])
async def test_another_image_before_that_of_the_entry_pins_nothing(served, words):
    arguments = tuple(Input("", "positional", value=word) for word in words)
    recipe = await recipe_of(Package("oci", f"ghcr.io/acme/tool@{DIGEST}", runtime_arguments=arguments))
    assert "may run something else than what was looked up" in recipe.unpinned
    assert recipe.digest == ""


async def test_registry_gives_a_token_without_a_log_in(served):
    path = "/v2/acme/tool/manifests/latest"
    challenge = {"www-authenticate": f'Bearer realm="{served.url}/token",service="x",scope="repository:acme/tool:pull"'}
    served.answers.append(Answer(401, "", challenge))
    served.replies["/token"] = Answer(200, {"token": "abc"})
    served.replies[path] = Answer(200, "", {"docker-content-digest": DIGEST})
    recipe = await recipe_of(Package("oci", f"{urlsplit(served.url).netloc}/acme/tool"))
    assert recipe.digest == DIGEST
    assert served.requests[1:] == ["/token?service=x&scope=repository%3Aacme%2Ftool%3Apull", path]
    assert served.headers[-1]["authorization"] == "Bearer abc"


async def test_tag_without_a_digest_says_that_it_may_change(served):
    recipe = await recipe_of(Package("oci", "acme/tool", "1.0", registry_url=served.url))
    host = urlsplit(served.url).netloc
    assert command(recipe)[-1] == f"{host}/acme/tool:1.0"
    assert recipe.unpinned.startswith("the tag 1.0 may mean another image tomorrow, and its digest is not known: ")


@pytest.mark.parametrize("challenge", ['Bearer realm="http://[x"', 'Basic realm="x"', "Bearer"])
async def test_registry_that_wants_a_log_in_leaves_the_tag(served, challenge):
    served.answers.append(Answer(401, "", {"www-authenticate": challenge}))
    recipe = await recipe_of(Package("oci", f"{urlsplit(served.url).netloc}/acme/tool:1.0"))
    assert recipe.unpinned.startswith("the tag 1.0 may mean another image tomorrow")


async def test_image_with_a_digest_asks_nobody(served):
    recipe = await recipe_of(Package("oci", f"ghcr.io/acme/tool:1.0@{DIGEST}"))
    assert command(recipe)[-1] == f"ghcr.io/acme/tool@{DIGEST}"
    assert served.requests == []


# NuGet


async def test_nuget_package_is_run_by_dnx():
    package = Package("nuget", "Acme.Tool", "1.0.0", package_arguments=(Input("", "positional", value="start"),))
    recipe = await recipe_of(package)
    assert command(recipe) == ["dnx", "Acme.Tool@1.0.0", "--yes", "--", "start"]
    assert recipe.unpinned == "NuGet is not asked for its digest"
