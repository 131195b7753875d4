"""Generated scenes of two shapes with captions, and the box of the object that each word names.

A scene has two different shapes in two colours, one beside or above the other. Its captions name shapes, colours and
positions, in every way that is true: "a red circle is left of a blue ring", "a blue ring is right of a red circle".
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, UInt8

from regard.data.generated.synthetic import Synthetic
from regard.data.splits import Splits
from regard.errors import InputError
from regard.tasks.image_captioning.data import Box, Captioned

Plane = Float[np.ndarray, "height width"]
"""For each pixel its distance from the middle of a shape along one axis, 1 at the shape's edge."""
SHAPES: dict[str, Callable[[Plane, Plane], Bool[np.ndarray, "height width"]]] = {
    "circle": lambda y, x: y**2 + x**2 <= 1,
    "square": lambda y, x: np.maximum(abs(y), abs(x)) <= 0.9,
    "triangle": lambda y, x: (y <= 0.9) & (abs(x) <= (y + 1) / 2),
    "diamond": lambda y, x: abs(y) + abs(x) <= 1,
    "cross": lambda y, x: (
        (np.minimum(abs(y), abs(x)) <= 0.3) & (np.maximum(abs(y), abs(x)) <= 1)
    ),
    "ring": lambda y, x: (y**2 + x**2 <= 1) & (y**2 + x**2 >= 0.3),
}
COLOURS = {
    "red": (214, 39, 40),
    "green": (44, 160, 44),
    "blue": (31, 89, 200),
    "yellow": (245, 200, 20),
    "purple": (148, 60, 189),
    "white": (250, 250, 250),
}
RELATIONS = {"down": ("above", "below"), "across": ("left of", "right of")}
SMALLEST, LARGEST = 0.16, 0.24
"""Half the side of a shape, as a share of the image's."""


@dataclass(frozen=True, kw_only=True)
class Scenes(Synthetic):
    """Images of `size` x `size` pixels, red, green and blue, on grounds of different greys."""

    kind: Literal["scenes"] = "scenes"
    train: int = 6_000
    valid: int = 300
    test: int = 500
    size: int = 64

    most_train = 100_000  # of 64 x 64 pixels, 1.2 GB
    most_held_out = 10_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 16 <= self.size <= 256:
            raise InputError(f"scenes: size is {self.size}; expected 16 to 256 pixels")

    def load(self) -> Splits[Captioned]:
        """Generate all three sets, each from a generator of its own."""
        return Splits(*(self._make(name) for name in ("train", "valid", "test")))

    def tests(self) -> list[Captioned]:
        """The scenes of the test set."""
        return self._make("test")

    def _make(self, name: str) -> list[Captioned]:
        random = Random(f"scenes/{self.seed}/{name}")
        return [
            scene(random, self.size, f"scenes {name} {number}")
            for number in range(1, getattr(self, name) + 1)
        ]


def scene(random: Random, size: int, place: str) -> Captioned:
    """One image with its captions and the boxes of both shapes."""
    shapes, colours = random.sample(list(SHAPES), 2), random.sample(list(COLOURS), 2)
    way = random.choice(list(RELATIONS))
    pixels = np.full((size, size, 3), random.randint(30, 130), dtype=np.uint8)
    boxes: dict[str, Box] = {}
    for number, (shape, colour) in enumerate(zip(shapes, colours, strict=True)):
        half = random.uniform(SMALLEST, LARGEST)
        along = random.uniform(half, 0.5 - half) + 0.5 * number
        beside = random.uniform(half, 1 - half)
        middle = (beside, along) if way == "across" else (along, beside)
        draw(pixels, shape, COLOURS[colour], middle, half)
        boxes[shape] = (
            middle[0] - half,
            middle[1] - half,
            middle[0] + half,
            middle[1] + half,
        )
    names = {
        shape: f"a {colour} {shape}"
        for shape, colour in zip(shapes, colours, strict=True)
    }
    return Captioned(pixels, tuple(captions(names, boxes)), place, boxes)


def captions(names: Mapping[str, str], boxes: Mapping[str, Box]) -> Iterator[str]:
    """The captions of two shapes: two for each direction in which they do not overlap."""
    for axis, (before, behind) in enumerate(RELATIONS.values()):
        one, other = sorted(names, key=lambda shape, axis=axis: boxes[shape][axis])
        if boxes[one][axis + 2] <= boxes[other][axis]:
            yield f"{names[one]} is {before} {names[other]}"
            yield f"{names[other]} is {behind} {names[one]}"


def draw(
    pixels: UInt8[np.ndarray, "height width channel"],
    shape: str,
    colour: tuple[int, int, int],
    middle: tuple[float, float],
    half: float,
) -> None:
    """Draw a shape into an image; its centre and half its side are shares of the image's side."""
    y, x = ((np.arange(len(pixels)) + 0.5) / len(pixels) - at for at in middle)
    inside = SHAPES[shape](y[:, None] / half + 0 * x, x / half + 0 * y[:, None])
    pixels[inside] = colour
