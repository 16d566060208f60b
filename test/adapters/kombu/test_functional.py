"""Runs the functional tests of kombu, which its source package has for other transports, with this one."""

import kombu
import pytest
from t.integration import common


@pytest.fixture
def connection():
    return kombu.Connection("pgq://")


@pytest.fixture
def invalid_connection():
    return kombu.Connection("pgq://localhost:1/x")


@pytest.fixture
def failover_connection():
    return kombu.Connection("pgq://localhost:1/x;pgq://")


class TestBasicFunctionality(common.BasicFunctionality):
    pass


class TestExchangeTypes(common.BaseExchangeTypes):
    pass


class TestTimeToLive(common.BaseTimeToLive):
    pass


class TestPriority(common.BasePriority):
    pass


class TestMessage(common.BaseMessage):
    pass


class TestFailover(common.BaseFailover):
    pass
