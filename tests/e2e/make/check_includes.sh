# tools/check_includes: clean on this tree, and it finds one violation of each kind.
. tests/lib.sh

# A small tree without a violation, in $tmp/t.
good_tree() {
    mkdir -p "$tmp/t/include" "$tmp/t/tests"
    local room
    for room in base os config formats model tokenizer chat pack plan graph kernels/opencl kernels/shared device/cpu device/launch \
        device/level_zero engine/run engine/sampling engine/start engine/report arch/parts server app/plan app/bench; do
        mkdir -p "$tmp/t/src/$room"
    done
    cd "$tmp/t" || fail cd
    echo '#include <stdint.h>' >include/stator.h
    echo '#include "stator.h"' >src/base/error.h
    printf '#include <xxhash.h>\n#include <sys/mman.h>\n#include "base/error.h"\n' >src/base/hash.c
    printf '#include <ck_ring.h>\n' >src/engine/run/ring.c
    echo '#include <libconfig.h>' >src/config/config.c
    : >src/config/config.h
    echo '  #  include "base/error.h" /* why */' >src/formats/block.h
    echo '#include "formats/block.h"' >src/model/gguf.h
    printf '#include <pcre2.h>\n#include "model/gguf.h"\n' >src/tokenizer/tokenizer.c
    echo '#include <jansson.h>' >src/chat/chat.c
    echo '#include "base/error.h"' >src/pack/pack.h
    printf '#include "pack/pack.h"\n#include "model/gguf.h"\n#include "kernels/shared/num.h"\n' >src/graph/graph.h
    : >src/kernels/kernels.h
    : >src/kernels/shared/num.h
    : >src/kernels/opencl/cl_common.h
    printf '#include "kernels/shared/num.h"\n#include "kernels/opencl/cl_common.h"\n' >src/kernels/opencl/matmul.cl
    echo '#include <immintrin.h>' >src/kernels/avx2.c
    echo '#include "graph/graph.h"' >src/device/device.h
    echo '#include "device/device.h"' >src/device/cpu/device_cpu.h
    printf '#include "device/cpu/device_cpu.h"\n' >src/device/device_list.c
    echo '#include <level_zero/ze_api.h>' >src/device/level_zero/ze.c
    echo '#include "device/device.h"' >src/device/cluster.h
    printf '#include "device/cluster.h"\n#include "device/device.h"\n#include "config/config.h"\n' >src/engine/engine.h
    printf '#include "engine/engine.h"\n' >src/engine/run/loop.h
    printf '#include "engine/run/loop.h"\n' >src/engine/start/start.h
    printf '#include "engine/start/start.h"\n#include "engine/run/loop.h"\n' >src/engine/report/report.h
    printf '#include "engine/report/report.h"\n#include "engine/start/start.h"\n' >src/engine/api.c
    echo '#include "device/device.h"' >src/device/launch/launch.h
    echo '#include "device/launch/launch.h"' >src/device/level_zero/lz.h
    : >src/arch/parts/parts.h
    echo '#include "arch/parts/parts.h"' >src/arch/llama.c
    printf '#include <event2/http.h>\n#include "stator.h"\n#include "config/config.h"\n' >src/server/server.c
    printf '#include "engine/engine.h"\n#include "device/device.h"\n' >src/app/main.c
    printf '#include "stator.h"\n#include "base/error.h"\n#include "app/out.h"\n' >src/app/run.c
    : >src/app/out.h
    echo '#include "app/out.h"' >src/app/plan/plan_show.h
    : >src/app/bench/table.h
    cd "$OLDPWD" || fail cd
}

test_this_tree_is_clean() {
    tools/check_includes >"$tmp/out" || fail "$(cat "$tmp/out")"
    [ ! -d "${BUILD:-none}/src" ] || tools/check_includes . "$BUILD/src" >"$tmp/out" || fail "$(cat "$tmp/out")"
}

