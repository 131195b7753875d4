"""What an answer depended on, in each way that runs show it: weights, gradient, norms, rollout. The runs are small and
know nothing, which is enough to ask what made them say what they say."""

from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import nn

from regard.attention.record import record
from regard.attribution.attention import ValueNorms
from regard.attribution.kinds import GRADIENTS, Kind
from regard.cli.show import choose_maps
from regard.data.images import ImageFolders
from regard.errors import InputError
from regard.maps import Alignment, DocumentWeights, TextWeights, rollout, shares
from regard.maps.heads import HeadMaps
from regard.maps.lookups import mean_alignment
from regard.models import catalog
from regard.models.attention_language_model import AttentionLanguageModelConfig
from regard.models.bert import Bert, BertConfig, BertSpans
from regard.models.catalog import CLASSIFIERS
from regard.models.esim import EsimConfig
from regard.models.gpt2 import GPT2Config
from regard.models.han import FlatConfig, HanConfig
from regard.models.language_model import RecurrentLanguageModelConfig
from regard.models.rocktaschel import RocktaschelConfig
from regard.models.vit import Vit, VitConfig
from regard.pictures.page import build_payload
from regard.tasks.class_prediction import ClassPrediction
from regard.tasks.classification.data import LabelledTables
from regard.tasks.classification.inputs import Classification
from regard.tasks.classification.run import ClassificationRun, ClassOutputs
from regard.tasks.extractive_qa.data import ExtractiveQA, Questions
from regard.tasks.extractive_qa.run import ExtractiveQARun
from regard.tasks.image_classification import ImageClassification, ImageClassificationRun
from regard.tasks.language_model.run import LanguageModelling, LanguageModelRun
from regard.tasks.masked_language_model.config import DocumentFiles, MaskedLanguageModelling
from regard.tasks.masked_language_model.run import MaskedLanguageModelRun
from regard.tasks.options import AttributionOptions
from regard.text import Tokenizer, TokenizerSettings
from regard.text.kinds import END

TEXT = "the cat sat on the mat"
KINDS = [kind for kind in get_args(Kind) if kind != "effect"]
"""Those whose rows are shares; effects are in tests/attribution/test_effects.py."""
BERT = BertConfig(layers=2, width=6, heads=3, hidden=7, context=17, dropout=0.0)
WORDS = TokenizerSettings("wordpiece", size=60)
CLASSES = {
    "bert": BERT,
    "han": HanConfig(embedding=5, width=3, attention=7, longest_sentence=4),
    "flat-attention": FlatConfig(embedding=5, width=3, attention=7),
    "rocktaschel": RocktaschelConfig(embedding=5, width=7),
    "esim": EsimConfig(embedding=5, width=7, dropout=0.0),
}
PAIRED = ("rocktaschel", "esim")


def drawn(model: nn.Module) -> Any:
    """Far enough from where training starts that every part matters."""
    torch.manual_seed(3)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model.double().eval()


def language_model(config: Any) -> LanguageModelRun:
    tokenizer = Tokenizer.train(TokenizerSettings("space"), [TEXT])
    model = drawn(catalog.LANGUAGE_MODELS.build(config, tokenizer.size))
    return LanguageModelRun(LanguageModelling.__new__(LanguageModelling), model, tokenizer)


def blanks(**more: Any) -> MaskedLanguageModelRun:
    tokenizer = Tokenizer.train(WORDS, [TEXT])
    config = BertConfig(**{**vars(BERT), **more})
    run = MaskedLanguageModelling(data=DocumentFiles(train="none.txt"), tokenizer=WORDS, model=config)
    return MaskedLanguageModelRun(run, drawn(Bert(tokenizer.size, config)), tokenizer)


def classes(name: str) -> ClassificationRun:
    tokenizer = Tokenizer.train(WORDS if name == "bert" else TokenizerSettings("word"), [TEXT])
    second = "other" if name in PAIRED else None
    data = LabelledTables(train="none.tsv", second=second)
    config = Classification(data=data, tokenizer=tokenizer.settings, model=CLASSES[name])
    model = drawn(CLASSIFIERS.build(config.sizes, tokenizer.size, 3))
    return ClassificationRun(config, model, tokenizer, ClassOutputs(("one", "two", "three")))


