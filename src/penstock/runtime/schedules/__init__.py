"""Schedules: runs that start by the clock, and the timetables that say when."""
