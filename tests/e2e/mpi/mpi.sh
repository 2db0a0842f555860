#!/bin/bash
# Runs over several hosts: ranks of MPI on this machine. Results have the bits of one process; what is wrong ends all ranks.
. tests/lib.sh
. tests/lib_mpi.sh
ids="1 5 9 30 44 17 22 100 200 3 7 11 1 5 9 30 44 17 22 100 200 3 7 11 1 5 9 30 44 17 22"

# same MODEL: logits of the ids, in chunks, over 2 and 3 ranks, and with two devices of one host.
same() {
    expect 0 "$stator" logits "$1" --tokens "$ids" --output "$tmp/one" --set devices.use=cpu
    local stages n
    for stages in 'a = cpu:0; b = cpu:0' 'a = cpu:0; b = cpu:0, cpu:1' 'a = cpu:0; b = cpu:0; c = cpu:0'; do
        n=$(($(tr -cd ';' <<<"$stages" | wc -c) + 1))
        expect 0 ranks "$n" "$mpi" logits "$1" --tokens "$ids" --output "$tmp/many" --set "cluster.stages=$stages" --set memory.batch=8
        cmp -s "$tmp/one" "$tmp/many" || fail "$1 over $stages: other logits"
        rm "$tmp/many"
    done
}
test_demo_has_the_bits_of_one_host() { need_mpi; same configs/demo.gguf; }
test_hybrid_with_experts_has_them_too() { need_mpi; need_shared oracles/models/qwen35moe.gguf; same "$shared/oracles/models/qwen35moe.gguf"; }

# divided MODEL STAGES...: the devices of a host divide its layers, in steps of one token up to all of them.
divided() {
    local model=$1 stages batch
    shift
    expect 0 "$stator" logits "$model" --tokens "$ids" --output "$tmp/one" --set devices.use=cpu
    for stages in "$@"; do
        for batch in 1 8 512; do
            expect 0 ranks $(($(tr -cd ';' <<<"$stages" | wc -c) + 1)) "$mpi" logits "$model" --tokens "$ids" --output "$tmp/many" \
                --set "cluster.stages=$stages" --set memory.batch=$batch --set devices.split=tensor
            cmp -s "$tmp/one" "$tmp/many" || fail "$model over $stages in steps of $batch: other logits"
            rm "$tmp/many"
        done
    done
}
test_devices_of_a_host_divide_its_layers() {
    need_mpi
    divided configs/demo.gguf 'a = cpu:0, cpu:1; b = cpu:0, cpu:1' 'a = cpu:0; b = cpu:0, cpu:1' 'a = cpu:0, cpu:1; b = cpu:0' \
        'a = cpu:0; b = cpu:0, cpu:1, cpu:2; c = cpu:0, cpu:1'
}
test_they_divide_hybrid_layers_and_experts() {
    need_mpi
    need_shared oracles/models/qwen35moe.gguf
    divided "$shared/oracles/models/qwen35moe.gguf" 'a = cpu:0, cpu:1; b = cpu:0, cpu:1'
}

# With drafts, uneven shares and uneven layers.
test_groups_of_hosts_generate_the_same_text() {
    need_mpi
    local what=(run configs/demo.gguf -p "Once upon a time there was a cat. The cat was" -n 40 --temp 0.9 --seed 7 --json --set speculation.mode=ngram)
    expect 0 "$stator" "${what[@]}"
    tr -d ' \n\r' <"$tmp/out" | grep -oE '"(ids|tokens)":\[[0-9,]*\]' >"$tmp/one"
    [ -s "$tmp/one" ] || fail "no ids: $(head -c 300 "$tmp/out")"
    expect 0 ranks 2 "$mpi" "${what[@]}" --set "$halves" --set devices.split=tensor:3,1,1,1 --set devices.groups=3,1 --report "$tmp/report"
    tr -d ' \n\r' <"$tmp/out" | grep -oE '"(ids|tokens)":\[[0-9,]*\]' >"$tmp/many"
    cmp -s "$tmp/one" "$tmp/many" || fail "another text"
    python3 - "$tmp/report" <<'E' || fail "not this report: $(grep -E -A9 '"(name|from)"' "$tmp/report" | head -60)"
import json, sys
report = json.load(open(sys.argv[1]))
devices = report["devices"]
assert [d["name"] for d in devices] == ["a/cpu:0", "a/cpu:1", "b/cpu:0", "b/cpu:1"], devices
assert [(d["first_layer"], d["layers"]) for d in devices] == [(0, 6), (0, 6), (6, 2), (6, 2)], devices
assert all(d["kernels_executed"] > 100 for d in devices), devices
routes = [(r["from"], r["to"]) for r in report["routes"]]
assert routes == [("a/cpu:0", "a/cpu:1"), ("a/cpu:1", "a/cpu:0"), ("a/cpu:1", "b/cpu:0")], routes
E
}

