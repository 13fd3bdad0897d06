"""A device that is not there: tensors that say they live on `cuda:0` and compute on the CPU, under CUDA's rules.

Inside `PretendedDevice()`, a tensor that is made on or moved to cuda is a `Pretended`. Every operation on it is done by
the CPU on the tensor that it holds, so a program gives the bits of a CPU run, if it takes the same path. These rules
are CUDA's; where one is broken, a RuntimeError or TypeError names the operation:

- An operation has all its tensors on one device. There are four exceptions:
  - A CPU tensor without dimensions counts as a number in an operation on elements (`x * t`, `torch.where`), and as the
    value in `x[..] = t`, `fill_` and `masked_fill`. It counts as a tensor everywhere else, also in the lists of a fused
    optimiser, whose kernel reads the step count from the device.
  - A tensor on the device may be indexed by tensors on the CPU (`x[index]`, `x[index] = ..`): they are moved. A CPU
    tensor may not be indexed by tensors on the device. `index_select`, `gather`, `scatter` and an embedding move none.
  - `copy_` and everything that becomes `_to_copy` (`to`, `cpu`) move between devices.
- Nothing is written into a CPU tensor from the device, but by `copy_`.
- `numpy()` and `numpy.asarray` refuse a tensor on the device; `item`, `tolist`, `float`, `bool` and `cpu` work.

Not pretended: streams, memory, random numbers, kernels that only one of the two devices has, and their rounding.

How it works: `torch.Tensor._make_wrapper_subclass` makes a tensor without data, whose operations come to
`__torch_dispatch__`. A CPU build of torch has no device guard for CUDA, which autograd asks for, but one for `meta`.
So to torch's C++ code the device is `meta`; Python code reads `cuda:0`. Tensors that no argument brings (`torch.zeros`)
are caught by a mode. It has the key of fake tensors, for which torch does not start CUDA.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import cache
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from plat_rl.embedded.transformer import layers

DEVICE = torch.device("cuda", 0)
INSIDE = torch.device("meta")  # what C++ code sees
aten = torch.ops.aten
MOVES = (aten._to_copy, aten.copy_)
INDEXED = (aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_, aten._unsafe_index)
TAKES_A_NUMBER = (*INDEXED, aten.fill_, aten.fill, aten.masked_fill, aten.masked_fill_)


class Pretended(torch.Tensor):
    """A tensor that says it is on `cuda:0`. `on_cpu`: the CPU tensor that it computes with."""

    on_cpu: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Pretended:
        with torch.inference_mode(inner.is_inference()):  # in inference mode, a view of an ordinary tensor is ordinary
            own = torch.Tensor._make_wrapper_subclass(
                cls,
                inner.shape,
                strides=inner.stride(),
                storage_offset=inner.storage_offset(),
                dtype=inner.dtype,
                device=INSIDE,
            )
        own.on_cpu = inner
        return own

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(func, args, kwargs or {})

    device = property(lambda self: DEVICE)
    is_cuda = property(lambda self: True)
    is_cpu = property(lambda self: False)
    is_meta = property(lambda self: False)

    def numpy(self, **options: Any) -> Any:
        raise TypeError(f"can't convert {DEVICE} device type tensor to numpy. Use Tensor.cpu() first.")

    __array__ = numpy

    def tolist(self) -> Any:
        return self.on_cpu.tolist()

    def __repr__(self, **options: Any) -> str:
        return f"Pretended({self.on_cpu!r})"


class PretendedDevice:
    """A context manager in which there is a device `cuda:0`; `operations` counts what it has computed, by name."""

    def __init__(self) -> None:
        self.operations: dict[str, int] = {}

    def __enter__(self) -> PretendedDevice:
        self._stack = ExitStack()
        lifts = torch._C._only_lift_cpu_tensors()
        torch._C._set_only_lift_cpu_tensors(
            True
        )  # torch.tensor(.., device=cuda) makes its tensor on the CPU and moves it
        self._stack.callback(torch._C._set_only_lift_cpu_tensors, lifts)
        self._stack.callback(_forget_cached_tensors)
        _forget_cached_tensors()
        self._stack.enter_context(_Factories(self.operations))
        self._stack.enter_context(_NumberedDevice())
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()


def _forget_cached_tensors() -> None:
    """A pretended tensor must not meet a real device, nor the other way round."""
    layers._rope_tables.clear()
    layers._scalar.cache_clear()


class _NumberedDevice(TorchFunctionMode):
    """Write `cuda` as `cuda:0`, as torch does once CUDA has started, and move nothing that is there already."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if "device" in kwargs:
            kwargs["device"] = _numbered(kwargs["device"])
        if func is torch.Tensor.to:
            args = tuple(map(_numbered, args))
            if isinstance(args[0], Pretended):
                args = tuple(value for value in args if value is args[0] or value != DEVICE)
                kwargs = {name: value for name, value in kwargs.items() if value != DEVICE}
                if len(args) == 1 and not kwargs:
                    return args[0]
        return func(*args, **kwargs)


