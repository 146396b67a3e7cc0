"""Operations on schedules (`operations`), and the call by which the clock starts an execution (`starts`)."""
