"""How many sentences a second a Transformer writes beside CTranslate2 on the same weights, and how long a GPT-2 takes a
token beside transformers and beside its memory.

`python -m benchmarks.decoding [NAME...]`, a name being one of `MODELS`, `shared heads` or `gpt2`. Weights are random:
speed does not depend on what they are, and every text is made to have `TOKENS` tokens. One thread; times are those of
the processor, medians of runs in turn. Needs `pip install ctranslate2`, and transformers for GPT-2 beside it.
"""

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks import report
from benchmarks.aim import Aim
from regard.attention.memory import Memory
from regard.data.batching import collate
from regard.decoding import Beam, greedy
from regard.decoding.continuation import Prompted
from regard.decoding.logits_processors import MinimumLength
from regard.experiments.measuring import seconds
from regard.hub.exports.ctranslate2 import entries, save
from regard.models.fused import fuse
from regard.models.gpt2 import GPT2, GPT2Config
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn.fast_linear import with_int8
from regard.text import Tokenizer, TokenizerSettings
from regard.text.special import END
from regard.training.allocator import keep_freed_memory

MODELS = {
    "3 + 3 layers of 256": TransformerConfig(layers=3, width=256, hidden=1024, heads=4),
    "recipe": TransformerConfig(layers=4, width=128, hidden=256, heads=4),
}
VOCABULARY, TOKENS, SHORTEST, LONGEST = 6000, 20, 8, 18
"""Entries, tokens of every text, and the fewest and most of a source, END apart."""
CASES = ((1, 1), (1, 5), (64, 1), (64, 5))
"""Sentences together, and the width of the beam."""
ROUNDS, SENTENCES = 7, 8
"""Samples of each, and the sentences of one where they are written one by one."""
AIMED, QUICK = "3 + 3 layers of 256", 5
SIZES = GPT2Config(**GPT2Config.named_sizes["124M"])
GENERATED, COPIED = 16, 1 << 28
"""Tokens of a text that a GPT-2 goes on with, and the bytes whose copying measures the speed of memory."""
WITHIN, MEMORY = 1.3, "memory bandwidth"
"""How many times its weights' time in memory a token of a GPT-2 may take."""
ENDLESS = MinimumLength(TOKENS + 1)
"""END never follows."""
Way = Callable[[], object]


def in_turn(ways: dict[str, Way], rounds: int) -> dict[str, float]:
    """The median seconds of each, a call a turn."""
    return dict(zip(ways, seconds([*ways.values()], rounds, least=0.0), strict=True))


