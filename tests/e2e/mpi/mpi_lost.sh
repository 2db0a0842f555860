#!/bin/bash
# Ranks that are lost when nothing runs: while they load, while they idle; and mpiexec that is told to end.
. tests/lib.sh
. tests/lib_mpi.sh
mpi_limit=90

# begin SLOW COMMAND...: two ranks in the background, $job; reads of rank SLOW (none: -) take 0.2 s each, and do not end while there is
# a file $tmp/hold.
begin() {
    local slow=$1 r job_of=()
    shift
    if [ "$slow" != - ]; then
        printf '#include <sys/syscall.h>\n#include <unistd.h>\nssize_t pread(int f, void *b, size_t n, off_t o) { do usleep(200000); while (access(HOLD, F_OK) == 0); return syscall(SYS_pread64, f, b, n, o); }\n' >"$tmp/slow.c"
        cc -shared -fPIC -DHOLD="\"$tmp/hold\"" -o "$tmp/slow.so" "$tmp/slow.c" 2>"$tmp/err" || fail "no slow reads: $(head -c 300 "$tmp/err")"
    fi
    for r in 0 1; do
        [ $r = 0 ] || job_of+=(:)
        job_of+=(-n 1)
        [ "$slow" != $r ] || job_of+=(env "LD_PRELOAD=$tmp/slow.so")
        job_of+=("$mpi" "$@" --set "$two" --set devices.deadline=3)
    done
    mpi_exec "${options[@]}" "${job_of[@]}" >"$tmp/out" 2>"$tmp/err" &
    job=$!
}
options=()

# rank N PATTERN: its process, into $pid, once stderr has the line.
rank() {
    mpi_told "$2"
    pid=$(mpi_rank $job $1)
    [ -n "$pid" ] || fail "no rank $1: $(tail -c 300 "$tmp/err")"
}
# loading N PATTERN: the same, and the slow rank goes on loading.
loading() {
    mpi_told "$2"
    : >"$tmp/hold"
    rank "$1" "$2"
    sleep 1
}
# ended CODE: mpiexec ends with it, and no rank lives on. (A rank that is stopped is killed by mpiexec.)
ended() {
    local code=0 p n ranks
    ranks=$(mpi_processes $job)
    wait $job || code=$?
    [ $code = "$1" ] || fail "exit $code, expected $1: $(tail -c 900 "$tmp/err")"
    for p in $ranks; do
        for ((n = 0; n < 100; n++)); do
            [ -e /proc/$p ] && ! grep -q '^State:.Z' /proc/$p/status 2>/dev/null || break
            sleep 0.1
        done
        [ $n -lt 100 ] || fail "process $p lives on"
    done
}

test_a_rank_that_is_stopped_while_it_loads() {
    need_mpi
    begin 1 run configs/demo.gguf -p Once -n 2
    loading 1 '^rank 1: .*plan'
    kill -STOP $pid
    ended 5
    said 'stator run: rank 1 was not heard of for 3.0 s while it loaded'
}
test_rank_0_stopped_while_it_loads() {
    need_mpi
    begin 0 run configs/demo.gguf -p Once -n 2
    loading 0 '^stator .*plan'
    kill -STOP $pid
    ended 5
    said 'stator \(rank 1\): rank 0 was not heard of for 3.0 s while it loaded'
}
# With recovery mpiexec leaves the others alone: they end by themselves. Its exit code is then 0.
test_a_rank_that_is_killed_while_it_loads() {
    need_openmpi "MPICH's mpiexec ends all whatever it is told"
    options=(--enable-recovery)
    begin 1 run configs/demo.gguf -p Once -n 2
    loading 1 '^rank 1: .*plan'
    kill -KILL $pid
    wait $job
    [ $? != 124 ] || fail "it did not end"
    said 'stator run: rank 1 was not heard of for 3.0 s while it loaded'
}

# A load that takes longer than the deadline is no lost rank.
test_slow_is_not_lost() {
    need_mpi
    begin 1 run configs/demo.gguf -p Once -n 2
    ended 0
    [ "$(sed -n 's/^rank 1: sealed after \([0-9]*\)\..*/\1/p' "$tmp/err")" -gt 3 ] || fail "it was not slow: $(grep sealed "$tmp/err")"
}

# Ranks that may run on the same processors are not pinned to them: they would wait for each other. Each on its own is.
test_ranks_of_one_host_are_not_pinned_on_one_another() {
    need_mpi
    [ "$(nproc)" -ge 2 ] || { echo "one processor" >"$tmp/.skip" && exit 0; }
    options=(--bind-to none)
    begin - serve configs/demo.gguf --set server.port=0 --set cpu.threads=1
    rank 1 '^sealed'
    local all=$(sed -n 's/^Cpus_allowed_list:.//p' /proc/$pid/status) t n=0
    for t in /proc/$pid/task/*/status; do
        n=$((n + 1))
        [ "$(sed -n 's/^Cpus_allowed_list:.//p' $t)" = "$all" ] || fail "a thread of rank 1 is pinned to $(sed -n 's/^Cpus_allowed_list:.//p' $t)"
    done
    mpi_signal TERM $job
    wait $job
    [ $n -ge 2 ] || fail "$n threads"
}

test_a_rank_that_is_stopped_while_all_idle() {
    need_mpi
    begin - serve configs/demo.gguf --set server.port=0
    rank 1 '^sealed'
    sleep 4 # longer than the deadline: they hear of each other
    [ -e /proc/$pid ] || fail "it has ended: $(tail -c 300 "$tmp/err")"
    kill -STOP $pid
    ended 5
    said 'b/cpu:0: its rank 1 has not answered for [3-9]'
}
test_rank_0_lost_while_all_idle() {
    need_mpi
    begin - serve configs/demo.gguf --set server.port=0
    rank 0 '^sealed'
    kill -STOP $pid
    ended 5
    said 'stator \(rank 1\): rank 0 was not heard of for 3.0 s'
}

# Ctrl-C: mpiexec tells the ranks; rank 0 ends the run, with the one report. Open MPI's kills them 1 s later: too soon on a busy machine.
test_mpiexec_interrupted() {
    need_mpi
    [ "$mpi_kind" != openmpi ] || options=(--mca odls_base_sigkill_timeout 8)
    begin - run configs/demo.gguf -p Once -n 1000 --ignore-eos --set cpu.tier=scalar --report "$tmp/report"
    rank 0 '^sealed'
    mpi_signal INT $job
    wait $job
    [ $? != 124 ] || fail "it did not end"
    [ -s "$tmp/report" ] || fail "no report: $(tail -c 600 "$tmp/err")"
    [ "$(sed -n 's/^ *"generated_tokens": \([0-9]*\).*/\1/p' "$tmp/report" | head -1)" != 1000 ] || fail "it was not ended"
    [ "$(grep -c 'audit of host memory' "$tmp/err")" = 1 ] || fail "$(grep -c audit "$tmp/err") audits"
}
run_tests
