"""A short version of the soak; `make soak` is the long one."""

from __future__ import annotations

import pytest

from benchmarks.soak import soak


@pytest.mark.slow
@pytest.mark.timed
async def test_soak_over_killed_servers_loses_and_leaves_nothing():
    ran = await soak(600, 200, seed=7, every=150, servers=(2, 1, 1))
    assert ran.problems == [], str(ran)
    assert ran.kills > 0
    assert ran.answered >= 600 - 8 * 2 * ran.kills, "only calls under way at a kill may fail"
    assert set(ran.errors) <= {"SessionClosedError"}, str(ran)
