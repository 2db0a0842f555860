#!/bin/bash
# Stages on several hosts work at once: chunks of a prompt, and groups of sequences. Proved by events (mpi_gate.c); the report counts it.
. tests/lib.sh
. tests/lib_mpi.sh

# gated MPIEXEC-OPTION... -- BENCH-OPTION...: between the ranks and MPI stands mpi_gate.c.
gated() {
    local options=()
    while [ "$1" != -- ]; do options+=("$1") && shift; done
    shift
    "mpicc.$mpi_kind" -O1 -shared -fPIC -o "$tmp/gate.so" tests/e2e/mpi/mpi_gate.c || fail "no library"
    truncate -s 4096 "$tmp/gate"
    expect 0 ranks 2 "${options[@]}" env "LD_PRELOAD=$tmp/gate.so" "MPI_GATE=$tmp/gate" "$mpi" bench configs/demo.gguf -r 1 "$@" --set "$two" --report "$tmp/report"
}
# together LEAST ...: so many of rank 1's steps are computed while rank 0 is in one of its own; rank 0 counts no less.
together() {
    local least=$1
    shift
    gated "$@"
    said '^gate: .* computed while rank 0 was in a step, 0 not$'
    [ "$(sed -n 's/^gate: .*given, \([0-9]*\) of them.*/\1/p' "$tmp/err")" -ge "$least" ] || fail "$(grep ^gate: "$tmp/err"), at least $least expected"
    [ "$(figure overlapped_steps)" -ge "$least" ] || fail "the report has $(figure overlapped_steps) overlapped steps"
}
figure() { sed -n "s/^ *\"$1\": \([0-9]*\).*/\1/p" "$tmp/report"; }

# A prompt of 512 tokens in chunks of 64: 8, the first of which is alone, and once more to warm up.
test_chunks_of_a_prompt() { need_mpi; together 12 -- -p 512 -n 0 --set memory.batch=64; }
# The residual stream of 256 tokens is more than MPI sends unasked: it moves while rank 0 computes.
test_large_chunks_over_tcp() {
    need_openmpi "which transport is Open MPI's option"
    together 4 --mca btl tcp,self -- -p 1024 -n 0 --set memory.batch=256
}
test_groups_of_sequences() { need_mpi; together 50 -- -p 0 -n 64 --parallel 2 --set memory.sequences=2; }

# The next step is there before the one is over: a stage never waits for its orders.
test_two_steps_are_ahead() {
    need_mpi
    MPI_GATE_HOLDS=1 gated -- -p 512 -n 0 --set memory.batch=64
    [ "$(figure most_steps_ahead)" = 2 ] || fail "at most $(figure most_steps_ahead) steps on the way"
}

# One file, of rank 0, with the steps of all.
test_the_trace_has_all_hosts() {
    need_mpi
    expect 0 ranks 2 "$mpi" run configs/demo.gguf -p Once -n 5 --set "$two" --trace "$tmp/trace"
    python3 - "$tmp/trace" <<'E' || fail "not this trace: $(head -c 300 "$tmp/trace")"
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
steps = [[e["name"] for e in events if e["ph"] == "X" and e["pid"] == pid and e["tid"] == 0] for pid in (0, 1)]
assert len(steps[0]) >= 5 and steps[0] == steps[1], steps
assert not [e for e in events if e["ph"] == "X" and e["pid"] == 1 and e["tid"] == 1]
E
    expect 1 ranks 2 "$mpi" run configs/demo.gguf -p x -n 2 --set "$two" --trace /dev/full
    [ "$(grep -c 'the trace in /dev/full is not whole' "$tmp/err")" = 1 ] || fail "told by each rank"
}

# Of three: rank 0 hears of the steps between the other two. One sequence is never at two places.
test_every_boundary_is_counted() {
    need_mpi
    expect 0 ranks 3 "$mpi" bench configs/demo.gguf -r 1 -p 1024 -n 0 --set memory.batch=64 --set 'cluster.stages=a = cpu:0; b = cpu:0; c = cpu:0' --report "$tmp/report"
    [ "$(figure overlapped_steps | grep -c '[1-9]')" = 2 ] || fail "no overlap at a boundary: $(figure overlapped_steps | tr '\n' ' ')"
    expect 0 ranks 2 "$mpi" bench configs/demo.gguf -r 1 -p 0 -n 16 --set "$two" --report "$tmp/report"
    [ "$(figure overlapped_steps)" = 0 ] || fail "overlapped steps of one sequence: $(figure overlapped_steps)"
}
run_tests
