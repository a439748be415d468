import os
import sys
from dataclasses import MISSING, asdict, fields, replace
from pathlib import Path
from types import ModuleType

import pytest

from compool.data import features, load
from compool.study import METHODS, Recipe, recipe, recipes, variants
from compool.study.recipe_settings import IMPLIED

# Parameters as the paper counts them; IMDB with the feature widths of its released code
PAPER = {
    "component": {
        "PROTEINS": 802,
        "REDDIT-BINARY": 83_459,
        "REDDIT-MULTI-12K": 333_325,
        "COLLAB": 12_996,
        "IMDB-BINARY": 18_498,
        "IMDB-MULTI": 62_468,
        "NCI1": 38_274,
        "REDDIT-MULTI-5K": 83_975,
    },
    "edgepool": {"PROTEINS": 156_291, "REDDIT-BINARY": 149_123, "REDDIT-MULTI-12K": 595_725, "COLLAB": 243_077},
    "gin": {
        "PROTEINS": 2_742,
        "REDDIT-BINARY": 30_538,
        "COLLAB": 55_584,
        "IMDB-BINARY": 65_638,
        "IMDB-MULTI": 54_646,
        "NCI1": 9_294,
        "REDDIT-MULTI-5K": 31_586,
    },
}


@pytest.mark.parametrize(("method", "dataset"), [(method, dataset) for method in PAPER for dataset in PAPER[method]])
def test_parameters_are_the_paper_s(method: str, dataset: str) -> None:
    assert recipe(method, dataset, "paper").parameters == PAPER[method][dataset]


def test_the_paper_counts_nineteen() -> None:
    assert sum(map(len, PAPER.values())) == 19


def test_every_method_has_both_recipes_of_every_set() -> None:
    found = {(one.method, one.dataset, one.name) for one in recipes()}
    every = [*PAPER["component"], "communities"]
    both = {(method, dataset, name) for method in METHODS for dataset in every for name in ("fast", "paper")}
    every += [f"color-connectivity-{topology}" for topology in ("16", "32", "euroroad", "minnesota")]
    both |= {("component", dataset, name) for dataset in every for name in ("fast", "paper", "learned")}
    assert found == both | {("component", "NCI1", "tuned"), ("component", "PROTEINS", "tuned")}


def test_the_paper_s_settings() -> None:
    """A few of Table 2; the batch is that of its code."""
    one = recipe("component", "REDDIT-MULTI-12K", "paper")
    assert (one.layers, one.hidden, one.epochs, one.lr, one.halve) == ("CCPCCPCLL", 256, 200, 2.5e-4, 55)
    assert (one.batch, one.dropout, one.weight_decay, one.optimizer) == (1, 0.025, 0.01, "adamw")
    gin = recipe("gin", "PROTEINS", "paper")
    assert (gin.batch, gin.lr, gin.readout, gin.optimizer, gin.dropout) == (32, 0.01, "sum", "adam", 0.5)
    assert recipe("edgepool", "REDDIT-MULTI-12K", "paper").lr == 2.5e-4
    assert recipe("component", "IMDB-MULTI", "paper").features == "released"
    assert recipe("component", "IMDB-MULTI").features == "degree"


def test_fast_batches_and_scales_the_learning_rate() -> None:
    for method in ("component", "edgepool"):
        for dataset in PAPER["component"]:
            paper, fast = recipe(method, dataset, "paper"), recipe(method, dataset)
            assert paper.batch == 1
            assert fast.batch in (32, 64)
            assert fast.lr >= paper.lr
            assert (fast.layers, fast.hidden, fast.epochs) == (paper.layers, paper.hidden, paper.epochs)


@pytest.mark.usefixtures("parsed_sets")
@pytest.mark.parametrize("dataset", PAPER["component"])
def test_features_and_classes_are_those_of_the_data(dataset: str) -> None:
    data = Path(os.environ.get("COMPOOL_DATA", "nowhere"))
    fast = recipe("component", dataset)
    if not (data / f"{fast.files or dataset}.zip").exists():
        pytest.skip(f"no {fast.files or dataset}.zip in COMPOOL_DATA")
    graphs = load(fast.files or dataset, data)
    for method in METHODS:
        for name in ("fast", "paper"):
            one = recipe(method, dataset, name)
            assert features(graphs, one.features).width == one.in_channels, (method, name)
            assert graphs.num_classes == one.num_classes


def test_a_set_without_a_recipe_gets_the_defaults() -> None:
    one = recipe("component", "MUTAG")
    assert (one.layers, one.features, one.in_channels, one.parameters) == ("CPCL", "auto", None, None)
    assert one.network(7, 2).settings.in_channels == 7
    with pytest.raises(ValueError, match="MUTAG has no built-in recipe: give in_channels and num_classes"):
        one.network()


