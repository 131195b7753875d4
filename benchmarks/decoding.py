"""Sentences per second of trained sizes with random weights, and milliseconds per token of a GPT-2.

`python -m benchmarks.decoding`. Every text is made to have `TOKENS` tokens, since speed does not depend on the weights.
Recurrent models stand beside JoeyNMT's of the same sizes (in processes of their own), and a GPT-2 beside transformers
and beside reading its weights once. One thread; medians of the processor time of rounds in turn.
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from benchmarks import peers, report
from benchmarks.aim import Aim
from benchmarks.peers import VOCABULARY, WIDTH
from regard.attention.memory import Memory
from regard.data.batches import collate
from regard.decoding.beam import Beam
from regard.decoding.processors import MinimumLength
from regard.decoding.sampling import greedy
from regard.models.catalog import MODELS
from regard.models.gpt2 import GPT2, GPT2Config
from regard.nn.decoders import Prompted
from regard.text.kinds import END
from regard.training.settings import keep_freed_memory

MODULE = "benchmarks.decoding"
TOKENS, SHORTEST, LONGEST, SENTENCES = 20, 8, 18, 8
"""Tokens of every text, of the shortest and the longest source; sentences of a sample that decodes one at a time."""
CASES = ((1, 1), (1, 5), (64, 1), (64, 5))
"""Sentences together, and the width of the beam."""
ROUNDS, QUICK = 7, 3
GPT2_SIZES = GPT2Config(layers=12, width=768, heads=12, context=1024)
GENERATED, COPIED_BYTES = 16, 1 << 28
ENDLESS = (MinimumLength(TOKENS + 1),)
"""Keeps the end of a text from being chosen."""
Search = Callable[[Sequence[list[int]], int], object]
"""Decode sources with a beam of this width."""


def build_ours(name: str, **sizes: Any) -> Search:
    """Return the search with one of our models."""
    keep_freed_memory()
    model: Any = MODELS[name](VOCABULARY, VOCABULARY, MODELS[name].config_class(**sizes)).eval()

    @torch.no_grad()
    def search(sources: Sequence[list[int]], width: int) -> None:
        batch = collate([(source, []) for source in sources])
        memory = model.encoder(batch.source, batch.source_lengths)
        if width == 1:
            greedy(model.decoder, memory, max_length=TOKENS, processors=ENDLESS)
        else:
            Beam(width, processors=ENDLESS)(model.decoder, memory, max_length=TOKENS)

    return search


def build_joeynmt(kind: str) -> Search:
    """Return the search with one of JoeyNMT's models."""
    from joeynmt.search import beam_search  # pyright: ignore[reportMissingImports]
    from joeynmt.search import greedy as greedy_search  # pyright: ignore[reportMissingImports]

    model, limits = peers.build_joeynmt(kind).eval(), {"max_output_length": TOKENS, "min_output_length": TOKENS}

    @torch.no_grad()
    def search(sources: Sequence[list[int]], width: int) -> None:
        batch = collate([(source, []) for source in sorted(sources, key=len, reverse=True)])
        mask = (batch.source != 0)[:, None]
        inputs = {"src": batch.source.masked_fill(batch.source == 0, 1), "src_length": batch.source_lengths}
        states, final, _, _ = model(return_type="encode", src_mask=mask, **inputs)
        encoded = {"encoder_output": states, "encoder_hidden": final, "src_mask": mask}
        if width == 1:
            greedy_search(model=model, **encoded, **limits)
        else:
            beam_search(model, width, alpha=0.0, **encoded, **limits)

    return search


RECURRENT: dict[str, Any] = {"embedding": WIDTH, "width": WIDTH, "cell": "gru"}
SYSTEMS: dict[str, Callable[[], Search]] = {
    "regard, Luong GRU": partial(build_ours, "luong", layers=1, bidirectional=True, **RECURRENT),
    "regard, Bahdanau GRU": partial(build_ours, "bahdanau", **RECURRENT),
    "regard, one-pass LSTM": partial(build_ours, "one-pass", width=WIDTH, encoder_width=WIDTH),
    "JoeyNMT, Luong GRU": partial(build_joeynmt, "luong"),
    "JoeyNMT, Bahdanau GRU": partial(build_joeynmt, "bahdanau"),
    "JoeyNMT, Luong LSTM": partial(build_joeynmt, "luong-lstm"),
}
PEERS = {
    "regard, Luong GRU": "JoeyNMT, Luong GRU",
    "regard, Bahdanau GRU": "JoeyNMT, Bahdanau GRU",
    "regard, one-pass LSTM": "JoeyNMT, Luong LSTM",
}


def sample_sources(vocabulary: int = VOCABULARY) -> list[list[int]]:
    """Sample as many sources as the largest case needs."""
    torch.manual_seed(1)
    lengths = torch.randint(SHORTEST, LONGEST + 1, (max(batch for batch, _ in CASES),)).tolist()
    return [torch.randint(END + 1, vocabulary, (length,)).tolist() for length in lengths]


