"""Coefficients in rows -> products of fields on the grid -> coefficients: the inner loop of a solver on the sphere.

A field is (2, 2, positions) real: real and imaginary part; coefficients with l - m even, then odd; in blocks of orders.
Rows lie side by side without the triangle's empty half, so that what is done to them is done along contiguous numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from steersman.models.sphere.harmonics import SphericalHarmonics

LINE_BYTES, SHIFT_BYTES = 64, 256

Function = Callable[[torch.Tensor, torch.Tensor], object]  # fields on the grid, where to write their products
Unfolding = list[tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]]  # even, odd -> north, south


class Packing:
    """Where the coefficients (order, degree - order) of a sphere stand in a row.

    Attributes:
        places: of each block of orders, its positions.
        positions: how many there are.
    """

    def __init__(self, sphere: SphericalHarmonics) -> None:
        self._shape = sphere.degree.shape
        sizes = [(block.end - block.first) * block.pairs for block in sphere.blocks]
        ends = np.cumsum(sizes)
        self.positions = int(ends[-1])
        self.places = [slice(int(end) - size, int(end)) for end, size in zip(ends, sizes, strict=True)]
        numbers = np.arange(sphere.degree.size).reshape(self._shape)
        places = [
            numbers[block.first : block.end, parity : 2 * block.pairs : 2].ravel()
            for parity in (0, 1)
            for block in sphere.blocks
        ]
        self._index = torch.as_tensor(np.concatenate(places), device=sphere.device)
        self._like = torch.empty(0, dtype=sphere.dtype, device=sphere.device)

    def rows(self, spectral: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Complex (order, degree - order, fields) -> (fields, 2, 2, positions), into memory that is there if given."""
        numbers = torch.view_as_real(spectral).flatten(2).flatten(0, 1)
        rows = self._like.new_empty(spectral.shape[2], 2, 2, self.positions) if out is None else out
        # torch transposes a matrix in tiles, and number by number what has more axes.
        rows.view(-1, len(self._index)).copy_(torch.index_select(numbers, 0, self._index).t())
        return rows

    def spectral(self, rows: torch.Tensor) -> torch.Tensor:
        """And back."""
        numbers = rows.new_zeros(self._shape[0] * self._shape[1], 2 * len(rows))
        numbers.index_copy_(0, self._index, rows.reshape(-1, len(self._index)).t().contiguous())
        return torch.view_as_complex(numbers.view(*self._shape, -1, 2))

    def factors(self, values: np.ndarray) -> torch.Tensor:
        """Real factors (order, degree - order) as (2, positions), which multiply rows."""
        packed = torch.as_tensor(np.ascontiguousarray(values).ravel()).to(self._like)[self._index]
        return torch.unflatten(packed, 0, (2, self.positions))


