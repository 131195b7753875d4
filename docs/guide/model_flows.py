"""Draws the pictures of the page `flows` into the current folder, by running every model."""

from copy import deepcopy

import torch

from docs.making.flow import Best, watching, write
from docs.making.flow_picture import picture
from regard.models.attention_language_model import AttentionLanguageModel, AttentionLanguageModelConfig
from regard.models.bahdanau import Bahdanau, BahdanauConfig
from regard.models.bert import Bert, BertClassifier, BertConfig, BertSpans
from regard.models.bottleneck import Bottleneck, BottleneckConfig
from regard.models.captioner import GridTransformer, GridTransformerConfig, ShowAndTell, ShowAndTellConfig
from regard.models.classifier import RecurrentTagger, RecurrentTaggerConfig
from regard.models.elmo import Elmo, ElmoConfig
from regard.models.esim import Esim, EsimConfig
from regard.models.gpt2 import GPT2, GPT2Classifier, GPT2Config
from regard.models.han import FlatAttention, FlatConfig, Han, HanConfig
from regard.models.language_model import RecurrentLanguageModel, RecurrentLanguageModelConfig
from regard.models.llama import Llama, LlamaConfig
from regard.models.lstmn import LSTMN, LSTMNConfig
from regard.models.luong import Luong, LuongConfig
from regard.models.one_pass import OnePass, OnePassConfig
from regard.models.one_to_many import OneToMany
from regard.models.pair import Pair, PairConfig
from regard.models.pointer_generator import PointerConfig, PointerGenerator
from regard.models.pointer_network import PointerNetwork, PointerNetworkConfig
from regard.models.recogniser import Chorowski, ChorowskiConfig
from regard.models.rocktaschel import Rocktaschel, RocktaschelConfig
from regard.models.show_attend_and_tell import ShowAttendAndTell, ShowAttendAndTellConfig
from regard.models.snail import ActingSnailConfig, Actor, FewShotSnail, SnailConfig
from regard.models.span_reader import SpanReader, SpanReaderConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.models.turing_machine import TuringMachine, TuringMachineConfig
from regard.models.vit import Vit, VitConfig
from regard.pictures.write import write_figure
from regard.tasks.classification.inputs import collate_documents, collate_two_texts
from regard.text.kinds import END

torch.manual_seed(0)
B, S, T, E, W, A, R, D, H, F, V = 3, 7, 5, 13, 11, 17, 19, 22, 2, 29, 37
source, lengths = torch.randint(4, V, (B, S)), torch.full((B,), S)
given, target = torch.randint(4, V, (2, B, T))  # the same sentences, shifted by one, for all that shapes say
start = torch.full((B,), 2)
recurrent = {B: "B", S: "S", T: "T", E: "E", W: "W", A: "A", R: "R", V: "V", 2 * W: "2W", 4 * W: "4W"}
recurrent |= {E + W: "E+W", E + 2 * W: "E+2W", E + 3 * W: "E+3W", 3 * W: "3W", E + 5 * W: "E+5W"}
attentive = {B: "B", S: "S", T: "T", D: "D", H: "H", W: "D/H", F: "F", V: "V"}


def save(flow, sizes, name, when, **lanes):
    """Write one picture."""
    write_figure(picture(flow, sizes, title=f"{name}: {when}", **lanes), f"{name}-{when}.png")


def both(name, model, parts, sizes):
    """Training and inference of an encoder with a decoder."""
    only = [f"{side}.{part}" for side in ("encoder", "decoder") for part in parts.split()]
    with watching(model, only, {"source": source, "target": given}) as flow:
        model.decoder.output.loss(model.features(source, lengths, given), target)
    save(flow, sizes, name, "training")
    best = Best()
    whole = torch.nn.ModuleDict({"encoder": model.encoder, "decoder": model.decoder, "best token": best})
    with watching(whole, [*only, "best token"], {"source": source, "start": start}) as flow:
        write(model.decoder, best, model.decoder.start(model.encoder(source, lengths)), start, T)
    save(flow, sizes, name, "inference")


model = Bottleneck(V, V, BottleneckConfig(embedding=E, width=W)).eval()
both("bottleneck", model, "embedding reader initial recurrent output", recurrent)


model = Bahdanau(V, V, BahdanauConfig(embedding=E, width=W, attention=A, maxout=R)).eval()
both("bahdanau", model, "embedding reader initial attend stack readout output", recurrent)


model = Luong(V, V, LuongConfig(embedding=E, width=W, layers=1)).eval()
both("luong", model, "embedding reader initial stack attend combine output", recurrent)


