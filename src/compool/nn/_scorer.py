"""The learnable part of component pooling: a score for every edge."""

import inspect
from collections.abc import Callable

import torch
from torch import Tensor

from compool import ops
from compool.nn._settings import SCORERS, Score, activation, default_score
from compool.nn._unsupported import refuse_script
from compool.nn.random_score import RandomScore
from compool.nn.similarity import Similarity
from compool.ops._checks import check_activated, check_graphs, check_range
from compool.ops.score import score_and_pass

Scorer = str | torch.nn.Module
SIMILARITY_BIAS = 1.0  # initially, edges merge whose distance is below the mean plus one standard deviation


def check_call(scorer: torch.nn.Module) -> None:
    """Require a scorer to take three arguments."""
    try:
        signature = inspect.signature(scorer.forward)
    except ValueError:  # not written in Python
        return
    try:
        signature.bind(None, None, None)
    except TypeError:
        raise TypeError(
            "scorer is called as scorer(x_source, x_target, edge_attr), but the forward method of "
            f"{type(scorer).__name__} takes {signature}"
        ) from None


class EdgeScorer(torch.nn.Module):
    """Base class of the layers that score edges: :math:`S_{ij} = σ(ψ(x_i, x_j, e_{ij}) + b)`."""

    def __init__(
        self,
        in_channels: int,
        score: Score | None,
        symmetric: bool,
        edge_dim: int | None,
        scorer: Scorer = "linear",
    ) -> None:
        super().__init__()
        if not isinstance(in_channels, int) or in_channels < 1:
            raise ValueError(f"in_channels must be a whole number, at least 1; got {in_channels!r}")
        if edge_dim is not None and (not isinstance(edge_dim, int) or edge_dim < 1):
            raise ValueError(f"edge_dim must be a whole number, at least 1; got {edge_dim!r}")
        if scorer not in SCORERS and not isinstance(scorer, torch.nn.Module):
            raise ValueError(f"scorer must be {', '.join(map(repr, SCORERS))} or a torch.nn.Module; got {scorer!r}")
        if isinstance(scorer, torch.nn.Module):
            check_call(scorer)
        if symmetric and isinstance(scorer, torch.nn.Module):
            raise ValueError(
                "symmetric=True is for the linear scorer; a module is symmetric if it treats both ends alike"
            )
        score = default_score(scorer) if score is None else score
        activation(score)  # raises an error for an unknown name
        self.in_channels, self.score, self.edge_dim = in_channels, score, edge_dim
        self.symmetric = symmetric or scorer in ("similarity", "random")
        self.scorer = scorer if isinstance(scorer, torch.nn.Module) else None
        self.lin_edge: torch.nn.Linear | None = None
        self.similarity: Similarity | None = None
        self.random = RandomScore() if scorer == "random" else None
        if self.scorer is not None or self.random is not None:
            return
        self.lin = torch.nn.Linear(2 * in_channels, 1)
        if scorer == "similarity":
            self.similarity = Similarity(in_channels)
        if edge_dim is not None:
            self.lin_edge = torch.nn.Linear(edge_dim, 1, bias=False)
        if edge_dim is not None or self.similarity is not None:
            self.reset_parameters()

    __prepare_scriptable__ = refuse_script

    @property
    def activation(self) -> Callable[[Tensor], Tensor]:
        r"""The function :math:`\sigma`."""
        return activation(self.score)

    @property
    def scorer_name(self) -> str:
        """``"linear"``, ``"similarity"``, ``"random"``, or the name of the scorer's class."""
        if self.scorer is not None:
            return type(self.scorer).__name__
        return "random" if self.random is not None else "linear" if self.similarity is None else "similarity"

    def reset_parameters(self) -> None:
        """Reinitialise the weights of the scorer."""
        if self.random is not None:
            self.random.reset_parameters()
            return
        if self.scorer is not None:
            for module in self.scorer.modules():
                if callable(reset := getattr(module, "reset_parameters", None)):
                    reset()
            return
        self.lin.reset_parameters()
        if self.lin_edge is not None:  # initialise as one linear layer over the features of both ends and the edge
            bound = (2 * self.in_channels + self.lin_edge.in_features) ** -0.5
            for parameter in (*self.lin.parameters(), *self.lin_edge.parameters()):
                torch.nn.init.uniform_(parameter, -bound, bound)
        if self.similarity is not None:
            self.similarity.reset_parameters()
            torch.nn.init.zeros_(self.lin.weight)
            torch.nn.init.constant_(self.lin.bias, SIMILARITY_BIAS)

    def _weight(self, x: Tensor) -> Tensor:
        """The weight whose dtype and device the features must match; `x` itself if the scorer has no weight."""
        return x if self.scorer is not None or self.random is not None else self.lin.weight

    def _check_before_observing(self, x: Tensor, edge_index: Tensor, batch: Tensor | None) -> None:
        """Check indices before the running statistics of similarity change; a GPU checks them while it coarsens."""
        if self.training and not x.is_cuda and not torch.compiler.is_compiling():
            check_range(edge_index, x.size(0))
            check_graphs(batch, edge_index)

    def _score(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        dropout: float = 0.0,
        batch: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The edge scores [E], and the `x` that merging must use: see `ops.score.score_and_pass`."""
        if self.random is not None:
            return self.random(x, edge_index, batch), x
        if self.scorer is not None:
            return self._score_by_module(self.scorer, x, edge_index, edge_attr, dropout), x
        term = None
        if self.lin_edge is not None and edge_attr is not None:
            term = ops.score_edges(edge_attr, edge_index, self.lin_edge.weight, x.size(0), self.symmetric)
        if self.similarity is not None:
            self._check_before_observing(x, edge_index, batch)
            similarity_term, x = self.similarity.term_and_pass(x, edge_index)
            term = similarity_term if term is None else term + similarity_term
        scorer = (self.lin.weight, self.lin.bias, self.activation)
        return score_and_pass(x, edge_index, *scorer, dropout, self.symmetric, term)

    def _score_by_module(
        self, scorer: torch.nn.Module, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, dropout: float
    ) -> Tensor:
        if not torch.compiler.is_compiling():
            check_range(edge_index, x.size(0))
        raw = scorer(x[edge_index[0]], x[edge_index[1]], edge_attr)
        if isinstance(raw, Tensor) and raw.dim() == 2 and raw.size(1) == 1:
            raw = raw.squeeze(1)
        check_activated(raw, x[:, 0][edge_index[0]], "scorer")
        raw = torch.nn.functional.dropout(raw, dropout) if dropout else raw
        return self.activation(raw.to(torch.promote_types(x.dtype, torch.float32)))
