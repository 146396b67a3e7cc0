"""Which network addresses a workflow may reach. Pure: the caller resolves names and connects.

A document, or input from outside, may name any host. Requests must therefore not reach addresses of this machine or its
network: loopback, private networks, link-local and metadata services, and all of these in disguise (mapped, translated
or tunnelled IPv6, and unusual notations of IPv4). Every address that is not public is refused.

Above it: `executors.outbound.guarded_transport` checks before every connection, and connects to the address that was
checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

__all__ = ["Address", "AddressDenied", "AddressGuard", "literal_address"]

Address: TypeAlias = IPv4Address | IPv6Address
_Network: TypeAlias = IPv4Network | IPv6Network

# What `allow_private` opens: this machine, its network, and address space shared by a provider's customers.
_PRIVATE_NETWORKS: tuple[_Network, ...] = (
    IPv4Network("10.0.0.0/8"),
    IPv4Network("172.16.0.0/12"),
    IPv4Network("192.168.0.0/16"),
    IPv4Network("127.0.0.0/8"),
    IPv4Network("100.64.0.0/10"),
    IPv6Network("::1/128"),
    IPv6Network("fc00::/7"),
    IPv6Network("fec0::/10"),
)
# Where clouds serve credentials and settings to any caller; some of these are private, some registered as public.
_METADATA_NETWORKS: tuple[_Network, ...] = (
    IPv4Network("169.254.169.254/32"),
    IPv4Network("169.254.170.2/32"),
    IPv4Network("100.100.100.200/32"),
    IPv4Network("168.63.129.16/32"),
    IPv4Network("192.0.0.0/24"),
    IPv6Network("fd00:ec2::/32"),
    IPv6Network("fd20:ce::254/128"),
)
# Neither private nor usable as a destination: relays, translation within a site, segment routing.
_UNUSABLE_NETWORKS: tuple[_Network, ...] = (
    IPv4Network("192.88.99.0/24"),
    IPv6Network("64:ff9b:1::/48"),
    IPv6Network("5f00::/16"),
)
_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")
# The last label of a name is never a number, so a host that ends in one is an IPv4 address in some notation.
_NUMERIC_ENDING = re.compile(r"(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)\.?$", re.IGNORECASE)
_HOST_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?\.?", re.IGNORECASE)


class AddressDenied(Exception):
    """The host may not be reached from a workflow; the message says why."""


@dataclass(frozen=True, slots=True)
class AddressGuard:
    """Decides what may be reached. Hosts that an operator allows by name or network are always allowed.

    `allow_private` opens private networks, loopback and shared address space, but neither metadata services nor
    link-local addresses; those must be allowed one by one. `allow_hosts` takes names (`billing.internal`), names with a
    wildcard (`*.internal`), addresses and networks (`10.1.0.0/16`).
    """

    allow_private: bool = False
    allow_hosts: Sequence[str] = ()
    _names: frozenset[str] = field(init=False)
    _suffixes: tuple[str, ...] = field(init=False)
    _networks: tuple[_Network, ...] = field(init=False)

    def __post_init__(self) -> None:
        names, suffixes, networks = set(), [], []
        for item in self.allow_hosts:
            network = _network(item)
            if network is not None:
                networks.append(network)
            elif item.startswith("*."):
                suffixes.append(item[1:].lower())
            elif _HOST_NAME.fullmatch(item):
                names.add(item.lower().removesuffix("."))
            else:
                raise ValueError(f"`{item}` is neither a host name, nor *.name, nor an address or network")
        object.__setattr__(self, "_names", frozenset(names))
        object.__setattr__(self, "_suffixes", tuple(suffixes))
        object.__setattr__(self, "_networks", tuple(networks))

    def check(self, host: str, addresses: Iterable[Address]) -> list[Address]:
        """Return the addresses of a host if all of them are allowed; otherwise raise `AddressDenied`.

        One bad address among good ones refuses the host: a public name that also points inwards is a mistake or a trap.
        """
        found = list(addresses)
        name = host.lower().removesuffix(".")
        if name in self._names or name.endswith(self._suffixes):
            return found
        for address in found:
            reason = self._refusal(address)
            if reason is not None:
                raise AddressDenied(f"{host} is at {reason}, which workflows may not reach")
        return found

    def _refusal(self, address: Address) -> str | None:
        if _within(address, self._networks):
            return None
        inner = _embedded(address)
        if inner is not None:
            return self._refusal(inner)
        if _within(address, _METADATA_NETWORKS):
            return "an address where clouds serve their secrets"
        if _within(address, _PRIVATE_NETWORKS):
            return None if self.allow_private else "a private address"
        return _not_public(address)


def literal_address(host: str) -> Address | None:
    """Return the address that a host denotes, or None for a name.

    Raises `AddressDenied` for an address in disguise and for text that is not a host.
    """
    try:
        return ip_address(host)
    except ValueError:
        pass
    if _NUMERIC_ENDING.search(host):
        raise AddressDenied(f"{host} is an address in an unusual notation; write it as four decimal numbers")
    if not _HOST_NAME.fullmatch(host):
        raise AddressDenied(f"`{host}` is not a host name")
    return None


def _network(text: str) -> _Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


def _embedded(address: Address) -> IPv4Address | None:
    """Return the IPv4 address embedded in an IPv6 address, in any of the known forms."""
    if isinstance(address, IPv4Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return None


def _within(address: Address, networks: Iterable[_Network]) -> bool:
    return any(address in network for network in networks if network.version == address.version)


def _not_public(address: Address) -> str | None:
    kinds = (
        (address.is_link_local, "a link-local address"),
        (address.is_multicast, "a multicast address"),
        (address.is_unspecified, "the unspecified address"),
        (not address.is_global or address.is_reserved, "an address that is not public"),
        (_within(address, _UNUSABLE_NETWORKS), "an address that is not public"),
    )
    return next((message for is_kind, message in kinds if is_kind), None)
