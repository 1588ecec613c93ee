"""A stdio server that goes on when its input ends and when it is asked to end; only SIGKILL ends it."""

import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.plain import Plain

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Plain("stubborn").run()
    print("my input has ended; I stay", file=sys.stderr, flush=True)
    time.sleep(600)
