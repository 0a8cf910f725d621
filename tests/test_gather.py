"""gather=True: the gradient after DDP's averaging, and the logged value, are those of one process."""

import json
import os
import subprocess
import sys

import pytest
import torch

import distributed_cases
import sincere.functional as SF
from sincere.losses.agreement import _named


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes are forked")
def test_processes_together_compute_what_one_computes(tmp_path):
    command = [sys.executable, distributed_cases.__file__, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert list(found) == ["2", "3"]
    for world in (2, 3):
        assert found[str(world)]["codes"] == [0] * world, run.stderr
        assert len(found[str(world)]["reports"]) == world
        expected = len(distributed_cases.cases(world)) + len(distributed_cases.CHECKS)
        for rank, (done, problems) in enumerate(found[str(world)]["reports"]):
            assert done == expected, f"rank {rank} of {world} stopped after {done} of {expected} cases"
            assert not problems, "\n".join(problems)


def test_gather_without_a_process_group_is_one_process():
    z, labels = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 0, 1, 1, 2, 2])
    # Of the same backend: without `gather` "auto" computes so small a batch in another order of operations.
    assert torch.equal(SF.sincere(z, labels, gather=True), SF.sincere(z, labels, backend="dense"))


def test_the_first_few_processes_of_a_kind_are_named():
    assert _named(7, [7, 0, 7]) == "0 and 2"
    assert _named(7, [7, 7, 7, 0]) == "0 and 1 and 2"
    assert _named(7, [7, 7, 7, 7]) == "0 and 1 and 2 and others"
