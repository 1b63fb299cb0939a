"""Whether a file of weights may be read: HDF5 can hold more than numbers."""

from pathlib import Path

import h5py

# Kinds of NumPy's data types: floating, signed and unsigned.
_NUMBERS = "fiu"


def check_weights(path: Path, most: int) -> None:
    """Refuse a file of weights (HDF5) whose datasets are elsewhere, no numbers, or unpack to more than `most` bytes.

    HDF5 can name other files, whose content would then be read as if it were weights.

    Raises:
        ValueError: it has such a link or dataset.
        OSError: it is damaged, or cannot be read.
    """

    def elsewhere(name: str, link: object) -> str | None:
        return None if isinstance(link, h5py.HardLink) else name

    total = 0

    def check(name: str, found: object) -> None:
        nonlocal total
        if not isinstance(found, h5py.Dataset):
            return
        if found.external or found.is_virtual:
            raise ValueError(f"the content of {name} is in another file")
        if found.dtype.kind not in _NUMBERS:
            raise ValueError(f"{name} holds no numbers")
        total += found.nbytes

    with h5py.File(path, "r") as file:
        if name := file.visititems_links(elsewhere):
            raise ValueError(f"{name} is a link to elsewhere")
        file.visititems(check)
    if total > most:
        raise ValueError(f"its weights have {total} bytes, more than {most}")