def spans() -> ExtractiveQARun:
    tokenizer = Tokenizer.train(WORDS, [TEXT])
    config = ExtractiveQA(data=Questions(train=("none.json",), valid=("none.json",)), tokenizer=WORDS, model=BERT)
    return ExtractiveQARun(config, drawn(BertSpans(tokenizer.size, BERT)), tokenizer)


GPT = GPT2Config(layers=2, width=6, heads=3, context=11)
LANGUAGE_MODELS = {
    "gpt2": GPT,
    "attention": AttentionLanguageModelConfig(embedding=5, width=5, window=5, copying=True),
    "recurrent": RecurrentLanguageModelConfig(embedding=5, width=5),
}


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_a_language_model_owes_to_its_past_alone(name: str):
    run = language_model(LANGUAGE_MODELS[name])
    reading = run.attribute(TEXT, kinds=["gradient"])
    words = ("</s>", *TEXT.split())
    assert (reading.weights.source, reading.weights.target) == (words, words)
    assert np.triu(reading.weights.weights, 1).max() == 0.0
    np.testing.assert_allclose(reading.weights.weights.sum(-1), 1, rtol=1e-12)
    ids = torch.tensor([[END, *run.tokenizer.encode(TEXT)]])
    logits, _ = run.model(ids, run.model.begin(1))
    assert reading.prediction.text == run.tokenizer.pieces([int(logits[0, -1].argmax())])[0]


STEP = 1e-5


def test_norms_and_rollout_of_a_language_model():
    run = language_model(GPT)
    ids = torch.tensor([[END, *run.tokenizer.encode(TEXT)]])
    with torch.no_grad(), record(run.model) as maps:
        run.model(ids, run.model.begin(1))
    layers = np.stack([maps[f"blocks.{layer}.self_attention"][0].numpy() for layer in range(2)])
    np.testing.assert_allclose(run.attribute(TEXT, kinds=["rollout"]).weights.weights, rollout(layers), rtol=1e-12)
    weights, norms = (run.attribute(TEXT, kinds=[kind]).weights.weights for kind in ("weights", "norms"))
    np.testing.assert_allclose(norms.sum(-1), 1, rtol=1e-12)
    assert np.abs(norms - weights).max() > 0.05
    shown = run.attribute(TEXT, kinds=["norms"]).lookups[0]
    with torch.no_grad(), record(run.model, measure=ValueNorms(run.model)) as measured:
        run.model(ids, run.model.begin(1))
    raw = np.stack([measured[f"blocks.{layer}.self_attention"][0].numpy() for layer in range(2)])
    np.testing.assert_allclose(shown.weights, raw, rtol=1e-6)
    np.testing.assert_allclose(shares(mean_alignment(shown).weights), norms, rtol=1e-5)
    np.testing.assert_allclose(HeadMaps.of(shown).mean().weights, norms, rtol=1e-5)
    (packed,) = build_payload([shown])["lookups"][0]["maps"]
    assert (packed["name"], packed["amounts"], shown.breakdown) == ("norms", True, None)
    assert packed["scale"] == pytest.approx(raw.max(), rel=1e-6)
    one = run.attribute(TEXT, maps=[4], kinds=["norms"]).weights.weights
    assert np.abs(norms - one).max() > 0.05


