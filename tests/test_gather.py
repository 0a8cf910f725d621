"""gather=True: the gradient after DDP's averaging, and the logged value, are those of one process."""

import pytest
import torch
import torch.multiprocessing as mp

import distributed_cases
import sincere.functional as SF


@pytest.mark.parametrize("world", [2, 3])
def test_processes_together_compute_what_one_computes(world, tmp_path):
    results = mp.get_context("spawn").SimpleQueue()
    mp.spawn(distributed_cases.run, args=(world, str(tmp_path / "store"), results), nprocs=world)
    reports = [results.get() for _ in range(world)]
    assert sorted(rank for rank, _, _ in reports) == list(range(world))
    expected = len(distributed_cases.cases(world)) + len(distributed_cases.CHECKS)
    for rank, done, problems in reports:
        assert done == expected, f"rank {rank} stopped after {done} of {expected} cases"
        assert not problems, "\n".join(problems)


def test_gather_without_a_process_group_is_one_process():
    z, labels = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 0, 1, 1, 2, 2])
    assert torch.equal(SF.sincere(z, labels, gather=True), SF.sincere(z, labels))
