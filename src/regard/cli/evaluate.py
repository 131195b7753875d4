"""Commands that measure: `evaluate`, `score`, `align`, `aer` and `experiment`."""

import logging
import operator
import os
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import is_dataclass
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from regard.cli.main import (
    LoadFlags,
    Maps,
    advise_columns,
    build_flags,
    format_columns,
    format_table,
    pause_collection,
    say,
    say_json,
    warn,
)
from regard.errors import InputError, quote
from regard.tasks.options import EvaluationOptions

if TYPE_CHECKING:
    from regard.data.pairs import Pair
    from regard.maps.alignment import Alignment
    from regard.maps.links import Links

    EvaluationFlags = EvaluationOptions
else:
    EvaluationFlags = build_flags(EvaluationOptions, "Evaluation", 2)
log = logging.getLogger("regard")
DEFAULTS, DEFAULT_LOADING = EvaluationFlags(), LoadFlags()


def evaluate(
    run: Path,
    /,
    *files: Path,
    flags: EvaluationFlags = DEFAULTS,
    weights: LoadFlags = DEFAULT_LOADING,
    own_data: bool = False,
    json_: bool = False,
) -> None:
    """Score a run on its test set, or on your files.

    Args:
        run: Folder of a trained run.
        files: Source and target text, or one .tsv, .csv or .jsonl table; of a language
            model one text, of a masked language model documents; of images a
            folder of classes. Default: the run's test set, or without one its
            validation examples.
        own_data: Without files, also open data that the run names by a URL or outside the
            current folder. Use it for runs that you trust.
        json_: Print JSON.
    """
    options = EvaluationOptions(**vars(flags))
    options.check()
    with pause_collection():
        from regard.data.rows import BadRecord, MissingColumns
        from regard.metrics import describe_units
        from regard.runs.run_file import load
        from regard.tasks.run import describe_examples, describe_search
        from regard.training.progress import Progress
        from regard.training.settings import choose_own_accelerator

        choose_own_accelerator()
        loaded = load(run, allow_missing=weights.allow_missing, int8=weights.int8)
    loaded.check_supported("evaluate", options)
    if not files and not own_data:
        check_own_data(run, loaded.config.data)
    speaks = os.environ.get("RANK", "0") == "0"  # of several processes one
    progress = Progress(steps=0, interval=1, visible=speaks)
    lines, examples = [], None
    with ExitStack() as stack:
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            from regard.training.update import ProcessGroup
            from regard.work import divide_among

            stack.enter_context(divide_among(ProcessGroup()))
        stack.enter_context(progress.show_elapsed("scoring"))
        if files:
            try:
                examples = loaded.read(files, options)
            except MissingColumns as error:
                keys = error.keys or ("source", "target")
                advise_columns(error, keys)
                raise
            except BadRecord as error:
                error.option = "--skip-bad"
                raise
            names = ", ".join(map(str, files))
            lines.append(describe_examples(examples, names, loaded.unit))
        figures = loaded.evaluate(examples, options)
    if not speaks:
        return
    lines += [describe_search(loaded, options), loaded.convention()]
    for line in filter(None, [*lines, describe_units(figures)]):
        print(f"regard: {line}", file=sys.stderr)
    say_json(figures) if json_ else say(format_table(figures))


def check_own_data(run: Path, data: Any) -> None:
    """Raise InputError for data of a run that are not in the current folder.

    The run may be a stranger's, whose run file could name any URL or file.
    """
    from regard.data.files import is_remote

    def is_inside(path: str) -> bool:
        return Path(path).resolve().is_relative_to(Path.cwd())

    for value in flatten_strings(data):
        is_own = not is_remote(value) and is_inside(value)
        if not is_own or not all(map(is_inside, glob(value, recursive=True))):
            raise InputError(
                f"{run}: its run file names {quote(value)}, a URL or a path outside the "
                "current folder. Name the files to score, or add --own-data if you trust "
                "the run."
            )


def flatten_strings(value: Any) -> Iterator[str]:
    """Yield the texts in nested values."""
    if isinstance(value, str):
        yield value
    elif is_dataclass(value) or isinstance(value, Mapping):
        fields = value if isinstance(value, Mapping) else vars(value)
        yield from flatten_strings([*fields.values()])
    elif isinstance(value, Sequence):
        for item in value:
            yield from flatten_strings(item)


