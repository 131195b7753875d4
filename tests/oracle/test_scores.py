"""Each score, and those that see earlier weights, against its formula, one query and one key at a time."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from regard.attention import Attend, attend
from regard.attention.align import LocalMonotonic
from regard.attention.heads import MultiHead
from regard.attention.history import Coverage, History, LocationAware, SequentialAttend
from regard.attention.masks import padding
from regard.attention.memory import Memory
from regard.attention.record import record
from regard.attention.scores import (
    Additive,
    Cosine,
    Distance,
    Dot,
    General,
    InverseDistance,
    LearnedSharpness,
    Location,
    PredictedSharpness,
    ScaledDot,
    Score,
    TanhDot,
)
from regard.kernels.cpu import additive
from tests.oracle import reference
from tests.oracle.reference import Array, Parameters

Formula = Callable[[Array, Array], float]


def general() -> tuple[Score, Formula]:
    score = General(5, 3)
    return score, reference.general(reference.parameters(score)["weight"])


def additive_score() -> tuple[Score, Formula]:
    score = Additive(5, 3, 7)
    p = reference.parameters(score)
    return score, reference.additive(p["query_weight"].T, p["key_weight"].T, p["energy"])


def tanh_dot() -> tuple[Score, Formula]:
    score = TanhDot(3, 5)
    assert score.bias is not None
    nn.init.normal_(score.bias)
    p = reference.parameters(score)
    return score, lambda query, key: float(query @ np.tanh(p["weight"].T @ key + p["bias"]))


def concat() -> tuple[Score, Formula]:
    score = Additive(5, 3, 7)
    p = reference.parameters(score)
    return score, reference.concat(np.concatenate([p["query_weight"], p["key_weight"]]).T, p["energy"])


def normalized() -> tuple[Score, Formula]:
    """Raffel's g v / |v| with a bias."""
    score = Additive(5, 3, 7, bias=True, normalized=True)
    assert score.bias is not None
    nn.init.normal_(score.bias)
    p = reference.parameters(score)
    np.testing.assert_allclose(p["gain"], [7**-0.5], rtol=1e-6)
    energy = p["gain"] * p["energy"] / np.sqrt((p["energy"] ** 2).sum())
    # the bias as a key of 1
    extended = np.concatenate([p["key_weight"], p["bias"][None]]).T
    formula = reference.additive(p["query_weight"].T, extended, energy)
    return score, lambda query, key: formula(query, np.append(key, 1.0))


def predicted() -> tuple[Score, Formula]:
    sharpness = PredictedSharpness(5)
    p = reference.parameters(sharpness)
    return Cosine(sharpness), reference.cosine(
        lambda q: float(np.log1p(np.exp(p["linear.weight"][0] @ q + p["linear.bias"][0])))
    )


FORMULAS: dict[str, Callable[[], tuple[Score, Formula]]] = {
    "dot": lambda: (Dot(), reference.dot),
    "scaled-dot": lambda: (ScaledDot(), reference.scaled_dot),
    "general": general,
    "tanh-dot": tanh_dot,
    "additive": additive_score,
    "concat": concat,
    "normalized": normalized,
    "cosine": lambda: (Cosine(3.0), reference.cosine(lambda q: 3.0)),
    "cosine-learned": lambda: (Cosine(LearnedSharpness(2.5)), reference.cosine(lambda q: 2.5)),
    "cosine-predicted": predicted,
    "distance": lambda: (Distance(0.7), reference.distance(0.7)),
}


