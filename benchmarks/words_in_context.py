"""The recipe `elmo` on WikiText-2: perplexity both ways; and its states as the embedding of another model.

`python -m benchmarks.words_in_context FOLDER`; FOLDER holds wikitext-2/{train,valid,test}.txt.gz. The other model,
a bidirectional GRU with attention, predicts whether two neighbours in a sentence have changed places, which is the task
"bigram shift" of Conneau 2018 (1805.01070, section 2): it learns from sentences of the validation file and is asked
about those of the test file, neither of which ELMo has learned from. Its embedding is the learned mix of ELMo's layers,
or ELMo's vector of each word by its characters, without context, or a table of the same width that is learned with the
rest; words, sentences and all else are the same.
"""

import json
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from torch import Tensor

from benchmarks import report
from regard.data.char_words import spell_vocabulary
from regard.data.lines import read_lines
from regard.models.elmo import Elmo
from regard.models.elmo_embedding import ElmoEmbedding, ScalarMix, word_states
from regard.models.han import FlatAttention
from regard.runs import run_file
from regard.runs.load import load
from regard.runs.recipes import path_of
from regard.shapes import Int, States
from regard.storage.run_folder import LABELS, RunDirectory
from regard.tasks.bidirectional_language_model.run import ElmoRun
from regard.tasks.classification.config import Classification
from regard.tasks.classification.run import ClassificationRun
from regard.tasks.classification.setup import setup
from regard.tasks.tokenizer_file import TOKENIZER
from regard.text.special import PAD
from regard.training.allocator import keep_freed_memory
from regard.training.loop import fit

SEEDS, DROPOUT = (1, 2, 3), 0.3
LAYERS: dict[str, int | None] = {"a mix of ELMo's layers": None, "ELMo's words without context": 1, "a table": 0}
"""Each embedding and how many of ELMo's layers it mixes, the lowest first; None: all of them."""
NAMES = dict(zip(LAYERS, ("mix", "words", "table"), strict=True))
SETTINGS = ("training.steps=1000", "training.batch_tokens=2048", "training.threads=1", "training.device=cpu")
SETS = {"train": ("valid", slice(4200)), "valid": ("valid", slice(4200, 4800)), "test": ("test", slice(4000))}
"""Which of the shuffled sentences of a file each set has."""
SHORTEST, LONGEST = 5, 28
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


def sentences(path: Path) -> list[list[str]]:
    """The sentences of a file of WikiText, as words, headings and those of other lengths left out."""
    lines = (line.strip() for line in read_lines(path))
    texts = (text for line in lines if line and not line.startswith("=") for text in f"{line} ".split(" . ") if text)
    found = ([*text.split(), "."] for text in texts)
    return [words for words in found if SHORTEST <= len(words) <= LONGEST]


def places(words: Sequence[str]) -> list[int]:
    """Where a word and the next may change places: two different words of letters, past the first, whose capital would
    tell."""
    return [
        place
        for place in range(1, len(words) - 1)
        if words[place].isalpha() and words[place + 1].isalpha() and words[place].lower() != words[place + 1].lower()
    ]


def shifted(some: Sequence[Sequence[str]], draw: random.Random) -> Iterator[dict[str, str]]:
    """Rows of a table: every other sentence has two neighbours changed."""
    for number, words in enumerate(some):
        text, label = list(words), "as it was"
        if number % 2:
            place, label = draw.choice(places(words)), "changed"
            text[place : place + 2] = reversed(text[place : place + 2])
        yield {"text": " ".join(text), "label": label}