test_what_hosts_cannot_divide() {
    expect 2 "$stator" plan configs/demo.gguf --set "$two" --set devices.split=tensor
    said 'no host of cluster.stages has two devices'
    expect 2 "$stator" plan configs/demo.gguf --set "$halves" --set devices.split=tensor --set devices.groups=3
    said 'the devices of each host are one group'
    expect 2 "$stator" plan configs/demo.gguf --set "$halves" --set devices.split=tensor:1,1,1
    said 'one number per device'
    expect 2 "$stator" plan configs/demo.gguf --set "$halves" --set devices.split=tensor --set speculation.mode=mtp
    said 'a run over several hosts'
    expect 2 "$stator" plan configs/demo.gguf --set 'cluster.stages=a = cpu:0, level_zero:0; b = cpu:0' --set devices.split=tensor \
        --set 'devices.facts=a/level_zero:0=24GiB'
    said 'give each host of cluster.stages devices of one kind'
}

# Bytes of each device and host, and what goes over each link.
test_plan_shows_the_groups_of_hosts() {
    expect 0 "$stator" plan configs/demo.gguf --set 'cluster.stages=a = cpu:0, cpu:1; b = cpu:0' --set devices.split=tensor
    printed '^weights on a/cpu:1: share 2 of 2 of layers 0 to '
    printed '^weights on b/cpu:0: layers '
    printed '^copies from a/cpu:1 to b/cpu:0: 1.00 KiB a token; staged: over the network'
    printed '^exchanges of a/cpu:0: .* a token to each other device'
    printed '^b  *staging'
    ! grep -q '^exchanges of b/cpu:0' "$tmp/out" || fail "one device exchanges"
}

test_factors_go_with_their_layers() {
    need_mpi
    "$(dirname "$stator")/tests/test_peer_models" --write "$tmp" >/dev/null || fail "no models"
    same "$tmp/qwen3moe-nvfp4.gguf"
}

test_sampled_text_is_the_same() {
    need_mpi
    local what=(run configs/demo.gguf -p "Once upon a time" -n 40 --temp 0.9 --seed 7 --repeat-penalty 1.1 --json)
    expect 0 "$stator" "${what[@]}"
    tr -d ' \n\r' <"$tmp/out" | grep -oE '"(ids|tokens)":\[[0-9,]*\]' >"$tmp/one"
    [ -s "$tmp/one" ] || fail "no ids: $(head -c 300 "$tmp/out")"
    expect 0 ranks 2 "$mpi" "${what[@]}" --set "$two"
    tr -d ' \n\r' <"$tmp/out" | grep -oE '"(ids|tokens)":\[[0-9,]*\]' >"$tmp/many"
    cmp -s "$tmp/one" "$tmp/many" || fail "another text"
}

test_wrong_numbers_of_ranks() {
    need_mpi
    expect 2 ranks 3 "$mpi" run configs/demo.gguf -p x -n 2 --set "$two"
    said 'cluster.stages has 2 stages, mpiexec has started 3 ranks'
    expect 2 ranks 2 "$mpi" run configs/demo.gguf -p x -n 2
    said 'no cluster.stages'
    expect 2 "$stator" run configs/demo.gguf -p x -n 2 --set "$two"
    said 'mpiexec -n 2'
}

test_stages_that_are_none() {
    expect 2 "$stator" plan configs/demo.gguf --set 'cluster.stages=a = cpu:0; a = cpu:0'
    said 'names a host twice'
    expect 2 "$stator" plan configs/demo.gguf --set 'cluster.stages=a; b = cpu:0'
    said 'is not a list of stages'
    expect 2 "$stator" plan configs/demo.gguf --set 'cluster.stages=a = ; b = cpu:0'
    said 'without devices'
    expect 2 "$stator" plan configs/demo.gguf --set "$two" --set devices.use=cpu
    said 'both given'
    printf 'model = { path = "%s" };\ncluster = { stages = ( { host = "a" }, 3 ) };\n' "$PWD/configs/demo.gguf" >"$tmp/c.cfg"
    expect 2 "$stator" plan "$tmp/c.cfg"
    said 'c.cfg:2: cluster.stages is a list of groups'
    printf 'model = { path = "%s" };\ncluster = { stages = ( { host = "a"; devices = "cpu:0" }, { host = "b"; devices = "cpu:0" } ) };\n' \
        "$PWD/configs/demo.gguf" >"$tmp/d.cfg"
    expect 0 "$stator" plan "$tmp/d.cfg"
    printed 'b/cpu:0'
}

