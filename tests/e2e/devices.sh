# stator devices: without a GPU.
. tests/lib.sh

test_no_gpu() {
    expect 0 "$stator" devices
    printed '^cpu:0  kernels for '
    said '^no GPU: '
    expect 0 "$stator" devices --json --probe
    printed '"name": "cpu:0"'
    printed '"no_gpus": "..'
}

test_save() {
    expect 0 "$stator" devices --save "$tmp/box.cfg"
    grep -q '^devices = { use = "cpu:0"; };$' "$tmp/box.cfg" || fail "$(cat "$tmp/box.cfg")"
    expect 1 "$stator" devices --save "$tmp/no/such/folder"
    said 'no/such/folder.* can.t be written'
}

run_tests
