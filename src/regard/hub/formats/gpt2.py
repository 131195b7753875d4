"""GPT-2 in its published form, DistilGPT-2 included."""

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from regard.errors import InputError
from regard.hub.formats import generation, special_tokens, vocabulary
from regard.hub.formats.bert_heads import head_keys, of_text
from regard.hub.formats.folder import CONFIG, Folder
from regard.hub.formats.names import Part, check_sizes, exported, imported, linear
from regard.hub.formats.pretrained_model import Continues, Files, PretrainedModel
from regard.hub.formats.settings import (
    ACTIVATIONS,
    Settings,
    activation_name,
    check_attention,
)
from regard.models.gpt2 import GPT2Config
from regard.models.softmax import AdaptiveSoftmax

PARTS = (
    Part("wte.weight", ("embedding.table.weight",)),
    Part("wpe.weight", ("positions.table",)),
    *linear("h.{}.ln_1", "blocks.{}.residuals.0.norm"),
    *linear(
        "h.{}.attn.c_attn",
        "blocks.{}.self_attention.query",
        "blocks.{}.self_attention.key",
        "blocks.{}.self_attention.value",
        transposed=True,
    ),
    *linear("h.{}.attn.c_proj", "blocks.{}.self_attention.output", transposed=True),
    *linear("h.{}.ln_2", "blocks.{}.residuals.1.norm"),
    *linear("h.{}.mlp.c_fc", "blocks.{}.feedforward.0", transposed=True),
    *linear("h.{}.mlp.c_proj", "blocks.{}.feedforward.2", transposed=True),
    *linear("ln_f", "norm"),
)
SCORE, CLASSIFIER = (
    Part("score.weight", ("output.weight",)),
    "GPT2ForSequenceClassification",
)
USED = (
    "vocab_size",
    "n_positions",
    "n_embd",
    "n_layer",
    "n_head",
    "n_inner",
    "resid_pdrop",
)
USED += ("activation_function", "layer_norm_epsilon")
FIXED = {
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "add_cross_attention": (False,),
    "tie_word_embeddings": (True,),
    "pruned_heads": ({},),
}
IGNORED = (
    *(
        "n_ctx",
        "attn_pdrop",
        "embd_pdrop",
        "reorder_and_upcast_attn",
        "is_decoder",
        "cross_attention_hidden_size",
    ),
    *(
        "summary_type",
        "summary_use_proj",
        "summary_activation",
        "summary_proj_to_labels",
        "summary_first_dropout",
    ),
)
LAST = 50256
"""The id of the token between two texts in the released models."""
MASKS = re.compile(r"h\.\d+\.attn\.(masked_)?bias")
"""Constants that some files keep among the weights."""


def read(folder: Folder) -> PretrainedModel:
    """Read the model in a folder: a language model, or a classifier of texts. Raises InputError for any model but a
    GPT-2."""
    settings = Settings(folder.json(CONFIG), str(folder.path / CONFIG))
    settings.check(USED, FIXED, IGNORED)
    size = settings.size("vocab_size", 50257)
    config = settings.build(
        GPT2Config,
        layers=settings.size("n_layer", 12),
        width=settings.size("n_embd", 768),
        heads=settings.size("n_head", 12),
        context=settings.size("n_positions", 1024),
        dropout=settings.share("resid_pdrop", 0.1),
        hidden=settings.size("n_inner") if settings.values.get("n_inner") else None,
        activation=settings.choice("activation_function", ACTIVATIONS, "gelu_new"),
        epsilon=settings.above("layer_norm_epsilon", 1e-5),
    )
    weights = {
        name.removeprefix("transformer."): tensor
        for name, tensor in folder.tensors().items()
    }
    weights = {
        name: tensor for name, tensor in weights.items() if not MASKS.fullmatch(name)
    }
    if SCORE.published in weights:
        return _classifier(folder, settings, config, weights)
    head = weights.pop("lm_head.weight", None)
    if head is not None and not torch.equal(head, weights.get("wte.weight", head)):
        raise InputError(
            f"{folder.path}: the output layer has weights of its own; a GPT-2's are its embedding's"
        )
    _check_sizes(settings, config, weights, size)
    tensors = imported(PARTS, weights, config.layers)
    tensors |= {"output.weight": tensors["embedding.table.weight"]}
    found = generation.read(folder)
    tokenizer, before = vocabulary.read(folder, size, found.ends or (LAST,))
    found.check(tokenizer.size, folder)
    continues = Continues(before, found.most)
    return PretrainedModel(
        config, tensors, tokenizer, search=found.search, continues=continues
    )


