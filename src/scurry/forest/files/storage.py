"""Storage: the ``.scurry`` container, a zip of ``manifest.json`` and ``.npy`` arrays, all stored uncompressed.

Nothing is executed on load, and nothing is allocated that the file does not hold: members are not compressed, so
their sizes are bounded by the file's own, each array's header is checked against its member's size before use, and so
is what a manifest would take in memory.
"""

from __future__ import annotations

import errno
import io
import json
import math
import mmap
import os
import re
import stat
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os import PathLike
from types import UnionType
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from scurry.errors import FormatError, InputError, MissingFileError, OutputError

# Only writers need them, and they take a fifth of the time of `import scurry`.
if TYPE_CHECKING:
    from pathlib import Path
    from zipfile import ZipFile

FORMAT_VERSION = 2
MANIFEST = "manifest.json"
MAX_MEMBERS = 256  # several times what any kind of file has; more would only slow down reading a hostile one
_MAX_MANIFEST_BYTES = 64 * 2**20
# Python needs 60 to 200 bytes for the two characters of an empty list or object. Our own manifests have far more text
# for each than this.
_BYTES_OF_A_LIST, _BYTES_OF_AN_OBJECT, _BYTES_FREE = 16, 36, 2**16
# What Python takes at most for a number or text in a list, and for a key with its place, besides their characters.
_BYTES_OF_A_VALUE, _BYTES_OF_A_KEY = 57, 110
# Besides 4 times the bytes of a file: 100,000 short names fit, whatever else the file has.
_BYTES_TO_PARSE = 4 * 2**20
# One character beyond 16 bits makes Python take 4 bytes for each of its text.
_WIDE = re.compile(rb"\\u[dD][89abAB]")
_TEXT_IN_JSON = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_SOME_JSON = re.compile(rb'(?:[^"]++|"(?:[^"\\]|\\.)*+"){1,4000}+', re.DOTALL)
_MAX_BYTES_WITH_BRACKETS = 4 * 2**20
# A double holds whole numbers up to 2**53; what is larger, or longer than any number we write, is no field of ours.
_MAX_NUMBER = 2.0**1023
_MAPPED_FROM = 2**16  # smaller files are read at once
# On Windows, a file that is mapped cannot be replaced.
_CAN_MAP = os.name == "posix"
_ALIGNMENT, _BYTES_OF_A_MEMBER = 64, 30
_PADDING = b"\x35\xd9"  # the extra field by which zipalign pads members
# The parts of a zip archive that list its members, and what stands for a number of a large one that lies elsewhere.
_END, _END_OF_LARGE = struct.Struct("<4s6xH2LH"), struct.Struct("<4s28x3Q")
_LOCATOR, _MEMBER = struct.Struct("<8xQ4x"), struct.Struct("<4s4x2H4x3L3H8xL")
_IS_ELSEWHERE = 0xFFFFFFFF
_TIMESTAMP = (1980, 1, 1, 0, 0, 0)  # always the same, so that equal content gives equal files
# Version 1.0 of the .npy format exactly as numpy writes it for these types; anything else raises an error unparsed.
_NPY_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(?P<dtype>\|[bu]1|<u2|<[fiu][48])', 'fortran_order': False, "
    rb"'shape': \((?P<shape>(?:\d{1,18},? ?){0,4})\), \} *\n",
    re.DOTALL,
)


