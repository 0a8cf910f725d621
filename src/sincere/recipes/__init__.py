"""Named, complete configurations: each states what it claims, what was measured, and where its settings come from."""

from sincere.checks import did_you_mean
from sincere.errors import OptionError
from sincere.recipes.cifar import CIFAR
from sincere.recipes.laptop import LAPTOP
from sincere.recipes.measured import NOT_MEASURED
from sincere.recipes.recipe import Recipe
from sincere.recipes.start import Given, reduced_side, starting_point

__all__ = ["NOT_MEASURED", "RECIPES", "Given", "Recipe", "find_recipe", "reduced_side", "starting_point"]

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in (*LAPTOP, *CIFAR)}


def find_recipe(name: str) -> Recipe:
    """The recipe of this name."""
    if name not in RECIPES:
        raise OptionError(f"unknown recipe {name!r}.{did_you_mean(name, RECIPES)} Recipes: {', '.join(RECIPES)}.")
    return RECIPES[name]
