"""Right captions and wrong ones of a trained run's test set, and where it attended for each word.

`python -m benchmarks.caption_gallery RUN FOLDER [COUNT]`, by default three of each: a picture a caption and a page,
README.md, with what was said and what was wanted. Nobody chooses: a caption is right if it is one of its references
word for word, and the first of the test set; where none is, the nearest and the farthest by CIDEr-D.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from regard.metrics.cider import ciders
from regard.metrics.rouge import words
from regard.runs.load import load
from regard.tasks.image_captioning.run import ImageCaptioningRun


def chosen(outputs: Sequence[str], references: Sequence[Sequence[str]], count: int) -> dict[str, list[int]]:
    """The numbers of so many captions of either kind, or of fewer, by what the page calls them."""
    right = [
        number
        for number, (output, several) in enumerate(zip(outputs, references, strict=True))
        if words(output) in [words(each) for each in several]
    ]
    if right:
        wrong = [number for number in range(len(outputs)) if number not in set(right)]
        return {"right": right[:count], "wrong": wrong[:count]}
    scores = ciders(outputs, references)
    order = sorted(range(len(outputs)), key=lambda number: -scores[number])
    some = min(count, len(order) // 2)
    return {"nearest": order[:some], "farthest": order[len(order) - some :][::-1]}


def draw(run: ImageCaptioningRun, folder: Path, count: int) -> str:
    """Writes the pictures; returns the page that shows them. Raises InputError for a run that does not attend."""
    tests, page = run.config.data.tests(), []
    outputs = [caption.text for caption in run.predict([each.image for each in tests])]
    for kind, numbers in chosen(outputs, [each.captions for each in tests], count).items():
        for place, number in enumerate(numbers, 1):
            found, name = run.attribute(tests[number].image), f"{kind}-{place}.png"
            found.write(folder / name)
            wanted = "; ".join(tests[number].captions)
            page += [f"## {kind.capitalize()}, {place}", f"Said: {found.prediction.text}", f"Wanted: {wanted}"]
            page.append(f"![an image, and the attention on it for each word of: {found.prediction.text}]({name})")
    return "\n\n".join([f"# Captions of {len(tests):,} images that were not trained on", *page]) + "\n"


def main(run: str, folder: str, count: str = "3") -> None:
    """Writes the page and its pictures into a folder, and prints where it is."""
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    page = draw(load(Path(run), "cpu", task=ImageCaptioningRun), out, int(count))
    (out / "README.md").write_text(page, encoding="utf-8")
    print(f"{page.count('![')} captions are drawn; the page is {out / 'README.md'}")


if __name__ == "__main__":
    main(*sys.argv[1:])
