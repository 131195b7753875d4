"""The recipe `few-shot` on Omniglot, 5-way 1-shot and 5-shot, beside nearest pixels and a prototypical network on the
same episodes of the same alphabets.

`python -m benchmarks.few_shot FILE.npz [SHOTS...]`, by default 1 and 5, three seeds each.

Both are scored after their last update. The prototypical network has fewer of them, which it does not need, and a rate
of its own.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from einops import rearrange
from torch import Tensor, nn

from benchmarks import report
from regard.models.snail import ImageCode, prototype_logits
from regard.runs.load import load
from regard.tasks.few_shot.data import FewShot
from regard.tasks.few_shot.run import EpisodeBatch, FewShotObjective, FewShotRun, Pool, iterate_episodes, read_pool
from regard.training.devices import supports_bf16_products
from regard.training.schedules import rate
from regard.training.update import build_optimizer

SEEDS = 1, 2, 3
SETTINGS = {1: [], 5: ["training.batch_tokens=384", "training.steps=4000"]}
"""12 episodes of 30 images, rounded up to 32."""
PROTOTYPES = {"steps": 2_000, "learning_rate": 2e-3}
"""What the training of the prototypical network has in place of SNAIL's."""
Answer = Callable[[EpisodeBatch], Tensor]
"""A batch of episodes -> the predicted class of each."""


def nearest_pixels(batch: EpisodeBatch) -> Tensor:
    """The class of the example whose pixels are nearest."""
    flat = rearrange(batch.images, "b t c h w -> b t (c h w)")
    distances = (flat[:, None, :-1] - flat[:, -1:, None]).square().sum(-1)
    return batch.labels.gather(1, distances.argmin(-1))


class Prototypes(nn.Module):
    """A prototypical network on the convolutions that SNAIL has."""

    def __init__(self, config: FewShot):
        super().__init__()
        model, self.ways = config.model, config.data.ways
        self.code = ImageCode(model.side, model.channels, model.code_filters, model.width)

    def forward(self, batch: EpisodeBatch) -> Tensor:
        """Logits `(batch, query, way)`."""
        codes = self.code(rearrange(batch.images, "b t c h w -> (b t) c h w"))
        codes = rearrange(codes, "(b t) d -> b t d", b=len(batch.images))
        support = batch.labels.shape[1]
        return prototype_logits(codes[:, :support], batch.labels, codes[:, support:], self.ways)


def train_prototypes(config: FewShot, train: Pool) -> Prototypes:
    """On the episodes that SNAIL learns from first, in the same order, with the same optimizer and precision."""
    settings = replace(config.training, **PROTOTYPES)
    torch.manual_seed(settings.seed)
    model, task = Prototypes(config), FewShotObjective(train, train, config)
    optimizer, update, epoch = build_optimizer(model, settings), 0, 0
    half = supports_bf16_products("cpu")
    while update < settings.steps:
        for indices in task.batches(epoch)[: settings.steps - update]:
            update += 1
            batch = task.batch(epoch, indices)
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                logits = model(batch)
            nn.functional.cross_entropy(logits.float().flatten(0, 1), batch.classes.flatten()).backward()
            nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
            for group in optimizer.param_groups:
                group["lr"] = rate(settings, update)
            optimizer.step()
        epoch += 1
    return model.eval()


@torch.no_grad()
def accuracy(answer: Answer, images: Pool, config: FewShot) -> float:
    """In per cent, on the episodes that the run is tested on."""
    count, right = config.data.test_episodes, 0
    for batch in iterate_episodes(images, config, count, f"{config.data.seed}/measured"):
        right += int((answer(batch) == batch.classes).sum())
    return 100 * right / count


def measure(file: str, shots: int, seed: int) -> dict[str, Any]:
    """All three on one seed; SNAIL's run is trained if it is not in runs/."""
    settings = [f"data.train={file}", f"data.shots={shots}", *SETTINGS[shots]]
    settings += [f"training.seed={seed}", "training.threads=1"]
    folder = report.trained("few-shot", f"few-shot-{shots}-{seed}", settings)
    run = load(folder, "cpu", task=FewShotRun)
    classes = run.config.data.load()
    train, test = read_pool(classes.train, run.config), read_pool(classes.test, run.config)
    torch.set_num_threads(1)
    prototypes = train_prototypes(run.config, train)
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    return {
        "shots": shots,
        "seed": seed,
        "snail": result["test/accuracy"],
        "prototypes": accuracy(lambda batch: prototypes(batch).argmax(-1), test, run.config),
        "pixels": accuracy(nearest_pixels, test, run.config),
        "seconds": result["seconds"],
    }


def main(file: str, *shots: str) -> None:
    """Trains what is missing, then prints the table."""
    report.head("shots", "seed", "SNAIL", "prototypical network", "nearest pixels", "training seconds of SNAIL")
    rows = []
    for count in map(int, shots or ("1", "5")):
        for seed in SEEDS:
            row = measure(str(Path(file).resolve()), count, seed)
            shares = [f"{row[name]:.1f} %" for name in ("snail", "prototypes", "pixels")]
            report.row(count, seed, *shares, f"{row['seconds']:.0f}")
            rows.append(row)
    if not shots:
        report.write("few_shot", rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
