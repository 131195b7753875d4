"""A sentence-transformers folder (Reimers and Gurevych 2019, 1908.10084): modules that make one vector of the states of
a text. No module of another library is loaded, and none runs code of its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.errors import InputError
from regard.hub.formats.folder import CONFIG, WEIGHTS, Folder
from regard.hub.formats.settings import Settings
from regard.shapes import Float

MODULES, PROMPTS = "modules.json", "config_sentence_transformers.json"
FAMILIES = (
    "bert",
    "roberta",
    "distilbert",
    "camembert",
    "albert",
    "xlm-roberta",
    "xlnet",
)
"""Each may give its name to the file of the first module's settings."""
OWN = "sentence_transformers."
"""What the names of the library's own modules begin with."""
POOLING = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Keys of older files, in the order of the vector's parts, and the names of today's."""
ACTIVATIONS: Mapping[str, type[nn.Module]] = {
    each.__name__: each
    for each in (nn.Identity, nn.Tanh, nn.ReLU, nn.GELU, nn.Sigmoid, nn.SiLU)
}
VECTOR = "sentence_embedding"
Vector = Float[Tensor, " component"]
Step = Callable[[Vector], Vector]


@dataclass(frozen=True)
class Pooling:
    """One vector of the states of a text: the vectors of the `modes`, one after another. `prompted`: the states of the
    prompt count too."""

    modes: tuple[str, ...]
    prompted: bool = True

    def __call__(self, states: Float[Tensor, "token width"], prompt: int) -> Vector:
        """Pool the states, of which the first `prompt` are a prompt's. Raises InputError where no other is left."""
        kept = states if self.prompted else states[prompt:]
        if not len(kept):
            raise InputError("the text has no token beside the prompt; write a text")
        return torch.cat(
            [_pooled(mode, kept, len(states) - len(kept)) for mode in self.modes]
        )


@dataclass(frozen=True)
class SentenceModules:
    """How a folder makes vectors: texts are cut to `longest` tokens, in small letters with `lower`; `pooling` and then
    the `steps`; `prompts` by name, of which `default` precedes a text."""

    pooling: Pooling
    steps: tuple[Step, ...] = ()
    longest: int | None = None
    lower: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict)
    default: str | None = None

    def prompt(self, name: str | None) -> str:
        """The prompt of this name, or the default's. Raises InputError for an unknown name."""
        chosen = name or self.default
        if chosen is not None and chosen not in self.prompts:
            known = ", ".join(self.prompts) or "none"
            raise InputError(f"prompt is {chosen!r}; the model's prompts are: {known}")
        return "" if chosen is None else self.prompts[chosen]

    def vector(self, states: Float[Tensor, "token width"], prompt: int) -> Vector:
        """The vector of a text's states, of which the first `prompt` are a prompt's."""
        found = self.pooling(states.float(), prompt)
        for step in self.steps:
            found = step(found)
        return found


def text_folder(folder: Folder) -> Path:
    """The folder of the transformers model: that of the first module in a sentence-transformers folder, else the folder
    itself."""
    if not folder.has(MODULES) or folder.has(CONFIG):
        return folder.path
    return _inside(folder, _listed(folder)[0]).path


def read_modules(folder: Folder) -> SentenceModules | None:
    """The modules of a folder; None in a folder without them. Raises InputError for a module that regard does not
    compute."""
    if not folder.has(MODULES):
        return None
    kinds = [(_kind(each, folder), _inside(folder, each)) for each in _listed(folder)]
    if [kind for kind, _ in kinds[:2]] != ["Transformer", "Pooling"]:
        first = ", ".join(kind for kind, _ in kinds[:2])
        raise InputError(
            f"{folder.path / MODULES}: begins with {first}; regard computes Transformer and Pooling, then Dense, "
            "LayerNorm and Normalize"
        )
    steps = tuple(STEPS[_known(kind, folder)](place) for kind, place in kinds[2:])
    texts = _optional(folder, PROMPTS)
    prompts = {
        str(name): text
        for name, text in (texts.values.get("prompts") or {}).items()
        if text is not None
    }
    longest, lower = _limits(kinds[0][1])
    return SentenceModules(
        _pooling(kinds[1][1]),
        steps,
        longest,
        lower,
        prompts,
        texts.values.get("default_prompt_name"),
    )


def _listed(folder: Folder) -> list[dict[str, Any]]:
    """The modules in their order. Raises InputError for anything else."""
    found = folder.array(MODULES)
    if not found or not all(isinstance(each, dict) for each in found):
        raise InputError(f"{folder.path / MODULES}: expected a list of modules")
    return found


def _inside(folder: Folder, module: Mapping[str, Any]) -> Folder:
    """The folder of a module. Raises InputError for a path that leads out of the whole."""
    path = Path(str(module.get("path", "")))
    if path.is_absolute() or ".." in path.parts:
        raise InputError(
            f"{folder.path / MODULES}: the path {str(path)!r} leads out of the folder; refused"
        )
    return Folder(folder.path / path, folder.root or folder.path)


def _kind(module: Mapping[str, Any], folder: Folder) -> str:
    """The name of a module's class. Raises InputError for one of another library."""
    name = str(module.get("type"))
    if not name.startswith(OWN):
        raise InputError(
            f"{folder.path / MODULES}: the module {name!r} needs code of its own, which regard never runs"
        )
    return name.rpartition(".")[2]


