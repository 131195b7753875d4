"""Published tensors and the parameters they become: one table per family, used in both directions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.models.attention import ActivationName

LISTED = 10
ACTIVATIONS: Mapping[str, ActivationName] = {
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "gelu_python": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
"""Published activations; of several names for one the first is written."""
NEUTRAL = frozenset(
    {
        "architectures",
        "attention_dropout",
        "attention_probs_dropout_prob",
        "attn_pdrop",
        "bos_token_id",
        "classifier_dropout",
        "cls_token_id",
        "decoder_start_token_id",
        "dtype",
        "embd_pdrop",
        "eos_token_id",
        "finetuning_task",
        "forced_eos_token_id",
        "gradient_checkpointing",
        "id2label",
        "initializer_range",
        "is_encoder_decoder",
        "label2id",
        "mask_token_id",
        "max_length",
        "model_type",
        "num_beams",
        "pad_token_id",
        "problem_type",
        "sep_token_id",
        "task_specific_params",
        "tokenizer_class",
        "torch_dtype",
        "transformers_version",
        "use_cache",
        "vocab_size",
        "_name_or_path",
        "_num_labels",
    }
)
"""Keys of configurations that do not change what a trained model computes."""


@dataclass(frozen=True)
class Part:
    """A published tensor and the parameters that it stacks along the first axis.

    `{}` stands for the number of a layer. A `transposed` weight is published as
    (in, out).
    """

    published: str
    ours: tuple[str, ...]
    transposed: bool = False

    def of_layer(self, number: int) -> "Part":
        """Return the part of one layer."""
        ours = tuple(name.format(number) for name in self.ours)
        return Part(self.published.format(number), ours, self.transposed)


def linear(published: str, *ours: str, transposed: bool = False) -> tuple[Part, Part]:
    """Return the weight and bias of a linear map, or of several published as one."""
    weights = tuple(f"{name}.weight" for name in ours)
    biases = tuple(f"{name}.bias" for name in ours)
    return (
        Part(f"{published}.weight", weights, transposed),
        Part(f"{published}.bias", biases),
    )


@dataclass(frozen=True)
class Family:
    """The published form of one of regard's models.

    consumed: Keys of a published configuration that `read_config` reads.
    read_config: From a configuration of transformers and the name of its class to the
        configuration of ours; raises InputError for values that ours does not compute.
    write_config: From ours and the name of a task to config.json without labels; raises
        InputError for values that no published model has.
    parts: The table of weights, for a configuration of ours and the name of a task.
    to_ours, to_published: What remains to be done with tensors after and before the
        table is applied.
    """

    consumed: frozenset[str]
    read_config: Callable[[Any, str], Any]
    write_config: Callable[[Any, str], dict[str, Any]]
    parts: Callable[[Any, str], Sequence[Part]]
    to_ours: Callable[[dict[str, Tensor], Any], dict[str, Tensor]]
    to_published: Callable[[dict[str, Tensor], Any], dict[str, Tensor]]

    def check(self, values: Any) -> None:
        """Refuse a configuration with a value that nobody reads.

        Args:
            values: The configuration object of transformers.

        Raises:
            InputError: A key that changes what is computed differs from the library's
                default for the model type.
        """
        defaults = type(values)().to_dict()
        for key, value in values.to_dict().items():
            is_default = value is None or value == defaults.get(key)
            if not is_default and key not in self.consumed and key not in NEUTRAL:
                raise InputError(f"{key} is {value!r}")


def keep(tensors: dict[str, Tensor], config: Any) -> dict[str, Tensor]:
    """Return the tensors as they are."""
    return tensors


def read_weights(
    parts: Sequence[Part], weights: Mapping[str, Tensor], layers: int
) -> dict[str, Tensor]:
    """Convert published tensors to parameters.

    Raises:
        InputError: Tensors are missing, unknown or indivisible; ten of each are listed.
    """
    expected = list(_all_layers(parts, layers))
    names = {part.published for part in expected}
    missing = [part.published for part in expected if part.published not in weights]
    unknown = sorted(set(weights) - names)
    uneven = [
        part.published
        for part in expected
        if part.published in weights
        and (
            not weights[part.published].ndim
            or len(_oriented(part, weights)) % len(part.ours)
        )
    ]
    problems = {"missing": missing, "unknown": unknown, "of another shape": uneven}
    if any(problems.values()):
        listed = [
            f"{len(names)} {problem}: {list_names(names)}"
            for problem, names in problems.items()
            if names
        ]
        raise InputError(
            f"the tensors are not those of such a model: {'; '.join(listed)}"
        )
    result = {}
    for part in expected:
        chunks = _oriented(part, weights).chunk(len(part.ours))
        result |= dict(zip(part.ours, chunks, strict=True))
    return result


def write_weights(
    parts: Sequence[Part], parameters: Mapping[str, Tensor], layers: int
) -> dict[str, Tensor]:
    """Convert parameters to published tensors."""
    result = {}
    for part in _all_layers(parts, layers):
        tensor = torch.cat([parameters[name] for name in part.ours])
        result[part.published] = tensor.mT.contiguous() if part.transposed else tensor
    return result


def _all_layers(parts: Sequence[Part], layers: int) -> Iterator[Part]:
    for part in parts:
        if "{}" in part.published:
            yield from (part.of_layer(number) for number in range(layers))
        else:
            yield part


def _oriented(part: Part, weights: Mapping[str, Tensor]) -> Tensor:
    tensor = weights[part.published]
    return tensor.mT if part.transposed and tensor.ndim > 1 else tensor


def list_names(names: Sequence[str]) -> str:
    """Return the first ten names and the number of the others as text."""
    listed = ", ".join(names[:LISTED])
    more = len(names) - LISTED
    return listed + (f" and {more} more" if more > 0 else "")


def read_activation(name: str) -> ActivationName:
    """Return our name of a published activation.

    Raises:
        InputError: regard has no such activation.
    """
    if name not in ACTIVATIONS:
        raise InputError(f"the activation is {name}")
    return ACTIVATIONS[name]


def write_activation(name: ActivationName) -> str:
    """Return the published name of an activation."""
    return next(published for published, ours in ACTIVATIONS.items() if ours == name)


def require(config: Any, **published: Any) -> None:
    """Refuse a configuration of ours with values that no published model has.

    Raises:
        InputError: A field differs; `score`, `align` and `self_align` are checked too.
    """
    usual = {"score": "scaled-dot", "align": "softmax", "self_align": "softmax"}
    for key, value in {**usual, **published}.items():
        chosen = getattr(config, key, value)
        if chosen != value:
            raise InputError(
                f"model.{key} is {chosen!r}; published models have {value!r} only"
            )
