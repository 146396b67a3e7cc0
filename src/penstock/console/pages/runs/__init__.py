"""Runs: the list with its filters, forms about several runs at once, and one run with everything about it.

    listing     the list, views of it, and what is new since it was opened
    bulk        cancel, retry or fork several runs, after a page that shows which
    run         one run: questions, drawing, timeline, history; and its buttons
    timeline    bars on an axis of time, with long pauses folded
    details     a visit, a record, a value, an export, and the comparison of two runs

A list has no values in it; a value is cut, and the whole of it is a page of its own. The history is shown in windows.
Every filter, window, visit and record has an address. Read `run` first.
"""