@pytest.mark.parametrize(
    ("name", "kind", "maps", "said"),
    [
        ("gpt2", "rollout", [0], "a rollout combines all layers and heads. Remove --layer"),
        ("gpt2", "gradient", [0], "a gradient is of the whole model, not of a layer or head. Remove --layer"),
        ("gpt2", "norms", [6], "map 6 is not there; the model has 6"),
        ("attention", "rollout", None, "this run's model lacks; use weights, norms or gradient"),
        ("recurrent", "norms", None, "is recurrent without attention"),
        ("recurrent", "rollout", None, "is recurrent without attention"),
    ],
)
def test_language_models_refuse(name: str, kind: Kind, maps: list[int] | None, said: str):
    with pytest.raises(InputError, match=said):
        language_model(LANGUAGE_MODELS[name]).attribute(TEXT, maps=maps, kinds=[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_blanks(kind: Kind):
    run = blanks()
    text = "the [MASK] sat on the [MASK]"
    reading = run.attribute(text, kinds=[kind])
    np.testing.assert_allclose(reading.weights.weights.sum(-1), 1, rtol=1e-6)
    assert len(reading.weights.source) == 8
    first, second = run.fill([text], best=1)[0]
    assert reading.prediction.text == first[0].text
    if kind in GRADIENTS:
        assert reading.weights.target == (first[0].token, second[0].token)
    else:
        assert reading.weights.target == reading.weights.source


def test_blanks_refuse():
    with pytest.raises(
        InputError, match=r"'the cat' has no blank, and a gradient is of the token that fills one; write \[MASK\]"
    ):
        blanks().attribute("the cat", kinds=["gradient"])
    with pytest.raises(InputError, match="this model fills no blanks"):
        blanks(predictions=False).attribute("the [MASK]", kinds=["gradient"])


@pytest.mark.parametrize("kind", KINDS)
def test_spans(kind: Kind):
    run = spans()
    reading = run.attribute(("the cat", TEXT), kinds=[kind])
    np.testing.assert_allclose(reading.weights.weights.sum(-1), 1, rtol=1e-6)
    if kind not in GRADIENTS:
        assert reading.weights.target == reading.weights.source
        return
    begins, ends = reading.weights.target
    assert (begins[:8], ends[:6]) == ("begins: ", "ends: ")
    words = reading.prediction.text.split()
    assert (begins[8:], ends[6:]) == (words[0][: len(begins) - 8], words[-1][-len(ends[6:].removeprefix("##")) :])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CLASSES)
def test_classes(name: str, kind: Kind):
    run = classes(name)
    text: Any = (TEXT, "the dog sat") if name in PAIRED else "the cat sat. on the mat the cat sat. on the mat."
    if kind == "rollout" and name != "bert":
        with pytest.raises(InputError, match="has no rollout; it has weights, gradient, integrated, norms"):
            run.attribute(text, kinds=[kind])
        return
    looked = run.attribute(text, kinds=[kind])
    assert isinstance(looked.prediction, ClassPrediction)
    assert looked.prediction.probabilities == pytest.approx(run.predict([text])[0].probabilities)
    if isinstance(looked.weights, Alignment):
        np.testing.assert_allclose(looked.weights.weights.sum(-1), 1, rtol=1e-6)
    elif kind in GRADIENTS or name == "bert":
        assert isinstance(looked.weights, TextWeights)
        whole = np.abs(looked.weights.weights).sum()
        assert 0.5 < whole < 1 if looked.weights.averaged else whole == pytest.approx(1)
        assert looked.weights.signed or kind not in GRADIENTS
        assert looked.weights.labels == tuple(" ".join(text if isinstance(text, tuple) else [text]).split())
        assert looked.weights.name == (looked.prediction.text if kind in GRADIENTS else "the class")
    else:
        assert isinstance(looked.weights, DocumentWeights)
        assert looked.weights.weights.sum() == pytest.approx(1)
        assert all(words.sum() == pytest.approx(1) for words in looked.weights.words)
        assert looked.weights.sentences == run.attribute(text).weights.sentences


def test_two_arguments_are_a_pair_and_heads_are_chosen_by_layer():
    assert classes("rocktaschel").parse_arguments(["a", "b"]) == [("a", "b")]
    assert classes("rocktaschel").parse_arguments(["a\tb", "c\td"]) == [("a", "b"), ("c", "d")]
    assert classes("bert").parse_arguments(["a", "b"]) == ["a", "b"]
    assert spans().parse_arguments(["who?", "the cat"]) == [("who?", "the cat")]
    chosen = [((1, None), (3, 4, 5)), ((None, 2), (2, 5)), ((1, 0), (3,))]
    for (layer, head), maps in chosen:
        assert choose_maps(classes("bert"), [TEXT], AttributionOptions(), layer, head) == maps


def test_words_of_a_document_owe_what_their_tokens_do():
    """Over sentences that are sorted by length on the way: the classes' score against longer vectors of tokens."""
    run = classes("han")
    embedding: Any = run.model.embedding
    looked = run.attribute("the cat sat. the mat.", kinds=["gradient"])
    assert isinstance(looked.weights, TextWeights)
    assert looked.weights.labels == ("the", "cat", "sat.", "the", "mat.")
    tokens = torch.tensor([[*run.tokenizer.encode("the mat."), 0], run.tokenizer.encode("the cat sat.")])
    place = run.outputs.labels.index(looked.prediction.text)
    given = tokens, torch.tensor([3, 4]), torch.tensor([[1, 0]]), torch.tensor([2])
    amounts = np.zeros((2, 4))
    for row in range(2):
        for column in range(4):
            both = []
            for factor in (1 + STEP, 1 - STEP):
                factors = torch.ones(2, 4, 1, dtype=torch.float64)
                factors[row, column] = factor
                hook = embedding.register_forward_hook(lambda *call, factors=factors: call[2] * factors)
                with torch.no_grad():
                    both.append(float(run.model(*given)[0].log_softmax(-1)[place]))
                hook.remove()
            amounts[row, column] = both[0] - both[1]
    words = [amounts[1, 0], amounts[1, 1], amounts[1, 2:].mean(), amounts[0, 0], amounts[0, 1:3].mean()]
    np.testing.assert_allclose(looked.weights.weights, words / np.abs(amounts).sum(), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("pooling", ["first", "mean"])
@pytest.mark.parametrize("kind", ["weights", "rollout"])
def test_images(kind: Kind, pooling: Any):
    sizes = VitConfig(image=6, patch=2, channels=1, layers=2, width=6, heads=3, hidden=7, pooling=pooling)
    config = ImageClassification(data=ImageFolders(train="none"), model=sizes)
    run = ImageClassificationRun(config, drawn(Vit(3, sizes)).float(), ["one", "two", "three"])
    image = np.random.default_rng(1).integers(0, 256, (6, 6), dtype=np.uint8)
    attribution = run.attribute(image, kinds=[kind])
    looked = attribution.weights
    assert looked.shape == (3, 3)
    assert looked.sum() == pytest.approx(1)
    assert looked.min() >= 0
    assert isinstance(attribution.prediction, ClassPrediction)
    assert attribution.prediction.probabilities == pytest.approx(run.predict([image])[0].probabilities, abs=1e-5)


def test_an_image_is_read_once():
    sizes = VitConfig(image=6, patch=2, channels=1, layers=2, width=6, heads=3, hidden=7)
    config = ImageClassification(data=ImageFolders(train="none"), model=sizes)
    run = ImageClassificationRun(config, drawn(Vit(3, sizes)).float(), ["one", "two", "three"])
    image, calls = np.random.default_rng(1).integers(0, 256, (6, 6), dtype=np.uint8), []
    run.model.register_forward_hook(lambda *call: calls.append(call))
    found = run.attribute(image, kinds=["weights", "rollout"])
    assert len(calls) == 1
    with record(run.model, only="encoder.layers.1.self_attention") as maps:
        run.model(calls[0][1][0])
    (weights,) = (each[0, :, 0, 1:].detach().numpy() for each in maps.values())
    np.testing.assert_allclose(found.lookups[0].weights[1, :, 0], weights, rtol=1e-5)
    last = weights.mean(0) / weights.mean(0).sum()
    np.testing.assert_allclose(found.weights.ravel(), last, rtol=1e-5)
