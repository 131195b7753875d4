"""Generated questions: the answer stands in the context, at its links."""

from typing import Any

import pytest

from regard.data.generated.pairs import Questions
from regard.data.generated.questions import FORMS, PRONOUNS, SUBJECTS, TEACHERS, TERMS, Question, generate
from regard.errors import InputError


def sentences(question: Question) -> list[str]:
    """Those of the context."""
    return [each.strip() for each in question.text.split(" ? ", 1)[1].split(" .")]


def test_the_linked_words_are_those_of_the_answer():
    for question in generate((300, 1, 1), 4, 3)[0]:
        context, answer = question.text.split(), question.answer.split()
        for source, target in question.links:
            assert context[source] == answer[target]
            assert source > context.index("?")
        linked = [answer[target] for _, target in sorted(question.links, key=lambda link: link[1])]
        pronoun, found = (linked[0], linked[1:]) if linked[0] in PRONOUNS else (None, linked)
        assert " ".join(found) in {*TEACHERS, *SUBJECTS, *TERMS}
        assert (pronoun is None) == question.text.startswith("Who")


def test_the_answer_repeats_no_name_of_the_question():
    names = {word for each in (*TEACHERS, *SUBJECTS, *TERMS) for word in each.split()}
    for question in generate((300, 1, 1), 4, 3)[0]:
        asked = question.text.split(" ? ", 1)[0].split()
        assert not names & {*asked} & {*question.answer.split()}


def test_the_answer_can_be_found_by_reading():
    """Exactly one sentence of the context has both parts that the question names, and the answer's part with them. The
    next sentence begins with the pronoun."""
    for question in generate((300, 1, 1), 4, 3)[0]:
        asked, context = question.text.split(" ? ", 1)[0].split(), sentences(question)
        known = [each for each in (*TEACHERS, *SUBJECTS, *TERMS) if f" {each} " in f" {' '.join(asked)} "]
        (at,) = (at for at, each in enumerate(context) if all(f" {part} " in f" {each} " for part in known))
        answer = question.answer.split()
        looked_up = [answer[target] for _, target in question.links if answer[target] not in PRONOUNS]
        assert all(word in context[at].split() for word in looked_up)
        if answer[0] in PRONOUNS:
            assert context[at + 1].split()[0] == answer[0]


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
