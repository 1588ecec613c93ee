"""Runs the property tests from new seeds, round after round: `python -m tests.fuzz MINUTES`, or `make fuzz`.

It ends when the time is up (a round that has begun is finished), or after the first round with a failure. pytest shows
the example that failed, made as small as Hypothesis can: pin it with `@example(...)` above the test, and mend it.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

LONGEST = 900
"""Seconds that one test may take: it tries more than in `make test`, and makes a failing example small."""


def command(seed: int, *more: str) -> list[str]:
    """Return what runs all property tests once, from a seed."""
    run = [sys.executable, "-m", "pytest", "-p", "no:nbval", "-p", "no:langsmith_plugin", "--quiet", "-m", "hypothesis"]
    return [*run, "--hypothesis-profile=fuzz", f"--hypothesis-seed={seed}", f"--timeout={LONGEST}", *more]


def main(minutes: float, *more: str) -> int:
    """Run rounds, and return the code to exit with.

    Args:
        minutes: How long; one round is run at least.
        *more: Further arguments of pytest.
    """
    end = time.monotonic() + 60 * minutes
    rounds = 0
    while not rounds or time.monotonic() < end:
        rounds += 1
        seed = random.SystemRandom().randrange(2**32)
        print(f"round {rounds}, seed {seed}", flush=True)
        code = subprocess.run(command(seed, *more), cwd=ROOT, check=False).returncode
        if code:
            print(f"round {rounds} failed; with the same examples again:\n  {' '.join(command(seed, *more))}")
            return code
    print(f"{rounds} rounds, and nothing was found")
    return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), *sys.argv[2:]))
