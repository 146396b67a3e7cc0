"""Operations on quotas: what a tenant and its keys may use, and what they have used today.

`gate.quotas` knows what holds for whom, and the stores count. No other resource is imported. Read `operations` first.
"""