def score(
    run: Path,
    /,
    *,
    source: Path,
    target: Path | None = None,
    allow_missing: bool = False,
    json_: bool = False,
) -> None:
    """Print the log-probability of given targets.

    By the natural logarithm, the end of the target included. An empty line belongs to a pair
    with an empty side.

    Args:
        run: Folder of a trained run.
        source: Sources, one a line.
        target: The target of each, line by line. None: lines of `source` are SOURCE |||
            TARGET.
        allow_missing: Initialize parameters that the weights lack.
        json_: Print JSON.
    """
    from regard.data.pairs import read_sides
    from regard.runs.run_file import load
    from regard.tasks.run import require_method

    pairs = read_sides(source, target)
    loaded: Any = load(run, allow_missing=allow_missing)
    score_pairs = require_method(loaded, "score", run)
    complete = [pair for pair in pairs if pair.is_complete]
    for pair in complete:
        warn(pair.place, loaded.pair_warnings(pair))
    scores = iter(score_pairs(complete))
    for pair in pairs:
        tokens = next(scores) if pair.is_complete else []
        total = sum(tokens) if tokens else None
        if json_:
            texts = {"source": pair.source, "target": pair.target}
            say_json(texts | {"score": total, "tokens": tokens})
        else:
            say("" if total is None else f"{total:.4f}")


def align(
    run: Path | None = None,
    /,
    *,
    source: Path,
    target: Path | None = None,
    maps: Maps = None,
    reverse: Path | None = None,
    pick: Path | None = None,
    one_based: bool = False,
    join: Literal["intersection", "union", "grow-diag-final-and", "agreement"]
    | None = None,
) -> None:
    """Align words by a run's attention, or by statistics.

    Links of words are printed as i-j, from the attention under teacher forcing. An empty
    line belongs to a pair with an empty side.

    Args:
        run: Folder of a trained run. Default: two hidden Markov models learn from these
            pairs; thousands are needed.
        source: Sources, one a line.
        target: The target of each, line by line. None: lines of `source` are SOURCE |||
            TARGET.
        reverse: A run of the other direction, to join the links of both.
        pick: Print no links but each map's error rate against these gold links, the
            best first.
        one_based: The gold links count words from 1.
        join: The symmetrization of --reverse. Default: grow-diag-final-and.
    """
    if pick is not None and (maps or reverse is not None):
        raise InputError(
            "--pick ranks every map of one run. Remove --map and --reverse, or --pick."
        )
    if join is not None and reverse is None:
        raise InputError("--join joins the links of two runs. Set --reverse too.")
    if run is None and (maps or reverse is not None or pick is not None):
        raise InputError(
            "--map, --reverse and --pick use the attention of a run. Name a RUN, or "
            "remove them."
        )
    from regard.data.pairs import read_sides
    from regard.maps.links import format_pharaoh
    from regard.maps.word_aligner import align_words, link_likely

    lines = read_sides(source, target)
    if run is not None and pick is not None:
        return rank_maps(run, lines, pick, one_based)
    pairs = [pair for pair in lines if pair.is_complete]
    if run is not None:
        links = align_by_run(run, pairs, maps, reverse, join)
    else:
        message = f"no RUN; a statistical aligner learns from these {len(pairs)} pairs"
        warn(str(source), [message])
        words = [(pair.source.split(), pair.target.split()) for pair in pairs]
        links = list(map(link_likely, align_words(words)))
    results = iter(links)
    for line in lines:
        say(format_pharaoh(next(results)) if line.is_complete else "")


def align_by_run(
    run: Path,
    pairs: "list[Pair]",
    maps: Sequence[int] | None,
    reverse: Path | None,
    join: str | None,
) -> "list[Links]":
    """Return the links of each pair by the attention of a run, or joined of two."""
    from regard.data.pairs import Pair
    from regard.maps import links

    forward = align_pairs(run, pairs, maps)
    strongest = [links.link_strongest(item.weights) for item in forward]
    if reverse is None:
        return strongest
    methods = {
        "intersection": operator.and_,
        "union": operator.or_,
        "grow-diag-final-and": links.grow_diag_final_and,
    }
    swapped = [Pair(pair.target, pair.source, pair.place) for pair in pairs]
    for index, item in enumerate(align_pairs(reverse, swapped)):
        if join == "agreement":
            joined = links.agreement(forward[index].weights, item.weights)
        else:
            transposed = links.transpose_links(links.link_strongest(item.weights))
            method = methods[join or "grow-diag-final-and"]
            joined = method(strongest[index], transposed)
        strongest[index] = joined
    return strongest


def align_pairs(
    run: Path, pairs: "list[Pair]", maps: Sequence[int] | None = None
) -> "list[Alignment]":
    """Return the alignment of each pair, with a warning for one that is hard to align."""
    from regard.runs.run_file import load
    from regard.tasks.run import require_method

    loaded: Any = load(run)
    align_pairs = require_method(loaded, "align", run)
    for pair in pairs:
        warn(pair.place, loaded.pair_warnings(pair))
    return align_pairs(pairs, maps)