# src/README.md has the same table, for people.
test_the_table_is_documented() {
    sed -n 's/^    may\["\([a-z]*\)"\] = "\(.*\)"$/\1: \2/p' tools/check_includes | sort >"$tmp/tool"
    [ "$(wc -l <"$tmp/tool")" -ge 10 ] || fail "the table of tools/check_includes was not found: $(cat "$tmp/tool")"
    awk -F ' *[|] *' '$2 ~ /^`[a-z]+\/`$/ { gsub(/[`\/]/, "", $2); print $2 ": " $4 }' src/README.md | sort >"$tmp/readme"
    diff "$tmp/tool" "$tmp/readme" >"$tmp/diff" ||
        fail "the table of rooms differs (< tools/check_includes, > src/README.md): $(tr '\n' ' ' <"$tmp/diff")"
    sed -n 's/^    part\["\([^"]*\)"\] = "\(.*\)"$/\1: \2/p' tools/check_includes | sort >"$tmp/tool"
    [ "$(wc -l <"$tmp/tool")" -ge 10 ] || fail "the table of parts in tools/check_includes was not found: $(cat "$tmp/tool")"
    awk -F ' *[|] *' '$2 ~ /^`[a-z]+\/[a-z_.*]+`$/ { gsub(/`/, "", $2); gsub(/`/, "", $4); print $2 ": " $4 }' src/README.md |
        sort >"$tmp/readme"
    diff "$tmp/tool" "$tmp/readme" >"$tmp/diff" ||
        fail "the table of parts differs (< tools/check_includes, > src/README.md): $(tr '\n' ' ' <"$tmp/diff")"
}

test_a_good_tree_is_clean() {
    good_tree
    expect 0 tools/check_includes "$tmp/t"
    [ ! -s "$tmp/out" ] || fail "it printed: $(cat "$tmp/out")"
}

# violates FILE TEXT PATTERN: FILE with TEXT as its last line is found; without it the tree is clean again.
violates() {
    local file="$tmp/t/src/$1" had=
    [ ! -e "$file" ] || had=1
    [ -z "$had" ] || cp "$file" "$tmp/saved"
    mkdir -p "$(dirname "$file")"
    printf '%s\n' "$2" >>"$file"
    expect 1 tools/check_includes "$tmp/t"
    printed "$3"
    [ "$(wc -l <"$tmp/out")" = 1 ] || fail "more than one violation for $1: $(cat "$tmp/out")"
    if [ -n "$had" ]; then mv "$tmp/saved" "$file"; else rm "$file"; fi
}

