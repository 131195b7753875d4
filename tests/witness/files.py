"""Stand-ins for the files that recipes are trained on, the same every time."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image

SYLLABLES = [first + second for first in "bdfklmnprst" for second in ("a", "e", "i", "o", "u", "an", "el", "or")]
CLASSES = ("good", "bad", "plain")
ALPHABETS = ("Greek", "Korean", "Tagalog")


def vocabulary(random: Random, count: int = 150) -> list[str]:
    """Words that nobody knows."""
    return ["".join(random.choices(SYLLABLES, k=random.randint(1, 3))) for _ in range(count)]


class Writer:
    """Sentences of some words, the first of them more often than the last."""

    def __init__(self, name: str) -> None:
        self.random = Random(name)
        self.words = vocabulary(self.random)
        self.weights = [1 / place for place in range(2, len(self.words) + 2)]

    def sentence(self, least: int = 4, most: int = 10) -> str:
        """Words, and a full stop."""
        count = self.random.randint(least, most)
        return " ".join([*self.random.choices(self.words, self.weights, k=count), "."])

    def sentences(self, count: int) -> list[str]:
        """So many of them."""
        return [self.sentence() for _ in range(count)]


def lines(path: Path, rows: Sequence[str]) -> str:
    """Writes a text file and says where it is."""
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return str(path)


def listed(paths: Sequence[str]) -> str:
    """A list, as an option has it."""
    return json.dumps(list(paths))


def text(folder: Path) -> dict[str, str]:
    """Running text, a sentence a line."""
    writer = Writer("text")
    return {
        f"data.{name}": lines(folder / f"{name}.txt", writer.sentences(count))
        for name, count in (("train", 400), ("valid", 12), ("test", 12))
    }


def documents(folder: Path) -> dict[str, str]:
    """Documents with blank lines between them."""
    writer = Writer("documents")
    rows = [row for _ in range(60) for row in (*writer.sentences(writer.random.randint(3, 6)), "")]
    return {"data.train": lines(folder / "documents.txt", rows)}


def parallel(folder: Path) -> dict[str, str]:
    """Sentences, and the same with every word spelled from its end."""
    return {f"data.{name}": listed(paths) for name, paths in _translated(folder, 1).items()}


def multiparallel(folder: Path) -> dict[str, str]:
    """The same in two languages."""
    return {"data.languages": "[xx, yy]"} | {
        f"data.{name}": listed(paths) for name, paths in _translated(folder, 2).items()
    }


def _translated(folder: Path, languages: int) -> dict[str, list[str]]:
    writer, found = Writer("parallel"), {}
    for name, count in (("train", 200), ("valid", 6), ("test", 6)):
        sources = writer.sentences(count)
        backwards = [" ".join(word[::-1] for word in row.split()) for row in sources]
        turned = [" ".join(row.split()[::-1]) for row in sources]
        sides = [sources, backwards, turned][: languages + 1]
        found[name] = [lines(folder / f"{name}.{side}", rows) for side, rows in enumerate(sides)]
    return found


def parts(
    folder: Path, name: str, row: Callable[[Writer], str], header: str = "", *, train: int = 150, few: int = 12
) -> dict[str, str]:
    """Three files of rows by one writer: a table with a header, tagged sentences, or lines of JSON."""
    writer, paths = Writer(name), {}
    suffix = "tsv" if header else "conll" if name == "tagged" else "jsonl"
    for part, count in (("train", train), ("valid", few), ("test", few)):
        rows = [*([header] if header else []), *(row(writer) for _ in range(count))]
        paths[f"data.{part}"] = lines(folder / f"{part}.{suffix}", rows)
    return paths


def mails(folder: Path) -> dict[str, str]:
    """Texts, and the first words of each for a summary."""

    def row(writer: Writer) -> str:
        body = " ".join(writer.sentences(3))
        return json.dumps({"body": body, "subject": " ".join(body.split()[:3])})

    return parts(folder, "mails", row, few=6)


def conversations(folder: Path) -> dict[str, str]:
    """Turns with a blank line between them, conversations with two."""
    writer, rows = Writer("conversations"), []
    for _ in range(50):
        rows += [row for turn in writer.sentences(4) for row in (turn, "")] + [""]
    return {"data.train": lines(folder / "conversations.txt", rows)}


def questions(folder: Path) -> dict[str, str]:
    """Files of SQuAD, whose questions are the words before their answers."""
    writer, found = Writer("questions"), {}
    for name, count in (("train", 60), ("valid", 6), ("test", 6)):
        paragraphs = [_paragraph(writer) for _ in range(count)]
        path = folder / f"{name}.json"
        path.write_text(json.dumps({"data": [{"title": name, "paragraphs": paragraphs}]}), encoding="utf-8")
        found[f"data.{name}"] = listed([str(path)])
    return found


def _paragraph(writer: Writer) -> dict[str, object]:
    context, asked = " ".join(writer.sentences(4)), []
    words = context.split()
    for _ in range(2):
        place = writer.random.randrange(2, len(words) - 2)
        answer, start = " ".join(words[place : place + 2]), len(" ".join(words[:place])) + 1
        question = f"what follows {' '.join(words[place - 2 : place])} ?"
        asked.append({"question": question, "answers": [{"text": answer, "answer_start": start}]})
    return {"context": context, "qas": asked}


def labelled(folder: Path) -> dict[str, str]:
    """Texts, and a word in each that tells its class."""

    def row(writer: Writer) -> str:
        label = writer.random.choice(CLASSES)
        return f"{label[:3]}o {writer.sentence()}\t{label}"

    return parts(folder, "labelled", row, "text\tlabel")


def reviews(folder: Path) -> dict[str, str]:
    """The same of several sentences, a list of them."""

    def row(writer: Writer) -> str:
        label = writer.random.choice(CLASSES)
        told = [*writer.sentences(writer.random.randint(1, 4)), f"{label[:3]}o {writer.sentence()}"]
        return json.dumps({"text": told, "label": label})

    return parts(folder, "reviews", row, train=100)


def entailment(folder: Path) -> dict[str, str]:
    """Pairs of texts, of which the second is a part of the first or has nothing to do with it."""

    def row(writer: Writer) -> str:
        first, part = writer.sentence(), writer.random.random() < 0.5
        second = " ".join(first.split()[:4]) if part else writer.sentence()
        return f"{first}\t{second}\t{'ENTAILMENT' if part else 'NEUTRAL'}"

    return parts(folder, "entailment", row, "sentence_A\tsentence_B\tentailment_judgment")


def rated(folder: Path) -> dict[str, str]:
    """Texts with the number of their words."""

    def row(writer: Writer) -> str:
        sentence = writer.sentence()
        return f"{sentence}\t{len(sentence.split())}"

    return parts(folder, "rated", row, "text\tlabel")


def related(folder: Path) -> dict[str, str]:
    """Pairs of texts with the share of the first that the second repeats, from 1 to 5."""

    def row(writer: Writer) -> str:
        words = writer.sentence().split()
        kept = writer.random.randint(1, len(words))
        return f"{' '.join(words)}\t{' '.join(words[:kept])}\t{1 + 4 * kept / len(words):.2f}"

    return parts(folder, "related", row, "sentence_A\tsentence_B\trelatedness_score")


def several(folder: Path) -> dict[str, str]:
    """Texts with the letters from a to e that their first words begin with, a list of them."""

    def row(writer: Writer) -> str:
        text = writer.sentence()
        return json.dumps({"text": text, "label": sorted({word[0] for word in text.split()[:3]} & set("bdfgkm"))})

    return parts(folder, "several", row)


def tagged(folder: Path) -> dict[str, str]:
    """Sentences in two columns, where words that begin with some letters have tags."""

    def row(writer: Writer) -> str:
        tags = dict.fromkeys("bdf", "I-X") | dict.fromkeys("kmp", "I-Y")
        return "".join(f"{word} {tags.get(word[0], 'O')}\n" for word in writer.sentence().split())

    return parts(folder, "tagged", row)


def photographs(folder: Path) -> dict[str, str]:
    """Noise with a bright bar in it, and two captions that tell where."""
    writer, dice = Writer("photographs"), np.random.default_rng(1)
    found = {"data.images": str(folder)}
    for name, count in (("train", 48), ("valid", 6), ("test", 6)):
        rows = []
        for number in range(count):
            pixels, place = dice.integers(0, 90, (64, 64, 3), dtype=np.uint8), writer.random.randrange(4)
            pixels[16 * place : 16 * place + 16] = 220
            Image.fromarray(pixels).save(folder / f"{name}{number}.png")
            told = [f"a bar at {writer.words[place]} .", f"there is {writer.words[place]} {writer.words[9]} ."]
            rows.append(json.dumps({"image": f"{name}{number}.png", "captions": told}))
        found[f"data.{name}"] = lines(folder / f"{name}.jsonl", rows)
    return found


def clothes(folder: Path) -> dict[str, str]:
    """Noise whose brightness tells its class, in IDX files."""
    dice, found = np.random.default_rng(2), {}
    for name, count in (("train", 200), ("test", 20)):
        labels = dice.integers(0, 10, count, dtype=np.uint8)
        pixels = (dice.integers(0, 100, (count, 28, 28)) + 15 * labels[:, None, None]).astype(np.uint8)
        path = folder / f"{name}-images-idx3-ubyte"
        path.write_bytes(_idx(pixels))
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(_idx(labels))
        found[f"data.{name}"] = str(path)
    return found


def _idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


def characters(folder: Path) -> dict[str, str]:
    """Strokes of ink, four drawings of each character, of three alphabets."""
    dice = np.random.default_rng(3)
    drawn, alphabets, numbers = [], [], []
    for number in range(54):
        kind = (dice.random((28, 28)) < 0.1).astype(np.uint8)
        for _ in range(4):
            drawn.append(kind ^ (dice.random((28, 28)) < 0.02))
            alphabets.append(max(0, number // 6 - 6))
            numbers.append(number)
    path = folder / "characters.npz"
    arrays = {"images": np.array(drawn, np.uint8), "alphabet": np.array(alphabets), "character": np.array(numbers)}
    np.savez(path, alphabet_names=np.array(ALPHABETS), **arrays)
    return {"data.train": str(path)}