def decode_all(search: Search, sources: Sequence[list[int]], batch: int, width: int) -> None:
    """Decode the sentences of one sample in batches."""
    for first in range(0, max(batch, SENTENCES), batch):
        search(sources[first : first + batch], width)


def recurrent_seconds(rounds: int) -> dict[tuple[int, int], dict[str, float]]:
    """Return the median seconds per sentence of each recurrent system in each case."""
    samples = {case: {system: list[float]() for system in SYSTEMS} for case in CASES}
    with peers.workers(list(SYSTEMS), sample_sources(), MODULE) as running:
        for _ in range(rounds + 1):
            for case in CASES:
                for worker in running:
                    samples[case][worker.system].append(worker.seconds(*case) / max(case[0], SENTENCES))
    return {
        case: {system: sorted(times[1:])[len(times[1:]) // 2] for system, times in systems.items()}
        for case, systems in samples.items()
    }


def generate_with(model: GPT2) -> Callable[[], object]:
    """Return a call that continues a text of one token."""

    @torch.no_grad()
    def generate() -> None:
        empty = torch.zeros(1, 0, 1)
        start = Prompted(model, torch.tensor([[END + 1]]))
        greedy(start, Memory(empty, empty), max_length=GENERATED, processors=ENDLESS)

    return generate


def token_milliseconds(rounds: int) -> dict[str, float]:
    """Return milliseconds per token of a GPT-2, and of reading its weights at the speed of a copy."""
    from transformers import GPT2Config as TheirConfig
    from transformers import GPT2LMHeadModel

    torch.manual_seed(1)
    model = GPT2(50257 + 3, GPT2_SIZES).eval()
    theirs: Any = GPT2LMHeadModel(TheirConfig(bos_token_id=None, eos_token_id=None)).eval()
    prompt = torch.tensor([[5]])
    lengths = {"min_new_tokens": GENERATED, "max_new_tokens": GENERATED, "do_sample": False, "pad_token_id": 0}
    from_, to = torch.ones(COPIED_BYTES // 4), torch.ones(COPIED_BYTES // 4)
    calls: dict[str, Callable[[], object]] = {
        "regard": generate_with(model),
        "transformers": lambda: theirs.generate(prompt, attention_mask=torch.ones_like(prompt), **lengths),
        "copy": lambda: to.copy_(from_),
    }
    seconds = peers.median_seconds(calls, rounds)
    size = sum(parameter.nbytes for parameter in model.parameters())
    memory = 1e3 * seconds["copy"] * size / (2 * COPIED_BYTES)
    return {name: 1e3 * seconds[name] / GENERATED for name in ("regard", "transformers")} | {"memory": memory}


def aims() -> list[Aim]:
    """Return the rows of a quick pass."""
    keep_freed_memory()
    rows = []
    for (batch, width), times in recurrent_seconds(QUICK).items():
        for system, peer in PEERS.items():
            name = f"decoding, {system.removeprefix('regard, ')}, {batch} sentences, beam {width}"
            ours, theirs = 1e3 * times[system], 1e3 * times[peer]
            rows.append(Aim(name, "ms/sentence", ours, peer, theirs, 1.5, limited_by="products that both compute"))
    milliseconds = token_milliseconds(QUICK)
    for peer, ratio in (("memory", 1 / 1.3), ("transformers", None)):
        name, ours = "decoding, GPT-2 of 124M, a token", milliseconds["regard"]
        rows.append(Aim(name, "ms", ours, peer, milliseconds[peer], ratio, limited_by="memory bandwidth"))
    return rows


def run_worker(system: str, path: str) -> None:
    """Decode on request."""
    torch.manual_seed(1)
    search, sources = SYSTEMS[system](), torch.load(path)
    peers.answer(lambda batch, width: decode_all(search, sources, int(batch), int(width)))


def main() -> None:
    """Print the tables and write the results."""
    torch.set_num_threads(1)
    keep_freed_memory()
    rows = []
    report.head("sentences", "beam", "system", "sentences/s")
    for (batch, width), times in recurrent_seconds(ROUNDS).items():
        for system, seconds in times.items():
            report.row(batch, width, system, f"{1 / seconds:.1f}")
            rows.append({"sentences": batch, "beam": width, "system": system, "sentences_per_second": 1 / seconds})
    milliseconds = token_milliseconds(ROUNDS)
    print("\nGPT-2 of 124M, ms per token: " + ", ".join(f"{name} {time:.1f}" for name, time in milliseconds.items()))
    report.write("decoding", rows, gpt2=milliseconds)


if __name__ == "__main__":
    run_worker(*sys.argv[2:]) if sys.argv[1:2] == ["worker"] else main()
