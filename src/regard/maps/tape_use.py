"""The steps of a machine with a tape, as arrays."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from regard.maps.lookups import READS, Lookups

TOUCHED = 0.01
"""Rows behind the last with at least this weight are not shown."""


@dataclass(frozen=True, eq=False)
class TapeUse:
    """Inputs and outputs at each step, bits or their probabilities (NaN where no output is expected), and the weights
    with which each head read or wrote the tape."""

    inputs: Float[np.ndarray, "step input_width"]
    outputs: Float[np.ndarray, "step output_width"]
    reading: Float[np.ndarray, "read_head step row"]
    writing: Float[np.ndarray, "write_head step row"]

    @property
    def rows(self) -> int:
        """Number of rows from the first to the last with a weight of at least TOUCHED."""
        weights = np.concatenate([self.writing, self.reading])
        of_use = np.flatnonzero((weights >= TOUCHED).any((0, 1)))
        return int(of_use[-1]) + 1 if len(of_use) else min(1, weights.shape[-1])

    def lookups(self) -> tuple[Lookups, Lookups]:
        """The reads and the writes of every head at each step, on the rows in use. A step's label is its input, or its
        output bits where an output is expected."""
        rows = tuple(f"row {row}" for row in range(self.rows))
        steps = tuple(
            f"{number}: {step}"
            for number, step in enumerate(map(_step, self.inputs, self.outputs))
        )

        def lookups(
            weights: Float[np.ndarray, "head step row"],
            name: str,
            verbs: tuple[str, str],
        ) -> Lookups:
            return Lookups(
                weights[None, ..., : len(rows)],
                rows,
                steps,
                name,
                layers=("tape",),
                verbs=verbs,
            )

        return (
            lookups(self.reading, "reads from the tape", READS),
            lookups(self.writing, "writes to the tape", ("writes", "is written")),
        )


def _step(
    inputs: Float[np.ndarray, " input_width"],
    outputs: Float[np.ndarray, " output_width"],
) -> str:
    """The label of a step. Marks have channels of their own, and a number of repeats is not a bit."""
    if np.isnan(outputs).any():
        return "in " + "".join(
            f"{value:g}" if value in (0, 1) else f" {value:.2f}" for value in inputs
        )
    return "out " + "".join(str(int(bit)) for bit in outputs > 0.5)
