"""Prefect's server of a flow: what is asked of it at once waits, and is not refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest


@pytest.mark.slow
def test_requests_at_once_wait_for_one_another(prefect_server: str) -> None:
    """Refused ones cost two seconds each: Prefect's client sleeps before it asks again."""
    with httpx.Client(base_url=prefect_server, timeout=60) as client:
        flow = client.post("/flows/", json={"name": "server"}).json()["id"]

        def create(number: int) -> int:
            run = {"flow_id": flow, "name": f"run {number}", "state": {"type": "PENDING"}}
            return client.post("/flow_runs/", json=run).status_code

        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(create, range(64))) == {201}
