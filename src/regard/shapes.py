"""Axis names of every signature, as jaxtyping aliases.

Tests check them at run time; users pay nothing for them.

`*batch` stands for any leading axes: a batch, or a batch and heads. `query` and `key`
count positions; widths are feature sizes. Everything is batch first. Keys have leading
axes of their own: several heads of queries may share a head of keys.
"""

import torch
from jaxtyping import Bool as Bool
from jaxtyping import Float as Float
from jaxtyping import Int as Int
from jaxtyping import Shaped as Shaped
from torch import Tensor

Query = Float[Tensor, "*batch query query_width"]
Key = Float[Tensor, "*key_batch key key_width"]

Scores = Float[Tensor, "*batch query key"]
Weights = Float[Tensor, "*batch query key"]
Context = Float[Tensor, "*batch query value_width"]


Tokens = Int[Tensor, "batch position"]
Source = Int[Tensor, "batch source_position"]
Lengths = Int[Tensor, " batch"]
Step = Int[Tensor, " batch"]
Rows = Int[Tensor, " rows"]
Inputs = Float[Tensor, "batch position input_width"]
States = Float[Tensor, "batch position width"]
Logits = Float[Tensor, "batch position vocabulary"]
Vectors = Float[Tensor, "batch width"]
Features = Float[Tensor, "*batch width"]
Scalar = Float[Tensor, ""]
Numbers = Float[Tensor, "*batch"]
Ids = Int[Tensor, "*batch"]
ClassLogits = Float[Tensor, "batch class"]
TokenLosses = Float[Tensor, "batch position"]
LayerStates = Float[Tensor, "batch layer state_width"]
Images = Float[Tensor, "batch channel height width"]
RowIds = Int[Tensor, " row"]
StepInputs = Float[Tensor, "batch input_width"]
TagLogits = Float[Tensor, "batch position tag"]
SpanLogits = Float[Tensor, "batch position 2"]
ImageSets = Float[Tensor, "batch image channel height width"]
Characters = Int[Tensor, "batch position character"]


def to_float32(numbers: Tensor) -> Tensor:
    """Convert to float32, if narrower.

    Half precision would overflow or round sums and quotients too much.
    """
    return numbers.to(torch.promote_types(numbers.dtype, torch.float32))
