"""A run's test set written on every path of decoding: plain PyTorch, the kernel of this processor, int8 and bfloat16;
BLEU, chrF, how many texts are those of the plain path, and sentences a second.

`python -m benchmarks.paths RUN [SENTENCES]`: RUN is a finished run that translates. One thread, processor's time.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from benchmarks import report
from regard.data.sources import tests_of
from regard.models.fused import fuse
from regard.runs import run_file
from regard.runs.load import CONFIG, load, load_weights
from regard.storage.run_folder import WEIGHTS, RunDirectory
from regard.tasks.catalog import TASKS
from regard.tasks.options import PredictOptions
from regard.tasks.seq2seq.run import Seq2SeqRun

BATCH = 64
"""Sentences that are written together."""


def plain(path: Path, dtype: torch.dtype = torch.float32) -> Seq2SeqRun:
    """The run with the layers that it was trained with."""
    folder = RunDirectory.open(path)
    config = run_file.read(folder.file(CONFIG))
    run = TASKS[config.task].open(folder, config)
    assert isinstance(run, Seq2SeqRun)
    load_weights(run, folder.load_tensors(WEIGHTS), path, allow_missing=False)
    run.model.to(dtype).eval()
    return run


def half(path: Path) -> Seq2SeqRun:
    """The run in bfloat16, with fused layers."""
    run = plain(path, torch.bfloat16)
    fuse(run.model)
    return run


PATHS: dict[str, Callable[[Path], Seq2SeqRun]] = {
    "plain": plain,
    "kernel": lambda path: load(path, "cpu", task=Seq2SeqRun),
    "int8": lambda path: load(path, "cpu", int8=True, task=Seq2SeqRun),
    "bf16": half,
}


def measured(run: Seq2SeqRun, sources: list[str], beam: int) -> tuple[list[str], float]:
    """The text of each source, and sentences a second of processor's time."""
    began, texts = time.process_time(), []
    for first in range(0, len(sources), BATCH):
        found = run.predict(sources[first : first + BATCH], PredictOptions(beam=beam, attention=False))
        texts += [each.text for each in found]
    return texts, len(sources) / (time.process_time() - began)


def main(path: Path, most: int) -> None:
    """Write the test set on each path by greedy search and a beam of 5, and print the table."""
    torch.set_num_threads(1)
    pairs = list(tests_of(run_file.read(path / CONFIG).data))[:most]
    sources, references = [pair.source for pair in pairs], [[pair.target for pair in pairs]]
    report.head("path", "beam", "BLEU", "chrF", "texts of the plain path", "sentences/s")
    rows: list[dict[str, Any]] = []
    for beam in (1, 5):
        expected: list[str] = []
        for name, opened in PATHS.items():
            texts, speed = measured(opened(path), sources, beam)
            expected = expected or texts
            same = sum(one == other for one, other in zip(texts, expected, strict=True))
            scores = [metric.corpus_score(texts, references).score for metric in (BLEU(), CHRF())]
            report.row(name, beam, *(f"{each:.2f}" for each in scores), f"{same} of {len(texts)}", f"{speed:.1f}")
            rows.append(
                {"path": name, "beam": beam, "bleu": scores[0], "chrf": scores[1], "same": same, "speed": speed}
            )
    report.write("paths", rows, sentences=len(pairs))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
