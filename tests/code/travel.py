"""How far a reader has to travel: the files and functions of regard that one call enters, and how deep it goes.

`python -m tests.code.travel` prints the table.
"""

import contextlib
import io
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from tests.code.tree import ROOT

SOURCE = str(ROOT / "src" / "regard")
DATES = ROOT / "tests" / "data" / "runs" / "dates"
TINY = ("data.train=60", "data.valid=5", "data.test=5", "training.steps=3", "training.warmup=0", "training.threads=1")


@dataclass(frozen=True)
class Travel:
    """What a call enters. depth: regard's frames on the stack at most."""

    files: frozenset[str]
    functions: int
    depth: int


def travel(call: Callable[[], Any]) -> Travel:
    """Follow a call in this thread. Code that runs while a module is imported does not count."""
    entered: set[CodeType] = set()
    importing = depth = most = 0

    def follow(frame: FrameType, event: str, _: Any) -> None:
        nonlocal importing, depth, most
        if event not in ("call", "return"):
            return
        step = 1 if event == "call" else -1
        if frame.f_code.co_name == "<module>":
            importing += step
        elif not importing and frame.f_code.co_filename.startswith(SOURCE):
            depth += step
            most = max(most, depth)
            entered.add(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(follow)
    try:
        call()
    finally:
        sys.setprofile(before)
    files = frozenset(code.co_filename.removeprefix(SOURCE + "/") for code in entered)
    return Travel(files, len(entered), most)


def command(*arguments: str) -> Callable[[], Any]:
    """A command of the command line, in this process and quiet."""

    def call() -> None:
        from regard.cli.main import main

        quiet = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
        with quiet[0], quiet[1], contextlib.suppress(SystemExit):
            main([*arguments])

    return call


def predict() -> Travel:
    """One text on the command line."""
    return travel(command("predict", str(DATES), "14 July 1989"))


def train() -> Travel:
    """One recipe, three updates, validated and tested."""
    with tempfile.TemporaryDirectory() as folder:
        settings = [part for each in TINY for part in ("--set", each)]
        return travel(command("train", "dates", "--out", f"{folder}/run", *settings))


def show() -> Travel:
    """One picture of an alignment."""
    with tempfile.TemporaryDirectory() as folder:
        return travel(command("show", str(DATES), "14 July 1989", "--out", f"{folder}/picture.png"))


def gpt2() -> Travel:
    """One forward pass of a GPT-2."""
    import torch

    from regard.models.gpt2 import GPT2, GPT2Config

    model = GPT2(13, GPT2Config(context=11, width=8, heads=2, layers=2)).eval()
    tokens = torch.tensor([[3, 5, 7]])
    with torch.no_grad():
        return travel(lambda: model(tokens, model.begin(1)))


def bert() -> Travel:
    """One forward pass of a BERT."""
    import torch

    from regard.models.bert import Bert, BertConfig

    model = Bert(13, BertConfig(context=11, width=8, heads=2, layers=2, hidden=16)).eval()
    with torch.no_grad():
        return travel(lambda: model(torch.tensor([[2, 5, 3]]), torch.tensor([3])))


def attend() -> Travel:
    """One lookup."""
    import torch

    from regard.attention import attend
    from regard.attention.scores import ScaledDot

    states = torch.randn(2, 3, 5)
    return travel(lambda: attend(states, states, states, score=ScaledDot()))


JOURNEYS: dict[str, Callable[[], Travel]] = {
    "attend": attend,
    "a GPT-2 forward pass": gpt2,
    "a BERT forward pass": bert,
    "predict, one text": predict,
    "show, one picture": show,
    "train, one recipe": train,
}


if __name__ == "__main__":
    print(f"{'':24}{'files':>8}{'functions':>12}{'depth':>8}")
    for name, journey in JOURNEYS.items():
        found = journey()
        print(f"{name:24}{len(found.files):>8}{found.functions:>12}{found.depth:>8}")
