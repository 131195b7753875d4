"""BERT: published configuration and weights, in both directions."""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from regard.errors import InputError
from regard.hub.families.weights import (
    TEXT_TASKS,
    Family,
    Part,
    linear,
    read_activation,
    require,
    write_activation,
)
from regard.models.bert import BertConfig

LAYER = "encoder.layers.{}"
ATTENTION = f"{LAYER}.self_attention"
TABLE = "encoder.embedding.table.weight"
PREDICTED = "predictions.output.weight"
ENCODER = (
    Part("bert.embeddings.word_embeddings.weight", (TABLE,)),
    Part("bert.embeddings.position_embeddings.weight", ("encoder.positions.table",)),
    *linear("bert.embeddings.LayerNorm", "encoder.norm"),
    *linear("bert.encoder.layer.{}.attention.self.query", f"{ATTENTION}.query"),
    *linear("bert.encoder.layer.{}.attention.self.key", f"{ATTENTION}.key"),
    *linear("bert.encoder.layer.{}.attention.self.value", f"{ATTENTION}.value"),
    *linear("bert.encoder.layer.{}.attention.output.dense", f"{ATTENTION}.output"),
    *linear(
        "bert.encoder.layer.{}.attention.output.LayerNorm", f"{LAYER}.residuals.0.norm"
    ),
    *linear("bert.encoder.layer.{}.intermediate.dense", f"{LAYER}.feedforward.0"),
    *linear("bert.encoder.layer.{}.output.dense", f"{LAYER}.feedforward.2"),
    *linear("bert.encoder.layer.{}.output.LayerNorm", f"{LAYER}.residuals.1.norm"),
)
SEGMENTS = (
    Part("bert.embeddings.token_type_embeddings.weight", ("encoder.segments.weight",)),
)
POOLER = linear("bert.pooler.dense", "pooler.0")
PREDICTIONS = (
    *linear("cls.predictions.transform.dense", "predictions.transform"),
    *linear("cls.predictions.transform.LayerNorm", "predictions.norm"),
    Part("cls.predictions.bias", ("predictions.output.bias",)),
)
NEXT_SENTENCE = linear("cls.seq_relationship", "next_sentence")
CLASSIFIER = (*POOLER, *linear("classifier", "output"))
HEADS = {
    **dict.fromkeys(TEXT_TASKS, CLASSIFIER),
    "tagging": linear("classifier", "output"),
    "extractive-qa": linear("qa_outputs", "output"),
}
CLASSES = {
    **dict.fromkeys(TEXT_TASKS, "BertForSequenceClassification"),
    "tagging": "BertForTokenClassification",
    "extractive-qa": "BertForQuestionAnswering",
}


class BertFamily(Family):
    """BERT with every head."""

    sizes: ClassVar[Mapping[str, str]] = {
        "layers": "num_hidden_layers",
        "width": "hidden_size",
        "heads": "num_attention_heads",
        "hidden": "intermediate_size",
        "context": "max_position_embeddings",
        "segments": "type_vocab_size",
        "dropout": "hidden_dropout_prob",
        "epsilon": "layer_norm_eps",
    }
    fixed: ClassVar[Mapping[str, Any]] = {"is_decoder": False}

    def read_config(self, values: Any, architecture: str) -> BertConfig:
        """Read a published configuration."""
        pretraining = architecture == "BertForPreTraining"
        return BertConfig(
            **self.read_sizes(values),
            activation=read_activation(values.hidden_act),
            predictions=pretraining or architecture == "BertForMaskedLM",
            pooler=architecture
            in ("BertModel", "BertForPreTraining", "BertForSequenceClassification"),
            next_sentence=pretraining,
        )

    def write_config(self, config: BertConfig, task: str) -> dict[str, Any]:
        """Write a published configuration."""
        require(config, positions="learned")
        if not config.segments:
            raise InputError("model.segments is 0; a published BERT has at least one")
        architecture = "BertForMaskedLM" if config.predictions else "BertModel"
        if config.next_sentence and config.predictions:
            architecture = "BertForPreTraining"
        return {
            "architectures": [CLASSES.get(task, architecture)],
            "model_type": "bert",
            **self.write_sizes(config),
            "attention_probs_dropout_prob": 0.0,
            "hidden_act": write_activation(config.activation),
        }

    def parts(self, config: BertConfig, task: str) -> tuple[Part, ...]:
        """Return the table of weights of a model with the head of a task."""
        encoder = ENCODER + (SEGMENTS if config.segments else ())
        if task in HEADS:
            return (*encoder, *HEADS[task])
        return (
            *encoder,
            *(POOLER if config.pooler else ()),
            *(PREDICTIONS if config.predictions else ()),
            *(NEXT_SENTENCE if config.next_sentence else ()),
        )

    def to_ours(
        self, tensors: dict[str, Tensor], config: BertConfig
    ) -> dict[str, Tensor]:
        """Repeat the embedding as the weight of the predictions."""
        if "predictions.norm.weight" in tensors:
            return tensors | {PREDICTED: tensors[TABLE]}
        return tensors
