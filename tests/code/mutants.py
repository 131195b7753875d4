"""Plant bugs, one at a time, and show which test finds each: `python -m tests.code.mutants [NAME...]`.

A bug is a replacement in a copy of `src`; the checkout stays as it is. The tests that should find it run until
the first failure. Exit code 1 if any bug survives.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.code.tree import ROOT

PACKAGE = ROOT / "src" / "regard"


@dataclass(frozen=True)
class Mutant:
    """A bug: `old` occurs once in `file` and is replaced by `new`; `tests` should fail then."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


ATTENTION = ("tests/oracle", "tests/attention", "tests/laws")
DECODING = ("tests/decoding",)
SOFT, HARD, LOCATION = "attention/align/soft.py", "attention/align/hard.py", "attention/align/location.py"
MASKS, MEMORY, POSITIONS = "attention/masks.py", "attention/memory.py", "attention/positions.py"
MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a cut counts the queries of each step anew",
        "attention/intervene.py",
        'first = {"queries": self.first_query,',
        'first = {"queries": 0,',
        ("tests/laws/test_interventions.py",),
    ),
    Mutant(
        "a cut of one head hides a key from all",
        "attention/intervene.py",
        "            if chosen is None:\n",
        '            if chosen is None or name == "heads":\n',
        ("tests/laws/test_interventions.py",),
    ),
    Mutant(
        "an effect is a gain",
        "attribution/effects.py",
        "effects.append(base - score(len(group)))",
        "effects.append(score(len(group)) - base)",
        ("tests/attribution/test_effects.py",),
    ),
    Mutant(
        "softmax does not zero masked keys",
        SOFT,
        "return _zero(torch.softmax(scores, -1), forbidden)",
        "return torch.softmax(scores, -1)",
        ATTENTION,
    ),
    Mutant(
        "two caches that grow from one share a position",
        "attention/memory.py",
        "if self.written != [self.length] or end",
        "if end",
        ATTENTION,
    ),
    Mutant("sparsemax sums to 2", SOFT, "return (total - 1) / inside", "return (total - 2) / inside", ATTENTION),
    Mutant(
        "entmax sums to more than 1",
        SOFT,
        "return mean - ((1 - spread) / count)",
        "return mean - ((2 - spread) / count)",
        ATTENTION,
    ),
    Mutant(
        "the memory is one key shorter",
        LOCATION,
        "allowed * (positions + 1)",
        "allowed * positions",
        ATTENTION,
    ),
    Mutant(
        "padding is readable by one key",
        MASKS,
        "return positions < self.lengths[..., None]",
        "return positions <= self.lengths[..., None]",
        ATTENTION,
    ),
    Mutant(
        "the future is readable by one key",
        MASKS,
        "allowed &= distance <= self.after",
        "allowed &= distance <= self.after + 1",
        ATTENTION,
    ),
    Mutant(
        "a window has one key too many",
        MASKS,
        "allowed &= distance >= -self.before",
        "allowed &= distance >= -self.before - 1",
        ATTENTION,
    ),
    Mutant("sinks are forgotten", MASKS, "allowed[:, : self.sinks] = True", "pass", ATTENTION),
    Mutant(
        "blocks of a window begin one key late",
        "kernels/windows.py",
        "padding = before - first,",
        "padding = before - first - 1,",
        ATTENTION,
    ),
    Mutant(
        "joined masks allow what either allows",
        MASKS,
        "return self.first.dense() & self.second.dense()",
        "return self.first.dense() | self.second.dense()",
        ATTENTION,
    ),
    Mutant(
        "a key hidden by two masks together is read",
        MASKS,
        "if self.first.shape[-2] > 1 and self.second.shape[-2] > 1:",
        "if self.first.shape[-2] > 10**6:",
        ATTENTION,
    ),
    Mutant(
        "selected rows keep their padding",
        MASKS,
        "return Padding(self.lengths[rows], self.size)",
        "return self",
        ATTENTION,
    ),
    Mutant(
        "a query scores its keys by half",
        "attention/scores.py",
        "max(query.shape[-1], 1) ** -0.5",
        "max(4 * query.shape[-1], 1) ** -0.5",
        ATTENTION,
    ),
    Mutant(
        "a NaN value behind the mask is mixed in",
        MEMORY,
        "value = key if shared else self.value.masked_fill(hidden, 0.0)",
        "value = key if shared else self.value",
        ATTENTION,
    ),
    Mutant(
        "selected rows of a memory keep the mask",
        MEMORY,
        "index_batch(self.mask, rows),",
        "self.mask,",
        ATTENTION,
    ),
    Mutant(
        "packing keeps a padded token",
        MEMORY,
        "inside = torch.arange(positions) < lengths[:, None]",
        "inside = torch.arange(positions) <= lengths[:, None]",
        ATTENTION,
    ),
    Mutant("a tape adds what it should erase", MEMORY, "weight[..., None], value=-1)", "weight[..., None])", ATTENTION),
    Mutant("rotation is no rotation", POSITIONS, "torch.cat([-sin, sin], -1)", "torch.cat([sin, sin], -1)", ATTENTION),
    Mutant(
        "angles are rounded to half precision",
        POSITIONS,
        "precise = torch.promote_types(dtype, torch.float32)",
        "precise = dtype",
        ATTENTION,
    ),
    Mutant(
        "distant keys are preferred",
        POSITIONS,
        "(-to_float32(self.slopes) * distance.abs())",
        "(to_float32(self.slopes) * distance.abs())",
        ATTENTION,
    ),
    Mutant(
        "the bucket of distance 0 lies ahead",
        POSITIONS,
        "(distance > 0) * buckets",
        "(distance >= 0) * buckets",
        ATTENTION,
    ),
    Mutant(
        "relative positions are mirrored",
        POSITIONS,
        "index = distance.clamp(-self.farthest",
        "index = (-distance).clamp(-self.farthest",
        ATTENTION,
    ),
    Mutant(
        "a stretched rotation is squeezed",
        POSITIONS,
        "return frequencies / self.factor\n",
        "return frequencies * self.factor\n",
        ATTENTION,
    ),
    Mutant(
        "coverage forgets",
        "attention/history.py",
        "return past + weights",
        "return weights",
        ATTENTION,
    ),
    Mutant(
        "the alignment's state is dropped",
        "attention/history.py",
        "read = step._replace(state=state).read()",
        "read = step._replace(state=None).read()",
        ATTENTION,
    ),
    Mutant(
        "monotonic alignment never reads a key again",
        HARD,
        "readable & (last.cumsum(-1) > 0)",
        "readable & ((last.cumsum(-1) - last > 0) | (last[..., :1] > 0))",
        ATTENTION,
    ),
    Mutant(
        "monotonic alignment moves backwards",
        HARD,
        "path = (before[..., :, None] - before[..., None, :]).tril().exp().tril()",
        "path = (before[..., :, None] - before[..., None, :]).tril().exp()",
        ATTENTION,
    ),
    Mutant(
        "hard attention reads the best key in training",
        HARD,
        "keys = sample_keys(soft.detach())",
        "keys = soft.detach().argmax(-1)",
        ATTENTION,
    ),
    Mutant(
        "straight-through has no gradient",
        HARD,
        "return Aligned(hard + (soft - soft.detach()))",
        "return Aligned(hard)",
        ATTENTION,
    ),
    Mutant(
        "local-p looks past the length",
        LOCATION,
        "return lengths * to_float32(share)",
        "return (lengths + 1) * to_float32(share)",
        ATTENTION,
    ),
    Mutant("local-p is too wide", LOCATION, "torch.exp(-2 * (distance", "torch.exp(-1 * (distance", ATTENTION),
    Mutant(
        "local-m forgets how many queries there were",
        LOCATION,
        "return torch.minimum(steps, lengths - 1), state + queries",
        "return torch.minimum(steps, lengths - 1), state + 1",
        ATTENTION,
    ),
    Mutant("the tape moves the wrong way", LOCATION, "moves.flip(-1)[..., None]", "moves[..., None]", ATTENTION),
    Mutant(
        "the tape's head does not sharpen",
        LOCATION,
        "powers = 1 + functional.softplus(powers)",
        "powers = functional.softplus(powers)",
        ATTENTION,
    ),
    Mutant(
        "the tape's gate is reversed",
        LOCATION,
        "torch.lerp(last, content[..., index, :], gates[..., index, :])",
        "torch.lerp(content[..., index, :], last, gates[..., index, :])",
        ATTENTION,
    ),
    Mutant(
        "weights are dropped in evaluation",
        "attention/attend.py",
        "rate = self.dropout if self.training else 0.0",
        "rate = self.dropout",
        ATTENTION,
    ),
    Mutant(
        "products are not scaled",
        "attention/scores.py",
        "self.scale or max(query.shape[-1], 1) ** -0.5",
        "self.scale or 1.0",
        ATTENTION,
    ),
    Mutant(
        "heads are split the other way round",
        "attention/heads.py",
        'queries = rearrange(states, "b t (h d) -> b h t d", h=self.heads)',
        'queries = rearrange(states, "b t (d h) -> b h t d", h=self.heads)',
        ATTENTION,
    ),
    Mutant(
        "groups of heads are split the other way round",
        "attention/heads.py",
        'groups = rearrange(states, "b s (g d) -> b g s d", g=self.key_value_heads)',
        'groups = rearrange(states, "b s (d g) -> b g s d", g=self.key_value_heads)',
        ATTENTION,
    ),
    Mutant(
        "a reversed text begins in its padding",
        "nn/recurrent.py",
        "lengths[:, None] - 1 - count",
        "positions - 1 - count",
        ATTENTION,
    ),
    Mutant(
        "every step of a GPT-2 is at position 0",
        "models/gpt2.py",
        "self.positions(self.embedding(tokens), state.position)",
        "self.positions(self.embedding(tokens), 0)",
        ("tests/laws", "tests/decoding"),
    ),
    Mutant(
        "label smoothing is forgotten",
        "kernels/cross_entropy.py",
        "smooth = smoothing * logits",
        "smooth = 0.0 * logits",
        ("tests/kernels/test_cross_entropy.py",),
    ),
    Mutant(
        "recorded weights are padded on the wrong side",
        "attention/record.py",
        "pad(values, (event.first_key, 0))",
        "pad(values, (0, event.first_key))",
        ATTENTION,
    ),
    Mutant(
        "long texts are punished",
        "decoding/hypothesis.py",
        "log_probability / relative**self.alpha",
        "log_probability * relative**self.alpha",
        DECODING,
    ),
    Mutant(
        "the nucleus lacks the token that fills it",
        "decoding/sampling.py",
        "before = probabilities.cumsum(-1) - probabilities",
        "before = probabilities.cumsum(-1)",
        DECODING,
    ),
    Mutant(
        "an n-gram repeats if one of its tokens does",
        "decoding/processors.py",
        "length - self.size + 1 :]).all(-1)",
        "length - self.size + 1 :]).any(-1)",
        DECODING,
    ),
    Mutant(
        "warm-up is one update late",
        "training/settings.py",
        "share = min(1.0, update / warmup",
        "share = min(1.0, (update - 1) / warmup",
        ("tests/training/test_schedules.py",),
    ),
)


def find_killer(mutant: Mutant) -> str | None:
    """Run the tests of a mutant and return the first that fails; None if all pass."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        path = source / "regard" / mutant.file
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(mutant.old, mutant.new, 1), encoding="utf-8")
        command = [
            *(sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider"),
            *("-m", "not thorough", "-o", f"pythonpath={ROOT} {source}", *mutant.tests),
        ]
        environment = os.environ | {"REGARD_COMPILE": "1"}  # a copy of src is no source tree, which compiles its kernel
        output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    if output.returncode == 0:
        return None
    failure = re.search(r"^(?:FAILED|ERROR) (\S+)", output.stdout, re.M)
    return failure[1] if failure else (re.findall(r"^__+ (.+?) __+$", output.stdout, re.M) or ["(no test started)"])[0]


def main(names: list[str]) -> int:
    """Print a line for each mutant."""
    survivors = 0
    for mutant in MUTANTS:
        if not names or mutant.name in names:
            killer = find_killer(mutant)
            survivors += killer is None
            print(f"{mutant.name:44} {killer or 'SURVIVES'}", flush=True)
    print(f"\n{survivors} of {len(names) or len(MUTANTS)} survive")
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
