"""Which of the kernels that serve is meant, or why none is, and what the person can do about it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mcp_magic.outside.runtime import folder_problem, runtime_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_magic.outside.runtime import RunningKernel

FIND_KERNELS = "find_kernels"  # the tool that says which kernels there are, and chooses one

HOW_TO_SERVE = (
    "The person types `%load_ext mcp_magic` and `%mcp serve --kernel` in the notebook; its tools appear here then."
)

MAX_KERNELS = 20  # kernels that a reason names


@dataclass(frozen=True)
class Target:
    """Which kernel is meant.

    Attributes:
        folders: The folders of the client, the first of which that has a kernel counts.
        kernel: A notebook, an id or a port that alone counts; "" for the nearest kernel.
        is_typed: Whether a folder was typed; then no other counts.
        used: The kernel that `find_kernels` has chosen. It counts before all others, and when it is gone, the one that
            serves in its place: of its folder and notebook, for a port and an id end with a kernel.
    """

    folders: tuple[Path, ...]
    kernel: str = ""
    is_typed: bool = False
    used: RunningKernel | None = None


class Choice(NamedTuple):
    """The kernel that is meant, or why there is none."""

    kernel: RunningKernel | None
    why_none: str = ""


def none_serves() -> str:
    """Return what is said when no kernel serves: where it was looked, and what the person does.

    A client may start the proxy with another home than the kernel has, and so with another folder.
    """
    folder = runtime_folder()
    if problem := folder_problem():
        return f"no kernel serves: {folder} {problem}, so nothing in it counts. {HOW_TO_SERVE}"
    return (
        f"no kernel serves: there is none in {folder}. {HOW_TO_SERVE} If one serves already, it has another home: "
        "`%mcp serve` there shows its token in DIR/mcp_magic/, and JUPYTER_RUNTIME_DIR=DIR goes into the `env` of the "
        "entry that starts this."
    )


def choose(kernels: Sequence[RunningKernel], target: Target, last: RunningKernel | None = None) -> Choice:
    """Return the kernel that is meant: the one that is named, or the nearest by folder; `last` was chosen before."""
    how = f"call `{FIND_KERNELS}` with `use`, or start the proxy with --kernel NOTEBOOK"
    if not kernels:
        return Choice(None, none_serves())
    near = _in_place_of(target.used, kernels)
    if target.kernel and not near:
        matches = [kernel for kernel in kernels if kernel.matches(target.kernel)]
        if not matches:
            why = (
                f"no kernel {target.kernel!r} serves. {_titles(kernels)} To use one, {how}. For another: {HOW_TO_SERVE}"
            )
            return Choice(None, why)
        kernels = matches
    for folder in target.folders if not near else ():
        distances = {kernel.port: _distance(folder, Path(kernel.folder)) for kernel in kernels}
        there = [distance for distance in distances.values() if distance is not None]
        near = [kernel for kernel in kernels if there and distances[kernel.port] == min(there)]
        if near:
            break
    if not near and target.kernel and not target.is_typed:
        near = kernels
    if not near:
        where = " or ".join(f"{folder}{'' if folder.is_dir() else ' (no such folder)'}" for folder in target.folders)
        why = f"no kernel serves in {where}. {HOW_TO_SERVE} Elsewhere there are others. {_titles(kernels)}"
        return Choice(None, f"{why} To use one, {how}.")
    if len(near) > 1 and last is not None:
        near = _in_place_of(last, near) or near
    if len(near) > 1:
        return Choice(None, f"several kernels could be meant. {_titles(near)} To use one, {how}.")
    return Choice(near[0])


def _in_place_of(former: RunningKernel | None, kernels: Sequence[RunningKernel]) -> Sequence[RunningKernel]:
    """Return a former kernel if it still serves, or else those that serve in its place."""
    if former is None:
        return ()
    place = former.folder, former.notebook
    return (
        [former] if former in kernels else [kernel for kernel in kernels if (kernel.folder, kernel.notebook) == place]
    )


def _titles(kernels: Sequence[RunningKernel]) -> str:
    """Return what names the kernels, with the port of those that their notebook does not tell apart."""
    notebooks = [kernel.notebook for kernel in kernels]
    titles = []
    for kernel in kernels[:MAX_KERNELS]:
        is_unique = kernel.notebook and notebooks.count(kernel.notebook) == 1
        port = "" if is_unique else f", port {kernel.port}"
        titles.append(f"{kernel.title} (since {kernel.started[:16]}{port})")
    return f"These serve: {'; '.join(titles)}."


def _distance(folder: Path, place: Path) -> int | None:
    """Return how many steps lie between two folders, None if neither is in the other."""
    if place.is_relative_to(folder) or folder.is_relative_to(place):
        return abs(len(place.parts) - len(folder.parts))
    return None
