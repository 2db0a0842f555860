# stator doctor: what it finds on machines that are given as folders, and that it says what to do.
. tests/lib.sh

line() { # FILE TEXT
    mkdir -p "$(dirname "$root$1")"
    printf '%s\n' "$2" >"$root$1"
}

# card ADDRESS: a healthy Arc card behind a root port and its own switch.
card() {
    local bus=${1%:*} n=${2:-128} real
    bus=${bus#0000:}
    real=/sys/devices/pci0000:00/0000:00:01.0/0000:0$((10#$bus - 2)):00.0/0000:0$((10#$bus - 1)):01.0/$1
    mkdir -p "$root$real/drm/renderD$n" "$root/sys/bus/pci/devices" "$root/sys/bus/pci/drivers/i915" "$root/dev/dri"
    ln -sfn "$root$real" "$root/sys/bus/pci/devices/$1"
    ln -sfn "$root/sys/bus/pci/drivers/i915" "$root$real/driver"
    line "$real/vendor" 0x8086
    line "$real/device" 0x56a0
    line "$real/class" 0x030000
    line "$real/numa_node" 0
    line "$real/local_cpulist" 0-7
    printf '%s\n' '0x0000004000000000 0x0000004000ffffff 0x140204' '0x0000004400000000 0x00000047ffffffff 0x14220c' \
        >"$root$real/resource"
    local slot=${real%/*/*}
    line "$slot/current_link_width" 16
    line "$slot/max_link_width" 16
    line "$slot/current_link_speed" '16.0 GT/s PCIe'
    line "$slot/max_link_speed" '16.0 GT/s PCIe'
    : >"$root/dev/dri/renderD$n"
}

machine() {
    root=$tmp/root
    line /proc/sys/kernel/osrelease 6.12.9-amd64
    line /sys/devices/system/node/online 0
    line /proc/self/cgroup 0::/user.slice
    line /sys/fs/cgroup/user.slice/memory.max max
}

doctor() { expect 5 "$stator" doctor --root "$root"; } # there is never a driver in these tests
fine() { printed "^ok +$1" && ! grep -qE "^(note|problem) +$1" "$tmp/out" || fail "not ok: $1: $(cat "$tmp/out")"; }
bad() { grep -A1 -E "^problem +$1" "$tmp/out" | grep -q '^ *-> ..' || fail "no problem with advice: $1: $(cat "$tmp/out")"; }
note() { printed "^note +$1"; }

test_healthy() {
    machine
    card 0000:03:00.0
    doctor
    fine 'kernel: Linux 6.12.9'
    fine '0000:03:00.0 kernel driver: i915 \(8086:56a0\)'
    fine '0000:03:00.0 render node: /dev/dri/renderD128'
    fine '0000:03:00.0 resizable BAR: a window of 16'
    fine '0000:03:00.0 PCIe link: x16 at 16.0 GT/s'
    fine '0000:03:00.0 NUMA node'
    fine 'cgroup: no limit'
    fine 'memlock'
    ! grep -q IOMMU "$tmp/out" || fail "one card has no need of the IOMMU"
}

test_no_card() {
    machine
    doctor
    bad 'PCI: no Intel GPU'
    bad 'driver: Level Zero finds no'
}

test_no_driver() {
    machine
    card 0000:03:00.0
    rm "$root"/sys/devices/pci0000:00/*/*/*/*/driver
    rm -r "$root"/sys/devices/pci0000:00/*/*/*/*/drm
    doctor
    bad '0000:03:00.0 kernel driver: none'
    bad '0000:03:00.0 render node'
    mkdir -p "$root/sys/bus/pci/drivers/vfio-pci"
    ln -s "$root/sys/bus/pci/drivers/vfio-pci" "$(echo "$root"/sys/devices/pci0000:00/*/*/*/0000:03:00.0)/driver"
    doctor
    bad '0000:03:00.0 kernel driver: vfio-pci'
}

test_node() {
    machine
    card 0000:03:00.0
    rm "$root/dev/dri/renderD128"
    doctor
    bad '0000:03:00.0 render node: /dev/dri/renderD128 is not there'
}

test_permission() {
    machine
    card 0000:03:00.0
    chmod 600 "$root/dev/dri/renderD128"
    if [ "$(id -u)" = 0 ]; then # root may read everything
        chmod 755 "$tmp"
        cp "$stator" "$tmp/stator"
        expect 5 setpriv --reuid=65534 --regid=65534 --clear-groups "$tmp/stator" doctor --root "$root"
    else
        chmod 000 "$root/dev/dri/renderD128"
        doctor
    fi
    bad '0000:03:00.0 render node: uid [0-9]+ may not read and write'
}

test_old_kernel() {
    machine
    card 0000:03:00.0
    line /proc/sys/kernel/osrelease 6.1.0-28-amd64
    doctor
    bad 'kernel: Linux 6.1.0-28-amd64; these GPUs need 6.2'
    line /sys/bus/pci/devices/0000:03:00.0/device 0xe20b
    line /proc/sys/kernel/osrelease 6.8.0
    doctor
    bad 'kernel: Linux 6.8.0; these GPUs need 6.12'
    note '0000:03:00.0 compute-runtime: a driver older than 24.31 does not know this GPU .8086:e20b'
}

test_small_window() {
    machine
    card 0000:03:00.0
    line /sys/bus/pci/devices/0000:03:00.0/resource '0x0000004400000000 0x000000440fffffff 0x14220c'
    doctor
    bad '0000:03:00.0 resizable BAR: the largest window on its memory is 256'
}

test_narrow_link() {
    machine
    card 0000:03:00.0
    line /sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/current_link_width 4
    doctor
    note '0000:03:00.0 PCIe link: x4 at 16.0 GT/s PCIe of x16'
}

test_iommu() {
    machine
    card 0000:03:00.0
    card 0000:06:00.0 129
    doctor
    fine 'IOMMU: off'
    local i=0 a
    for a in 03 06; do
        i=$((i + 1))
        line /sys/kernel/iommu_groups/$i/type DMA-FQ
        ln -sfn "$root/sys/kernel/iommu_groups/$i" "$root/sys/bus/pci/devices/0000:$a:00.0/iommu_group"
    done
    doctor
    note 'IOMMU: translates addresses \(DMA-FQ\), and ACS'
    line /sys/kernel/iommu_groups/1/type identity
    doctor
    fine 'IOMMU: passes'
}

test_cgroup() {
    machine
    card 0000:03:00.0
    line /sys/fs/cgroup/user.slice/memory.max 268435456
    doctor
    bad 'cgroup: memory is limited to 256'
    line /sys/fs/cgroup/user.slice/memory.max 34359738368
    doctor
    fine 'cgroup: memory is limited to 32'
}

test_json() {
    machine
    card 0000:03:00.0
    expect 5 "$stator" doctor --root "$root" --json
    printed '"problems": [1-9]'
    printed '"state": "ok"'
    printed '"advice": "install'
}

test_empty_root() {
    mkdir "$tmp/nothing"
    expect 5 "$stator" doctor --root "$tmp/nothing"
    printed '^note +kernel'
    expect 5 "$stator" doctor --root "$tmp/absent"
}

run_tests