def rank_maps(
    run: Path, pairs: "list[Pair]", pick: Path, one_based: bool = False
) -> None:
    """Print the error rate of each map in per cent, best first."""
    from regard.data.pairs import check_inside, read_gold
    from regard.maps.links import score_maps
    from regard.runs.run_file import load
    from regard.tasks.run import require_method

    gold = read_gold(pick, one_based=one_based)
    check_counts(pick, len(gold), "the text", len(pairs))
    for number, (pair, links) in enumerate(zip(pairs, gold, strict=True), 1):
        lengths = len(pair.source.split()), len(pair.target.split())
        check_inside(f"{pick}:{number}", links.possible, lengths)
    loaded: Any = load(run)
    require_method(loaded, "align", run)
    complete = [index for index, pair in enumerate(pairs) if pair.is_complete]
    maps = loaded.word_maps([pairs[index] for index in complete])
    errors = score_maps(maps, [gold[index] for index in complete])
    order = sorted(range(len(errors)), key=errors.__getitem__)
    rates = {f"map {number}": f"{100 * errors[number]:.2f}" for number in order}
    say(format_table(rates))


def check_counts(first: object, count: int, second: object, expected: int) -> None:
    """Raise InputError for different numbers of lines."""
    if count != expected:
        raise InputError(
            f"{first} has {count} lines, {second} has {expected}; expected equally many"
        )


def aer(links: Path, gold: Path, /, *, one_based: bool = False) -> None:
    """Score word alignments against gold ones.

    Alignment error rate, precision and recall, in per cent.

    Args:
        links: Links as `regard align` prints them.
        gold: Gold links: lines of i-j (sure) and i?j (possible), or .jsonl with lists
            `sure` and `possible`.
        one_based: The gold links count words from 1.
    """
    from regard.data.pairs import has_first_word, read_gold, read_links
    from regard.maps.links import score_links

    alignments, truth = read_links(links), read_gold(gold, one_based=one_based)
    check_counts(links, len(alignments), gold, len(truth))
    gold_links = [item.possible for item in truth]
    has_zero = any(map(has_first_word, alignments))
    if has_zero and any(gold_links) and not any(map(has_first_word, gold_links)):
        advice = "if its words are counted from 1, add --one-based"
        warn(str(gold), [f"no link has a word 0, but some of {links} do; {advice}"])
    scores = score_links(alignments, truth)
    for name in ("aer", "precision", "recall"):
        say(f"{name:9}  {100 * getattr(scores, name):.2f}")


def audit(
    run: Path,
    /,
    *files: Path,
    examples: Annotated[int, Parameter(validator=Number(gte=1))] = 50,
    out: Path | None = None,
    own_data: bool = False,
) -> None:
    """Test whether attention explains a run.

    Effects, other weights and switched-off heads are on one page with a verdict.

    Args:
        run: Folder of a trained run.
        files: Files as for `evaluate`. Default: the run's test set, or without one its
            validation examples.
        examples: The number of examples, the first ones.
        out: The page. Default: RUN-audit.html.
        own_data: As for `evaluate`.
    """
    from regard.experiments.audit import attention_names
    from regard.experiments.audit import audit as audit_run
    from regard.runs.run_file import load
    from regard.storage.atomic import write

    loaded = load(run)
    attention_names(loaded)  # refuses a run that cannot be audited
    if files:
        chosen = loaded.read(files, EvaluationOptions())
    else:
        if not own_data:
            check_own_data(run, loaded.config.data)
        splits = loaded.config.data.load()
        chosen = splits.test or splits.valid
    inputs = [loaded.input_of(example) for example in chosen[:examples]]
    result = audit_run(loaded, inputs, log.info)
    name = run.resolve().name
    out = out or Path(f"{name}-audit.html")
    for title, (columns, rows) in result.tables().items():
        say(f"{title}\n{format_columns(columns, rows)}\n")
    write(out, result.page(name).encode())
    say(f"{textwrap.fill(result.verdict, 88)}\nThe page is {out}.")


def experiment(
    name: str | None = None,
    /,
    *,
    out: Path = Path("experiments"),
    full: bool = False,
) -> None:
    """Measure a claim about attention.

    Args:
        name: The experiment. None: list them.
        out: Folder for the table, the picture and the trained runs.
        full: The long setting; by default one that ends in minutes.
    """
    from regard.config.yaml_tree import suggest
    from regard.experiments import EXPERIMENTS, Setting

    if name is None:
        return say("\n".join(EXPERIMENTS))
    if name not in EXPERIMENTS:
        advice = suggest(name, list(EXPERIMENTS))
        raise InputError(f"{name!r} is not an experiment; {advice}")
    stem = f"{name}-full" if full else name
    finding = EXPERIMENTS[name](Setting(out / f"{stem}-runs", full))
    files = ", ".join(map(str, finding.write(out, stem)))
    say(f"{finding.claim}\n\n{finding.table()}\n\nWritten: {files}")