def _numbered(value: Any) -> Any:
    if isinstance(value, torch.device):
        return DEVICE if value.type == "cuda" else value
    return DEVICE if isinstance(value, str) and value in ("cuda", "cuda:0") else value


class _Factories(TorchDispatchMode):
    """Catches every operation, also those without a tensor among their arguments."""

    def __init__(self, operations: dict[str, int]) -> None:
        super().__init__()
        self._mode_key = torch._C._TorchDispatchModeKey.FAKE
        self.operations = operations

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        operation = _operation(func)
        if operation.is_composed:
            with self:  # in inference mode torch leaves it to us to take an operation apart
                return func.decompose(*args, **kwargs)
        if any(isinstance(value, Pretended) for value in _tensors((*args, *kwargs.values()))) or "device" in kwargs:
            self.operations[operation.name] = self.operations.get(operation.name, 0) + 1
        return _computed(func, args, kwargs)


class _Operation(NamedTuple):
    """Facts about one overload of an operation.

    arguments       (name, True if it is written) of each
    written         the arguments that are what it returns; empty if it returns new tensors
    takes_a_number  a CPU tensor without dimensions may be among its arguments
    """

    name: str
    arguments: list[tuple[str, bool]]
    written: list[str]
    takes_a_number: bool
    is_composed: bool


@cache
def _operation(func: Any) -> _Operation:
    arguments = [
        (each.name, each.alias_info is not None and each.alias_info.is_write) for each in func._schema.arguments
    ]
    returned = [each.alias_info is not None and each.alias_info.is_write for each in func._schema.returns]
    written = [name for name, is_written in arguments if is_written] if returned and all(returned) else []
    takes_a_number = torch.Tag.pointwise in func.tags or func.overloadpacket in TAKES_A_NUMBER
    is_composed = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")
    return _Operation(str(func.overloadpacket), arguments, written, takes_a_number, is_composed)


def _tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors among values, also from lists of them."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _inner(value: Any) -> Any:
    if isinstance(value, Pretended):
        return value.on_cpu
    return type(value)(map(_inner, value)) if type(value) in (list, tuple) else value


def _outer(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return Pretended(value)
    return type(value)(map(_outer, value)) if type(value) in (list, tuple) else value


def _computed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Do one operation on the CPU, if CUDA would do it; its results are on the device that CUDA would leave them on."""
    operation = _operation(func)
    is_there = any(isinstance(value, Pretended) for value in _tensors((*args, *kwargs.values())))
    if is_there:
        _check(func, args, kwargs)
    device = kwargs.get("device")
    inner_kwargs = {name: _inner(value) for name, value in kwargs.items()}
    if device is not None:
        inner_kwargs["device"] = torch.device("cpu")
        is_there = torch.device(device).type in (DEVICE.type, INSIDE.type)
    if func is aten._conj.default:  # the mark of a conjugate that is not computed yet would be lost
        func = aten.conj_physical.default
    result = func(*map(_inner, args), **inner_kwargs)
    if operation.written:
        given = dict(zip((name for name, _ in operation.arguments), args, strict=False)) | kwargs
        written = [given[name] for name in operation.written]
        assert all(value.on_cpu.shape == value.shape for value in _tensors(written) if isinstance(value, Pretended))
        return written[0] if len(written) == 1 else tuple(written)
    return _outer(result) if is_there else result


def _check(func: Any, args: Any, kwargs: dict[str, Any]) -> None:
    """Raise RuntimeError if an operation on the device breaks a rule of CUDA (see the module)."""
    packet, operation = func.overloadpacket, _operation(func)
    if packet in MOVES:
        return
    given = dict(zip((name for name, _ in operation.arguments), args, strict=False)) | kwargs
    for name, is_written in operation.arguments:
        for tensor in _tensors((given.get(name),)):
            if isinstance(tensor, Pretended):
                continue
            is_moved = packet in INDEXED and name == "indices" and isinstance(args[0], Pretended)
            if is_written or not (is_moved or (operation.takes_a_number and tensor.ndim == 0)):
                raise RuntimeError(
                    f"Expected all tensors to be on the same device, but {name} of {func} is on the CPU: "
                    f"shape {tuple(tensor.shape)}, others on {DEVICE}"
                )
