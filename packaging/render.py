"""Render the recipe for conda-forge: a key that rattler-build does not know, or a name that is no package, ends it."""

import json
from pathlib import Path

from rattler_build import RenderConfig, Stage0Recipe, VariantConfig

recipe = Stage0Recipe.from_file(Path(__file__).with_name("recipe.yaml"))
for variant in recipe.render(VariantConfig(), RenderConfig()):
    print(json.dumps(variant.recipe.to_dict()["requirements"], indent=2))