def _check_sizes(
    settings: Settings, config: GPT2Config, weights: Mapping[str, Tensor], size: int
) -> None:
    """Raises InputError for sizes in a configuration that the weights do not have."""
    sizes = {
        "vocab_size": (size, "wte.weight", 0),
        "n_embd": (config.width, "wte.weight", 1),
        "n_positions": (config.context, "wpe.weight", 0),
        "n_inner": (config.hidden or 4 * config.width, "h.0.mlp.c_fc.weight", 1),
    }
    check_sizes(settings.place, weights, {"n_layer": config.layers}, sizes)


def _classifier(
    folder: Folder,
    settings: Settings,
    config: GPT2Config,
    weights: Mapping[str, Tensor],
) -> PretrainedModel:
    """Read a classifier by its last token. Raises InputError for a head of another class, for tokens around a text, and
    for labels that do not fit the outputs."""
    named = settings.values.get("architectures") or [CLASSIFIER]
    if CLASSIFIER not in named:
        raise InputError(
            f"{settings.place}: architectures is {named!r}; regard reads score.weight as a {CLASSIFIER}'s"
        )
    size = settings.size("vocab_size", 50257)
    _check_sizes(settings, config, weights, size)
    tensors = imported((*PARTS, SCORE), weights, config.layers)
    found = generation.read(folder)
    tokenizer, before = vocabulary.read(folder, size, found.ends or (LAST,))
    if before == "start" or (
        before == "end" and special_tokens.start_of(folder) is not None
    ):
        raise InputError(
            f"{folder.path}: its tokenizer puts a token before a text, which a classifier does not read"
        )
    head = of_text(settings, len(tensors["output.weight"]))
    return PretrainedModel(config, tensors, tokenizer, head=head)


def write(pretrained: PretrainedModel) -> Files:
    """Return the published files of a model. Raises InputError for an adaptive softmax and for closed tokens."""
    config, tokenizer = pretrained.config, pretrained.tokenizer
    assert isinstance(config, GPT2Config)
    check_attention(config, "this run", positions="learned")
    if isinstance(config.softmax, AdaptiveSoftmax):
        raise InputError(
            "model.softmax.kind is adaptive, and a published GPT-2 has a full softmax; train it with full "
            "or sampled to export it"
        )
    if config.closed:
        raise InputError(
            f"model.closed is {config.closed}: an older version of regard imported this run, with special tokens of "
            "its own, and a published GPT-2 would predict them; import the model again to export it"
        )
    end, head = tokenizer.special.end, pretrained.head
    document = {
        "architectures": ["GPT2LMHeadModel" if head is None else CLASSIFIER],
        "model_type": "gpt2",
        "vocab_size": tokenizer.size,
        "n_positions": config.context,
        "n_embd": config.width,
        "n_layer": config.layers,
        "n_head": config.heads,
        "n_inner": config.hidden,
        "activation_function": activation_name(config.activation),
        "layer_norm_epsilon": config.epsilon,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": 0.0,
        "bos_token_id": end,
        "eos_token_id": end,
        **(
            {}
            if head is None
            else {"pad_token_id": tokenizer.special.pad} | head_keys(head)
        ),
    }
    parts = PARTS if head is None else (*PARTS, SCORE)
    tensors = exported(parts, pretrained.tensors, config.layers)
    named = {
        name if name == SCORE.published else f"transformer.{name}": tensor
        for name, tensor in tensors.items()
    }
    documents = vocabulary.documents(pretrained, config.context)
    return Files({CONFIG: document} | documents, named)