test_each_violation_is_found() {
    good_tree
    # rooms
    violates base/x.c '#include "config/config.h"' '^src/base/x\.c:1: base/ may not include "config/config\.h"'
    violates config/x.c '#include "formats/block.h"' 'config/ may not include'
    violates formats/x.c '#include "model/gguf.h"' 'formats/ may not include'
    violates model/x.c '#include "config/config.h"' 'model/ may not include'
    violates tokenizer/x.c '#include "formats/block.h"' 'tokenizer/ may not include'
    violates chat/x.c '#include "model/gguf.h"' 'chat/ may not include'
    violates pack/x.c '#include "graph/graph.h"' 'pack/ may not include'
    violates graph/x.c '#include "kernels/kernels.h"' 'graph/ may not include'
    violates graph/x.c '#include "kernels/opencl/cl_common.h"' 'graph/ may not include'
    violates model/x.c '#include "kernels/shared/num.h"' 'model/ may not include'
    violates device/x.c '#include "kernels/opencl/cl_common.h"' 'is private to kernels/'
    violates kernels/x.c '#include "model/gguf.h"' 'kernels/ may not include'
    violates device/x.c '#include "model/gguf.h"' 'device/ may not include'
    violates plan/x.c '#include "engine/engine.h"' 'plan/ may not include'
    violates engine/y.c '#include "app/out.h"' 'engine/ may not include'
    violates engine/z.c '#include "device/cpu/device_cpu.h"' 'engine/ may not include "device/cpu'
    violates server/x.c '#include "engine/engine.h"' 'server/ may not include'
    violates app/x.c '#include "device/cpu/device_cpu.h"' 'is private to device/'
    violates app/run.c '#include "config/config.h"' 'stator\.h and base only'
    violates app/x.c '#include "stator_bench.h"' 'stator_bench\.h is for app/bench only'
    violates device/x.c '#include "device/cpu/device_cpu.h"' 'device_list\.c alone names back ends'
    violates device/level_zero/ze.c '#include "device/cpu/device_cpu.h"' 'private to device/cpu/'
    violates extra/x.c '' 'src/extra is no room of the table'
    # parts of rooms
    violates engine/run/x.c '#include "engine/start/start.h"' 'engine/run may not include "engine/start/start\.h" .of this room it may: \. cache draft sampling.'
    violates engine/run/x.c '#include "engine/report/report.h"' 'engine/run may not include'
    violates engine/sampling/x.c '#include "engine/run/loop.h"' 'engine/sampling may not include'
    violates engine/start/x.c '#include "engine/report/report.h"' 'engine/start may not include'
    violates device/launch/x.c '#include "device/level_zero/lz.h"' 'private to device/level_zero/'
    violates device/cpu/x.c '#include "device/launch/launch.h"' 'device/cpu may not include'
    violates device/x.c '#include "device/launch/launch.h"' 'device/\. may not include "device/launch/launch\.h" .of this room it may: nothing.'
    violates app/x.c '#include "app/plan/plan_show.h"' 'app/\. may not include'
    violates app/bench/x.c '#include "app/plan/plan_show.h"' 'app/\* may not include'
    violates engine/extra/x.c '' 'src/engine/extra is no part of the table'
    # libraries
    violates base/x.c '#include <ck_ring.h>' '<ck_ring\.h> may be included only'
    violates kernels/x.c '#include <ck/ck_pr.h>' '<ck/ck_pr\.h> may be included only'
    violates model/x.c '#include <xxhash.h>' 'xxhash'
    violates model/x.c '#include <zstd.h>' 'zstd'
    violates app/x.c '#include <libconfig.h>' 'libconfig'
    violates model/x.c '#include <pcre2.h>' 'pcre2'
    violates app/x.c '#include <jansson.h>' 'jansson'
    violates base/x.c '#include <jansson.h>' 'jansson'
    violates device/x.c '#include <level_zero/ze_api.h>' 'ze_api'
    violates app/x.c '#include <event2/event.h>' 'event2'
    violates graph/x.c '#include <immintrin.h>' 'immintrin'
    violates base/x.c '#include <openssl/ssl.h>' 'is no header of libc and of no library'
    violates kernels/opencl/matmul.cl '#include <stdint.h>' 'OpenCL files'
    violates kernels/opencl/matmul.cl '#include "formats/block.h"' 'OpenCL files'
    violates kernels/opencl/matmul.cl '#include "kernels/kernels.h"' 'OpenCL files'
    violates kernels/opencl/cl_common.h '#include "base/error.h"' 'OpenCL files'
    violates kernels/shared/num.h '#include "base/error.h"' 'C and OpenCL C share'
    # forms
    violates base/x.c '#include "error.h"' 'is not written as "room/file\.h"'
    violates base/x.c '#include "../config/config.h"' 'is not written as'
    violates base/x.c '#include "base/none.h"' 'is not there'
    violates base/x.c '#include SOMETHING' 'names no file'
    violates base/x.c '#include "base/hash.c"' 'is no header'
    violates model/hash.c '' 'the name is taken by'
}

test_symbols() {
    good_tree
    mkdir -p "$tmp/o/src/base"
    printf 'int hash_of(void);\nint hash_of(void) { return 1; }\nint stray;\nstatic int own;\nint *hash_own(void);\nint *hash_own(void) { return &own; }\n' >"$tmp/hash.c"
    ${CC:-gcc} -c -o "$tmp/o/src/base/hash.o" "$tmp/hash.c" || fail "can't compile"
    expect 1 tools/check_includes "$tmp/t" "$tmp/o/src"
    printed 'symbol stray begins with neither hash_ nor base_'
    [ "$(wc -l <"$tmp/out")" = 1 ] || fail "more than one violation: $(cat "$tmp/out")"
}

test_no_tree() {
    mkdir "$tmp/empty"
    expect 2 tools/check_includes "$tmp/empty"
    said 'no src folder'
}

run_tests
