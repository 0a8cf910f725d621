"""A learned temperature under `fully_shard`, which takes no scalar for a parameter."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import sincere


class WithLoss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.loss = torch.nn.Linear(6, 4), sincere.SINCERELoss(learnable_temperature=True)

    def forward(self, inputs, labels):
        return self.loss(self.encoder(inputs), labels)


@pytest.fixture
def alone():
    """A group of one process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def test_temperature_is_learned_as_without(alone):
    inputs, labels = torch.randn(12, 6), torch.arange(12) % 3
    plain, sharded = WithLoss(), WithLoss()
    sharded.load_state_dict(plain.state_dict())
    fully_shard(sharded, mesh=alone)
    for model in (plain, sharded):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            model(inputs, labels).backward()
            optimizer.step()
            optimizer.zero_grad()
    found = sharded.loss.log_temperature.full_tensor()
    assert found.item() != pytest.approx(WithLoss().loss.log_temperature.item(), rel=1e-3)
    assert found.item() == pytest.approx(plain.loss.log_temperature.item(), rel=1e-6)
    assert plain.loss.temperature.shape == ()
