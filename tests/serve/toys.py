"""Small runs with the weights that a model begins with."""

import torch
from torch import nn

from regard.data.generated.pairs import Dates
from regard.data.images import ImageFolders
from regard.data.texts import RunningText
from regard.data.tokens import Tokenizers
from regard.decoding.search import Search
from regard.images import Preparation
from regard.models.bahdanau import Bahdanau, BahdanauConfig
from regard.models.bert import BertConfig, BertSpans
from regard.models.catalog import CAPTIONERS, CLASSIFIERS, LANGUAGE_MODELS, TAGGERS
from regard.models.classifier import RecurrentTaggerConfig
from regard.models.gpt2 import GPT2Config
from regard.models.han import HanConfig
from regard.models.show_attend_and_tell import ShowAttendAndTellConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.models.vit import Vit, VitConfig
from regard.tasks.classification.data import LabelledTables
from regard.tasks.classification.inputs import Classification
from regard.tasks.classification.run import ClassificationRun, ClassOutputs
from regard.tasks.extractive_qa.data import ExtractiveQA, Questions
from regard.tasks.extractive_qa.run import ExtractiveQARun
from regard.tasks.image_captioning.data import Scenes
from regard.tasks.image_captioning.run import ImageCaptioning, ImageCaptioningRun
from regard.tasks.image_classification import ImageClassification, ImageClassificationRun
from regard.tasks.language_model.run import LanguageModelling, LanguageModelRun
from regard.tasks.seq2seq.run import Seq2Seq, Seq2SeqRun, TokenizerPair
from regard.tasks.tagging.data import TaggedFiles, Tagging
from regard.tasks.tagging.run import TaggingRun
from regard.text import Tokenizer, TokenizerSettings

SCRIPT = "<script>document.title='broken'</script>"
TEXTS = ["das Haus ist alt", "ein Baum", f"kein {SCRIPT} Haus", 'der Baum ist <b>alt</b> & "groß"']
TARGETS = ["the house is old", "a tree", f"no {SCRIPT} house", "the tree is <b>old</b> & 'big'"]
BLANKS = TokenizerSettings("space")


def translator(kind: str = "bahdanau") -> Seq2SeqRun:
    """A run that writes something for every text."""
    torch.manual_seed(3)
    source, target = (Tokenizer.train(BLANKS, texts) for texts in (TEXTS, TARGETS))
    small = BahdanauConfig(embedding=7, width=11, attention=5, maxout=3)
    wide = TransformerConfig(layers=2, width=12, hidden=13, heads=3, shared=False, dropout=0.0)
    config = {"bahdanau": small, "transformer": wide}[kind]
    model = {"bahdanau": Bahdanau, "transformer": Transformer}[kind](source.size, target.size, config)
    with torch.no_grad():
        model.decoder.output.weight *= 5  # so that its output differs from word to word
    return Seq2SeqRun(
        Seq2Seq(
            data=Dates(), tokenizers=TokenizerPair(BLANKS, BLANKS), model=config, metrics=("exact-match",),
            search=Search(length_ratio=1.0, length_extra=5),
        ),
        model.eval(),
        Tokenizers(source, target),
    )  # fmt: skip


def language_model(context: int = 23) -> LanguageModelRun:
    """A language model that goes on from every text."""
    torch.manual_seed(3)
    tokenizer = Tokenizer.train(BLANKS, TARGETS)
    config = GPT2Config(layers=2, width=12, heads=3, context=context)
    model = LANGUAGE_MODELS.build(config, tokenizer.size).eval()
    nn.init.normal_(model.get_parameter("output.weight"), std=2.0)
    return LanguageModelRun(LanguageModelling(data=RunningText(), tokenizer=BLANKS, model=config), model, tokenizer)


def classifier() -> ClassificationRun:
    """A hierarchical attention network for two classes of documents."""
    torch.manual_seed(3)
    tokenizer = Tokenizer.train(BLANKS, TEXTS)
    config = HanConfig(embedding=7, width=5, attention=3)
    model = CLASSIFIERS.build(config, tokenizer.size, 2).eval()
    settings = Classification(data=LabelledTables(train="t.tsv"), tokenizer=BLANKS, model=config)
    return ClassificationRun(settings, model, tokenizer, ClassOutputs(("good", "<bad>")))


def tagger() -> TaggingRun:
    """An LSTM with self-attention, and tags of one kind of entity."""
    torch.manual_seed(3)
    tokenizer = Tokenizer.train(BLANKS, TEXTS)
    config = RecurrentTaggerConfig(embedding=7, width=6, heads=3)
    settings = Tagging(data=TaggedFiles(train="t.conll"), tokenizer=BLANKS, model=config)
    model = TAGGERS.build(config, tokenizer.size, 3).eval()
    nn.init.normal_(model.get_parameter("output.weight"), std=2.0)
    return TaggingRun(settings, model, tokenizer, ["B-<x>", "I-<x>", "O"])


def vit() -> ImageClassificationRun:
    """A Vision Transformer for two classes of images."""
    torch.manual_seed(3)
    config = VitConfig(image=12, patch=4, channels=3, layers=2, width=12, heads=3, hidden=13)
    settings = ImageClassification(data=ImageFolders(train="images"), model=config)
    model = Vit(2, config).eval()
    nn.init.normal_(model.get_parameter("output.weight"), std=2.0)
    return ImageClassificationRun(settings, model, ["square", "round"])


def captioner() -> ImageCaptioningRun:
    """Tells of images."""
    torch.manual_seed(3)
    tokenizer = Tokenizer.train(BLANKS, TARGETS)
    config = ShowAttendAndTellConfig(
        image=16, channels=1, stages=(3, 5), dropout=0.0, embedding=7, width=11, attention=5
    )
    images = Preparation(mean=(0.5,), deviation=(0.5,))
    search = Search(length_ratio=0.0, length_extra=5)
    settings = ImageCaptioning(data=Scenes(), tokenizer=BLANKS, images=images, model=config, search=search)
    return ImageCaptioningRun(settings, CAPTIONERS.build(config, tokenizer.size).eval(), tokenizer)


def reader() -> ExtractiveQARun:
    """Answers questions with spans of their contexts."""
    torch.manual_seed(3)
    tokenizer = Tokenizer.train(BLANKS, TEXTS)
    config = BertConfig(layers=2, width=12, heads=3, hidden=13, context=29, dropout=0.0)
    settings = ExtractiveQA(data=Questions(train=("q.json",), valid=("q.json",)), tokenizer=BLANKS, model=config)
    return ExtractiveQARun(settings, BertSpans(tokenizer.size, config).eval(), tokenizer)
