"""The peer comparison: workloads, measurements and the report. Run by compare_peers.py."""
