"""One encoder and several decoders: the source is encoded once, and each language is what it would be alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.pairs import Multiparallel, Pair, Parallel
from regard.data.splits import Splits
from regard.data.tokens import Tokenizers
from regard.decoding.search import Search
from regard.errors import InputError
from regard.models.bahdanau import BahdanauConfig
from regard.models.catalog import MODELS
from regard.models.one_to_many import OneToMany
from regard.models.transformer import TransformerConfig
from regard.storage.run_folder import RunDirectory
from regard.tasks.multi_target import (
    MultiTarget,
    MultiTargetObjective,
    MultiTargetPrediction,
    MultiTargetRun,
    average_languages,
    setup,
)
from regard.tasks.seq2seq.training import Seq2SeqObjective
from regard.text import Tokenizer, TokenizerSettings
from regard.training.settings import Training

TEXTS = {
    "en": ["the cat sat", "the mat", "a", "the cat sat on the mat"],
    "de": ["die Katze saß", "die Matte", "eine", "die Katze saß auf der Matte"],
    "fr": ["le chat était assis", "le tapis", "un", "le chat"],
}
LETTERS = TokenizerSettings("character")


@pytest.fixture
def config(tmp_path: Path) -> MultiTarget:
    for name, lines in TEXTS.items():
        (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
    files = [str(tmp_path / name) for name in TEXTS]
    return MultiTarget(
        data=Multiparallel(languages=("de", "fr"), train=tuple(files), valid=tuple(files), test=tuple(files)),
        source=LETTERS,
        target=LETTERS,
        model=BahdanauConfig(embedding=3, width=5, attention=7, maxout=2),
        metrics=("exact-match", "perplexity"),
        training=Training(batch_tokens=50),
    )


def tokenizers() -> dict[str, Tokenizers]:
    source = Tokenizer.train(LETTERS, TEXTS["en"])
    return {name: Tokenizers(source, Tokenizer.train(LETTERS, TEXTS[name])) for name in ("de", "fr")}


def build_many(config: MultiTarget) -> OneToMany:
    return OneToMany({name: MODELS.build(config.model, *sides.sizes) for name, sides in tokenizers().items()})


def splits(language: str) -> Splits[Pair]:
    pairs = [Pair(*texts, f"f:{row}") for row, texts in enumerate(zip(TEXTS["en"], TEXTS[language], strict=True), 1)]
    return Splits(pairs, pairs[:2])


def task(config: MultiTarget, model: OneToMany) -> MultiTargetObjective:
    parts = {
        name: Seq2SeqObjective(config.alone(name), splits(name), sides, model.of(name))
        for name, sides in tokenizers().items()
    }
    return MultiTargetObjective(parts)


def test_the_loss_is_the_sum_of_the_languages_and_the_source_is_read_once(config: MultiTarget):
    model = build_many(config).double()
    one = task(config, model)
    batch = one.batch(0, [0, 3, 1])
    reads = []
    model.encoder.register_forward_hook(lambda *_: reads.append(1))
    found = one.loss(model, batch, 1)
    assert len(reads) == 1
    alone = {name: part.loss(model.of(name), part.batch(0, [0, 3, 1]), 1) for name, part in one.parts.items()}
    wanted = torch.stack([loss.total for loss in alone.values()]).sum()
    torch.testing.assert_close(found.total, wanted, rtol=1e-12, atol=0)
    assert found.tokens == sum(loss.tokens for loss in alone.values())
    gradients = [torch.autograd.grad(total, list(model.parameters())) for total in (found.total, wanted)]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-10, atol=1e-12)


def test_batches_have_room_for_the_longest_target(config: MultiTarget):
    one = task(config, build_many(config))
    assert list(one.lengths[0]) == [len("the cat sat") + 1, len("le chat était assis") + 1]
    assert sorted(index for batch in one.batches(3) for index in batch) == [0, 1, 2, 3]
    assert one.place(2) == "f:3"


def test_validation_has_each_language_and_the_mean(config: MultiTarget):
    one = task(config, build_many(config).eval())
    assert one.higher_is_better
    found = one.validate(build_many(config).eval())
    assert list(found) == [
        *("exact-match", "perplexity", "exact-match/de", "exact-match/fr", "perplexity/de", "perplexity/fr"),
    ]
    assert found["perplexity"] == pytest.approx((found["perplexity/de"] + found["perplexity/fr"]) / 2)
    assert average_languages({"a": {"x": 1.0}, "b": {"x": 4.0}}) == {"x": 2.5, "x/a": 1.0, "x/b": 4.0}


def test_predictions_are_those_of_each_language_alone_from_one_reading(config: MultiTarget):
    model = build_many(config).eval()
    run = MultiTargetRun(config, model, tokenizers())
    reads = []
    model.encoder.register_forward_hook(lambda *_: reads.append(1))
    found = run.predict(TEXTS["en"], beam=3, attention=False)
    assert len(reads) == 1
    for language in ("de", "fr"):
        alone = run.parts()[language].predict(TEXTS["en"], beam=3)
        assert [each.text for each in [each.predictions[language] for each in found]] == [each.text for each in alone]
        assert [each.score for each in [each.predictions[language] for each in found]] == pytest.approx(
            [each.score for each in alone], rel=1e-4
        )
    attending = run.predict(["the cat"])[0].predictions["fr"]
    assert attending.attention is not None
    assert attending.attention.source[:3] == ("t", "h", "e")


def test_the_attribution_has_the_rows_of_each_language(config: MultiTarget):
    run = MultiTargetRun(config, build_many(config).eval(), tokenizers())
    found = run.attribute("the cat", beam=2)
    alone = {language: run.parts()[language].attribute("the cat", beam=2) for language in run.parts()}
    assert isinstance(found.prediction, MultiTargetPrediction)
    assert {name: each.text for name, each in found.prediction.predictions.items()} == {
        name: each.prediction.text for name, each in alone.items()
    }
    assert found.weights.source == alone["de"].weights.source
    np.testing.assert_allclose(found.weights.weights, np.concatenate([each.weights.weights for each in alone.values()]))
    assert found.weights.target == tuple(
        f"{name}: {piece}" for name, each in alone.items() for piece in each.weights.target
    )
    assert [each.name for each in found.lookups] == list(alone)
    assert "attention weights" in found.heading
    labels = found.figure().axes[0].get_yticklabels()
    assert any(label.get_text().startswith("fr: ") for label in labels)


def test_the_run_of_a_language_is_measured_on_its_own_files(config: MultiTarget):
    run = MultiTargetRun(config, build_many(config).eval(), tokenizers())
    figures = run.evaluate()
    assert figures["perplexity/fr"] == pytest.approx(run.parts()["fr"].evaluate()["perplexity"])
    files = run.parts()["fr"].config.data
    assert isinstance(files, Parallel)
    named = [[Path(name).name for name in pair or ()] for pair in (files.train, files.valid, files.test)]
    assert named == [["en", "fr"]] * 3
    some = {name: splits(name).train[2:] for name in ("de", "fr")}
    measured = run.evaluate(some)
    assert measured["perplexity/de"] == pytest.approx(run.parts()["de"].evaluate(some["de"])["perplexity"])
    assert measured["perplexity/de"] != pytest.approx(figures["perplexity/de"])
    with pytest.raises(InputError, match=r"there are no pairs to score fr on; name a test set in data\.test"):
        run.evaluate({"de": some["de"]})


def test_shared_embeddings_are_refused(config: MultiTarget):
    with pytest.raises(ValueError, match="transformer needs one vocabulary"):
        MultiTarget(data=config.data, source=LETTERS, target=LETTERS, model=TransformerConfig(), metrics=("bleu",))


def test_languages_may_be_named_like_anything(config: MultiTarget, tmp_path: Path):
    files = config.data.train
    data = Multiparallel(languages=("source", "to"), train=files, valid=files)
    named = replace(config, data=data, output_bias="frequencies", search=Search(beam=1))
    with RunDirectory.create(tmp_path / "run") as folder:
        prepared = setup(named, folder, 1)
    assert len(prepared.tokenizers) == 3
    assert isinstance(prepared.model, OneToMany)
    assert isinstance(prepared.objective, MultiTargetObjective)
    for name, part in prepared.objective.parts.items():
        decoder = prepared.model.of(name).decoder
        assert decoder.output.out_features == part.tokenizers.target.size
        counts = part.frequencies() + 1
        torch.testing.assert_close(decoder.output.bias.detach().softmax(-1), counts / counts.sum())


def test_a_beam_wider_than_the_vocabulary_is_refused_at_once(config: MultiTarget, tmp_path: Path):
    bad = replace(config, search=Search(beam=90))
    with RunDirectory.create(tmp_path / "run") as folder, pytest.raises(InputError, match=r"search\.beam is 90, more"):
        setup(bad, folder, 1)
