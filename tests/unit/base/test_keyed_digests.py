"""Keyed digests are HMAC-SHA256, whatever was digested before."""

import hmac

from hypothesis import given
from hypothesis import strategies as st

from penstock.base.keyed_digests import keyed_digest


@given(st.lists(st.tuples(st.sampled_from([b"", b"k" * 32, b"k" * 100]), st.binary(max_size=200)), max_size=20))
def test_each_digest_is_that_of_its_key_and_text(given: list[tuple[bytes, bytes]]) -> None:
    for key, text in given:
        assert keyed_digest(key, text) == hmac.digest(key, text, "sha256").hex()
