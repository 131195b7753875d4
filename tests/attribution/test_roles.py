"""The self-attention of each side of an encoder-decoder: the weights of the model's own heads, with its labels."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from regard import record
from regard.attribution.kinds import Role
from regard.decoding.texts import search_texts
from regard.errors import InputError
from regard.maps import rollout
from regard.models.bahdanau import BahdanauConfig
from regard.models.catalog import MODELS
from regard.tasks.options import FigureOptions, ViewName
from regard.tasks.seq2seq.run import Seq2SeqRun
from regard.text.kinds import END, START
from tests.attribution.by_hand import worked_out
from tests.attribution.untrained import TEXT, going_on, writing
from tests.cli.show import drawn


def recorded(run: Seq2SeqRun) -> dict[Role, np.ndarray]:
    """The weights of all heads while the model is made to write what it wrote: `(layer, head, query, key)`."""
    source = torch.tensor([[*run.tokenizers.source_ids(TEXT), END]])
    ((best,),) = search_texts(run.model, run.tokenizers, [TEXT], run.config.search)
    given = torch.tensor([[START, *best.tokens][: len(best.tokens) + best.finished]])
    with torch.no_grad(), record(run.model) as maps:
        run.model(source, torch.tensor([source.shape[1]]), given)
    names = {role: f"{role}.layers.{{}}.self_attention" for role in ("encoder", "decoder")}
    return {role: np.stack([maps[name.format(layer)][0] for layer in (0, 1)]) for role, name in names.items()}  # pyright: ignore[reportReturnType]


def test_the_encoder_reads_the_whole_source():
    run = writing()
    found, answer = run.attribute(TEXT, role="encoder"), run.predict([TEXT])[0].text
    (lookups,) = found.lookups
    letters = (*run.tokenizers.source.pieces(run.tokenizers.source.encode(TEXT)), "</s>")
    assert (found.prediction.text, lookups.name) == (answer, "encoder self-attention")
    assert lookups.source == lookups.target == letters
    np.testing.assert_allclose(lookups.weights, recorded(run)["encoder"], atol=1e-6)
    np.testing.assert_allclose(found.weights.weights, lookups.weights.mean((0, 1)), atol=1e-6)
    np.testing.assert_allclose(worked_out(lookups), lookups.weights, atol=1e-5)
    assert lookups.source_words is not None
    assert lookups.source_words.labels == (*TEXT.split(), "</s>")


def test_the_decoder_reads_what_it_has_written():
    run = writing()
    found, cross = run.attribute(TEXT, role="decoder"), run.attribute(TEXT)
    (lookups,) = found.lookups
    written = cross.lookups[0].target[:-1]  # the last token was predicted and never read
    assert lookups.source == lookups.target == ("<s>", *written)
    assert (found.prediction.text, lookups.name, cross.lookups[0].name) == (
        cross.prediction.text,
        "decoder self-attention",
        "cross-attention",
    )
    assert len(lookups.target) > 2
    assert np.triu(lookups.weights, 1).max() == 0
    np.testing.assert_allclose(lookups.weights, recorded(run)["decoder"], atol=1e-6)
    np.testing.assert_allclose(worked_out(lookups), lookups.weights, atol=1e-5)


@pytest.mark.parametrize("role", ["encoder", "decoder"])
def test_maps_norms_and_rollout(role: Role):
    run = writing()
    every = run.attribute(TEXT, role=role)
    (lookups,) = every.lookups
    one = run.attribute(TEXT, maps=[4], role=role).weights.weights
    np.testing.assert_allclose(one, lookups.weights[1, 1], atol=1e-6)
    rolled, norms = (run.attribute(TEXT, role=role, kinds=[kind]).weights for kind in ("rollout", "norms"))
    np.testing.assert_allclose(rolled.weights, rollout(lookups.weights.astype(float)), atol=1e-6)
    np.testing.assert_allclose(norms.weights.sum(-1), 1, rtol=1e-6)
    assert np.abs(norms.weights - every.weights.weights).max() > 1e-3
    assert rolled.source == norms.source == lookups.source


def test_a_gradient_is_of_the_whole_model():
    with pytest.raises(InputError, match="not of its encoder self-attention; choose weights or norms"):
        writing().attribute(TEXT, role="encoder", kinds=["gradient"])
    with pytest.raises(InputError, match="map 6 is not there"):
        writing().attribute(TEXT, maps=[6], role="decoder")


@pytest.mark.parametrize("role", ["encoder", "decoder"])
def test_a_recurrent_side_has_none(role: Role):
    run = writing()
    small = BahdanauConfig(embedding=5, width=7, attention=3, maxout=2)
    model = MODELS.build(small, run.tokenizers.source.size, run.tokenizers.target.size).eval()
    other = Seq2SeqRun(run.config, model, run.tokenizers)
    with pytest.raises(InputError, match="is recurrent without attention"):
        other.attribute(TEXT, role=role)


@pytest.mark.parametrize("view", ["matrix", "rollout"])
@pytest.mark.parametrize("role", ["encoder", "decoder"])
def test_views_of_each_role(role: Role, view: ViewName, tmp_path: Path):
    answer, path = drawn(writing(), TEXT, tmp_path / "a.svg", FigureOptions(view=view), role=role)
    assert answer == writing().predict([TEXT])[0].text
    words = " ".join(re.findall(">([^<>]+)</text>", path.read_text()))  # long lines are broken
    mean = ", attention weights, the mean of 6 heads in 2 layers" if view == "matrix" else ""
    assert f"{TEXT} {role} self-attention{mean}" in words


def test_other_runs_have_no_roles(tmp_path: Path):
    with pytest.raises(InputError, match="the option role is not supported by"):
        drawn(going_on(), TEXT, tmp_path / "a.svg", role="decoder")
