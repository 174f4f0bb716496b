"""The service against its own OpenAPI description: no request, however odd, makes it fail."""

import schemathesis
from hypothesis import HealthCheck, settings

from sandbox import server
from sandbox.service import pool

WORKERS = pool.open_pool("local", workers=1)
schema = schemathesis.openapi.from_asgi("/openapi.json", server.create_app(WORKERS))


@schema.parametrize()
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_no_request_makes_the_service_fail(case):
    assert case.call().status_code < 500


def teardown_module() -> None:
    WORKERS.close()