class Container:
    """An opened ``.scurry`` file: its kind, its header and its arrays."""

    def __init__(
        self,
        path: str,
        n_bytes: int,
        kind: str,
        header: dict[str, Any],
        arrays: dict[str, NDArray[Any]],
        checksums: dict[str, int],
        mapping: mmap.mmap | None = None,
    ) -> None:
        self.path, self.kind, self.header, self._arrays = path, kind, header, arrays
        self.n_bytes, self._checksums, self._mapping = n_bytes, checksums, mapping

    @contextmanager
    def reading(self, what: str) -> Iterator[None]:
        """Turn errors raised while a `what` is made of the content into a FormatError that names the file."""
        try:
            yield
        except (InputError, FormatError) as error:
            raise FormatError(f"{self.path} does not hold a sound {what}: {error}") from error

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays, for a reader that checks them itself."""
        return dict(self._arrays)

    def has_array(self, name: str) -> bool:
        """Return whether there is an array `name`."""
        return name in self._arrays

    def array(self, name: str, dtype: type) -> NDArray[Any]:
        """Return the array `name`, which must have `dtype`."""
        if name not in self._arrays:
            raise FormatError(f"the file lacks the array {name!r}")
        array = self._arrays[name]
        if array.dtype != dtype or array.ndim == 0:
            raise FormatError(
                f"array {name!r} has dtype {array.dtype}, shape {array.shape}; expected {np.dtype(dtype)}"
            )
        return array

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def packed_array(self, name: str, dtypes: tuple[str, ...], ndim: int) -> NDArray[Any]:
        """Return the array `name`, which must have one of `dtypes` and `ndim` dimensions."""
        array = self._arrays.get(name)
        if array is None or array.dtype.str not in dtypes or array.ndim != ndim:
            raise FormatError(f"array {name!r} is missing, or not of type {' or '.join(dtypes)} and {ndim} dimensions")
        return array

    def checksum(self, name: str) -> int:
        """Return the CRC-32 of the member of an array, which was checked."""
        return self._checksums[name]

    def rest(self, names: Iterable[str]) -> None:
        """Let go of memory in which these arrays of a mapped file lie. Whoever reads them again reads them anew."""
        if self._mapping is None or not hasattr(mmap, "MADV_DONTNEED"):
            return
        start = np.frombuffer(self._mapping, np.uint8).ctypes.data
        for name in names:
            array = self._arrays[name]
            if array.nbytes < _MAPPED_FROM:  # the time that it takes would be worth more
                continue
            first = -((start - array.ctypes.data) // mmap.PAGESIZE) * mmap.PAGESIZE
            last = (array.ctypes.data - start + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
            if 0 <= first < last <= len(self._mapping):  # else it is smaller than a page, or a copy
                self._mapping.madvise(mmap.MADV_DONTNEED, first, last - first)

    def field(self, name: str, kind: type | UnionType) -> Any:
        """Return the header's entry `name`, which must be a `kind`."""
        value = self.header.get(name)
        # True is an int to Python, but not in a file.
        is_wanted = isinstance(value, kind) and (not isinstance(value, bool) or kind is bool)
        if name not in self.header or not is_wanted:
            raise FormatError(f"the file's field {name!r} is missing or not a {kind}")
        if isinstance(value, int | float) and not abs(value) < _MAX_NUMBER:
            raise FormatError(f"the file's field {name!r} is no number that a float can hold")
        return value

    def values(self, packed: dict[str, Any]) -> dict[str, NDArray[Any]]:
        """Return the arrays that `pack_values` wrote; all of them together must fit the size of the file."""
        fits = sum(map(_size_of_values, packed.values())) <= 4 * self.n_bytes
        return {name: unpack_values(values, fits) for name, values in packed.items()}


def write_container(
    path: str | PathLike[str],
    kind: str,
    header: dict[str, Any],
    arrays: dict[str, NDArray[Any]],
    *,
    durable: bool = False,
) -> None:
    """Write `header` and `arrays` to `path` in one move: a reader sees the old file or the new one.

    With `durable`, also after the machine loses power.
    """
    from pathlib import Path

    try:
        with replacing(Path(path), durable=durable) as temporary, temporary.open("xb") as stream:
            _write(stream, kind, header, arrays)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}; name a folder that exists") from error


