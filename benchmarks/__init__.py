"""Programs that print the ratios of the performance goals; `python -m benchmarks` runs them."""
