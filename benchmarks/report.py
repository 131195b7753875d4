"""What the benchmarks share: how a result was come by, tables, and where results go."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from regard.training.settings import supports_bf16_products

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PACKAGES = ("regard", "torch", "accelerate", "numpy", "safetensors", "tokenizers")


def conditions() -> dict[str, str | int | bool]:
    """Versions, and what of the machine decides about speed and rounding."""
    return {name: version(name) for name in PACKAGES} | {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "bf16_products": supports_bf16_products("cpu"),
        "cores": os.cpu_count() or 0,
        "threads_by_default": torch.get_num_threads(),
    }


def processor() -> str:
    """Return the name of the processor, which Linux knows."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.is_file() else []
    names = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def environment(**more: str) -> dict[str, str]:
    """For a command of this checkout in a process of its own, installed or not."""
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **more}


def trained(recipe: str, name: str, settings: Sequence[str]) -> Path:
    """Return the finished run `runs/NAME` of a recipe.

    If it is not there, the command line trains it in a fresh process, with OMP_NUM_THREADS threads where that is set.
    """
    run = ROOT / "runs" / name
    if not (run / "result.json").is_file():
        threads = os.environ.get("OMP_NUM_THREADS")
        settings = [*settings, f"training.threads={threads}"] if threads else settings
        options = [part for setting in settings for part in ("--set", setting)]
        command = [sys.executable, "-m", "regard", "train", recipe, "--out", str(run), *options]
        subprocess.run(command, env=environment(), check=True)
    return run


def set_all(settings: Mapping[str, object]) -> list[str]:
    """Return settings as arguments of the command line."""
    return [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]


def apart(benchmark: str, function: str, *arguments: str) -> list[float]:
    """Return the numbers that a function of a benchmark gives in a process of its own.

    Raises:
        CalledProcessError: If the process fails.
    """
    call = f"{function}({', '.join(map(repr, arguments))})"
    program = f"from benchmarks.{benchmark} import {function}; print(*{call})"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment(), check=True, stdout=subprocess.PIPE
    )
    return [float(each) for each in done.stdout.split()]


def head(*names: str) -> None:
    """Return the first lines of a markdown table."""
    row(*names)
    row(*("---" for _ in names))


def row(*cells: object) -> None:
    """One more line of it, at once."""
    print("|", " | ".join(map(str, cells)), "|", flush=True)


def write(name: str, rows: Sequence[dict[str, Any]], **more: Any) -> None:
    """Write `results/NAME.json`: the conditions, `more`, and the rows."""
    RESULTS.mkdir(exist_ok=True)
    content = {"conditions": conditions(), **more, "rows": rows}
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"\nwritten: {path.relative_to(ROOT)}")