class Setting(NamedTuple):
    """One model in its forms, sources for it as ids and as pieces."""

    models: dict[str, Transformer]
    translators: dict[str, Any]
    ids: list[list[int]]
    pieces: list[list[str]]

    @classmethod
    def of(cls, config: TransformerConfig, folder: Path) -> "Setting":
        """With random weights, written to the folder as CTranslate2 reads them."""
        from ctranslate2 import Translator

        words = " ".join(f"w{number}" for number in range(VOCABULARY))
        tokenizer = Tokenizer.train(TokenizerSettings("word", VOCABULARY), [words])
        torch.manual_seed(1)
        plain, small = (Transformer(tokenizer.size, tokenizer.size, config).eval() for _ in range(2))
        small.load_state_dict(plain.state_dict())
        with_int8(small)
        save(plain, tokenizer, tokenizer, folder)
        lengths = torch.randint(SHORTEST, LONGEST + 1, (max(SENTENCES, *(batch for batch, _ in CASES)),)).tolist()
        ids = [torch.randint(END + 1, tokenizer.size, (length,)).tolist() for length in lengths]
        names = entries(tokenizer)
        threads = {"inter_threads": 1, "intra_threads": 1}
        peers = {kind: Translator(str(folder), compute_type=kind, **threads) for kind in ("float32", "int8")}
        for each in (plain, small):
            fuse(each)
        return cls({"float32": plain, "int8": small}, peers, ids, [[names[each] for each in row] for row in ids])

    def ways(self, batch: int, width: int) -> dict[str, Way]:
        """Ours and the peer's, in both forms."""
        starts = range(0, max(batch, SENTENCES), batch)
        ours = {f"regard {kind}": self.own(model, starts, batch, width) for kind, model in self.models.items()}
        peers = {
            f"CTranslate2 {kind}": self.peer(each, starts, batch, width) for kind, each in self.translators.items()
        }
        return ours | peers

    def own(self, model: Transformer, starts: Sequence[int], batch: int, width: int) -> Way:
        search = greedy if width == 1 else Beam(width, processors=(ENDLESS,))
        more: dict[str, Any] = {"processors": (ENDLESS,)} if width == 1 else {}

        @torch.no_grad()
        def call() -> None:
            for first in starts:
                rows = collate([(each, []) for each in self.ids[first : first + batch]])
                search(model.decoder, model.encoder(rows.source, rows.source_lengths), max_length=TOKENS, **more)

        return call

    def peer(self, translator: Any, starts: Sequence[int], batch: int, width: int) -> Way:
        exactly = {"min_decoding_length": TOKENS, "max_decoding_length": TOKENS}

        def call() -> None:
            for first in starts:
                translator.translate_batch(self.pieces[first : first + batch], beam_size=width, **exactly)

        return call


