"""`sincere recipes`."""

from typing import Annotated

import typer

from sincere.cli import options
from sincere.cli.help import Verb, Verbs
from sincere.cli.output import tell, tell_json
from sincere.cli.refusals import in_words
from sincere.errors import OptionError
from sincere.recipes import RECIPES, find_recipe

Name = Annotated[str, typer.Argument(metavar="NAME", help="Of a recipe.", show_default=False)]

recipes = typer.Typer(
    cls=Verbs,
    help="Named, complete configurations, with the evidence for them.",
    epilog="Example:  sincere recipes show letter",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def either(context: typer.Context, json: options.Json = False) -> None:
    """Named, complete configurations, with the evidence for them. Without a verb: the list."""
    if context.invoked_subcommand is None:
        list_recipes(json)
    elif json:
        verb = context.invoked_subcommand
        raise OptionError(f"--json goes behind the verb: sincere recipes {verb} … --json.")


def list_recipes(json: options.Json = False) -> None:
    """All recipes."""
    if json:
        tell_json([recipe.to_json() for recipe in RECIPES.values()])
        return
    width = max(map(len, RECIPES))
    for name, recipe in RECIPES.items():
        tell(f"{name:<{width}}  {recipe.claim}")
    tell("\nsincere recipes show NAME says more; sincere train DATA --recipe NAME runs one.")


def show_recipe(name: Name, json: options.Json = False) -> None:
    """One recipe: what it claims, what was measured, and every setting with its origin."""
    recipe = find_recipe(name)
    if json:
        tell_json(recipe.to_json())
        return
    tell(f"{recipe.name}: {recipe.claim}\n\nmeasured: {recipe.measured}\n\n{recipe.command}\n")
    before = ""
    for setting, value, origin in recipe.settings():
        tell(f"{f'{setting} = {value}':<40}" + ("  ″" if origin == before else f"  {origin}"))
        before = origin


recipes.callback()(in_words(either))
recipes.command("list", cls=Verb, epilog="Example:  sincere recipes list")(in_words(list_recipes))
recipes.command("show", cls=Verb, epilog="Example:  sincere recipes show letter", no_args_is_help=True)(
    in_words(show_recipe)
)
