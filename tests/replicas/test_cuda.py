"""Stacks on a GPU against stacks on the CPU, dropout included. `make test-gpu` runs these where there is one."""

import pytest
import torch

from compool import ops, replicas
from compool.data import features
from compool.replicas import Graphs
from tests.replicas.batches import graph_set
from tests.replicas.test_stack import NETWORKS, WHICH

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("kind", ["attributes", "labels", "one"])
@pytest.mark.parametrize("name", NETWORKS)
def test_equals_the_cpu(name: str, kind: str) -> None:
    graphs = graph_set()
    chosen = features(graphs, kind)
    networks = [NETWORKS[name](chosen.width) for _ in WHICH]
    for network in networks:
        network.dropout = 0.3
    results = []
    for device in ("cpu", "cuda"):
        stack = replicas.stack(networks).double().to(device)
        ids, keys = torch.tensor(WHICH, device=device), torch.tensor([1, 2, 3], device=device)
        x, union = Graphs(graphs, chosen, device, torch.float64).union(ids, ops.fold(keys, 4))
        logits = stack(x, union).logits
        logits.square().sum().backward()
        grads = [parameter.grad for parameter in stack.parameters() if parameter.grad is not None]
        results.append([tensor.detach().cpu() for tensor in (logits, *grads)])
    torch.testing.assert_close(*results)
