"""Data made from public text, nouns of captions and words that a shorter version keeps, and sentences with subjects."""

import gzip
import json
import re
from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from random import Random

from benchmarks import report

CAPTION_SETS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
NOUN = re.compile(r"(?<=\s)[A-ZÄÖÜ][a-zäöüß]+")
WORD = re.compile(r"\w+(?:[-'’]\w+)*|\S")
LABELS = 20
KEEP, DROP = "KEEP", "O"


def read_lines(path: Path) -> list[str]:
    """Read the lines of a compressed text."""
    return gzip.decompress(path.read_bytes()).decode().split("\n")[:-1]


def captions_with_nouns(folder: Path) -> dict[str, list[tuple[str, list[str]]]]:
    """Return English captions labelled with the frequent nouns of their German translations.

    German writes nouns with a capital. The labels are the `LABELS` nouns that are most frequent in the training set.
    """
    lines = {
        part: [read_lines(folder / "multi30k" / f"{name}.{language}.gz") for language in ("en", "de")]
        for part, name in CAPTION_SETS.items()
    }
    counts = Counter(noun for line in lines["train"][1] for noun in set(NOUN.findall(line)))
    labels = {noun for noun, _ in counts.most_common(LABELS)}
    return {
        part: [
            (english, sorted(labels & set(re.findall(r"\w+", german))))
            for english, german in zip(*languages, strict=True)
        ]
        for part, languages in lines.items()
    }


def write_nouns(folder: Path) -> None:
    """Write the labelled captions to `runs/nouns`."""
    output = report.ROOT / "runs" / "nouns"
    output.mkdir(parents=True, exist_ok=True)
    for part, captions in captions_with_nouns(folder).items():
        rows = [json.dumps({"text": text, "label": labels}, ensure_ascii=False) for text, labels in captions]
        (output / f"{part}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")


def tag_kept_words(words: Sequence[str], short: Sequence[str]) -> list[str] | None:
    """Tag the words of a sentence that stand in a shorter version, in order; None if it has words of its own."""
    tags, remaining = [], list(short)
    for word in words:
        matches = bool(remaining) and word.lower() == remaining[0].lower()
        tags.append(KEEP if matches else DROP)
        if matches:
            remaining.pop(0)
    return None if remaining else tags


def compressed_sentences(folder: Path) -> dict[str, list[list[tuple[str, str]]]]:
    """Return the sentences of each set as pairs of word and tag; every tenth one is held out, and another for tests."""
    sentences = []
    for name in ("bnc", "broadcast"):
        for line in read_lines(folder / "sentence_compression" / f"{name}.jsonl.gz"):
            record = json.loads(line)
            words = WORD.findall(record["text"])
            tags = tag_kept_words(words, WORD.findall(record["summaries"][0]))
            if tags is not None:
                sentences.append(list(zip(words, tags, strict=True)))
    train = [sentence for index, sentence in enumerate(sentences) if index % 10 > 1]
    return {"train": train, "valid": sentences[::10], "test": sentences[1::10]}


def write_compression(folder: Path) -> None:
    """Write the tagged sentences to `runs/compression`."""
    output = report.ROOT / "runs" / "compression"
    output.mkdir(parents=True, exist_ok=True)
    for part, sentences in compressed_sentences(folder).items():
        blocks = ["".join(f"{word}\t{tag}\n" for word, tag in sentence) for sentence in sentences]
        (output / f"{part}.conll").write_text("\n".join(blocks), encoding="utf-8")


SUBJECTS = ["FBI", "police", "cat", "dog", "hawk", "fox", "sheriff", "judge", "nurse", "pirate"]
SUBJECTS += ["farmer", "wolf", "owl", "teacher", "spider", "guard", "lion", "hunter", "sailor", "baker"]
OBJECTS = ["criminal", "spy", "thief", "mouse", "bird", "ball", "rabbit", "fish", "robber", "liar", "child", "ship"]
OBJECTS += ["goat", "lamb", "vole", "pupil", "fly", "burglar", "zebra", "deer", "whale", "loaf", "crab", "snail"]
VERBS = ["chasing", "watching", "catching", "following"]
PLACES = ["run", "roof", "lawn", "street", "floor", "hill", "shore", "bridge"]
SITES = ["river", "tower", "garden", "wall", "gate", "market", "station", "forest"]


def make_subject_sentences(count: int, seed: int) -> list[tuple[str, str, str]]:
    """Return sentences with their subjects and verbs; the object is one of two for each subject and verb."""
    random = Random(0)
    objects = {pair: random.sample(OBJECTS, 2) for pair in product(SUBJECTS, VERBS)}
    objects["FBI", "chasing"] = OBJECTS[:2]
    random = Random(seed)
    sentences = []
    for _ in range(count):
        subject, verb = random.choice(SUBJECTS), random.choice(VERBS)
        before, after = (
            f"{random.choice(('near', 'behind', 'beside', 'above'))} the {random.choice(SITES)} "
            if random.random() < share
            else ""
            for share in (0.33, 0.25)
        )
        target = random.choice(objects[subject, verb])
        place = PLACES[OBJECTS.index(target) % len(PLACES)]
        text = f"{before}the {subject} {after}is {verb} a {target} on the {place} ."
        sentences.append((text[0].upper() + text[1:], subject, verb))
    return sentences


def write_subjects(folder: Path) -> None:
    """Write sentences with subjects to `runs/subjects`."""
    output = report.ROOT / "runs" / "subjects"
    output.mkdir(parents=True, exist_ok=True)
    for seed, (part, count) in enumerate({"train": 8000, "valid": 500, "test": 500}.items(), 1):
        lines = [text for text, _, _ in make_subject_sentences(count, seed)]
        (output / f"{part}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