def sides(name: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    key_width = 3 if name in ("general", "tanh-dot", "additive", "concat", "normalized") else 5
    query, key, value = torch.randn(2, 3, 5), torch.randn(2, 7, key_width), torch.randn(2, 7, 2)
    return query.double(), key.double(), value.double()


@pytest.mark.parametrize("name", FORMULAS)
def test_scores_weights_and_contexts(name: str):
    """The matrix form equals the loop over sequences, queries and keys."""
    score, formula = FORMULAS[name]()
    score = score.double()
    query, key, value = sides(name)
    tolerance = 1e-6 if name == "cosine-learned" else 1e-12  # log(2.5) was rounded to float32
    scores = score(query, score.prepare(key)).detach().numpy()
    context, weights = (x.detach().numpy() for x in attend(query, key, value, score=score))
    for b in range(2):
        for t in range(3):
            q = query[b, t].numpy()
            expected = [formula(q, k) for k in key[b].numpy()]
            np.testing.assert_allclose(scores[b, t], expected, rtol=tolerance, atol=tolerance)
            read, shares = reference.lookup(formula, q, key[b].numpy(), value[b].numpy())
            np.testing.assert_allclose(weights[b, t], shares, rtol=tolerance)
            np.testing.assert_allclose(context[b, t], read, rtol=tolerance, atol=tolerance)


def test_weights_of_the_inverse_distance():
    query, key, value = sides("distance")
    _, weights = attend(query, key, value, score=InverseDistance(0.2))
    for b in range(2):
        for t in range(3):
            expected = reference.inverse_distance_weights(query[b, t].numpy(), key[b].numpy(), 0.2)
            np.testing.assert_allclose(weights[b, t].numpy(), expected, rtol=1e-12)


def test_location_reads_a_row_of_its_matrix_for_each_position():
    score = Location(5, 11).double()
    query, key, _ = sides("distance")
    scores = score(query, key)
    for i in range(7):
        torch.testing.assert_close(scores[..., i], query @ score.weight[:, i])


@pytest.mark.parametrize("name", ["general", "tanh-dot", "additive", "location"])
def test_parameters_of_heads_are_parameters_of_one_head_each(name: str):
    made = {
        "general": lambda heads: General(5, 3, heads=heads),
        "tanh-dot": lambda heads: TanhDot(3, 5, heads=heads),
        "additive": lambda heads: Additive(5, 3, 7, heads=heads),
        "location": lambda heads: Location(5, 11, heads=heads),
    }[name]
    many, one = made(2).double(), made(None).double()
    query, key = torch.randn(13, 2, 3, 5).double(), torch.randn(13, 2, 7, 3).double()
    together = many(query, many.prepare(key))
    for head in range(2):
        one.load_state_dict({name: parameter[head] for name, parameter in many.state_dict().items()})
        torch.testing.assert_close(one(query[:, head], one.prepare(key[:, head])), together[:, head])


def test_all_positive_parameters_stay_positive():
    for sharpness in (LearnedSharpness(0.1), PredictedSharpness(5)):
        for parameter in sharpness.parameters():
            nn.init.constant_(parameter, -3.0)
        assert (sharpness(torch.randn(2, 5)) > 0).all()
    for bad in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="must be above 0"):
            Cosine(bad)
        with pytest.raises(ValueError, match="must be above 0"):
            Distance(bad)
        with pytest.raises(ValueError, match="must be above 0"):
            InverseDistance(bad)


def test_a_zero_vector_has_cosine_zero_with_everything():
    score = Cosine(3.0)
    assert not score(torch.zeros(2, 5), score.prepare(torch.randn(3, 5))).any()
    assert not score(torch.randn(2, 5), score.prepare(torch.zeros(3, 5))).any()


@pytest.mark.parametrize("name", [*FORMULAS, "inverse-distance", "location"])
def test_first_and_second_derivatives_of_a_read(name: str):
    others = {"inverse-distance": InverseDistance(0.1), "location": Location(5, 7)}
    score = (others[name] if name in others else FORMULAS[name]()[0]).double()
    query, key, value = (x[:1, :2].requires_grad_() for x in sides(name))
    mask = torch.tensor([[True, True], [True, False]])

    def read(*inputs: torch.Tensor) -> torch.Tensor:
        return attend(*inputs[:3], score=score, mask=mask)[0]

    inputs = (query, key, value, *score.parameters())
    assert torch.autograd.gradcheck(read, inputs)
    assert torch.autograd.gradgradcheck(read, inputs)


