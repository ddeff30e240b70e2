"""Draw how boosting would scale to up to 1000 workers, from measured counting and a simulated network.

    python tools/cluster_curve.py --rows 1000000000 --columns 28 --workers 1 2 4 8 16 64 256 1000

Each line is `fastens.distributed.plan` for so many workers. The network is that of --latency and --bandwidth, and each
worker is thought to be as fast as this machine.
"""

from __future__ import annotations

import argparse

from fastens import GradientBoostingRegressor
from fastens.distributed import Network, measured_counting, plan


def main() -> None:
    """Print a table for the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10**9)
    parser.add_argument("--columns", type=int, default=28)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 4, 8, 16, 64, 256, 1000])
    parser.add_argument("--latency", type=float, default=Network.latency)
    parser.add_argument("--bandwidth", type=float, default=Network.bandwidth)
    options = parser.parse_args()
    network = Network(options.latency, options.bandwidth)
    model = GradientBoostingRegressor()
    counting = measured_counting(model, options.columns)
    print("| workers | counting, s | exchanging, s | hops | MB sent | GB held | efficiency |")
    print("|---|---|---|---|---|---|---|")
    for n_workers in options.workers:
        found = plan(options.rows, options.columns, n_workers, model=model, network=network, counting=counting)
        numbers = f"{found.counting_seconds:.3f} | {found.exchange_seconds:.3f} | {found.n_hops} | "
        sizes = f"{found.n_bytes / 1e6:.1f} | {found.memory / 1e9:.1f} | {found.efficiency:.0%}"
        print(f"| {n_workers} | {numbers}{sizes} |", flush=True)


if __name__ == "__main__":
    main()