model = OnePass(V, V, OnePassConfig(width=D, encoder_width=W, heads=H, shared=False)).eval()
sizes = attentive | {2 * D: "2D", 3 * D: "3D"}
both("one-pass", model, "embedding reader starts.? first attend second readout output", sizes)


model = Transformer(V, V, TransformerConfig(layers=1, width=D, hidden=F, heads=H, shared=False)).eval()
both("transformer", model, "embedding positions layers.?.*_attention layers.?.feedforward norm output", attentive)


config = TransformerConfig(layers=1, width=D, hidden=F, heads=H)
model = Pair(V, V, PairConfig(encoder=config, decoder=LuongConfig(embedding=E, width=D, layers=1))).eval()
sizes = attentive | {E: "E", D + E: "D+E", 2 * D: "2D"}
parts = "embedding positions layers.?.self_attention layers.?.feedforward norm initial stack attend combine output"
both("mixed", model, parts, sizes)


ones = {language: Luong(V, V, LuongConfig(embedding=E, width=W, layers=1)) for language in ("de", "fr")}
model = OneToMany(ones).eval()
decoders = [f"decoders.*.{part}" for part in ["initial", "embedding", "stack", "attend", "combine", "output"]]
german, french = given.clone(), target.clone()
inputs = {"source": source, "target in German": german, "target in French": french}
with watching(model, ["encoder.embedding", "encoder.reader", *decoders], inputs) as flow:
    memory = model.encoder(source, lengths)
    for language, words in (("de", german), ("fr", french)):
        decoder = model.of(language).decoder
        decoder.output(decoder.features(words, decoder.start(memory)))
save(flow, recurrent, "one-to-many", "training")


model = PointerGenerator(V, V, PointerConfig(embedding=E, width=W, attention=A)).eval()
model.decoder.embedding = deepcopy(model.encoder.embedding)  # one for both sides; apart, so that each has its place
both("pointer-generator", model, "embedding reader initial stack attend readout gate output", recurrent)


model = PointerNetwork(2, PointerNetworkConfig(width=W, attention=A, max_elements=20)).eval()
elements = torch.randn(B, S, 2)
only = ["encoder.projection", "encoder.reader", "decoder.initial", "decoder.stack", "decoder.attend", "decoder.output"]
places = torch.randint(END + 1, END + S, (2, B, T))
sizes = {B: "B", S: "S", T: "T", W: "W", 2 * W: "2W", A: "A", S + 1: "S+1", END + 21: "V"}
with watching(model, only, {"elements": elements, "target": places[0]}) as flow:
    model.decoder.output.loss(model.features(elements, lengths, places[0]), places[1])
flow.boxes["decoder.stack"].sources["target"] = True  # a place chooses an element, which no gradient shows
save(flow, sizes, "pointer-network", "training")
best = Best()
whole = torch.nn.ModuleDict({"encoder": model.encoder, "decoder": model.decoder, "best token": best})
with watching(whole, [*only, "best token"], {"elements": elements, "start": start}) as flow:
    write(model.decoder, best, model.decoder.start(model.encoder(elements, lengths)), start, T)
flow.boxes["decoder.stack"].sources |= {"start": True, "best token": False}
save(flow, sizes, "pointer-network", "inference")


images, eye = torch.randn(B, 1, 32, 32), {"image": 32, "channels": 1, "stages": (8, 8, 23)}
sizes = recurrent | {16: "C", 23: "M", E + 23: "E+M", W + 23: "W+M", E + W + 23: "E+W+M"}


def check_flow(name, model, parts):
    """Draw training and inference of a captioner."""
    only = ["encoder", *(f"decoder.{part}" for part in parts.split())]
    with watching(model, only, {"image": images, "target": given}) as flow:
        model.decoder.output.loss(model.features(images, given), target)
    save(flow, sizes, name, "training")
    best = Best()
    whole = torch.nn.ModuleDict({"encoder": model.encoder, "decoder": model.decoder, "best token": best})
    with watching(whole, [*only, "best token"], {"image": images, "start": start}) as flow:
        write(model.decoder, best, model.decoder.start(model.encoder(images)), start, T)
    save(flow, sizes, name, "inference")


model = ShowAttendAndTell(V, ShowAttendAndTellConfig(embedding=E, width=W, attention=A, **eye)).eval()
check_flow("show-attend-and-tell", model, "initial embedding attend gate stack readout output")
model = ShowAndTell(V, ShowAndTellConfig(embedding=E, width=W, **eye)).eval()
check_flow("show-and-tell", model, "initial embedding recurrent output")
model = GridTransformer(V, GridTransformerConfig(layers=1, width=D, heads=H, hidden=F, **eye)).eval()
sizes = attentive | {16: "C", 23: "M"}
check_flow("grid-transformer", model, "embedding positions layers.?.*_attention layers.?.feedforward norm output")


