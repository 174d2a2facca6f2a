"""The picture of `sojourn size`: what the buffer does to throughput, delay and transfers, against its size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sojourn import plot, sizing
from sojourn.plot import COLOURS, INK, QUIET, Data, Picture
from sojourn.words import size_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sojourn.means import Mean
    from sojourn.sizing import Found

NAME = "size"
PANEL_IN = 2.15
"""Height of a panel in inches."""
REGION = "#dcece7"
"""The sizes that meet all conditions."""


@dataclass(frozen=True)
class _Panel:
    """A panel: its title with the unit, and its lines by name."""

    title: str
    lines: dict[str, str]
    """The address of each line's measure."""
    scale: float = 1.0
    log: bool = False


def picture(found: Found, provenance: str) -> Picture:
    """Draws the sizes. `provenance` names the scenario, and where its numbers come from."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    panels = _panels(found)
    rows = -(-len(panels) // 2)
    with mpl.rc_context(plot.STYLE):
        figure = Figure(figsize=(plot.WIDTH, 1.5 + PANEL_IN * rows), layout="constrained")
        axes = figure.subplots(rows, 2, squeeze=False, sharex=True)
        for place, (panel, axis) in enumerate(zip(panels, axes.flat, strict=False)):
            _draw(axis, found, panel, named=place < 2)
        for axis in axes.flat[len(panels) :]:
            axis.set_visible(False)
        # The panels of the last row, and one above an empty place, name the sizes.
        for axis in axes.flat[max(0, len(panels) - 2) : len(panels)]:
            axis.tick_params(labelbottom=True)
        heading = f"How large should the buffer of {found.link.hop} be?"
        plot.frame(figure, heading, sizing.headline(found), provenance)
    return Picture(NAME, "Sizes of the buffer", sizing.headline(found), figure, Data(*sizing.table(found)))


def _panels(found: Found) -> list[_Panel]:
    queue = f"hops.{found.link.hop}"
    flows = [address for address in found.sizes[0].measures if address.startswith("flows.")]
    times = {
        f"{address.split('.')[1]}, {path}": address
        for path in ("p50", "p95")
        for address in flows
        if address.endswith(f".fct_s.{path}") and not sizing.repeats(found, address)
    }
    panels = [
        _Panel("goodput, Mbit/s", {"all flows": sizing.GOODPUT}),
        _Panel(
            "queue, ms", {"sojourn p95": f"{queue}.sojourn_ms.p95", "standing p50": f"{queue}.standing_queue_ms.p50"}
        ),
        _Panel("longest time without an empty queue, s", {"longest": f"{queue}.nonempty_max_s"}, log=True),
        _Panel("time, %", {"empty": f"{queue}.empty_fraction", "full": f"{queue}.full_fraction"}, 100.0),
        _Panel("completion of transfers, s", times, log=True),
        _Panel("drops, packets", {"drops": f"{queue}.drops"}, log=True),
    ]
    return [panel for panel in panels if any(_points(found, address) for address in panel.lines.values())]


def _points(found: Found, address: str) -> list[tuple[int, Mean]]:
    return [(one.bytes, mean) for one in found.sizes if (mean := one.measures.get(address)) is not None]


def _draw(axis: Axes, found: Found, panel: _Panel, *, named: bool) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    paints = (COLOURS["bfifo"], COLOURS["codel"], COLOURS["fq_codel"], COLOURS["pie"])
    styles = ("-", "--", ":", "-.")
    axis.set_xscale("log")
    least = 0.0
    for place, (name, address) in enumerate(panel.lines.items()):
        points = _points(found, address)
        if not points:
            continue
        x = [bytes_ for bytes_, _ in points]
        y = [panel.scale * mean.value for _, mean in points]
        half = [panel.scale * (mean.half_width or 0.0) for _, mean in points]
        paint, style = paints[1 + place % 3] if len(panel.lines) > 1 else paints[1], styles[place // 3 % 4]
        low = [max(value - margin, 0.0) for value, margin in zip(y, half, strict=True)]
        high = [value + margin for value, margin in zip(y, half, strict=True)]
        axis.fill_between(x, low, high, color=paint, alpha=0.2, linewidth=0)
        axis.plot(x, y, style, color=paint, label=name, linewidth=1.6)
        least = min((value for value in y if value > 0), default=1.0)
    if panel.log and least > 0:
        axis.set_yscale("log")
        plot.plain_log(axis.yaxis, 6)
    else:
        axis.set_ylim(bottom=0)
    axis.set_title(panel.title, loc="left", fontsize=plot.NAME, color=INK)
    if len(panel.lines) > 1:
        axis.legend(fontsize=plot.Y_LABEL, frameon=False, loc="best")
    ticks = _ticks([one.bytes for one in found.sizes])
    axis.xaxis.set_major_locator(FixedLocator(ticks))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _place: size_text(value, 2)))
    _rules(axis, found, named=named)
    if region := (found.region if found.wants else []):
        axis.axvspan(region[0].bytes, region[-1].bytes, color=REGION, zorder=0, linewidth=0)


def _rules(axis: Axes, found: Found, *, named: bool) -> None:
    """Marks the sizes that the rules give. If two are near each other, their names are on different sides of the
    lines.
    """
    shown = sorted(found.link.rules, key=lambda rule: rule.bytes)
    shown = [rule for rule in shown if found.sizes[0].bytes <= rule.bytes <= found.sizes[-1].bytes]
    for place, rule in enumerate(shown):
        axis.axvline(rule.bytes, color=QUIET, linewidth=0.8, linestyle=(0, (2, 2)))
        if not named:
            continue
        right = place > 0 and rule.bytes < 1.3 * shown[place - 1].bytes
        how: Any = {
            "xycoords": ("data", "axes fraction"),
            "textcoords": "offset points",
            "fontsize": 6.5,
            "color": QUIET,
        }
        side: Any = {"xytext": (3 if right else -3, 3), "ha": "left" if right else "right"}
        axis.annotate(rule.name, (rule.bytes, 0.0), rotation=90, va="bottom", **how, **side)


def _ticks(sizes: Sequence[int]) -> list[float]:
    """Returns sizes for the axis, each about twice the one before."""
    found: list[float] = []
    for size in sizes:
        if not found or size >= 1.9 * found[-1]:
            found.append(float(size))
    return found
