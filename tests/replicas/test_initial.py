"""Parameters drawn without PyG are those that PyG draws."""

import pytest
import torch

from compool.nn.settings import GINSettings, NetworkSettings
from compool.replicas import initial, stack


@pytest.mark.parametrize(
    "settings",
    [
        *(NetworkSettings(layers, 7, 6, 3, 0.1) for layers in ("CPCL", "SESLL", "GTGAL", "CASTL", "PCEL")),
        NetworkSettings("CCPCLL", 5, 8, 2, jump=True, symmetric=True, threshold=0.2),
        NetworkSettings("CPCPL", 5, 8, 2, scorer="similarity", reduce="graded"),
        GINSettings(9, 4, 2),
    ],
    ids=lambda settings: getattr(settings, "layers", "GIN"),
)
def test_equal_seeds_give_equal_weights(settings: NetworkSettings | GINSettings) -> None:
    torch.manual_seed(5)
    network = settings.network()
    torch.manual_seed(5)
    parameters = initial.draw_parameters(settings)
    expected, drawn = network.state_dict(), parameters.state_dict()
    assert [name for name, _ in network.named_parameters()] == [name for name, _ in parameters.named_parameters()]
    assert expected.keys() == drawn.keys()
    for name, tensor in expected.items():
        assert torch.equal(tensor, drawn[name]), name
    assert settings.num_parameters == sum(parameter.numel() for parameter in network.parameters())
    single = stack([parameters, parameters]).single(1)
    assert single.settings == settings
    assert all(torch.equal(tensor, expected[name]) for name, tensor in single.state_dict().items())
