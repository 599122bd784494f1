"""A folder of launch files as `drywell explore` offers it: right, wrong, endless and broken ones."""

from __future__ import annotations

import shutil
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
SPIN = """\
.version 8.6
.target sm_100a
.address_size 64
.visible .entry spin(.param .u64 x) {
  .reg .b64 %p;
  .reg .b32 %v;
  .reg .pred %q;
  ld.param.u64 %p, [x];
again:
  atom.global.add.u32 %v, [%p], 1;
  setp.lt.u32 %q, %v, 2000000000;
  @%q bra again;
  ret;
}
"""
SPIN_TOML = """\
module = "spin.ptx"
block = [32, 1, 1]
buffers.x = { dtype = "u32", shape = [1] }
args = [{ pointer = "x" }]
"""


def fill(folder: Path) -> None:
    """Put in tmem_roundtrip, tmem_roundtrip_racy (it has a finding), tc_2cta_f16, spin, which takes more than
    a billion steps, and absent, whose module is not there.
    """
    for path in (*CORPUS.glob("tirx/tmem_roundtrip*.*"), *CORPUS.glob("gluon/tc_2cta_f16.*")):
        shutil.copy(path, folder)
    (folder / "spin.ptx").write_text(SPIN)
    (folder / "spin.toml").write_text(SPIN_TOML)
    (folder / "absent.toml").write_text('module = "nowhere.ptx"\n')
