"""Operations on schedules (`operations`), and the internal call with which the clock starts an execution (`starts`).

Schedules are stored and fired by `runtime.schedules`. No other resource is imported. Read `operations` first.
"""
