"""Import of published models as runs."""

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard.config import yaml_tree
from regard.errors import InputError, RunError
from regard.hub.families import FAMILIES, vit
from regard.hub.families.weights import Keys
from regard.hub.generation import read_generation
from regard.hub.parity import check_parity
from regard.hub.sentencepiece import read_sides
from regard.models.pretrained import POOLER, Pretrained
from regard.models.published import (
    check_complete,
    check_published,
    find_published,
    library_config,
    load_network,
    quiet_library,
    read_settings,
    require_transformers,
)
from regard.runs import run_file
from regard.runs.run_file import CONFIG
from regard.runs.train import complete
from regard.storage.published_folder import CONFIG as SETTINGS
from regard.storage.published_folder import PublishedFolder
from regard.storage.run_folder import LABELS, SCALE, WEIGHTS, RunDirectory
from regard.storage.tensors import load_into, read_tensors
from regard.tasks.base import SOURCE, TARGET, TOKENIZER
from regard.tasks.catalog import TASKS as RUNS
from regard.text import Tokenizer
from regard.training.settings import Training

ORIGIN = "origin.json"
RATE = 5e-5
"""The default learning rate for further training of an imported model."""
MARIAN = "marian"
"""The model type whose tokenizers are SentencePiece files."""
TASKS = {
    "ForTokenClassification": "tagging",
    "ForQuestionAnswering": "extractive-qa",
    "ForImageClassification": "image-classification",
    "ForCausalLM": "language-model",
    "LMHeadModel": "language-model",
    "ForConditionalGeneration": "seq2seq",
    "MTModel": "seq2seq",
    "ForMaskedLM": "masked-language-model",
}
"""The task of published classes, by the endings of their names."""
NAMED = {
    "BertForPreTraining": "masked-language-model",
    "BertModel": "masked-language-model",
    vit.ENCODER: "image-classification",
}
"""The task of published classes by their whole names."""
PROBLEMS = {
    "single_label_classification": "classification",
    "multi_label_classification": "multi-label",
    "regression": "regression",
}
Tokenizers = dict[str, Tokenizer]
"""The tokenizers of a run by the names of their files."""
SECTIONS = {"seq2seq": {"metrics": ["bleu", "chrf"]}}
"""Further sections of a run file."""
LABELED = ("classification", "multi-label", "tagging", "image-classification")
WRITER = "transformers"
"""The task of other models that write texts, of sounds or images: that of `AnyModel`."""
SHOWN = (*LABELED, "regression")
"""The tasks whose published models are imported to be shown or served."""
DATA: dict[str, Keys] = {
    "seq2seq": {"kind": "parallel"},
    "multi-label": {"kind": "labelled"},
    "tagging": {"kind": "tagged"},
    "image-classification": {"kind": "image-folders"},
}
"""The section of the data, which are still to be named, where it has a kind."""
log = logging.getLogger("regard")


@dataclass(frozen=True)
class Source:
    """A published model that is checked, before its weights are read.

    Attributes:
        folder: Its files.
        name: Its folder or its name on the hub.
        revision: Its commit on the hub.
        values: The configuration object of transformers.
        architecture: The name of its class.
        task: The name of the task of that class; `WRITER` or empty if it has the head
            of none.
    """

    folder: PublishedFolder
    name: str
    revision: str | None
    values: Any
    architecture: str
    task: str


