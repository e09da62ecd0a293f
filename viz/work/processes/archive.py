"""What a run left, as one file to take along."""

import io
import zipfile
from pathlib import Path

from model.alignment.adapter_files import PART


def archive(folder: Path) -> bytes:
    """Return the files of a run's folder, config.json, model.safetensors, tokenizer.json, or of one in it, as a zip
    file.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        for path in sorted(folder.iterdir()):
            if path.is_file() and path.suffix != PART:  # which a process was writing when it was killed
                file.write(path, path.name)
    return buffer.getvalue()
