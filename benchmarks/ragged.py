"""BERT on texts of different lengths beside Hugging Face's: `python -m benchmarks.ragged`.

Both have the sizes of BERT-base and random weights; one thread, medians of the processor time of a forward pass.
"""

from typing import Any

import torch
from transformers import BertConfig as TheirConfig
from transformers import BertModel

from benchmarks import peers, report
from benchmarks.aim import Aim
from regard.attention.masks import padding
from regard.models.bert import Bert, BertConfig
from regard.training.settings import supports_bf16_products

VOCABULARY, ROWS, LONGEST, LAYERS, FIRST_TOKEN = 30_522, 32, 128, 12, 1000
SHORTEST = {"ragged": 10, "full": LONGEST}
"""The length of the shortest text; the lengths are spread evenly up to `LONGEST`."""
ROUNDS, QUICK_LAYERS = 7, 4


@torch.inference_mode()
def time_forms(shortest: int, layers: int, dtype: torch.dtype, rounds: int) -> dict[str, float]:
    """Return the median seconds of both."""
    torch.manual_seed(1)
    lengths = torch.linspace(shortest, LONGEST, ROWS).round().long()
    tokens = torch.randint(FIRST_TOKEN, VOCABULARY, (len(lengths), LONGEST))
    mask = padding(lengths, LONGEST).dense()[:, 0]
    tokens = tokens.masked_fill(~mask, 0)
    sizes: Any = {"layers": layers, "width": 768, "heads": 12, "hidden": 3072, "context": 512}
    ours = Bert(VOCABULARY, BertConfig(**sizes, predictions=False)).to(dtype).eval()
    theirs: Any = BertModel(TheirConfig(num_hidden_layers=layers))
    theirs.to(dtype).eval()
    calls = {
        "regard": lambda: ours(tokens, lengths),
        "Hugging Face": lambda: theirs(input_ids=tokens, attention_mask=mask.long()),
    }
    return peers.median_seconds(calls, rounds)


def aims() -> list[Aim]:
    """Return the row of a quick pass."""
    ours, theirs = time_forms(SHORTEST["ragged"], QUICK_LAYERS, torch.float32, 3).values()
    name = f"mixed lengths, BERT-base, {QUICK_LAYERS} of {LAYERS} layers, {ROWS} texts of 10 to {LONGEST} tokens"
    return [
        Aim(name, "s", ours, "Hugging Face", theirs, times=1.7, limited_by="products: padding has 1.86 times the rows")
    ]


def main() -> None:
    """Print the table and write the results."""
    torch.set_num_threads(1)
    report.head("texts", "dtype", "regard, s", "Hugging Face, s", "Hugging Face / regard")
    rows: list[dict[str, Any]] = []
    for texts, shortest in SHORTEST.items():
        for dtype in (torch.float32, *([torch.bfloat16] if supports_bf16_products("cpu") else [])):
            ours, theirs = time_forms(shortest, LAYERS, dtype, ROUNDS).values()
            kind = str(dtype).removeprefix("torch.")
            report.row(texts, kind, f"{ours:.2f}", f"{theirs:.2f}", f"{theirs / ours:.2f}")
            rows.append({"texts": texts, "dtype": kind, "regard_seconds": ours, "hugging_face_seconds": theirs})
    report.write("ragged", rows)


if __name__ == "__main__":
    main()
