"""Which addresses a fetch may reach: public ones, and hosts that the settings name.

A URL chooses whom we talk to, and so does every redirect and every DNS answer. Therefore the check
is made on the address that is connected to, and nowhere else: a name is resolved once, its
addresses are checked, and the connection is made to one of them. What the URL looks like (decimal,
octal or short numbers, other digits, a name) does not matter.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Collection, Iterable
from typing import Any

import httpcore
import httpx

from components.errors import ClaimflowError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Beside what `is_global` refuses, in some version of Python or in all of them.
_REFUSED = [
    ipaddress.ip_network(network)
    for network in (
        "192.0.0.0/24",  # protocol assignments
        "192.88.99.0/24",  # relays of 6to4
        "2001::/23",  # protocol assignments, Teredo's tunnels among them
        "3fff::/20",  # documentation
    )
]
_UNICAST = ipaddress.ip_network("2000::/3")  # all of IPv6 that is given out
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_ISATAP = (0x00005EFE, 0x02005EFE)  # third quarter of an address that ends in one of IPv4


class Refused(httpcore.ConnectError):
    """An address that may not be reached."""


def refusal(address: Address) -> str | None:
    """Why an address may not be reached, or None for a public one.

    IPv6 forms that carry an IPv4 address (mapped, NAT64, 6to4, ISATAP) are as good as that one.
    """
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            return f"{address} is of one link"
        inner = _inner(address)
        if inner is not None and (reason := refusal(inner)):
            return f"{address} leads to {inner}: {reason}"
        if address.ipv4_mapped or address in _NAT64:
            return None
        if address not in _UNICAST:
            return f"{address} is not public"
    if (
        not address.is_global
        or address.is_multicast
        or address.is_reserved
        or any(address in network for network in _REFUSED)
    ):
        return f"{address} is not public"
    return None


def _inner(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that packets to an IPv6 address end at."""
    if address.ipv4_mapped or address.sixtofour:
        return address.ipv4_mapped or address.sixtofour
    number = int(address)
    if address in _NAT64 or (number >> 32) & 0xFFFFFFFF in _ISATAP:
        return ipaddress.IPv4Address(number & 0xFFFFFFFF)
    return None


def allowed_hosts(names: Iterable[str]) -> frozenset[str]:
    """`host` or `host:port` as URLs write them, in the form of `GuardedNetwork`."""
    hosts = set()
    for name in names:
        try:
            url = httpx.URL(f"//{name}")
            if not re.fullmatch(r"[\w.:-]+", url.host) or url.raw_path != b"/" or url.userinfo:
                raise httpx.InvalidURL("more than a host")
        except (httpx.InvalidURL, ValueError):
            raise ClaimflowError(
                f"allow: '{name}' is no host: give host or host:port, as in wiki.local:8080."
            ) from None
        host = url.raw_host.decode()
        hosts.add(f"{host} {url.port}" if url.port else host)
    return frozenset(hosts)


def page_url(url: str) -> str:
    """The form of a URL in which it is asked for, and known: equal for equal requests.

    Raises ClaimflowError for what can't be fetched.
    """
    try:
        parsed = httpx.URL(url.strip())
        host = parsed.host  # read late, from punycode: with "xn--" it may be none
    except (httpx.InvalidURL, ValueError) as error:
        raise ClaimflowError(f"no URL: {error}") from None
    if parsed.scheme not in ("http", "https") or not host:
        raise ClaimflowError("not an http or https URL")
    if parsed.userinfo:
        raise ClaimflowError("it names a user, and pages are fetched as nobody")
    return str(parsed.copy_with(raw_path=parsed.raw_path, fragment=None))  # a path of "/" at least


class GuardedNetwork(httpcore.AsyncNetworkBackend):
    """Connects to public addresses, and to whatever the hosts in `allow` resolve to.

    The certificate is still checked against the name in the URL. Raises Refused, or ConnectError
    when a name has no address or none answers.
    """

    def __init__(self, allow: Collection[str] = ()) -> None:
        self._allow = allow
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                addresses = await resolve(host, port)
        except TimeoutError:
            raise httpcore.ConnectTimeout(f"no DNS answer for {host}") from None
        if host not in self._allow and f"{host} {port}" not in self._allow:
            for address in addresses:
                if reason := refusal(address):
                    raise Refused(f"{host} is refused: {reason}. `allow` can name the host")
        for address in addresses:
            try:
                return await self._network.connect_tcp(
                    str(address), port, timeout, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    async def connect_unix_socket(self, *args: Any, **kwargs: Any) -> httpcore.AsyncNetworkStream:
        raise Refused("a socket of this machine")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def resolve(host: str, port: int) -> list[Address]:
    """The addresses of a host, one at least, in the order to try them."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore.ConnectError(f"{host} has no address: {error}") from None
    addresses = []
    for _, _, _, _, where in found:
        text = str(where[0])
        if len(where) == 4 and where[3] and "%" not in text:
            text += f"%{where[3]}"
        addresses.append(ipaddress.ip_address(text))
    return list(dict.fromkeys(addresses))


def guarded_transport(allow: Collection[str], connections: int) -> httpx.AsyncHTTPTransport:
    """An httpx transport over `GuardedNetwork`; proxies of the environment are not used, since
    they would resolve names themselves.

    Each request has a connection of its own. What a server sends beyond a reply's Content-Length,
    then or later, would be read as the next reply on that connection: as another page's text.
    """
    context = httpx.create_ssl_context(trust_env=False)
    transport = httpx.AsyncHTTPTransport(verify=context, trust_env=False)
    # httpx has no public way to give a network; without this name there would be no guard.
    if not hasattr(transport, "_pool"):
        raise ClaimflowError("This version of httpx can't be guarded: install httpx 0.28.")
    transport._pool = httpcore.AsyncConnectionPool(
        ssl_context=context,
        max_connections=connections,
        max_keepalive_connections=0,
        network_backend=GuardedNetwork(allow),
    )
    return transport