@contextmanager
def replacing(target: Path, suffix: str = "", *, durable: bool = False) -> Iterator[Path]:
    """Yield the name of a file that takes the place of `target` if the block ends well, and is deleted otherwise.

    With `durable`, what was written is on the disk before its name is, and its name when the block has ended. Without,
    a machine that loses power may keep the name of a file and lose what is in it. It takes some milliseconds.
    """
    import secrets  # only writers need it, and it takes long

    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}{suffix}")
    try:
        yield temporary
        if durable:
            _sync(temporary)
        temporary.replace(target)
        if durable and os.name == "posix":  # elsewhere folders cannot be opened
            try:
                _sync(target.parent)
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that do not know of it
                    raise
    finally:
        temporary.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Wait until the disk holds a file, or the names in a folder."""
    opened = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def container_bytes(kind: str, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> bytes:
    """Return what `write_container` would write, for another process."""
    stream = io.BytesIO()
    _write(stream, kind, header, arrays)
    return stream.getvalue()


def _write(stream: BinaryIO, kind: str, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    manifest = {
        "format": "scurry",
        "version": FORMAT_VERSION,
        "kind": kind,
        "header": header,
        "arrays": sorted(arrays),
    }
    from zipfile import ZipFile

    with ZipFile(stream, "w") as archive:  # which stores members as they are
        _write_member(archive, MANIFEST, json.dumps(manifest, allow_nan=False, indent=1).encode())
        for name in sorted(arrays):
            buffer = io.BytesIO()
            npy.write_array(buffer, arrays[name], version=(1, 0), allow_pickle=False)
            _write_member(archive, f"{name}.npy", buffer.getbuffer())


def _write_member(archive: ZipFile, name: str, content: bytes | memoryview) -> None:
    """Write a member whose content begins at a multiple of 64 bytes, as a reader that maps the file needs it."""
    from zipfile import ZIP64_LIMIT, ZipInfo

    member = ZipInfo(name, _TIMESTAMP)
    large = 20 if len(content) * 1.05 > ZIP64_LIMIT else 0  # what zipfile adds then
    start = archive.fp.tell() + _BYTES_OF_A_MEMBER + len(name) + large  # type: ignore[union-attr]
    padding = (-start - len(_PADDING) - 2) % _ALIGNMENT
    member.extra = _PADDING + padding.to_bytes(2, "little") + bytes(padding)
    archive.writestr(member, content)


def checksum(array: NDArray[Any]) -> int:
    """Return the CRC-32 that the member of an array has in a file."""
    start, content = io.BytesIO(), np.ascontiguousarray(array)
    npy.write_array_header_1_0(start, npy.header_data_from_array_1_0(content))
    return zlib.crc32(content.view(np.uint8).data, zlib.crc32(start.getvalue()))


def digest(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> str:
    """Return the SHA-256 of a header and arrays, as hex."""
    import hashlib  # loading and predicting do without, and it takes long

    sha = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        sha.update(name.encode() + array.tobytes())
    return sha.hexdigest()


def read_container(path: str | PathLike[str]) -> Container:
    """Read and check a ``.scurry`` file.

    Raises
    ------
    FormatError
        If the file is truncated, corrupted, hostile or written by a newer version.
    MissingFileError
        If there is no such file.
    """
    name = os.fspath(path)
    try:
        # Before it is opened: that would wait for ever on a pipe.
        if not stat.S_ISREG(os.stat(name).st_mode):
            raise FormatError(f"{name} is a folder or a device, not a .scurry file")
        with open(name, "rb") as stream:
            n_bytes = os.fstat(stream.fileno()).st_size
            return _open(name, _map(stream) if n_bytes >= _MAPPED_FROM and _CAN_MAP else stream.read())
    except FileNotFoundError as error:
        raise MissingFileError(f"{name} does not exist; name a file written by save") from error
    except (OSError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise InputError(f"{name!r} cannot be read: {error}", argument="path") from error


def container_of(data: bytes) -> Container:
    """Return the container that `container_bytes` wrote."""
    return _open("the data received", data)


def _map(stream: BinaryIO) -> mmap.mmap:
    """Return a file as memory that is read from it when it is used, and that processes share."""
    return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)


def _open(name: str, data: bytes | mmap.mmap) -> Container:
    try:
        # Arrays keep what they need of a mapped file alive; it is closed with the last of them.
        return Container(name, len(data), *_read(memoryview(data)), None if isinstance(data, bytes) else data)
    except FormatError as error:
        raise FormatError(f"{name}: {error}") from error
    # What struct, texts and json raise on broken input.
    except (struct.error, ValueError, OverflowError, KeyError, TypeError) as error:
        raise FormatError(f"{name} is not a readable .scurry file: {error}") from error


def _read(data: memoryview) -> tuple[str, dict[str, Any], dict[str, NDArray[Any]], dict[str, int]]:
    members, file_size = _list_members(data), len(data)
    # Members that overlap would let a small file claim much memory.
    if sum(size for _, size, _ in members.values()) > file_size:
        raise FormatError("its members claim more bytes than the file has")
    if MANIFEST not in members or members[MANIFEST][1] > _MAX_MANIFEST_BYTES:
        raise FormatError(f"it has no {MANIFEST} of acceptable size")
    kind, header, listed = _manifest(bytes(_content(members, MANIFEST, data)), file_size)
    if {f"{name}.npy" for name in listed} | {MANIFEST} != set(members):
        raise FormatError("its members are not those its manifest lists")
    arrays = {name: _array(name, _content(members, f"{name}.npy", data)) for name in listed}
    return kind, header, arrays, {name: members[f"{name}.npy"][2] for name in listed}


def _list_members(data: memoryview) -> dict[str, tuple[int, int, int]]:
    """Return where each member of a zip archive begins, the bytes of its content and their checksum, by its name."""
    at = len(data) - _END.size
    if at < 0 or bytes(data[at : at + 4]) != b"PK\x05\x06":
        raise FormatError(
            "it does not end as a .scurry file does: it is cut off, or something else. Models of other libraries are "
            "read by scurry.from_model(path)"
        )
    _, n_members, size, start, n_comment = _END.unpack_from(data, at)
    if at >= _LOCATOR.size and bytes(data[at - _LOCATOR.size : at - _LOCATOR.size + 4]) == b"PK\x06\x07":
        (at,) = _LOCATOR.unpack_from(data, at - _LOCATOR.size)
        signature, n_members, size, start = _END_OF_LARGE.unpack_from(data, at)
        if signature != b"PK\x06\x06":
            raise FormatError("its list of members is damaged")
    if n_comment or start + size != at:
        raise FormatError("its list of members does not end where it should")
    members: dict[str, tuple[int, int, int]] = {}
    for _ in range(n_members if n_members <= MAX_MEMBERS else 0):
        signature, flags, method, crc, packed_size, size, n_name, n_extra, n_note, first = _MEMBER.unpack_from(
            data, start
        )
        start += _MEMBER.size
        name, extra = bytes(data[start : start + n_name]).decode(), data[start + n_name : start + n_name + n_extra]
        start += n_name + n_extra + n_note
        size, packed_size, first = _wide_numbers(extra, size, packed_size, first)
        if signature != b"PK\x01\x02":
            raise FormatError("its list of members is damaged")
        if method or flags & 0x1 or packed_size != size:
            raise FormatError(f"member {name!r} is compressed or encrypted")
        members[name] = first, size, crc
    if len(members) != n_members:
        raise FormatError(f"{n_members} members, some perhaps twice; at most {MAX_MEMBERS} distinct ones are accepted")
    return members


def _wide_numbers(extra: memoryview, *numbers: int) -> list[int]:
    """Return numbers of a member, those of large archives from its extra field."""
    while len(extra) >= 4:
        tag, n_bytes = struct.unpack_from("<2H", extra)
        if tag == 1:
            wide = iter(struct.unpack_from(f"<{n_bytes // 8}Q", extra, 4))
            return [next(wide, number) if number == _IS_ELSEWHERE else number for number in numbers]
        extra = extra[4 + n_bytes :]
    return list(numbers)


def _content(members: dict[str, tuple[int, int, int]], name: str, data: memoryview) -> memoryview:
    """Return the content of a member where it lies, if its checksum is right."""
    at, size, crc = members[name]
    signature, n_name, n_extra = struct.unpack_from("<4s22xHH", data, at)
    start = at + _BYTES_OF_A_MEMBER + n_name + n_extra
    content = data[start : start + size]
    is_named = data[at + _BYTES_OF_A_MEMBER : start - n_extra] == name.encode()
    if signature != b"PK\x03\x04" or not is_named or len(content) != size or zlib.crc32(content) != crc:
        raise FormatError(f"member {name!r} is damaged")
    return content


def _manifest(data: bytes, file_size: int) -> tuple[str, dict[str, Any], list[str]]:
    most_lists, most_values = len(data) + _BYTES_FREE, 4 * file_size + _BYTES_TO_PARSE - _size_of_text(data)
    lists, values = _size_of_lists(data), _size_of_values_in(data)
    if (lists > most_lists or values > most_values) and len(data) <= _MAX_BYTES_WITH_BRACKETS:
        # Names may hold brackets and commas, and many of them: only those outside texts count.
        lists, values = 0, 0
        for part in _SOME_JSON.finditer(data):  # part by part, because `sub` keeps every piece until it is done
            outside = _TEXT_IN_JSON.sub(b"", part[0])
            lists, values = lists + _size_of_lists(outside), values + _size_of_values_in(outside)
    if lists > most_lists:
        raise FormatError("its manifest has more lists and objects than any that scurry writes")
    if values > most_values:
        raise FormatError("its manifest would take more memory than 4 times the bytes of the file")
    text = data.decode("utf-8")
    del data
    try:
        manifest = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise FormatError("its manifest is nested too deeply") from error
    if not isinstance(manifest, dict) or manifest.get("format") != "scurry":
        raise FormatError("its manifest is not scurry's")
    version = manifest.get("version")
    if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
        raise FormatError(
            f"it has format version {version!r}; this scurry reads up to {FORMAT_VERSION}: upgrade scurry"
        )
    kind, header, listed = manifest.get("kind"), manifest.get("header"), manifest.get("arrays")
    if not isinstance(kind, str) or not isinstance(header, dict) or not isinstance(listed, list):
        raise FormatError("its manifest lacks kind, header or arrays")
    if not all(isinstance(name, str) for name in listed):
        raise FormatError("its manifest lists arrays by something else than names")
    return kind, header, listed


def _size_of_lists(json_text: bytes) -> int:
    """Return how many bytes a manifest of ours with so many lists and objects has at least."""
    return _BYTES_OF_A_LIST * json_text.count(b"[") + _BYTES_OF_AN_OBJECT * json_text.count(b"{")


def _size_of_values_in(json_text: bytes) -> int:
    """Return what Python takes at most for so many values and keys, besides their characters."""
    return _BYTES_OF_A_VALUE * json_text.count(b",") + _BYTES_OF_A_KEY * json_text.count(b":")


def _size_of_text(data: bytes) -> int:
    """Return what a manifest takes at most as one text, as the texts that it holds, and as pieces between escapes."""
    if not data.isascii():
        return 8 * len(data)
    return len(data) * (7 if _WIDE.search(data) else 4 if b"\\u" in data else 2)


def _refuse_constant(name: str) -> None:
    raise FormatError(f"its manifest has the number {name}, which JSON does not have")


def _array(name: str, data: memoryview) -> NDArray[Any]:
    header = _NPY_HEADER.match(data)
    if header is None or header.end() != 10 + int.from_bytes(data[8:10], "little"):
        raise FormatError(f"array {name!r} does not start as .scurry files' arrays do")
    dtype = np.dtype(header["dtype"].decode())
    shape = tuple(int(length) for length in header["shape"].split(b",") if length.strip())
    n_bytes = len(data) - header.end()
    if math.prod(shape) * dtype.itemsize != n_bytes:
        raise FormatError(f"array {name!r} claims shape {shape} but has {n_bytes} bytes")
    array = np.frombuffer(data, dtype=dtype, offset=header.end()).reshape(shape)
    return array if array.flags.aligned else array.copy()  # a header of odd length leaves it at an odd address


def pack_values(values: NDArray[Any]) -> dict[str, Any]:
    """Return labels or category values as JSON that `unpack_values` reads back with the same dtype."""
    kind = values.dtype.kind
    items = [item.item() if isinstance(item, np.generic) else item for item in values.tolist()]
    if kind == "O" and not all(isinstance(item, str | int | float | bool | None) for item in items):
        raise InputError(f"labels must be strings, numbers or booleans to be saved, got {type(items[0]).__name__}")
    if kind not in "OUSbiuf":
        raise InputError(f"labels of dtype {values.dtype} cannot be saved; use strings or numbers")
    if any(isinstance(item, float) and not np.isfinite(item) for item in items):
        raise InputError("labels must be finite to be saved; drop rows whose label is missing and train again")
    if kind == "S":
        items = [item.decode("latin-1") for item in items]
    return {"dtype": values.dtype.str, "items": items}


def _size_of_values(packed: Any) -> int:
    try:
        return int(len(packed["items"]) * np.dtype(packed["dtype"]).itemsize)
    except (TypeError, ValueError, KeyError, SyntaxError):
        return 0  # `unpack_values` says what is wrong with them


def unpack_values(packed: Any, fits: bool = True) -> NDArray[Any]:
    """Return the array that `pack_values` wrote; `fits` says that its file is large enough to have its dtype."""
    try:
        dtype, items = np.dtype(packed["dtype"]), packed["items"]
        if dtype.kind not in "OUSbiuf" or dtype.itemsize > 4096 or not isinstance(items, list):
            raise FormatError(f"labels of dtype {dtype} are not accepted")
        if not all(isinstance(item, str | int | float | bool | None) for item in items):
            raise FormatError("labels must be strings, numbers or booleans")
        if dtype.kind == "S":
            items = [item.encode("latin-1") for item in items]
        if not fits and dtype.kind in "US":
            if max(map(len, items), default=0) * np.dtype(f"{dtype.kind}1").itemsize < dtype.itemsize:
                raise FormatError(f"{len(items)} labels of dtype {dtype} need far more memory than the file has bytes")
            # One long text among many short ones makes numpy reserve its length for each: they stay Python's texts.
            dtype = np.dtype(object)
        array = np.array(items, dtype=dtype)
        array.flags.writeable = False  # so that Forest need not copy it
        return array
    except (TypeError, ValueError, KeyError, OverflowError, AttributeError, SyntaxError) as error:
        raise FormatError(f"labels cannot be read: {error}") from error


def id_bits(n_distinct: int) -> int:
    """Return how many bits a number of one of so many entries takes.

    Examples
    --------
    >>> [id_bits(n) for n in (1, 2, 3, 256, 257)]
    [1, 1, 2, 8, 9]
    """
    return max(1, (max(n_distinct, 1) - 1).bit_length())
