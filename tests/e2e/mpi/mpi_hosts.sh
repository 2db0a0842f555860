#!/bin/bash
# Two hosts with a network between them: two network namespaces of this machine, each with a name and an address of its own,
# and mpiexec that starts its daemon in the other one. Needs root, iproute2 and Open MPI.
. tests/lib.sh
. tests/lib_mpi.sh
id=$$
left=st${id}a right=st${id}b

away() {
    ip netns del $left
    ip netns del $right
    rm -rf /etc/netns/$left /etc/netns/$right
} 2>/dev/null

# As need_mpi.
need_hosts() {
    need_openmpi "the daemon's options are Open MPI's"
    local why=
    [ -n "$why" ] || { [ "$(id -u)" = 0 ] && ip netns add $left 2>"$tmp/.why" && ip netns add $right && ip link add ${left}v type veth peer name ${right}v; } 2>>"$tmp/.why" ||
        why="no network namespaces here (root and iproute2): $(head -c 100 "$tmp/.why")"
    if [ -n "$why" ]; then
        away
        echo "$why" >"$tmp/.skip"
        exit 0
    fi
    trap away EXIT
    local n
    for n in $left $right; do
        mkdir -p /etc/netns/$n
        printf '127.0.0.1 localhost\n10.77.0.1 a\n10.77.0.2 b\n' >/etc/netns/$n/hosts
        ip link set ${n}v netns $n
        ip -n $n link set lo up
        ip -n $n link set ${n}v up
    done
    ip -n $left addr add 10.77.0.1/24 dev ${left}v
    ip -n $right addr add 10.77.0.2/24 dev ${right}v
    # What mpiexec calls in place of ssh: HOST COMMAND...
    printf '#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\nh=$1; shift\nexec ip netns exec %s unshare -u bash -c "hostname $h; $*"\n' $right >"$tmp/agent"
    chmod +x "$tmp/agent"
}

# over OPTION... -- COMMAND...: stator-mpi on both hosts.
over() {
    local options=()
    while [ "$1" != -- ]; do options+=("$1") && shift; done
    shift
    timeout 60 ip netns exec $left unshare -u bash -c 'hostname a; exec mpiexec.openmpi "$@"' - --host a:1,b:1 -n 2 --mca plm_rsh_agent "$tmp/agent" \
        --mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 "${options[@]}" --wdir "$PWD" "$mpi" "$@"
}

test_two_hosts_have_the_bits_of_one() {
    need_hosts
    local ids="1 5 9 30 44 17 22 100 200 3 7 11 1 5 9 30 44 17 22 100 200"
    expect 0 "$stator" logits configs/demo.gguf --tokens "$ids" --output "$tmp/one"
    expect 0 over -- logits configs/demo.gguf --tokens "$ids" --output "$tmp/two" --set "$two" --set memory.batch=8
    cmp "$tmp/one" "$tmp/two" || fail "other logits over the network"
}

# The requests end in time and say where; keepalives end the rank on the other side. mpiexec itself may wait for its daemon for ever.
test_a_cut_network_ends_both_sides() {
    need_hosts
    over --mca oob_tcp_keepalive_time 3 --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 3 -- \
        bench configs/demo.gguf -p 0 -n 512 -r 1000 --set "$two" --set devices.deadline=3 >"$tmp/out" 2>"$tmp/err" &
    local job=$! n
    for ((n = 0; n < 300; n++)); do
        sleep 0.1
        [ "$(grep -c 'sealed after' "$tmp/err")" = 2 ] && break
    done
    sleep 1
    ip -n $right link set ${right}v down
    # Both ranks, by their namespaces; a zombie is one that mpiexec has not asked for.
    for ((n = 0; n < 400; n++)); do
        sleep 0.1
        [ -z "$({ ip netns pids $left; ip netns pids $right; } | xargs -r ps -o pid=,stat=,comm= -p | grep stator-mpi | grep -v ' Z')" ] && break
    done
    kill -KILL $(pgrep -P $job) $(ip netns pids $left) $(ip netns pids $right) 2>/dev/null
    wait $job 2>/dev/null
    [ $n -lt 400 ] || fail "a rank lives on: $(tail -c 300 "$tmp/err")"
    said 'b/cpu:0: wait: a step of .* has not ended .*or the network to it is cut'
}
run_tests
