"""Every recipe that is shipped, made small enough for a test: settings in place of its own, and its files."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.witness import files

ALL = {
    "training.steps": "30",
    "training.warmup": "5",
    "training.validate_every": "0",
    "training.log_every": "1",
    "training.threads": "1",
    "training.precision": "fp32",
    "training.device": "cpu",
    "training.seed": "1",
    "training.tensorboard": "false",
}
"""Settings of every case."""
MADE = {"data.train": "300", "data.valid": "12", "data.test": "12"}
"""How many examples are generated."""
PAIRS = MADE | {"metrics": "[exact-match, chrf, perplexity]"}
"""The same of pairs of texts, with figures that tell poor answers apart."""


def no_files(folder: Path) -> dict[str, str]:
    """Data that is generated comes without any."""
    return {}


@dataclass(frozen=True)
class Case:
    """Settings, and what writes files into a folder and gives the settings that name them."""

    settings: Mapping[str, str]
    files: Callable[[Path], dict[str, str]] = no_files

    def options(self, folder: Path) -> list[str]:
        """As the command `train` takes them; the files are in the folder from then on."""
        return options(ALL | dict(self.settings) | self.files(folder))


def options(settings: Mapping[str, str]) -> list[str]:
    """`--set KEY=VALUE` for each."""
    return [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]


def sized(batch_tokens: int, **model: object) -> dict[str, str]:
    """The size of a batch, and sizes of the model."""
    return {"training.batch_tokens": str(batch_tokens)} | {f"model.{name}": str(size) for name, size in model.items()}


RECURRENT = {"embedding": 16, "width": 24}
BERT = {"layers": 2, "width": 32, "heads": 4, "hidden": 64}
ADAPTIVE = "{kind: adaptive, cutoffs: [40, 90]}"
PIECES = {"tokenizer.size": "200"}
SHARED_PIECES = {"tokenizers.source.size": "300"}
TURING = MADE | {"data.valid": "6", "data.test": "6"} | sized(200, width=32, tape_width=8, rows=16)
POINTING = MADE | sized(256, width=24, attention=24)

CASES = {
    "bandits": Case({"data.pulls": "20", "data.valid": "8"} | sized(160)),
    "bert": Case(PIECES | sized(256, context=64, **BERT), files.documents),
    "bitext": Case(PAIRS | sized(400, **RECURRENT)),
    "captions": Case(
        sized(256, stages="[8, 8, 16]", embedding=16, width=24, attention=16) | {"search.length_extra": "8"},
        files.photographs,
    ),
    "characters-gpt2": Case(sized(256, layers=2, width=32, heads=4, context=32) | {"window": "32"}, files.text),
    "characters-llama": Case(
        sized(256, layers=2, width=32, heads=4, key_value_heads=2, hidden=48, context=32) | {"window": "32"}, files.text
    ),
    "classify": Case(PIECES | sized(256, context=64, **BERT), files.labelled),
    "convex-hull": Case(POINTING),
    "conversations": Case(PAIRS | sized(600, embedding=16, width=24, attention=24)),
    "copy": Case(TURING | {"data.most": "6"}),
    "dates": Case(PAIRS | sized(400, embedding=16, width=24, attention=24, maxout=16)),
    "dates-all": Case(PAIRS | sized(400, embedding=16, width=24, attention=24, maxout=16)),
    "dates-bottleneck": Case(PAIRS | sized(400, **RECURRENT)),
    "dates-luong": Case(PAIRS | sized(400, **RECURRENT)),
    "dates-mixed": Case(
        PAIRS
        | {"training.batch_tokens": "400", "model.encoder.width": "24", "model.encoder.hidden": "32"}
        | {"model.decoder.embedding": "16", "model.decoder.width": "24"}
    ),
    "dates-transformer": Case(PAIRS | sized(400, width=32, hidden=48)),
    "dialogue": Case(
        {"tokenizers.source.size": "300", "tokenizers.target.size": "300"} | sized(300, width=24, encoder_width=24),
        files.conversations,
    ),
    "elmo": Case(
        sized(256, filters="[[1, 8], [2, 8], [3, 16]]", projection=16, cell=32, softmax="{kind: sampled, samples: 32}")
        | {"tokenizer.size": "140", "window": "16"},
        files.text,
    ),
    "entailment": Case(PIECES | sized(300, embedding=16, width=16), files.entailment),
    "esim": Case(PIECES | sized(300, embedding=16, width=16), files.entailment),
    "few-shot": Case(
        sized(48, code_filters=8, filters=8)
        | {"data.held_out": "0.2", "data.valid_episodes": "6", "data.test_episodes": "6"},
        files.characters,
    ),
    "language-attention": Case(
        sized(200, embedding=16, width=24, window=20, softmax=ADAPTIVE) | {"window": "20"}, files.text
    ),
    "language-gpt2": Case(
        sized(256, layers=2, width=32, hidden=48, context=32, softmax=ADAPTIVE) | {"window": "32"}, files.text
    ),
    "language-lstm": Case(sized(200, embedding=16, width=24, softmax=ADAPTIVE) | {"window": "20"}, files.text),
    "language-lstmn": Case(
        sized(140, embedding=16, width=24, attention=16, window=7, positions="none", softmax=ADAPTIVE)
        | {"window": "14"},
        files.text,
    ),
    "letters": Case(PAIRS | sized(400, **RECURRENT) | {"data.most": "10"}),
    "multi-label": Case(PIECES | sized(256, context=64, **BERT), files.several),
    "names": Case(MADE | {"tokenizer.size": "200"} | sized(400, embedding=16, width=16)),
    "pronouns": Case(MADE | {"tokenizer.size": "200"} | sized(400, width=16)),
    "questions": Case(PAIRS | sized(600, width=24, encoder_width=24)),
    "questions-bottleneck": Case(PAIRS | sized(600, **RECURRENT)),
    "recall": Case(TURING | {"data.most": "3"}),
    "regression": Case(PIECES | sized(256, context=64, **BERT), files.rated),
    "relatedness": Case(PIECES | sized(300, embedding=16, width=16), files.related),
    "repeat-copy": Case(TURING | {"data.most": "3", "data.most_repeats": "2"}),
    "reviews": Case(PIECES | sized(400, embedding=16, width=16, attention=16), files.reviews),
    "scenes": Case(
        {"data.train": "48", "data.valid": "6", "data.test": "6", "data.size": "32"}
        | sized(256, stages="[8, 8, 16]", embedding=16, width=16, attention=16),
    ),
    "sorting": Case(POINTING),
    "span-reader": Case({"tokenizer.size": "200"} | sized(400, embedding=16, width=16), files.questions),
    "spans": Case(PIECES | sized(512, context=64, **BERT), files.questions),
    "spoken-digits": Case(
        {"data.train": "60", "data.valid": "6", "data.test": "6", "data.most": "2"}
        | sized(512, stages="[4, 4]", reader=12, embedding=8, width=16, attention=12, maxout=8)
    ),
    "squad": Case(
        {"training.batch_tokens": "800", "model.encoder.embedding": "16", "model.encoder.width": "12"}
        | {f"model.decoder.{name}": "24" for name in ("embedding", "width", "attention")},
        files.questions,
    ),
    "summarise": Case(
        sized(500, embedding=16, width=24, attention=24) | {"search.logits_processors": "[]"}, files.mails
    ),
    "tagging": Case(PIECES | sized(400, context=64, **BERT), files.tagged),
    "templates": Case(PAIRS | sized(600, embedding=16, width=24, attention=24)),
    "topics": Case(MADE | sized(256, embedding=16, width=16, attention=16)),
    "translate-bahdanau": Case(
        SHARED_PIECES | sized(300, embedding=16, width=24, attention=24, maxout=16), files.parallel
    ),
    "translate-luong": Case(SHARED_PIECES | sized(300, **RECURRENT), files.parallel),
    "translate-many": Case(
        {"source.size": "300", "target.size": "300"} | sized(300, width=24, encoder_width=24), files.multiparallel
    ),
    "translate-rnn": Case(SHARED_PIECES | sized(300, width=24, encoder_width=24, heads=4), files.parallel),
    "translate-transformer": Case(SHARED_PIECES | sized(300, layers=2, width=32, hidden=48), files.parallel),
    "vit": Case(sized(1300, layers=2, width=32, heads=4, hidden=48), files.clothes),
}
