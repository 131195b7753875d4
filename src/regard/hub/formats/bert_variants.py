"""The names and conventions of BERT and of the models whose layers are like its.

DistilBERT has no segments and no pooler. RoBERTa and XLM-R (Conneau 2020, 1911.02116) have no segments and count
positions from 2; RoBERTa reads byte-level BPE, XLM-R Unigram pieces. MPNet is as RoBERTa, with word pieces and a bias
for each distance. ELECTRA has narrow embeddings and no pooler.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from regard.errors import InputError
from regard.hub.formats import bert_heads, word_pieces
from regard.hub.formats.bert_heads import Heads
from regard.hub.formats.names import Part, Sizes, linear
from regard.models.bert import BertConfig
from regard.models.positions import RelativeName
from regard.text import SpecialTokens, Tokenizer

OWN = "encoder.layers.{}"
ATTENTION = f"{OWN}.self_attention"
TABLE, POSITIONS = "encoder.embedding.table.weight", "encoder.positions.table"
TRANSFORMER = (
    Part("embeddings.word_embeddings.weight", (TABLE,)),
    Part("embeddings.position_embeddings.weight", (POSITIONS,)),
    *linear("embeddings.LayerNorm", "encoder.norm"),
)
SEGMENTS = (
    Part("embeddings.token_type_embeddings.weight", ("encoder.segments.weight",)),
)
LAYERS = (
    *linear("encoder.layer.{}.attention.self.query", f"{ATTENTION}.query"),
    *linear("encoder.layer.{}.attention.self.key", f"{ATTENTION}.key"),
    *linear("encoder.layer.{}.attention.self.value", f"{ATTENTION}.value"),
    *linear("encoder.layer.{}.attention.output.dense", f"{ATTENTION}.output"),
    *linear("encoder.layer.{}.attention.output.LayerNorm", f"{OWN}.residuals.0.norm"),
    *linear("encoder.layer.{}.intermediate.dense", f"{OWN}.feedforward.0"),
    *linear("encoder.layer.{}.output.dense", f"{OWN}.feedforward.2"),
    *linear("encoder.layer.{}.output.LayerNorm", f"{OWN}.residuals.1.norm"),
)
DISTILLED_LAYERS = (
    *linear("transformer.layer.{}.attention.q_lin", f"{ATTENTION}.query"),
    *linear("transformer.layer.{}.attention.k_lin", f"{ATTENTION}.key"),
    *linear("transformer.layer.{}.attention.v_lin", f"{ATTENTION}.value"),
    *linear("transformer.layer.{}.attention.out_lin", f"{ATTENTION}.output"),
    *linear("transformer.layer.{}.sa_layer_norm", f"{OWN}.residuals.0.norm"),
    *linear("transformer.layer.{}.ffn.lin1", f"{OWN}.feedforward.0"),
    *linear("transformer.layer.{}.ffn.lin2", f"{OWN}.feedforward.2"),
    *linear("transformer.layer.{}.output_layer_norm", f"{OWN}.residuals.1.norm"),
)
MPNET_LAYERS = (
    *(
        part
        for name, own in (("q", "query"), ("k", "key"), ("v", "value"), ("o", "output"))
        for part in linear(
            f"encoder.layer.{{}}.attention.attn.{name}", f"{ATTENTION}.{own}"
        )
    ),
    *linear("encoder.layer.{}.attention.LayerNorm", f"{OWN}.residuals.0.norm"),
    *LAYERS[10:],
)
DISTANCES = "encoder.layers.{}.self_attention.positions.table"
RELATIVE = (
    Part(
        "encoder.relative_attention_bias.weight",
        (DISTANCES.format(0),),
        transposed=True,
    ),
)
"""MPNet's biases, of which our layers share one table."""
PROJECTION = linear("embeddings_project", "encoder.projection")
DISCRIMINATOR = (
    *linear("discriminator_predictions.dense", "discriminator.dense"),
    *linear("discriminator_predictions.dense_prediction", "discriminator.output"),
)
NEXT_SENTENCE = linear("cls.seq_relationship", "next_sentence")
FIXED = {
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "tie_word_embeddings": (True,),
    "pruned_heads": ({},),
    "relative_attention_num_buckets": (32,),
}
KEYS = {
    "layers": "num_hidden_layers",
    "width": "hidden_size",
    "heads": "num_attention_heads",
    "hidden": "intermediate_size",
    "dropout": "hidden_dropout_prob",
}
DISTILLED_KEYS = {
    "layers": "n_layers",
    "width": "dim",
    "heads": "n_heads",
    "hidden": "hidden_dim",
    "dropout": "dropout",
}
IGNORED = (
    *(
        "attention_probs_dropout_prob",
        "classifier_dropout",
        "gradient_checkpointing",
        "directionality",
    ),
    *("summary_type", "summary_use_proj", "summary_activation", "summary_last_dropout"),
    *(
        "pooler_fc_size",
        "pooler_num_attention_heads",
        "pooler_num_fc_layers",
        "pooler_size_per_head",
        "pooler_type",
    ),
)
OLD = (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias"))
"""Names in the first released files, and their names in later ones."""


def predictions(dense: str, norm: str, bias: str) -> tuple[Part, ...]:
    """Return the parts of the masked language model's head."""
    own = Part(bias, ("predictions.output.bias",))
    return (
        *linear(dense, "predictions.transform"),
        *linear(norm, "predictions.norm"),
        own,
    )


@dataclass(frozen=True)
class BertVariant:
    """The names and conventions of the models of one `model_type`.

    `prefix` precedes the encoder's tensors in files with a head. `doubles` are tensors that equal another one.
    `tokenizer` is transformers' class for text, and `special` the names of its special tokens if they are not those of
    its kind. `behind`: positions are counted from the number after padding's id, which `pad` fixes. `activation` is the
    key of the layers' activation; `gelu`: predictions have gelu always. `relative` are the biases of all layers, and
    `narrow` embeddings may have a width of their own.
    """

    name: str
    architecture: str
    prefix: str
    keys: Mapping[str, str]
    layers: tuple[Part, ...]
    predictions: tuple[Part, ...]
    doubles: Mapping[str, str]
    fixed: Mapping[str, tuple[Any, ...]]
    heads: Heads
    tokenizer: str
    segmented: bool = True
    behind: bool = False
    epsilon: float | None = None
    activation: str = "hidden_act"
    special: tuple[str, ...] | None = None
    pad: int | None = None
    gelu: bool = False
    relative: RelativeName | None = None
    narrow: bool = False

    def offset(self, special: SpecialTokens) -> int:
        """Return the number of the first position."""
        return special.pad + 1 if self.behind else 0

    def check_padding(self, special: SpecialTokens, place: str) -> None:
        """Raises InputError for another padding than the one from which positions are counted always."""
        if self.pad is not None and special.pad != self.pad:
            raise InputError(
                f"{place}: padding has the id {special.pad}, and a {self.name} counts positions from {self.pad + 1}; "
                f"regard needs the id {self.pad}"
            )

    def check_activation(self, config: BertConfig, place: str) -> None:
        """Raises InputError for another activation than gelu before predictions that have it always."""
        if self.gelu and config.predictions and config.activation != "gelu":
            raise InputError(
                f"{place}: {self.activation} is {config.activation}, and the predictions of a {self.name} have gelu; "
                "regard has one activation for both"
            )

    def sizes(self, config: BertConfig, tokenizer: Tokenizer) -> Sizes:
        """Return the sizes of a model by their keys, each with the tensor and the axis that must have it."""
        [dense] = [
            part.of_layer(0).published
            for part in self.layers
            if "feedforward.0.weight" in part.ours[0]
        ]
        embedded = {self.keys["width"]: (config.width, TRANSFORMER[0].published, 1)}
        if self.narrow:
            embedded = {
                "embedding_size": (
                    config.embedding or config.width,
                    TRANSFORMER[0].published,
                    1,
                )
            }
            embedded |= {self.keys["width"]: (config.width, dense, 1)}
        segments = (
            {"type_vocab_size": (config.segments, SEGMENTS[0].published, 0)}
            if self.segmented
            else {}
        )
        return segments | {
            "vocab_size": (tokenizer.size, TRANSFORMER[0].published, 0),
            **embedded,
            self.keys["hidden"]: (config.hidden, dense, 0),
            "max_position_embeddings": (
                config.context + self.offset(tokenizer.special),
                TRANSFORMER[1].published,
                0,
            ),
        }


BERT = BertVariant(
    "bert",
    "BertForPreTraining",
    "bert.",
    KEYS,
    LAYERS,
    predictions(
        "cls.predictions.transform.dense",
        "cls.predictions.transform.LayerNorm",
        "cls.predictions.bias",
    ),
    {
        "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    FIXED,
    bert_heads.BERT,
    "BertTokenizer",
)
ROBERTA = BertVariant(
    "roberta",
    "RobertaForMaskedLM",
    "roberta.",
    KEYS,
    LAYERS,
    predictions("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
    {
        "lm_head.decoder.weight": "embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    },
    FIXED,
    bert_heads.ROBERTA,
    "RobertaTokenizer",
    behind=True,
    gelu=True,
)
XLM_ROBERTA = replace(
    ROBERTA,
    name="xlm-roberta",
    architecture="XLMRobertaForMaskedLM",
    heads=bert_heads.of_class(bert_heads.ROBERTA, "Roberta", "XLMRoberta"),
    tokenizer="XLMRobertaTokenizer",
)
MPNET = replace(
    ROBERTA,
    name="mpnet",
    architecture="MPNetForMaskedLM",
    prefix="mpnet.",
    layers=MPNET_LAYERS,
    heads=bert_heads.of_class(bert_heads.ROBERTA, "Roberta", "MPNet"),
    tokenizer="MPNetTokenizer",
    segmented=False,
    special=word_pieces.MPNET,
    pad=1,
    relative="bucketed",
)
ELECTRA = BertVariant(
    "electra",
    "ElectraForMaskedLM",
    "electra.",
    KEYS,
    LAYERS,
    predictions(
        "generator_predictions.dense",
        "generator_predictions.LayerNorm",
        "generator_lm_head.bias",
    ),
    {"generator_lm_head.weight": "embeddings.word_embeddings.weight"},
    FIXED,
    bert_heads.ELECTRA,
    "BertTokenizer",
    gelu=True,
    narrow=True,
)
DISTILBERT = BertVariant(
    "distilbert",
    "DistilBertForMaskedLM",
    "distilbert.",
    DISTILLED_KEYS,
    DISTILLED_LAYERS,
    predictions("vocab_transform", "vocab_layer_norm", "vocab_projector.bias"),
    {"vocab_projector.weight": "embeddings.word_embeddings.weight"},
    {
        "sinusoidal_pos_embds": (False,),
        "tie_word_embeddings": (True,),
        "tie_weights_": (True,),
    },
    bert_heads.DISTILBERT,
    "DistilBertTokenizer",
    segmented=False,
    epsilon=1e-12,
    activation="activation",
)
