#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of docs/watching.md from the series of a job, as SVG.

Usage: tools/watching_pictures.py PROMETHEUS JOB FOLDER, as in
    tools/watching_pictures.py 127.0.0.1:9090 lenet docs/pictures
Start a cluster and Prometheus as docs/watching.md says, with a scrape_interval of a second for a
short job, let the job train, and run this within an hour. Needs nothing but Python.
"""
import json
import math
import pathlib
import sys
import time
import urllib.parse
import urllib.request

POINTS = 120  # of a line
WIDTH, PLOT, LEFT, RIGHT, TOP, BOTTOM = 760, 200, 64, 110, 34, 30
COLORS = ("#3366cc", "#dc6e12", "#2c9f45", "#b3343a", "#7a57a8", "#6b6b6b")
RATE = "[10s]"


def ask(prometheus, query, begin, end, points=POINTS):
    """[(labels, [(time, value)])] in about so many steps; what is no number is left out."""
    words = urllib.parse.urlencode({"query": query, "start": begin, "end": end,
                                    "step": max(1, (end - begin) / points)})
    address = f"http://{prometheus}/api/v1/query_range?{words}"
    with urllib.request.urlopen(address, timeout=30) as reply:
        found = json.load(reply)["data"]["result"]
    return [(one["metric"], [(float(at), float(value)) for at, value in one["values"]
                             if math.isfinite(float(value))]) for one in found]


def span(prometheus, job):
    """First and last second of the job's ranks within the last hour."""
    now = time.time()
    query = f'sum(troupe_worker_steps_total{{train_job="{job}"}})'
    found = ask(prometheus, query, now - 3600, now, 3600)
    if not found or len(found[0][1]) < 2:
        sys.exit(f"{prometheus} has no series of a job '{job}' within the last hour")
    return found[0][1][0][0], found[0][1][-1][0]


def nice_top(value):
    """A round number at or above."""
    if value <= 0:
        return 1.0
    unit = 10 ** math.floor(math.log10(value))
    return next(unit * n for n in (1, 2, 2.5, 5, 10) if unit * n >= value * 0.999)


class Plot:
    """One coordinate system; `row` counts from the top of the picture."""

    def __init__(self, row, title, begin, end, top):
        self.begin, self.end, self.top = begin, end, top
        self.base = row * (TOP + PLOT + BOTTOM) + TOP + PLOT
        self.parts = [self.text(LEFT, self.base - PLOT - 12, title, weight="bold")]
        for i in range(5):
            y = self.base - PLOT * i / 4
            self.parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.0f}" y2="{y:.0f}" '
                              'stroke="#ddd"/>')
            self.parts.append(self.text(LEFT - 6, y + 4, f"{top * i / 4:,.4g}", anchor="end"))
        for i in range(5):
            at = (end - begin) * i / 4
            self.parts.append(self.text(self.x(begin + at), self.base + 18, f"{at:.0f} s",
                                        anchor="middle"))

    @staticmethod
    def text(x, y, words, anchor="start", weight="normal", color="#333"):
        return (f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-weight="{weight}" '
                f'fill="{color}">{words}</text>')

    def x(self, at):
        return LEFT + (WIDTH - LEFT - RIGHT) * (at - self.begin) / (self.end - self.begin)

    def y(self, value):
        return self.base - PLOT * min(value / self.top, 1)

    def points(self, values):
        return " ".join(f"{self.x(at):.1f},{self.y(value):.1f}" for at, value in values)

    def line(self, number, name, values):
        color = COLORS[number % len(COLORS)]
        self.parts.append(f'<polyline points="{self.points(values)}" fill="none" stroke="{color}" '
                          'stroke-width="1.5"/>')
        self.legend(number, name)

    def area(self, number, name, low, high):
        color = COLORS[number % len(COLORS)]
        outline = self.points(high) + " " + self.points(low[::-1])
        self.parts.append(f'<polygon points="{outline}" fill="{color}" fill-opacity="0.75"/>')
        self.legend(number, name)

    def legend(self, number, name):
        self.parts.append(self.text(WIDTH - RIGHT + 8, self.base - PLOT + 14 + 16 * number, name,
                                    color=COLORS[number % len(COLORS)]))


def draw(path, plots):
    height = len(plots) * (TOP + PLOT + BOTTOM)
    body = "\n".join(part for plot in plots for part in plot.parts)
    path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
                    'font-family="sans-serif" font-size="12">\n'
                    f'<rect width="100%" height="100%" fill="#fff"/>\n{body}\n</svg>\n')


def lines(row, title, begin, end, series):
    """A plot of `series`: [(name, values)]."""
    most = max((value for _, values in series for _, value in values), default=1)
    plot = Plot(row, title, begin, end, nice_top(most))
    for number, (name, values) in enumerate(series):
        plot.line(number, name, values)
    return plot


def shares(row, title, begin, end, series):
    """Areas on top of each other, of 1."""
    plot = Plot(row, title, begin, end, 1.0)
    times = sorted({at for _, values in series for at, _ in values})
    low = [(at, 0.0) for at in times]
    for number, (name, values) in enumerate(series):
        here = dict(values)
        high = [(at, below + here.get(at, 0.0)) for at, below in low]
        plot.area(number, name, low, high)
        low = high
    return plot


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    prometheus, job, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    begin, end = span(prometheus, job)
    folder.mkdir(parents=True, exist_ok=True)
    of_job = f'train_job="{job}"'

    def series(label, query):
        return [(f"{label} {labels[label]}" if label == "rank" else labels[label], values)
                for labels, values in ask(prometheus, query, begin, end)]

    loss = series("split", f"troupe_job_loss{{{of_job}}}")
    rate = series("rank", f"sum by (rank) (rate(troupe_worker_samples_total{{{of_job}}}{RATE}))")
    draw(folder / "job.svg", [lines(0, "Training loss", begin, end, loss),
                              lines(1, "Samples a second, by rank", begin, end, rate)])
    phases = f"sum by (phase) (rate(troupe_worker_phase_seconds_total{{{of_job}}}{RATE}))"
    share = f"{phases} / ignoring (phase) group_left () sum({phases})"
    draw(folder / "phases.svg", [shares(0, "Where the ranks' time goes, share of their time", begin,
                                        end, series("phase", share))])


if __name__ == "__main__":
    main()
