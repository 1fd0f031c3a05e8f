"""The lines around the one that a card of a log cites: what is new in them, whole, once."""

from dataclasses import replace

from postmortem.facts.last_lines import LogExcerpt
from postmortem.present.around import with_neighbours
from postmortem.report.card import Card
from postmortem.report.said import unsaid

CARD = Card("lumen: no shard 7 (job.log:3)", True)


def around(*texts: str, line: int = 3, card: Card = CARD) -> Card:
    return with_neighbours(card, LogExcerpt("/x/job.log", line, tuple(enumerate(texts, start=1))))


def lines(card: Card) -> list[int]:
    return [int(place.rpartition(":")[2]) for place, _ in card.rows]


def test_neighbours_stand_around_the_line_in_order() -> None:
    card = around("reading", "asked node3", "lumen: no shard 7", "closing")
    assert lines(card) == [1, 2, 3, 4]
    assert [place for place, _ in card.near] == ["job.log:2", "job.log:4", "job.log:1"]
    assert card.quoted == ("job.log:3", "lumen: no shard 7")


def test_nothing_is_said_twice_not_in_other_numbers_either() -> None:
    card = around("step 1 loss 2.5", "step 2 loss 2.4", "lumen: no shard 7", "lumen: no shard")
    assert lines(card) == [2, 3]


def test_a_line_without_a_word_of_the_headline_is_no_quote_of_it() -> None:
    assert around("reading", "asked node3", "warn(") == CARD


def test_what_stands_before_all_lines_is_taken_off() -> None:
    card = around(
        "2026-01-02 03:04:05 [lumen] reading",
        "2026-01-02 03:04:06 [lumen] asked node3",
        "2026-01-02 03:04:07 [lumen] no shard 7",
    )
    assert [text for _, text in card.rows] == ["reading", "asked node3", "no shard 7"]


def test_a_number_that_all_lines_begin_with_stays() -> None:
    card = around("{'a': 1.5, 'b': 2}", "{'a': 2.5, 'c': 3}", "{'a': 3.5, 'lumen': 7}")
    assert all(text.startswith("{'a': ") for _, text in card.rows)


def test_a_row_that_was_cut_is_whole_and_says_whose_it_is() -> None:
    long = "lumen failed at " + " ".join(f"place{n}" for n in range(40))
    card = replace(CARD, rows=(("job.log:3", f"rank 2: {long[:90]}…"), ("other.log:1", "b")))
    rows = around("reading", "asked", long, card=card).rows
    assert rows[2] == ("job.log:3", f"rank 2: {long}")
    assert rows[-1] == ("other.log:1", "b")


def test_what_is_left_of_a_line_that_is_said_up_to_a_cut() -> None:
    line = "W0 lumen: no answer from node3, port 29500"
    assert unsaid(line, "lumen: no answer from no…") == "… node3, port 29500"
    assert unsaid(line, "lumen: no answer\nfrom node3, port 29500 of W0") == ""
    assert unsaid(line, "lumen: no answer from elsewhere") == line


def test_words_before_the_time_are_taken_off_too_and_an_empty_line_has_none() -> None:
    texts = [f"Mon, 27 Jul 11:05:3{n} {word}" for n, word in enumerate(("reading", "lumen: no"))]
    assert [text for _, text in around(*texts, line=2).rows] == ["reading", "lumen: no"]
    assert around("reading", "", "lumen: no shard 7").rows[0] == ("job.log:1", "reading")
