"""Commands that measure: `evaluate`, `score`, `align`, `aer` and `experiment`."""

import operator
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from regard.cli.options import (
    LoadFlags,
    build_flags,
    parse_maps,
)
from regard.cli.streams import format_table, pause_collection, say, say_json, warn
from regard.errors import InputError
from regard.tasks.options import EvaluationOptions

if TYPE_CHECKING:
    from regard.data.pairs import Pair
    from regard.maps.alignment import Alignment

    EvaluationFlags = EvaluationOptions
else:
    EvaluationFlags = build_flags(EvaluationOptions, "Evaluation", 2)
DEFAULTS, DEFAULT_LOADING = EvaluationFlags(), LoadFlags()


def evaluate(
    run: Path,
    /,
    *files: Path,
    flags: EvaluationFlags = DEFAULTS,
    weights: LoadFlags = DEFAULT_LOADING,
    json_: bool = False,
) -> None:
    """Score a run on its test set, or on your files.

    Args:
        run: Folder of a trained run.
        files: Source and target text, or one .tsv, .csv or .jsonl table; of a language
            model one text, of a model that fills in blanks documents; of images a
            folder of classes. Default: the run's test set, or without one its
            validation examples.
        json_: Print JSON.
    """
    options = EvaluationOptions(**vars(flags))
    options.check()
    with pause_collection():
        from regard.data.rows import BadRecord, MissingColumns
        from regard.metrics import describe_units
        from regard.runs.load import load
        from regard.tasks.run import describe_examples, describe_search
        from regard.training.devices import choose_own_accelerator
        from regard.training.progress import Progress

        choose_own_accelerator()
        loaded = load(run, allow_missing=weights.allow_missing, int8=weights.int8)
    loaded.check_supported("evaluate", options)
    speaks = os.environ.get("RANK", "0") == "0"  # of several processes one
    division = nullcontext()
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        from regard.training.processes import ProcessGroup
        from regard.work import divide_among

        division = divide_among(ProcessGroup())
    progress = Progress(steps=0, interval=1, visible=speaks)
    lines, examples = [], None
    with division, progress.show_elapsed("scoring"):
        if files:
            try:
                examples = loaded.read(files, options)
            except MissingColumns as error:
                keys = error.columns or ("source", "target")
                names = ",".join(key.upper() for key in keys)
                raise error.with_advice(f"name yours with --columns {names}") from error
            except BadRecord as error:
                raise BadRecord(error.fault, "--skip-bad") from error
            names = ", ".join(map(str, files))
            lines.append(describe_examples(examples, names, loaded.unit))
        figures = loaded.evaluate(examples, options)
    if not speaks:
        return
    lines += [describe_search(loaded, options), loaded.convention()]
    for line in filter(None, [*lines, describe_units(figures)]):
        print(f"regard: {line}", file=sys.stderr)
    say_json(figures) if json_ else say(format_table(figures))


def score(
    run: Path,
    /,
    *,
    source: Path,
    target: Path,
    allow_missing: bool = False,
    json_: bool = False,
) -> None:
    """Print the log-probability of given targets.

    By the natural logarithm, the end of the target included.

    Args:
        run: Folder of a trained run.
        source: Sources, one a line.
        target: The target of each, line by line.
        allow_missing: Initialize parameters that the weights lack.
        json_: Print JSON.
    """
    from regard.data.pairs import read_parallel
    from regard.runs.load import load
    from regard.tasks.capabilities import Scores, require_capability, warn_pair

    pairs = read_parallel(source, target)
    loaded = require_capability(load(run, allow_missing=allow_missing), Scores, run)
    for pair in pairs:
        warn(pair.place, warn_pair(loaded, pair))
    for pair, tokens in zip(pairs, loaded.score(pairs), strict=True):
        total = sum(tokens)
        if json_:
            texts = {"source": pair.source, "target": pair.target}
            say_json(texts | {"score": total, "tokens": tokens})
        else:
            say(f"{total:.4f}")


