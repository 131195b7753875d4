"""Sentence-transformers folders (Reimers and Gurevych 2019, 1908.10084).

Their modules make one vector of the states of a text: pooling, then dense layers and
norms. No module of another library is loaded, and none runs code of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.errors import InputError
from regard.shapes import Float
from regard.storage.published_folder import CONFIG, WEIGHTS, PublishedFolder

MODULES, PROMPTS = "modules.json", "config_sentence_transformers.json"
LIMITS = "sentence_bert_config.json"
PUBLISHER = "sentence_transformers."
"""The beginning of the names of the library's own modules."""
Vector = Float[Tensor, " component"]
Step = Callable[[Vector], Vector]

POOLING: Mapping[str, Callable[[Tensor], Tensor]] = {
    "cls": lambda states: states[0],
    "max": lambda states: states.amax(0),
    "mean": lambda states: states.mean(0),
    "lasttoken": lambda states: states[-1],
}
"""The ways to make one vector of the states of a text."""
OLD_NAMES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Keys of older files in the order of the vector's parts, and the modes' names."""
ACTIVATIONS: Mapping[str, type[nn.Module]] = {
    f"torch.nn.modules.activation.{kind.__name__}": kind
    for kind in (nn.Tanh, nn.ReLU, nn.GELU, nn.Sigmoid, nn.SiLU)
} | {"torch.nn.modules.linear.Identity": nn.Identity}
UNLIMITED = 10**9
"""Tokenizers without a limit have at least this one."""


@dataclass(frozen=True)
class SentenceModules:
    """The modules of a folder.

    Attributes:
        modes: The ways to pool states; their vectors are joined.
        steps: What is computed of the pooled vector.
        longest: The most tokens of a text.
        lower: Whether texts are put in small letters.
        prompts: The prompts by name.
        default: The name of the prompt that precedes a text by default.
    """

    modes: tuple[str, ...]
    steps: tuple[Step, ...]
    longest: int | None
    lower: bool
    prompts: Mapping[str, str]
    default: str | None

    def prompt(self, name: str | None) -> str:
        """Return the prompt of this name, or the default. Raise InputError for others."""
        name = name or self.default
        if name is not None and name not in self.prompts:
            names = ", ".join(self.prompts) or "none"
            raise InputError(f"prompt is {name!r}; the model's prompts are: {names}")
        return "" if name is None else self.prompts[name]

    def encode(self, run: Any, text: str) -> Any:
        """Return the inputs of a text, cut at the most tokens."""
        limit = min(self.longest or UNLIMITED, run.tokenizer.model_max_length)
        cut = {"truncation": True, "max_length": limit} if limit < UNLIMITED else {}
        text = text.lower() if self.lower else text
        return run.read_text(run.tokenizer(text, return_tensors="pt", **cut), text)

    def vector(self, states: Float[Tensor, "token width"]) -> Vector:
        """Return the vector of a text's states, its prompt's included."""
        vector = torch.cat([POOLING[mode](states.float()) for mode in self.modes])
        for step in self.steps:
            vector = step(vector)
        return vector


def text_folder(folder: PublishedFolder) -> PublishedFolder:
    """Return the folder of the transformers model, that of the first module."""
    if not folder.has(MODULES) or folder.has(CONFIG):
        return folder
    return list_modules(folder)[0][1]


def list_modules(folder: PublishedFolder) -> list[tuple[str, PublishedFolder]]:
    """Return the name of each module's class, and its folder.

    Raises:
        InputError: The file has no list of modules, or one needs code of its own.
    """
    place = folder.path / MODULES
    entries = folder.array(MODULES)
    if not entries or not all(isinstance(entry, dict) for entry in entries):
        raise InputError(f"{place}: expected a list of modules")
    modules = []
    for entry in entries:
        name = str(entry.get("type"))
        path = str(entry.get("path", ""))
        if not name.startswith(PUBLISHER):
            raise InputError(
                f"{place}: the module {name!r} needs code of its own, which regard never "
                "runs"
            )
        part = PublishedFolder(folder.path / path, folder.root or folder.path)
        part.file(CONFIG)  # refuses a path that leads out of the folder
        modules.append((name.rpartition(".")[2], part))
    return modules


def read_modules(folder: PublishedFolder) -> SentenceModules | None:
    """Return the modules of a folder; None for a folder without them.

    Raises:
        InputError: A module computes something that regard does not.
    """
    if not folder.has(MODULES):
        return None
    modules = list_modules(folder)
    names = [name for name, _ in modules]
    if names[:2] != ["Transformer", "Pooling"] or set(names[2:]) - {*STEPS}:
        raise InputError(
            f"{folder.path / MODULES}: has the modules {', '.join(names)}; regard "
            f"computes Transformer and Pooling, then {', '.join(STEPS)}"
        )
    text = modules[0][1]
    pooling = modules[1][1]
    limits = text.json(LIMITS) if text.has(LIMITS) else {}
    task = "feature-extraction"
    require(
        text, LIMITS, "transformer_task", limits.get("transformer_task", task), [task]
    )
    values = pooling.json(CONFIG) if pooling.has(CONFIG) else {}
    has_prompt = values.get("include_prompt", True) is not False
    require(pooling, CONFIG, "include_prompt", has_prompt, [True])
    old = [mode for key, mode in OLD_NAMES.items() if values.get(key)]
    for key in values:
        if key.startswith("pooling_mode_"):
            require(pooling, CONFIG, key, bool(values[key]), [False, key in OLD_NAMES])
    modes = values.get("pooling_mode", old or "mean")
    modes = (modes,) if isinstance(modes, str) else tuple(modes)
    for mode in modes:
        require(pooling, CONFIG, "pooling_mode", mode, [*POOLING])
    about = folder.json(PROMPTS) if folder.has(PROMPTS) else {}
    prompts = about.get("prompts") or {}
    return SentenceModules(
        modes,
        tuple(STEPS[name](part) for name, part in modules[2:]),
        limits.get("max_seq_length"),
        bool(limits.get("do_lower_case")),
        {name: text for name, text in prompts.items() if text is not None},
        about.get("default_prompt_name"),
    )


def require(
    folder: PublishedFolder, file: str, key: str, value: Any, values: Sequence[Any]
) -> None:
    """Raise InputError for a setting with a value that regard does not compute."""
    if value not in values:
        raise InputError(
            f"{folder.path / file}: {key} is {value!r}; regard computes "
            f"{', '.join(map(str, values))}"
        )


def dense(folder: PublishedFolder) -> Step:
    """Return a linear layer with an activation."""
    values = folder.json(CONFIG)
    tensors = folder.tensors()
    name = values.get("activation_function", "torch.nn.modules.activation.Tanh")
    require(folder, CONFIG, "activation_function", name, [*ACTIVATIONS])
    require(folder, CONFIG, "use_residual", bool(values.get("use_residual")), [False])
    if "linear.weight" not in tensors:
        raise InputError(
            f"{folder.path / WEIGHTS}: has no tensor linear.weight; download it again"
        )
    activation = ACTIVATIONS[name]()
    weight = tensors["linear.weight"]
    bias = tensors.get("linear.bias")
    return lambda vector: activation(functional.linear(vector, weight, bias))


STEPS: Mapping[str, Callable[[PublishedFolder], Step]] = {
    "Dense": dense,
    "Normalize": lambda folder: lambda vector: functional.normalize(vector, dim=-1),
    "Dropout": lambda folder: lambda vector: vector,
}
"""The modules after pooling; dropout changes nothing outside training."""
