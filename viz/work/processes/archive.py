"""The files of a run as one archive."""

import io
import zipfile
from pathlib import Path

from model.alignment.adapter_files import PART


def archive(folder: Path) -> bytes:
    """Pack the files of a run's folder (config.json, model.safetensors, tokenizer.json), or of a subfolder, into a zip
    file.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        for path in sorted(folder.iterdir()):
            if path.is_file() and path.suffix != PART:  # excludes files that a killed process was still writing
                file.write(path, path.name)
    return buffer.getvalue()
