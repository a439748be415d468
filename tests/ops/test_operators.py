"""What torch asks of registered operators."""

import torch

from compool.ops import _torch
from compool.replicas.kernels import _torch as replica_kernels
from tests.graphs import random_graph


def test_registered_operators_keep_the_rules_of_torch() -> None:
    """Schemas, and shapes and strides as the tracing functions say; with transposed features."""
    edge_index = random_graph(20, 30)
    x, score, grad = torch.randn(5, 20).t(), torch.randn(30), torch.randn(5, 20).t()
    merged = score > 0.5
    parts = torch.ops.compool.components(edge_index, merged, 20)
    weight, number = torch.randn(20), parts[1].numel()
    tree = edge_index[:, torch.ops.compool.forest(score, edge_index, None, 20)]
    tree_ptr = torch.tensor([0, tree.size(1) - 2])  # the last two are padding
    merges = (*torch.ops.compool.merge_tree(tree, 20, tree_ptr), tree_ptr)
    pairs, rows = torch.tensor([[0, 1], [1, 0]]), torch.tensor([0, 1] + 19 * [2])
    ptr, thirds = torch.linspace(0, 30, 21).long(), torch.tensor([0, 5, 5, 20])
    calls = {
        "node_ends": (x, torch.randn(2, 5)),
        "node_ends_backward": (torch.randn(2, 20), x, torch.randn(2, 5), grad),
        "score": (torch.randn(2, 20), edge_index, torch.ones(1)),
        "sum_ends": (score, edge_index, 20),
        "softmax_ends": (torch.randn(2, 20), pairs, rows),
        "softmax_ends_backward": (score[:2], score[2:4], pairs, rows),
        "select": (score, edge_index, 20, 0.1, torch.zeros(20).long()),
        "components": (edge_index, merged, 20),
        "coarsen_padded": (score[:2], pairs, rows, 0.1, False, 2),
        "coarsen": (score, edge_index, 20, 0.1, torch.zeros(20).int(), False),
        "row_sum": (x, score, edge_index[0], parts[0][edge_index[1]], number, None),
        "row_sum_backward": (grad[:number], x, score, edge_index[0], parts[0][edge_index[1]]),
        "top": (score, edge_index, merged, torch.zeros(20).long(), 0.5),
        "ratio": (score, edge_index, merged, 20, None, 0.5),
        "forest": (score, edge_index, None, 20),
        "capped_forest": (score, edge_index, merged, 20, 3),
        "edge_distance": (x, edge_index, torch.rand(1, 5), None),
        "edge_distance_backward": (score, x, edge_index, torch.rand(2, 5), torch.arange(20) % 2, torch.zeros_like(x)),
        "edge_moments": (x, edge_index, merged, None, 1),
        "observe": (x, edge_index, torch.randn(5), torch.ones(5), torch.ones(1), torch.tensor(3)),
        "merge_tree": (tree, 20, tree_ptr),
        "graded_share": (torch.linspace(1, 0, tree.size(1)), *merges, 1.0),
        "graded_share_backward": (weight, *merges),
        "forest_padded": (score[:2], pairs, rows, 2),
        "connect": (edge_index, parts[0], number, False, False),
        "contract": (score, edge_index, 20),
        "contract_padded": (score[:2], pairs, rows, torch.tensor([0, 2, 20]), 2),
        "merge_pairs": (x, weight, torch.arange(20) // 2),
        "merge_pairs_backward": (grad, x, weight, torch.arange(20) // 2),
        "pool": (x, torch.randn(2, 5), torch.ones(1), score, edge_index, None, "hardtanh", 0.1, False, None),
        "pool_backward": (grad[:number], None, x, x[:2], edge_index, score, parts[0], merged, weight, "hardtanh", True),
        "propagate": (x, ptr, edge_index[1], weight, None, weight),
        "grouped_linear": (x, torch.randn(3, 5, 4).transpose(1, 2), torch.randn(3, 4), thirds),
        "linear_activate": (x, torch.randn(3, 4, 5), None, x[:3, :4], thirds, torch.arange(3), torch.full((3,), 0.5)),
        "grouped_outer": (x, grad, thirds, True),
        "segment_sum": (x, thirds),
        "segment_norm": (x, x[:3], x[3:6], thirds, 0.01, True),
        "segment_norm_backward": (grad, x, x, x[:3], x[3:6], x[6:9] ** 2, thirds, 0.01, True),
        "segment_repeat": (x[:3], thirds, 20),
        "gather_graphs": (torch.tensor([2, -1, 0]), thirds, ptr[thirds], ptr, edge_index, -1, -1),
        "fold_key": (torch.arange(3), torch.tensor(7), 0),
        "drop": (x, thirds, torch.arange(3), torch.full((3,), 0.5)),
        "activate": (x, x[:3], thirds, torch.arange(3), torch.full((3,), 0.5)),
        "activate_backward": (grad, x, thirds, None),
    }
    fields = {*_torch.KERNELS._fields, *replica_kernels.KERNELS._fields}
    assert set(calls) == fields
    tests = ("test_schema", "test_faketensor")
    for name, args in calls.items():
        torch.library.opcheck(getattr(torch.ops.compool, name).default, args, test_utils=tests)
