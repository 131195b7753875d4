"""Linear maps by the C++ kernels, in float32 and in int8, for inference on a CPU."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.kernels.fused_layer import Affine, linear, serves
from regard.kernels.int8 import Codes
from regard.nn.large_vocabulary import SampledOutput
from regard.nn.output import Output, Predictor
from regard.shapes import Float, Tokens
from regard.text.special import IGNORED

ROWS = 512
"""Number of positions whose logits exist at one time while the loss is computed."""


M = TypeVar("M", bound=nn.Module)


def replaced(
    model: nn.Module, form_of: Callable[[nn.Module], nn.Module | None]
) -> list[nn.Module]:
    """Replace modules throughout the model: `form_of` returns the replacement of a module, or None to keep it. Returns
    the modules that were replaced."""
    forms: dict[nn.Module, nn.Module | None] = {}
    for parent in list(model.modules()):
        for name, each in list(parent._modules.items()):
            if each is None:
                continue
            if each not in forms:
                forms[each] = form_of(each)
            form = forms[each]
            if form is not None:
                setattr(parent, name, form)
    return [each for each, form in forms.items() if form is not None]


def sharing(form: type[M], plain: nn.Module) -> M:
    """A module of class `form` that shares the parts of `plain`: parameters, names and hooks."""
    new = form.__new__(form)
    vars(new).update(vars(plain))
    return new


class FusedOutput(Output):
    """An output layer that computes its logits by the kernel where that serves."""

    replaces: type[Output] = Output

    def forward(self, input: Any) -> Float[Tensor, "..."]:
        if serves(input) and serves(self.weight):
            return linear(input, Affine(self.weight, self.bias))
        return super().forward(input)


class FusedSampledOutput(FusedOutput, SampledOutput):
    """A `SampledOutput` that computes its logits by the kernel where that serves."""

    replaces = SampledOutput


class Int8Linear(nn.Module):
    """W x + b in int8: W has one scale per row, and x is rounded with one scale per position."""

    def __init__(self, plain: nn.Linear):
        super().__init__()
        self.in_features, self.out_features = plain.in_features, plain.out_features
        found, bias = Codes.of(plain.weight.detach()), plain.bias
        self.codes, self.scale, self.shift = (
            nn.Buffer(each, persistent=False)
            for each in (found.codes, found.scale, found.shift)
        )
        self.bias = None if bias is None else nn.Buffer(bias.detach(), persistent=False)

    @property
    def affine(self) -> Affine:
        """The map in the kernel's form."""
        return Affine(
            Codes(self.codes, self.scale, self.shift, self.in_features), self.bias
        )

    @property
    def weight(self) -> Float[Tensor, "output input"]:
        """The matrix that the codes represent."""
        return self.codes[:, : self.in_features] * self.scale[:, None]

    def forward(
        self, input: Float[Tensor, "*batch input"]
    ) -> Float[Tensor, "*batch output"]:
        if serves(input):
            return linear(input, self.affine)
        found = Codes(self.codes, self.scale, self.shift, self.in_features).multiply(
            input
        )
        return found if self.bias is None else found + self.bias


class Int8Output(Int8Linear, Predictor):
    """An output layer in int8."""

    def loss(
        self, features: Any, targets: Tokens, smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "batch position"]]:
        parts = zip(
            features.flatten(0, 1).split(ROWS),
            targets.flatten().split(ROWS),
            strict=True,
        )
        losses = [
            functional.cross_entropy(
                self(each),
                expected,
                ignore_index=IGNORED,
                reduction="none",
                label_smoothing=smoothing,
            )
            for each, expected in parts
        ]
        each = torch.cat(losses)
        return each.sum(), each.detach().view(targets.shape)


def affine(module: nn.Module) -> Affine | None:
    """A linear map or an output layer in the kernel's form; None if it has none."""
    if isinstance(module, Int8Linear):
        return module.affine
    if type(module) not in (nn.Linear, Output, FusedOutput):
        return None
    weight, bias = cast("tuple[Tensor, Tensor | None]", (module.weight, module.bias))
    served = (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and weight.is_contiguous()
    )
    return Affine(weight, bias) if served else None


def with_int8(model: nn.Module) -> int:
    """Replace all linear maps of a model by int8 ones. Returns the number of weights replaced. An embedding that was
    tied to an output layer keeps its own table."""
    kinds = {nn.Linear: Int8Linear, Output: Int8Output, FusedOutput: Int8Output}

    def form_of(module: nn.Module) -> nn.Module | None:
        kind = kinds.get(type(module))
        return (
            kind(module).train(module.training)
            if kind is not None and isinstance(module, nn.Linear)
            else None
        )

    return sum(
        each.weight.numel()
        for each in replaced(model, form_of)
        if isinstance(each, nn.Linear)
    )
