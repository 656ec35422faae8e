"""The chart of docs/performance.md: a row per workload, a mark per level, ratios on a logarithmic axis."""

import math
from xml.sax.saxutils import escape

LABELS, WIDTH, ROW, TOP = 360, 560, 18, 54
LEAST, MOST = 0.5, 16.0
TICKS = (0.5, 0.7, 1, 1.5, 2, 3, 5, 8, 16)
COLORS = ("#0b5cad", "#6aa9e0", "#b3541e", "#e8a87c")


def position(ratio):
    ratio = min(max(ratio, LEAST), MOST)
    return LABELS + WIDTH * math.log(ratio / LEAST) / math.log(MOST / LEAST)


def text(x, y, content, anchor="start"):
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{escape(content)}</text>'


def draw(ratios, titles):
    """The chart as SVG. `ratios` has, by workload, the goal and the ratio of each level by its title."""
    bottom = TOP + ROW * len(ratios)
    marks = []
    for k, (title, color) in enumerate(zip(titles, COLORS)):
        x = LABELS + 140 * k
        marks += [f'<circle cx="{x}" cy="14" r="4" fill="{color}"/>', text(x + 9, 18, title)]
    for tick in TICKS:
        x, color = position(tick), "#444" if tick == 1 else "#ddd"
        marks += [f'<path d="M{x:.1f} {TOP - 6}V{bottom}" stroke="{color}"/>', text(x, TOP - 12, f"{tick:g}", "middle")]
    for row, (workload, (_, levels)) in enumerate(ratios.items()):
        y = TOP + ROW * row + ROW / 2
        marks.append(text(LABELS - 10, y + 4, workload, "end"))
        for title, color in zip(titles, COLORS):
            if title in levels:
                marks.append(f'<circle cx="{position(levels[title]):.1f}" cy="{y}" r="4" fill="{color}"/>')
    size = f'width="{LABELS + WIDTH + 20}" height="{bottom + 10}"'
    style = 'font-family="sans-serif" font-size="12"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}><rect {size} fill="#fff"/>\n' + "\n".join(marks) + "\n</svg>\n"
