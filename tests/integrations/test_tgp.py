"""The pooler for torch-geometric-pool, against tgp itself where it is installed."""

import doctest
import warnings

import pytest
import torch
from torch_geometric.nn import GCNConv

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    poolers = pytest.importorskip("tgp.poolers", reason="needs torch-geometric-pool", exc_type=ImportError)

from tgp.src import SRCPooling

import compool.integrations.tgp
from tests.graphs import random_graph

pytestmark = pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")  # tgp's tensors
SETTINGS = [{}, {"symmetric": True}, {"ratio": 0.5}, {"quantile": 0.5}, {"max_size": 3}, {"score": "sigmoid"}]


def example() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    edge_index = torch.cat([random_graph(20, 30), random_graph(15, 25) + 20], dim=1)
    edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1).unique(dim=1)
    return torch.randn(35, 8), edge_index, torch.arange(35) // 20


@pytest.mark.parametrize("settings", SETTINGS)
def test_equals_the_layer(settings: dict[str, object]) -> None:
    x, edge_index, batch = example()
    pooler, layer = compool.integrations.tgp.ComponentPooler(8, **settings), compool.ComponentPooling(8, **settings)
    layer.load_state_dict(pooler.selector.pool.state_dict())
    ours_x, theirs_x = x.clone().requires_grad_(), x.clone().requires_grad_()
    ours, theirs = pooler(x=ours_x, adj=edge_index, batch=batch), layer(theirs_x, edge_index, batch)
    torch.testing.assert_close(ours.x, theirs.x)
    assert torch.equal(ours.edge_index, theirs.edge_index)
    assert torch.equal(ours.batch, theirs.batch)
    assert torch.equal(ours.so.cluster_index, theirs.cluster)
    torch.testing.assert_close(pooler(x=ours.x, so=ours.so, lifting=True), theirs.unpool(theirs.x))
    factor = torch.randn_like(theirs.x)
    (ours.x * factor).sum().backward()
    (theirs.x * factor).sum().backward()
    torch.testing.assert_close(ours_x.grad, theirs_x.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(pooler.selector.pool.lin.weight.grad, layer.lin.weight.grad, rtol=1e-4, atol=1e-5)


def test_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    """What tgp asks of its own poolers: made by name, with arguments of others; pooled, convolved, lifted, reset."""
    monkeypatch.setitem(poolers.pooler_map, "component", compool.integrations.tgp.ComponentPooler)
    pooler = poolers.get_pooler("component", in_channels=8, ratio=0.5, k=5, lift="precomputed", loss_coeff=1.0)
    assert isinstance(pooler, SRCPooling)
    assert pooler.is_sparse
    assert pooler.is_trainable
    assert not pooler.has_loss
    assert not pooler.is_precoarsenable
    x, edge_index, batch = example()
    weight = torch.ones(edge_index.size(1))
    before = pooler.preprocessing(edge_index=edge_index, edge_weight=weight, x=x, batch=batch, use_cache=False)
    out = pooler(x=before[0], adj=before[1], edge_weight=weight, batch=batch, mask=before[2])
    assert out.so.num_nodes == 35
    assert out.so.num_supernodes == out.x.size(0) <= 18 + 10
    assert out.edge_weight.shape == (out.edge_index.size(1),)
    assert out.edge_weight.sum() <= weight.sum()
    assert out.as_data().num_nodes == out.x.size(0)
    convolved = GCNConv(8, 4)(out.x, out.edge_index, out.edge_weight)
    assert pooler(x=convolved, so=out.so, lifting=True).shape == (35, 4)
    assert "ComponentSelect(8" in repr(pooler)
    assert "ratio=0.5" in repr(pooler)
    old = pooler.selector.pool.lin.weight.clone()
    pooler.reset_parameters()
    assert not torch.equal(old, pooler.selector.pool.lin.weight)
    assert {"x", "adj", "edge_weight", "so", "batch", "lifting"} <= set(pooler.get_forward_signature().args)


def test_a_sparse_matrix_in_is_one_out() -> None:
    x, edge_index, batch = example()
    matrix = torch.sparse_coo_tensor(edge_index, torch.ones(edge_index.size(1)), (35, 35)).coalesce()
    pooler = compool.integrations.tgp.ComponentPooler(8)
    out, plain = pooler(x=x, adj=matrix, batch=batch), pooler(x=x, adj=edge_index, batch=batch)
    assert out.edge_index.is_sparse
    assert torch.equal(out.edge_index.coalesce().indices(), plain.edge_index)


def test_weights_of_all_edges_are_no_assignment() -> None:
    with pytest.raises(ValueError, match="weights must be 'merged' in a tgp pooler, got 'all'"):
        compool.integrations.tgp.ComponentSelect(8, weights="all")


def test_the_example_runs() -> None:
    assert doctest.testmod(compool.integrations.tgp).failed == 0
