"""What a machine with a tape did, step by step, as arrays."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True, eq=False)
class TapeUse:
    """What came in and went out at each step, bits or probabilities of them, NaN where no answer is asked for; and
    where on the tape each head read or wrote."""

    inputs: Float[np.ndarray, "step input_width"]
    outputs: Float[np.ndarray, "step output_width"]
    reading: Float[np.ndarray, "read_head step row"]
    writing: Float[np.ndarray, "write_head step row"]
