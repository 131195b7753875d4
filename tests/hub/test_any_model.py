"""Any model of the transformers library as a run: its pages, and what is refused in one line."""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")

import torch
import transformers
from safetensors.torch import save_file

import regard
from regard.attention.intervene import Cut, intervene
from regard.cli.main import main
from regard.errors import InputError
from regard.hub.any_model import TransformersRun, open_model, run_with_weights
from regard.hub.open_run import open_run
from regard.hub.similarity import similarity
from regard.maps.lookups import Lookups, find_sinks, label_sinks
from regard.maps.reductions import Greatest
from regard.models.published import complete_name
from regard.serve.openai import Embeddings, build_openai_operations, embed
from regard.serve.worker import Replicas
from regard.tasks.options import AttributionOptions
from regard.tasks.seq2seq.run import Seq2SeqRun
from tests.hub.tiny_folders import FAMILIES, TEXT, example, picture, sound, tiny_folder
from tests.tasks.test_kinds import blanks, classes

SOME = ("albert", "deberta", "gpt2", "mistral", "bart", "vit", "whisper")
"""Families of the normal run; the others are slow."""
pytestmark = pytest.mark.filterwarnings("ignore")  # those of the library


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in SOME else [pytest.mark.slow]) for name in FAMILIES]
)
def test_a_page_of_every_family(name: str, tmp_path: Path):
    folder = tiny_folder(name, tmp_path / name)
    run: TransformersRun = open_model(folder)
    found = run.attribute(run.parse(example(name, tmp_path)))
    assert found.write(tmp_path / "page.html") == tmp_path / "page.html"
    for each in found.lookups:
        assert each.weights.shape[:2] == (2, 3)
        assert np.allclose(each.weights.sum(-1), 1, atol=1e-4)
    expected = {"bart": 3, "t5": 3, "whisper": 3, "gpt2": 2, "mistral": 2}
    assert len(found.lookups) == expected.get(name, len(found.lookups))


def test_the_maps_are_those_of_the_model(tmp_path: Path):
    folder = tiny_folder("bert", tmp_path / "bert")
    found = open_model(folder).attribute(TEXT)
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        expected = model(**tokenizer(TEXT, return_tensors="pt"), output_attentions=True).attentions
    np.testing.assert_allclose(found.lookups[0].weights, torch.cat(expected).numpy(), atol=1e-6)
    assert found.lookups[0].source[:3] == ("[CLS]", "the", "old")


def test_written_tokens_are_in_the_row_of_the_step_that_wrote_them(tmp_path: Path):
    found = open_model(tiny_folder("gpt2", tmp_path / "gpt2")).attribute("the old cat")
    written, whole = found.lookups
    assert written.name == "written tokens"
    assert np.array_equal(written.weights, whole.weights[:, :, 2:22])
    assert written.target == whole.target[3:]
    assert (written.weights[:, :, 0, 3:] == 0).all()


def test_the_options_of_show(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch):
    monkeypatch.setattr("regard.hub.any_model.WRITTEN", 4)
    folder, out = str(tiny_folder("bart", tmp_path / "bart")), str(tmp_path / "page.png")
    encoder, heads = ["--role", "encoder"], ["--role", "decoder", "--view", "heads"]
    for options in (["--map", "1", "--target-range", "0:3"], [*encoder, "--view", "rollout"], heads):
        assert main(["show", folder, "the old cat", "--out", out, *options]) == 0, capsys.readouterr().err
    assert main(["show", folder, "the old cat", "--out", str(tmp_path / "page.html"), *encoder]) == 0
    assert main(["show", folder, "the old cat", "--out", out, "--kind", "norms"]) == 2
    assert "no norms; it has weights, gradient, integrated, effect" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["gpt2", "bart", "albert", "bert"])