def _known(kind: str, folder: Folder) -> str:
    if kind not in STEPS:
        raise InputError(
            f"{folder.path / MODULES}: has the module {kind} after Pooling; regard computes {', '.join(STEPS)}"
        )
    return kind


def _optional(folder: Folder, name: str) -> Settings:
    """The settings in a file; none without it."""
    return Settings(
        folder.json(name) if folder.has(name) else {}, str(folder.path / name)
    )


def _limits(folder: Folder) -> tuple[int | None, bool]:
    """The most tokens of a text and whether it is put in small letters. Raises InputError for a model that reads
    something else than texts."""
    names = [f"sentence_{family}_config.json" for family in FAMILIES]
    found = _optional(
        folder, next((name for name in names if folder.has(name)), names[0])
    )
    task = found.values.get("transformer_task", "feature-extraction")
    if task != "feature-extraction":
        raise InputError(
            f"{found.place}: transformer_task is {task!r}; regard computes 'feature-extraction' only"
        )
    longest = (
        None
        if found.values.get("max_seq_length") is None
        else found.size("max_seq_length")
    )
    return longest, found.switch("do_lower_case")


def _pooling(folder: Folder) -> Pooling:
    found = _optional(folder, CONFIG)
    older = tuple(mode for key, mode in POOLING.items() if found.values.get(key))
    named = found.values.get("pooling_mode", older or "mean")
    modes = (named,) if isinstance(named, str) else tuple(named)
    if unknown := [mode for mode in modes if mode not in POOLING.values()]:
        raise InputError(
            f"{found.place}: pooling_mode is {unknown[0]!r}; regard computes {', '.join(POOLING.values())}"
        )
    prompted = found.values.get("include_prompt", True)
    return Pooling(modes, prompted is not False)


def _pooled(mode: str, states: Float[Tensor, "token width"], before: int) -> Vector:
    """The vector of one mode; `before` is the number of states in front that do not count."""
    match mode:
        case "cls":
            return states[0]
        case "lasttoken":
            return states[-1]
        case "max":
            return states.amax(0)
        case "mean":
            return states.mean(0)
        case "mean_sqrt_len_tokens":
            return states.sum(0) / len(states) ** 0.5
        case _:
            weights = (
                torch.arange(
                    1, len(states) + 1, device=states.device, dtype=states.dtype
                )
                + before
            )
            return weights @ states / weights.sum()


def _dense(folder: Folder) -> Step:
    found, weights = _optional(folder, CONFIG), _weights(folder, "linear.weight")
    _reads_vector(found)
    name = str(
        found.values.get("activation_function", "torch.nn.modules.activation.Tanh")
    )
    kind = name.rpartition(".")[2]
    if not name.startswith("torch.nn.") or kind not in ACTIVATIONS:
        raise InputError(
            f"{found.place}: activation_function is {name!r}; regard computes {', '.join(ACTIVATIONS)}"
        )
    activation = ACTIVATIONS[kind]()
    weight, bias = weights["linear.weight"], weights.get("linear.bias")
    across = weights.get("residual.weight")

    def dense(vector: Vector) -> Float[Tensor, " mapped"]:
        mapped = activation(functional.linear(vector, weight, bias))
        if not found.values.get("use_residual"):
            return mapped
        return mapped + (
            vector if across is None else functional.linear(vector, across)
        )

    return dense


def _layer_norm(folder: Folder) -> Step:
    weights = _weights(folder, "norm.weight", "norm.bias")
    weight, bias = weights["norm.weight"], weights["norm.bias"]
    return lambda vector: functional.layer_norm(vector, weight.shape, weight, bias)


def _normalize(folder: Folder) -> Step:
    _reads_vector(_optional(folder, CONFIG))
    return lambda vector: functional.normalize(vector, dim=-1)


def _same(folder: Folder) -> Step:
    """Dropout, which changes nothing outside training."""
    return lambda vector: vector


STEPS: Mapping[str, Callable[[Folder], Step]] = {
    "Dense": _dense,
    "LayerNorm": _layer_norm,
    "Normalize": _normalize,
    "Dropout": _same,
}
"""The modules after pooling."""


def _weights(folder: Folder, *needed: str) -> dict[str, Tensor]:
    """The tensors of a module in full precision. Raises InputError for a pickle, and where a needed one is missing."""
    found = folder.tensors()
    if missing := [name for name in needed if name not in found]:
        raise InputError(
            f"{folder.path / WEIGHTS}: has no tensor {missing[0]}; download it again"
        )
    return found


def _reads_vector(found: Settings) -> None:
    """Raises InputError for a module that reads or writes something else than the vector."""
    for key in ("module_input_name", "module_output_name"):
        if found.values.get(key) not in (None, VECTOR):
            raise InputError(
                f"{found.place}: {key} is {found.values[key]!r}; regard computes {VECTOR!r} only"
            )


def prompt_tokens(tokenizer: Any, ids: Sequence[int]) -> int:
    """The number of tokens of a prompt, encoded by itself, without a special token at its end."""
    special = cast("Sequence[int]", tokenizer.all_special_ids)
    return len(ids) - (len(ids) > 0 and ids[-1] in special)
