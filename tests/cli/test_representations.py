"""What a run, a prediction and an attribution show in a session, and the pages of settings."""

from pathlib import Path

import numpy as np

import regard
from docs.making.settings import find_titles, make_tables
from regard.data.batches import collate
from regard.maps import Alignment, AlternativeMap, DocumentWeights, TextWeights
from regard.maps.lookups import Lookups
from regard.runs.run_file import make_schema
from regard.tasks.classification.inputs import collate_marked


def test_a_run_and_its_results_are_shown_in_a_line(run: Path):
    model = regard.load(run)
    assert repr(model).startswith("<Seq2SeqRun: seq2seq, Bahdanau, ")
    assert repr(model).endswith(" parameters>")
    (prediction,) = model.predict(["14 July 1989"], n_best=2, beam=2)
    assert repr(prediction).startswith(f"GeneratedText({prediction.text!r}, score=")
    assert ", 1 alternatives" in repr(prediction)
    assert repr(model.attribute("14 July 1989")).startswith("<Attribution of ")
    for each in (model, prediction, model.attribute("14 July 1989")):
        assert len(repr(each)) < 200


def test_maps_are_a_line_without_their_numbers():
    weights = np.full((2, 3, 5, 7), 1 / 7)
    source, target = tuple("abcdefg"), tuple("vwxyz")
    shape = "2 layers x 3 heads, 5 target x 7 source labels"
    other = AlternativeMap(weights)
    assert repr(Lookups(weights, source, target, alternatives={"norms": other})) == f"<Lookups weights, norms: {shape}>"
    assert repr(other) == f"<AlternativeMap: {shape}>"
    assert repr(Alignment(weights[0, 0], source, target)) == "<Alignment: 5 target x 7 source labels>"
    text = TextWeights(("a", "b"), np.array([0.5, 0.5]), "good", (0, 0), (False, False))
    assert repr(text) == "<TextWeights for 'good': 2 parts>"
    document = DocumentWeights((("a", "b"), ("c",)), np.array([0.5, 0.5]), (np.array([0.5, 0.5]), np.array([1.0])))
    assert repr(document) == "<DocumentWeights: 2 sentences>"


def test_a_batch_is_shown_by_its_sizes():
    batch = collate([([7, 11, 13], [5]), ([7], [8, 9])])
    assert repr(batch) == (
        "PairBatch(source=int64[2, 4], source_lengths=int64[2], target_in=int64[2, 3], target_out=int64[2, 3], "
        "target_lengths=int64[2], target_tokens=5)"
    )
    assert len(repr(collate_marked([(([7, 11], [5]), 0), (([7], [8, 9, 10]), 2)]))) < 150


def test_every_key_has_a_row_in_the_page_of_settings():
    schema = make_schema()
    text, titles = make_tables(schema), find_titles(schema)
    assert len({title for _, title in titles.values()}) == len(titles) == len(schema["$defs"])
    sections = {part.partition("\n")[0]: part for part in text.split("\n### ")[1:]}
    for name, section in schema["$defs"].items():
        for key in section["properties"]:
            assert f"| `{key}` |" in sections[titles[name][1]]