def test_what_a_written_token_or_a_class_owes_to_the_text(name: str, tmp_path: Path, monkeypatch):
    """Effects are differences of log-probabilities, and the page has them beside the weights."""
    monkeypatch.setattr("regard.hub.any_model.WRITTEN", 4)
    folder = tiny_folder(name, tmp_path / name)
    if name == "albert":
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        config: Any = transformers.AutoConfig.for_model(**config, num_labels=3)
        transformers.AlbertForSequenceClassification(config).save_pretrained(folder)
    run = open_model(folder)
    if name == "bert":
        with pytest.raises(InputError, match="predicts nothing here that an input could change"):
            run.attribute(TEXT, kinds=["effect"])
        filled = run.attribute("the [MASK] cat", kinds=["effect"]).weights
        assert (len(filled.target), len(filled.source)) == (1, 5)
        return
    both = run.attribute(TEXT, kinds=["weights", "effect", "gradient"]).lookups[0]
    assert [*both.alternatives][-2:] == ["gradient", "effect"]
    effects, gradient, path = (run.attribute(TEXT, kind=kind) for kind in ("effect", "gradient", "integrated"))
    np.testing.assert_allclose(gradient.weights.weights.sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(path.weights.weights.sum(-1), 1, rtol=1e-5)
    assert not np.allclose(path.weights.weights, gradient.weights.weights, atol=1e-4)
    assert effects.weights.target == (gradient.weights.target if name == "albert" else both.target)
    inputs = run.read_input(TEXT)
    output = run._write_output(TEXT, inputs, AttributionOptions())
    names, tensors, last = ["network.*"], dict(inputs.tensors), -1
    if name == "gpt2":
        tensors, last = {"input_ids": torch.tensor([[*inputs.text, *output]])}, -2
    if name == "bart":
        names = ["network.*decoder*encoder_attn"]
        tensors["decoder_input_ids"] = torch.tensor([output[:-1]])

    def score() -> float:
        logits = run.network(**tensors).logits
        row = logits[0] if name == "albert" else logits[0, last]
        return float(row.log_softmax(-1)[row.argmax() if name == "albert" else output[-1]])

    with torch.no_grad():
        base = score()
        with intervene(run.model, Cut(keys=[2]), only=names):
            cut = score()
    assert effects.lookups[0].weights[0, 0, -1, 2] == pytest.approx(base - cut, abs=1e-5)
    assert abs(base - cut) > 1e-7


def test_commands_take_published_folders_and_short_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = str(tiny_folder("bert", tmp_path / "bert"))
    assert main(["fill", folder, "the [MASK] cat", "--best", "1"]) == 0
    assert capsys.readouterr().out.startswith("1\t0.")
    assert regard.load(folder).predict("the [MASK] cat").text.endswith(" cat")
    assert main(["info", folder]) == 0
    output = capsys.readouterr().out
    assert "BertForMaskedLM" in output
    assert re.search(r"can +predict, evaluate, attribute, fill, embed\n", output)
    transformers.BertModel.from_pretrained(folder).save_pretrained(folder)  # without the head
    assert main(["info", folder]) == 0
    assert re.search(r"can +attribute, embed\n", capsys.readouterr().out)
    out = str(tmp_path / "forced.tsv")
    assert main(["show", str(tiny_folder("gpt2", tmp_path / "gpt2")), "the old", "--force", "cat", "--out", out]) == 0
    assert "\tcat\t" in Path(out).read_text(encoding="utf-8")
    names = ("gpt2", "bert-base-uncased", "mine", "owner/gpt2", str(tmp_path / "gpt2"))
    full = ("openai-community/gpt2", "google-bert/bert-base-uncased", *names[2:])
    assert tuple(map(complete_name, names)) == full


def test_commands_show_the_class_of_a_published_classifier(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder, image, out = str(tiny_folder("vit", tmp_path / "vit")), example("vit", tmp_path), str(tmp_path / "a.png")
    assert main(["predict", folder, image]) == 0
    predicted = capsys.readouterr().out
    assert predicted.startswith(("cat\t", "dog\t"))
    for options in ([], ["--layer", "1", "--head", "2"], ["--kind", "weights"]):
        assert main(["show", folder, image, "--out", out, *options]) == 0
        assert capsys.readouterr().out.startswith(predicted)
    assert main(["info", folder]) == 0
    assert re.search(r"classes +cat, dog\ncan +predict, evaluate, attribute, embed\n", capsys.readouterr().out)


def test_a_chosen_map_of_a_published_classifier_is_drawn(tmp_path: Path):
    run = regard.load(tiny_folder("vit", tmp_path / "vit"))
    found = run.attribute(example("vit", tmp_path), maps=[4])
    map_four = found.lookups[0].weights[1, 1, 0]
    np.testing.assert_allclose(found.weights.ravel(), map_four / map_four.sum(), rtol=1e-6)
    with pytest.raises(InputError, match="a rollout combines all layers and heads"):
        run.attribute(example("vit", tmp_path), maps=[4], kind="rollout")


def test_a_classifier_that_cannot_be_imported_is_opened_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    folder = tiny_folder("vit", tmp_path / "vit")
    change = json.loads((folder / "preprocessor_config.json").read_text(encoding="utf-8")) | {"rescale_factor": 0.5}
    (folder / "preprocessor_config.json").write_text(json.dumps(change), encoding="utf-8")
    with caplog.at_level("INFO"):
        assert isinstance(open_run(folder), TransformersRun)
    assert "is opened without its outputs" in caplog.text


def test_a_published_recognizer_predicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tiny_folder("whisper", tmp_path / "whisper")
    heard = regard.load(folder).predict(example("whisper", tmp_path), tokens=4)
    assert main(["predict", str(folder), example("whisper", tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tokens"][:4] == list(heard.tokens)
    with pytest.raises(InputError, match=r"is a run of the task transformers, which can .*expected a Seq2SeqRun"):
        regard.load(folder, task=Seq2SeqRun)


def test_a_pair_of_texts_is_joined_as_the_tokenizer_does(tmp_path: Path):
    folder, out = tiny_folder("bert", tmp_path / "bert"), str(tmp_path / "pair.tsv")
    found = regard.show(folder, "the cat", "the dog")
    assert (found.title, *found.lookups[0].source[3:5]) == ("the cat | the dog", "[SEP]", "the")
    assert main(["show", str(folder), "the cat", "the dog", "--top", "1", "--out", out]) == 0
    assert len(Path(out).read_text(encoding="utf-8").splitlines()[1:]) == 7 * 6
    with pytest.raises(InputError, match="there are 2 texts, and a picture shows one"):
        regard.load(folder).show(("the cat", "the dog"))  # fills blanks, in one text


def test_one_line_in_a_notebook(tmp_path: Path):
    folder = tiny_folder("bert", tmp_path / "bert")
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.BertModel.from_pretrained(folder).train()
    found = regard.show(model, tokenizer, TEXT)
    assert (model.training, regard.show(model, tokenizer, "a", "b").title) == (True, "a | b")
    assert "text/html" in found._repr_mimebundle_()
    images = transformers.ViTImageProcessor(size={"height": 32, "width": 32})
    vit = open_model(tiny_folder("vit", tmp_path / "vit")).network
    lookups = regard.show(vit, images, str(picture(tmp_path / "disc.png"))).lookups[0]
    assert (lookups.patches is None, lookups.source_words) == (False, None)


def test_sinks_are_marked_and_left_out_beside():
    weights = np.full((2, 3, 7, 7), 0.04)
    weights[..., 0] = 0.76
    assert find_sinks(weights) == {0: pytest.approx(0.76)}
    rest = label_sinks(Lookups(weights, tuple("<abcdef"), tuple("<abcdef"))).alternatives["without sinks"].weights
    assert np.allclose(rest[..., 1:], 1 / 6)
    assert not rest[..., 0].any()
    assert find_sinks(np.full((1, 3, 3), 1 / 3)) == {}  # few keys
    causal = np.tril(np.ones((9, 9))) / np.arange(1, 10)[:, None]
    assert find_sinks(causal[None]) == {}  # each query reads all its keys alike
    some = np.full((6, 7, 7), 1 / 7)
    some[:2] = weights[0, 0]
    assert find_sinks(some) == {0: pytest.approx((2 * 0.76 + 4 / 7) / 6)}  # of a third of the heads
    some[1] = 1 / 7
    assert find_sinks(some) == {}
    labels = ("<s>", *"abcdef")
    found = label_sinks(Lookups(weights, labels, labels))
    assert found.source == found.target
    assert found.source[0] == "<s> (sink, 76 %)"
    assert (found.alternatives["without sinks"].weights[..., 0] == 0).all()


def changed(folder: Path, **keys: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))
    return folder


def test_code_an_unknown_type_quantised_weights_pickles_and_sizes_are_refused(tmp_path: Path, monkeypatch):
    folder = tiny_folder("bert", tmp_path / "a")
    config = (folder / "config.json").read_text()
    cases: list[tuple[dict[str, Any], str]] = [
        ({"model_type": "own", "auto_map": {"AutoModel": "modeling_own.Own"}}, r"code of its own .*modeling_own.*"),
        ({"model_type": "own"}, "'own' is unknown to transformers"),
        ({"quantization_config": {"quant_method": "gptq"}}, r"its weights are quantized"),
    ]
    for keys, message in cases:
        with pytest.raises(InputError, match=message):
            open_model(changed(folder, **keys))
        (folder / "config.json").write_text(config)
    with monkeypatch.context() as patched:
        patched.setattr("regard.models.published.available_memory", lambda: 1000)
        with pytest.raises(InputError, match=r"GB of memory are free"):  # before it is loaded
            open_model(folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="a pickle alone"):
        open_model(folder)


def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path):
    folder, other = tiny_folder("bert", tmp_path / "a"), tiny_folder("gpt2", tmp_path / "b")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((other / name).read_bytes())
    with pytest.raises(InputError, match=r"the tokenizer has \d+ entries and the model \d+"):
        open_model(folder)


def test_an_input_beyond_the_positions_is_refused(tmp_path: Path):
    run = open_model(tiny_folder("gpt2", tmp_path / "a"))
    with pytest.raises(InputError, match="the text has 65 tokens, but the model has 64 positions; shorten it"):
        run.attribute(" ".join(["cat"] * 65))
    with pytest.raises(InputError, match="is empty"):
        run.parse(" ")


def test_a_model_without_attention_and_missing_weights_are_refused(tmp_path: Path):
    folder = tiny_folder("gpt2", tmp_path / "a")
    sizes: dict[str, Any] = {"vocab_size": 400, "hidden_size": 12, "num_hidden_layers": 1, "state_size": 3}
    transformers.MambaForCausalLM(transformers.MambaConfig(**sizes)).save_pretrained(folder)
    with pytest.raises(InputError, match=r"MambaForCausalLM .*cannot be shown"):
        open_model(folder).attribute(TEXT)
    with pytest.raises(InputError, match=r"its weights lack \d+ parameters of BertForMaskedLM, such as bert"):
        open_model(changed(tiny_folder("bert", tmp_path / "b"), num_hidden_layers=3))


def test_a_role_without_maps_is_left_out_and_named(tmp_path: Path):
    run = open_model(tiny_folder("t5", tmp_path / "a"))
    sizes: dict[str, Any] = {"d_model": 12, "d_kv": 4, "d_ff": 7, "num_layers": 2, "num_heads": 3, "pad_token_id": 0}
    more: dict[str, Any] = {"eos_token_id": 2, "decoder_start_token_id": 0}
    config = transformers.LongT5Config(vocab_size=400, **sizes, **more)
    run.model.network = transformers.LongT5ForConditionalGeneration(config).eval()
    assert [each.name for each in run.attribute(TEXT).lookups] == ["cross-attention", "decoder self-attention"]
    with pytest.raises(InputError, match="no maps of the role encoder; it has cross, decoder"):
        run.attribute(TEXT, role="encoder")


def test_a_text_with_too_many_weights_is_refused_with_what_fits(tmp_path: Path, monkeypatch):
    run = open_model(tiny_folder("bert", tmp_path / "a"))
    monkeypatch.setattr("regard.hub.any_model.MOST_WEIGHTS", 600)
    with pytest.raises(InputError, match="15 tokens, and 6 maps of them are too large to show; shorten it to 10 tok"):
        run.attribute(TEXT)


def test_a_sound_of_another_rate_or_width_is_read(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("regard.hub.any_model.WRITTEN", 4)
    run = open_model(tiny_folder("whisper", tmp_path / "a"))
    expected = run.attribute(str(sound(tmp_path / "high.wav"))).lookups[0].weights
    cross, encoder, _ = run.attribute(str(sound(tmp_path / "low.wav", 8000))).lookups
    assert cross.patches is not None  # the spectrogram, with a column for each key
    assert cross.patches.columns == len(cross.source) == 50
    short = run.attribute(str(sound(tmp_path / "short.wav", seconds=0.3))).lookups[0]  # padding is left out
    assert (len(short.source), short.source[-1], short.patches is None) == (15, "0.28 s", False)
    np.testing.assert_allclose(short.weights.sum(-1), 1, atol=1e-5)
    assert (np.ptp(cross.patches.pixels) > 50, encoder.patches, cross.recording is None) == (True, None, False)
    np.testing.assert_allclose(cross.weights, expected, atol=0.02)
    wide = str(sound(tmp_path / "wide.wav", width=3))
    np.testing.assert_allclose(run.attribute(wide).lookups[0].weights, expected, atol=1e-6)
    bare: Any = partial(run.sounds)  # an extractor that names no hop length
    bare.sampling_rate, run.sounds = 16000, bare
    assert len(run.attribute(wide).lookups[0].source) == 50
    monkeypatch.setattr("regard.hub.any_model.run_with_weights", lambda *given: {"encoder": torch.ones(1, 1, 8, 4) / 4})
    with pytest.raises(InputError, match="cannot be shown"):  # queries and keys of other positions
        run.attribute(wide)


def test_patches_of_a_spectrogram_have_their_times(tmp_path: Path):
    sizes: Any = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 3, "max_length": 64}
    config = transformers.ASTConfig(**sizes, num_mel_bins=16, patch_size=8, time_stride=4, frequency_stride=8)
    transformers.ASTModel(config).save_pretrained(tmp_path)
    transformers.ASTFeatureExtractor(num_mel_bins=16, max_length=64).save_pretrained(tmp_path)
    lookups = regard.show(tmp_path, str(sound(tmp_path / "tone.wav"))).lookups[0]
    times = [f"{4 * step / 100:.2f} s" for step in range(15)]  # frames of 10 ms
    rows = [f"{time}, row {row}" for row in (1, 2) for time in times]
    assert ([*lookups.source], lookups.recording) == (["position 0", "position 1", *rows], None)


def test_a_sound_longer_than_the_model_or_none_is_refused(tmp_path: Path):
    run = open_model(tiny_folder("whisper", tmp_path / "a"))
    most = run.sounds.n_samples
    with pytest.raises(InputError, match=f"long.wav: .* takes at most {most // 16000}"):
        run.attribute(str(sound(tmp_path / "long.wav", 16000, seconds=most // 16000 + 1)))
    with pytest.raises(InputError, match=r"none.wav: no such file; expected audio"):
        run.attribute(str(tmp_path / "none.wav"))


def test_a_text_from_the_network_names_no_file(tmp_path: Path):
    run = open_model(tiny_folder("clip", tmp_path / "clip"))
    with pytest.raises(InputError, match=r"the text ends in \.png, a file's name; a server opens no files"):
        run.example({"text": str(picture(tmp_path / "disc.png"))})
    with pytest.raises(KeyError):
        open_model(tiny_folder("vit", tmp_path / "vit")).example({"text": "disc.png"})
    request = Embeddings(model="clip", input=str(tmp_path / "disc.png"))
    with pytest.raises(InputError, match=r"the text ends in \.png, a file's name; a server opens no files"):
        embed(run, request)
    operations = [build_openai_operations(Replicas(open_model(tmp_path / name))) for name in ("clip", "vit")]
    assert [[*each] for each in operations] == [["embeddings"], []]


def test_a_folder_that_is_neither_is_refused(tmp_path: Path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="has no model_type"):
        open_model(tmp_path)


IDS = torch.tensor([[5, 7, 9, 6, 8]])
PAIRED: dict[str, Any] = {
    f"{side}_{name}": 2 for side in ("encoder", "decoder") for name in ("layers", "attention_heads")
}
PAIRED |= {"vocab_size": 11, "d_model": 12, "encoder_ffn_dim": 5, "decoder_ffn_dim": 5}


def test_windows_are_no_maps_of_the_whole():
    model = transformers.LEDModel(transformers.LEDConfig(**PAIRED, attention_window=4)).eval()
    before = model.config._attn_implementation
    assert set(run_with_weights(model, {"input_ids": IDS, "decoder_input_ids": IDS[:, :3]})) == {"cross", "decoder"}
    assert model.config._attn_implementation == before
    sizes: dict[str, Any] = {"image_size": 16, "patch_size": 2, "embed_dim": 12, "depths": [1], "num_heads": [3]}
    swin = transformers.SwinModel(transformers.SwinConfig(**sizes, window_size=4)).eval()
    assert not run_with_weights(swin, {"pixel_values": torch.randn(1, 3, 16, 16)})


def library(folder: Path, name: str = "AutoModelForCausalLM") -> tuple[Any, Any]:
    model = getattr(transformers, name).from_pretrained(folder).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral"])
@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({}, {"do_sample": False}),
        ({"beam": 3, "length_penalty": 0.5}, {"num_beams": 3, "length_penalty": 0.5}),
        ({"repetition_penalty": 1.5, "no_repeat": 2}, {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2}),
    ],
)
def test_a_continuation_is_that_of_the_library(
    name: str, options: dict[str, Any], settings: dict[str, Any], tmp_path: Path
):
    folder = tiny_folder(name, tmp_path / name)
    (found,) = open_model(folder).predict(["the old cat"], tokens=7, **options)
    model, tokenizer = library(folder)
    inputs = tokenizer("the old cat", return_tensors="pt")
    known = inputs["input_ids"].shape[1]
    expected = model.generate(**inputs, max_new_tokens=7, pad_token_id=0, **settings)[0, known:].tolist()
    assert list(found.ids) == expected
    assert found.finished == (expected[-1] == 2)
    whole = tokenizer.decode([*inputs["input_ids"][0], *expected], skip_special_tokens=True)
    assert f"{found.prompt}{found.text}" == whole.removeprefix(" ")  # the tokenizer's own, before the first word


def test_the_score_is_the_log_probability(tmp_path: Path):
    folder = tiny_folder("gpt2", tmp_path / "gpt2")
    for options in ({}, {"temperature": 1.0, "seed": 5, "n_best": 3}):
        (found,) = open_model(folder).predict(["the old cat"], tokens=5, **options)
        model, tokenizer = library(folder)
        for each in (found, *found.alternatives):
            ids = torch.tensor([[*tokenizer("the old cat")["input_ids"], *each.ids]])
            with torch.no_grad():
                scores = model(ids).logits[0].log_softmax(-1)[:-1].gather(1, ids[0, 1:, None])[:, 0]
            assert each.score == pytest.approx(float(scores[-len(each.ids) :].sum()), abs=1e-3)
    again = open_model(folder).predict(["the old cat"], tokens=5, temperature=1.0, seed=5, n_best=3)[0]
    assert (again.ids, len(again.alternatives)) == (found.ids, 2)


def test_generate_draws_what_new_tokens_attend_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tiny_folder("gpt2", tmp_path / "gpt2")
    run: TransformersRun = open_model(folder)
    (best,) = run.predict(["the old cat"], tokens=4)
    for suffix in (".html", ".png"):
        out = tmp_path / f"page{suffix}"
        assert main(["generate", str(folder), "the old cat", "--tokens", "4", "--attention", str(out)]) == 0
        assert out.stat().st_size > 1000
        assert f"The picture is {out}." in capsys.readouterr().out
    (written, whole) = run.attribute("the old cat", target_tokens=best.ids).lookups
    assert written.target == run.attribute("the old cat").lookups[0].target[:4]
    model, tokenizer = library(folder)
    model.set_attn_implementation("eager")
    ids = [*tokenizer("the old cat")["input_ids"], *best.ids]
    expected = torch.cat(model(torch.tensor([ids]), output_attentions=True).attentions).detach().numpy()
    np.testing.assert_allclose(written.weights, expected[:, :, -5:-1], atol=1e-6)
    np.testing.assert_allclose(whole.weights, expected, atol=1e-6)


def test_an_encoder_decoder_writes_an_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tiny_folder("bart", tmp_path / "bart")
    out = tmp_path / "page.html"
    assert main(["generate", str(folder), "the old cat", "--tokens", "5", "--beam", "2", "--attention", str(out)]) == 0
    assert out.exists()
    model, tokenizer = library(folder, "AutoModelForSeq2SeqLM")
    inputs = tokenizer("the old cat", return_tensors="pt")
    expected = model.generate(
        **{key: inputs[key] for key in ("input_ids", "attention_mask")}, num_beams=2, max_new_tokens=5
    )
    (found,) = open_model(folder).predict(["the old cat"], tokens=5, beam=2)
    assert list(found.ids) == expected[0, 1:].tolist()


@pytest.mark.parametrize("name", ["bert", "vit", "whisper", "clip"])
def test_a_vector_of_a_text_an_image_or_a_sound(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tiny_folder(name, tmp_path / name)
    assert main(["embed", str(folder), example(name, tmp_path)]) == 0
    row = json.loads(capsys.readouterr().out.splitlines()[-1])
    vector = row["vector"]
    assert row[{"bert": "text", "whisper": "audio"}.get(name, "image")] == example(name, tmp_path)
    run: TransformersRun = open_model(folder)
    if run.inputs != {"text": str}:
        content = Path(example(name, tmp_path)).read_bytes()
        np.testing.assert_allclose(run.embed([content])[0].numpy(), vector, atol=1e-6)
    assert len(vector) == 12


def test_a_server_takes_the_files_of_images_and_sounds(tmp_path: Path):
    vit: TransformersRun = open_model(tiny_folder("vit", tmp_path / "vit"))
    whisper: TransformersRun = open_model(tiny_folder("whisper", tmp_path / "whisper"))
    assert (vit.inputs, whisper.inputs) == ({"image": bytes}, {"audio": bytes})
    image, audio = picture(tmp_path / "disc.png").read_bytes(), sound(tmp_path / "tone.wav").read_bytes()
    by_path = vit.attribute(str(tmp_path / "disc.png"))
    sent = vit.attribute(vit.example({"image": image}))
    np.testing.assert_array_equal(sent.lookups[0].weights, by_path.lookups[0].weights)
    heard = whisper.predict([whisper.example({"audio": audio}), str(tmp_path / "tone.wav")], tokens=4)
    assert heard[0].ids == heard[1].ids
    assert "predict" not in vit.supports


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--tokens", "200"], "the model has 64 positions; shorten it, or request at most"),
        (["--seed", "3", "--tokens", "5"], "seed is for sampling; give a temperature too"),
        (["--n-best", "3", "--tokens", "5"], "`num_return_sequences`"),
        (["--attention", "page.txt"], "page.txt: --attention writes a picture; give a name ending in .html"),
        (["a second", "--attention", "page.html"], "--attention draws the continuation of one prompt; give one"),
        (["--int8"], "whose weights regard does not quantise; leave --int8 out"),
    ],
)
def test_what_cannot_be_generated(arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tiny_folder("gpt2", tmp_path / "gpt2")
    assert main(["generate", str(folder), "the old cat", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_model_that_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tiny_folder("bert", tmp_path / "bert")
    assert main(["generate", str(folder), "the old cat"]) == 2
    assert "continue prompts" in capsys.readouterr().err
    with pytest.raises(InputError, match="does not predict; it can attribute"):
        open_model(folder).predict(["the old cat"])


TOKENS = torch.randint(5, 31, (2, 11), generator=torch.Generator().manual_seed(2))
REAL = torch.arange(11) < torch.tensor([[11], [9]])
ATTENTION = "layers.*.self_attn"


@pytest.fixture
def model() -> Any:
    """Every head has a sink, which takes a share of its weights, and every other layer reads a window."""
    sizes: Any = {"hidden_size": 12, "intermediate_size": 5, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 2, "head_dim": 6}
    experts: Any = {"num_local_experts": 2, "num_experts_per_tok": 1}
    config = transformers.GptOssConfig(vocab_size=31, num_key_value_heads=1, sliding_window=3, **sizes, **experts)
    config._experts_implementation = "eager"  # the grouped products know no float64
    torch.manual_seed(3)
    model: Any = transformers.GptOssModel(config)
    for layer in model.layers:
        torch.nn.init.normal_(layer.self_attn.sinks)
    return model.double().eval()


@torch.no_grad()
def test_maps_are_those_of_the_plain_attention(model: Any):
    with regard.record(model, only=ATTENTION) as maps:
        states = model(TOKENS, attention_mask=REAL.long()).last_hidden_state
    with regard.record(model, ATTENTION, heads=[1], rows=[0, 5]) as parts:
        model(TOKENS, attention_mask=REAL.long())
    with regard.record(model, ATTENTION, reduce=Greatest(3)) as greatest:
        model(TOKENS, attention_mask=REAL.long())
    model.set_attn_implementation("eager")
    plain = model(TOKENS, attention_mask=REAL.long(), output_attentions=True)
    torch.testing.assert_close(states[REAL], plain.last_hidden_state[REAL])
    rows = REAL[:, None, :, None]
    assert len(maps) == 2
    for (name, weights), expected in zip(maps.items(), plain.attentions, strict=True):
        torch.testing.assert_close(weights * rows, expected * rows, rtol=1e-6, atol=1e-7)
        torch.testing.assert_close(parts[name], expected[:, [1]][:, :, [0, 5]], rtol=1e-6, atol=1e-7)
        assert torch.equal(greatest[name], weights.topk(3, -1).values)


def test_values_are_not_recorded(model: Any):
    """A measure of weights and values is refused rather than answered with weights."""
    with (
        pytest.raises(ValueError, match=r"reports weights without values; leave measure out"),
        regard.record(model, measure=lambda module, weights, value: weights),
    ):
        model(TOKENS)


TEXTS = ["the old cat sat", "the cat\ta dog", "the old cat sat on the mat and the dog read a book", ""]
WIDTH, LONGEST = 12, 9
OLD, NEW = "sentence_transformers.models.", "sentence_transformers.base.modules.some."


def sentence_folder(folder: Path, *more: str, pooling: dict[str, Any], prefix: str = OLD, **prompts: Any) -> Any:
    """A random BERT with modules after it, and it as transformers runs it with its tokenizer."""
    transformers = pytest.importorskip("transformers")
    tiny_folder("bert", folder)
    names = ["Transformer", "Pooling", *more]
    modules = [
        {"idx": place, "name": str(place), "path": f"{place}_{name}" if place else "", "type": prefix + name}
        for place, name in enumerate(names)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": LONGEST, "do_lower_case": False}))
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    for place, name in enumerate(names[1:], 1):
        (folder / f"{place}_{name}").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).base_model.eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def dense(folder: Path, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """The weights of a Dense module, which it writes."""
    weight, bias = torch.randn(rows, columns), torch.randn(rows)
    save_file({"linear.weight": weight, "linear.bias": bias}, folder / "model.safetensors")
    sizes = {"in_features": columns, "out_features": rows, "bias": True}
    activation = {"activation_function": "torch.nn.modules.activation.Tanh"}
    (folder / "config.json").write_text(json.dumps(sizes | activation))
    return weight.numpy(), bias.numpy()


@torch.no_grad()
def states(parts: Any, text: str) -> np.ndarray:
    """The states of a text that is cut to `LONGEST` tokens, the last of which is [SEP]."""
    model, tokenizer = parts
    ids = tokenizer(text)["input_ids"]
    ids = ids if len(ids) <= LONGEST else [*ids[: LONGEST - 1], ids[-1]]
    return model(torch.tensor([ids])).last_hidden_state[0].numpy()


MODES = {"cls": lambda x: x[0], "lasttoken": lambda x: x[-1], "max": lambda x: x.max(0), "mean": lambda x: x.mean(0)}


@pytest.mark.parametrize("mode", MODES)
def test_the_vector_of_each_mode_of_pooling(mode: str, tmp_path: Path):
    parts = sentence_folder(tmp_path, pooling={"pooling_mode": mode, "embedding_dimension": WIDTH}, prefix=NEW)
    expected = np.stack([MODES[mode](states(parts, text)) for text in TEXTS])
    np.testing.assert_allclose(open_model(tmp_path).embed(TEXTS).numpy(), expected, atol=1e-5)


def test_older_keys_join_the_modes_and_modules_follow(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Pooling of two modes, a dense layer with tanh, and a length of 1, on the command line."""
    pooling = {"word_embedding_dimension": WIDTH, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}
    parts = sentence_folder(tmp_path, "Dense", "Dropout", "Normalize", pooling=pooling)
    weight, bias = dense(tmp_path / "2_Dense", 7, 2 * WIDTH)
    assert main(["embed", str(tmp_path), *TEXTS]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for line, text in zip(lines, TEXTS, strict=True):
        found = states(parts, text)
        mapped = np.tanh(weight @ np.concatenate([found[0], found.mean(0)]) + bias)
        np.testing.assert_allclose(line["vector"], mapped / np.linalg.norm(mapped), atol=1e-5)


def test_a_prompt_precedes_a_text(tmp_path: Path):
    pooling = {"pooling_mode": "mean", "include_prompt": True}
    prompts = {"query": "the cat ", "document": ""}
    parts = sentence_folder(tmp_path, pooling=pooling, prompts=prompts, default_prompt_name="query")
    run = open_model(tmp_path)
    expected = states(parts, "the cat sat on").mean(0)
    for found in (run.embed(["sat on"]), run.embed(["sat on"], prompt="query")):
        np.testing.assert_allclose(found[0].numpy(), expected, atol=1e-5)
    plain = states(parts, "sat on").mean(0)
    np.testing.assert_allclose(run.embed(["sat on"], prompt="document")[0].numpy(), plain, atol=1e-5)
    with pytest.raises(InputError, match="prompt is 'passage'; the model's prompts are: query, document"):
        run.embed(["sat on"], prompt="passage")
    with pytest.raises(InputError, match="leave --prompt or --pool out"):
        run.embed(["sat on"], prompt="query", pool="mean")


def test_a_similarity_is_the_sum_of_its_cells(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Of a folder and of a run that embeds by the mean; other vectors have no exact parts."""
    sentence_folder(tmp_path / "mean", "Normalize", pooling={"pooling_mode": "mean"})
    found, (first, second) = open_model(tmp_path / "mean"), TEXTS[:2]
    parts = similarity(tmp_path / "mean", first, second)
    cosine = float(torch.cosine_similarity(*found.embed([first, second]).double(), dim=0))
    assert float(parts.lookups[0].weights.sum(dtype=float)) == pytest.approx(cosine, abs=1e-6)
    assert (parts.cosine, parts.lookups[0].signed) == (pytest.approx(cosine, abs=1e-6), True)
    drawn = ["show", str(tmp_path / "mean"), "--view", "similarity", "--out", str(tmp_path / "a.png")]
    assert main([*drawn, f"{first}\t{second}"]) == 0
    assert f"{cosine:.4f}" in capsys.readouterr().out
    assert main([*drawn, first]) == 2
    assert "is not a pair; a similarity compares two texts with a tab between" in capsys.readouterr().err
    run = blanks()
    mine = similarity(run, "the cat sat", "on the mat")
    cosine = float(torch.cosine_similarity(*run.embed(["the cat sat", "on the mat"]), dim=0))
    assert mine.cosine == pytest.approx(cosine)
    sentence_folder(tmp_path / "first", pooling={"pooling_mode": "cls"})
    with pytest.raises(InputError, match="does not embed a text by the mean of its tokens"):
        similarity(tmp_path / "first", first, second)
    with pytest.raises(InputError, match="does not compare texts token by token"):
        similarity(classes("bert"), first, second)


def test_a_pool_of_ones_own_leaves_the_modules_out(tmp_path: Path):
    parts = sentence_folder(tmp_path, "Normalize", pooling={"pooling_mode": "mean"})
    expected = states(parts, TEXTS[0])
    found = open_model(tmp_path)
    np.testing.assert_allclose(found.embed(TEXTS[:1], pool="first")[0].numpy(), expected[0], atol=1e-5)
    assert float(found.embed(TEXTS[:1])[0].norm()) == pytest.approx(1.0, abs=1e-6)


def change(folder: Path, name: str, **values: Any) -> None:
    path = folder / name
    path.write_text(json.dumps((json.loads(path.read_text()) if path.exists() else {}) | values))


def modules(folder: Path, place: int, **values: Any) -> None:
    found = json.loads((folder / "modules.json").read_text())
    found[place] |= values
    (folder / "modules.json").write_text(json.dumps(found))


WRONG = {
    "a module of its own": (lambda at: modules(at, 2, type="mine.Head"), "'mine.Head' needs code of its own"),
    "another first module": (lambda at: modules(at, 0, type=OLD + "CLIPModel"), "has the modules CLIPModel, Pooling"),
    "another last module": (lambda at: modules(at, 2, type=OLD + "LSTM"), "Pooling, LSTM; regard computes"),
    "a path outside": (lambda at: modules(at, 2, path="../other"), "other"),
    "no list": (lambda at: (at / "modules.json").write_text("{}"), "expected a JSON list, found dict"),
    "another mode": (lambda at: change(at, "1_Pooling/config.json", pooling_mode="median"), "pooling_mode is 'median'"),
    "no prompt": (lambda at: change(at, "1_Pooling/config.json", include_prompt=False), "include_prompt is False"),
    "another old mode": (
        lambda at: change(at, "1_Pooling/config.json", pooling_mode_weightedmean_tokens=True),
        "pooling_mode_weightedmean_tokens is True",
    ),
    "another activation": (
        lambda at: change(at, "2_Dense/config.json", activation_function="mine.Swish"),
        "activation_function is 'mine.Swish'; regard computes torch.nn",
    ),
    "another task": (
        lambda at: change(at, "sentence_bert_config.json", transformer_task="fill-mask"),
        "transformer_task is 'fill-mask'",
    ),
    "no weights": (lambda at: (at / "2_Dense" / "model.safetensors").unlink(), "2_Dense: has no model.safetensors"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_folder_that_regard_does_not_compute_is_refused(case: str, tmp_path: Path):
    sentence_folder(tmp_path, "Dense", pooling={"pooling_mode": "mean"})
    dense(tmp_path / "2_Dense", 7, WIDTH)
    spoil, message = WRONG[case]
    spoil(tmp_path)
    with pytest.raises(InputError, match=message):
        open_model(tmp_path).embed(TEXTS)


def test_a_prompt_of_a_run_without_prompts(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("transformers")
    tiny_folder("bert", tmp_path)
    assert main(["embed", str(tmp_path), "the cat", "--prompt", "query"]) == 2
    assert "has no prompt for such a vector" in capsys.readouterr().err
