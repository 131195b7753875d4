"""Every variant of the recipes' benchmarks has settings that make a run file."""

from pathlib import Path

import pytest

from benchmarks.recipes import EXPERIMENTS, Experiment
from benchmarks.rules import KneserNey, best_span, word_set
from benchmarks.sources import tag_kept_words
from regard.runs import run_file
from regard.runs.recipes import path_of


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_settings_make_a_run_file(name: str, tmp_path: Path):
    experiment: Experiment = EXPERIMENTS[name]
    for variant in experiment.variants.values():
        settings = [*experiment.data, *variant.settings]
        for placeholder in ("{folder}", "{runs}", "{fold}", "{next}"):
            settings = [setting.replace(placeholder, "1" if "fold}" in placeholder else "x") for setting in settings]
        assert run_file.read(path_of(variant.recipe), settings).training.steps > 0


def test_probabilities_of_the_next_word_sum_to_one():
    model = KneserNey([["a", "b", "a"], ["b", "b"]], 2, 3)
    for history in ("a", "b", "<s>"):
        assert sum(model.probability((history, word)) for word in ("a", "b", "</s>")) == pytest.approx(1)


def test_a_span_near_the_words_of_the_question():
    context = "The river is long. Anna Berger built the bridge in 1901."
    rarity = dict.fromkeys(word_set(context), 2.0) | {"in": 0.1}
    assert best_span(context, "When was the bridge built?", rarity) == "1901"


def test_words_that_a_shorter_sentence_keeps():
    assert tag_kept_words(["A", "big", "dog"], ["a", "dog"]) == ["KEEP", "O", "KEEP"]
    assert tag_kept_words(["A", "dog"], ["a", "cat"]) is None
