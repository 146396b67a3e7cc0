"""Operations on schedules (`operations`), and the internal call with which the clock starts a run (`starts`).

Schedules are stored and fired by `runtime.schedules`. No other resource is imported. Read `operations` first.
"""
