"""A block of a study: replicas that are trained together."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from compool.study import checkpoint
from compool.study.recipe_settings import Recipe


@dataclass(frozen=True)
class Block:
    """Replicas of one method on one data set that are trained together."""

    recipe: Recipe
    seed: int
    replicas: tuple[int, ...]
    folder: Path | None = None
    """The folder of the data set; None: generated, cached, or downloaded."""
    device: str = "cpu"
    variants: tuple[Recipe, ...] = ()
    """The recipe of each replica, if they differ: only in settings that may differ within a training."""
    checkpoint_folder: Path | None = None
    """The folder of checkpoints; None: an interrupted block restarts."""
    epochs_done: int = field(default=0, compare=False)
    """The number of epochs in its checkpoint."""
    keep_weights: bool = True
    """Whether its runs hold the weights of their best epochs."""
    own_source: str = field(default="", compare=False)
    """The source code of a user-defined network."""
    note: str = field(default="", compare=False)
    """How replicas are trained, if not in the usual way."""
    metric: str = field(default="accuracy", compare=False)
    """The metric that picks the epoch, for showing progress."""
    epoch_seconds: float = field(default=0.0, compare=False)
    """A rough estimate; 0 if unknown, as for a user-defined network."""

    @property
    def recipes(self) -> tuple[Recipe, ...]:
        """The recipe of each replica."""
        return self.variants or (self.recipe,) * len(self.replicas)

    @property
    def name(self) -> str:
        """A title that says what is trained."""
        return block_title(self.recipe.dataset, self.recipe.method, [recipe.name for recipe in self.recipes])

    @property
    def members(self) -> checkpoint.Members:
        """The recipe's checksum and the replica of each run."""
        return tuple((recipe.checksum, replica) for recipe, replica in zip(self.recipes, self.replicas, strict=True))

    @property
    def checkpoint(self) -> Path | None:
        """The file of its checkpoint."""
        folder = self.checkpoint_folder
        return None if folder is None else checkpoint.file_of(folder, self.members, self.seed, self.device)

    @property
    def source(self) -> tuple[str, Path | None]:
        """The data set and its folder: equal for blocks that share a data set."""
        return self.recipe.files or self.recipe.dataset, self.folder

    def halves(self) -> tuple["Block", "Block"]:
        """Two blocks with half of the replicas each."""
        middle = len(self.replicas) // 2
        low, high = slice(middle), slice(middle, None)
        return tuple(  # type: ignore[return-value]
            replace(
                self,
                recipe=self.recipes[part][0],
                replicas=self.replicas[part],
                variants=self.variants[part],
                epochs_done=0,
            )
            for part in (low, high)
        )


def block_title(dataset: str, method: str, recipes: Sequence[str]) -> str:
    """A title that says what is trained; the recipe ``fast`` is not mentioned.

    Example:
        >>> block_title("NCI1", "gin", ["fast", "fast"]), block_title("NCI1", "gin", ["a", "b"])
        ('NCI1 gin', 'NCI1 gin, 2 recipes')
    """
    names = list(dict.fromkeys(recipes))
    title = f"{len(names)} recipes" if len(names) > 1 else names[0]
    return f"{dataset} {method}" + ("" if title == "fast" else f", {title}")
