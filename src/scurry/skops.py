"""skops: estimators of scikit-learn as bytes that execute nothing when they are read.

skops lists the types that a file holds before any is made. A type that neither skops nor scurry nor the caller trusts
raises an error that names it.
"""

from __future__ import annotations

import io
import math
from collections.abc import Collection, Sequence
from typing import Any

from numpy.lib import format as npy

from scurry.errors import FormatError, InputError, UnsupportedModelError, require_extra

# Types of steps that people use, which skops does not list: they run nothing when they are made. The functions score
# features, which nothing but a fit does.
_HARMLESS = frozenset(
    [
        "numpy.dtype",
        "sklearn.compose._column_transformer.make_column_selector",
        "sklearn.feature_selection._mutual_info.mutual_info_classif",
        "sklearn.feature_selection._mutual_info.mutual_info_regression",
        *(
            f"sklearn.feature_selection._univariate_selection.{name}"
            for name in ("chi2", "f_classif", "f_regression", "r_regression")
        ),
    ]
)


def dump_estimator(estimator: Any, purpose: str) -> bytes:
    """Return a fitted estimator as the content of a skops file.

    Parameters
    ----------
    estimator : object
    purpose : str
        What needs skops: the subject of messages.

    Raises
    ------
    InputError
        If skops cannot store it, or not read it back.
    """
    with require_extra("skops", purpose):
        from skops import io as skops
    try:
        data: bytes = skops.dumps(estimator)
        # The caller holds these types already. A function of a script or another function is found too late otherwise.
        skops.loads(data, trusted=skops.get_untrusted_types(data=data))
    except Exception as error:  # whatever its types raise
        raise InputError(
            f"{purpose} cannot be stored by skops: {error}. Functions and classes of your own must be found by "
            "importing their module"
        ) from error
    return data


def load_estimator(data: bytes, trusted: Collection[str], purpose: str, advice: str) -> Any:
    """Return the estimator in the content of a skops file.

    Parameters
    ----------
    data : bytes
    trusted : collection of str
        Types to trust besides those that skops and scurry trust.
    purpose : str
        What holds it: the subject of messages.
    advice : str
        What to do about types that are not trusted.

    Raises
    ------
    UnsupportedModelError
        If it holds types that are not trusted.
    FormatError
        If skops cannot read it.
    """
    with require_extra("skops", purpose):
        from skops import io as skops
    try:
        needed = skops.get_untrusted_types(data=data)
        untrusted = sorted(set(needed) - _HARMLESS - set(trusted))
        if not untrusted:
            return skops.loads(data, trusted=needed)
    except Exception as error:  # whatever a broken file makes of skops, json and numpy
        raise FormatError(f"{purpose} is not readable by skops: {error}") from error
    raise UnsupportedModelError(f"{purpose} holds types that are not trusted: {', '.join(untrusted)}. {advice}")


def check_trusted(trusted: Any) -> None:
    """Raise unless `trusted` is a list of names of types."""
    is_listed = isinstance(trusted, Sequence) and not isinstance(trusted, str)
    if not is_listed or not all(isinstance(name, str) for name in trusted):
        raise InputError(f"trusted must be a list of names of types, got {trusted!r}", argument="trusted")


def check_sizes(data: bytes, purpose: str) -> None:
    """Raise unless everything in the content of a skops file is as large as it claims to be.

    Its members must be stored as they are, and its arrays must have the bytes that their headers promise: a small file
    could take much memory otherwise. Files that others wrote may be compressed; `dump_estimator` compresses nothing.
    """
    import zipfile  # most files have no front, and it takes long

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            if sum(member.file_size for member in members) > len(data):
                raise FormatError("its members claim more bytes than it has")
            if any(member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 0x1 for member in members):
                raise FormatError("a member is compressed or encrypted")
            for member in members:
                if member.filename.endswith(".npy"):
                    _check_array(archive.read(member))
    except (zipfile.BadZipFile, ValueError, OSError, EOFError, NotImplementedError, RuntimeError) as error:
        raise FormatError(f"{purpose} is not readable by skops: {error}") from error


def _check_array(data: bytes) -> None:
    stream = io.BytesIO(data)
    read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(npy.read_magic(stream))
    if read_header is None:
        raise FormatError("an array has a header that scurry does not write")
    shape, _, dtype = read_header(stream)
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise FormatError(f"an array claims shape {shape} of {dtype}, and has other bytes")
