"""What the runtime takes from the machine."""

from penstock.governance.keys import parse_key
from penstock.runtime.system import new_key_material


def test_new_keys_have_the_form_of_keys_and_are_all_different() -> None:
    made = [new_key_material() for _ in range(200)]
    assert [parse_key(key.text) for key in made] == made
    assert len({key.key_id for key in made}) == len({key.secret for key in made}) == 200
    # Every character of the alphabet turns up: the ids are drawn from all of it.
    assert len(set("".join(key.key_id for key in made))) == 32