class GridProducts:
    """Products of fields on the grid, from coefficients to coefficients; its memory is taken once, for all calls.

    Legendre products are of all members together, for their tables are read once; on the grid it is one member after
    another, for its fields stay in a processor's cache, or more at once, for a GPU waits for whoever asks it little by
    little. There, northern and southern latitudes are two halves that both begin at their pole, so nothing is turned
    around to fold one onto the other. What belongs to one member lies together. What is not needed any more is written
    over, for the less a step goes through, the more of it stays in the cache: coefficients of products take the place
    of those of fields, a member's Fourier coefficients of products that of its own and of members before it.

    Args:
        fields, products, members: how many.
        together: members that are on the grid at once, a divisor of them.
        factor: (northern latitudes,), symmetric about the equator, that all products are multiplied with.
    Attributes:
        rows: (fields, members, 2, 2, positions), to be written before each call.
    """

    def __init__(
        self, sphere: SphericalHarmonics, packing: Packing, *, fields: int, products: int, members: int,
        factor: np.ndarray, together: int = 1,
    ) -> None:  # fmt: skip
        zeros = functools.partial(torch.zeros, dtype=sphere.dtype, device=sphere.device)
        self._length, self._orders, half = sphere.columns, sphere.orders, sphere.rows // 2
        used, produced = 2 * fields * members, 2 * products * members
        most = max(used, produced)
        coefficients, fourier = zeros(most, 2, packing.positions), _fourier(zeros, self._orders, most, half)
        rows, found = coefficients[:used], coefficients[:produced]
        circles, parities = fourier[:, :, most - used :], fourier[:, :, :produced]
        self.rows = rows.view(members, fields, 2, 2, packing.positions).transpose(0, 1)
        self._found = found.view(members, products, 2, 2, packing.positions).transpose(0, 1)
        along = zeros(fields, together, 2, half, sphere.rows + 1, 2)
        self._along, self._products = torch.view_as_complex(along), zeros(products, together, 2, half, sphere.columns)
        even, odd = torch.unflatten(circles, 2, (-1, together, fields, 2)).permute(0, 2, 5, 4, 3, 6, 1)
        north, south = along[..., : self._orders, :].permute(2, 5, 0, 1, 3, 4)
        self._unfolding = [list(zip(*each, north, south, strict=True)) for each in zip(even, odd, strict=True)]
        self._folding = torch.unflatten(parities, 2, (-1, together, products, 2)).unbind(2)
        threadpool_limits(torch.get_num_threads(), "blas")  # numpy would wait for as many threads as there are cores
        self._synthesis, self._analysis = [], []
        # The mean along a circle is in the tables, for a Fourier transform that divides takes a tenth longer.
        scale = torch.as_tensor(factor / sphere.columns).to(rows)
        product = by_numpy if sphere.device.type == "cpu" else by_torch
        for block, place in zip(sphere.blocks, packing.places, strict=True):
            size = (block.end - block.first, block.pairs)
            given, into = (torch.unflatten(each[:, :, place], 2, size).permute(1, 2, 0, 3) for each in (rows, found))
            circle, folded = (each[:, block.first : block.end] for each in (circles, parities))
            table = (block.weighted * scale).transpose(2, 3).contiguous()
            self._synthesis.append(product(given, block.legendre, into=circle))
            self._analysis.append(product(folded, table, into=into))

    def __call__(self, function: Function) -> torch.Tensor:
        """Coefficients of products that a function writes for fields, (number, members, 2, latitude, longitude) both.

        Returns: (products, members, 2, 2, positions), valid until rows are written again.
        """
        for multiply in self._synthesis:
            multiply()
        for unfolding, folded in zip(self._unfolding, self._folding, strict=True):
            self._on_grid(function, unfolding, folded)
        for multiply in self._analysis:
            multiply()
        return self._found

    def _on_grid(self, function: Function, unfolding: Unfolding, folded: torch.Tensor) -> None:
        """Way of a member over the grid, from parities to parities; its transforms' memory is the next member's."""
        for even, odd, north, south in unfolding:
            torch.add(even, odd, out=north)
            torch.sub(even, odd, out=south)
        function(torch.fft.irfft(self._along, n=self._length, dim=-1, norm="forward"), self._products)
        turned = torch.fft.rfft(self._products, dim=-1)[..., : self._orders]
        north, south = torch.view_as_real(turned).permute(2, 4, 1, 0, 5, 3)
        torch.add(north, south, out=folded[0])
        torch.sub(north, south, out=folded[1])


def by_numpy(left: torch.Tensor, right: torch.Tensor, *, into: torch.Tensor) -> Callable[[], object]:
    """A function that multiplies matrices (parity, order, row, column) where they are.

    Many small ones take numpy less time than torch, and it writes at once to what is not contiguous.
    """
    return functools.partial(np.matmul, left.numpy(), right.numpy(), out=into.numpy())


def by_torch(left: torch.Tensor, right: torch.Tensor, *, into: torch.Tensor) -> Callable[[], object]:
    """The same on a GPU."""
    return lambda: [torch.bmm(*each, out=out) for *each, out in zip(left, right, into, strict=True)]


def _fourier(zeros: Callable[..., torch.Tensor], orders: int, rows: int, latitudes: int) -> torch.Tensor:
    """Memory (2, orders, rows, latitudes) for both parities, in which a row's orders lie side by side.

    So a member is in few places. Orders are read one after another, both parities together, and those whose distance is
    a power of two share a few places of the cache: so between rows lies a cache line, and the second parity lies 256
    bytes further than it would.
    """
    line, shift = (each // zeros(0).element_size() for each in (LINE_BYTES, SHIFT_BYTES))
    size = rows * (orders * latitudes + line)
    strides = (size + shift, latitudes, orders * latitudes + line, 1)
    return zeros(2 * size + shift).as_strided((2, orders, rows, latitudes), strides)
