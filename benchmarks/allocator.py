"""What freed memory costs in training: glibc as it is and with settings, and preloaded jemalloc and tcmalloc, each in
processes of its own, in turn.

`python -m benchmarks.allocator [RECIPE...]`. Times are those of the processor, user and system, of a recipe's updates
in one thread, so that others on the machine hardly count. Needs `apt-get install libjemalloc2 libtcmalloc-minimal4`.
"""

import resource
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from statistics import median
from subprocess import PIPE, run
from typing import Any

from benchmarks import report

ROUNDS = 3
LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
GIB = str(1 << 30)
WAYS: dict[str, dict[str, str]] = {
    "glibc": {},
    "glibc, memory kept": {"MALLOC_TRIM_THRESHOLD_": GIB, "MALLOC_MMAP_THRESHOLD_": GIB},
    "glibc, memory kept by mallopt": {},
    "jemalloc": {"LD_PRELOAD": str(LIBRARIES / "libjemalloc.so.2")},
    "jemalloc, memory kept": {
        "LD_PRELOAD": str(LIBRARIES / "libjemalloc.so.2"),
        "MALLOC_CONF": "dirty_decay_ms:-1,muzzy_decay_ms:-1",
    },
    "tcmalloc": {"LD_PRELOAD": str(LIBRARIES / "libtcmalloc_minimal.so.4")},
}
"""By what the table calls it, the environment of its processes."""
RECIPES: dict[str, dict[str, str]] = {
    "dates": {"training.steps": "80"},
    "characters-gpt2": {"training.steps": "16"},
    "scenes": {"training.steps": "24", "data.train": "2000", "data.valid": "8", "data.test": "8"},
}
"""How each is made short."""
ALL = {"training.threads": "1", "training.precision": "fp32", "training.warmup": "5", "training.tensorboard": "false"}


def text(path: Path) -> None:
    """Words drawn by how frequent they are."""
    random = Random(1)
    words = ["".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=random.randint(1, 9))) for _ in range(2000)]
    shares = [1 / (rank + 1) for rank in range(len(words))]
    rows = [" ".join(random.choices(words, shares, k=12)) for _ in range(12000)]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def updates(recipe: str, way: str, folder: str) -> tuple[float, float]:
    """Milliseconds of processor time of an update, and the largest resident set in MB, of this process."""
    from regard.runs import recipes, run_file, train

    settings = {**ALL, **RECIPES[recipe]}
    if recipe == "characters-gpt2":
        settings["data.train"] = str(Path(folder) / "text.txt")
    config = run_file.read(recipes.path_of(recipe), [f"{key}={value}" for key, value in settings.items()])
    if "mallopt" not in way:
        train.keep_freed_memory = lambda: False
    seconds = []
    genuine = train.fit

    def timed(*given: Any, **named: Any) -> dict[str, float]:
        began = time.process_time()
        found = genuine(*given, **named)
        seconds.append(time.process_time() - began)
        return found

    train.fit = timed
    train.train(config, Path(folder) / "run")
    return 1e3 * seconds[0] / config.training.steps, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def measured(recipe: str, way: str) -> tuple[float, float]:
    """The same of a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        if recipe == "characters-gpt2":
            text(Path(folder) / "text.txt")
        program = f"from benchmarks.allocator import updates; print(*updates({recipe!r}, {way!r}, {folder!r}))"
        command = [sys.executable, "-c", program]
        done = run(command, cwd=report.ROOT, env=report.environment(**WAYS[way]), check=True, stdout=PIPE, text=True)
    milliseconds, megabytes = map(float, done.stdout.splitlines()[-1].split())
    return milliseconds, megabytes


def main(names: list[str]) -> None:
    """Measures the named recipes; only a run of all of them is written down."""
    for way, environment in WAYS.items():
        library = environment.get("LD_PRELOAD")
        if library is not None and not Path(library).is_file():
            sys.exit(f"{way} is not installed: {library} is missing")
    report.head("recipe", "memory", "ms of an update, median", "fastest", "largest, MB")
    rows = []
    for recipe in names or RECIPES:
        found: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
        for _ in range(ROUNDS):
            for way, samples in found.items():
                samples.append(measured(recipe, way))
        for way, samples in found.items():
            times, sizes = zip(*samples, strict=True)
            report.row(recipe, way, f"{median(times):.1f}", f"{min(times):.1f}", f"{max(sizes):.0f}")
            rows.append({"recipe": recipe, "memory": way, "milliseconds": times, "megabytes": max(sizes)})
    if not names:
        report.write("allocator", rows)


if __name__ == "__main__":
    main(sys.argv[1:])
