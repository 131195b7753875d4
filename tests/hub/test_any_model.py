"""Any model of the transformers library as a run: its pages, and what is refused in one line."""

import json
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
from regard.hub.any_model import TransformersRun, run_with_weights
from regard.hub.open_run import open_run
from regard.maps.lookups import Lookups, find_sinks, label_sinks, remove_keys
from regard.serve.openai import Embeddings, build_openai_operations, embed
from regard.serve.worker import Replicas
from regard.storage.published_folder import INDEX
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
    assert found.write(tmp_path / "page.html") == tmp_path / "page.html"
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
    encoder = ["--role", "encoder"]
    cases = [["--view", "heads"], ["--map", "1", "--target", "0:3"], [*encoder, "--view", "rollout"]]
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
    vit = open_run(tiny_folder("vit", tmp_path / "vit")).network
    assert regard.show(vit, images, str(picture(tmp_path / "disc.png"))).lookups[0].patches is not None


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
    labels = ("<s>", *"abcdef")
    found = label_sinks(Lookups(weights, labels, labels))
    assert found.source == found.target
    assert found.source[0] == "<s> (sink, 76 %)"
    assert (found.alternatives["without sinks"].weights[..., 0] == 0).all()


def changed(folder: Path, **keys: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))
    return folder


def test_row_86_a_model_with_its_own_code_is_refused(tmp_path: Path):
    folder = changed(tiny_folder("bert", tmp_path / "a"), model_type="own", auto_map={"AutoModel": "modeling_own.Own"})
    with pytest.raises(InputError, match=r"asks for code of its own .*modeling_own.*, which regard never runs"):
        open_run(folder)


def test_row_86_an_unknown_type_quantised_weights_and_pickles_are_refused(tmp_path: Path):
    folder = tiny_folder("bert", tmp_path / "a")
    config = (folder / "config.json").read_text()
    with pytest.raises(InputError, match="'own' is unknown to transformers"):
        open_run(changed(folder, model_type="own"))
    (folder / "config.json").write_text(config)
    with pytest.raises(InputError, match=r"its weights are quantized"):
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
    with pytest.raises(InputError, match=r"the tokenizer has \d+ entries and the model \d+"):
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
    with pytest.raises(InputError, match=r"MambaForCausalLM .*cannot be shown"):
        open_run(folder).attribute(TEXT)
    with pytest.raises(InputError, match=r"its weights lack \d+ parameters of BertForMaskedLM, such as bert"):
        open_run(changed(tiny_folder("bert", tmp_path / "b"), num_hidden_layers=3))


def test_row_86_a_role_without_maps_is_left_out_and_named(tmp_path: Path):
    run = open_run(tiny_folder("t5", tmp_path / "a"))
    sizes: dict[str, Any] = {"d_model": 12, "d_kv": 4, "d_ff": 7, "num_layers": 2, "num_heads": 3, "pad_token_id": 0}
    more: dict[str, Any] = {"eos_token_id": 2, "decoder_start_token_id": 0}
    config = transformers.LongT5Config(vocab_size=400, **sizes, **more)
    run.model.network = transformers.LongT5ForConditionalGeneration(config).eval()
    assert [each.name for each in run.attribute(TEXT).lookups] == ["cross-attention", "decoder self-attention"]
    with pytest.raises(InputError, match="no maps of the role encoder; it has cross, decoder"):
        run.attribute(TEXT, role="encoder")


def test_row_56_a_text_with_too_many_weights_is_refused_with_what_fits(tmp_path: Path, monkeypatch):
    run = open_run(tiny_folder("bert", tmp_path / "a"))
    monkeypatch.setattr("regard.hub.any_model.MOST_WEIGHTS", 600)
    with pytest.raises(InputError, match="15 tokens, and 6 maps of them are too large to show; shorten it to 10 tok"):
        run.attribute(TEXT)


def test_the_greatest_weights_are_a_table(tmp_path: Path):
    folder, out = tiny_folder("bart", tmp_path / "a"), tmp_path / "top.tsv"
    assert main(["show", str(folder), TEXT, "--role", "encoder", "--top", "2", "--out", str(out)]) == 0
    weights = open_run(folder).attribute(TEXT, role="encoder").lookups[0].weights
    rows = [line.split("\t") for line in out.read_text().splitlines()]
    assert len(rows) == 1 + 2 * weights[..., 0].size
    assert float(rows[1][-1]) == pytest.approx(weights[0, 0, 0].max(), abs=1e-6)


def test_row_86_a_sound_of_another_rate_or_width_is_read(tmp_path: Path):
    run = open_run(tiny_folder("whisper", tmp_path / "a"))
    expected = run.attribute(str(sound(tmp_path / "high.wav"))).lookups[0].weights
    low = run.attribute(str(sound(tmp_path / "low.wav", 8000))).lookups[0].weights
    np.testing.assert_allclose(low, expected, atol=0.02)
    wide = sound(tmp_path / "wide.wav", width=3)
    np.testing.assert_allclose(run.attribute(str(wide)).lookups[0].weights, expected, atol=1e-6)


def test_row_18_a_sound_longer_than_the_model_or_none_is_refused(tmp_path: Path):
    run = open_run(tiny_folder("whisper", tmp_path / "a"))
    most = run.sounds.n_samples
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


def test_windows_are_no_maps_of_the_whole():
    model = transformers.LEDModel(transformers.LEDConfig(**PAIRED, attention_window=4)).eval()
    before = model.config._attn_implementation
    assert set(run_with_weights(model, {"input_ids": IDS, "decoder_input_ids": IDS[:, :3]})) == {"cross", "decoder"}
    assert model.config._attn_implementation == before
    sizes: dict[str, Any] = {"image_size": 16, "patch_size": 2, "embed_dim": 12, "depths": [1], "num_heads": [3]}
    swin = transformers.SwinModel(transformers.SwinConfig(**sizes, window_size=4)).eval()
    assert not run_with_weights(swin, {"pixel_values": torch.randn(1, 3, 16, 16)})
