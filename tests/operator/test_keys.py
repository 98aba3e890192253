"""The queue: each key once, never two at a time."""

import asyncio

import pytest

from rankbeat_operator.handlers.keys import Keys


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keys(clock: Clock) -> Keys[str]:
    return Keys(clock, spacing_seconds=1.0)


def is_empty(keys: Keys[str]) -> bool:
    return keys._take() is None


async def test_a_key_that_is_added_often_has_one_turn(keys):
    for _ in range(5):
        keys.add("a")

    assert await keys.next() == "a"
    keys.done("a")
    assert is_empty(keys)


async def test_a_key_that_is_added_during_its_turn_has_another_after_it(keys, clock):
    keys.add("a")
    await keys.next()
    keys.add("a")
    clock.now += 5

    assert is_empty(keys)
    keys.done("a")
    assert await keys.next() == "a"


async def test_turns_of_one_key_are_a_second_apart_and_other_keys_do_not_wait(keys, clock):
    keys.add("a")
    await keys.next()
    keys.done("a")
    keys.add("a")
    keys.add("b")

    assert await keys.next() == "b"
    assert is_empty(keys)
    clock.now += 1
    assert await keys.next() == "a"


async def test_an_earlier_time_wins_over_a_delay(keys, clock):
    keys.add("a", 30)
    keys.add("a")

    assert await keys.next() == "a"
    keys.done("a")
    clock.now += 60
    assert is_empty(keys)


async def test_a_delay_does_not_postpone_what_is_due(keys):
    keys.add("a")
    keys.add("a", 30)

    assert await keys.next() == "a"


async def test_who_waits_is_woken(keys):
    waiting = asyncio.create_task(keys.next())
    await asyncio.sleep(0)
    keys.add("a")

    assert await asyncio.wait_for(waiting, 1) == "a"


async def test_a_forgotten_key_has_no_turn(keys):
    keys.add("a")
    keys.forget("a")

    assert is_empty(keys)
