#!/usr/bin/env python3
"""Loads skirl's exported schedules with PyTorch's own loader. Not a part of ctest: it needs PyTorch.

    tests/peers/pytorch_schedules.py build/bin/skirl

For each schedule that PyTorch's format can hold, the compute-only form is read, validated and lowered by PyTorch, which has to come to the same
transfers as the form in which skirl writes them out; that form is read too.
"""
import subprocess
import sys
import tempfile

try:
    from torch.distributed.pipelining import schedules as torch_schedules
except ImportError:
    print("skipped: PyTorch is not installed here")
    sys.exit(0)

# One rank a stage: PyTorch's format has no second direction, so dualpipe is not among them.
SCHEDULES = ["gpipe", "1f1b", "looped_bfs", "interleaved", "grouped", "zb1p", "zbh1", "zb2p", "interleaved_zb", "zbv", "vhalf", "vmin", "dualpipev", "list"]
SIZES = [(2, 4), (4, 8), (3, 7), (4, 2)]


def exported(skirl, name, ranks, microbatches, *more):
    command = [skirl, "show", "--schedule", name, "--ranks", str(ranks), "--mbs", str(microbatches), "--csv", *more]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def actions_of(text):
    return {
        rank: [torch_schedules._Action.from_str(cell) for cell in line.split(",") if cell.strip()]
        for rank, line in enumerate(text.splitlines())
    }


def check(skirl, name, ranks, microbatches):
    compute = actions_of(exported(skirl, name, ranks, microbatches))
    written = actions_of(exported(skirl, name, ranks, microbatches, "--transfers"))
    stages = 1 + max(action.stage_index for row in compute.values() for group in row for action in (group.sub_actions or [group]))
    stage_to_rank = torch_schedules._validate_schedule(compute, ranks, stages, microbatches)
    lowered = torch_schedules._add_send_recv(compute, lambda stage: stage_to_rank[stage], stages)
    if lowered != written:
        raise AssertionError("PyTorch writes other transfers")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    failed = 0
    for name in SCHEDULES:
        for ranks, microbatches in SIZES:
            case = f"{name} of {ranks} ranks and {microbatches} microbatches"
            try:
                check(sys.argv[1], name, ranks, microbatches)
                print("ok      " + case)
            except Exception as error:  # whatever PyTorch has against it
                failed += 1
                print(f"FAILED  {case}: {type(error).__name__}: {error}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