def test_by_the_name_of_the_tu_collection() -> None:
    assert recipe("gin", "PROTEINS_full") == recipe("gin", "PROTEINS")


def test_changes_and_files(tmp_path: Path) -> None:
    one, other = recipe("component", "NCI1"), recipe("component", "NCI1", lr=0.1)
    assert other.lr == 0.1
    assert one.checksum != other.checksum
    assert one.checksum == recipe("component", "NCI1").checksum
    path = tmp_path / "mine.toml"
    path.write_text('hidden = 5\nreadout = "sum"\n')
    mine = recipe("component", "NCI1", str(path))
    assert (mine.name, mine.hidden, mine.readout, mine.batch) == ("mine", 5, "sum", one.batch)
    path.write_text("colour = 5\n")
    with pytest.raises(ValueError, match=r"mine\.toml has an unknown setting, 'colour'; known settings: batch"):
        recipe("component", "NCI1", str(path))
    path.write_text("hidden = ")
    with pytest.raises(ValueError, match=r"mine\.toml is not valid TOML"):
        recipe("component", "NCI1", str(path))
    with pytest.raises(FileNotFoundError, match=r"recipe file .* does not exist"):
        recipe("component", "NCI1", str(tmp_path / "other.toml"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"method": "magic"},
            "method must be one of component, edgepool, gin, none, topk, sag, edge, random, or FILE.py:CLASS; got",
        ),
        ({"name": "slow"}, "component on NCI1 has no recipe 'slow'; its recipes are fast, learned, paper, tuned"),
        ({"optimizer": "rmsprop"}, "optimizer must be one of adam, adamw, sgd; got 'rmsprop'"),
        ({"batch": 0}, "batch must be a whole number from 1 to 1,000,000,000, got 0"),
        ({"patience": 10**20}, "patience must be a whole number from 0 to 1,000,000,000, got 100000000000000000000"),
        ({"epochs": 10**9 + 1}, "epochs must be a whole number from 1 to 1,000,000,000, got 1000000001"),
        ({"lr": 0}, "lr must be above"),
        ({"lr": float("nan")}, "lr must be a finite number, got nan"),
        ({"clip": float("inf")}, "clip must be a finite number, got inf"),
        ({"threshold": -float("inf")}, "threshold must be a finite number, got -inf"),
    ],
)
def test_wrong_arguments(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recipe(**{"method": "component", "dataset": "NCI1"} | arguments)


def test_settings_at_their_defaults_do_not_change_the_checksum() -> None:
    one = recipe("component", "NCI1")
    assert recipe("component", "NCI1", ratio=0.5, jump=False).checksum == one.checksum
    assert recipe("component", "NCI1", jump=True).checksum != one.checksum
    assert one.checksum == "8d1db5b9797ffb8f"  # runs that are stored are found by it


def test_a_default_that_is_changed_makes_other_recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module of a later version: its recipes differ from the old ones, unless they set what was the default."""
    later = ModuleType("later_recipe")
    monkeypatch.setitem(sys.modules, later.__name__, later)
    source = Path(sys.modules[Recipe.__module__].__file__ or "").read_text(encoding="utf-8")
    changed = source.replace("ratio: float = 0.5", "ratio: float = 0.6").replace(
        "shuffle: bool = True", "shuffle: bool = False"
    )
    changed = changed.replace("    jump: bool = False\n", "    jump: bool = False\n    rounds: int = 1\n")
    changed = changed.replace('"jump": False,', '"jump": False, "rounds": 1,')
    exec(compile(changed, later.__name__, "exec"), vars(later))
    old = recipe("topk", "NCI1")
    from_file = {key: value for key, value in asdict(old).items() if key not in ("ratio", "shuffle")}
    new = later.Recipe(**from_file)
    assert (new.ratio, new.shuffle, new.rounds) == (0.6, False, 1)
    assert new.checksum != old.checksum
    assert later.Recipe(**from_file, ratio=0.5).checksum != old.checksum
    assert later.Recipe(**from_file, ratio=0.5, shuffle=True).checksum == old.checksum
    stored = {key: value for key, value in asdict(old).items() if key not in ("ratio", "shuffle", "rounds")}
    assert later.Recipe(**later.IMPLIED | stored).checksum == old.checksum  # a run that is older than these settings


def test_every_setting_with_a_default_is_implied() -> None:
    """Else a new setting would make all old runs those of other recipes."""
    assert [field.name for field in fields(Recipe) if field.default is not MISSING] == list(IMPLIED)


@pytest.mark.parametrize("setting", ["lr", "speed=3", "lr=fast", "=3"])
def test_settings_that_are_none(setting: str) -> None:
    with pytest.raises(ValueError, match=r"NAME=VALUE|is not a setting|lr must be a number"):
        variants("component", "NCI1", settings=[setting])


def test_the_same_network_with_another_pooling() -> None:
    layers = {method: recipe(method, "REDDIT-BINARY").layers for method in ("component", "none", "topk", "sag", "edge")}
    assert layers == {
        "component": "CCPCCPCLL",
        "none": "CCCCCLL",
        "topk": "CCTCCTCLL",
        "sag": "CCACCACLL",
        "edge": "CCECCECLL",
    }
    one, other = recipe("component", "NCI1"), recipe("topk", "NCI1")
    assert (other.method, other.lr, other.hidden) == ("topk", one.lr, one.hidden)
    assert one.checksum != other.checksum


def test_random_merges_at_the_share_of_the_trained_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"random needs merge_ratio, .*--set merge_ratio=0\.4, or \[fast\.random\]"):
        recipe("random", "NCI1")
    one, other = recipe("component", "NCI1"), recipe("random", "NCI1", merge_ratio=0.4)
    assert (other.method, other.layers, other.scorer, other.reduce) == ("random", one.layers, "random", "sum")
    assert other.network().settings.merge_ratio == 0.4
    learned = {"scorer": "similarity", "reduce": "graded", "threshold": 0.2, "symmetric": True, "merge_ratio": 0.3}
    control = recipe("random", "NCI1", **learned)
    assert (control.reduce, control.threshold, control.symmetric, control.quantile) == ("mean", None, False, None)
    assert control.network().layers[1].random is not None
    assert variants("random", "NCI1", settings=["merge_ratio=0.4"])[0].name == "fast merge_ratio=0.4"
    with pytest.raises(ValueError, match="threshold has no effect on random with NCI1"):
        variants("random", "NCI1", settings=["merge_ratio=0.4", "threshold=0.1"])

    folder = tmp_path / "component"
    folder.mkdir()
    text = 'layers = "CPL"\nhidden = 4\nfeatures = "auto"\nreadout = "mean"\ndropout = 0.1\noptimizer = "adam"\n'
    text += "epochs = 3\nbatch = 8\nlr = 0.1\nhalve = 9\nweight_decay = 0\n"
    text += '[mild]\nlr = 0.2\nscorer = "similarity"\nreduce = "mean"\n[mild.random]\nmerge_ratio = 0.7\nlr = 0.3\n'
    (folder / "default.toml").write_text(text)
    monkeypatch.setattr("compool.study.recipe_files._FOLDER", tmp_path)
    trained, drawn = recipe("component", "X", "mild"), recipe("random", "X", "mild")
    assert (trained.lr, trained.merge_ratio, trained.scorer) == (0.2, None, "similarity")
    assert (drawn.lr, drawn.merge_ratio, drawn.reduce) == (0.3, 0.7, "mean")
    assert recipe("random", "X", "mild", merge_ratio=0.5).merge_ratio == 0.5
    assert recipe("none", "X", "mild").lr == 0.2


def test_a_file_s_name_may_not_be_a_recipe_s(tmp_path: Path) -> None:
    for name, text in (("paper", ""), ("mine", "")):
        (tmp_path / f"{name}.toml").write_text(text)
    with pytest.raises(ValueError, match=r"rename paper\.toml: paper is already the name of a built-in recipe"):
        recipe("component", "NCI1", str(tmp_path / "paper.toml"))
    mine = recipe("component", "NCI1", str(tmp_path / "mine.toml"))
    assert replace(mine, name="fast") == recipe("component", "NCI1")


def test_zero_is_zero() -> None:
    one, two = (recipe("component", "NCI1", weight_decay=zero) for zero in (0, 0.0))
    assert one.checksum == two.checksum


@pytest.mark.parametrize(
    ("method", "setting", "layers"),
    [
        ("component", "ratio=0.2", "CPCLL"),
        ("topk", "threshold=0.3", "CTCLL"),
        ("gin", "symmetric=true", "GIN"),
        ("gin", "jump=true", "GIN"),
    ],
)
def test_settings_that_would_change_nothing(method: str, setting: str, layers: str) -> None:
    with pytest.raises(ValueError, match=f"has no effect on {method} with NCI1: its layers are {layers}"):
        variants(method, "NCI1", settings=[setting])
    assert variants("topk", "NCI1", settings=["ratio=0.2"])[0].ratio == 0.2
