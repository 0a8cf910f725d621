"""What views cost: two of each image, as a share of the training step that they are for.

A step is forward, SINCERE, backward and SGD of a ResNet-18 on these views, in bfloat16 and channels_last on a GPU.
Views are timed eager, and on a GPU also compiled and replayed as a CUDA graph; every round runs all and the step once.

    python benchmarks/views_speed.py                             # 512 images of 32×32 on a GPU, 32 on a CPU
    python benchmarks/views_speed.py --preset plain --csv benchmarks/results/views_speed.csv
"""

import platform
from argparse import ArgumentParser, BooleanOptionalAction, Namespace, RawDescriptionHelpFormatter
from pathlib import Path

import torch
from torch import Tensor

from sincere import SINCERELoss
from sincere.bench.rounds import Candidate, ratio, run_rounds
from sincere.encoders import EmbeddingModel, ProjectionHead, build_encoder
from sincere.runs.provenance import cpu_name
from sincere.views import PRESETS, StagedViews, Statistics, build_views
from timing import Row, git_commit, noise_in_words, print_table, timing_rows, timings, write_records

STEP, COMPILED_STEP = "step", "step, compiled"
EAGER, COMPILED, GRAPH = "views, eager", "views, compiled", "views, CUDA graph"
TARGET = 0.10
COUNT = 2


def main() -> None:
    options = parsed_options()
    torch.set_num_threads(options.threads)
    images = random_images(options)
    candidates = all_candidates(images, options)
    samples = run_rounds(candidates, rounds=options.rounds, warm_up=3, repeats=options.repeats, device=options.device)
    shape = f"{options.batch} images of {options.side}×{options.side}, {COUNT} views each"
    print(f"\n{options.preset!r} views of {shape}, {options.width:g} × ResNet-18, {machine(options)}\n")
    print_table(timing_rows(timings(samples, STEP), STEP))
    print()
    steps = [name for name in (STEP, COMPILED_STEP) if name in samples]
    views = [name for name in (EAGER, COMPILED, GRAPH) if name in samples]
    shares = [(name, step, ratio(samples, name, step)) for name in views for step in steps]
    print_table([
        {"time of": name, "over": step, "ratio": share.median, "p20": share.p20, "p80": share.p80,
         f"≤ {TARGET:g}": "met" if share.median <= TARGET else "MISSED"}
        for name, step, share in shares
    ])  # fmt: skip
    print(noise_in_words(samples))
    origin = {
        "preset": options.preset, "batch": options.batch, "side": options.side, "width": options.width,
        "processor": machine(options), "threads": options.threads, "python": platform.python_version(),
        "torch": torch.__version__, "commit": options.commit, "seed": options.seed,
    }  # fmt: skip
    records: list[Row] = [
        {"candidate": timing.name, "rounds": options.rounds, "median_s": timing.seconds.median,
         "p20_s": timing.seconds.p20, "p80_s": timing.seconds.p80, "of_step": timing.ratio.median, **origin}
        for timing in timings(samples, STEP)
    ]  # fmt: skip
    write_records(records, options)


def parsed_options() -> Namespace:
    on_gpu = torch.cuda.is_available()
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if on_gpu else "cpu")
    parser.add_argument("--batch", type=int, default=512 if on_gpu else 32, help="images (default %(default)s here)")
    parser.add_argument("--side", type=int, default=32, help="pixels (default %(default)s)")
    parser.add_argument("--width", type=float, default=1.0, help="of the ResNet-18 (default %(default)s)")
    parser.add_argument("--preset", default="sincere", choices=list(PRESETS["image"]))
    parser.add_argument("--rounds", type=int, default=20 if on_gpu else 5, help="that count (default %(default)s here)")
    parser.add_argument("--repeats", type=int, default=5 if on_gpu else 1, help="of a candidate in a round")
    parser.add_argument("--compile", action=BooleanOptionalAction, default=on_gpu, help="minutes on a CPU")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--commit", default=git_commit(), help="of the code, where it was copied without its history")
    return parser.parse_args()


def machine(options: Namespace) -> str:
    on_gpu = torch.device(options.device).type == "cuda"
    return torch.cuda.get_device_name(options.device) if on_gpu else cpu_name()


def random_images(options: Namespace) -> Tensor:
    generator = torch.Generator(options.device).manual_seed(options.seed)
    shape = (options.batch, 3, options.side, options.side)
    return torch.randint(0, 256, shape, dtype=torch.uint8, device=options.device, generator=generator)


def all_candidates(images: Tensor, options: Namespace) -> dict[str, Candidate]:
    views = build_views(options.preset, kind="image", statistics=Statistics.of(images, kind="image"))
    generator = torch.Generator(options.device).manual_seed(options.seed)
    candidates: dict[str, Candidate] = {
        STEP: training_step(views(images, count=COUNT, generator=generator), options, compiled=False),
        EAGER: lambda: views(images, count=COUNT, generator=generator),
    }
    if options.compile:
        render = torch.compile(views.render, fullgraph=True)
        made = views(images, count=COUNT, generator=generator)
        candidates[COMPILED_STEP] = training_step(made, options, compiled=True)
        candidates[COMPILED] = lambda: render(images, views.draw(images, count=COUNT, generator=generator))
        if images.is_cuda:
            candidates[GRAPH] = captured(render, views, images, generator)
    return candidates


def captured(render: Candidate, views: StagedViews, images: Tensor, generator: torch.Generator) -> Candidate:
    """The compiled views as a CUDA graph; the numbers are drawn outside, into the place that it reads."""
    numbers = views.draw(images, count=COUNT, generator=generator)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            render(images, numbers)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        render(images, numbers)

    def replay() -> None:
        torch.rand(numbers.shape, generator=generator, device=images.device, out=numbers)
        graph.replay()

    return replay


def training_step(views: Tensor, options: Namespace, *, compiled: bool) -> Candidate:
    """Forward, loss, backward and update on views that are there already."""
    shape = (3, options.side, options.side)
    encoder = build_encoder("resnet18", kind="image", shape=shape, width=options.width)
    model = EmbeddingModel(encoder, ProjectionHead(encoder.feature_dim))
    model = model.to(options.device, memory_format=torch.channels_last)
    forward = torch.compile(model) if compiled else model
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4)
    loss = SINCERELoss(temperature=0.1)
    labels = torch.arange(len(views), device=options.device) % 10
    flat = views.flatten(0, 1).contiguous(memory_format=torch.channels_last)
    on_gpu = flat.is_cuda

    def step() -> None:
        with torch.autocast(flat.device.type, dtype=torch.bfloat16, enabled=on_gpu):
            embeddings = forward(flat)
        value = loss(embeddings.float().unflatten(0, (len(labels), COUNT)), labels)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()

    return step


if __name__ == "__main__":
    main()
