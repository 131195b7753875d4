"""Every language model learns the shape of a text in seconds, and some of them to use what stood far back."""

from random import Random

import pytest

from regard.data.texts import RunningText
from regard.errors import InputError
from regard.models.attention_language_model import AttentionLanguageModelConfig
from regard.models.catalog import LanguageModelConfig
from regard.models.gpt2 import GPT2Config
from regard.models.language_model import RecurrentLanguageModelConfig
from regard.models.lstmn import LSTMNConfig
from regard.runs import train as launch
from regard.runs.run_file import load
from regard.tasks.language_model.run import LanguageModelling, LanguageModelRun
from regard.text import TokenizerSettings
from regard.training.settings import Training

NAMES = "ada", "ben", "cleo", "dan", "eve"
CONFIGS: dict[str, LanguageModelConfig] = {
    "lstm": RecurrentLanguageModelConfig(embedding=32, width=32, layers=1, dropout=0.0),
    "attention": AttentionLanguageModelConfig(embedding=32, width=32, layers=1, window=20, dropout=0.0),
    "copying": AttentionLanguageModelConfig(embedding=32, width=32, layers=1, window=20, copying=True, dropout=0.0),
    "lstmn": LSTMNConfig(embedding=32, width=32, attention=16, window=12, dropout=0.0),
    "gpt2": GPT2Config(layers=2, width=32, heads=2, context=16, dropout=0.0),
}


KNOWING = (len(NAMES) * 2) ** (1 / 7)  # perplexity where only what cannot be known of a line is guessed
GUESSING = (len(NAMES) ** 2 * 2) ** (1 / 7)  # where the name's return is guessed too
LEARNT = {"lstm": 1.1 * KNOWING, "attention": 1.1 * KNOWING, "copying": 1.2 * KNOWING}
"""What a model reaches; the others do not find the name in so few updates."""


def lines(count: int, random: Random) -> str:
    """A name, something in between, and the name again."""
    found = []
    for _ in range(count):
        name = random.choice(NAMES)
        found.append(f"{name} says that {random.choice(('all', 'nobody'))} saw {name}\n")
    return "".join(found)


@pytest.fixture(scope="module", params=CONFIGS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LanguageModelRun:
    folder, random = tmp_path_factory.mktemp("text"), Random(3)
    for name, count in (("train", 600), ("valid", 40)):
        (folder / name).write_text(lines(count, random), encoding="utf-8")
    config = LanguageModelling(
        data=RunningText(train=str(folder / "train"), valid=str(folder / "valid"), test=str(folder / "valid")),
        tokenizer=TokenizerSettings("space"),
        model=CONFIGS[request.param],
        window=16,
        training=Training(
            steps=300, batch_tokens=320, learning_rate=1e-2, warmup=20, schedule="linear", validate_every=0
        ),
    )
    result = launch.train(config, folder / "run")
    assert result["test/word_perplexity"] < LEARNT.get(request.param, 1.05 * GUESSING)
    found = load(folder / "run")
    assert isinstance(found, LanguageModelRun)
    return found


def test_it_uses_what_stood_far_back(run: LanguageModelRun):
    """Attention does, in so few updates; of the others, that a name comes there."""
    prompts = [f"{name} says that all saw" for name in NAMES]
    attending = isinstance(run.config.model, AttentionLanguageModelConfig) and not run.config.model.copying
    for beam in (1, 3):
        found = run.predict(prompts, beam=beam, tokens=3)
        texts = [each.text.strip() for each in found]
        assert texts == list(NAMES) if attending else set(texts) <= set(NAMES)
        assert all(each.finished and each.tokens[-1] == "</s>" for each in found)


def test_prompts_of_different_lengths_give_what_they_give_alone(run: LanguageModelRun):
    prompts = ["", "ben", "cleo says that", "eve says that all saw"]
    together = run.predict(prompts, beam=2, tokens=6, n_best=2)
    for prompt, found in zip(prompts, together, strict=True):
        (alone,) = run.predict([prompt], beam=2, tokens=6, n_best=2)
        texts = [[one.text, *(each.text for each in one.alternatives)] for one in (found, alone)]
        assert texts[0] == texts[1]


def test_what_cannot_be_continued(run: LanguageModelRun):
    with pytest.raises(InputError, match="tokens is 0; expected at least 1"):
        run.predict(["ada"], tokens=0)
    if run.model.context is not None:
        (prediction,) = run.predict(["ada"], tokens=16)  # ends at the model's context
        assert len(prediction.text.split()) <= 16
