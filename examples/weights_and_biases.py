"""A study that logs to Weights & Biases: a log of your own is a class with two methods.

    pip install wandb
    python examples/weights_and_biases.py --project pooling              # needs `wandb login`
    python examples/weights_and_biases.py --project pooling --offline    # `wandb sync` uploads it later

Each run of the study becomes a run there, grouped by data set, method and recipe. compool itself does not need wandb.
"""

import argparse
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from compool import study


class WandbLog:
    """Passes every epoch on to Weights & Biases."""

    def __init__(self, project: str, folder: Path, offline: bool) -> None:
        self.common = {"project": project, "dir": folder, "mode": "offline" if offline else "online"}
        self.runs: dict[str, Any] = {}

    def on_epoch(self, record: study.EpochRecord) -> None:
        """Log one epoch of one run; the run begins with its first epoch."""
        import wandb

        name, recipe = record.run_name, record.recipe
        if name not in self.runs:
            group = name.rpartition("/seed-")[0]
            self.runs[name] = wandb.init(
                **self.common, name=name, group=group, config=asdict(recipe), reinit="create_new"
            )
        self.runs[name].log(record.scalars, step=record.epoch)
        if record.epoch == recipe.epochs:
            self.runs.pop(name).finish()

    def close(self) -> None:
        """Finish the runs that were interrupted."""
        for run in self.runs.values():
            run.finish()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--project", required=True, help="the project's name")
    parser.add_argument("--offline", action="store_true", help="write files only")
    parser.add_argument("--dataset", default="communities", help="the data set")
    parser.add_argument("--data", type=Path, help="folder with data sets")
    parser.add_argument("--replicas", type=int, default=3, help="number of training runs")
    parser.add_argument("--epochs", type=int, default=10, help="epochs per training run")
    parser.add_argument("--store", type=Path, default=Path("study.sqlite"), help="the study's file")
    arguments = parser.parse_args()
    if find_spec("wandb") is None:
        parser.error("this example needs the package wandb: pip install wandb")
    recipe = study.recipe("component", arguments.dataset, epochs=arguments.epochs)
    plan = study.plan([recipe], arguments.replicas, 0, arguments.store, arguments.data)
    log = WandbLog(arguments.project, arguments.store.parent, arguments.offline)
    with study.LogWriter([log]) as writer:
        for runs in study.execute(plan, arguments.store, on_epoch=writer.epoch):
            print(f"{len(runs)} runs stored, test accuracy {[round(run.test or 0, 3) for run in runs]}")


if __name__ == "__main__":
    main()