@pytest.mark.parametrize("heads", [(), (2,)])
def test_derivatives_of_the_additive_kernel(heads: tuple[int, ...]):
    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=torch.float64, requires_grad=True)

    inputs = (draw(*heads, 2, 3), draw(*heads, 5, 3), draw(*heads, 3))
    assert torch.autograd.gradcheck(additive, inputs)
    assert torch.autograd.gradgradcheck(additive, inputs)


def test_heads_of_additive_attention_against_loops():
    heads = MultiHead(6, 2, attend=Attend(Additive(3, 3, 5, heads=2))).double()
    p = reference.parameters(heads)
    query, key = torch.randn(3, 6).double().numpy(), torch.randn(7, 6).double().numpy()
    reads = []
    for head in range(2):
        part = slice(3 * head, 3 * head + 3)
        q, k, v = (
            x @ p[f"{side}.weight"][part].T + p[f"{side}.bias"][part]
            for side, x in (("query", query), ("key", key), ("value", key))
        )
        matrices = (p[f"attend.score.{name}"][head] for name in ("query_weight", "key_weight", "energy"))
        for_query, for_key, energy = matrices
        formula = reference.additive(for_query.T, for_key.T, energy)
        reads.append([reference.lookup(formula, each, k, v)[0] for each in q])
    expected = np.concatenate(reads, -1) @ p["output.weight"].T + p["output.bias"]
    memory = Memory(torch.from_numpy(key)[None], torch.from_numpy(key)[None])
    np.testing.assert_allclose(heads(torch.from_numpy(query)[None], memory)[0].detach().numpy(), expected, rtol=1e-12)


def covered(p: Parameters, past: list[Array]) -> Array:
    """See 2017, equation 10: w_c times the sum of the weights so far."""
    return np.stack(past).sum(0)[:, None] * p["history.weight"]


def convolved(p: Parameters, past: list[Array]) -> Array:
    """Chorowski 2015, equation 8: U (F * a_{t-1}), a filter of 3 whose middle lies on the key."""
    padded = np.concatenate([[0.0], past[-1], [0.0]])
    windows = np.array([padded[key : key + 3] for key in range(len(past[-1]))])
    return windows @ p["history.filters.weight"][:, 0].T @ p["history.linear.weight"].T


@pytest.mark.parametrize(
    ("history", "addition"), [(Coverage(7), covered), (LocationAware(7, filters=2, kernel=3), convolved)]
)
def test_additive_scores_with_a_history(history: History, addition):
    attend = SequentialAttend(Additive(5, 3, 7), history).double()
    query, keys = torch.randn(2, 4, 5, dtype=torch.float64), torch.randn(2, 6, 3, dtype=torch.float64)
    with record(attend) as maps:
        attend(query, Memory(keys, keys, padding(torch.tensor([6, 4]), 6)))
    p = reference.parameters(attend)
    for row, length in enumerate((6, 4)):
        past = [np.zeros(length)]
        for step in range(4):
            extra = addition(p, past)
            hidden = query[row, step].numpy() @ p["score.query_weight"] + keys[row].numpy() @ p["score.key_weight"]
            scores = [p["score.energy"] @ np.tanh(hidden[key] + extra[key]) for key in range(length)]
            past.append(reference.softmax(scores))
            np.testing.assert_allclose(maps[""][row, step, :length].numpy(), past[-1], atol=1e-12)


def test_a_filter_without_a_middle():
    with pytest.raises(ValueError, match="kernel is 4; it must be odd"):
        LocationAware(7, kernel=4)


def test_a_history_hands_on_the_state_of_its_alignment():
    """A window of one key moves on from query to query."""
    attend, memory = (
        SequentialAttend(Additive(5, 3, 7), Coverage(7), LocalMonotonic(0)),
        Memory.of(torch.randn(2, 6, 3)),
    )
    with record(attend) as maps:
        attend(torch.randn(2, 4, 5), memory)
    assert torch.equal(maps[""], torch.eye(4, 6).expand(2, 4, 6))
