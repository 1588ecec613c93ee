"""What every test needs: the same width of the terminal, whoever runs it."""

from __future__ import annotations

import os

os.environ.pop("COLUMNS", None)  # some shells export it; texts are laid out as where there is no terminal
