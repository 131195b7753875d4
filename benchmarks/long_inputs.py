"""Memory of recorded reductions on long inputs: `python -m benchmarks.long_inputs [--show [--top]] [LENGTH...]`.

A Llama of 12 layers with random weights reads a text of each length, each in a process of its own. Memory is the
growth of the process beyond the loaded model, at its peak: without a recorder, and with reductions of one head of every
layer, or of all heads; up to 4,000 tokens with all weights of one head. `--show` measures the command `regard show`
instead, beyond the same command on eight tokens; with `--top` its table of the four greatest weights of each query.
"""

import resource
import string
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks import report
from regard.attention.record import record
from regard.maps.reductions import Entropy, Greatest, Totals

LENGTHS = (1000, 4000, 16000, 32000)
LAYERS, HEADS, WIDTH = 12, 4, 64
KINDS: dict[str, dict[str, Any]] = {
    "none": {},
    "totals": {"reduce": Totals(), "heads": [0]},
    "totals of all heads": {"reduce": Totals()},
    "greatest 4": {"reduce": Greatest(4), "heads": [0]},
    "entropy": {"reduce": Entropy(), "heads": [0]},
    "64 queries": {"rows": [*range(64)]},
    "all weights of a head": {"heads": [0]},
}
"""What is recorded, as arguments of `record`."""
MOST = {"totals of all heads": 8000, "all weights of a head": 4000}
"""The longest input of a kind, if there is one."""


def model(vocabulary: int = 1000) -> Any:
    """A Llama with random weights for a vocabulary of this size."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    sizes: dict[str, Any] = {"num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "hidden_size": WIDTH}
    more = {"vocab_size": vocabulary, "intermediate_size": 128, "max_position_embeddings": 65536, "eos_token_id": None}
    return LlamaForCausalLM(LlamaConfig(**sizes, **more)).eval()


@torch.no_grad()
def measured(kind: str, length: str) -> tuple[float, float]:
    """Megabytes and seconds of one pass."""
    reader = model().model
    tokens = torch.randint(1000, (1, int(length)), generator=torch.Generator().manual_seed(1))
    reader(tokens[:, :8], use_cache=False)
    before, start = _megabytes(), time.perf_counter()
    if kind == "none":
        reader(tokens, use_cache=False)
    else:
        with record(reader, "layers.*.self_attn", **KINDS[kind]) as maps:
            reader(tokens, use_cache=False)
        assert len(maps) == LAYERS
    return _megabytes() - before, time.perf_counter() - start


def shown(length: str, *options: str) -> tuple[float, float]:
    """Megabytes and seconds of `regard show` on a text of single letters, beyond the same command on eight of them;
    with options, of a table."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate(["<unk>", *string.ascii_letters])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))  # pyright: ignore[reportCallIssue]
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # pyright: ignore[reportAttributeAccessIssue]
    letters = torch.randint(52, (int(length),), generator=torch.Generator().manual_seed(1)).tolist()
    found: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        model(len(vocabulary)).save_pretrained(folder)
        PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>").save_pretrained(folder)
        for count in (8, int(length)):
            text, start = " ".join(string.ascii_letters[each] for each in letters[:count]), time.perf_counter()
            out = str(Path(folder) / f"{count}{'.tsv' if options else '.html'}")
            command = [sys.executable, "-m", "regard", "show", folder, text, "--out", out, *options]
            subprocess.run(command, check=True, capture_output=True, env=report.environment())
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            found.append((peak, time.perf_counter() - start))
    return found[1][0] - found[0][0], found[1][1]


def main_of_command(lengths: list[int], *options: str) -> None:
    """Measure the command with these options at each length, each in a process of its own."""
    rows = []
    report.head("tokens", "MB", "seconds")
    for length in lengths or LENGTHS:
        megabytes, seconds = report.apart("long_inputs", "shown", str(length), *options)
        rows.append({"tokens": length, "megabytes": round(megabytes), "seconds": round(seconds, 1)})
        report.row(f"{length:,}", f"{megabytes:.0f}", f"{seconds:.1f}")
    report.write("show_long_table" if options else "show_long", rows, layers=LAYERS, heads=HEADS, width=WIDTH)


def main(lengths: list[int]) -> None:
    """Measure every kind at each length, each in a process of its own."""
    rows = []
    report.head("tokens", "recorded", "MB", "seconds")
    for length in lengths or LENGTHS:
        for kind in (each for each in KINDS if length <= MOST.get(each, length)):
            megabytes, seconds = report.apart("long_inputs", "measured", kind, str(length))
            rows.append(
                {"tokens": length, "recorded": kind, "megabytes": round(megabytes), "seconds": round(seconds, 1)}
            )
            report.row(f"{length:,}", kind, f"{megabytes:.0f}", f"{seconds:.1f}")
    if not lengths:
        report.write("long_inputs", rows, layers=LAYERS, heads=HEADS, width=WIDTH)


def _megabytes() -> float:
    """The greatest resident memory so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:] if each not in ("--show", "--top")]
    if "--show" in sys.argv:
        main_of_command(numbers, *(("--top", "4") if "--top" in sys.argv else ()))
    else:
        main(numbers)
