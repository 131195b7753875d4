"""BERT: published configuration and weights, in both directions."""

from typing import Any

from regard.errors import InputError
from regard.hub.families.weights import (
    PUBLISHED_ACTIVATIONS,
    TEXT_TASKS,
    Family,
    Keys,
    PublishedTensor,
    linear,
    linears,
    read_activation,
    require,
)
from regard.models.bert import BertConfig

MODULES = {
    "bert.embeddings.LayerNorm": "encoder.norm",
    "bert.encoder.layer.{}.attention.self.query": "encoder.layers.{}.self_attention.query",
    "bert.encoder.layer.{}.attention.self.key": "encoder.layers.{}.self_attention.key",
    "bert.encoder.layer.{}.attention.self.value": "encoder.layers.{}.self_attention.value",
    "bert.encoder.layer.{}.attention.output.dense": "encoder.layers.{}.self_attention.output",
    "bert.encoder.layer.{}.attention.output.LayerNorm": "encoder.layers.{}.residuals.0.norm",
    "bert.encoder.layer.{}.intermediate.dense": "encoder.layers.{}.feedforward.0",
    "bert.encoder.layer.{}.output.dense": "encoder.layers.{}.feedforward.2",
    "bert.encoder.layer.{}.output.LayerNorm": "encoder.layers.{}.residuals.1.norm",
}
"""Published linear maps and norms, and ours."""
ENCODER = (
    PublishedTensor(
        "bert.embeddings.word_embeddings.weight", ("encoder.embedding.table.weight",)
    ),
    PublishedTensor(
        "bert.embeddings.position_embeddings.weight", ("encoder.positions.table",)
    ),
    *linears(MODULES),
)
SEGMENTS = PublishedTensor(
    "bert.embeddings.token_type_embeddings.weight", ("encoder.segments.weight",)
)
POOLER = linear("bert.pooler.dense", "pooler.0")
PREDICTIONS = (
    *linear("cls.predictions.transform.dense", "predictions.transform"),
    *linear("cls.predictions.transform.LayerNorm", "predictions.norm"),
    PublishedTensor("cls.predictions.bias", ("predictions.output.bias",)),
)
HEADS = {
    **dict.fromkeys(TEXT_TASKS, (*POOLER, *linear("classifier", "output"))),
    "tagging": linear("classifier", "output"),
    "extractive-qa": linear("qa_outputs", "output"),
}
CLASSES = {
    **dict.fromkeys(TEXT_TASKS, "BertForSequenceClassification"),
    "tagging": "BertForTokenClassification",
    "extractive-qa": "BertForQuestionAnswering",
}


def read(values: Any, architecture: str) -> Keys:
    """Return the activation and the heads of a published configuration."""
    pretraining = architecture == "BertForPreTraining"
    pooled = ("BertModel", "BertForPreTraining", "BertForSequenceClassification")
    return {
        "activation": read_activation(values.hidden_act),
        "predictions": pretraining or architecture == "BertForMaskedLM",
        "pooler": architecture in pooled,
        "next_sentence": pretraining,
    }


def write(config: BertConfig, task: str) -> Keys:
    """Return the class, the activation and the dropout of attention."""
    require(config, positions="learned")
    if not config.segments:
        raise InputError("model.segments is 0; a published BERT has at least one")
    architecture = "BertForMaskedLM" if config.predictions else "BertModel"
    if config.next_sentence and config.predictions:
        architecture = "BertForPreTraining"
    return {
        "architectures": [CLASSES.get(task, architecture)],
        "attention_probs_dropout_prob": 0.0,
        "hidden_act": PUBLISHED_ACTIVATIONS[config.activation],
    }


def list_parts(config: BertConfig, task: str) -> list[PublishedTensor]:
    """Return the table of weights of a model with the head of a task."""
    parts = [*ENCODER, *[SEGMENTS] * bool(config.segments)]
    if task in HEADS:
        return [*parts, *HEADS[task]]
    if config.pooler:
        parts += POOLER
    if config.predictions:
        parts += PREDICTIONS
    if config.next_sentence:
        parts += linear("cls.seq_relationship", "next_sentence")
    return parts


BERT = Family(
    config=BertConfig,
    sizes={
        "layers": "num_hidden_layers",
        "width": "hidden_size",
        "heads": "num_attention_heads",
        "hidden": "intermediate_size",
        "context": "max_position_embeddings",
        "segments": "type_vocab_size",
        "dropout": "hidden_dropout_prob",
        "epsilon": "layer_norm_eps",
    },
    fixed={"is_decoder": False},
    read=read,
    write=write,
    parts=list_parts,
)
