"""The recorded terminal session of the README shows what its commands print today."""

from pathlib import Path
from xml.etree import ElementTree

from docs.generator.recording import COLUMNS, PICTURE, comparable, draw, lines_of_drawing, record, session
from tests.zygote import piped_folder


def test_the_recorded_session_is_what_its_commands_print(tmp_path: Path) -> None:
    commands = piped_folder(tmp_path / "bin")
    place = tmp_path / "session"
    place.mkdir()
    fresh = lines_of_drawing(draw(record(session(), place, commands)))
    stored = lines_of_drawing(PICTURE.read_text(encoding="utf-8"))
    assert comparable(fresh) == comparable(stored), "run scripts/recording"


def test_no_line_of_the_recording_is_wider_than_the_terminal() -> None:
    stored = lines_of_drawing(PICTURE.read_text(encoding="utf-8"))
    assert stored
    assert max(map(len, stored)) <= COLUMNS


def test_the_picture_is_well_formed_and_shows_a_display_that_is_drawn_again_once() -> None:
    drawn = ElementTree.parse(PICTURE)
    assert drawn.getroot().tag == "{http://www.w3.org/2000/svg}svg"
    shown = [line for line in lines_of_drawing(PICTURE.read_text(encoding="utf-8")) if line.startswith("● ")]
    assert len(shown) == 1
