"""Published BERTs, RoBERTas and DistilBERTs: the same as transformers in every number and every token."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer as Backend
from torch import Tensor

from regard import load
from regard.attention.record import record
from regard.errors import InputError
from regard.hub import export_run, import_run
from regard.hub.formats import families
from regard.hub.formats.folder import Folder
from regard.hub.formats.pretrained_model import PretrainedModel
from regard.models.bert import Bert, BertConfig
from regard.storage.tensors import load_into
from regard.tasks.masked_language_model.run import MaskedLanguageModelRun
from tests.hub.published import BERTS, POSITIONS, TEXTS, filler, roberta_pairs, word_pieces

BERT_NAMES = ("[MASK]", "[CLS]", "[SEP]", "[PAD]", "[UNK]")
NAMES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("roberta", "xlm-roberta"), ("<mask>", "<s>", "</s>", "<pad>", "<unk>")),
    "mpnet": ("<mask>", "<s>", "</s>", "<pad>", "[UNK]"),
}
SEGMENTED = ("bert", "electra")
KINDS = ("bert", "roberta", "distilbert", "xlm-roberta", "mpnet", "electra")
ODD = ["", " ", "  two  blanks ", "[MASK] and <mask> and [SEP]", "ÉCOLE naïve", "日本 12.5%", "x" * 101]
cases = pytest.mark.parametrize(
    ("kind", "sizes"),
    [(kind, sizes) for kind in KINDS for sizes in BERTS],
    ids=lambda value: str(value) if isinstance(value, str) else f"width-{value['hidden_size']}",
)


def opened(folder: Path, kind: str, sizes: dict[str, Any]) -> tuple[Bert, PretrainedModel, Any]:
    theirs = filler(folder, kind, **sizes)
    found = families.read(Folder(folder))
    assert isinstance(found.config, BertConfig)
    model = Bert(found.tokenizer.size, found.config)
    load_into(model, found.tensors)
    return model.eval(), found, theirs


@cases
@torch.no_grad()
def test_states_maps_and_logits_are_those_of_transformers(kind: str, sizes: dict[str, Any], tmp_path: Path):
    model, found, theirs = opened(tmp_path, kind, sizes)
    lengths = torch.tensor([POSITIONS, 7, 1])
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(2, found.tokenizer.size, (3, POSITIONS), generator=generator)
    real = torch.arange(POSITIONS) < lengths[:, None]
    tokens = tokens.where(real & (tokens != found.tokenizer.special.pad), found.tokenizer.special.pad)
    segments = torch.randint(2, (3, POSITIONS), generator=generator) if kind in SEGMENTED else None
    more = {} if segments is None else {"token_type_ids": segments}
    wanted = theirs(tokens, attention_mask=real.long(), output_attentions=True, output_hidden_states=True, **more)
    layers: list[Tensor] = [*model.encoder.layered(tokens, lengths, segments)]
    with record(model, only=model.self_attention) as maps:
        states = model(tokens, lengths, segments)
    assert len(layers) == len(maps) + 1 == sizes["num_hidden_layers"] + 1
    for ours, expected in zip(layers, wanted.hidden_states, strict=True):
        torch.testing.assert_close(ours[real], expected[real], rtol=1e-5, atol=1e-5)
    for ours, expected in zip(maps.values(), wanted.attentions, strict=True):
        rows = real[:, None, :, None].expand_as(ours)
        torch.testing.assert_close(ours[rows], expected[rows], rtol=1e-5, atol=1e-5)
    assert model.predictions is not None
    logits = wanted.prediction_logits if kind == "bert" else wanted.logits
    torch.testing.assert_close(model.predictions(states)[real], logits[real], rtol=1e-5, atol=1e-5)
    if kind == "bert":
        assert model.pooler is not None
        assert model.next_sentence is not None
        found_next = model.next_sentence(model.pooler(states))
        torch.testing.assert_close(found_next, wanted.seq_relationship_logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["bert", "roberta"])
@pytest.mark.parametrize("text", [*TEXTS, *ODD])
def test_text_is_cut_as_theirs(kind: str, text: str, tmp_path: Path):
    _, found, _ = opened(tmp_path, kind, BERTS[0])
    theirs = Backend.from_file(str(tmp_path / "tokenizer.json"))
    theirs.encode_special_tokens = True  # the name of a special token is plain text
    assert found.tokenizer.encode(text) == theirs.encode(text, add_special_tokens=False).ids


@cases
def test_there_and_back_is_the_same(kind: str, sizes: dict[str, Any], tmp_path: Path):
    filler(tmp_path / "published", kind, **sizes)
    import_run(str(tmp_path / "published"), tmp_path / "run")
    assert export_run(tmp_path / "run", tmp_path / "exported") == ["the files as regard reads them", "transformers"]
    import_run(str(tmp_path / "exported"), tmp_path / "again")
    for name in ("weights.safetensors", "tokenizer.json", "config.yaml"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name
    constants = ("position_ids", "decoder.weight", "decoder.bias", "vocab_projector.weight", "lm_head.weight")
    published, exported = (Folder(tmp_path / name).tensors() for name in ("published", "exported"))
    assert set(exported) == {name for name in published if not name.endswith(constants)}


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_blanks_are_filled_as_by_transformers(kind: str, tmp_path: Path):
    theirs = filler(tmp_path / "published", kind, **BERTS[1])
    import_run(str(tmp_path / "published"), tmp_path / "run")
    run = load(tmp_path / "run", "cpu", task=MaskedLanguageModelRun)
    tokenizer = Backend.from_file(str(tmp_path / "published" / "tokenizer.json"))
    mark, first, last, padding, unknown = NAMES.get(kind, BERT_NAMES)
    text = "the ____ sat on ____ mat"
    given = tokenizer.encode(f"{first}{text.replace('____', mark)}{last}", add_special_tokens=False).ids
    logits = theirs(torch.tensor([given]))
    found = (logits.prediction_logits if kind == "bert" else logits.logits)[0].softmax(-1)
    [blanks] = run.fill([text], best=3, blank="____")
    places = [place for place, index in enumerate(given) if index == tokenizer.token_to_id(mark)]
    assert len(blanks) == len(places) == 2
    special = [tokenizer.token_to_id(name) for name in (mark, first, last, padding, unknown)]
    found[:, special] = 0
    for place, ways in zip(places, blanks, strict=True):
        values, _ = found[place].topk(3)
        assert [way.probability for way in ways] == pytest.approx(values.tolist(), rel=1e-4)
        assert ways[0].text == blanks[0][0].text  # with both blanks at their best
    states = theirs(torch.tensor([given]), output_hidden_states=True).hidden_states[-1][0]
    vectors = [run.embed([text.replace("____", "cat")], pool=pool)[0] for pool in ("mean", "first")]
    plain = tokenizer.encode(f"{first}{text.replace('____', 'cat')}{last}", add_special_tokens=False).ids
    states = theirs(torch.tensor([plain]), output_hidden_states=True).hidden_states[-1][0]
    torch.testing.assert_close(vectors[0], states.mean(0), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(vectors[1], states[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sizes", BERTS, ids=lambda sizes: f"width-{sizes['hidden_size']}")
@torch.no_grad()
def test_a_discriminator_tells_replaced_tokens_as_transformers(sizes: dict[str, Any], tmp_path: Path):
    """ELECTRA's discriminator is an encoder with a head that goes out again; its run embeds."""
    theirs = filler(tmp_path / "published", "electra discriminator", **sizes)
    import_run(str(tmp_path / "published"), tmp_path / "run")
    run: Any = load(tmp_path / "run", "cpu")
    assert run.config.model.embedding == (None if sizes["num_hidden_layers"] == 1 else theirs.config.embedding_size)
    tokens = torch.arange(3 * POSITIONS).view(3, -1) % 60 + 6
    lengths = torch.tensor([POSITIONS, 7, 1])
    real = torch.arange(POSITIONS) < lengths[:, None]
    expected = theirs(tokens, attention_mask=real.long(), output_hidden_states=True)
    states = run.model(tokens, lengths)
    torch.testing.assert_close(states[real], expected.hidden_states[-1][real], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(run.model.discriminator(states)[real], expected.logits[real], rtol=1e-5, atol=1e-5)
    assert run.embed(TEXTS).shape == (3, sizes["hidden_size"])
    with pytest.raises(InputError, match="this model fills no blanks"):
        run.fill(["a [MASK]"])
    export_run(tmp_path / "run", tmp_path / "exported")
    published, exported = (Folder(tmp_path / name) for name in ("published", "exported"))
    assert published.tensors().keys() == exported.tensors().keys()
    assert exported.json("config.json")["architectures"] == ["ElectraForPreTraining"]


def test_the_encoder_alone(tmp_path: Path):
    _, _, theirs = opened(tmp_path / "whole", "bert", BERTS[1])
    theirs.bert.save_pretrained(tmp_path / "alone")
    word_pieces().save(str(tmp_path / "alone" / "tokenizer.json"))
    found = families.read(Folder(tmp_path / "alone"))
    assert isinstance(found.config, BertConfig)
    assert (found.config.predictions, found.config.pooler, found.config.next_sentence) == (False, True, False)
    load_into(Bert(found.tokenizer.size, found.config), found.tensors)
    import_run(str(tmp_path / "alone"), tmp_path / "run")
    run = load(tmp_path / "run", "cpu", task=MaskedLanguageModelRun)
    assert run.embed(TEXTS).shape == (3, 10)
    with pytest.raises(InputError, match="this model fills no blanks"):
        run.fill(["a [MASK]"])
    export_run(tmp_path / "run", tmp_path / "exported")


@pytest.mark.parametrize("uncased", [True, False])
def test_a_vocabulary_in_a_list(uncased: bool, tmp_path: Path):
    filler(tmp_path, "bert", **BERTS[0])
    ids = word_pieces().get_vocab()
    entries = sorted(ids, key=ids.__getitem__)
    (tmp_path / "vocab.txt").write_text("\n".join(entries) + "\n", encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(f'{{"do_lower_case": {str(uncased).lower()}}}')
    (tmp_path / "tokenizer.json").unlink()
    found = families.read(Folder(tmp_path))
    assert found.tokenizer.settings.kind == ("wordpiece-uncased" if uncased else "wordpiece")


def test_the_tokenizer_of_another_family(tmp_path: Path):
    filler(tmp_path, "bert", **BERTS[0])
    roberta_pairs().save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(InputError, match="it belongs to another model"):
        families.read(Folder(tmp_path))
