r"""Protocol Buffers, the encoding of ONNX files: `Message` reads it, trusting nothing in it; `encode_*` write it.

A message is a list of numbered fields: whole numbers of variable length, 4 or 8 bytes, or so many bytes of a text, of
packed numbers or of another message. What a field means is known only to the reader, who asks for it by number. Every
size is checked against the bytes that are left. Long runs of one field, as the node lists of trees are, are read by
numpy at once.

The encoding is described in https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scurry.errors import FormatError

_NUMBER, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5  # wire types
_MAX_NUMBER_BYTES = 10  # of a number of 64 bits, 7 bits in each byte
_WORD = 2**64 - 1
_FIRST_WINDOW = 256  # bytes looked at for a run, doubled while it goes on: short runs stay cheap

Chunk: TypeAlias = bytes | NDArray[Any]


class Message:
    r"""The fields of a message.

    Parameters
    ----------
    data : bytes

    Raises
    ------
    FormatError
        If the bytes are no message, or end within a field.

    Examples
    --------
    >>> from scurry.importers.onnx.protobuf import Message
    >>> message = Message(b"\x0a\x04tree\x10\x05\x10\x07")
    >>> message.text(1), message.numbers(2).tolist()
    ('tree', [5, 7])
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._chunks: dict[int, list[Chunk]] = {}
        position = 0
        while position < len(data):
            first = position
            tag, position = self._number(position)
            number, wire = tag >> 3, tag & 7
            if number == 0:
                raise FormatError(f"the protobuf message has a field without a number at byte {first}")
            chunks = self._chunks.setdefault(number, [])
            if wire == _NUMBER:
                position = self._read_numbers(tag, first, chunks)
            elif wire == _BYTES:
                size, position = self._number(position)
                chunks.append(data[position : self._skip(position, size)])
                position = self._read_short_texts(tag, position + size, chunks)
            elif wire in (_FOUR_BYTES, _EIGHT_BYTES):
                position = self._read_fixed(position - first, 4 if wire == _FOUR_BYTES else 8, first, chunks)
            else:
                raise FormatError(f"the protobuf message has a field of unknown type {wire} at byte {first}")

    def _skip(self, position: int, size: int) -> int:
        if size > len(self._data) - position:
            raise FormatError(
                f"the protobuf message ends at byte {len(self._data)} but claims {size} bytes at {position}"
            )
        return position + size

    def _number(self, position: int) -> tuple[int, int]:
        """Return the number at a position, and where it ends."""
        value = shift = 0
        for at in range(position, min(position + _MAX_NUMBER_BYTES, len(self._data))):
            byte = self._data[at]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at + 1
            shift += 7
        raise FormatError(f"the protobuf message has a number without an end at byte {position}")

    def _read_numbers(self, tag: int, first: int, chunks: list[Chunk]) -> int:
        """Read fields of this tag as long as they follow each other; return where the last one ends."""
        value, end = self._number(self._number(first)[1])
        if self._data[end : end + 1] != self._data[first : first + 1]:
            chunks.append(np.array([value & _WORD], np.uint64))
            return end
        window = _FIRST_WINDOW
        while True:
            # The tag is a number of variable length itself, so that a run is tag, number, tag, number, ...
            values, ends = decode_numbers(self._data[first : first + window], whole=False)
            other = np.flatnonzero(values[::2] != tag)
            pairs = min(int(other[0]) if len(other) else len(values), len(values) // 2)
            chunks.append(values[1 : 2 * pairs : 2])
            at_end = first + window >= len(self._data)
            first += int(ends[2 * pairs - 1]) if pairs else 0
            if len(other) or at_end:
                return first
            window *= 2

    def _read_short_texts(self, tag: int, position: int, chunks: list[Chunk]) -> int:
        """Read on as long as short texts of the same tag follow; return where the last one ends."""
        data, end = self._data, len(self._data)
        while position + 1 < end and data[position] == tag and data[position + 1] < 0x80:
            stop = position + 2 + data[position + 1]
            if stop > end:
                self._skip(position + 2, data[position + 1])
            chunks.append(data[position + 2 : stop])
            position = stop
        return position

    def _read_fixed(self, tag_size: int, size: int, first: int, chunks: list[Chunk]) -> int:
        """Read fields of 4 or 8 bytes as long as they follow each other; return where the last one ends."""
        step, tag = tag_size + size, self._data[first : first + tag_size]
        self._skip(first, step)
        window = _FIRST_WINDOW
        while True:
            n_fields = min(window, len(self._data) - first) // step
            fields = np.frombuffer(self._data, np.uint8, n_fields * step, first).reshape(n_fields, step)
            other = np.flatnonzero((fields[:, :tag_size] != np.frombuffer(tag, np.uint8)).any(axis=1))
            if len(other) or first + window >= len(self._data):
                break
            window *= 2
        count = int(other[0]) if len(other) else n_fields
        chunks.append(np.ascontiguousarray(fields[:count, tag_size:]).view(f"<u{size}").ravel())
        return first + count * step

    def __contains__(self, number: int) -> bool:
        return number in self._chunks

    def numbers(self, number: int) -> NDArray[np.int64]:
        """Return all whole numbers of a field, be they packed or not."""
        found = [
            chunk.astype(np.uint64, copy=False) if isinstance(chunk, np.ndarray) else decode_numbers(chunk)[0]
            for chunk in self._chunks.get(number, [])
        ]
        return np.concatenate([np.zeros(0, np.uint64), *found]).view(np.int64)

    def floats(self, number: int, dtype: str = "<f4") -> NDArray[Any]:
        """Return all floats of a field, which are of this dtype, be they packed or not."""
        size = np.dtype(dtype).itemsize
        found = []
        for chunk in self._chunks.get(number, []):
            data = chunk.tobytes() if isinstance(chunk, np.ndarray) else chunk
            if len(data) % size or (isinstance(chunk, np.ndarray) and chunk.dtype.itemsize != size):
                raise FormatError(f"the protobuf message's field {number} does not hold numbers of {size} bytes")
            found.append(np.frombuffer(data, dtype))
        return np.concatenate([np.zeros(0, dtype), *found])

    def parts(self, number: int) -> list[bytes]:
        """Return all entries of a field of bytes."""
        chunks = self._chunks.get(number, [])
        if not set(map(type, chunks)) <= {bytes}:
            raise FormatError(f"the protobuf message's field {number} holds numbers where bytes are expected")
        return chunks  # type: ignore[return-value]

    def messages(self, number: int) -> list[Self]:
        """Return all entries of a field of messages."""
        return [type(self)(part) for part in self.parts(number)]

    def message(self, number: int) -> Self:
        """Return the one message of a field, an empty one if it is absent."""
        return type(self)(b"".join(self.parts(number)))

    def number(self, number: int, default: int = 0) -> int:
        """Return the last whole number of a field."""
        found = self.numbers(number)
        return int(found[-1]) if len(found) else default

    def texts(self, number: int) -> list[str]:
        """Return all texts of a field."""
        try:
            return [part.decode() for part in self.parts(number)]
        except UnicodeDecodeError as error:
            raise FormatError(f"the protobuf message's field {number} has text that is not UTF-8") from error

    def text(self, number: int, default: str = "") -> str:
        """Return the last text of a field."""
        found = self.texts(number)
        return found[-1] if found else default


def decode_numbers(data: bytes, whole: bool = True) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    r"""Return numbers of variable length that follow each other, and where each ends.

    Parameters
    ----------
    data : bytes
    whole : bool
        Whether all of the data must be such numbers; else what follows the last one is ignored.

    Examples
    --------
    >>> from scurry.importers.onnx.protobuf import decode_numbers
    >>> decode_numbers(b"\x05\x80\x01")[0].tolist()
    [5, 128]
    """
    octets = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(octets < 0x80) + 1
    starts = np.append(0, ends[:-1])[: len(ends)]
    sizes = ends - starts
    too_long = np.flatnonzero(sizes > _MAX_NUMBER_BYTES)
    if len(too_long) and not whole:
        starts, sizes, ends = starts[: too_long[0]], sizes[: too_long[0]], ends[: too_long[0]]
    elif len(too_long) or (whole and len(data) != (ends[-1] if len(ends) else 0)):
        raise FormatError("the protobuf message has a packed number without an end")
    values = (octets[starts] & np.uint8(0x7F)).astype(np.uint64)
    for k in range(1, int(sizes.max(initial=0))):
        of = np.flatnonzero(sizes > k)
        values[of] |= (octets[starts[of] + k] & np.uint64(0x7F)).astype(np.uint64) << np.uint64(7 * k)
    return values, ends


def encode_number(number: int, value: int) -> bytes:
    """Return a field of a whole number."""
    return _variable(number << 3 | _NUMBER) + _variable(value & _WORD)


def encode_bytes(number: int, data: bytes | str) -> bytes:
    """Return a field of bytes, of a text, or of a message that was encoded before."""
    data = data.encode() if isinstance(data, str) else data
    return _variable(number << 3 | _BYTES) + _variable(len(data)) + data


def encode_numbers(number: int, values: NDArray[Any]) -> bytes:
    r"""Return a field of each whole number.

    Examples
    --------
    >>> import numpy as np
    >>> from scurry.importers.onnx.protobuf import encode_numbers
    >>> encode_numbers(8, np.array([1, 300]))
    b'@\x01@\xac\x02'
    """
    words = np.ascontiguousarray(values, np.int64).view(np.uint64)
    tag = np.frombuffer(_variable(number << 3 | _NUMBER), np.uint8)
    if not len(words):
        return b""
    sizes = np.ones(len(words), np.int64)
    for k in range(1, _MAX_NUMBER_BYTES):
        sizes += words >> np.uint64(7 * k) > 0
    starts = np.cumsum(sizes + len(tag)) - sizes
    octets = np.empty(int(starts[-1] + sizes[-1]), np.uint8)
    for k, octet in enumerate(tag):
        octets[starts - len(tag) + k] = octet
    for k in range(int(sizes.max())):
        of = np.flatnonzero(sizes > k)
        more = np.where(sizes[of] > k + 1, np.uint64(0x80), np.uint64(0))
        octets[starts[of] + k] = words[of] >> np.uint64(7 * k) & np.uint64(0x7F) | more
    return octets.tobytes()


def encode_floats(number: int, values: NDArray[Any]) -> bytes:
    """Return a field of 4 bytes for each float32."""
    tag = _variable(number << 3 | _FOUR_BYTES)
    fields = np.empty((len(values), len(tag) + 4), np.uint8)
    fields[:, : len(tag)] = np.frombuffer(tag, np.uint8)
    fields[:, len(tag) :] = np.ascontiguousarray(values, "<f4").view(np.uint8).reshape(-1, 4)
    return fields.tobytes()


def _variable(value: int) -> bytes:
    octets = bytearray()
    while value >= 0x80:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    octets.append(value)
    return bytes(octets)
