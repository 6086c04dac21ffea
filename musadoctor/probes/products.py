"""What is known of a PCI device id of Moore Threads, from ``products.toml``."""

import functools
import importlib
import pkgutil
import sys
from typing import NamedTuple, cast


class Product(NamedTuple):
    """One row of the table; what no source settles is ``None``."""

    name: str | None
    """As ``mthreads-gmi`` prints it: ``MTT S5000``."""
    architecture: str | None
    """As ``mcc`` names it: ``mp_31``."""
    memory_mib: int | None


def product(device_id: str) -> Product:
    """The product of a device id of four hexadecimal digits, all ``None`` for an unlisted one."""
    return _table().get(device_id, Product(None, None, None))


def by_name(name: str) -> Product:
    """The product of a name; what the ids of that name do not agree on is ``None``."""
    rows = [row for row in _table().values() if row.name == name]
    architectures = {row.architecture for row in rows}
    sizes = {row.memory_mib for row in rows}
    return Product(
        name if rows else None,
        architectures.pop() if len(architectures) == 1 else None,
        sizes.pop() if len(sizes) == 1 else None,
    )


@functools.cache
def _table() -> dict[str, Product]:
    text = cast("bytes", pkgutil.get_data(__name__, "products.toml")).decode()
    # Not imported above: it takes 12 ms, and most machines that ask have no such card.
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    rows = cast("list[dict[str, object]]", toml.loads(text)["product"])
    return {
        cast("str", row["id"]): Product(
            cast("str | None", row.get("product")),
            cast("str | None", row.get("architecture")),
            cast("int | None", row.get("memory_mib")),
        )
        for row in rows
    }
