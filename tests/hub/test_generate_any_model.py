"""`regard generate`, `embed` and `serve` of any transformers model: texts, images and sounds as its processor says."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")

import torch
import transformers

from regard.cli.main import main
from regard.errors import InputError
from regard.hub.any_model import TransformersRun
from regard.hub.open_run import open_run
from tests.hub.tiny_folders import example, picture, sound, tiny_folder

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the library


def library(folder: Path, name: str = "AutoModelForCausalLM") -> tuple[Any, Any]:
    return getattr(transformers, name).from_pretrained(folder).eval(), transformers.AutoTokenizer.from_pretrained(
        folder
    )


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
    (found,) = open_run(folder).predict(["the old cat"], tokens=7, **options)
    model, tokenizer = library(folder)
    inputs = tokenizer("the old cat", return_tensors="pt")
    known = inputs["input_ids"].shape[1]
    expected = model.generate(**inputs, max_new_tokens=7, pad_token_id=0, **settings)[0, known:].tolist()
    assert list(found.ids) == expected
    assert found.finished == (expected[-1] == 2)
    whole = tokenizer.decode([*inputs["input_ids"][0], *expected], skip_special_tokens=True)
    assert found.prompt + found.text == whole.removeprefix(" ")  # the tokenizer's own, before the first word


def test_the_score_is_the_log_probability(tmp_path: Path):
    folder = tiny_folder("gpt2", tmp_path / "gpt2")
    for options in ({}, {"temperature": 1.0, "seed": 5, "n_best": 3}):
        (found,) = open_run(folder).predict(["the old cat"], tokens=5, **options)
        model, tokenizer = library(folder)
        for each in (found, *found.alternatives):
            ids = torch.tensor([[*tokenizer("the old cat")["input_ids"], *each.ids]])
            with torch.no_grad():
                scores = model(ids).logits[0].log_softmax(-1)[:-1].gather(1, ids[0, 1:, None])[:, 0]
            assert each.score == pytest.approx(float(scores[-len(each.ids) :].sum()), abs=1e-3)
    again = open_run(folder).predict(["the old cat"], tokens=5, temperature=1.0, seed=5, n_best=3)[0]
    assert (again.ids, len(again.alternatives)) == (found.ids, 2)


def test_generate_draws_what_new_tokens_attend_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tiny_folder("gpt2", tmp_path / "gpt2")
    run: TransformersRun = open_run(folder)
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
    (found,) = open_run(folder).predict(["the old cat"], tokens=5, beam=2)
    assert list(found.ids) == expected[0, 1:].tolist()


@pytest.mark.parametrize("name", ["bert", "vit", "whisper", "clip"])
def test_a_vector_of_a_text_an_image_or_a_sound(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tiny_folder(name, tmp_path / name)
    assert main(["embed", str(folder), example(name, tmp_path)]) == 0
    vector = json.loads(capsys.readouterr().out.splitlines()[-1])["vector"]
    run: TransformersRun = open_run(folder)
    if run.inputs != {"text": str}:
        content = Path(example(name, tmp_path)).read_bytes()
        np.testing.assert_allclose(run.embed([content])[0].numpy(), vector, atol=1e-6)
    assert len(vector) == 12


def test_a_server_takes_the_files_of_images_and_sounds(tmp_path: Path):
    vit: TransformersRun = open_run(tiny_folder("vit", tmp_path / "vit"))
    whisper: TransformersRun = open_run(tiny_folder("whisper", tmp_path / "whisper"))
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
        open_run(folder).predict(["the old cat"])