def align(
    run: Path,
    /,
    *,
    source: Path,
    target: Path,
    maps: Annotated[
        tuple[int, ...] | None,
        Parameter(name="--map", converter=parse_maps),
    ] = None,
    reverse: Path | None = None,
    pick: Path | None = None,
    join: Literal["intersection", "union", "grow-diag-final-and", "agreement"]
    | None = None,
) -> None:
    """Align words by the attention of a run.

    Links of words are printed as i-j, from the attention under teacher forcing.

    Args:
        run: Folder of a trained run.
        source: Sources, one a line.
        target: The target of each, line by line.
        maps: Only these maps, layer x heads + head, from 0. Default: all.
        reverse: A run of the other direction, to join the links of both.
        pick: Print no links but each map's error rate against these gold links, the
            best first.
        join: The symmetrization of --reverse. Default: grow-diag-final-and.
    """
    if pick is not None and (maps or reverse is not None):
        raise InputError(
            "--pick ranks every map of one run. Remove --map and --reverse, or --pick."
        )
    if join is not None and reverse is None:
        raise InputError("--join joins the links of two runs. Set --reverse too.")
    from regard.data.pairs import Pair, read_parallel
    from regard.maps import links

    pairs = read_parallel(source, target)
    if pick is not None:
        return say(format_table(rank_maps(run, pairs, pick)))
    alignments = align_pairs(run, pairs, maps)
    if reverse is None:
        for alignment in alignments:
            say(links.format_pharaoh(links.link_strongest(alignment.weights)))
        return
    reversed_pairs = [Pair(pair.target, pair.source, pair.place) for pair in pairs]
    methods = {
        "intersection": operator.and_,
        "union": operator.or_,
        "grow-diag-final-and": links.grow_diag_final_and,
    }
    backward_alignments = align_pairs(reverse, reversed_pairs)
    for alignment, backward in zip(alignments, backward_alignments, strict=True):
        weights = alignment.weights, backward.weights
        if join == "agreement":
            joined = links.agreement(*weights)
        else:
            forward_links, backward_links = map(links.link_strongest, weights)
            transposed = links.transpose_links(backward_links)
            joined = methods[join or "grow-diag-final-and"](forward_links, transposed)
        say(links.format_pharaoh(joined))


def align_pairs(
    run: Path, pairs: "list[Pair]", maps: Sequence[int] | None = None
) -> "list[Alignment]":
    """Return the alignment of each pair, with a warning for one that is hard to read."""
    from regard.runs.load import load
    from regard.tasks.capabilities import Aligns, require_capability, warn_pair

    loaded = require_capability(load(run), Aligns, run)
    for pair in pairs:
        warn(pair.place, warn_pair(loaded, pair))
    return loaded.align(pairs, maps)


def rank_maps(run: Path, pairs: "list[Pair]", pick: Path) -> dict[str, str]:
    """Return the error rate of each map in per cent, best first."""
    from regard.data.pairs import check_inside, read_gold
    from regard.maps.links import score_maps
    from regard.runs.load import load
    from regard.tasks.capabilities import Aligns, require_capability

    gold = read_gold(pick)
    check_counts(pick, len(gold), "the text", len(pairs))
    for number, (pair, links) in enumerate(zip(pairs, gold, strict=True), 1):
        lengths = len(pair.source.split()), len(pair.target.split())
        check_inside(f"{pick}:{number}", links.possible, lengths)
    maps = require_capability(load(run), Aligns, run).word_maps(pairs)
    errors = [100 * error for error in score_maps(maps, gold)]
    order = sorted(range(len(errors)), key=errors.__getitem__)
    return {f"map {number}": f"{errors[number]:.2f}" for number in order}


def check_counts(first: object, count: int, second: object, expected: int) -> None:
    """Raise InputError for different numbers of lines."""
    if count != expected:
        raise InputError(
            f"{first} has {count} lines, {second} has {expected}; expected equally many"
        )


def aer(links: Path, gold: Path, /) -> None:
    """Score word alignments against gold ones.

    Alignment error rate, precision and recall, in per cent.

    Args:
        links: Links as `regard align` prints them.
        gold: Gold links: lines of i-j (sure) and i?j (possible), or .jsonl with lists
            `sure` and `possible`.
    """
    from regard.data.pairs import read_gold, read_links
    from regard.maps.links import score_links

    alignments, truth = read_links(links), read_gold(gold)
    check_counts(links, len(alignments), gold, len(truth))
    scores = score_links(alignments, truth)
    for name in ("aer", "precision", "recall"):
        say(f"{name:9}  {100 * getattr(scores, name):.2f}")


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
        raise InputError(f"{name!r} is no experiment; {advice}")
    stem = f"{name}-full" if full else name
    finding = EXPERIMENTS[name](Setting(out / f"{stem}-runs", full))
    files = ", ".join(map(str, finding.write(out, stem)))
    say(f"{finding.claim}\n\n{finding.table()}\n\nWritten: {files}")
