"""Named, complete configurations: each states what it claims, what was measured, and where its settings come from."""

from difflib import get_close_matches

from sincere.errors import OptionError
from sincere.recipes.cifar import CIFAR
from sincere.recipes.laptop import LAPTOP
from sincere.recipes.measured import NOT_MEASURED
from sincere.recipes.recipe import Recipe
from sincere.recipes.start import Given, starting_point

__all__ = ["NOT_MEASURED", "RECIPES", "Given", "Recipe", "find_recipe", "starting_point"]

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in (*LAPTOP, *CIFAR)}


def find_recipe(name: str) -> Recipe:
    """The recipe of this name."""
    if name not in RECIPES:
        close = get_close_matches(name, RECIPES, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise OptionError(f"unknown recipe {name!r}.{hint} Recipes: {', '.join(RECIPES)}.")
    return RECIPES[name]
