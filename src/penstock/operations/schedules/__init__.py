"""Operations on schedules, and the call by which the clock starts an execution."""
