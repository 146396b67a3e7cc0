"""Operations on workflows and their tasks. Read `operations` first."""
