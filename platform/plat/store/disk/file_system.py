"""Find the type of the file system that holds a folder."""

from __future__ import annotations

from pathlib import Path

# File systems that only one machine mounts at a time.
LOCAL = {
    "apfs", "bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "hfs", "jfs", "ntfs", "ntfs3", "overlay",
    "reiserfs", "ufs", "vfat", "xfs", "zfs",
}  # fmt: skip


def file_system(folder: Path) -> str:
    """Return the file system's type in lower case, for example "ext4"; "" if it is not known."""
    import psutil

    try:
        mounts = {Path(part.mountpoint): part.fstype.lower() for part in psutil.disk_partitions(all=True)}
        folder = folder.resolve()
    except OSError:
        return ""
    nearest = next((parent for parent in (folder, *folder.parents) if parent in mounts), None)
    return "" if nearest is None else mounts[nearest]


def is_local(folder: Path) -> bool:
    """Return True if a folder is certainly on a disk of this machine; False in doubt."""
    return file_system(folder) in LOCAL
