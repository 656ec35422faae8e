"""The measurements that are checked in, in results/, and the tables that docs/performance.md shows of them.

    python3 tests/bench/results.py      # writes the tables again, after bench.py --write or operators.py --write
"""

import csv
import os
import statistics

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "..", "..", "docs", "performance.md")
WORKLOADS = os.path.join(HERE, "results", "workloads.tsv")
WORKLOADS_AVX2 = os.path.join(HERE, "results", "workloads-avx2.tsv")
OPERATORS = os.path.join(HERE, "results", "operators.tsv")

WORKLOAD_COLUMNS = ("threads", "workload", "goal", "contestant", "median_ms", "min_ms", "peak_mib")
SIZES = ("small", "large")
STEPS = ("forward", "both")
TIME_COLUMNS = [(size, step, side) for size in SIZES for step in STEPS for side in ("ferromx", "mxnet")]
OPERATOR_COLUMNS = ("operator", *(f"{size}_{step}_{side}_ms" for size, step, side in TIME_COLUMNS), "large_call")

OURS = "FerroMX"
PEERS = ("MXNet", "PyTorch", "ONNX Runtime")


def read(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(f, delimiter="\t"))


def write(path, columns, rows):
    with open(path, "w", newline="") as f:
        out = csv.writer(f, delimiter="\t", lineterminator="\n")
        out.writerow(columns)
        out.writerows(rows)


def write_operators(results, left_out):
    """`results` has, by operator and size, the call and (ours, MXNet's) milliseconds of each step."""

    def row(name):
        result = results.get(name)
        if result is None:
            return [name] + [""] * (len(OPERATOR_COLUMNS) - 1)
        times = []
        for size, step, side in TIME_COLUMNS:
            pair = result[size]["times"].get(step)
            times.append(f"{pair[side == 'mxnet']:.3g}" if pair else "")
        return [name, *times, result["large"]["call"]]

    write(OPERATORS, OPERATOR_COLUMNS, [row(name) for name in sorted({*results, *left_out})])


def workload_table():
    """One line per workload: FerroMX, the fastest peer and the ratio, for each number of threads."""
    times, goals = {}, {}
    for row in read(WORKLOADS):
        goals[row["workload"]] = row["goal"]
        times[row["workload"], row["threads"], row["contestant"]] = float(row["median_ms"])

    def cells(workload, threads):
        ours = times.get((workload, threads, OURS))
        peers = [(times[workload, threads, peer], peer) for peer in PEERS if (workload, threads, peer) in times]
        if ours is None or not peers:
            return ["", "", ""]
        fastest, name = min(peers)
        return [f"{ours:.3g}", f"{fastest:.3g} ({name})", f"{fastest / ours:.2f}"]

    lines = [
        "| workload | FerroMX, 1 thread | best peer | ratio | FerroMX, 2 threads | best peer | ratio | goal |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for workload, goal in goals.items():
        lines.append(f"| {' | '.join([workload, *cells(workload, '1'), *cells(workload, '2'), goal])} |")
    return "\n".join(lines)


def operator_ratios():
    """By operator, the worse of its two ratios at the large size."""
    ratios, left_out = {}, []
    for row in read(OPERATORS):
        pairs = [(row[f"large_{step}_ferromx_ms"], row[f"large_{step}_mxnet_ms"]) for step in STEPS]
        found = [float(theirs) / float(ours) for ours, theirs in pairs if ours]
        if found:
            ratios[row["operator"]] = min(found)
        else:
            left_out.append(row["operator"])
    return ratios, left_out


def operator_summary():
    ratios, left_out = operator_ratios()
    bounds = [(0, 0.5), (0.5, 0.8), (0.8, 1), (1, 2), (2, 5), (5, float("inf"))]
    counts = [sum(low <= ratio < high for ratio in ratios.values()) for low, high in bounds]
    titles = [f"below {high:g}" if low == 0 else f"{low:g} and more" if high == float("inf") else f"{low:g} to {high:g}" for low, high in bounds]
    slowest = sorted(ratios.items(), key=lambda item: item[1])[:8]
    return "\n".join([
        f"{len(ratios)} operators have a call that both libraries accept, {len(left_out)} have none. The median ratio is "
        f"{statistics.median(ratios.values()):.2f}.",
        "",
        f"| ratio | {' | '.join(titles)} |",
        f"|{'---|' * (len(bounds) + 1)}",
        f"| operators | {' | '.join(map(str, counts))} |",
        "",
        f"The slowest beside MXNet: {', '.join(f'`{name}` {ratio:.2f}' for name, ratio in slowest)}.",
    ])


def replace_section(page, name, text):
    """Puts the text between the markers `<!-- name: begin -->` and `<!-- name: end -->`."""
    begin, end = f"<!-- {name}: begin -->\n", f"\n<!-- {name}: end -->"
    before, rest = page.split(begin)
    return before + begin + text + end + rest.split(end)[1]


def main():
    with open(PAGE) as f:
        page = f.read()
    page = replace_section(page, "workloads", workload_table())
    page = replace_section(page, "operators", operator_summary())
    with open(PAGE, "w") as f:
        f.write(page)


if __name__ == "__main__":
    main()
