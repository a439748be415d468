"""The data set of a recipe, and its splits."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from compool import data
from compool._words import counted
from compool.data.tu import available
from compool.study.recipe_settings import METHODS, REPLACEMENTS, Recipe


def load_data(recipe: Recipe, folder: Path | None, check_edges: bool = True) -> data.GraphSet:
    """The data set of a recipe.

    Args:
        recipe: the recipe.
        folder: the folder of the data sets; None: generated, cached, or downloaded. A set in the folder comes before a
            generated one of the same name.
        check_edges: check every edge of a cached set again; for a plan, its checksum is enough.
    """
    name = recipe.files or recipe.dataset
    if must_generate(name, folder):
        return data.generate(name)
    return data.load(name, folder, "tu", check_edges=check_edges)


def must_generate(name: str, folder: Path | None) -> bool:
    """Whether a set is generated: it has the name of a generated set, and the folder has no set of this name.

    Example:
        >>> folder = getfixture("tmp_path")
        >>> must_generate("communities", None), must_generate("communities", folder), must_generate("NCI1", folder)
        (True, True, False)
        >>> data.communities(9).save(folder / "communities.npz")
        >>> must_generate("communities", folder)
        False
    """
    return data.is_generated(name) and (folder is None or name not in available(folder))


def describe_data(recipe: Recipe, graphs: data.GraphSet) -> str:
    """Describe a data set and how a recipe uses it, on one line.

    Example:
        >>> from compool.study import recipe
        >>> describe_data(recipe("gin", "communities"), data.communities(9))
        'communities: 9 graphs, 3 classes; 4 node features from labels'
    """
    chosen, summary = data.features(graphs, recipe.features), graphs.summary
    name = recipe.dataset if graphs.name == recipe.dataset else f"{recipe.dataset} (the set {graphs.name})"
    auto = " (features=auto)" if recipe.features == "auto" else ""
    kinds = [("node_attributes", "attributes"), ("node_labels", "labels")]
    if recipe.method in (*METHODS, *REPLACEMENTS):
        kinds += [("edge_attributes", ""), ("edge_labels", "")]
    unused = [f"{summary[key]} {key.replace('_', ' ')}" for key, kind in kinds if summary[key] and kind != chosen.kind]
    sizes = counted(len(graphs), "graph"), counted(chosen.width, "node feature")
    return f"{name}: {sizes[0]}, {graphs.target_text}; {sizes[1]} from {chosen.kind}{auto}" + (
        f"; not used: {', '.join(unused)}" if unused else ""
    )


def splits(recipe: Recipe, graphs: data.GraphSet, seed: int, replicas: Sequence[int]) -> list[data.Split]:
    """The split of each replica: drawn, or from the recipe's file or folder, where replica 0 has the first."""
    if recipe.splits in data.SPLIT_KINDS:
        return [data.split(graphs, replica, seed, recipe.splits) for replica in replicas]
    path = Path(recipe.splits)
    if not path.exists():
        raise ValueError(
            f"splits must be {', '.join(data.SPLIT_KINDS)}, or a file or folder of splits; {path} does not exist"
        )
    given = data.read_splits(path, graphs, seed)
    if max(replicas) >= len(given):
        raise ValueError(
            f"{path} has {counted(len(given), 'split')}: --replicas must be at most {len(given)}; "
            f"got {max(replicas) + 1}"
        )
    return [given[replica] for replica in replicas]


def splits_checksum(recipe: Recipe) -> str:
    """Sixteen hexadecimal digits that change with the contents of the recipe's file or folder of splits; empty if
    splits are drawn.
    """
    if recipe.splits in data.SPLIT_KINDS:
        return ""
    path, digest = Path(recipe.splits), hashlib.sha256()
    for file in sorted(path.glob("*_idx-*.txt")) if path.is_dir() else [path]:
        content = file.read_bytes()
        digest.update(f"{file.name if path.is_dir() else ''} {len(content)} ".encode() + content)
    return digest.hexdigest()[:16]