# The hosts of all stages, by what the config says of them: no GPU and no MPI is needed.
test_plan_shows_every_host() {
    printf 'model = { path = "%s" };\ncluster = { stages = ( { host = "a"; devices = "level_zero:0, level_zero:1" }, { host = "b"; devices = "level_zero:0, cpu:0" } ) };\ndevices = { facts = "a/level_zero:0=24GiB; a/level_zero:1=24GiB; b/level_zero:0=24GiB; b/cpu:0=64GiB" };\n' \
        "$PWD/configs/demo.gguf" >"$tmp/c.cfg"
    expect 0 "$stator" plan "$tmp/c.cfg"
    printed 'host of stage 1, b:'
    printed '^b .*staging'
    printed 'of 64.00 GiB'
    [ "$(grep -c 'plan [0-9a-f]*$' "$tmp/err")" = 1 ] || fail "the plan's hash is said once"
    expect 2 "$stator" plan "$tmp/c.cfg" --set "devices.facts=a/level_zero:0=24GiB; a/level_zero:1=24GiB"
    said 'b/level_zero:0.*devices.facts must describe it'
    expect 3 "$stator" plan "$tmp/c.cfg" --set "devices.facts=a/level_zero:0=24GiB; a/level_zero:1=24GiB; b/level_zero:0=24GiB; b/cpu:0=8MiB"
    said 'host'
    expect 2 "$stator" run "$tmp/c.cfg" -p x
    said 'mpiexec -n 2'
}

# Commands that choose a context of their own choose the same one on every rank.
test_bench_and_perplexity_need_no_context() {
    need_mpi
    expect 0 ranks 2 "$mpi" bench configs/demo.gguf -p 16 -n 4 -r 1 --json --set "$two"
    printed '"test": "pp16"'
    head -c 6000 src/README.md >"$tmp/text"
    expect 0 "$stator" perplexity configs/demo.gguf -f "$tmp/text" --json
    grep -E '"(value|error)"' "$tmp/out" >"$tmp/one"
    [ -s "$tmp/one" ] || fail "no figures: $(head -c 300 "$tmp/out")"
    expect 0 ranks 2 "$mpi" perplexity configs/demo.gguf -f "$tmp/text" --json --set "$two"
    grep -E '"(value|error)"' "$tmp/out" >"$tmp/many"
    cmp -s "$tmp/one" "$tmp/many" || fail "other figures over two ranks: $(diff "$tmp/one" "$tmp/many")"
}

# Every boundary is tried before the first step; what the MPI library takes has a name on every rank, and grows no more with more tokens.
test_boundaries_and_memory_are_told() {
    need_mpi
    local rank0 rank1 n
    for n in 50 900; do
        expect 0 ranks 3 "$mpi" run configs/demo.gguf -p Once -n $n --ignore-eos --set 'cluster.stages=a = cpu:0; b = cpu:0; c = cpu:0' --report "$tmp/report"
        said '^a/cpu:0 to b/cpu:0: .*over the network, [0-9.]+ [KMG]iB/s, [0-9.]+ us'
        said '^rank 1: b/cpu:0 to c/cpu:0: .*over the network, [0-9.]+ [KMG]iB/s, [0-9.]+ us'
        said 'of that: MPI_Init \('"$mpi_name"
        [ "$(sed -n 's/^ *"mpi_bytes": \([0-9]*\).*/\1/p' "$tmp/report" | tail -1)" -gt 100000 ] || fail "no figure of MPI's memory"
        [ "$(grep -cE '"away_ns": [1-9]' "$tmp/report")" = 2 ] || fail "no time on the way to both ranks: $(grep away_ns "$tmp/report")"
        [ "$(grep -cE '^rank [12]: host memory: .*of that MPI_Init, '"$mpi_name" "$tmp/err")" = 2 ] || fail "not a line of each rank: $(grep -c 'host memory' "$tmp/err")"
        [ "$(sed -n 's/^ *"grown_since_seal_bytes": \([0-9]*\).*/\1/p' "$tmp/report" | tail -1)" -lt $mpi_grows ] || fail "grown after $n tokens"
    done
}