def translated(config: TransformerConfig, rounds: int) -> list[dict[str, Any]]:
    """Sentences a second of each case."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        setting = Setting.of(config, Path(folder))
        for batch, width in CASES:
            found = in_turn(setting.ways(batch, width), rounds)
            rates = {name: max(batch, SENTENCES) / each for name, each in found.items()}
            rows.append({"sentences": batch, "beam": width, "rates": rates})
    return rows


def of_shared_heads(rounds: int) -> dict[int, float]:
    """Seconds of 16 sentences by a beam of 5, by the number of heads of keys and values that 4 heads share."""
    ways: dict[int, Way] = {}
    sources = torch.randint(END + 1, VOCABULARY, (16, LONGEST))
    for heads in (4, 2, 1):
        torch.manual_seed(1)
        model = Transformer(VOCABULARY, VOCABULARY, replace(MODELS[AIMED], key_value_heads=heads)).eval()
        fuse(model)

        @torch.no_grad()
        def call(model: Transformer = model) -> None:
            memory = model.encoder(sources, torch.full((len(sources),), LONGEST))
            Beam(5, processors=(ENDLESS,))(model.decoder, memory, max_length=TOKENS)

        ways[heads] = call
    return dict(zip(ways, seconds([*ways.values()], rounds, least=0.0), strict=True))


def gpt2() -> GPT2:
    """As large as the smallest that was released, and of its weights so many bytes are read for a token."""
    torch.manual_seed(1)
    return GPT2(50257 + 3, SIZES).eval()


def generating(model: GPT2) -> Way:
    """A text that begins with one token."""

    @torch.no_grad()
    def call() -> None:
        nothing = torch.zeros(1, 0, 1)
        start = Prompted(model, torch.tensor([[END + 1]]))
        greedy(start, Memory(nothing, nothing), max_length=GENERATED, processors=(ENDLESS,))

    return call


def generating_there() -> Way:
    """The same with transformers."""
    from transformers import GPT2Config as Sizes
    from transformers import GPT2LMHeadModel

    model: Any = GPT2LMHeadModel(Sizes(bos_token_id=None, eos_token_id=None)).eval()
    given, exactly = torch.tensor([[5]]), {"min_new_tokens": GENERATED, "max_new_tokens": GENERATED}
    ones = torch.ones_like(given)
    return lambda: model.generate(given, attention_mask=ones, do_sample=False, pad_token_id=0, **exactly)


def generated(rounds: int) -> dict[str, float]:
    """Milliseconds a token, and as `memory` those in which the weights are read, at the speed at which a copy reads and
    writes."""
    model, small = gpt2(), gpt2()
    with_int8(small)
    for each in (model, small):
        fuse(each)
    ways = {"regard float32": generating(model), "regard int8": generating(small)}
    if find_spec("transformers") is not None:
        ways["transformers"] = generating_there()
    given, copied = torch.ones(COPIED // 4), torch.ones(COPIED // 4)
    found = in_turn({**ways, "copy": lambda: copied.copy_(given)}, rounds)
    size = sum(each.numel() * each.element_size() for each in model.parameters())
    times = {name: 1e3 * found[name] / GENERATED for name in ways}
    return times | {"memory": 1e3 * found["copy"] * size / (2 * COPIED)}


def aims() -> list[Aim]:
    """The quick pass: of one model every case beside CTranslate2, and a GPT-2 beside what there is."""
    keep_freed_memory()
    found = []
    for row in translated(MODELS[AIMED], QUICK):
        what = f"decoding, {AIMED}, {row['sentences']} sentences, beam {row['beam']}"
        limited_by = "weights, read for every token" if row["sentences"] == 1 else "matrix products"
        for kind in ("float32", "int8"):
            ours, theirs = (1e3 / row["rates"][f"{name} {kind}"] for name in ("regard", "CTranslate2"))
            case = f"{what}, {kind}"
            found.append(Aim(case, "ms/sentence", ours, "CTranslate2", theirs, times=1.0, limited_by=limited_by))
    shared = {heads: 1e3 * each / 16 for heads, each in of_shared_heads(QUICK).items()}
    case = "decoding, 1 head of keys and values, 16 sentences, beam 5", "ms/sentence", shared[1], "4 heads", shared[4]
    found.append(Aim(*case, times=1.0, limited_by="products"))
    times = generated(QUICK)
    own = "decoding, GPT-2 of 124M, a token", "ms", times["regard float32"]
    found.append(Aim(*own, "weights read once", times["memory"], times=1 / WITHIN, limited_by=MEMORY))
    return found + [Aim(*own, name, times[name], limited_by=MEMORY) for name in ("transformers",) if name in times]


def main(names: list[str]) -> None:
    """Times the named models; only a run of all of them is written down."""
    others = "shared heads", "gpt2"
    unknown = sorted(set(names) - {*MODELS, *others})
    if unknown:
        sys.exit(f"no model {', '.join(unknown)}; expected some of {', '.join((*MODELS, *others))}")
    torch.set_num_threads(1)
    keep_freed_memory()
    kinds = [f"{name} {kind}" for name in ("regard", "CTranslate2") for kind in ("float32", "int8")]
    report.head("model", "sentences", "beam", *(f"{kind}, sentences/s" for kind in kinds))
    rows = []
    for name in [each for each in MODELS if each in (names or MODELS)]:
        for row in translated(MODELS[name], ROUNDS):
            rows.append({"model": name, **row})
            report.row(name, row["sentences"], row["beam"], *(f"{row['rates'][kind]:.1f}" for kind in kinds))
    if not names or "shared heads" in names:
        shared = of_shared_heads(ROUNDS)
        rows.append({"model": "shared heads", "milliseconds": {heads: 1e3 * each for heads, each in shared.items()}})
        times = ", ".join(f"{heads}: {1e3 * each:.1f}" for heads, each in shared.items())
        print(f"\n16 sentences, beam 5, ms by heads of keys and values: {times}")
    if not names or "gpt2" in names:
        times = generated(ROUNDS)
        rows.append({"model": "gpt2", "milliseconds": times})
        print("\nGPT-2 of 124M, ms a token: " + ", ".join(f"{name} {each:.1f}" for name, each in times.items()))
    if not names:
        report.write("decoding", rows)


if __name__ == "__main__":
    main(sys.argv[1:])
