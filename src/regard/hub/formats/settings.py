"""Read a published configuration strictly: every key is used, fixed or ignored, and any other key is refused."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from regard.errors import InputError
from regard.models.activations import ActivationName

Config = TypeVar("Config")
SINGLE, MULTIPLE, REGRESSION = (
    "single_label_classification",
    "multi_label_classification",
    "regression",
)
"""Published names of what a head of a text predicts."""
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
"""Published activations as those of ours; of several names for one the first is written."""
GENERATION_KEYS = frozenset(
    (
        *(
            "max_length",
            "min_length",
            "do_sample",
            "early_stopping",
            "num_beams",
            "num_beam_groups",
        ),
        *(
            "diversity_penalty",
            "temperature",
            "top_k",
            "top_p",
            "typical_p",
            "repetition_penalty",
            "length_penalty",
        ),
        *(
            "no_repeat_ngram_size",
            "encoder_no_repeat_ngram_size",
            "bad_words_ids",
            "num_return_sequences",
        ),
        *(
            "output_scores",
            "return_dict_in_generate",
            "forced_bos_token_id",
            "forced_eos_token_id",
        ),
        *(
            "remove_invalid_values",
            "exponential_decay_length_penalty",
            "suppress_tokens",
            "begin_suppress_tokens",
        ),
        *("renormalize_logits", "max_new_tokens", "min_new_tokens", "penalty_alpha"),
    )
)
"""Keys of the search, which older models keep in config.json; `generation` reads them."""
COMMON = GENERATION_KEYS | frozenset(
    (
        *(
            "architectures",
            "model_type",
            "transformers_version",
            "torch_dtype",
            "dtype",
        ),
        *("_name_or_path", "_commit_hash", "_num_labels", "use_cache", "return_dict"),
        *(
            "output_hidden_states",
            "output_attentions",
            "torchscript",
            "id2label",
            "label2id",
        ),
        *(
            "problem_type",
            "finetuning_task",
            "chunk_size_feed_forward",
            "is_encoder_decoder",
            "bos_token_id",
        ),
        *(
            "eos_token_id",
            "pad_token_id",
            "sep_token_id",
            "cls_token_id",
            "mask_token_id",
        ),
        *(
            "unk_token_id",
            "decoder_start_token_id",
            "task_specific_params",
            "initializer_range",
        ),
        *(
            "tokenizer_class",
            "attn_implementation",
            "_attn_implementation_autoset",
            "use_bfloat16",
            "prefix",
        ),
        *("gradient_checkpointing", "tf_legacy_loss"),
    )
)
"""Keys of every family that do not change the computation."""


@dataclass(frozen=True)
class Settings:
    """The values of a JSON object; `place` is its file in error messages."""

    values: Mapping[str, Any]
    place: str

    def check(
        self,
        used: Collection[str],
        fixed: Mapping[str, Collection[Any]],
        ignored: Collection[str] = (),
    ) -> None:
        """Check that no key changes the computation; `fixed` lists the values of a key that regard computes.

        Raises InputError: one line for each other value of a fixed key, and one for each unknown key.
        """
        if self.values.get("quantization_config") is not None:
            raise InputError(
                f"{self.place}: quantization_config: the weights are quantised, which regard does not read; import the "
                "model that they were made from"
            )
        wrong = []
        for key, value in self.values.items():
            if key in fixed:
                if value not in fixed[key]:
                    expected = " or ".join(map(repr, fixed[key]))
                    wrong.append(
                        f"{self.place}: {key} is {value!r}; regard supports {expected} only"
                    )
            elif (
                key not in used
                and key not in ignored
                and key not in COMMON
                and key != "quantization_config"
            ):
                wrong.append(
                    f"{self.place}: {key} is not known, so it might change what is computed; remove it if it does not"
                )
        if wrong:
            raise InputError("\n".join(wrong))

    def size(self, key: str, default: int | None = None) -> int:
        """Return a whole number of at least 1. Raises InputError for anything else."""
        value = self.values.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InputError(
                f"{self.place}: {key} is {value!r}; expected a whole number of at least 1"
            )
        return value

    def index(self, key: str, default: int | None = None) -> int:
        """Return a whole number of at least 0, such as an id. Raises InputError for anything else."""
        value = self.values.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise InputError(
                f"{self.place}: {key} is {value!r}; expected a whole number of at least 0"
            )
        return value

    def share(self, key: str, default: float) -> float:
        """Return a number in [0, 1), such as a dropout rate. Raises InputError for anything else."""
        value = self.values.get(key, default)
        if (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or not 0 <= value < 1
        ):
            raise InputError(
                f"{self.place}: {key} is {value!r}; expected a number from 0 up to but below 1"
            )
        return float(value)

    def above(self, key: str, default: float) -> float:
        """Return a number in (0, 1). Raises InputError for anything else."""
        value = self.share(key, default)
        if not value:
            raise InputError(
                f"{self.place}: {key} is {value!r}; expected a number above 0 and below 1"
            )
        return value

    def number(self, key: str, default: float) -> float:
        """Return a finite number of at least 0. Raises InputError for anything else."""
        value = self.values.get(key, default)
        if (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or not 0 <= value < float("inf")
        ):
            raise InputError(
                f"{self.place}: {key} is {value!r}; expected a number of at least 0"
            )
        return float(value)

    def choice(self, key: str, known: Mapping[str, Config], default: str) -> Config:
        """Return the value of ours for a published name. Raises InputError for a name that is not `known`."""
        value = self.values.get(key, default)
        if not isinstance(value, str) or value not in known:
            raise InputError(
                f"{self.place}: {key} is {value!r}; regard supports {', '.join(known)}"
            )
        return known[value]

    def switch(self, key: str) -> bool:
        """Return true or false, by default false. Raises InputError for anything else."""
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            raise InputError(
                f"{self.place}: {key} is {value!r}; expected true or false"
            )
        return value

    def labels(self, classes: int) -> tuple[str, ...]:
        """Return one label per class; a repeated label gets its number. Raises InputError on another count."""
        names = self.values.get(
            "id2label", {str(number): f"LABEL_{number}" for number in range(classes)}
        )
        named = isinstance(names, dict) and all(
            isinstance(names.get(str(number)), str) for number in range(classes)
        )
        if not named or len(names) != classes:
            raise InputError(
                f"{self.place}: id2label does not name the {classes} classes of the weights, one each"
            )
        found: list[str] = []
        for number in range(classes):
            label = names[str(number)]
            found.append(label if label not in found else f"{label} ({number})")
        return tuple(found)

    def problem(self, outputs: int) -> str:
        """Return the problem type of a head of a text; by default one output is a number, and several are classes.
        Raises InputError for another type, and for one that has not so many outputs."""
        problem = self.values.get("problem_type") or (
            REGRESSION if outputs == 1 else SINGLE
        )
        fits = {SINGLE: outputs > 1, MULTIPLE: True, REGRESSION: outputs == 1}
        if not isinstance(problem, str) or not fits.get(problem, False):
            raise InputError(
                f"{self.place}: problem_type is {problem!r}, with {outputs} outputs; regard computes {SINGLE!r} with "
                f"two or more, {MULTIPLE!r}, and {REGRESSION!r} with one"
            )
        return problem

    def require_classes(self, number: int) -> None:
        """Raises InputError for a head that does not choose one of several classes."""
        problem = self.values.get("problem_type") or SINGLE
        if problem != SINGLE or number < 2:
            raise InputError(
                f"{self.place}: problem_type is {problem!r}, with {number} outputs; regard computes it for {SINGLE!r} "
                "alone, with two or more"
            )

    def build(self, kind: Callable[..., Config], **sizes: Any) -> Config:
        """Build the config of a model. Raises InputError for sizes that contradict each other."""
        try:
            return kind(**sizes)
        except ValueError as error:
            raise InputError(f"{self.place}: {error}") from error


def activation_name(own: ActivationName) -> str:
    """Return the published name of an activation."""
    return next(name for name, each in ACTIVATIONS.items() if each == own)


def label_keys(labels: Sequence[str]) -> dict[str, Any]:
    """Return the keys of a configuration that name its classes."""
    return {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }


def check_attention(config: Any, place: str, **more: str | None) -> None:
    """Raises InputError for a model's sizes with a score, an alignment or another key of `more` that published models
    do not have."""
    for key, published in {
        "score": "scaled-dot",
        "align": "softmax",
        "self_align": "softmax",
        **more,
    }.items():
        chosen = getattr(config, key, published)
        if chosen != published:
            raise InputError(
                f"{place}: model.{key} is {chosen!r}; published models have {published} only"
            )