# The report has the audit of every rank, and memory.strict looks at each. Rank 1 takes 3 MiB when its 20th step has ended.
test_the_audit_of_every_rank() {
    need_mpi
    printf '#include <mpi.h>\n#include <stdlib.h>\n#include <string.h>\nint MPI_Isend(const void *s, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *q) { static int sent; static char *more; sent += tag >= 16; if (sent == 20 && more == NULL) memset(more = malloc(3 << 20), 1, 3 << 20); return PMPI_Isend(s, n, t, to, tag, c, q); }\n' >"$tmp/grows.c"
    "mpicc.$mpi_kind" -shared -fPIC -o "$tmp/grows.so" "$tmp/grows.c" || fail "no library"
    local what=("$mpi" run configs/demo.gguf -p Once -n 50 --ignore-eos --set "$two" --report "$tmp/report" --set memory.strict)
    expect 0 ranks 2 "${what[@]}=true"
    told_by_rank_1 '' 1000000
    expect 3 ranks 1 "${what[@]}=true" : -n 1 env LD_PRELOAD="$tmp/grows.so" "${what[@]}=true"
    once '^stator run: rank 1: host: the process has grown by .*; memory.strict is set' 1
    told_by_rank_1 'host: the process has grown by' 9000000
    expect 0 ranks 1 "${what[@]}=false" : -n 1 env LD_PRELOAD="$tmp/grows.so" "${what[@]}=false"
    once '^rank 1: host: the process has grown by ' 1
    told_by_rank_1 'host: the process has grown by' 9000000
}
# told_by_rank_1 WRONG MOST: what the report has of it.
told_by_rank_1() {
    python3 - "$tmp/report" "$@" <<'E' || fail "not rank 1's audit: $(grep -A14 other_ranks "$tmp/report")"
import json, sys
ranks = json.load(open(sys.argv[1]))["audit"]["other_ranks"]
assert [r["rank"] for r in ranks] == [1], ranks
r = ranks[0]
assert r["wrong"].startswith(sys.argv[2]) and (r["wrong"] == "") == (sys.argv[2] == ""), r
assert 0 <= r["grown_since_seal_bytes"] < int(sys.argv[3]) and r["mpi_bytes"] > 100000 and r["planned_bytes"] > 1000000, r
assert r["planned_bytes"] - r["not_in_ram_bytes"] + r["before_bytes"] + r["libraries_and_drivers_bytes"] == r["kernel_bytes"], r
E
}

# The guide's service is one to systemd.
test_the_service_of_the_guide() {
    need_mpi
    if ! command -v systemd-analyze >/dev/null || [ ! -x /usr/bin/mpiexec ]; then
        echo "no systemd-analyze here" >"$tmp/.skip"
        exit 0
    fi
    expect 0 "$stator" help hosts
    sed -n '/^ *\[Service\]/,/^$/s/^    //p' "$tmp/out" >"$tmp/stator.service"
    grep -q '^ExecStart=/usr/bin/mpiexec -n 2 ' "$tmp/stator.service" || fail "no service in the guide: $(cat "$tmp/stator.service")"
    expect 0 systemd-analyze verify "$tmp/stator.service"
    [ ! -s "$tmp/err" ] || fail "systemd says: $(cat "$tmp/err")"
    echo Restrat=never >>"$tmp/stator.service" # what it says of a typo
    systemd-analyze verify "$tmp/stator.service" 2>&1 | grep -q 'Unknown key' || fail "systemd-analyze looks at nothing"
}

# The README's figures are those of the tool's table: tokens/s of one sequence, of many, of a prompt.
test_the_readme_has_the_model_of_hosts() {
    expect 0 tools/bench_hosts --table
    [ "$(grep -c '^| [0-9]' "$tmp/out")" = 8 ] || fail "no eight rows: $(head -c 300 "$tmp/out")"
    python3 - "$tmp/out" src/device/remote/README.md <<'E' || fail "src/device/remote/README.md is not what tools/bench_hosts says"
import sys
rows = [[[float(x) for x in cell.split("·")] for cell in line.strip("| \n").split("|")] for line in open(sys.argv[1])
        if line.startswith("| ") and line[2].isdigit()]
text = " ".join(open(sys.argv[2]).read().split())
dense, moe = rows[:4], rows[4:]
one = [cell[0] for row in dense for cell in row[1:]]
for said in ("makes %.1f to %.1f tokens/s" % (min(one), max(one)), "makes %.0f on 2 hosts and %.0f on 16" % (moe[0][1][0], moe[3][1][0])):
    assert said in text, said
E
}

