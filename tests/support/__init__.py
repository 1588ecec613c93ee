"""What several tests share: servers, shells, clocks, and drivers of kernels, terminals and pages."""

from pathlib import Path

SUPPORT = Path(__file__).parent
