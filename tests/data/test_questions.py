"""Generated questions: the answer stands in the context, at its links."""

from typing import Any

import pytest

from regard.data.generated.pairs import Questions
from regard.data.generated.questions import FORMS, SUBJECTS, TEACHERS, TERMS
from regard.errors import InputError


def test_the_linked_words_are_those_of_the_answer():
    for question in Questions(train=300, valid=1, test=1, seed=3).load().train:
        context, answer = question.text.split(), question.target.split()
        asked = context.index("?") + 1
        assert question.links
        for source, target in question.links or ():
            assert context[source] == answer[target]
            assert source >= asked
        written = " ".join(answer[target] for _, target in sorted(question.links or ()))
        assert written in {*TEACHERS, *SUBJECTS, *TERMS}


def test_all_forms_occur_and_no_text_twice():
    splits = Questions(train=200, valid=50, test=50, facts=3).load()
    texts = [pair.source for pairs in splits.by_name.values() for pair in pairs]
    assert len(set(texts)) == 300
    assert {text.split()[0] for text in texts} == {form.question.split()[0] for form in FORMS}
    assert Questions(train=3, valid=50, test=50, facts=3).load().test == splits.test


def test_the_source_has_links_and_places():
    splits = Questions(train=5, valid=2, test=0, facts=1).load()
    assert [len(part) for part in (splits.train, splits.valid, splits.test)] == [5, 2, 0]
    assert splits.train[4].place == "questions train 5"
    assert splits.train[0].links


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"facts": 0}, "facts is 0; expected 1 to 30"), ({"facts": 31}, "facts is 31"), ({"valid": 0}, "valid is 0")],
)
def test_what_cannot_be(changes: dict[str, Any], said: str):
    with pytest.raises(InputError, match=said):
        Questions(**changes).load()
