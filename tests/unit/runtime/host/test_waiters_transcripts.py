"""What a process notes of a run that somebody waits for."""

import asyncio
from pathlib import Path

import msgspec

from penstock.app.penstock import Penstock
from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.definitions.build.workflow import build_workflow
from penstock.engine.records import Record
from penstock.runtime.host.waiters import Transcripts
from penstock.runtime.ports.run_memory import Transcript
from penstock.runtime.ports.runs import RunRow
from tests.waiting import SECONDS_MAX

ROW = RunRow(
    run_id="r", workflow_name="w", workflow_version="1", definition_hash="0", status="running", seq=0, created_at=0,
    updated_at=0,
)  # fmt: skip


def page(first: int, last: int) -> tuple[Record, ...]:
    return tuple(Record(seq, "event", "Noted", {"executionId": "r"}, 0) for seq in range(first, last + 1))


def taken(*pages: tuple[Record, ...]) -> Transcript:
    transcript = Transcript()
    for records in pages:
        transcript.take(records, msgspec.structs.replace(ROW, seq=records[-1].seq))
    return transcript


def test_a_transcript_from_the_first_record_on_is_the_history() -> None:
    stored = taken(page(1, 3), page(4, 4)).stored(4)
    assert stored is not None
    assert stored.records == page(1, 4)
    assert stored.row.seq == 4


def test_a_transcript_is_of_no_use_with_a_gap_or_of_another_moment() -> None:
    assert Transcript().stored(0) is None
    assert taken(page(1, 3)).stored(4) is None
    assert taken(page(2, 3)).stored(3) is None
    assert taken(page(1, 3), page(5, 5)).stored(5) is None
    assert taken(page(1, 3), page(5, 5), page(6, 6)).stored(6) is None


def test_a_transcript_is_bounded() -> None:
    most = limits.FOLDED_AT_ONCE
    assert taken(page(1, most)).stored(most) is not None
    transcript = taken(page(1, most), page(most + 1, most + 1))
    assert transcript.stored(most) is None
    assert transcript.stored(most + 1) is None


def test_a_transcript_is_kept_as_long_as_somebody_takes_it() -> None:
    transcripts = Transcripts()
    with transcripts.of("r") as first:
        with transcripts.of("r") as second, transcripts.of("other"):
            assert first is not second
        assert list(transcripts.taken) == ["r"]
        assert transcripts.taken["r"] == [first]
    assert transcripts.taken == {}


def test_a_host_notes_what_it_stores_of_the_runs_that_are_waited_for(tmp_path: Path) -> None:
    document: JsonObject = {
        "penstock": "v1",
        "name": "says",
        "nodes": [{"id": "done", "type": "end", "output": "hello"}],
    }

    async def body() -> None:
        async with Penstock.open(tmp_path / "penstock.db") as penstock:
            await penstock.register(build_workflow(document))
            memory = penstock.run_memory
            with memory.transcribed("one") as transcript, memory.transcribed("two") as other:
                run = await penstock.start("says", run_id="one")
                await run.result()
                whole = await penstock.store.load("one")
                assert whole is not None
                assert transcript.stored(whole.row.seq) == whole
                assert other.stored(0) is None

    asyncio.run(asyncio.wait_for(body(), SECONDS_MAX))
