"""Row 85: a published search gives the texts of transformers, or is refused with the setting."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from regard import load
from regard.errors import InputError
from regard.hub import export_run, import_run
from regard.hub.formats import generation
from regard.hub.formats.settings import COMMON
from regard.tasks.language_model.run import LanguageModelRun
from regard.tasks.seq2seq.run import Seq2SeqRun
from tests.hub.published import CONFIGURATIONS, gpt2, quiet
from tests.hub.test_llama import MORE
from tests.hub.test_llama import SIZES as LLAMAS
from tests.hub.test_llama import published as llama
from tests.hub.translator import SIZES, marian

GENERATION = "generation_config.json"
PROMPTS = ["the", "the cat sat", "Ein Haus, drei H"]
SOURCES = ["the cat", "a mat.", "the cat sat"]
TOKENS = 7
LANGUAGE: list[dict[str, Any]] = [
    {},
    {"repetition_penalty": 1.7},
    {"no_repeat_ngram_size": 2},
    {"min_new_tokens": 4},
    {"bad_words_ids": [[40], [41, 7], [9, 8, 7]], "suppress_tokens": [33, 34, 35]},
    {"num_beams": 3, "repetition_penalty": 1.3},
    {"num_beams": 3, "no_repeat_ngram_size": 1, "length_penalty": 0.7},
    {"num_beams": 4, "early_stopping": True},
    {"do_sample": True, "top_k": 1},
]
TRANSLATION: list[dict[str, Any]] = [
    {"repetition_penalty": 1.9},
    {"repetition_penalty": 1.9, "num_beams": 3},
    {"min_length": 6, "num_beams": 3},
    {"forced_eos_token_id": 0, "num_beams": 3, "max_length": 5},
    {"forced_bos_token_id": 5, "num_beams": 3, "length_penalty": 2.0},
    {"renormalize_logits": True, "num_beams": 4},
    {"early_stopping": True, "num_beams": 4},
    {"max_new_tokens": 3},
]


def publish(folder: Path, **values: Any) -> None:
    """Change the published search."""
    path = folder / GENERATION
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8")


def language_model(folder: Path, kind: str) -> Any:
    return gpt2(folder, **CONFIGURATIONS[1]) if kind == "gpt2" else llama(folder, "Llama", LLAMAS[1] | MORE[1])


@pytest.mark.parametrize("values", LANGUAGE, ids=lambda values: "+".join(values) or "greedy")
@pytest.mark.parametrize("kind", ["gpt2", "llama"])
@torch.no_grad()
def test_row_85_a_language_model_continues_as_published(kind: str, values: dict[str, Any], tmp_path: Path):
    theirs = language_model(tmp_path / "published", kind)
    publish(tmp_path / "published", **values)
    import_run(str(tmp_path / "published"), tmp_path / "run")
    run = load(tmp_path / "run", "cpu", task=LanguageModelRun)
    for prompt, found in zip(PROMPTS, run.predict(PROMPTS, tokens=TOKENS), strict=True):
        ids = torch.tensor([run.tokenizer.encode(prompt)])
        chosen = {"do_sample": False, "num_beams": 1} | values | {"max_new_tokens": TOKENS, "pad_token_id": 282}
        written = theirs.generate(ids, attention_mask=torch.ones_like(ids), **chosen)[0, ids.shape[1] :].tolist()
        assert found.tokens == tuple(run.tokenizer.pieces(written)), prompt


@pytest.mark.parametrize("values", TRANSLATION, ids="+".join)
@pytest.mark.parametrize("sizes", SIZES[1:], ids=["10", "21"])
@torch.no_grad()
def test_row_85_a_translator_translates_as_published(sizes: dict[str, Any], values: dict[str, Any], tmp_path: Path):
    theirs = marian(tmp_path / "published", search=values, **sizes)
    size = theirs.config.vocab_size
    theirs.final_logits_bias[0, size - 1] = 9.0  # padding that the model would write
    theirs.final_logits_bias[0, 0] += 3.0 if values.get("num_beams") == 4 else 0.5
    theirs.save_pretrained(tmp_path / "published")
    import_run(str(tmp_path / "published"), tmp_path / "run")
    run = load(tmp_path / "run", "cpu", task=Seq2SeqRun)
    for text in SOURCES:
        ids = run.tokenizers.ended_source(run.tokenizers.source.encode(text))
        [given] = theirs.generate(torch.tensor([ids]), do_sample=False)
        [found] = run.predict([text])
        assert found.tokens == tuple(run.tokenizers.target.pieces(given.tolist()[1:])), text


def test_row_85_several_ends(tmp_path: Path):
    """Every id of a list ends a text, as in Llama 3."""
    theirs = language_model(tmp_path / "published", "llama")
    ends = [282, *range(60, 110)]
    publish(tmp_path / "published", eos_token_id=ends, length_penalty=0.0)
    import_run(str(tmp_path / "published"), tmp_path / "run")
    run = load(tmp_path / "run", "cpu", task=LanguageModelRun)
    assert run.tokenizer.special.ends == tuple(ends)
    finished = []
    for beam in (1, 3):
        for prompt in PROMPTS:
            ids = torch.tensor([run.tokenizer.encode(prompt)])
            chosen = {"max_new_tokens": 20, "num_beams": beam, "length_penalty": 0.0, "pad_token_id": 282}
            given = theirs.generate(ids, attention_mask=torch.ones_like(ids), eos_token_id=ends, **chosen)
            written = given[0, ids.shape[1] :].tolist()
            [found] = run.predict([prompt], tokens=20, beam=beam)
            finished.append(found.finished)
            assert found.text == run.tokenizer.decode(each for each in written if each not in ends)
            assert found.finished is (written[-1] in ends)
    assert any(finished)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"encoder_no_repeat_ngram_size": 3}, "encoder_no_repeat_ngram_size is 3; regard supports 0 only"),
        ({"exponential_decay_length_penalty": [5, 1.1]}, r"exponential_decay_length_penalty is \[5, 1.1\]"),
        ({"min_length": 5}, "min_length is 5, with the tokens of the prompt"),
        ({"num_beams": 2, "do_sample": True}, "do_sample is true and num_beams is 2"),
        ({"do_sample": True, "typical_p": 0.5}, "typical_p is 0.5; regard supports 1 only"),
        ({"forced_eos_token_id": 7}, r"forced_eos_token_id is \[7\]; regard forces the end \[282\] only"),
        ({"num_beams": 3, "early_stopping": "never"}, "early_stopping is 'never'; regard supports true and false only"),
        ({"bad_words_ids": [[]]}, r"bad_words_ids is \[\[\]\]; expected lists of ids"),
        ({"repetition_penalty": 0}, "repetition_penalty is 0.0; it must be above 0"),
        ({"length_penalty": -1.0}, "length_penalty is -1.0; expected a number of at least 0"),
        ({"sampler": "new"}, "sampler is not known, so it might change what is computed"),
        ({"bad_words_ids": [[999]]}, "has the id 999; the vocabulary has 0 to 282"),
    ],
)
def test_row_85_a_search_that_is_not_computed(values: dict[str, Any], message: str, tmp_path: Path):
    language_model(tmp_path / "published", "gpt2")
    publish(tmp_path / "published", **values)
    with pytest.raises(InputError, match=message):
        import_run(str(tmp_path / "published"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_row_85_a_search_in_an_old_config(tmp_path: Path):
    """Without generation_config.json the search is in config.json, and refused in the same way."""
    folder = tmp_path / "published"
    language_model(folder, "gpt2")
    (folder / GENERATION).unlink()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"repetition_penalty": 1.5, "max_new_tokens": 9}))
    import_run(str(folder), tmp_path / "run")
    run = load(tmp_path / "run", "cpu", task=LanguageModelRun)
    assert (run.config.search.repetition_penalty, run.config.tokens) == (1.5, 9)
    (folder / "config.json").write_text(json.dumps(config | {"encoder_no_repeat_ngram_size": 3}))
    with pytest.raises(InputError, match=r"config.json: encoder_no_repeat_ngram_size is 3"):
        import_run(str(folder), tmp_path / "again")


def test_row_85_a_search_there_and_back(tmp_path: Path):
    language_model(tmp_path / "published", "llama")
    publish(
        tmp_path / "published", repetition_penalty=1.2, do_sample=True, temperature=0.6, top_p=0.9, max_new_tokens=5
    )
    publish(
        tmp_path / "published", min_new_tokens=2, suppress_tokens=[5], eos_token_id=[282, 3], renormalize_logits=True
    )
    import_run(str(tmp_path / "published"), tmp_path / "run")
    export_run(tmp_path / "run", tmp_path / "exported")
    import_run(str(tmp_path / "exported"), tmp_path / "again")
    for name in ("weights.safetensors", "tokenizer.json", "config.yaml"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name
    run = load(tmp_path / "again", "cpu", task=LanguageModelRun)
    assert run.predict(["the"])[0] == load(tmp_path / "run", "cpu", task=LanguageModelRun).predict(["the"])[0]


def test_row_85_a_token_forced_behind_one_token(tmp_path: Path):
    """transformers forces it where the prompt is one token, and nowhere else."""
    gpt2(tmp_path / "published", **CONFIGURATIONS[1])
    publish(tmp_path / "published", forced_bos_token_id=65)
    with pytest.raises(
        InputError, match="forced_bos_token_id is 65; transformers forces it behind a prompt of one token"
    ):
        import_run(str(tmp_path / "published"), tmp_path / "run")


def test_row_85_every_setting_of_a_search_is_honoured_or_named(tmp_path: Path):
    """Of all that transformers' class has: a setting that regard does not compute is refused by its name."""
    settings = vars(quiet().GenerationConfig())
    classes = (generation.USED, generation.IGNORED, generation.NEUTRAL, generation.SAMPLED)
    unknown = [key for key in settings if key not in COMMON and not any(key in each for each in classes)]
    assert unknown == []
    assert not generation.USED & {*generation.IGNORED, *generation.NEUTRAL}
    gpt2(tmp_path / "published", **CONFIGURATIONS[0])
    before = (tmp_path / "published" / GENERATION).read_text(encoding="utf-8")
    for key in (*generation.NEUTRAL, *generation.SAMPLED):
        publish(tmp_path / "published", **{key: [7]}, **({"do_sample": True} if key in generation.SAMPLED else {}))
        with pytest.raises(InputError, match=rf"{GENERATION}: {key} is \[7\]; regard supports"):
            import_run(str(tmp_path / "published"), tmp_path / "run")
        (tmp_path / "published" / GENERATION).write_text(before, encoding="utf-8")