frames, heard = torch.randn(B, 16, 8), torch.tensor([16, 12, 8])


def sound_flow(name, model, sizes, parts):
    """Draw the training of a recognizer."""
    only = ["encoder", *(f"decoder.{part}" for part in parts.split())]
    with watching(model, only, {"frames": frames, "target": given}) as flow:
        model.decoder.output.loss(model.features(frames, heard, given), target)
    save(flow, sizes, name, "training")


model = Chorowski(V, 8, ChorowskiConfig(reader=4, embedding=E, width=W, attention=A, maxout=6, stages=(3,))).eval()
sound_flow("chorowski", model, recurrent | {8: "8"}, "initial_state embedding attend stack readout output")


def going_on(name, model, parts, sizes):
    """Draw training and inference of a language model."""
    only, best = [f"decoder.{part}" for part in parts.split()], Best()
    whole = torch.nn.ModuleDict({"decoder": model.eval(), "best token": best})
    with watching(whole, only, {"text": given}) as flow:
        model.output.loss(model.run(given, model.begin(B))[0], target)
    save(flow, sizes, name, "training")
    with watching(whole, [*only, "best token"], {"start": start}) as flow:
        write(model, best, model.begin(B), start, T)
    save(flow, sizes, name, "inference")


small = {"embedding": E, "width": W}
model = RecurrentLanguageModel(V, RecurrentLanguageModelConfig(layers=1, **small))
going_on("recurrent", model, "embedding network readout output", recurrent)
model = AttentionLanguageModel(V, AttentionLanguageModelConfig(layers=1, **small))
going_on("attention", model, "embedding network attend readout output", recurrent)
model = LSTMN(V, LSTMNConfig(attention=A, **small))
going_on("lstmn", model, "embedding attend cell readout output", recurrent)
model = GPT2(V, GPT2Config(layers=1, width=D, heads=H, hidden=F))
going_on("gpt2", model, "embedding positions blocks.?.self_attention blocks.?.feedforward norm output", attentive)
model = Llama(V, LlamaConfig(layers=1, width=D, heads=H, head_width=12, hidden=F))
going_on("llama", model, "embedding blocks.?.self_attention blocks.?.feedforward norm output", attentive)


def reading(name, model, parts, inputs, sizes, call):
    """Draw one pass of a model without a decoder."""
    with watching(model.eval(), parts.split(), inputs) as flow:
        call(model)
    save(flow, sizes, name, "pass", lanes=("no left lane", "encoder"))


layers = "encoder.layers.?.self_attention encoder.layers.?.feedforward"
model = Bert(V, BertConfig(layers=1, width=D, heads=H, hidden=F))
blanks, words = torch.tensor([1, 9, 12, 16]), torch.randint(4, V, (4,))


def fill(model):
    """Compute both losses of BERT."""
    states = model(source, lengths)
    features = model.predictions.features(states.flatten(0, 1)[blanks])
    model.predictions.output.loss(features[None], words[None])
    model.next_sentence(model.pooler(states))


reading(
    "bert",
    model,
    f"encoder.embedding encoder.positions encoder.norm {layers} pooler next_sentence predictions predictions.output",
    {"text": source},
    attentive | {4: "blanks", 2: "2"},
    fill,
)
under = f"encoder.embedding encoder.positions encoder.norm {layers}"
for name, model, last in (
    ("bert-classes", BertClassifier(V, 2, BertConfig(layers=1, width=D, heads=H, hidden=F)), "pooler output"),
    ("bert-spans", BertSpans(V, BertConfig(layers=1, width=D, heads=H, hidden=F)), "output"),
):
    ends = attentive | {2: "K" if last == "pooler output" else "2"}
    reading(name, model, f"{under} {last}", {"text": source}, ends, lambda model: model(source, lengths))
