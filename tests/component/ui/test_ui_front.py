"""The parts of the front end that only compute, run by Node where it is installed: the treemap and the map's arrays."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from controller.domain.ownership import State
from controller.ui.server import STATIC

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="Node is not installed")


def run_script(folder: Path, script: str) -> Any:
    """What a module script beside the front end's files prints, as JSON."""
    shutil.copytree(STATIC, folder / "static")
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "script.js").write_text(script)
    done = subprocess.run([str(NODE), "script.js"], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


TREEMAP = """
import { hit, layOut } from "./static/treemap.js";
let seed = 7;
const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
const count = 3000, groups = 40, width = 900, height = 500;
const sizes = Float32Array.from({ length: count }, () => Math.exp(4 * random()));
const of = Uint32Array.from({ length: count }, () => Math.floor(groups * random()));
const laid = layOut(sizes, of, groups, width, height, 0);
const area = (rects, at) => rects[4 * at + 2] * rects[4 * at + 3];
const whole = laid.filled.reduce((sum, at) => sum + area(laid.group, at), 0);
let outside = 0, wrong = 0, missed = 0;
const scale = [];
for (let at = 0; at < count; at += 1) {
  const [x, y, w, h] = laid.member.subarray(4 * at, 4 * at + 4);
  const [gx, gy, gw, gh] = laid.group.subarray(4 * of[at], 4 * of[at] + 4);
  if (x < gx - 0.01 || y < gy - 0.01 || x + w > gx + gw + 0.01 || y + h > gy + gh + 0.01) outside += 1;
  const found = hit(laid.member, laid.of[of[at]], x + w / 2, y + h / 2);
  if (found !== at) missed += 1;
  scale.push([of[at], area(laid.member, at) / sizes[at]]);
}
for (let group = 0; group < groups; group += 1) {
  const own = scale.filter(([of]) => of === group).map(([, ratio]) => ratio);
  if (Math.max(...own) > 1.02 * Math.min(...own)) wrong += 1;
}
const ratio = (at) => laid.group[4 * at + 2] / laid.group[4 * at + 3];
const long = laid.filled.map((at) => Math.max(ratio(at), 1 / ratio(at)));
console.log(JSON.stringify({ whole, outside, wrong, missed, longest: Math.max(...long) }));
"""


def test_a_treemap_has_areas_by_size_and_no_overlap(tmp_path: Path) -> None:
    found = run_script(tmp_path, TREEMAP)
    assert found["whole"] == pytest.approx(900 * 500, rel=1e-3)
    assert (found["outside"], found["wrong"], found["missed"]) == (0, 0, 0)
    assert found["longest"] < 4  # squarified


MAP = """
import { readFileSync } from "node:fs";
import { read } from "./static/views/map.js";
const bytes = readFileSync("map.bin");
const map = read(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
const names = [...map.lower.keys()].map((at) => [map.namespaces[map.namespace[at]], map.lower[at], map.upper[at]]);
console.log(JSON.stringify({ count: map.count, names, brokers: map.brokers.map((one) => one.broker) }));
"""


def test_the_map_reads_what_the_server_writes(tmp_path: Path, client: TestClient, page: Any) -> None:
    (tmp_path / "map.bin").write_bytes(client.get("/api/map").content)
    found = run_script(tmp_path, MAP)
    state = page.cluster.state()
    living = [record.bundle for record in state.bundles.values() if record.state is not State.RETIRED]
    assert {tuple(name) for name in found["names"]} == {(b.namespace, b.lower, b.upper) for b in living}
    assert found["brokers"] == sorted(state.brokers)


def test_every_module_can_be_read(tmp_path: Path) -> None:
    shutil.copytree(STATIC, tmp_path / "static")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    for file in sorted((tmp_path / "static").rglob("*.js")):
        done = subprocess.run([str(NODE), "--check", str(file)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr


RASTER = """
import { packed, ofLoad, UNKNOWN } from "./static/colour.js";
import { fillRectangles } from "./static/raster.js";
const [width, height, ratio] = [40, 20, 2];
const pixels = new Uint32Array(width * height);
// a large one with a gap, a small one beside it, one that leaves the picture, one of no width
const rects = Float32Array.from([0, 0, 10, 5, 10, 0, 2, 5, 15, 8, 50, 50, 3, 7, 0, 3]);
fillRectangles(pixels, width, height, rects, [0, 1, 2, 3], (at) => at + 1, ratio);
const count = (colour) => pixels.reduce((sum, one) => sum + (one === colour), 0);
const bytes = (colour) => [...new Uint8Array(Uint32Array.from([packed(colour)]).buffer)];
console.log(JSON.stringify({
  counts: [1, 2, 3, 4].map(count), corner: pixels[0], gap: pixels[19],
  paper: bytes("#fbfbfa"), full: bytes(ofLoad(1)), unknown: bytes(UNKNOWN),
}));
"""


def test_rectangles_fill_the_pixels_that_are_theirs(tmp_path: Path) -> None:
    drawn = run_script(tmp_path, RASTER)
    assert drawn["counts"] == [19 * 9, 4 * 10, 10 * 4, 0]
    assert (drawn["corner"], drawn["gap"]) == (1, 0)
    assert drawn["paper"] == [0xFB, 0xFB, 0xFA, 0xFF]
    assert drawn["full"] == [0xFD, 0xE7, 0x25, 0xFF], "the brightest of viridis, opaque"
    assert drawn["unknown"] == [0x8A, 0x8F, 0x98, 0xFF]
