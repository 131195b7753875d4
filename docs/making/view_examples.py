"""Pages of the view whose weights are given, not a model's: `python -m docs.making.view_examples FOLDER`."""

import sys
from pathlib import Path

import numpy as np

from regard.maps import DocumentWeights
from regard.maps.lookups import ImagePatches, Lookups, lookups_from_document, patch_labels
from regard.pictures import View
from regard.pictures.write import write_view
from regard.tasks.image_captioning.data import Scenes
from regard.tasks.image_captioning.run import overlap

ARABIC = ("جلس", "القط", "الأسود", "على", "الحصيرة", ".")
CHINESE = ("黑", "猫", "坐", "在", "垫子", "上", "。")
LINKS = ((2,), (1,), (0,), (3,), (4,), (3,), (5,))
"""Of each Chinese word the Arabic words that it translates."""
SENTENCES = (
    "The film begins in a small town by the sea .",
    "It looks good , and the first half hour is fine .",
    "Then the story falls apart and the jokes get stupid .",
    "We left before the end .",
)
SAID = {"bad": 0.5, "stupid": 0.4, "apart": 0.3, "good": 0.2, "fine": 0.2, "left": 0.25}


def translation() -> Lookups:
    """Return most of each row on what it translates, the rest spread."""
    weights = np.full((len(CHINESE), len(ARABIC)), 0.15 / len(ARABIC))
    for target, sources in enumerate(LINKS):
        weights[target, list(sources)] += 0.85 / len(sources)
    return Lookups(weights[None, None], ARABIC, CHINESE)


def document() -> DocumentWeights:
    """Return words of praise and blame, and the sentences that have them."""
    words = [sentence.split() for sentence in SENTENCES]
    raw = [np.array([SAID.get(word, 0.02) for word in sentence]) for sentence in words]
    total = np.array([each.sum() for each in raw])
    shares = tuple(each / each.sum() for each in raw)
    return DocumentWeights(tuple(map(tuple, words)), total / total.sum(), shares)


def scene(side: int = 8) -> Lookups:
    """Return a generated scene, whose boxes say where each shape is."""
    one = Scenes().tests()[2]
    assert isinstance(one.image, np.ndarray)
    words = tuple(one.captions[0].split())
    even = np.full((side, side), 1 / side**2)
    weights = np.stack([overlap(one.boxes[word], side) if word in one.boxes else even for word in words])
    assert isinstance(one.image, np.ndarray)
    patches = ImagePatches(one.image, side, side)
    rows = weights.reshape(1, 1, len(words), -1)
    return Lookups(rows / rows.sum(-1, keepdims=True), patch_labels(side, side), words, patches=patches)


def long_text(count: int = 512) -> Lookups:
    """Return the review again and again.

    Of the first layer head 0 attends to the word before, head 1 its sentence, head 2 the
    same word wherever it stands, head 3 the stops; of the second the same, half of it spread.
    """
    words = (" ".join(SENTENCES).split() * count)[:count]
    sentences = np.cumsum([place > 0 and words[place - 1] == "." for place in range(count)])
    same, places = np.array([[one == other for other in words] for one in words]), np.arange(count)
    stops = np.broadcast_to([word == "." for word in words], (count, count))
    read = [np.eye(count, k=-1) + np.eye(count) * (places == 0), sentences[:, None] == sentences, same, stops]
    heads = np.stack([each / each.sum(-1, keepdims=True) for each in map(np.asarray, read)])
    return Lookups(np.stack([heads, heads / 2 + 0.5 / count]), tuple(words), tuple(words))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    write_view(View(translation(), title=" ".join(ARABIC)), folder / "scripts.html")
    write_view(View(lookups_from_document(document()), title="A review"), folder / "document.html")
    write_view(View(scene(), title="A scene"), folder / "scene.html")
    write_view(View(long_text(), title="A review of 512 words"), folder / "words.html")