def import_run(
    source: str, out: Path, revision: str | None = None, *, paired: bool = False
) -> None:
    """Import a published model as a run.

    A BERT, GPT-2, Llama, Marian or ViT becomes the model of regard, if that computes the
    same; any other model becomes the model `pretrained`.

    Args:
        source: A folder, or a model's name on the hub, OWNER/NAME.
        out: The folder of the run.
        revision: Branch, tag or commit on the hub.
        paired: Whether a classifier reads two texts, which no published file records.

    Raises:
        InputError: The model is missing, incomplete or unsafe, or of no task; or `out`
            is in use.
        RunError: The hub does not answer.
    """
    folder, commit = find_published(source, revision)
    published = read_source(folder, source, commit or revision)
    task = published.task
    if task in ("", WRITER):
        raise InputError(
            f"{folder.path}: is a {published.architecture or 'model without a class'}, "
            "which has the head of no task. Open it with `regard show` or `regard embed`"
            + ("." if task else ", or train it: model: {name: pretrained, path: ...}.")
        )
    if paired and task not in PROBLEMS.values():
        raise InputError(
            f"{source}: is no text classifier, so it cannot read pairs; remove --pairs"
        )
    data = DATA.get(task, {}) | ({"second": "second"} if paired else {})
    with RunDirectory.create(out) as run:
        try:
            origin = {"model": source, "revision": commit}
            run.write_json(ORIGIN, origin if commit else {"folder": source})
            model = None
            try:
                if published.values.model_type in FAMILIES:
                    model = import_own(published, run, data)
            except RunError as error:
                log.info(
                    "%s: becomes the model pretrained, since regard's own does not "
                    "compute it: %s",
                    *(source, error),
                )
            if model is None:
                model, _ = begin_run(published, run, data)
                if isinstance(model, Pretrained):
                    model.replaces_head = False  # a random head is not published
                model.load_published(folder)
            run.save_tensors(WEIGHTS, model.state_dict())
        except BaseException:
            run.withdraw()  # half an import would be in the way of the next one
            raise


def find_task(source: Path | str) -> str:
    """Return the name of the task of a published model, `Source.task`.

    Raises:
        InputError: The model is missing, incomplete or unsafe.
        RunError: The hub does not answer.
    """
    folder, _ = find_published(str(source))
    return read_source(folder, str(source), None).task if folder.has(SETTINGS) else ""


def read_source(folder: PublishedFolder, name: str, revision: str | None) -> Source:
    """Check a folder, and find the task of its model.

    Raises:
        InputError: The folder is unsafe or incomplete.
    """
    document = check_published(folder)
    settings = read_settings(folder)
    head = ("id2label", "problem_type")
    settings |= {key: document[key] for key in head if key in document}
    values = library_config(settings)
    architecture = str((document.get("architectures") or [""])[0])
    library = require_transformers(str(folder.path))
    auto = library.models.auto.modeling_auto
    is_text = values.model_type in auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
    tasks = [task for ending, task in TASKS.items() if architecture.endswith(ending)]
    task = NAMED.get(architecture, *tasks[:1])
    if architecture.endswith("ForSequenceClassification"):
        default = "regression" if values.num_labels == 1 else "classification"
        task = PROBLEMS.get(getattr(values, "problem_type", None) or "", default)
    if task is None or (task == "seq2seq" and not is_text):
        kind = getattr(library, architecture, None)
        can_generate = getattr(kind, "can_generate", bool)  # which is False
        task = WRITER if can_generate() else ""
    return Source(
        folder,
        name,
        revision,
        values,
        architecture,
        task,
    )


def import_own(source: Source, run: RunDirectory, data: Keys) -> Any:
    """Import a model as one of regard's own, and return it.

    Raises:
        InputError: The tensors or the tokenizer do not fit, or weights are not finite.
        RunError: regard's own model computes something else.
    """
    values = source.values
    architecture = source.architecture
    family = FAMILIES[values.model_type]
    try:
        config = family.read_config(values, architecture)
    except (InputError, ValueError, TypeError) as error:
        raise RunError(str(error)) from error
    library = require_transformers(source.name)
    kind = getattr(library, architecture)
    network, missing = load_network(kind, source.folder, exact=True)
    # the library's names in memory change from version to version, those of files do not
    with TemporaryDirectory() as folder, quiet_library():
        network.save_pretrained(folder, max_shard_size="1000GB")
        path = Path(folder) / "model.safetensors"
        weights = read_tensors(path)
    prefix = network.base_model_prefix
    if network.base_model is network:
        weights = {f"{prefix}.{name}": tensor for name, tensor in weights.items()}
    task = source.task
    if architecture == vit.ENCODER:  # nothing here reads the pooler
        task = vit.EMBEDDING
        head = f"{prefix}.{POOLER}"
        missing = {name for name in missing if not name.startswith(POOLER)}
        weights = {name: weights[name] for name in weights if not name.startswith(head)}
    check_complete(source.folder, network, missing)
    model, tokenizers = begin_run(source, run, data, config)
    weights = family.read_weights(weights, model, config, task)
    load_into(model, weights)
    special = [tokenizer.special for tokenizer in tokenizers.values()]
    check_parity(model, network, *special[:1])
    return model


