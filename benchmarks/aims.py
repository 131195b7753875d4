"""The table of aims: what is promised of speed, beside what this machine gives in a quick pass.

`python -m benchmarks.aims [NAME...]`, or `make bench`; the names are the keys of `AIMS`. Writes
`results/aims-INSTRUCTIONS.json` when all of them run. Every time is that of the processor, in one thread.
"""

import sys
import time
from collections.abc import Callable

import torch

from benchmarks import additive, choices, decoding, ragged, recording, report, startup, training
from benchmarks.aim import Aim, show

AIMS: dict[str, Callable[[], list[Aim]]] = {
    "decoding": decoding.aims,
    "additive": additive.aims,
    "choices": choices.aims,
    "startup": startup.aims,
    "training": training.aims,
    "ragged": ragged.aims,
    "recording": recording.aims,
}
"""The benchmarks that hold an aim, each a quick pass that gives its rows."""


def main(names: list[str]) -> None:
    """Run them one after the other. Raises SystemExit for a name that is none."""
    unknown = sorted(set(names) - set(AIMS))
    if unknown:
        raise SystemExit(f"no benchmark with an aim: {', '.join(unknown)}; expected some of {', '.join(AIMS)}")
    torch.set_num_threads(1)
    found: list[Aim] = []
    for name in names or AIMS:
        print(f"running {name} ...", file=sys.stderr, flush=True)
        began = time.perf_counter()
        found += AIMS[name]()
        print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    show(found)
    if not names:
        report.write(f"aims-{torch.backends.cpu.get_cpu_capability().lower()}", [aim.to_json() for aim in found])


if __name__ == "__main__":
    main(sys.argv[1:])
