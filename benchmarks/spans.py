"""The recipe `spans` on SQuAD, from scratch: exact match and F1 on dev_24articles, beside answers by rule.

`python -m benchmarks.spans FOLDER`; FOLDER holds train_subset-v1.1.json.gz, train_extra.jsonl.gz and
dev_24articles-v1.1.json.gz. The model learns from both training files; its one validation, at the end, is on the
second and chooses nothing:

    regard train spans --out runs/spans --set data.train='[train_subset-v1.1.json.gz, train_extra.jsonl.gz]'
    --set data.valid='[train_extra.jsonl.gz]' --set data.test='[dev_24articles-v1.1.json.gz]'

The rules, after the sliding window of Rajpurkar 2016 (1606.05250, section 5.1): the sentence that has most of the
question's words, each counted by how rare it is; of all sentences the few words, none of them the question's, that
stand nearest to the question's words; and the same with more for words of the kind that the question needs. The number
of words, and how much more, are the best ones on the training files' first questions.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import log
from pathlib import Path
from typing import Any

from benchmarks import report
from regard.data.squad import Question, QuestionFiles
from regard.metrics.text import METRICS
from regard.text.sentences import sentence_spans

TRAIN, DEV = ("train_subset-v1.1.json.gz", "train_extra.jsonl.gz"), "dev_24articles-v1.1.json.gz"
CHOSEN_ON = 1000
"""Questions of each training file that the rules' numbers are chosen on."""
LONGEST = (1, 2, 3, 4, 5, 6)
MORE = (0.0, 8.0, 16.0, 32.0)
WORD = re.compile(r"\w+(?:[-'’.,]\w+)*|\S")
NUMBER, NAME = re.compile(r"\S*\d"), re.compile(r"[A-Z]")
KINDS = {r"\b(when|how many|how much|how long|how old|year|date|percent\w*)\b": NUMBER, r"\b(who|whose|where)\b": NAME}
"""What a question says, and what fits it: at least one word of an answer matches."""
FREQUENT = 0.7
"""Words that are in more than exp(-this) of all paragraphs neither begin nor end an answer."""


@dataclass(frozen=True)
class Span:
    """Some words of a context, characters `start` to `end`, and how well they stand; `fits`: one is of the kind needed
    for."""

    start: int
    end: int
    words: int
    score: float
    fits: bool


class Rarity:
    """How rare words are: -log of the share of texts that have them; of one in no text as of one in one."""

    def __init__(self, texts: Sequence[str]):
        self.count = Counter(word for text in texts for word in words(text))
        self.most = log(len(texts))

    def __getitem__(self, word: str) -> float:
        return self.most - log(max(1, self.count[word]))


def words(text: str) -> set[str]:
    """In lower case, without marks."""
    return {found.lower() for found in WORD.findall(text) if found[0].isalnum()}


def sentences(question: Question, rarity: Rarity) -> list[tuple[float, int, int]]:
    """Of the sentences of the context, the summed rarity of the words that the question has too, and the span."""
    wanted = words(question.question)
    return [
        (sum(rarity[word] for word in wanted & words(question.context[start:end])), start, end)
        for start, end in sentence_spans(question.context)
    ]


def spans(question: Question, rarity: Rarity) -> list[Span]:
    """The spans of few words inside the sentences of the context that have neither a word of the question nor a mark.

    Of a span's score, a part is its sentence's, and each word of the question that stands in the sentence adds its
    rarity over the distance in words.
    """
    kinds = [kind for said, kind in KINDS.items() if re.search(said, question.question.lower())][:1]
    wanted, found = words(question.question), []
    for overlap, start, end in sentences(question, rarity):
        here = list(WORD.finditer(question.context, start, end))
        plain = [each.group().lower() for each in here]
        near = [(place, rarity[word]) for place, word in enumerate(plain) if word in wanted]
        ahead = [sum(rare / (place - at) for at, rare in near if at < place) for place in range(len(here))]
        back = [sum(rare / (at - place) for at, rare in near if at > place) for place in range(len(here))]
        barred = [word in wanted or not word[0].isalnum() for word in plain]
        edge = [not bar and rarity[word] > FREQUENT for word, bar in zip(plain, barred, strict=True)]
        for first in (place for place in range(len(here)) if edge[place]):
            fits = False
            for last in range(first, min(len(here), first + max(LONGEST))):
                if barred[last]:
                    break
                fits = fits or any(kind.match(here[last].group()) for kind in kinds)
                if edge[last]:
                    score = overlap + ahead[first] + back[last]
                    found.append(Span(here[first].start(), here[last].end(), last - first + 1, score, fits))
    return found


def chosen(some: Sequence[Span], longest: int, more: float) -> tuple[int, int]:
    """The best span of at most so many words, one that fits being so much better; nothing where there is none."""
    left = [each for each in some if each.words <= longest]
    best = max(left, key=lambda each: each.score + more * each.fits, default=Span(0, 0, 0, 0.0, False))
    return best.start, best.end


def figures(questions: Sequence[Question], found: Sequence[tuple[int, int]]) -> dict[str, float]:
    """Exact match and F1 of spans of the contexts, in per cent."""
    outputs = [each.context[start:end] for each, (start, end) in zip(questions, found, strict=True)]
    references = [tuple(answer.text for answer in each.answers) for each in questions]
    return {
        "exact-match": METRICS["squad-exact-match"](outputs, references),
        "f1": METRICS["squad-f1"](outputs, references),
    }


def by_rule(train: Sequence[Sequence[Question]], dev: Sequence[Question]) -> list[dict[str, Any]]:
    """A row a rule, on the development set, with its numbers."""
    rarity = Rarity(list(dict.fromkeys(each.context for some in train for each in some)))
    known = [each for some in train for each in some[:CHOSEN_ON]]
    tried, scored = ([spans(each, rarity) for each in some] for some in (known, dev))
    best_sentences = [max(sentences(each, rarity), key=lambda found: found[0])[1:] for each in dev]
    rows: list[dict[str, Any]] = [{"case": "the sentence"} | figures(dev, best_sentences)]
    for case, amounts in (("the nearest words", (0.0,)), ("the nearest words of the kind", MORE)):
        longest, more = max(
            product(LONGEST, amounts), key=lambda both: figures(known, [chosen(some, *both) for some in tried])["f1"]
        )
        found = figures(dev, [chosen(some, longest, more) for some in scored])
        rows.append({"case": case, "longest": longest, "more": more} | found)
    return rows


def main(folder: str) -> None:
    """Trains the run if it is not there, then prints the table."""
    path = Path(folder).resolve()
    read = QuestionFiles().every_question
    train, dev = [read(path / name) for name in TRAIN], read(path / DEV)
    rows = by_rule(train, dev)
    sets = {"train": TRAIN, "valid": TRAIN[1:], "test": (DEV,)}
    settings = [f"data.{name}=[{', '.join(str(path / file) for file in files)}]" for name, files in sets.items()]
    run = report.trained("spans", "spans", settings)
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    rows.append({"case": "`spans`"} | {name.removeprefix("test/"): figure for name, figure in result.items()})
    report.head("answers", "exact match", "F1", "words at most", "training seconds", "parameters")
    for row in rows:
        seconds, parameters = (f"{row[name]:,.0f}" if name in row else "" for name in ("seconds", "parameters"))
        answers = f"{row['exact-match']:.2f}", f"{row['f1']:.2f}"
        report.row(row["case"], *answers, row.get("longest", ""), seconds, parameters)
    report.write("spans", rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
