"""Lazy imports: nothing is imported until an attribute is read."""

import sys

import pytest

from penstock.base.lazy_import import lazy_import


def test_a_module_is_imported_when_something_in_it_is_used() -> None:
    module = "tests.unit.cli.views"
    sys.modules.pop(module, None)
    lazy = lazy_import(module)
    assert (module in sys.modules, repr(lazy)) == (False, "<lazy module 'tests.unit.cli.views'>")
    assert lazy.__getattr__("__name__") == module
    assert module in sys.modules


def test_an_attribute_that_the_module_does_not_have_is_an_error() -> None:
    with pytest.raises(AttributeError, match="nothing_like_that"):
        lazy_import("tests.unit.cli.views").nothing_like_that  # noqa: B018


def test_a_module_that_does_not_exist_is_an_error_when_it_is_used() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        lazy_import("penstock.no_such_module").anything  # noqa: B018
