"""Say where Drywell differs from the captures: `python -m oracle.hardware.compare [FAMILY[/NAME]...]`.

Also how many words there are and how long the replay took. `--all` tells the known differences too.
"""

from __future__ import annotations

import sys
import time

from oracle.hardware import store
from oracle.hardware.families import FAMILIES, name_of
from oracle.hardware.known import KNOWN
from oracle.hardware.replay import differences


def main(argv: list[str]) -> int:
    """Print the differences of the families, or of the experiments whose names begin so; return 1 for any."""
    wanted, tells_all = [a for a in argv if a != "--all"], "--all" in argv
    bad, total, forms = 0, 0, set()
    for family in FAMILIES:
        name, start = name_of(family), time.process_time()
        if wanted and not any(w.partition("/")[0] == name for w in wanted):
            continue
        captures, count, num_words = store.read(name), 0, 0
        for experiment in family.experiments():
            if wanted and not any(w == name or experiment.name.startswith(w) for w in wanted):
                continue
            entry = captures.entries.get(experiment.name)
            count += 1
            forms.update(experiment.forms)
            num_words += 0 if entry is None else sum(a.size for a in entry.measured.outs)
            for difference in differences(experiment, entry):
                if tells_all or not any(k.covers(difference) for k in KNOWN):
                    bad += 1
                    print(difference, flush=True)
        total += num_words
        seconds = time.process_time() - start
        print(
            f"{name}: {count} experiments, {num_words} words, {seconds:.1f} s; {captures.origin}", flush=True
        )
    print(f"{total:,} result words over {len(forms):,} forms, {bad} differences")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
