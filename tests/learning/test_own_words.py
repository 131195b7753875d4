"""A pointer-generator writes names that it has never seen; its twin without copying cannot."""

import string
from pathlib import Path
from random import Random

import pytest

from regard.data.pairs import Pair, Parallel
from regard.models.pointer_generator import PointerConfig
from regard.runs import train as launch
from regard.runs.run_file import load
from regard.tasks.seq2seq.run import Seq2Seq, TokenizerPair
from regard.text import TokenizerSettings
from regard.training.settings import Training

BEFORE = "please ask", "we met", "here comes", "did you see"
AFTER = "today", "in the office", "about it", "again soon"


def pairs(count: int, random: Random) -> list[Pair]:
    """A sentence with a name, each name another; what is wanted is a greeting with the name."""
    found = []
    for number in range(count):
        name = "".join(random.choices(string.ascii_lowercase, k=7))
        found.append(Pair(f"{random.choice(BEFORE)} {name} {random.choice(AFTER)}", f"dear {name}", f"names:{number}"))
    return found


@pytest.mark.parametrize(("copying", "right"), [(True, range(19, 21)), (False, range(1))])
def test_names_never_seen(copying: bool, right: range, tmp_path: Path):
    random = Random(3)
    files = []
    for name, examples in (("train", pairs(300, random)), ("valid", pairs(20, random))):
        for side in ("source", "target"):
            files.append(tmp_path / f"{name}.{side}")
            files[-1].write_text("".join(f"{getattr(each, side)}\n" for each in examples), encoding="utf-8")
    train, valid = (tuple(map(str, files[:2])), tuple(map(str, files[2:])))
    config = Seq2Seq(
        data=Parallel(train=(train[0], train[1]), valid=(valid[0], valid[1])),
        tokenizers=TokenizerPair(TokenizerSettings("word", minimum_count=2), shared=True),
        model=PointerConfig(embedding=16, width=16, attention=16, copying=copying),
        metrics=("exact-match",),
        training=Training(
            steps=120, batch_tokens=300, learning_rate=1e-2, warmup=10, schedule="linear", validate_every=0
        ),
    )
    launch.train(config, tmp_path / "run")
    run, new = load(tmp_path / "run"), pairs(20, random)
    texts = [pair.source for pair in new]
    for beam in (1, 3):
        answers = run.predict(texts, beam=beam)
        assert sum(answer.text == pair.target for answer, pair in zip(answers, new, strict=True)) in right
    if copying:
        name = new[0].target.split()[1]
        assert answers[0].tokens == ("dear", name, "</s>")
        attention = answers[0].attention
        assert attention is not None
        assert attention.source[attention.weights[1].argmax()] == name
        assert run.score(new[:1])[0][1] > -0.5
