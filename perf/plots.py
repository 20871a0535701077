"""The plots of the report, each from one section's data onto an empty figure."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure


def sweeps(figure: Figure, data: dict[str, list[dict[str, Any]]]) -> None:
    """Latency against throughput, a panel each for gRPC and HTTP."""
    for axes, (name, rows) in zip(figure.subplots(1, 2, sharey=True), data.items(), strict=True):
        for load in ("concurrency", "rate"):
            some = [row for row in rows if row["load"] == load]
            for percentile, style in (("p50_ms", "o-"), ("p95_ms", "^--")):
                label = f"by {load}, {percentile.removesuffix('_ms')}"
                x = [row["value" if load == "rate" else "per_s"] for row in some]
                axes.plot(x, [row[percentile] for row in some], style, label=label)
        axes.set(title=name, xlabel="a second, answered or, by rate, asked", ylabel="latency, ms", yscale="log")
        axes.legend(fontsize="small")


def cost(figure: Figure, data: dict[str, list[dict[str, float]]]) -> None:
    """Compute and HTTP time against tokens, a panel a curve."""
    for axes, (name, rows) in zip(figure.subplots(1, len(data)), data.items(), strict=True):
        values = [row["value"] for row in rows]
        axes.plot(values, [row["ms"] for row in rows], "o-", label="HTTP")
        axes.plot(values, [row["compute"] for row in rows], "^--", label="compute")
        axes.set(xlabel=name, ylabel="ms", ylim=(0, None))
        axes.legend(fontsize="small")


def mixed_lengths(figure: Figure, data: dict[str, Any]) -> None:
    """p50 and p95 of both kinds, with and without the planner, by the way they come."""
    bars = [(kind, percent) for kind in ("short", "long") for percent in ("p50", "p95")]
    for axes, way in zip(figure.subplots(1, 2), ("over time", "at once"), strict=True):
        for place, name in enumerate(("planner", "first come")):
            run = data[name]
            heights = [run[way][f"{kind}_ms"][percent] / run["long_alone_ms"] for kind, percent in bars]
            axes.bar([k + 0.4 * place for k in range(len(bars))], heights, 0.4, label=name)
        axes.set_xticks([k + 0.2 for k in range(len(bars))], [f"{kind}\n{percent}" for kind, percent in bars])
        axes.set(title=way, ylabel="latency, in forwards of one long request")
        axes.legend(fontsize="small")


def state_cache(figure: Figure, data: dict[str, Any]) -> None:
    """Times of a question set, and bytes that are kept, by the state's length."""
    times, kept = figure.subplots(1, 2)
    tokens = [row["tokens"] for row in data["by_length"]]
    for way, label in (("whole", "not kept"), ("new", "computed to be kept"), ("seen", "seen")):
        times.plot(tokens, [row["ms"][way] for row in data["by_length"]], "o-", label=label)
    times.set(xlabel="tokens of the state", ylabel="CPU ms", ylim=(0, None))
    times.legend(fontsize="small")
    kept.plot(tokens, [row["bytes"] / 1e6 for row in data["by_length"]], "o-")
    kept.set(xlabel="tokens of the state", ylabel="kept, MB", ylim=(0, None))


def memory(figure: Figure, data: dict[str, Any]) -> None:
    """Resident memory by process over the requests."""
    axes = figure.subplots()
    readings = data["readings"]
    step = data["requests"] / (len(readings) - 1)
    for name in readings[0]:
        axes.plot([k * step for k in range(len(readings))], [reading[name] for reading in readings], label=name)
    axes.set(xlabel="requests", ylabel="resident, MiB", ylim=(0, None))
    axes.legend(fontsize="small", ncols=2)


def encoder(figure: Figure, data: dict[str, Any]) -> None:
    """CPU time against the state's length."""
    axes = figure.subplots()
    characters = [row["characters"] for row in data["curve"]]
    for way in ("publisher", "cold", "warm", "state"):
        axes.plot(characters, [row[way] for row in data["curve"]], "o-", label=way)
    axes.set(xlabel="characters of the state", ylabel="CPU ms", yscale="log")
    axes.legend()


def overhead(figure: Figure, data: dict[str, Any]) -> None:
    """What the time less compute is made of."""
    axes = figure.subplots()
    parts = data["parts_ms"]
    axes.barh(list(parts), list(parts.values()))
    axes.set(xlabel="ms")


def throughput(figure: Figure, data: list[dict[str, Any]]) -> None:
    """The bare model by batch size, with the stack's and the publisher's rates across."""
    for axes, row in zip(figure.subplots(1, len(data), squeeze=False)[0], data, strict=True):
        sizes = [int(size) for size in row["bare"]]
        axes.plot(sizes, [sum(rates) / len(rates) for rates in row["bare"].values()], "o-", label="bare model")
        stack = [(found["connections"], found["per_s"]) for found in row["stack"]]
        axes.plot(*zip(*stack, strict=True), "s", label="stack, by its clients")
        axes.axhline(row["publisher"]["per_s"], linestyle="--", color="gray", label="publisher")
        axes.set(title=f"{row['threads']} model threads", xlabel="batch, clients", ylabel="a second", ylim=(0, None))
        axes.legend(fontsize="small")
