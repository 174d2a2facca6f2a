"""Changed copies of the module sch_ccaq, for measurements: each is the source with a few texts replaced.

The copies are written to a folder of the caller's and built like any module of a user's (`--qdisc-module`). A text that
is not in the source exactly once is an error, so that a copy never silently measures the module as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

KERNEL = Path(__file__).resolve().parents[2] / "kernel"
FILES = ("ccaq.h", "ccaq_impl.h", "ccaq_syn.h", "ccaq_uapi.h", "sch_ccaq.c", "Kbuild")

Change = tuple[str, str, str]
"""A file, a text in it, and the text that replaces it."""

ALONE: Change = ("Kbuild", "obj-m := sch_ccaq.o sch_ccaq_paper.o\n", "obj-m := sch_ccaq.o\n")

NO_SYN: Change = (
    "sch_ccaq.c",
    "opens = skb->len <= CCAQ_MAX_SYN && ccaq_opens(skb);",
    "opens = false;",
)
"""No packet is taken for a SYN, as if all were QUIC's."""


def _learned(change: str) -> Change:
    """Returns a change of what a flow learns of its RTT from a handshake or from its first packets."""
    return ("ccaq_impl.h", "\tvars->seen = CCAQ_OPENING;\n", f"\t{change}\n\tvars->seen = CCAQ_OPENING;\n")


TOO_SHORT = _learned("rtt = rtt ? max(rtt / 4, CCAQ_SHORTEST_RTT) : 0;")
TOO_LONG = _learned("rtt = min(4 * rtt, CCAQ_LONGEST_RTT);")
GUESSED = _learned("guessed = true;")

WATCH = (Path(__file__).parent / "falsifiers/watch.c").read_text(encoding="utf-8")
"""A function that prints the state of a flow."""

WATCHING: Sequence[Change] = (
    ("sch_ccaq.c", "/* Packets. */\n", f"{WATCH}\n/* Packets. */\n"),
    (
        "sch_ccaq.c",
        "\tccaq_arrival(&flow->vars, now, !flow->head, opens,\n\t\t     q->idle_time >> CCAQ_SHIFT);\n",
        "\twas = flow->vars;\n"
        "\tccaq_arrival(&flow->vars, now, !flow->head, opens,\n\t\t     q->idle_time >> CCAQ_SHIFT);\n"
        "\tccaq_watch(q, flow, skb, &was);\n",
    ),
    (
        "sch_ccaq.c",
        "\tstruct ccaq_flow *flow;\n\tbool opens;\n",
        "\tstruct ccaq_flow *flow;\n\tstruct ccaq_vars was;\n\tbool opens;\n",
    ),
    (
        "sch_ccaq.c",
        "\tenum ccaq_verdict verdict;\n",
        "\tenum ccaq_verdict verdict;\n\tstruct ccaq_vars was;\n",
    ),
    (
        "sch_ccaq.c",
        "\t\tverdict = ccaq_head(&flow->vars, now, &head, q->share);\n",
        "\t\twas = flow->vars;\n"
        "\t\tverdict = ccaq_head(&flow->vars, now, &head, q->share);\n"
        "\t\tccaq_watch(q, flow, skb, &was);\n",
    ),
    (
        "sch_ccaq.c",
        "\tccaq_empty(&flow->vars);\n",
        "\twas = flow->vars;\n\tccaq_empty(&flow->vars);\n\tccaq_watch(q, flow, NULL, &was);\n",
    ),
)

VARIANTS: Mapping[str, Sequence[Change]] = {
    "no-syn": (NO_SYN,),
    "short": (TOO_SHORT,),
    "short-guessed": (TOO_SHORT, GUESSED),
    "long": (TOO_LONG,),
    "long-guessed": (TOO_LONG, GUESSED),
    "watch": WATCHING,
}
"""The copies by their names."""


class NotOnce(Exception):
    """A text that a change replaces is not in the source exactly once."""


def sources(variant: str, folder: Path = KERNEL) -> dict[str, str]:
    """Returns the files of a copy. Raises NotOnce if the source has changed."""
    files = {name: (folder / name).read_text(encoding="utf-8") for name in FILES}
    for name, old, new in (ALONE, *VARIANTS[variant]):
        count = files[name].count(old)
        if count != 1:
            raise NotOnce(f"{variant}: kernel/{name} has this text {count} times instead of once: {old.strip()!r}")
        files[name] = files[name].replace(old, new)
    return files


def write(variant: str, folder: Path) -> Path:
    """Writes a copy into a folder of its own below this one, and returns that."""
    place = folder / variant
    place.mkdir(parents=True)
    for name, text in sources(variant).items():
        (place / name).write_text(text, encoding="utf-8")
    return place
