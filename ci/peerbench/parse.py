"""Figures out of what the tools print. None: no result, measure again. Times in µs, rates in Mb/s."""

import json
import math
import re
from typing import Any, Optional

Figures = dict[str, float]


def usable(figures: Figures) -> Optional[Figures]:
    """Figures that can be: perftest prints 0.00 or inf when its clock calibration failed."""
    good = all(math.isfinite(value) and value > 0 for value in figures.values())
    return figures if figures and good else None


def perftest_rows(text: str) -> list[list[str]]:
    """The lines of figures below the heading that begins with #bytes."""
    lines = text.splitlines()
    head = next((i for i, line in enumerate(lines) if line.strip().startswith("#bytes")), None)
    if head is None:
        return []
    rows = [line.split() for line in lines[head + 1:]]
    return [row for row in rows if row and re.fullmatch(r"\d+", row[0])]


def perftest_latency(text: str) -> Optional[Figures]:
    """bytes, iterations, min, max, typical, average, deviation, 99 %, 99.9 %: with -n only."""
    for row in perftest_rows(text):
        if len(row) >= 9:
            return usable({"p50": number(row[4]), "mean": number(row[5]), "p99": number(row[7])})
    return None


def perftest_bandwidth(text: str) -> Optional[Figures]:
    """bytes, iterations, peak, average Gb/s (--report_gbits), Mpps."""
    for row in perftest_rows(text):
        if len(row) >= 5:
            return usable({"goodput": number(row[3]) * 1000, "rate": number(row[4]) * 1000})
    return None


def all_reduce(text: str) -> Optional[Figures]:
    """Our driver's line: `mean of the slowest rank: 412.7 us`. Wrong sums print no such line."""
    found = re.search(r"^mean of the slowest rank: ([\d.]+) us$", text, re.MULTILINE)
    return usable({"time": float(found.group(1))}) if found else None


def all_reduce_in_place(text: str) -> Optional[Figures]:
    """Likewise of the driver that has its result on top of its input."""
    found = all_reduce(text)
    return {"time_in_place": found["time"]} if found else None


def number(text: str) -> float:
    """A figure, or what is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


QPERF_UNITS = {
    "ns": 1e-3, "us": 1.0, "ms": 1e3, "sec": 1e6,
    "bytes/sec": 8e-6, "KB/sec": 8e-3, "MB/sec": 8.0, "GB/sec": 8e3,
}


def qperf(text: str) -> Optional[Figures]:
    """`latency = 28.4 us`, `bw = 3.2 GB/sec`; decimal units. Of the bandwidths the receiver's goes."""
    found: Figures = {}
    for name, value, unit in re.findall(r"^\s*(\w+)\s*=\s*([\d.]+)\s*(\S+)", text, re.MULTILINE):
        if unit not in QPERF_UNITS:
            continue
        key = {"latency": "mean", "bw": "goodput", "recv_bw": "goodput"}.get(name)
        if key:
            found[key] = float(value) * QPERF_UNITS[unit]
    return usable(found)


def iperf3(text: str) -> Optional[Figures]:
    """The receiver's rate of `iperf3 -J`."""
    try:
        end = json.loads(text)["end"]
        return usable({"goodput": end["sum_received"]["bits_per_second"] / 1e6})
    except (ValueError, KeyError, TypeError):
        return None


def sockperf(text: str) -> Optional[Figures]:
    """Half round trips of `sockperf ping-pong`."""
    found: Figures = {}
    mean = re.search(r"Summary: Latency is ([\d.]+) usec", text)
    if mean:
        found["mean"] = float(mean.group(1))
    for share, value in re.findall(r"percentile (50|99)\.0+ =\s*([\d.]+)", text):
        found[f"p{share}"] = float(value)
    return usable(found)


def fabbench(text: str) -> Optional[Figures]:
    """The one measurement of a report; latencies as half round trips for what goes both ways."""
    try:
        report: dict[str, Any] = json.loads(text)
        measured = report["measurements"][0]
    except (ValueError, KeyError, IndexError, TypeError):
        return None
    found: Figures = {}
    collective = measured.get("collective")
    if collective and measured.get("elements_wrong") == 0:
        # Out of place is the first of the two.
        found["time"] = collective["time_ns"]["max"] / 1e3
        beside = [other for other in report["measurements"] if other.get("collective", {}).get("in_place")]
        if beside and beside[0].get("elements_wrong") == 0:
            found["time_in_place"] = beside[0]["collective"]["time_ns"]["max"] / 1e3
    latency = measured.get("latency_ns")
    if latency:
        halves = 2.0 if measured.get("op") == "request_response" and not measured.get("is_half_rtt") else 1.0
        found.update({key: latency[key] / halves / 1e3 for key in ("p50", "p99", "mean") if latency.get(key)})
    for key, field, unit in (("goodput", "goodput_bps", 1e6), ("rate", "messages_per_s", 1e3)):
        if measured.get(field):
            found[key] = measured[field]["median"] / unit
    return usable(found)
