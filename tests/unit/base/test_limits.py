"""Limits: one module for each area, and one package with the names of all."""

import importlib
import pkgutil
from collections import Counter
from types import ModuleType

import pytest

from penstock.base import limits

AREAS = [
    importlib.import_module(f"penstock.base.limits.{found.name}") for found in pkgutil.iter_modules(limits.__path__)
]


def constants(module: ModuleType) -> set[str]:
    return {name for name in vars(module) if name.isupper()}


@pytest.mark.parametrize("area", AREAS, ids=lambda area: area.__name__.rpartition(".")[2])
def test_an_area_lists_all_its_limits(area: ModuleType) -> None:
    assert set(area.__all__) == constants(area)


def test_the_package_has_the_limits_of_all_areas() -> None:
    assert constants(limits) == set().union(*(constants(area) for area in AREAS))


def test_a_limit_stands_in_one_area() -> None:
    counted = Counter(name for area in AREAS for name in constants(area))
    assert [name for name, count in counted.items() if count > 1] == []
