"""Lazy imports: nothing is imported until an attribute is read."""

import importlib
import sys

import pytest

from penstock.base.lazy_import import lazy_exports, lazy_import


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


def test_a_public_name_of_a_package_is_imported_once_and_others_are_unknown() -> None:
    module = "tests.unit.cli.views"
    package = sys.modules[__name__]
    getattribute = lazy_exports(__name__, {"__doc__": module})
    assert getattribute("__doc__") == importlib.import_module(module).__doc__
    assert package.__doc__ == importlib.import_module(module).__doc__
    with pytest.raises(AttributeError, match=f"module '{__name__}' has no attribute 'nothing'"):
        getattribute("nothing")
