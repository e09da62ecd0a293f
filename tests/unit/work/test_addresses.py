"""The addresses that a server prints: those that others can type."""

import socket
from types import SimpleNamespace

import pytest

from viz.work import addresses
from viz.work.addresses import network_addresses, urls


@pytest.fixture
def computer(monkeypatch):
    """A computer with a cable, a wireless network, and a network that is off."""

    def card(*hosts):
        families = {True: socket.AF_INET6, False: socket.AF_INET}
        return [SimpleNamespace(address=each, family=families[":" in each]) for each in hosts]

    cards = {
        "lo": card("127.0.0.1", "::1"),
        "eth0": card("192.0.2.2", "fd00::2", "fe80::1%eth0"),
        "wlan0": card("198.51.100.7", "169.254.3.4"),
        "off0": card("203.0.113.9"),
    }
    states = {name: SimpleNamespace(isup=name != "off0") for name in cards}
    monkeypatch.setattr(addresses.psutil, "net_if_addrs", lambda: cards)
    monkeypatch.setattr(addresses.psutil, "net_if_stats", lambda: states)
    monkeypatch.setattr(addresses, "_default", lambda: "198.51.100.7")


def test_all_addresses_are_named_that_of_the_default_route_first(computer):
    assert network_addresses() == ("198.51.100.7", "192.0.2.2")
    assert urls("0.0.0.0", 80) == ("http://localhost:80/", ("http://198.51.100.7:80/", "http://192.0.2.2:80/"))
    assert urls("[::]", 80)[1][-1] == "http://[fd00::2]:80/"


@pytest.mark.parametrize(("host", "own"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]"), ("192.0.2.2", "192.0.2.2")])
def test_a_server_at_one_address_has_no_others(computer, host, own):
    assert urls(host, 7860) == (f"http://{own}:7860/", ())


def test_this_computer_has_addresses_or_none():
    assert all(socket.inet_aton(each) for each in network_addresses())