# once PATTERN NUMBER: so many lines.
once() { [ "$(grep -cE "$1" "$tmp/err")" = "$2" ] || fail "$(grep -cE "$1" "$tmp/err") lines of $1: $(grep -E "$1" "$tmp/err")"; }

test_another_plan_on_another_host() {
    need_mpi
    expect 3 ranks 1 "$mpi" run configs/demo.gguf -p x -n 2 --set "$two" : -n 1 "$mpi" run configs/demo.gguf -p x -n 2 --set "$two" --set memory.context=256
    once '^stator run: rank 1 has plan' 1
    once '^stator \(rank 1\): rank 1 has plan' 1
}

# Another version of stator: this one, whose first word to the others (struct meeting, remote_mpi.c) is changed on its way.
test_another_version_on_another_host() {
    need_mpi
    printf '#include <mpi.h>\n#include <string.h>\nint MPI_Iallgather(const void *s, int n, MPI_Datatype t, void *r, int m, MPI_Datatype u, MPI_Comm c, MPI_Request *q) { static char w[512]; memcpy(w, s, n); strcpy(w + 4, "9.8.7"); return PMPI_Iallgather(w, n, t, r, m, u, c, q); }\n' >"$tmp/other.c"
    "mpicc.$mpi_kind" -shared -fPIC -o "$tmp/other.so" "$tmp/other.c" || fail "no library"
    expect 3 ranks 1 "$mpi" run configs/demo.gguf -p x -n 2 --set "$two" : -n 1 env LD_PRELOAD="$tmp/other.so" "$mpi" run configs/demo.gguf -p x -n 2 --set "$two"
    once '^stator run: rank 1 is stator 9.8.7, rank 0 is [0-9]' 1
    once '^stator \(rank 1\): rank 1 is stator 9.8.7, rank 0 is [0-9]' 1
}

# Kernels of other instruction sets on other hosts: the same bits.
test_other_processors_on_another_host() {
    need_mpi
    expect 0 "$stator" logits configs/demo.gguf --tokens "$ids" --output "$tmp/one" --set devices.use=cpu
    local what=(logits configs/demo.gguf --tokens "$ids" --output "$tmp/many" --set "$two" --set memory.batch=8)
    expect 0 ranks 1 "$mpi" "${what[@]}" : -n 1 "$mpi" "${what[@]}" --set cpu.tier=scalar --set cpu.threads=1
    cmp -s "$tmp/one" "$tmp/many" || fail "other logits"
}

test_another_file_on_another_host() {
    need_mpi
    local size middle
    size=$(stat -c %s configs/demo.gguf)
    # The same header, and half of the weights are others.
    middle=$((size / 2))
    { head -c $middle configs/demo.gguf; tail -c $((size - middle)) configs/demo.gguf | tr '\001-\376' '\002-\377'; } >"$tmp/other.gguf"
    expect 4 ranks 1 "$mpi" run configs/demo.gguf -p x -n 2 --set "$two" : -n 1 "$mpi" run "$tmp/other.gguf" -p x -n 2 --set "$two"
    once '^stator run: the model file of rank 1 has other weights' 1
    once '^stator \(rank 1\): rank 0: the model file of rank 1 has other weights' 1
    need_shared oracles/models/qwen3.gguf
    expect 3 ranks 1 "$mpi" run configs/demo.gguf -p x -n 2 --set "$two" : -n 1 "$mpi" run "$shared/oracles/models/qwen3.gguf" -p x -n 2 --set "$two"
    said 'rank 1 has plan'
}

# Every rank's host, by the rank that asks; what is not the same everywhere, or not where it should be, is a problem.
test_doctor_looks_at_the_launch() {
    need_mpi
    local host
    host=$(hostname)
    ranks 2 --bind-to none "$mpi" doctor >"$tmp/out" 2>"$tmp/err" # exit 5 where there is no GPU
    printed "^rank 0: ok +rank 1: host $host, stator [0-9.]+, $mpi_name"
    printed '^rank 0: note +rank 1: another rank of host .* may run on the same processors'
    printed '^rank 1: .*memlock'
    ! grep -q MPI_ABORT "$tmp/err" || fail "it has aborted"
    ranks 2 "$mpi" doctor --hosts "$host,elsewhere" >"$tmp/out" 2>"$tmp/err" && fail "it finds nothing"
    printed "^rank 0: ok +rank 0: host $host"
    printed "^rank 0: problem +rank 1: it runs on host $host, elsewhere is expected"
    ranks 2 "$mpi" doctor --json >"$tmp/out" 2>"$tmp/err"
    [ "$(grep -c '"problems"' "$tmp/out")" = 1 ] || fail "not one document"
}