def write_sets(folder: str, path: Path) -> list[str]:
    """Writes the sets as tables and gives the settings that name them."""
    path.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    known = {}
    for file in ("valid", "test"):
        known[file] = [each for each in sentences(Path(folder) / "wikitext-2" / f"{file}.txt.gz") if places(each)]
        draw.shuffle(known[file])
    settings = []
    for name, (file, part) in SETS.items():
        rows = (json.dumps(row, ensure_ascii=False) for row in shifted(known[file][part], draw))
        (path / f"{name}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
        settings.append(f"data.{name}={path / name}.jsonl")
    return settings


def language_model(folder: str) -> Path:
    """The run of the recipe, trained if it is not there."""
    settings = [f"data.{name}={folder}/wikitext-2/{name}.txt.gz" for name in ("train", "valid", "test")]
    return report.trained("elmo", "elmo", settings)


def train(path: Path, settings: Sequence[str], elmo: ElmoRun, layers: int, held: Held) -> None:
    """A run with ELMo's tokenizer whose embedding mixes so many layers of ELMo, or with none is a table."""
    sizes = f"{{name: flat-attention, embedding: {elmo.model.width}, width: 50, attention: 100, dropout: {DROPOUT}}}"
    words = f"{{kind: {elmo.tokenizer.settings.kind}, size: {elmo.tokenizer.size}}}"
    config = run_file.read(path_of("reviews"), [*settings, f"model={sizes}", f"tokenizer={words}"])
    assert isinstance(config, Classification)
    with RunDirectory.create(path) as run:
        with run.writing(TOKENIZER) as file:
            elmo.tokenizer.save(file)
        torch.manual_seed(config.training.seed)
        prepared = setup(config, run, 1)
        model, tests = prepared.model, prepared.tests
        assert isinstance(model, FlatAttention)
        assert isinstance(tests, Sequence)
        mix = None
        if layers:
            spellings = spell_vocabulary(elmo.tokenizer, elmo.config.model.characters)
            embedding = HeldEmbedding(elmo.model, spellings, layers, DROPOUT, held)
            model.add_module("embedding", embedding)
            mix = embedding.mix
        learned = sum(each.numel() for each in model.parameters() if each.requires_grad)
        result: dict[str, Any] = {"learned": learned} | fit(model, prepared.objective, config.training, run)
        scored = ClassificationRun(config, model.eval(), elmo.tokenizer, prepared.files[LABELS])
        result |= {f"test/{name}": figure for name, figure in scored.evaluate(tests).items()}
        if mix is not None:
            result |= {"mix": mix.weights.softmax(0).tolist(), "gamma": mix.gamma.item()}
        run.write_json(RESULT, result)


def compared(folder: str, run: Path) -> list[dict[str, Any]]:
    """A row a run."""
    keep_freed_memory()
    elmo = load(run, "cpu", task=ElmoRun)
    data = write_sets(folder, run.with_name("shift-data"))
    held: Held = {}
    rows = []
    for seed in SEEDS:
        for case, layers in LAYERS.items():
            path = run.with_name(f"shift-{NAMES[case]}-{seed}")
            if not (path / RESULT).is_file():
                settings = [*data, *SETTINGS, f"training.seed={seed}"]
                train(path, settings, elmo, elmo.model.layers + 1 if layers is None else layers, held)
            result = json.loads((path / RESULT).read_text(encoding="utf-8"))
            rows.append({"embedding": case, "seed": seed} | result)
    return rows


def show(rows: Sequence[dict[str, Any]]) -> None:
    """The table of embeddings."""
    names = "validation accuracy", "test accuracy", "spread of seeds", "learned parameters", "shares of layers"
    report.head("embedding, two words changed or not", *names)
    for case in LAYERS:
        found = [row for row in rows if row["embedding"] == case]
        valid, accuracy = ([row[name] for row in found] for name in ("accuracy", "test/accuracy"))
        shares = zip(*(row["mix"] for row in found), strict=True) if "mix" in found[0] else ()
        cells = [f"{mean(valid):.2f}", f"{mean(accuracy):.2f}", f"{stdev(accuracy):.2f}"]
        report.row(case, *cells, f"{found[0]['learned']:,}", " ".join(f"{mean(share):.2f}" for share in shares))


def main(folder: str) -> None:
    """Trains what is missing, then prints both tables."""
    folder = str(Path(folder).resolve())
    run = language_model(folder)
    result = json.loads((run / RESULT).read_text(encoding="utf-8"))
    report.head("on WikiText-2", "perplexity", "forwards", "backwards", "training seconds", "parameters")
    figures = [f"{result[f'test/{name}']:.2f}" for name in ("perplexity", "forward-perplexity", "backward-perplexity")]
    report.row("`elmo`", *figures, f"{result['seconds']:.0f}", f"{result['parameters']:,}")
    print()
    rows = compared(folder, run)
    show(rows)
    report.write("words-in-context", rows, elmo=result)


if __name__ == "__main__":
    main(*sys.argv[1:])
