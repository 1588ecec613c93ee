"""A stdio server whose tools ask the person."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.ask.test_elicitation import trip_server

if __name__ == "__main__":
    trip_server().run()
