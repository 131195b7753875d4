"""What the witness says: `python -m tests.witness.record [RECIPE...]` writes it anew, of all recipes or of some.

Everything goes through the command line, which stays when modules and classes are moved and renamed.
"""

import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import torch

from regard import load
from regard.cli.main import main
from tests.witness.cases import CASES, options

WITNESS = Path(__file__).parents[1] / "witness.json"
RUNS = Path(__file__).parents[1] / "data" / "runs"
"""Runs from before modules and classes were moved and renamed, which were made with one thread in fp32 on a CPU by

    regard train dates --set training.warmup=5 --set training.steps=500 --set data.train=4000 --set data.valid=20
        --set data.test=20 --set model.embedding=12 --set model.width=24 --set model.attention=16 --set model.maxout=12
    regard train sorting --set training.warmup=5 --set training.steps=300 --set data.train=4000 --set data.valid=20
        --set data.test=20 --set model.width=20 --set model.attention=20 --set data.least=3 --set data.most=6
"""
ASKED = {
    "dates": ("14 July 1989", "thu, march 3rd 2016", "Sunday the 1st of December, 2041", "Saturday 09 May 2018"),
    "sorting": ("0.3 0.9 0.1 0.5", "0.71 0.12 0.44", "0.5 0.4 0.3 0.2 0.1 0.9"),
}
"""What each run is asked."""
MORE = 20
"""Updates that a run which goes on makes."""
NOT_TOLD = {"seconds", "tokens_per_second", "images_per_second"}
"""Figures that are of the machine."""


def machine() -> dict[str, str | bool]:
    """What sums of floating-point numbers depend on."""
    return {
        "torch": torch.__version__,
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "processor": _processor(),
        "compiler": shutil.which(os.environ.get("CXX", "c++")) is not None,
    }


def _processor() -> str:
    file = Path("/proc/cpuinfo")
    if not file.is_file():
        return platform.processor()
    known = dict(line.split(":", 1) for line in file.read_text(encoding="utf-8").split("\n\n")[0].splitlines())
    told = {name.strip(): value.strip() for name, value in known.items()}
    return " ".join(told.get(name, "") for name in ("vendor_id", "cpu family", "model"))


def command(*arguments: str) -> tuple[str, str]:
    """Standard output and standard error of one command, which must succeed."""
    output, errors = StringIO(), StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        code = main(arguments)
    assert code == 0, errors.getvalue()
    return output.getvalue(), errors.getvalue()


def losses(run: Path, after: int = 0) -> list[float]:
    """Those of the updates of a run, all digits."""
    rows = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [row["loss"] for row in rows if row["kind"] == "training" and row["update"] > after]


def figures(run: Path) -> dict[str, float]:
    """What a run ended with."""
    found = json.loads((run / "result.json").read_text(encoding="utf-8"))
    return {name: value for name, value in found.items() if name not in NOT_TOLD}


def trained(recipe: str, folder: Path) -> dict[str, Any]:
    """What the first updates of a recipe tell."""
    run = folder / "run"
    command("train", recipe, "--out", str(run), *CASES[recipe].options(folder))
    return {"losses": losses(run), "figures": figures(run)}


def answers(run: Path, texts: Sequence[str]) -> list[dict[str, Any]]:
    """What a run says, and how sure it is."""
    output, _ = command("predict", str(run), *texts, "--json")
    told = map(json.loads, output.splitlines())
    return [{name: value for name, value in each.items() if name in ("text", "places", "score")} for each in told]


def resumed(run: Path) -> dict[str, Any]:
    """What a run tells that goes on in its folder, by its own settings but for the number of updates."""
    steps = figures(run)["steps"]
    changed = {"training.steps": str(int(steps) + MORE), "training.log_every": "1"}
    _, errors = command("train", "--out", str(run), "--resume", "--allow-change", *options(changed))
    changes = [line for line in errors.splitlines() if "resuming with a change" in line]
    return {"losses": losses(run, int(steps)), "figures": figures(run), "changes": changes}


def old_run(name: str, folder: Path) -> dict[str, Any]:
    """What one of the old runs tells, in a copy of its own."""
    run = Path(shutil.copytree(RUNS / name, folder / name))
    evaluated = load(run).evaluate()
    told = answers(run, ASKED[name])
    command("train", "--out", str(run), "--resume")  # nothing has changed, so nothing has to be allowed
    return {"answers": told, "evaluated": evaluated, "again": figures(run), "resumed": resumed(run)}


def recorded() -> dict[str, Any]:
    """The witness as it is kept."""
    return json.loads(WITNESS.read_text(encoding="utf-8"))


def _record(names: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in names or CASES:
        with tempfile.TemporaryDirectory() as folder:
            yield name, trained(name, Path(folder))


def _main() -> None:
    torch.set_num_threads(1)
    names = sys.argv[1:]
    witness = recorded() if names else {"machine": machine(), "recipes": {}, "runs": {}}
    if witness["machine"] != machine():
        sys.exit("the witness is of another machine; write all of it anew, at a commit that is known to be right")
    if missing := set(names) - set(CASES):
        sys.exit(
            f"tests/witness/cases.py has no row for {', '.join(sorted(missing))}; add one, small enough for a test"
        )
    witness["recipes"] |= dict(_record(names))
    for name in () if names else ASKED:
        with tempfile.TemporaryDirectory() as folder:
            witness["runs"][name] = old_run(name, Path(folder))
    WITNESS.write_text(json.dumps(witness, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _main()