reading(
    "gpt2-classes",
    GPT2Classifier(V, 9, GPT2Config(layers=1, width=D, heads=H, hidden=F)),
    "embedding positions blocks.?.self_attention blocks.?.feedforward norm output",
    {"text": source},
    attentive | {9: "K"},
    lambda model: model(source, lengths),
)
reading(
    "recurrent-tagger",
    RecurrentTagger(V, 3, RecurrentTaggerConfig(embedding=E, width=W, heads=H)),
    "embedding reader attention norm output",
    {"text": source},
    recurrent | {3: "K"},
    lambda model: model(source, lengths),
)
questions, unspelled = torch.randint(4, V, (B, T)), [torch.zeros(B, length, 0) for length in (T, S)]
reading(
    "span-reader",
    SpanReader(V, SpanReaderConfig(embedding=E, width=W, layers=1)),
    "embedding align context question compare compared composed summarise output",
    {"question": questions, "context": source},
    recurrent | {2: "2", 2 * E + 6: "2E+6", 8 * W: "8W", 4 * W: "4W"},
    lambda model: model(questions, torch.tensor([T] * B), source, lengths, torch.zeros(B, S, 6), *unspelled),
)
spelled = torch.randint(1, 50, (B, S, 9))
reading(
    "elmo",
    Elmo(V, ElmoConfig(characters=9, filters=((1, 4), (2, 4)), projection=W, cell=A, layers=2)),
    "words reader",
    {"characters": spelled},
    recurrent | {9: "letters", 2: "2"},
    lambda model: model(spelled, lengths),
)
documents = collate_documents([([[5, 7, 6, 9], [8, 9], [4, 4, 4]], 0), ([[4], [6, 7]], 1)])
reading(
    "han",
    Han(V, 7, HanConfig(embedding=E, width=W, attention=A)),
    "embedding words.reader words.summary sentences.reader sentences.summary output",
    {"sentences": documents.inputs[0]},
    {2: "B", 5: "N", 3: "M", 4: "L", 7: "K", E: "E", 2 * W: "2W"},
    lambda model: model(*documents.inputs),
)
reading(
    "flat-attention",
    FlatAttention(V, 2, FlatConfig(embedding=E, width=W, attention=A)),
    "embedding words.reader words.summary output",
    {"text": source},
    recurrent | {2: "K"},
    lambda model: model(source, lengths),
)
pairs = collate_two_texts([((row[:S], row[:T]), 0) for row in source.tolist()])
reading(
    "rocktaschel",
    Rocktaschel(V, 2, RocktaschelConfig(embedding=E, width=W, reading="word-by-word")),
    "embedding premise hypothesis reading.attend joined output",
    {"text of the premise": pairs.inputs[0]},
    recurrent | {2: "K", T + 1: "T+1"},
    lambda model: model(*pairs.inputs),
)
reading(
    "esim",
    Esim(V, 2, EsimConfig(embedding=E, width=W)),
    "embedding reader first_reads second_reads compared composed joined output",
    {"first text": pairs.inputs[0], "second text": pairs.inputs[2]},
    recurrent | {2: "K", 8 * W: "8W", 2 * W: "2W"},
    lambda model: model(*pairs.inputs),
)
pixels = torch.randn(B, 1, 6, 6)
reading(
    "vit",
    Vit(4, VitConfig(image=6, patch=2, channels=1, layers=1, width=D, heads=H, hidden=F)),
    f"encoder.patches encoder.positions {layers} encoder.norm output",
    {"image": pixels},
    attentive | {9: "P", 10: "P+1", 4: "K"},
    lambda model: model(pixels),
)
shown, labels = torch.randn(B, 5, 1, 16, 16), torch.randint(2, (B, 4))
reading(
    "snail",
    FewShotSnail(2, 2, SnailConfig(side=16, code_filters=4, width=W, filters=4)),
    "code network.? output",
    {"images": shown},
    {B: "B", 5: "N", 15: "B N", W: "W", W + 2: "W+K", 2: "K"},
    lambda model: model(shown, labels),
)
bits = torch.randn(B, T, 2, requires_grad=True)
reading(
    "turing-machine",
    TuringMachine(2, 2, TuringMachineConfig(width=W, rows=R, tape_width=E)),
    "controller heads output",
    {"inputs": bits},
    {B: "B", T: "T", W: "W", 2 * W: "2W", R: "rows", E: "E", E + 2: "E+2", W + E: "W+E"},
    lambda model: model(bits),
)


seen, acts = torch.randn(B, T, 4, requires_grad=True), {B: "B", T: "T", 4: "I", W: "W", 2: "K", 1: "1"}
model = Actor(4, 2, T, ActingSnailConfig(width=W, filters=A))
parts = "embedding network.* policy later"
wide = {W + 3 * A: "W+3A", W + 6 * A: "W+6A", W + 6 * A + 32: "W+6A+32"}
reading("acting-snail", model, parts, {"seen": seen}, acts | wide, lambda model: model(seen))
