"""Any model of the transformers library as a run: its pages, and what is refused in one line."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")

import torch
import transformers

import regard
from regard.cli.main import main
from regard.errors import InputError
from regard.hub.any_model.passes import RoleMaps, attended, lookups_of
from regard.hub.any_model.run import TransformersRun
from regard.hub.open_run import open_run
from regard.maps.heads import Side
from regard.maps.lookups import find_sinks, remove_keys
from regard.maps.reductions import Totals, mean_entropies, rollout
from regard.serve.openai import Embeddings, build_openai_operations, embed
from regard.serve.worker import Replicas
from regard.storage.published_folder import INDEX
from regard.tasks.options import AttributionOptions
from regard.tasks.prediction import TextPrediction
from tests.hub.tiny_folders import FAMILIES, TEXT, example, picture, sound, tiny_folder

SOME = ("albert", "deberta", "gpt2", "mistral", "bart", "vit", "whisper")
"""Families of the normal run; the others are slow."""
pytestmark = pytest.mark.filterwarnings("ignore")  # those of the library


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in SOME else [pytest.mark.slow]) for name in FAMILIES]
)
def test_row_86_a_page_of_every_family(name: str, tmp_path: Path):
    folder = tiny_folder(name, tmp_path / name)
    run: TransformersRun = open_run(folder)
    found = run.attribute(run.parse(example(name, tmp_path)))
    assert found.write(tmp_path / "page.html") == [tmp_path / "page.html"]
    for each in found.lookups:
        assert each.weights.shape[:2] == (2, 3)
        sums = each.weights.sum(-1)
        assert np.allclose(sums, 1, atol=1e-4)
    expected = {"bart": 3, "t5": 3, "whisper": 3, "gpt2": 2, "mistral": 2}
    assert len(found.lookups) == expected.get(name, len(found.lookups))


def test_the_maps_are_those_of_the_model(tmp_path: Path):
    folder = tiny_folder("bert", tmp_path / "bert")
    found = open_run(folder).attribute(TEXT)
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        expected = model(**tokenizer(TEXT, return_tensors="pt"), output_attentions=True).attentions
    np.testing.assert_allclose(found.lookups[0].weights, torch.cat(expected).numpy(), atol=1e-6)
    assert found.lookups[0].source[:3] == ("[CLS]", "the", "old")


def test_written_tokens_are_in_the_row_of_the_step_that_wrote_them(tmp_path: Path):
    found = open_run(tiny_folder("gpt2", tmp_path / "gpt2")).attribute("the old cat")
    written, whole = found.lookups
    assert written.name == "written tokens"
    assert np.array_equal(written.weights, whole.weights[:, :, 2:22])
    assert written.target == whole.target[3:]
    assert (written.weights[:, :, 0, 3:] == 0).all()


def test_the_options_of_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder, out = str(tiny_folder("bart", tmp_path / "bart")), str(tmp_path / "page.png")
    encoder = ["--role", "encoder", "--kind", "rollout", "--kind", "weights"]
    cases = [["--view", "heads"], ["--map", "1", "--target", "0:3"], [*encoder[:2], "--view", "rollout"]]
    cases.append(["--role", "decoder", "--view", "entropy"])
    for options in cases:
        assert main(["show", folder, "the old cat", "--out", out, *options]) == 0, capsys.readouterr().err
    assert main(["show", folder, "the old cat", "--out", str(tmp_path / "page.html"), *encoder]) == 0
    assert main(["show", folder, "the old cat", "--out", out, "--kind", "gradient"]) == 2
    assert "no gradient" in capsys.readouterr().err
    assert main(["embed", folder, "the old cat"]) == 0
    assert len(json.loads(capsys.readouterr().out.splitlines()[-1])["vector"]) == 12


def test_a_pair_of_texts_is_joined_as_the_tokenizer_does(tmp_path: Path):
    found = open_run(tiny_folder("bert", tmp_path / "bert")).attribute("the cat\tthe dog")
    assert found.lookups[0].source == ("[CLS]", "the", "cat", "[SEP]", "the", "dog", "[SEP]")


def test_one_line_in_a_notebook(tmp_path: Path):
    folder = tiny_folder("bert", tmp_path / "bert")
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.BertModel.from_pretrained(folder).train()
    found = regard.show(model, tokenizer, TEXT)
    assert model.training
    assert "text/html" in found._repr_mimebundle_()
    images = transformers.ViTImageProcessor(size={"height": 32, "width": 32})
    vit = open_run(tiny_folder("vit", tmp_path / "vit")).model
    assert regard.show(vit, images, str(picture(tmp_path / "disc.png"))).lookups[0].patches is not None


def test_a_long_text_is_the_mean_over_its_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = open_run(tiny_folder("mistral", tmp_path / "mistral"))
    expected = run.attribute(TEXT).lookups[1].weights[:, :, :13, :13]
    monkeypatch.setattr("regard.hub.any_model.passes.WHOLE", 8)
    found = run.attribute(TEXT).lookups[0]
    assert found.target == (f"all {expected.shape[-1]} positions (mean)",)
    np.testing.assert_allclose(found.weights, expected.mean(2, keepdims=True), atol=1e-6)


def test_of_too_many_weights_the_rows_of_written_tokens_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = open_run(tiny_folder("mistral", tmp_path / "mistral"))
    written, _ = run.attribute(TEXT).lookups
    monkeypatch.setattr("regard.hub.any_model.passes.KEPT", 100)
    (found,) = run.attribute(TEXT).lookups
    assert (found.source, found.target) == (written.source, written.target)
    np.testing.assert_allclose(found.weights, written.weights, atol=1e-6)


@pytest.mark.parametrize("name", ["mistral", "bart", "bert"])
def test_of_a_long_text_rows_are_chosen_and_entropies_are_those_of_all(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run, target = open_run(tiny_folder(name, tmp_path / name)), "the mat" if name == "bart" else None
    role = "decoder" if name == "mistral" else "encoder"
    whole = run.attribute(TEXT, role=role, target=target).lookups[0]
    monkeypatch.setattr("regard.hub.any_model.passes.WHOLE", 8)
    options = AttributionOptions(role=role, target=target)
    long = run.attribute(TEXT, options)
    assert long.lookups[0].weights.shape[2] == 1
    assert long.entropies is not None
    expected = mean_entropies(whole.weights[..., : long.lookups[0].weights.shape[-1], :])
    if name != "mistral":  # which wrote more behind a text that is not long
        np.testing.assert_allclose(np.stack(long.entropies()), expected, atol=1e-4)
    long.figure(view="entropy")
    some = run.attribute(TEXT, replace(options, rows="3:5"))
    assert (some.entropies, some.lookups[0].target) == (None, whole.target[3:5])
    keys = some.lookups[0].weights.shape[-1]
    np.testing.assert_allclose(some.lookups[0].weights, whole.weights[:, :, 3:5, :keys], atol=1e-6)
    monkeypatch.setattr("regard.hub.any_model.passes.KEPT", 200)
    for rows, message in (("1:9", "rows of .* keys are too many weights; choose at most"), ("999", "there are")):
        with pytest.raises(InputError, match=message):
            run.attribute(TEXT, replace(options, rows=rows))


def test_a_part_of_a_character_is_no_unknown_token(tmp_path: Path):
    run = open_run(tiny_folder("gpt2", tmp_path / "gpt2"))
    found = run.prediction_warnings(TextPrediction("a \ufffd"))
    assert found == ["the prediction has \ufffd, for bytes of a character that is not whole"]
    assert run.prediction_warnings(TextPrediction("")) == ["the prediction is empty; if many are, train longer"]


def test_the_rollout_of_a_decoder_is_that_of_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = open_run(tiny_folder("gpt2", tmp_path / "gpt2"))
    whole = run.attribute(TEXT, role="decoder")
    expected = rollout([*whole.lookups[0].weights.astype(np.float64)])
    np.testing.assert_allclose(run.attribute(TEXT, kinds=["rollout"]).weights.weights, expected, atol=1e-6)
    whole.figure(view="rollout")
    monkeypatch.setattr("regard.hub.any_model.passes.WHOLE", 8)
    with pytest.raises(InputError, match="a rollout needs the weights of all queries"):
        run.attribute(TEXT, kinds=["rollout"])
    with pytest.raises(InputError, match="has no maps of the role encoder: it has self attention"):
        run.attribute(TEXT, role="encoder")


def test_sinks_are_marked_and_left_out_beside():
    weights = np.full((2, 3, 7, 7), 0.04)
    weights[..., 0] = 0.76
    assert find_sinks(weights) == {0: pytest.approx(0.76)}
    rest = remove_keys(weights, {0: 0.76})
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
    side = Side.of(["<s>", *"abcdef"])
    found = lookups_of("self", RoleMaps(torch.tensor(weights), ("layer 0", "layer 1")), side, side, None)
    assert found.source == found.target
    assert found.source[0] == "<s> (sink, 76 %)"
    assert (found.others["without sinks"].weights[..., 0] == 0).all()


def changed(folder: Path, **keys: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))
    return folder


def test_row_86_a_model_with_its_own_code_is_refused(tmp_path: Path):
    folder = changed(tiny_folder("bert", tmp_path / "a"), model_type="own", auto_map={"AutoModel": "modeling_own.Own"})
    with pytest.raises(InputError, match=r"asks for code of its own \(modeling_own.py\), which regard never runs"):
        open_run(folder)


def test_row_86_an_unknown_type_quantised_weights_and_pickles_are_refused(tmp_path: Path):
    folder = tiny_folder("bert", tmp_path / "a")
    config = (folder / "config.json").read_text()
    with pytest.raises(InputError, match="'own' is unknown to transformers"):
        open_run(changed(folder, model_type="own"))
    (folder / "config.json").write_text(config)
    with pytest.raises(InputError, match=r"its weights are quantized \(gptq\)"):
        open_run(changed(folder, quantization_config={"quant_method": "gptq"}))
    (folder / "config.json").write_text(config)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"pytorch_model.bin alone, a pickle"):
        open_run(folder)


def test_row_86_a_model_larger_than_the_memory_is_refused_before_it_is_loaded(tmp_path: Path):
    folder = tiny_folder("bert", tmp_path / "a")
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": 10**15}, "weight_map": {}}))
    with pytest.raises(InputError, match=r"GB of memory are free"):
        open_run(folder)


def test_row_86_a_tokenizer_of_another_model_is_refused(tmp_path: Path):
    folder, other = tiny_folder("bert", tmp_path / "a"), tiny_folder("gpt2", tmp_path / "b")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((other / name).read_bytes())
    with pytest.raises(InputError, match=r"its tokenizer has \d+ tokens, but the model has \d+ embeddings"):
        open_run(folder)


def test_row_86_an_input_beyond_the_positions_is_refused(tmp_path: Path):
    run = open_run(tiny_folder("gpt2", tmp_path / "a"))
    with pytest.raises(InputError, match="the text has 65 tokens, but the model has 64 positions; shorten it"):
        run.attribute(" ".join(["cat"] * 65))
    with pytest.raises(InputError, match="is empty"):
        run.parse(" ")


def test_row_86_a_model_without_attention_and_missing_weights_are_refused(tmp_path: Path):
    folder = tiny_folder("gpt2", tmp_path / "a")
    sizes: dict[str, Any] = {"vocab_size": 400, "hidden_size": 12, "num_hidden_layers": 1, "state_size": 3}
    transformers.MambaForCausalLM(transformers.MambaConfig(**sizes)).save_pretrained(folder)
    with pytest.raises(InputError, match=r"MambaForCausalLM \(model type mamba\) has no attention"):
        open_run(folder).attribute(TEXT)
    with pytest.raises(InputError, match=r"its weights lack \d+ parameters of BertForMaskedLM, such as bert"):
        open_run(changed(tiny_folder("bert", tmp_path / "b"), num_hidden_layers=3))


def test_row_86_maps_that_cannot_be_shown_are_named_with_the_reason(tmp_path: Path):
    run = open_run(tiny_folder("t5", tmp_path / "a"))
    sizes: dict[str, Any] = {"d_model": 12, "d_kv": 4, "d_ff": 7, "num_layers": 2, "num_heads": 3, "pad_token_id": 0}
    more: dict[str, Any] = {"eos_token_id": 2, "decoder_start_token_id": 0}
    config = transformers.LongT5Config(vocab_size=400, **sizes, **more)
    run.model = transformers.LongT5ForConditionalGeneration(config).eval()
    object.__setattr__(run.loaded, "model", run.model)
    assert [each.name for each in run.attribute(TEXT).lookups] == ["cross-attention", "decoder self-attention"]
    with pytest.raises(
        InputError, match="no maps of the role encoder: LongT5LocalAttention attends by code of its own"
    ):
        run.attribute(TEXT, role="encoder")


def test_row_86_a_sound_of_another_rate_or_width_is_read(tmp_path: Path):
    run = open_run(tiny_folder("whisper", tmp_path / "a"))
    expected = run.attribute(str(sound(tmp_path / "high.wav"))).lookups[0].weights
    low = run.attribute(str(sound(tmp_path / "low.wav", 8000))).lookups[0].weights
    np.testing.assert_allclose(low, expected, atol=0.02)
    wide = sound(tmp_path / "wide.wav", width=3)
    np.testing.assert_allclose(run.attribute(str(wide)).lookups[0].weights, expected, atol=1e-6)


def test_row_18_a_sound_longer_than_the_model_or_none_is_refused(tmp_path: Path):
    run = open_run(tiny_folder("whisper", tmp_path / "a"))
    most = run.loaded.sounds.n_samples
    with pytest.raises(InputError, match=f"long.wav: .* takes at most {most // 16000}"):
        run.attribute(str(sound(tmp_path / "long.wav", 16000, seconds=most // 16000 + 1)))
    with pytest.raises(InputError, match=r"none.wav: no such file; expected audio"):
        run.attribute(str(tmp_path / "none.wav"))


def test_a_text_from_the_network_names_no_file(tmp_path: Path):
    run = open_run(tiny_folder("clip", tmp_path / "clip"))
    with pytest.raises(InputError, match=r"the text ends in \.png, a file's name; a server opens no files"):
        run.example({"text": str(picture(tmp_path / "disc.png"))})
    with pytest.raises(KeyError):
        open_run(tiny_folder("vit", tmp_path / "vit")).example({"text": "disc.png"})
    request = Embeddings(model="clip", input=str(tmp_path / "disc.png"))
    with pytest.raises(InputError, match=r"the text ends in \.png, a file's name; a server opens no files"):
        embed(run, request)
    operations = [build_openai_operations(Replicas(open_run(tmp_path / name))) for name in ("clip", "vit")]
    assert [[*each] for each in operations] == [["embeddings"], []]


def test_a_folder_that_is_neither_is_refused(tmp_path: Path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="has no model_type"):
        open_run(tmp_path)


IDS = torch.tensor([[5, 7, 9, 6, 8]])
PAIRED: dict[str, Any] = {
    f"{side}_{name}": 2 for side in ("encoder", "decoder") for name in ("layers", "attention_heads")
}
PAIRED |= {"vocab_size": 11, "d_model": 12, "encoder_ffn_dim": 5, "decoder_ffn_dim": 5}


def test_a_role_with_code_of_its_own_has_the_weights_that_it_returns():
    """In a pass of its own, after which the model is as before; weights of windows are none of queries by keys."""
    model = transformers.LEDModel(transformers.LEDConfig(**PAIRED, attention_window=4)).eval()
    before = model.config._attn_implementation
    found = attended(model, {"input_ids": IDS, "decoder_input_ids": IDS[:, :3]})
    assert set(found.roles) == {"cross", "decoder"}
    assert found.missing["encoder"].startswith("LEDEncoderSelfAttention attends by code of its own")
    assert model.config._attn_implementation == before
    sizes: dict[str, Any] = {"vocab_size": 11, "hidden_size": 12, "n_layer": 2, "n_head": 3}
    bloom = transformers.BloomModel(transformers.BloomConfig(**sizes)).eval()
    whole = attended(bloom, {"input_ids": IDS}).roles["self"].weights
    mean = attended(bloom, {"input_ids": IDS}, Totals()).roles["self"].weights
    torch.testing.assert_close(mean, whole.sum(2, keepdim=True))
    torch.testing.assert_close(
        attended(bloom, {"input_ids": IDS}, rows=[1, 3]).roles["self"].weights, whole[:, :, 1:4:2]
    )


def test_attention_within_windows_is_no_map_of_the_image():
    sizes: dict[str, Any] = {
        "image_size": 16,
        "patch_size": 2,
        "embed_dim": 12,
        "depths": [1],
        "num_heads": [3],
        "window_size": 4,
    }
    swin = transformers.SwinModel(transformers.SwinConfig(**sizes)).eval()
    with pytest.raises(InputError, match=r"SwinModel cannot be shown: .* attends within 4 windows"):
        attended(swin, {"pixel_values": torch.randn(1, 3, 16, 16)})
