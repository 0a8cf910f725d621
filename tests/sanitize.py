"""Every kernel once, on small odd batches, for NVIDIA's sanitizer to look over; needs a CUDA device.

compute-sanitizer --tool memcheck --error-exitcode 1 python tests/sanitize.py
compute-sanitizer --tool racecheck --error-exitcode 1 python tests/sanitize.py
"""

import torch

import sincere.functional as SF
from sincere.losses.backends import fused, triton_fused

LOSSES = (SF.sincere, SF.supcon, SF.decoupled)


def batch(n: int, d: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    embeddings = torch.randn(n, d, device="cuda").to(dtype).requires_grad_()
    return embeddings, torch.randint(-1, 5, (n,), device="cuda")


def main() -> None:
    torch.manual_seed(0)
    runs = 0
    # Class order by counting, by chunks, by sorting; d beyond 256 goes by parts.
    for counting, chunks in ((2048, 32768), (0, 32768), (0, 0)):
        triton_fused.COUNTING, triton_fused.CHUNKS = counting, chunks
        fused._kept_plan.cache_clear()  # programs remember how they order
        for n, d, dtype in ((300, 20, torch.bfloat16), (129, 300, torch.float16), (257, 16, torch.float32)):
            for loss in LOSSES:
                embeddings, labels = batch(n, d, dtype)
                value = loss(embeddings, labels, backend="triton")
                torch.autograd.grad(value, embeddings)
                runs += 1
    for loss in LOSSES:
        anchors, labels = batch(70, 24, torch.bfloat16)
        contrasts, contrast_labels = batch(200, 24, torch.bfloat16)
        for temperature, balanced in ((0.01, False), (0.01, True), (0.1, True)):
            options = {"backend": "triton", "temperature": temperature, "class_balanced": balanced}
            value = loss(anchors, labels, contrasts, contrast_labels, **options)
            torch.autograd.grad(value, [anchors, contrasts])
            torch.autograd.grad(loss(contrasts, contrast_labels, **options), contrasts)
            runs += 2
    # The set loss: rows that are held, and rows that are read again; and whole.
    for contrasts in (200, 9000):
        anchors, labels = batch(70, 24, torch.float32)
        others, contrast_labels = batch(contrasts, 24, torch.float32)
        value = SF.set_nce(anchors, labels, others, contrast_labels, backend="triton", include_batch=True)
        torch.autograd.grad(value, [anchors, others])
        torch.autograd.grad(SF.set_nce(others, contrast_labels, backend="triton"), others)
        runs += 2
    torch.cuda.synchronize()
    print(f"{runs} losses with their gradients")


if __name__ == "__main__":
    main()
