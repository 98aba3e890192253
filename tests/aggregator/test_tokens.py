"""How long an identity is remembered, with the clock in hand."""

from collections.abc import AsyncIterator

import pytest

from rankbeat_aggregator.errors import Forbidden, ReviewUnavailable
from rankbeat_aggregator.server.tokens import Identity, Tokens


class World:
    """A clock, an API server that may be down, and the tokens it was asked about."""

    def __init__(self) -> None:
        self.now = 0.0
        self.is_down = False
        self.asked = 0
        self.tokens = Tokens(self.review, lambda: self.now)

    def review(self, token: str) -> Identity | None:
        self.asked += 1
        if self.is_down:
            raise ConnectionRefusedError(111, "Connection refused")
        return Identity("node", "n0") if token == "good" else None

    async def ask(self, token: str = "good") -> Identity:
        return await self.tokens.identity(f"Bearer {token}")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    made.tokens.close()


@pytest.mark.parametrize(("later", "asked"), [(0.0, 1), (59.9, 1), (60.0, 2)])
async def test_a_good_token_is_reviewed_again_after_a_minute(world: World, later: float, asked: int):
    await world.ask()
    world.now = later
    await world.ask()

    assert world.asked == asked


@pytest.mark.parametrize(("later", "asked"), [(9.9, 1), (10.0, 2)])
async def test_a_bad_token_is_reviewed_again_after_ten_seconds(world: World, later: float, asked: int):
    for at in (0.0, later):
        world.now = at
        with pytest.raises(Forbidden) as raised:
            await world.ask("bad")
        assert raised.value.status == 401

    assert world.asked == asked


async def test_a_known_identity_outlives_the_api_server_by_ten_minutes_and_no_more(world: World):
    await world.ask()
    world.is_down = True

    world.now = 599.9
    assert await world.ask() == Identity("node", "n0")

    world.now = 600.0
    with pytest.raises(ReviewUnavailable):
        await world.ask()


async def test_a_refused_token_is_not_good_because_the_api_server_is_down(world: World):
    with pytest.raises(Forbidden):
        await world.ask("bad")
    world.is_down = True
    world.now = 10.0

    with pytest.raises(ReviewUnavailable):
        await world.ask("bad")


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic Zm9vOmJhcg==", "Bearer " + "x" * 16385])
async def test_what_is_no_bearer_token_is_not_even_asked_about(world: World, header: str):
    with pytest.raises(Forbidden):
        await world.tokens.identity(header)

    assert world.asked == 0
