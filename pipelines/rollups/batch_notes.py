"""What Spark noted of a batch before it ran it: offsets, watermark and the time at which it was planned.

The note stays as it is when the batch is run again, so that the windows are the same. A checkpoint that has lost it
plans the batch again with other offsets: the number is the same, the windows are not.
"""

import hashlib

from barnabas.pipelines.shared.files.folder import Folder

DIGITS = 16


class BatchNotes:
    def __init__(self, checkpoint: Folder) -> None:
        self.checkpoint = checkpoint

    def last(self) -> int:
        """Returns the newest batch that was planned, or -1 if none was."""
        return max((int(name) for name in self.checkpoint.names("offsets") if name.isdecimal()), default=-1)

    def mark(self, batch_id: int) -> str | None:
        """Returns a hash of the note, or None if Spark has removed the note, as it does with old ones."""
        try:
            note = self.checkpoint.read(f"offsets/{batch_id}")
        except FileNotFoundError:
            return None
        return hashlib.sha256(note.encode()).hexdigest()[:DIGITS]

    def sync(self, batch_id: int) -> None:
        """Flushes the notes to the disk. Spark leaves that to the operating system."""
        wanted = {f"{prefix}{number}{suffix}" for number in (batch_id - 1, batch_id) for prefix, suffix in FILES}
        self.checkpoint.sync(f"offsets/{name}" for name in self.checkpoint.names("offsets") if name in wanted)


FILES = (("", ""), (".", ".crc"))
"""A note, and Hadoop's checksum of it."""
