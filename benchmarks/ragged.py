"""BERT on texts of different lengths beside Hugging Face's: `python -m benchmarks.ragged`.

Both of the sizes of BERT-base, with weights that are drawn, in one thread and in turn; the table has medians of the
processor's time of a forward pass.
"""

from collections.abc import Callable
from typing import Any

import torch
from transformers import BertConfig as TheirConfig
from transformers import BertModel

from benchmarks import report
from benchmarks.aim import Aim
from regard.attention.masks import padding
from regard.experiments.measuring import seconds
from regard.models.bert import Bert, BertConfig
from regard.training.devices import multiplies_bf16

VOCABULARY, ROWS, LONGEST, LAYERS, FIRST = 30_522, 32, 128, 12, 1000
SHORTEST = {"ragged": 10, "full": LONGEST}
"""The length of the shortest text; the others are spread evenly up to `LONGEST`."""
ROUNDS, TIMES, QUICK = 7, 1.7, 4
"""QUICK: layers of the quick pass, which are like all others."""


def forms(lengths: torch.Tensor, layers: int, dtype: torch.dtype) -> dict[str, Callable[[], object]]:
    """A forward pass of ours, and of theirs."""
    tokens = torch.randint(FIRST, VOCABULARY, (len(lengths), LONGEST))
    real = padding(lengths, LONGEST).readable()
    tokens = tokens.masked_fill(~real, 0)
    sizes = {**BertConfig.named_sizes["base"], "layers": layers}
    ours = Bert(VOCABULARY, BertConfig(**sizes, predictions=False)).to(dtype).eval()
    theirs: Any = BertModel(TheirConfig(num_hidden_layers=layers))
    theirs.to(dtype).eval()
    return {
        "regard": lambda: ours(tokens, lengths),
        "Hugging Face": lambda: theirs(input_ids=tokens, attention_mask=real.long()),
    }


@torch.inference_mode()
def timed(shortest: int, layers: int, dtype: torch.dtype, rounds: int) -> dict[str, float]:
    """Medians of the seconds of both, a pass a turn."""
    torch.manual_seed(1)
    lengths = torch.linspace(shortest, LONGEST, ROWS).round().long()
    passes = forms(lengths, layers, dtype)
    return dict(zip(passes, seconds([*passes.values()], rounds, least=0.0), strict=True))


def aims() -> list[Aim]:
    """The quick pass."""
    found = timed(SHORTEST["ragged"], QUICK, torch.float32, 3)
    texts = f"{ROWS} texts of {SHORTEST['ragged']} to {LONGEST} tokens"
    what = f"mixed lengths, BERT-base, {QUICK} of {LAYERS} layers, {texts}"
    return [
        Aim(
            what, "s", found["regard"], "Hugging Face", found["Hugging Face"], times=TIMES, limited_by="matrix products"
        )
    ]


def main() -> None:
    """Prints the table and writes the results."""
    torch.set_num_threads(1)
    report.head("texts", "dtype", "regard, s", "Hugging Face, s", "Hugging Face / regard")
    rows: list[dict[str, Any]] = []
    for name, shortest in SHORTEST.items():
        for dtype in (torch.float32, *([torch.bfloat16] if multiplies_bf16("cpu") else [])):
            found = timed(shortest, LAYERS, dtype, ROUNDS)
            ours, theirs = found.values()
            kind = str(dtype).removeprefix("torch.")
            report.row(name, kind, f"{ours:.2f}", f"{theirs:.2f}", f"{theirs / ours:.2f}")
            rows.append({"texts": name, "dtype": kind, "regard_seconds": ours, "hugging_face_seconds": theirs})
    report.write("ragged", rows, texts=ROWS, shortest=SHORTEST, longest=LONGEST)


if __name__ == "__main__":
    main()
