# What the tests of several ranks share, after lib.sh. STATOR_TEST_MPI=mpich: with that build (make MPI=mpich stator-mpi) and its mpiexec.
mpi_kind=${STATOR_TEST_MPI:-openmpi}
mpi=${BUILD:-}/stator-mpi-$mpi_kind
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Stacks through MPI's plugins, for lsan.supp; and libraries of tests between MPI and us.
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:fast_unwind_on_malloc=0:verify_asan_link_order=0
sanitized && export HWLOC_COMPONENTS=-opencl,-levelzero # which MPI_Init would open in a way that they refuse
two='cluster.stages=a = cpu:0; b = cpu:0'
halves='cluster.stages=a = cpu:0, cpu:1; b = cpu:0, cpu:1' # with devices.split=tensor
if [ "$mpi_kind" = mpich ]; then
    mpi_name='MPICH Version: ' mpi_grows=1000000 mpi_own=()
else
    mpi_name='Open MPI v' mpi_grows=400000 mpi_own=(--oversubscribe)
fi

# Not skip: MPI is in no group that the other tests need.
need_mpi() {
    [ -x "$mpi" ] && command -v "mpiexec.$mpi_kind" >/dev/null && return
    [ -z "${STATOR_MPI_REQUIRE:-}" ] || fail "no $mpi_kind here: run make setup-mpi stator-mpi"
    echo "no $mpi_kind here: run make setup-mpi stator-mpi" >"$tmp/.skip"
    exit 0
}
need_openmpi() {
    need_mpi
    [ "$mpi_kind" = openmpi ] && return
    echo "$*" >"$tmp/.skip"
    exit 0
}

# mpi_exec OPTION...: mpiexec, which a test that hangs does not outlive.
mpi_exec() { timeout -k 5 "${mpi_limit:-600}" "mpiexec.$mpi_kind" "${mpi_own[@]}" "$@"; }
ranks() { mpi_exec -n "$@"; }

# mpi_children PID: it and all that it has started, one a line.
mpi_children() {
    local p
    echo "$1"
    for p in $(pgrep -P "$1"); do mpi_children "$p"; done
}
# mpi_processes JOB: the ranks of that mpi_exec in the background.
mpi_processes() {
    local p
    for p in $(mpi_children "$1"); do [ "/proc/$p/exe" -ef "$mpi" ] && echo "$p"; done
}
# mpi_rank JOB N: rank N's process, or nothing.
mpi_rank() {
    local p
    for p in $(mpi_processes "$1"); do
        tr '\0' '\n' <"/proc/$p/environ" 2>/dev/null | grep -qxE "(OMPI_COMM_WORLD_RANK|PMI_RANK)=$2" && echo "$p" && return
    done
}
# mpi_told PATTERN: waits until stderr of $job has such a line.
mpi_told() {
    local n
    for ((n = 0; n < 1200; n++)); do
        grep -qE "$1" "$tmp/err" 2>/dev/null && return
        kill -0 "$job" 2>/dev/null || break
        sleep 0.05
    done
    fail "no /$1/ from $job: $(tail -c 300 "$tmp/err")"
}
# mpi_signal SIGNAL JOB: to mpiexec itself, not to timeout, which would kill it 5 s later.
mpi_signal() {
    local p
    for p in $(mpi_children "$2"); do grep -q '^mpiexec' "/proc/$p/comm" && kill "-$1" "$p"; done
}
