#!/usr/bin/env python3
"""Makes data/demo/sift.npz, SIFT descriptors of six photographs and queries from distorted copies of them, and data/demo/views.npz, two views of
one photograph with the places and descriptors of their features.

    python3 -m venv /tmp/demo-data && /tmp/demo-data/bin/pip install scikit-image==0.26.0 opencv-python-headless==5.0.0.93
    /tmp/demo-data/bin/python scripts/make_demo_data.py [FOLDER]

The pictures come inside the scikit-image wheel; data/demo/PROVENANCE.md has their licences and the sha256 to expect.
OpenCV's descriptors are integers from 0 to 255, so uint8 loses nothing.
"""

import hashlib
import io
import sys
import zipfile
from pathlib import Path

import cv2
import numpy as np
import skimage

PICTURES = ["astronaut.png", "camera.png", "chelsea.png", "coffee.png", "rocket.jpg", "hubble_deep_field.jpg"]
QUERIES = 1024
ANGLE, SCALE, NOISE = 15, 0.8, 4.0  # degrees, factor, standard deviation in grey levels
SEED = 20261121
VIEWED, FEATURES = "coffee.png", 900
# From pixels of the photograph to those of its second view: seen from the left, turned a little, smaller.
HOMOGRAPHY = np.array([[0.78, -0.16, 96.0], [0.13, 0.86, -12.0], [2.2e-4, 1.2e-4, 1.0]])


def descriptors(picture):
    sift = cv2.SIFT_create(nfeatures=0, contrastThreshold=0.01)
    _, found = sift.detectAndCompute(picture, None)
    assert np.array_equal(found, np.rint(found)) and found.min() >= 0 and found.max() <= 255
    return found.astype(np.uint8)


def distorted(picture, rng):
    height, width = picture.shape
    turn = cv2.getRotationMatrix2D((width / 2, height / 2), ANGLE, SCALE)
    turned = cv2.warpAffine(picture, turn, (width, height), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
    noisy = turned + rng.normal(0, NOISE, picture.shape)
    return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)


def views(picture, rng):
    """The photograph and its second view, darker and noisy, with features of each: places (N, 2) f32 in pixels, descriptors (N, 128) u8."""
    height, width = picture.shape
    second = cv2.warpPerspective(picture, HOMOGRAPHY, (width, height), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT)
    second = np.clip(np.rint(0.85 * second + rng.normal(0, NOISE, picture.shape)), 0, 255).astype(np.uint8)
    arrays = {"homography": HOMOGRAPHY}
    for name, view in (("first", picture), ("second", second)):
        places, rows = cv2.SIFT_create(nfeatures=FEATURES).detectAndCompute(view, None)
        arrays[f"{name}_picture"] = view
        arrays[f"{name}_places"] = np.array([place.pt for place in places], np.float32)
        arrays[f"{name}_descriptors"] = rows.astype(np.uint8)
    return arrays


def labelled(parts):
    rows = np.concatenate(parts)
    picture = np.repeat(np.arange(len(parts), dtype=np.uint8), [len(part) for part in parts])
    return rows, picture[:, None]


def save(path, arrays):
    """An npz whose bytes depend on the arrays alone: fixed dates, strongest compression."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, array)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), buffer.getvalue(), zipfile.ZIP_DEFLATED, 9)


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent / "data" / "demo"
    source = Path(skimage.__file__).parent / "data"
    rng = np.random.default_rng(SEED)
    base, copies = [], []
    for name in PICTURES:
        picture = cv2.imread(str(source / name), cv2.IMREAD_GRAYSCALE)
        base.append(descriptors(picture))
        copies.append(descriptors(distorted(picture, rng)))
    corpus, corpus_picture = labelled(base)
    candidates, candidate_picture = labelled(copies)
    chosen = np.sort(rng.choice(len(candidates), QUERIES, replace=False))
    path = folder / "sift.npz"
    save(path, {"corpus": corpus, "queries": candidates[chosen],
                "corpus_picture": corpus_picture, "queries_picture": candidate_picture[chosen]})
    print(f"{path}: corpus {corpus.shape}, queries {candidates[chosen].shape}, {path.stat().st_size} bytes")
    print(f"descriptors a picture: {dict(zip(PICTURES, map(len, base)))}")
    print(f"sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}")
    path = folder / "views.npz"
    arrays = views(cv2.imread(str(source / VIEWED), cv2.IMREAD_GRAYSCALE), np.random.default_rng(SEED))
    save(path, arrays)
    print(f"{path}: {path.stat().st_size} bytes; {({name: array.shape for name, array in arrays.items()})}")
    print(f"sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}")


if __name__ == "__main__":
    main()
