"""How many examples of a generated data set are made."""

from dataclasses import dataclass

from regard.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Made:
    """Examples for training, validation and the test set; with the same `seed` the same ones."""

    kind: str
    train: int = 20_000
    valid: int = 500
    test: int = 1_000
    seed: int = 1

    most_made = 1_000_000
    most_held_out = 1_000_000

    def __post_init__(self) -> None:
        """Raises InputError for a set that is empty, except the test set, or too large."""
        for name, least, most in (
            ("train", 1, self.most_made),
            ("valid", 1, self.most_held_out),
            ("test", 0, self.most_held_out),
        ):
            size = getattr(self, name)
            if not least <= size <= most:
                raise InputError(f"{self.kind}: {name} is {size}; expected {least} to {most} examples")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Of the three sets, in their order."""
        return self.train, self.valid, self.test


@dataclass(frozen=True, kw_only=True)
class MadeOfLengths(Made):
    """Examples whose lengths are from `least` to `most`, and no less than `smallest`."""

    least: int = 1
    most: int = 20

    smallest = 1

    def __post_init__(self) -> None:
        """Raises InputError as `Made`, and for lengths that there are none of."""
        super().__post_init__()
        if not self.smallest <= self.least <= self.most:
            raise InputError(
                f"{self.kind}: least is {self.least} and most {self.most}; expected {self.smallest} <= least <= most"
            )
