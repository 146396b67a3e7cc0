"""Schedules: the list with its buttons (`listing`), and the forms that make and change one (`editing`).

Read `listing` first.
"""
