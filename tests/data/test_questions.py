"""Generated questions: the answer stands in the context, at its links."""

from typing import Any

import pytest

from regard.data.generated.pairs import Questions
from regard.data.generated.questions import FORMS, SUBJECTS, TEACHERS, TERMS, generate
from regard.errors import InputError


def test_the_linked_words_are_those_of_the_answer():
    for question in generate((300, 1, 1), 4, 3)[0]:
        context, answer = question.text.split(), question.answer.split()
        asked = context.index("?") + 1
        assert question.links
        for source, target in question.links:
            assert context[source] == answer[target]
            assert source >= asked
        written = " ".join(answer[target] for _, target in sorted(question.links))
        assert written in {*TEACHERS, *SUBJECTS, *TERMS}


def test_the_answer_can_be_found_by_reading():
    """Exactly one sentence of the context has both parts that the question names, and the answer's part with them."""
    for question in generate((300, 1, 1), 4, 3)[0]:
        head, context = question.text.split(" ? ", 1)
        sentences = context.split(" .")
        subject = [each for each in SUBJECTS if each in question.answer]
        teacher = next(each for each in TEACHERS if f"Professor {each}" in question.answer)
        where = [each for each in sentences if f"Professor {teacher} " in f"{each} "]
        assert len(where) == 1
        assert any(each in where[0] for each in subject)
        assert next(each for each in TERMS if each in question.answer) in where[0]
        assert head.startswith(("What", "Who", "When"))


def test_all_forms_occur_and_no_text_twice():
    train, valid, test = generate((200, 50, 50), 3, 1)
    texts = [each.text for each in (*train, *valid, *test)]
    assert len(set(texts)) == 300
    assert {text.split()[0] for text in texts} == {form.question.split()[0] for form in FORMS}
    assert generate((3, 50, 50), 3, 1)[2] == test


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
