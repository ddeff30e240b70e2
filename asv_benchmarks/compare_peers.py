"""Compare fastens with its peers, side by side in one run, and write peers.md, peers.png and peers.json.

python asv_benchmarks/compare_peers.py                          every workload, more than an hour on 2 cores
python asv_benchmarks/compare_peers.py --workloads fit-31 --peers fastens LightGBM --repeats 3
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

from benchmarks.peer_models import PEERS
from comparison import report
from comparison.workloads import WORKLOADS, Options

HERE = Path(__file__).resolve().parent


def arguments() -> argparse.Namespace:
    names = [peer.name for peer in PEERS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), metavar="NAME")
    parser.add_argument("--peers", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--repeats", type=int, default=5, help="rounds of each timing (default 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows of the large tables (default 1)")
    parser.add_argument("--output", type=Path, default=HERE / "results", help="folder to write to")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    chosen = [peer for peer in PEERS if peer.name in args.peers]
    for peer in chosen:
        if not peer.is_installed():
            print(f"left out, not installed: {peer.name}", file=sys.stderr)
    options = Options([peer for peer in chosen if peer.is_installed()], args.repeats, args.scale)
    results = []
    for name in args.workloads:
        print(f"{name} ...", file=sys.stderr, flush=True)
        results += WORKLOADS[name](options)
        report.write(results, "python asv_benchmarks/compare_peers.py " + " ".join(sys.argv[1:]), args.output)
    print((args.output / "peers.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
