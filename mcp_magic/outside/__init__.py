"""Outside agents at the kernel: a server of this kernel, its clients, and how they find and reach it."""

from __future__ import annotations
