"""The address at which the driver's servers listen; workers get the same, unless the site names a tunnel."""

from __future__ import annotations

import socket

import psutil

from steersman.executors.errors import BadSite
from steersman.executors.site import Site
from steersman.system.node import LOOPBACK

TUNNEL_S = 10.0  # a connection goes through a tunnel within so long


def driver_address(site: Site) -> str:
    """IPv4 address for bus and Parsl: loopback unless workers run on other machines.

    Raises: BadSite: the named interface has no address, or the host name means this machine only.
    """
    if site.parsl:
        from steersman.executors import python_site

        if given := python_site.address(site):
            return given
    elif not site.asks_for_nodes:
        return LOOPBACK
    if site.interface:
        return _of_interface(site)
    if site.tunnel:
        return LOOPBACK
    try:
        address = socket.gethostbyname(socket.gethostname())
    except OSError:
        address = ""
    if not address or address.startswith("127."):
        raise BadSite(
            site.name,
            f"the host name {socket.gethostname()!r} has no address that other machines can reach; "
            f"set `interface:` in the site file to one of {', '.join(_interfaces())}",
        )
    return address


def try_tunnel(site: Site) -> None:
    """Send a connection through the tunnel of a site, at the first of its ports that is free.

    Raises: BadSite: it does not arrive here.
    """
    here, ports = driver_address(site), site.ports or (0, -1)
    for port in range(ports[0], ports[1] + 1):
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.settimeout(TUNNEL_S)
            try:
                server.bind((here, port))
            except OSError:  # another run's
                continue
            server.listen()
            try:
                with socket.create_connection((site.tunnel, port), TUNNEL_S):
                    server.accept()[0].close()
            except OSError as error:
                words = f"a connection to {site.tunnel}:{port} does not arrive at {here}:{port} ({error})"
                cure = "start the tunnel first; a tunnel of ssh also needs GatewayPorts clientspecified at the gateway"
                raise BadSite(site.name, f"tunnel: {words}: {cure}") from None
            return


def _of_interface(site: Site) -> str:
    addresses = _interfaces()
    if site.interface not in addresses:
        raise BadSite(site.name, f"interface = {site.interface}: this machine has {', '.join(addresses)}")
    return addresses[site.interface]


def _interfaces() -> dict[str, str]:
    return {
        name: address.address
        for name, addresses in psutil.net_if_addrs().items()
        for address in addresses
        if address.family == socket.AF_INET
    }
