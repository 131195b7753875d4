"""The recipe `elmo` on WikiText-2: perplexity both ways; and its states as the embedding of another model, on SICK.

`python -m benchmarks.words_in_context FOLDER`; FOLDER holds wikitext-2/{train,valid,test}.txt.gz and
sick/{train,trial,test}.tsv.gz. The other model is that of the recipe `entailment`, which tells whether a sentence
follows from another. Its embedding is the learned mix of ELMo's layers, or ELMo's vector of each word by its
characters, without context, or a table of the same width that is learned from SICK alone; all else is the same.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from torch import Tensor

from benchmarks import report
from benchmarks.entailment import COLUMNS, FILES
from regard import run_file
from regard.data.spelled import spell_vocabulary
from regard.layers.mix import ScalarMix
from regard.models.elmo import Elmo
from regard.models.elmo_embedding import ElmoEmbedding, word_states
from regard.models.rocktaschel import Rocktaschel
from regard.recipes import path_of
from regard.runs import load
from regard.shapes import Int, States
from regard.tasks.bidirectional_language_model.run import ElmoRun
from regard.tasks.classification.job import prepare
from regard.tasks.classification.run import LABELS, ClassificationRun
from regard.tasks.classification.run_file import Classification
from regard.tasks.tokenizer_file import TOKENIZER
from regard.text.special import PAD
from regard.training.allocator import keep_freed_memory
from regard.training.loop import fit
from regard.training.run_directory import RunDirectory

SEEDS = (1, 2, 3)
LAYERS: dict[str, int | None] = {"a mix of ELMo's layers": None, "ELMo's words without context": 1, "a table": 0}
"""Each embedding and how many of ELMo's layers it mixes, the lowest first; None: all of them."""
NAMES = dict(zip(LAYERS, ("mix", "words", "table"), strict=True))
SETTINGS = ("tokenizer={kind: word, size: 20000}",)
STEPS = 1000
RESULT = "result.json"
Held = dict[tuple[int, ...], Tensor]
"""Of the words of a text, by their ids, the states of all layers `(layer, word, width)`."""


class HeldEmbedding(ElmoEmbedding):
    """The same of the lowest layers alone, with the states of each text computed once."""

    def __init__(self, elmo: Elmo, spellings: Tensor, layers: int, dropout: float, held: Held):
        super().__init__(elmo, spellings, dropout)
        self.mix, self.layers, self.held = ScalarMix(layers), layers, held

    def forward(self, tokens: Int[Tensor, "batch position"]) -> States:
        lengths = (tokens != PAD).sum(-1).tolist()
        texts = [tuple(row[:length]) for row, length in zip(tokens.tolist(), lengths, strict=True)]
        new = [row for row, text in enumerate(texts) if text not in self.held]
        if new:
            spelled = self.spellings[tokens[new]]
            states = word_states(self.elmo, spelled, torch.tensor([lengths[row] for row in new]))
            self.held |= {texts[row]: states[:, place, : lengths[row]].clone() for place, row in enumerate(new)}
        whole = torch.zeros(self.layers, *tokens.shape, self.width)
        for row, text in enumerate(texts):
            whole[:, row, : len(text)] = self.held[text][: self.layers]
        return self.dropout(self.mix(whole))


def language_model(folder: str) -> Path:
    """The run of the recipe, trained if it is not there."""
    settings = [f"data.{name}={folder}/wikitext-2/{name}.txt.gz" for name in ("train", "valid", "test")]
    return report.trained("elmo", "elmo", settings)


def read(folder: str, width: int, seed: int) -> Classification:
    """The run file of the recipe, on SICK, with an embedding of this width."""
    settings = [f"data.{name}={folder}/sick/{file}.tsv.gz" for name, file in FILES.items()]
    settings += [f"data.{name}={column}" for name, column in COLUMNS.items()]
    settings += [f"model.embedding={width}", f"training.seed={seed}", f"training.steps={STEPS}", *SETTINGS]
    config = run_file.read(path_of("entailment"), [*settings, "training.threads=1", "training.device=cpu"])
    assert isinstance(config, Classification)
    return config


def train(path: Path, config: Classification, elmo: ElmoRun, layers: int, held: Held) -> None:
    """A run whose embedding mixes so many layers of ELMo, or with none is as the recipe says."""
    with RunDirectory.create(path) as run:
        torch.manual_seed(config.training.seed)
        job = prepare(config, run)
        tokenizer, model = job.tokenizers[TOKENIZER], job.model
        assert isinstance(model, Rocktaschel)
        if layers:
            spellings = spell_vocabulary(tokenizer, elmo.config.model.characters)
            dropout = model.embedding.dropout.rate
            model.embedding = HeldEmbedding(elmo.model, spellings, layers, dropout, held)
        learned = sum(each.numel() for each in model.parameters() if each.requires_grad)
        fitted = fit(model, job.task, config.training, run)
        figures = ClassificationRun(config, model.eval(), tokenizer, job.kept[LABELS]).evaluate(job.tests)
        result = fitted | {f"test/{name}": figure for name, figure in figures.items()} | {"learned": learned}
        if layers:
            mix = model.embedding.mix
            result |= {"mix": mix.weights.softmax(0).tolist(), "gamma": mix.gamma.item()}
        run.write_json(RESULT, result)


def compared(folder: str, run: Path) -> list[dict[str, Any]]:
    """A row a run."""
    keep_freed_memory()
    elmo = load(run, "cpu", task=ElmoRun)
    held: Held = {}
    rows = []
    for seed in SEEDS:
        config = read(folder, elmo.model.width, seed)
        for case, layers in LAYERS.items():
            path = run.with_name(f"sick-elmo-{NAMES[case]}-{seed}")
            if not (path / RESULT).is_file():
                train(path, config, elmo, elmo.model.layers + 1 if layers is None else layers, held)
            result = json.loads((path / RESULT).read_text(encoding="utf-8"))
            rows.append({"embedding": case, "seed": seed} | result)
    return rows


def show(rows: Sequence[dict[str, Any]]) -> None:
    """The table of embeddings."""
    names = "trial accuracy", "test accuracy", "spread of seeds", "macro-F1", "learned parameters", "shares of layers"
    report.head("embedding, on SICK", *names)
    for case in LAYERS:
        found = [row for row in rows if row["embedding"] == case]
        valid, accuracy, f1 = ([row[name] for row in found] for name in ("accuracy", "test/accuracy", "test/macro-f1"))
        shares = zip(*(row["mix"] for row in found), strict=True) if "mix" in found[0] else ()
        cells = [f"{mean(valid):.2f}", f"{mean(accuracy):.2f}", f"{stdev(accuracy):.2f}", f"{mean(f1):.2f}"]
        report.row(case, *cells, f"{found[0]['learned']:,}", " ".join(f"{mean(share):.2f}" for share in shares))


def main(folder: str) -> None:
    """Trains what is missing, then prints both tables."""
    folder = str(Path(folder).resolve())
    run = language_model(folder)
    result = json.loads((run / RESULT).read_text(encoding="utf-8"))
    report.head("on WikiText-2", "perplexity", "forwards", "backwards", "training seconds", "parameters")
    told = [f"{result[f'test/{name}']:.2f}" for name in ("perplexity", "forward-perplexity", "backward-perplexity")]
    report.row("`elmo`", *told, f"{result['seconds']:.0f}", f"{result['parameters']:,}")
    print()
    rows = compared(folder, run)
    show(rows)
    report.write("words-in-context", rows, elmo=result)


if __name__ == "__main__":
    main(*sys.argv[1:])
