"""Reads and writes the measurements in results/, and the tables of docs/performance.md.

    python3 tests/bench/results.py      # writes the tables again, after bench.py --write or operators.py --write
"""

import csv
import os
import statistics

import chart

HERE = os.path.dirname(os.path.abspath(__file__))
CHART = os.path.join(HERE, "..", "..", "docs", "performance.svg")
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


# The measured levels: title, file, number of threads.
LEVELS = [
    ("1 thread", WORKLOADS, "1"),
    ("2 threads", WORKLOADS, "2"),
    ("AVX2, 1 thread", WORKLOADS_AVX2, "1"),
    ("AVX2, 2 threads", WORKLOADS_AVX2, "2"),
]


def workload_ratios():
    """By workload, the goal and the ratio at each level that was measured; in the order of the files."""
    goals, ratios = {}, {}
    for title, path, threads in LEVELS:
        if not os.path.exists(path):
            continue
        medians = {}
        for row in read(path):
            goals[row["workload"]] = row["goal"]
            if row["threads"] == threads:
                medians.setdefault(row["workload"], {})[row["contestant"]] = float(row["median_ms"])
        for workload, times in medians.items():
            peers = [times[peer] for peer in PEERS if peer in times]
            if peers and OURS in times:
                ratios.setdefault(workload, {})[title] = min(peers) / times[OURS]
    return {workload: (goals[workload], levels) for workload, levels in ratios.items()}


def workload_table():
    """One line per workload: the ratio to the fastest peer at each level. The last lines summarize the columns."""
    measured, titles = workload_ratios(), [title for title, *_ in LEVELS]
    lines = [f"| workload | {' | '.join(titles)} | goal |", f"|{'---|' * (len(titles) + 2)}"]
    for workload, (goal, levels) in measured.items():
        cells = [f"{levels[title]:.2f}" if title in levels else "" for title in titles]
        lines.append(f"| {' | '.join([workload, *cells, goal])} |")
    columns = [[levels[title] for _, levels in measured.values() if title in levels] for title in titles]
    means = [f"{statistics.geometric_mean(column):.2f}" if column else "" for column in columns]
    level = [f"{sum(ratio >= 0.95 for ratio in column)} of {len(column)}" if column else "" for column in columns]
    lines.append(f"| **geometric mean** | {' | '.join(means)} | 1.3 |")
    lines.append(f"| **at least 0.95** | {' | '.join(level)} | all |")
    return "\n".join(lines)


def memory_summary():
    """How much more memory the networks need with each peer, at its peak on one thread."""
    peaks = {}
    for row in read(WORKLOADS):
        if row["threads"] == "1" and row.get("peak_mib"):
            peaks.setdefault(row["workload"], {})[row["contestant"]] = float(row["peak_mib"])
    parts = []
    for peer in PEERS:
        factors = [by_name[peer] / by_name[OURS] for by_name in peaks.values() if peer in by_name]
        parts.append(f"with {peer} {min(factors):.1f} to {max(factors):.1f} times")
    ours = [by_name[OURS] for by_name in peaks.values()]
    return (
        f"Each of the {len(peaks)} networks, in a process of its own, needs {min(ours):.0f} to {max(ours):.0f} MiB at its peak; "
        f"{', '.join(parts)} as much."
    )


def operator_ratios():
    """The lower of the two ratios of each operator, at the large size."""
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
        f"{len(ratios)} operators have a call that both libraries accept; {len(left_out)} have none. The median ratio is "
        f"{statistics.median(ratios.values()):.2f}.",
        "",
        f"| ratio | {' | '.join(titles)} |",
        f"|{'---|' * (len(bounds) + 1)}",
        f"| operators | {' | '.join(map(str, counts))} |",
        "",
        f"The slowest, compared with MXNet: {', '.join(f'`{name}` {ratio:.2f}' for name, ratio in slowest)}.",
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
    page = replace_section(page, "memory", memory_summary())
    page = replace_section(page, "operators", operator_summary())
    with open(PAGE, "w") as f:
        f.write(page)
    with open(CHART, "w") as f:
        f.write(chart.draw(workload_ratios(), [title for title, *_ in LEVELS]))


if __name__ == "__main__":
    main()
