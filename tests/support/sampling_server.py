"""A stdio server whose tools ask for a model's words."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.sampling_servers import sampling_server

if __name__ == "__main__":
    sampling_server().run()