def begin_run(
    source: Source, run: RunDirectory, data: Keys, ours: Any = None
) -> tuple[Any, Tokenizers]:
    """Write the files of a run of one of regard's own models, or of `pretrained`.

    Args:
        source: The published model.
        run: The folder of the run.
        data: The section of the data.
        ours: The configuration of regard's own model.

    Returns:
        The model with fresh weights, and the tokenizers by the names of their files.

    Raises:
        InputError: The tokenizer, the search or the preparation of images does not fit,
            or a value is out of a run file's range.
    """
    task = source.task
    values = source.values
    named = {"name": "pretrained", "path": source.name, "revision": source.revision}
    document = {"task": task, "data": data, "model": named}
    document |= SECTIONS.get(task, {})
    tokenizers: Tokenizers = {}
    if values.model_type == MARIAN and ours is not None:
        tokenizers = read_marian(source)
        first, second = tokenizers.values()
        pair = {"source": first.settings, "target": second.settings}
        document |= {"model": ours, "tokenizers": pair}
    run.write_text(CONFIG, yaml_tree.dump(document))
    config: Any = run_file.read(run.file(CONFIG))
    config = complete(config, run, writes=True, resume=False)
    model = ours or config.model
    if task == "image-classification":
        patches = (model.image // model.patch) ** 2
        longest = 16 * (model.marks + patches)
    elif tokenizers:
        longest = model.max_length
    else:
        longest = config.model.positions
        for name in run.names("tokenizer.json"):
            tokenizers[name] = Tokenizer.load(run.file(name))
    # a batch of further training holds the longest row
    tokens = max(Training.batch_tokens, longest)
    training = replace(config.training, batch_tokens=tokens, learning_rate=RATE)
    changes = {"model": model, "training": training}
    if task in ("seq2seq", "language-model"):
        changes |= describe_search(source, tokenizers, longest)
    config = replace(config, **changes)
    run.write_text(CONFIG, run_file.dump(config))
    config = run_file.read(run.file(CONFIG))
    if task == "regression":
        run.write_json(SCALE, {"mean": 0.0, "deviation": 1.0})
    elif task in LABELED:
        run.write_json(LABELS, list_labels(source))
    for name, tokenizer in tokenizers.items():
        with run.writing(name) as path:
            tokenizer.save(path)
    opened = RUNS[task].run.open(run, config)
    return opened.model, tokenizers


def read_marian(source: Source) -> Tokenizers:
    """Read the tokenizers of both sides of a Marian model."""
    folder, values = source.folder, source.values
    generation = read_generation(folder, values, encodes=True)
    start = values.decoder_start_token_id
    sides = read_sides(folder, values.vocab_size, start, generation.ends)
    return dict(zip((SOURCE, TARGET), sides, strict=True))


def list_labels(source: Source) -> list[str]:
    """Return the labels of a model; repeated ones get their number."""
    labels: list[str] = []
    if source.architecture == vit.ENCODER:
        return labels
    names = source.values.id2label or {}
    for number, label in sorted(names.items()):
        name = f"{label} ({number})" if label in labels else str(label)
        labels.append(name)
    return labels


def describe_search(source: Source, tokenizers: Tokenizers, positions: int) -> Keys:
    """Return the sections of the published search; a tokenizer gets its ends."""
    encodes = source.task == "seq2seq"
    generation = read_generation(source.folder, source.values, encodes=encodes)
    search = generation.search
    if encodes:
        start = (tokenizers[TARGET].special.start,)
        search = replace(
            search,
            banned=tuple(ids for ids in search.banned if ids != start),
            length_ratio=0.0,
            length_extra=generation.tokens or max(1, positions - 1),
        )
        return {"search": search}
    sections = {"search": search, "window": positions, "before": "nothing"}
    if generation.tokens is not None:
        sections["tokens"] = generation.tokens
    special = tokenizers[TOKENIZER].special
    if generation.ends:
        end, *further = generation.ends
        start = special.start if special.opens else end
        special = replace(special, start=start, end=end, more_ends=tuple(further))
    if special.opens:
        sections["before"] = "end" if special.start == special.end else "start"
    tokenizers[TOKENIZER] = tokenizers[TOKENIZER].with_special(special)
    return sections
