"""Ours against the obvious alternative, on the same input: `python -m benchmarks.NAME`."""