test_bad_launches() {
    need_mpi
    expect 2 "$mpi" run configs/demo.gguf -p x -n 2 --set "$two" # no mpiexec
    said 'mpiexec -n 2'
    said "the mpiexec of $mpi_name"
    expect 0 "$mpi" run configs/demo.gguf -p x -n 2
    expect 2 ranks 2 "$mpi" run configs/demo.gguf -p x -n 2 --set 'cluster.stages=a = cpu:0; b = cpu:0; c = cpu:0'
    said 'cluster.stages has 3 stages, mpiexec has started 2 ranks'
    once 'has started 2 ranks' 2
    expect 2 ranks 2 "$mpi" run configs/demo.gguf -p x -n 2 --set "$two" --set devices.split=6,0
    said 'devices.split'
    # An MPI library without threads: one that says so.
    printf '#include <mpi.h>\nint MPI_Init_thread(int *c, char ***v, int wanted, int *got) { int rc = PMPI_Init_thread(c, v, wanted, got); *got = MPI_THREAD_FUNNELED; return rc; }\n' >"$tmp/single.c"
    "mpicc.$mpi_kind" -shared -fPIC -o "$tmp/single.so" "$tmp/single.c" || fail "no library"
    expect 1 ranks 2 env LD_PRELOAD="$tmp/single.so" "$mpi" run configs/demo.gguf -p x -n 2 --set "$two"
    once 'this MPI library was built without threads' 2
}

test_a_rank_that_refuses_tells_why() {
    need_mpi
    ranks 1 "$mpi" run configs/demo.gguf -p x -n 2 --set "$two" : -n 1 "$mpi" run "$tmp/none.gguf" -p x -n 2 --set "$two" \
        >"$tmp/out" 2>"$tmp/err"
    [ $? -ne 0 ] && [ $? -ne 124 ] || fail "it did not end"
    said 'none.gguf'
}

# lose SIGNAL [MPIEXEC-OPTION...]: rank 1 gets it in the middle of a run; code is that of mpiexec. No rank outlives it.
lose() {
    local signal=$1 job pid all p
    shift
    mpi_exec "$@" -n 2 "$mpi" bench configs/demo.gguf -p 0 -n 512 -r 1000 --set "${stages:-$two}" --set "devices.split=${split:-auto}" --set devices.deadline=3 >"$tmp/out" 2>"$tmp/err" &
    job=$!
    mpi_told '^model ' # it runs
    pid=$(mpi_rank $job 1)
    [ -n "$pid" ] || fail "no rank 1: $(tail -c 300 "$tmp/err")"
    all=$(mpi_processes $job)
    kill -$signal "$pid"
    wait $job
    code=$?
    kill -CONT "$pid" 2>/dev/null
    for p in $all; do
        timeout 60 tail --pid="$p" -f /dev/null || fail "process $p lives on"
    done
}
lost() { said 'b/cpu:[01]: wait: a step of .* has not ended .*: the rank of that host was stopped or killed'; }
test_a_stopped_rank_is_lost_after_the_deadline() {
    need_mpi
    lose STOP
    [ $code = 5 ] || fail "exit $code: $(tail -c 600 "$tmp/err")"
    lost
}

test_a_stopped_rank_with_a_group_is_lost_too() {
    need_mpi
    local stages=$halves split=tensor
    lose STOP
    [ $code = 5 ] || fail "exit $code: $(tail -c 600 "$tmp/err")"
    lost
}

# By default mpiexec ends all when a rank is killed, at once.
test_a_killed_rank_ends_all() {
    need_mpi
    lose KILL
    case $code in 9 | 137) ;; *) fail "exit $code: $(tail -c 600 "$tmp/err")" ;; esac
}
# Told not to, Open MPI's leaves the others alone: then the deadline says which one it was.
test_a_killed_rank_is_lost_after_the_deadline() {
    need_openmpi "MPICH's mpiexec ends all whatever it is told"
    lose KILL --enable-recovery
    [ $code != 124 ] || fail "it did not end"
    lost
}
run_tests
