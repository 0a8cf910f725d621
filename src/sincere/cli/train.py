"""`sincere train`."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from json import loads

import typer

from sincere.cli import options
from sincere.cli.evaluate import command_for
from sincere.cli.forecast import SHORT, forecast, in_words, shorter
from sincere.cli.hints import command, flags_of, names_given
from sincere.cli.notes import note
from sincere.cli.output import leader, say, tell, tell_json
from sincere.cli.planning import Plan, planned
from sincere.cli.run_evaluation import evaluated
from sincere.cli.settings import without_effect
from sincere.recipes import find_recipe
from sincere.runs import RunFolder
from sincere.tables import amount
from sincere.train import TrainedRun
from sincere.train.loop import told_run
from sincere.train.peers import heard_by_the_others
from sincere.train.progress import Telling, clock

UNEQUAL = 10  # times as many samples: in claim 25 small classes are then well off the simplex
BALANCING = ("sincere", "supcon", "eps_supinfonce", "decoupled", "spread")  # the losses that take class_balanced


def train_model(
    context: typer.Context,
    data: options.Source = None,
    loss: options.Loss = None,
    encoder: options.Encoder = None,
    epochs: options.Epochs = None,
    batch: options.Batch = None,
    lr: options.LearningRate = None,
    optimizer: options.Optimizer = None,
    temperature: options.Temperature = None,
    class_balanced: options.ClassBalanced = False,
    dim: options.Dim = None,
    views: options.Views = None,
    seed: options.Seed = None,
    test: options.Test = None,
    kind: options.AKind = None,
    image_size: options.ImageSize = None,
    label_column: options.LabelColumn = None,
    input_column: options.InputColumn = None,
    unreadable: options.Unreadable = None,
    device: options.Device = None,
    precision: options.Precision = None,
    set_: options.Set = None,
    config: options.Config = None,
    recipe: options.RecipeName = None,
    out: options.Out = None,
    resume: options.Resume = None,
    evaluate: options.Evaluate = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Train an embedding model on labelled data, and leave everything in a folder.

    What is not given is chosen by the kind and the size of the data, and by whether there is a GPU. Ctrl-C saves;
    --resume RUN goes on.

    Several processes: torchrun --nproc-per-node 2 -m sincere train DATA --out RUN
    """
    with heard_by_the_others():
        plan = planned(context.params)
    judging = None if recipe is None else find_recipe(recipe).evaluation
    noted = partial(note, flags=flags_of(train_model), own=list(names_given(context.params)))
    if not quiet:
        say(plan.in_words())
        for line in how_long(plan, named=encoder is not None and recipe is None):
            say(line)
    elif plan.reduced:  # part of the words above, and no progress: it changes the result
        noted(f"images are reduced to {plan.shape} for a CPU; the option image_size chooses another size.")
    for words in (*without_effect(context.params, plan.config), *unequal_classes(plan)):
        noted(words)
    telling = Telling("off" if quiet else "auto", noted)
    found = told_run(plan.config, run=plan.run, resume=plan.resume, data=plan.data, telling=telling)
    if not quiet:
        next_step = "" if evaluate or not found.finished else f" Next: {command_for(found.run, judging)}"
        say(ending(found) + next_step)
    evaluation = None
    if evaluate and found.finished and leader():
        evaluation = evaluated(found.run, judging, device=device, data=plan.data)
    if json:
        told = {**asdict(found), "run": str(found.run)}
        tell_json(told if evaluation is None else {**told, "evaluation": loads(evaluation.to_json())})
    elif evaluation is not None:
        tell("\n".join([str(evaluation), "", *evaluation.summary]))
    raise typer.Exit(found.exit_code)


def how_long(plan: Plan, *, named: bool) -> list[str]:
    """What is to be said about the time that a new run on a CPU will take. `named`: was the encoder chosen?"""
    if plan.data is None or RunFolder(plan.run).started:  # one that goes on says how much is left
        return []
    seconds = forecast(plan.config, plan.data)
    if seconds is None or seconds < SHORT:
        return []
    form = plan.data.train.form
    advice = shorter(plan.config, form.shape, seconds, named=named and form.kind == "image")
    told = f"On this CPU it will take {in_words(seconds)}."
    return [told] if advice is None else [told, advice]


def unequal_classes(plan: Plan) -> Iterator[str]:
    """A note on a new run in which rare classes count little, and what they can do about it."""
    config = plan.config
    weighs = config.loss.options.get("class_balanced") or config.batches.sampler == "balanced"
    if plan.data is None or weighs or config.loss.name not in BALANCING or not config.contrastive:
        return
    sizes = Counter(plan.data.train.labels.tolist()).values()
    fewest, most = min(sizes), max(sizes)
    if most >= UNEQUAL * fewest and not RunFolder(plan.run).started:
        yield (
            f"classes have {fewest:,} to {most:,} samples to train on: --class-balanced lets rare ones count as much "
            "as frequent ones."
        )


def ending(found: TrainedRun) -> str:
    """How it went, and how it goes on if it was stopped."""
    if not found.finished:
        how = command("train", "--resume", found.run)
        return f"stopped after {amount(found.epoch, 'epoch')}, everything is saved. Go on: {how}"
    known = found.validation
    accuracy = (
        "" if known is None else f", k-NN {100 * known.accuracy:.2f} % on {amount(known.samples, 'validation sample')}"
    )
    loss = "" if found.loss is None else f", loss {found.loss:.4f}"
    return f"{amount(found.epoch, 'epoch')} in {clock(found.seconds)}{loss}{accuracy}."
