"""BERT with a layer that tells a class (Devlin et al. 2019, section 4.1)."""

from torch import Tensor, nn

from regard.models.bert import BertConfig, BertEncoder, Pooler, start
from regard.models.classifier import Classifier
from regard.nn.dropout import Dropout
from regard.shapes import Float, Lengths, Tokens


class BertClassifier(Classifier):
    """The encoder, the pooler of its first state and a linear layer."""

    self_attention = "encoder.layers.*.self_attention"

    def __init__(self, vocabulary: int, classes: int, config: BertConfig):
        super().__init__()
        self.encoder = BertEncoder(vocabulary, config)
        self.pooler = Pooler(config.width)
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(config.width, classes)
        start(self.output)

    def forward(
        self,
        tokens: Tokens,
        lengths: Lengths,
        segments: Tokens | None = None,
    ) -> Float[Tensor, "batch class"]:
        """Logits `(batch, class)`."""
        return self.output(self.dropout(self.pooler(self.encoder(tokens, lengths, segments))))
