"""Whole searches of recurrent decoders by the kernel: the hypotheses and scores of the search in steps, and when only
steps serve."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.attention.record import record
from regard.data.batching import collate
from regard.decoding import Beam, greedy
from regard.decoding.hypothesis import LengthPenalty
from regard.decoding.logits_processors import MinimumLength
from regard.decoding.whole_search import Searcher, whole_search
from regard.kernels import fused_search
from regard.models.catalog import MODELS
from regard.models.fused import fuse
from regard.nn.encoder_decoder import EncoderDecoder
from regard.nn.fast_linear import with_int8
from regard.text.special import END
from tests.kernels.searches import Both, check

pytestmark = pytest.mark.skipif(fused_search.library() is None, reason="no kernel")
VOCABULARY, PENALTY = 70, LengthPenalty(0.7)
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "gru": ("luong", {"width": 12, "embedding": 7, "layers": 1, "cell": "gru", "bidirectional": True}),
    "two lstms": ("luong", {"width": 13, "embedding": 7}),
    "additive": ("luong", {"width": 24, "embedding": 9, "score": "concat", "cell": "tanh", "layers": 3}),
    "dot": ("luong", {"width": 20, "score": "dot", "cell": "gru"}),
    "unfed": ("luong", {"width": 33, "score": "scaled-dot", "input_feeding": False, "cell": "gru", "layers": 3}),
    "unfed tanh": ("luong", {"width": 17, "input_feeding": False, "cell": "tanh"}),
    "bahdanau": ("bahdanau", {"width": 12, "embedding": 9, "attention": 11, "maxout": 5}),
    "bahdanau's other cell": ("bahdanau", {"width": 40, "cell": "gru", "start": "learned"}),
    "one pass": ("one-pass", {"width": 15, "encoder_width": 17}),
    "heads": ("one-pass", {"width": 24, "encoder_width": 12, "heads": 3}),
}


def model(case: str, **more: Any) -> EncoderDecoder:
    """A fused model with weights so large that its texts differ."""
    name, sizes = CASES[case]
    made = MODELS[name](VOCABULARY, VOCABULARY, MODELS[name].config_class(**sizes | more)).eval()
    with torch.no_grad():
        for each in made.parameters():
            each.mul_(1.5) if each.ndim > 1 else each.normal_(std=0.3)
        made.decoder.output.bias[END] += 1
    fuse(made)
    return made


@torch.no_grad()
def memory(made: EncoderDecoder, lengths: Sequence[int] = (5, 1, 8)) -> Memory:
    rows = collate([(torch.randint(4, 60, (length,)).tolist(), []) for length in lengths])
    return made.encoder(rows.source, rows.source_lengths)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("case", CASES)
def test_texts_and_scores(both: Both, case: str):
    made = model(case)
    source, settings = memory(made), {"max_length": torch.tensor([9, 1, 14])}
    check(*both(greedy, made, source, penalty=PENALTY, **settings))
    check(*both(Beam(5, PENALTY), made, source, n_best=5, **settings))


def test_many_sources(both: Both):
    made = model("gru")
    check(*both(Beam(3, processors=(MinimumLength(4),)), made, memory(made, [*range(1, 14)]), max_length=11, n_best=3))


def test_a_source_that_cannot_be_read(both: Both):
    made = model("gru")
    states = torch.randn(2, 3, 12)
    check(*both(greedy, made, Memory.of(states, torch.tensor([0, 3]), torch.randn(2, 12)), max_length=6))


def test_large_queries_and_keys_of_additive_scores(both: Both):
    made = model("bahdanau")
    with torch.no_grad():
        for name, each in made.decoder.named_parameters():
            each.mul_(100 if name in ("attend.score.query_weight", "attend.score.key_weight") else 1)
    check(*both(greedy, made, memory(made), max_length=9))


def test_bytes_as_weights(both: Both):
    made = model("bahdanau's other cell")
    with_int8(made)
    found, expected = both(greedy, made, memory(made), max_length=9)
    assert [each.tokens for [each] in found] == [each.tokens for [each] in expected]


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("case", ["gru", "two lstms", "bahdanau", "heads"])
@torch.no_grad()
def test_scores_are_as_exact_as_those_of_steps(both: Both, case: str):
    made = model(case)
    source, exact = memory(made, [7] * 8), deepcopy(made).double()
    errors: list[Tensor] = []
    for found in both(greedy, made, source, max_length=12, processors=(MinimumLength(13),)):
        tokens = torch.tensor([each.tokens for [each] in found])
        before = torch.cat([torch.ones_like(tokens[:, :1]) * made.decoder.special.start, tokens[:, :-1]], 1)
        assert source.summary is not None
        wide = Memory(source.key.double(), source.value.double(), source.mask, source.summary.double())
        logs = exact.decoder.output(exact.decoder.features(before, exact.decoder.start(wide))).log_softmax(-1)
        wanted = logs.gather(2, tokens[..., None]).sum((1, 2))
        errors.append((torch.tensor([each.score for [each] in found]) - wanted).square().mean().sqrt())
    assert errors[0] <= 2 * errors[1] + 2e-6


def served(made: EncoderDecoder) -> bool:
    source = memory(made)
    with torch.no_grad():
        decoder = made.decoder
        return isinstance(decoder, Searcher) and bool(
            whole_search(decoder, source, torch.full((3,), 5), 2, PENALTY, ())
        )


@pytest.mark.parametrize("case", ["gru", "unfed", "bahdanau", "heads"])
def test_only_steps_serve_what_is_observed_or_changed(case: str):
    made = model(case)
    assert served(made)
    with record(made.decoder):
        assert not served(made)
    for name in ("", "embedding.table", "attend", "output"):
        hooked = model(case)
        hooked.decoder.get_submodule(name).register_forward_hook(lambda *_: None)
        assert not served(hooked), name
    assert not served(model(case).train())


@pytest.mark.parametrize(
    ("case", "more"),
    [
        ("gru", {"score": "cosine"}),
        ("gru", {"score": "location"}),
        ("gru", {"score": "distance"}),
        ("gru", {"align": "local-m"}),
        ("bahdanau", {"history": "coverage"}),
        ("heads", {"score": "cosine"}),
    ],
)
def test_only_steps_serve_other_attention(case: str, more: dict[str, Any]):
    assert not served(model(case, **more))


def test_only_steps_serve_other_modules():
    class Louder(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return 2 * super().forward(input)

    made = model("gru")
    made.decoder.combine = Louder(24, 12, bias=False).eval()
    assert not served(made)
