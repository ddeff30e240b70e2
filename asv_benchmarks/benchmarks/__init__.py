"""Benchmarks of fastens for asv; see CONTRIBUTING.md for the commands."""
