"""Are the files of a saved HNSW graph whole enough to be loaded?

Loading a damaged graph does not raise: the native code follows links into nowhere and takes the
whole process down. So the files are read first, as plain numbers.

Layout (hnswlib, as chromadb writes it): `header.bin` holds the counts and offsets;
`data_level0.bin` one record per vector (link count, links, vector, label); `link_lists.bin` the
upper levels, one length-prefixed list per vector; `length.bin` one float per
vector, which Chroma never looks at (a kill while saving leaves it short, and that is no damage).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["blank_spare", "damage_in"]

_HEADER = struct.Struct("<i6Q2i3QdQ")
_LAYOUT = 1  # the persistence version whose layout is described above
_CHUNK = 8192  # records read at a time; raising it takes more memory, no less time
_UNIT = 1e-3  # how far from 1 (or 0) the length of a stored vector may be


def damage_in(folder: Path, dimension: int) -> str | None:
    """Say what is wrong with the graph in `folder`, or `None` when it can be loaded.

    Finds missing, cut and overwritten files. Does not find numbers that are wrong but legal,
    such as two links exchanged. Reads every byte once: about 0.1 s for 100,000 vectors of 384.
    """
    if not (folder / "index_metadata.pickle").exists():
        return None  # saving was cut off at the first time; Chroma reads its journal instead
    try:
        return _damage_in(folder, dimension)
    except (OSError, struct.error, ValueError, OverflowError) as error:
        return f"{folder.name} cannot be read: {error}"


def blank_spare(folder: Path) -> None:
    """Blank the room for records to come, in which Chroma leaves what its memory held before.

    That may be vectors that were forgotten, or of another namespace (chroma#7688).
    """
    header = folder / "header.bin"
    if not header.exists():
        return  # not saved yet
    _, _, _, count, size = _HEADER.unpack(header.read_bytes())[:5]
    for name, record in (("data_level0.bin", size), ("length.bin", 4)):
        with (folder / name).open("r+b") as file:
            spare = (folder / name).stat().st_size - count * record
            if spare > 0:
                file.seek(count * record)
                file.write(bytes(spare))


def _damage_in(folder: Path, dimension: int) -> str | None:
    header = _HEADER.unpack((folder / "header.bin").read_bytes())
    layout, links_at, _, count, size, label_at, vector_at = header[:7]
    upper, lower = header[9:11]
    expected = (_LAYOUT, 0, 4 + 4 * lower, 4 + 4 * lower + 4 * dimension, label_at + 8)
    if (layout, links_at, vector_at, label_at, size) != expected or not 0 < lower < 4096:
        return "header.bin is not of the known layout"
    if (folder / "data_level0.bin").stat().st_size < count * size:
        return "data_level0.bin is cut short"
    if not count:
        return None
    records = np.memmap(folder / "data_level0.bin", np.uint8, "r", shape=(count, size))
    for start in range(0, count, _CHUNK):
        problem = _damage_in_records(np.array(records[start : start + _CHUNK]), count, lower)
        if problem:
            return problem
    return _damage_in_lists((folder / "link_lists.bin").read_bytes(), count, 4 + 4 * upper)


def _damage_in_records(records: NDArray[np.uint8], count: int, most: int) -> str | None:
    words = records.view("<u4")
    if problem := _damage_in_links(words[:, : 1 + most], count, "data_level0.bin"):
        return problem
    vectors = words[:, 1 + most : -2].view("<f4")
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    sound = (np.abs(lengths - 1) < _UNIT) | (lengths < _UNIT)  # NaN is neither
    return None if sound.all() else "data_level0.bin holds a vector that is not of length 1"


def _damage_in_lists(lists: bytes, count: int, level: int) -> str | None:
    place, upper = 0, []
    for _ in range(count):
        (length,) = struct.unpack_from("<I", lists, place)
        if length % level:
            return "link_lists.bin holds an impossible length"
        if length:
            upper.append(lists[place + 4 : place + 4 + length])
        place += 4 + length
    if place > len(lists):
        return "link_lists.bin is cut short"
    words = np.frombuffer(b"".join(upper), "<u4").reshape(-1, level // 4)
    return _damage_in_links(words, count, "link_lists.bin")


def _damage_in_links(words: NDArray[np.uint32], count: int, file: str) -> str | None:
    """Look at rows of a count (in the lower half of the first word) and then that many links."""
    most = words.shape[1] - 1
    held = words[:, 0] & 0xFFFF
    if (held > most).any():
        return f"{file} holds an impossible number of links"
    used = np.arange(most) < held[:, np.newaxis]
    return f"{file} holds a link to nowhere" if (words[:, 1:][used] >= count).any() else None
