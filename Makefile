# stator: `make help` lists the targets.

# On all processors, unless the command line says otherwise.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif

# Several goals are made one after the other, each by a make of its own: what a goal installs (setup-*) is there when the next one
# looks for compilers and headers.
ifneq ($(word 2,$(MAKECMDGOALS)),)
.PHONY: $(MAKECMDGOALS) goals-in-order
$(MAKECMDGOALS): goals-in-order
	@:
goals-in-order:
	@for goal in $(MAKECMDGOALS); do $(MAKE) --no-print-directory "$$goal" || exit; done
else

VERSION := 0.1.0
CC ?= gcc
ifeq ($(origin CC),default)
CC := gcc
endif
# Debug information stays beside the objects (.dwo): the test programs would carry 0.3 GB of copies.
CFLAGS ?= -O2 -g -gsplit-dwarf
SANITIZE ?=
DEBUG ?=

# The GPU back end: kernels in OpenCL C, compiled to SPIR-V and carried in the binary, and the code that calls Level Zero (found at
# run time; only its headers are needed here). LEVEL_ZERO=0, or something missing, builds for the CPU alone.
LEVEL_ZERO ?= 1
CLANG_CL ?= clang-15
LLVM_SPIRV ?= llvm-spirv-15
CL_MISSING := $(if $(filter 0,$(LEVEL_ZERO)),built with LEVEL_ZERO=0,$(strip \
    $(foreach t,$(CLANG_CL) $(LLVM_SPIRV),$(if $(shell command -v $(t)),,no $(t) at build time: run make setup-gpu)) \
    $(if $(shell echo '\#include <level_zero/ze_api.h>' | $(CC) -E - >/dev/null 2>&1 && echo yes),,no level_zero/ze_api.h at build time: run make setup-gpu)))

WARNINGS := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla
# One numerics: nothing may be fused, reassociated or assumed about floating point.
NUMERICS := -ffp-contract=off -fno-fast-math -fno-associative-math
BASE_FLAGS := -std=c11 -D_GNU_SOURCE -DSTATOR_VERSION='"$(VERSION)"' -Iinclude -Isrc $(WARNINGS) $(NUMERICS) \
              -fno-strict-aliasing -pthread $(if $(DEBUG),-DSTATOR_DEBUG) $(if $(CL_MISSING),,-DSTATOR_LEVEL_ZERO)
SANITIZE_FLAGS := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=all)
# No path of this machine gets into what is built: the same bytes in any folder (make check-reproducible).
HERE := -ffile-prefix-map=$(CURDIR)=.
ALL_CFLAGS = $(BASE_FLAGS) $(SANITIZE_FLAGS) $(CFLAGS) $(HERE)
, := ,
ALL_LDFLAGS = -pthread $(if $(SANITIZE),-fsanitize=$(SANITIZE),-Wl$(,)-z$(,)now) $(LDFLAGS)
# Everything but libc and libm is linked statically (tests/e2e/make/ldd.sh checks it).
STATIC_LIBS := -lconfig -ljansson -lpcre2-8 -lxxhash -lck -levent -ledit -lbsd -lmd -ltinfo -lzstd -ljpeg -lpng16 -lz -lwebp
LIBS := -Wl,-Bstatic $(STATIC_LIBS) -Wl,-Bdynamic -lm

# `make V=1` shows whole commands.
Q := $(if $(V),,@)

# One build directory per compiler and flag set: switching flags never mixes objects.
FLAG_SET := $(CC) $(BASE_FLAGS) $(SANITIZE_FLAGS) $(CFLAGS) $(LDFLAGS) $(FUZZ)
BUILD ?= build/$(notdir $(CC))-$(shell printf '%s' '$(subst ','"'"',$(FLAG_SET))' | cksum | cut -d' ' -f1)
BUILD := $(BUILD)

SOURCES := $(sort $(filter-out $(if $(CL_MISSING),src/device/level_zero/%) src/device/remote/%,$(shell find src -name '*.c')))
OBJECTS := $(SOURCES:src/%.c=$(BUILD)/src/%.o)
LIBRARY := $(BUILD)/libstator.a

# Without generic pointers, which would hide from the compiler where things are.
CL_WITHOUT := -__opencl_c_generic_address_space,-__opencl_c_device_enqueue,-__opencl_c_pipes
CL_FLAGS := -x cl -cl-std=CL3.0 --target=spir64-unknown-unknown -O2 -Xclang -disable-llvm-passes \
    -Xclang -finclude-default-header -Xclang -cl-ext=+cl_khr_subgroups,+cl_khr_fp16,$(CL_WITHOUT) -ffp-contract=off \
    -Wall -Wextra -Werror -Isrc
# The modules do not depend on the compiler and flags of the rest.
CL_BUILD := build/spirv
# src/kernels/opencl/modules.def has a row per module: NAME:SOURCE:SUB_GROUP:MACRO,MACRO..
CL_LIST := $(if $(CL_MISSING),,$(shell $(CC) -E -P -x c -DOPENCL_LIST src/kernels/opencl/modules.def | tr -d ' \n' | tr @ ' '))
CL_FIELD = $(word $(1),$(subst :, ,$(2)))
CL_MODULES := $(foreach r,$(CL_LIST),$(call CL_FIELD,1,$r))
SPIRV := $(CL_MODULES:%=$(CL_BUILD)/%.spv)
# The texts of `stator help TOPIC`.
HELP_TOPICS := memory=src/plan/README.md devices=src/device/README.md intel=src/device/level_zero/README.md agents=src/server/AGENTS.md \
               speed=src/kernels/cpu/README.md hosts=src/device/remote/README.md
# The files of the web page.
PAGE_FILES := html=src/server/page/page.html css=src/server/page/page.css js=src/server/page/page.js text=src/server/page/page_text.js code=src/server/page/page_code.js \
              store=src/server/page/page_store.js map=src/server/page/page_map.js pictures=src/server/page/page_pictures.js icon=src/server/page/page.svg
CARRIED := $(BUILD)/help_topics.o $(BUILD)/page_files.o
# The GPU kernels, linked into the programs that run them; every other program says that it has none.
MODULES := $(BUILD)/opencl_modules.o
NO_MODULES := $(BUILD)/without/opencl_modules.o
# A unit test lies in the folder of the room that it tests; its program is $(BUILD)/tests/NAME.
UNIT_TESTS := $(sort $(wildcard tests/unit/*/test_*.c tests/unit/*/*/test_*.c))
TESTS := $(patsubst %.c,$(BUILD)/tests/%,$(notdir $(UNIT_TESTS)))
vpath test_%.c $(sort $(dir $(UNIT_TESTS)))
# What tests include: their helpers, and builders of models.
TEST_INCLUDES := -Itests -Itests/models -Itests/fuzz/parts
GPU_TESTS := $(patsubst %.c,$(BUILD)/tests/%,$(notdir $(shell grep -lE '"(zesim|ze_runner|gpu_model)\.h"|launch_modules\.h' $(UNIT_TESTS))))
# Their debug information is compressed: it is most of a test program.
TEST_LDFLAGS := -Wl,--compress-debug-sections=zlib
FUZZERS := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
REPLAYS := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/replay_%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))

.PHONY: all FORCE
all: stator ## build ./stator

stator: $(BUILD)/stator FORCE
	@cmp -s $< $@ || cp $< $@

$(BUILD)/stator: $(BUILD)/src/app/main.o $(MODULES) $(LIBRARY)
	$(if $(V),,@echo "  CC $@")
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(BUILD)/src/app/main.o $(MODULES) $(LIBRARY) $(LIBS)

$(LIBRARY): $(filter-out $(BUILD)/src/app/main.o,$(OBJECTS)) $(CARRIED)
	@rm -f $@
	$(Q)ar rcsD $@ $^

# The fully static binary: the same objects without the Level Zero back end, whose loader a static program can't open.
LZ_USERS := $(if $(CL_MISSING),,$(sort $(shell grep -rl --include='*.c' STATOR_LEVEL_ZERO src)))
STATIC_OBJECTS := $(filter-out $(BUILD)/src/device/level_zero/% $(LZ_USERS:src/%.c=$(BUILD)/src/%.o),$(OBJECTS)) \
    $(LZ_USERS:src/%.c=$(BUILD)/static/%.o) $(BUILD)/static/server/static_resolver.o $(NO_MODULES) $(CARRIED)
.PHONY: static
static: stator-static ## build ./stator-static, which needs no library at run time: for the CPU only
stator-static: $(BUILD)/stator-static FORCE
	@cmp -s $< $@ || cp $< $@

$(BUILD)/stator-static: $(STATIC_OBJECTS)
	$(if $(V),,@echo "  CC $@")
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -static -Wl,--fatal-warnings -o $@ $(STATIC_OBJECTS) $(STATIC_LIBS) -lm

$(BUILD)/static/%.o: src/%.c
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC $@")
	$(Q)$(CC) $(ALL_CFLAGS) -DSTATOR_STATIC -USTATOR_LEVEL_ZERO $(TIER_FLAGS) -MMD -MP -c -o $@ $<

# Runs over several hosts: `make stator-mpi`, with MPI=openmpi (which is used if nothing is said) or MPI=mpich. stator
# itself has nothing of it.
MPI ?= openmpi
MPI_FLAGS = $(filter -I% -L% -l%,$(shell $(if $(filter mpich,$(MPI)),mpicc.mpich -show,mpicc.openmpi --showme) 2>/dev/null))
MPI_USERS := $(shell grep -rl --include='*.c' STATOR_MPI src)
MPI_OBJECTS := $(MPI_USERS:src/%.c=$(BUILD)/mpi-$(MPI)/%.o) $(patsubst src/%.c,$(BUILD)/mpi-$(MPI)/%.o,$(wildcard src/device/remote/*.c))
.PHONY: stator-mpi
stator-mpi: $(BUILD)/stator-mpi-$(MPI) ## build ./stator-mpi, for runs over several hosts (MPI=openmpi or mpich; make setup-mpi)
	@cmp -s $< $@ || cp $< $@

$(BUILD)/stator-mpi-$(MPI): $(BUILD)/src/app/main.o $(MPI_OBJECTS) $(MODULES) $(LIBRARY)
	$(if $(V),,@echo "  CC $@")
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(BUILD)/src/app/main.o $(MPI_OBJECTS) $(MODULES) $(LIBRARY) $(LIBS) $(filter -L% -l%,$(MPI_FLAGS))

$(BUILD)/mpi-$(MPI)/%.o: src/%.c
	@mkdir -p $(@D)
	@command -v mpicc.$(MPI) >/dev/null || { echo "stator-mpi: there is no mpicc.$(MPI): run make setup-mpi" >&2; exit 1; }
	$(if $(V),,@echo "  CC $@")
	$(Q)$(CC) $(ALL_CFLAGS) -DSTATOR_MPI $(patsubst -I%,-isystem %,$(filter -I%,$(MPI_FLAGS))) -MMD -MP -c -o $@ $<

$(NO_MODULES): $(BUILD)/embed_modules
	@mkdir -p $(@D)
	$(Q)$(BUILD)/embed_modules $(@:.o=.c) "this program is for the CPU only"
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $(@:.o=.c)

# A module is compiled again when what the compiler reads has changed: its command and its preprocessed text (NAME.sum), which other
# comments in a header or other rows of the table leave as they are.
CL_COMMAND = $(CLANG_CL) -c $(CL_FLAGS) -DCL_NAME=$(1) $(patsubst %,'-D%',$(subst $(,), ,$(CL_MACROS_$(1)))) $(CL_SOURCE_$(1))
$(foreach r,$(CL_LIST),$(eval CL_MACROS_$(call CL_FIELD,1,$r) := $(call CL_FIELD,4,$r)) \
    $(eval CL_SOURCE_$(call CL_FIELD,1,$r) := src/kernels/opencl/$(call CL_FIELD,2,$r).cl))
$(SPIRV): %.spv: %.sum
	$(if $(V),,@echo "  CL $@")
	$(Q)$(call CL_COMMAND,$(*F)) -emit-llvm -o $@.bc
	$(Q)$(LLVM_SPIRV) --spirv-max-version=1.2 --spirv-ext=+SPV_INTEL_subgroups,+SPV_KHR_integer_dot_product -o $@ $@.bc
	@rm -f $@.bc
$(SPIRV:.spv=.sum): %.sum: %.seen ;
$(CL_BUILD)/command: FORCE
	@mkdir -p $(@D)
	@echo '$(CLANG_CL) $(CL_FLAGS)' | cmp -s - $@ || echo '$(CLANG_CL) $(CL_FLAGS)' >$@
src/kernels/opencl/%.h: ; # one that was moved: what names it is looked at again
$(SPIRV:.spv=.seen): %.seen: src/kernels/opencl/modules.def $(CL_BUILD)/command
	@mkdir -p $(@D)
	$(Q)$(call CL_COMMAND,$(*F)) -E -P -MMD -MT $@ -MF $*.d -o $@.text
	@{ echo "$(call CL_COMMAND,$(*F))"; cat $@.text; } | cksum >$@.sum && rm $@.text
	@cmp -s $@.sum $*.sum && rm $@.sum || mv $@.sum $*.sum
	@touch $@

$(BUILD)/embed_modules: tools/embed_modules.c
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC $@")
	$(Q)$(CC) -std=c11 $(WARNINGS) -O2 -o $@ $< -Wl,-Bstatic -lzstd -Wl,-Bdynamic

$(MODULES): $(SPIRV) $(BUILD)/embed_modules src/kernels/opencl/modules.def
	@mkdir -p $(@D)
	$(if $(CL_MISSING),@echo "  GPU kernels are left out ($(CL_MISSING)): CPU only")
	$(Q)$(BUILD)/embed_modules $(@:.o=.c) "$(CL_MISSING)" $(sort $(SPIRV))
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $(@:.o=.c)

$(BUILD)/help_topics.o: $(foreach t,$(HELP_TOPICS),$(lastword $(subst =, ,$t))) tools/embed_text src/app/help_topics.h Makefile
	@mkdir -p $(@D)
	$(Q)tools/embed_text help topic app/help_topics.h $(HELP_TOPICS) >$(@:.o=.c)
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $(@:.o=.c)

$(BUILD)/page_files.o: $(foreach t,$(PAGE_FILES),$(lastword $(subst =, ,$t))) tools/embed_text src/server/page/page_files.h Makefile
	@mkdir -p $(@D)
	$(Q)tools/embed_text page file server/page/page_files.h $(PAGE_FILES) >$(@:.o=.c)
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $(@:.o=.c)

# The instruction sets of the kernel tiers; every other file is plain x86-64.
$(BUILD)/src/kernels/cpu/avx2/%.o: TIER_FLAGS := -mavx2 -mfma -mf16c
$(BUILD)/src/kernels/cpu/avx512/%.o: TIER_FLAGS := -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni
$(BUILD)/src/kernels/cpu/amx/%.o: TIER_FLAGS := -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mamx-tile -mamx-int8

# No fuzz target reaches the kernels, and clang needs many minutes to instrument them.
ifdef FUZZ
$(BUILD)/src/kernels/%.o: SANITIZE_FLAGS :=
$(BUILD)/src/kernels/%.o: CFLAGS := -O1
endif

$(BUILD)/src/%.o: src/%.c
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC $@")
	$(Q)$(CC) $(ALL_CFLAGS) $(TIER_FLAGS) -MMD -MP -c -o $@ $<

.PHONY: setup setup-gpu setup-test setup-browser setup-mpi setup-lint setup-fuzz setup-fresh setup-deb setup-ocloc
setup: ## install what the build needs (Debian packages)
	@tools/setup core
setup-gpu: ## install what the GPU kernels need
	@tools/setup core gpu
setup-test: ## install what the tests need
	@tools/setup core test
setup-ocloc: ## unpack Intel's present offline compiler into build/ocloc, for `make check-ocloc`
	@tools/setup core test
	@tools/setup_ocloc
setup-browser: ## install what `make check-browser` needs
	@tools/setup core browser
setup-mpi: ## install what `make stator-mpi` needs
	@tools/setup core mpi
setup-lint: ## install what `make lint` needs
	@tools/setup core lint
setup-fuzz: ## install what `make fuzz` needs
	@tools/setup core fuzz
setup-fresh: ## install what `make check-fresh` needs
	@tools/setup fresh
setup-deb: ## install what `make deb`, `check-deb` and `check-reproducible` need
	@tools/setup core gpu deb fresh

DEMO_PROMPT ?= Once upon a time, there was a little fox named Pip.
.PHONY: demo
demo: stator ## generate text with the demo model in the repository
	./stator run configs/demo.cfg -p "$(DEMO_PROMPT)" --temp 0.8 --top-k 0 --top-p 1 --min-p 0 -n 400

.PHONY: test
test: stator tests-build ## run all tests
	@MAKEFLAGS= BUILD=$(BUILD) tests/run

.PHONY: check-browser
check-browser: stator ## the web page of `stator serve` in a headless Chromium (make setup-browser)
	@MAKEFLAGS= BUILD=$(BUILD) STATOR_BROWSER_REQUIRE=1 tests/run browser.sh

.PHONY: setup-clients check-clients
setup-clients: ## install the npm packages that `make check-clients` needs (into tests/clients; needs node and npm)
	@npm install --prefix tests/clients --no-package-lock --ignore-scripts --no-audit --no-fund
check-clients: stator ## `stator serve` with the packages that people use it with (make setup-clients)
	@MAKEFLAGS= BUILD=$(BUILD) STATOR_CLIENTS_REQUIRE=1 tests/run clients.sh

.PHONY: check-ocloc
check-ocloc: stator ## Intel's present compiler on the GPU kernels (make setup-ocloc)
	@MAKEFLAGS= BUILD=$(BUILD) STATOR_OCLOC_REQUIRE=1 tests/run ocloc.sh

.PHONY: check-mpi
check-mpi: stator stator-mpi check-mpi-needs ## runs over several hosts, as ranks of this one (make setup-mpi; MPI=openmpi or mpich)
	@MAKEFLAGS= BUILD=$(BUILD) STATOR_TEST_MPI=$(MPI) STATOR_MPI_REQUIRE=1 tests/run mpi

include tools/zesim/zesim.mk

.PHONY: check-mpi-needs
check-mpi-needs: $(ZESIM_IF_POSSIBLE)
include tools/zecuda/zecuda.mk

.PHONY: tests-build
tests-build: $(ZESIM_IF_POSSIBLE) $(if $(CL_MISSING),,$(BUILD)/count/libze_loader.so.1 $(BUILD)/sysman/libze_loader.so.1 $(BUILD)/abort/libze_loader.so.1) $(TESTS) $(REPLAYS) $(BUILD)/bench_kernels \
             $(BUILD)/bench_pack $(if $(SANITIZE),,$(BUILD)/stator-static) $(if $(shell command -v mpicc.$(MPI)),$(BUILD)/stator-mpi-$(MPI))

$(TESTS): CARRIES = $(NO_MODULES)
$(GPU_TESTS): CARRIES = $(MODULES)
$(GPU_TESTS): $(MODULES)
$(TESTS): $(BUILD)/tests/%: $(BUILD)/tests/%.o $(NO_MODULES) $(LIBRARY)
	$(if $(V),,@echo "  LD $@")
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(TEST_LDFLAGS) -o $@ $< $(CARRIES) $(LIBRARY) -lcmocka $(LIBS)
# Apart from linking: a change of the library compiles no test again.
$(TESTS:=.o): $(BUILD)/tests/%.o: %.c
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC $@")
	$(Q)$(CC) $(ALL_CFLAGS) $(TEST_INCLUDES) -Itools -MMD -MP -c -o $@ $<

# A loader that counts calls, in front of the real one (tests/e2e/gpu/gpu_capture.sh).
$(BUILD)/count/libze_loader.so.1: tests/count_loader.c
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC $@")
	$(Q)$(CC) -std=c11 $(WARNINGS) -O1 -shared -fPIC -o $@ $< -ldl

# A loader with newer entries, in front of the real one (tests/e2e/gpu/gpu.sh).
$(BUILD)/sysman/libze_loader.so.1: tests/sysman_loader.c tests/count_loader.c
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC $@")
	$(Q)$(CC) -std=c11 $(WARNINGS) -Wno-pedantic -O1 -shared -fPIC -Itests -o $@ $< -ldl

# A loader that ends the process, as an exception that nobody catches does (tests/e2e/engine/limits.sh).
$(BUILD)/abort/libze_loader.so.1: src/device/level_zero/system/lz_calls.h
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC $@")
	$(Q)sed -n 's/^ *[XY](\(ze[A-Za-z]*\)).*/void \1(void) { __builtin_abort(); }/p' $< | $(CC) -std=c11 -O1 -shared -fPIC -o $@ -x c -

# Each fuzz target is also built as a plain program that replays its corpus.
$(REPLAYS): $(BUILD)/fuzz/replay_%: $(BUILD)/fuzz/replay_%.o $(BUILD)/fuzz/replay.o $(NO_MODULES) $(LIBRARY)
	$(if $(V),,@echo "  LD $@")
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(TEST_LDFLAGS) -o $@ $< $(BUILD)/fuzz/replay.o $(NO_MODULES) $(LIBRARY) $(LIBS)
$(REPLAYS:=.o) $(BUILD)/fuzz/replay.o: $(BUILD)/fuzz/%.o:
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC $@")
	$(Q)$(CC) $(ALL_CFLAGS) $(TEST_INCLUDES) -MMD -MP -c -o $@ $<
$(BUILD)/fuzz/replay.o: tests/fuzz/parts/replay.c
$(foreach r,$(REPLAYS),$(eval $r.o: tests/fuzz/$(patsubst replay_%,%,$(notdir $r)).c))

$(BUILD)/fuzz/%: tests/fuzz/%.c $(NO_MODULES) $(LIBRARY)
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC $@")
	$(Q)$(CC) $(ALL_CFLAGS) $(TEST_INCLUDES) -fsanitize=fuzzer $(ALL_LDFLAGS) -o $@ $< $(NO_MODULES) $(LIBRARY) $(LIBS)

.PHONY: fuzz
fuzz: ## build the libFuzzer targets (clang, ASan and UBSan)
	$(MAKE) CC=clang FUZZ=1 SANITIZE=address,undefined CFLAGS="-O1 -g -fsanitize=fuzzer-no-link" fuzz-build
.PHONY: fuzz-build
fuzz-build: $(FUZZERS)
	@printf '%s\n' $(FUZZERS)

.PHONY: check-sanitize
check-sanitize: ## run the tests under ASan+UBSan, then TSan
	$(MAKE) SANITIZE=address,undefined CFLAGS="-O1 -g" DEBUG=1 stator-only tests-build
	MAKEFLAGS= BUILD=$$($(MAKE) -s SANITIZE=address,undefined CFLAGS="-O1 -g" DEBUG=1 print-build) tests/run
	$(MAKE) SANITIZE=thread CFLAGS="-O1 -g" DEBUG=1 stator-only tests-build
	MAKEFLAGS= BUILD=$$($(MAKE) -s SANITIZE=thread CFLAGS="-O1 -g" DEBUG=1 print-build) tests/run
.PHONY: check-soak
SOAK_SECONDS ?= 600
check-soak: ## random requests of several threads for SOAK_SECONDS (600), under ASan+UBSan and then TSan
	$(MAKE) SANITIZE=address,undefined CFLAGS="-O1 -g" DEBUG=1 soak
	$(MAKE) SANITIZE=thread CFLAGS="-O1 -g" DEBUG=1 soak
.PHONY: soak
soak: $(BUILD)/tests/test_soak
	ZE_ENABLE_ALT_DRIVERS=none STATOR_SOAK_SECONDS=$(SOAK_SECONDS) $<
.PHONY: sim
SEED ?= 1
STEPS ?= 1000000
sim: $(BUILD)/tests/test_sim ## the simulator (tests/sim) from SEED (1) on, until it has played STEPS (1000000) turns; only TURNS of SEED
	STATOR_SIM_SEED=$(SEED) STATOR_SIM_STEPS=$(STEPS) $(if $(TURNS),STATOR_SIM_TURNS=$(TURNS)) $(if $(FAULTS),STATOR_SIM_FAULTS=$(FAULTS)) $<
.PHONY: sim-server
sim-server: $(BUILD)/tests/test_sim_server ## the same with the server: clients over simulated sockets
	STATOR_SIM_SEED=$(SEED) STATOR_SIM_STEPS=$(STEPS) $(if $(TURNS),STATOR_SIM_TURNS=$(TURNS)) $(if $(FAULTS),STATOR_SIM_FAULTS=$(FAULTS)) $<
.PHONY: sim-hosts
sim-hosts: $(BUILD)/tests/test_sim_hosts ## the same with runs over several hosts: ranks, their messages and their deaths
	STATOR_SIM_SEED=$(SEED) STATOR_SIM_STEPS=$(STEPS) $(if $(TURNS),STATOR_SIM_TURNS=$(TURNS)) $(if $(FAULTS),STATOR_SIM_FAULTS=$(FAULTS)) $<
.PHONY: sim-soak
SIM_SECONDS ?= 3600
sim-soak: $(BUILD)/tests/test_sim $(BUILD)/tests/test_sim_server $(BUILD)/tests/test_sim_hosts ## random seeds of all for SIM_SECONDS (3600); SEED begins with that one
	@for t in $^; do seed=$(if $(filter command line environment,$(origin SEED)),$(SEED),$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')); \
	    echo "$$t: seeds from $$seed on, for $$(($(SIM_SECONDS) / 3)) s"; STATOR_SIM_SEED=$$seed STATOR_SIM_SECONDS=$$(($(SIM_SECONDS) / 3)) $$t || exit 1; done
.PHONY: sim-mutations
sim-mutations: $(BUILD)/tests/test_sim $(BUILD)/tests/test_sim_server $(BUILD)/tests/test_sim_hosts ## faults in copies of the engine's files, each of which the simulator must find
	tests/sim/mutate $(BUILD)
SIM_WRAPS := ring_wake ring_push
SIM_SERVER_WRAPS := $(SIM_WRAPS) stator_submit edge_thread_start request_log_write edge_pool_alloc edge_pool_zeroed \
    edge_pool_resize recv send close shutdown accept4 setsockopt getsockopt getpeername event_assign event_add event_del \
    event_active event_base_loopbreak event_base_new_with_config event_base_free
SIM_ENGINE_WRAPS := $(SIM_WRAPS) ring_wait pthread_create pthread_join read write openat renameat futimens
$(BUILD)/tests/test_sim: TEST_LDFLAGS += $(SIM_ENGINE_WRAPS:%=-Wl,--wrap=%)
# The code of a run over several hosts, over simulated messages.
SIM_HOSTS_OBJECTS := $(patsubst %,$(BUILD)/sim-hosts/%.o,remote_device remote_serve remote_wire)
$(BUILD)/tests/test_sim_hosts: TEST_LDFLAGS += $(SIM_ENGINE_WRAPS:%=-Wl,--wrap=%) -Wl,--wrap=nanosleep $(SIM_HOSTS_OBJECTS)
$(BUILD)/tests/test_sim_hosts: $(SIM_HOSTS_OBJECTS)
$(BUILD)/tests/test_sim_hosts.o: ALL_CFLAGS += -isystem tests/sim/mpi
$(SIM_HOSTS_OBJECTS): $(BUILD)/sim-hosts/%.o: src/device/remote/%.c
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC $@")
	$(Q)$(CC) $(ALL_CFLAGS) -isystem tests/sim/mpi -MMD -MP -c -o $@ $<
-include $(SIM_HOSTS_OBJECTS:.o=.d)
$(BUILD)/tests/test_sim_server: TEST_LDFLAGS += $(SIM_SERVER_WRAPS:%=-Wl,--wrap=%)
.PHONY: print-build print-cl-flags stator-only
print-build:
	@echo $(BUILD)
print-cl-flags:
	@echo '$(CL_FLAGS)'
stator-only: $(BUILD)/stator

.PHONY: check-fresh
check-fresh: ## the README's two commands on a minimal Debian 12, as root and as a user with sudo
	@tools/check_fresh

.PHONY: lint
lint: ## clang-format, clang-tidy, cppcheck, room table
	@tools/lint

.PHONY: bench-kernels
bench-kernels: $(BUILD)/bench_kernels ## measure products, attention and every op in every tier; options: ARGS="--kernel q4 --tokens 1,64"
	$(BUILD)/bench_kernels $(ARGS)

$(BUILD)/bench_kernels: tools/bench_kernels.c $(MODULES) $(LIBRARY)
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC $@")
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP $(ALL_LDFLAGS) -o $@ $< $(MODULES) $(LIBRARY) $(LIBS)

.PHONY: bench-pack
bench-pack: $(BUILD)/bench_pack ## random families of packing instances: how near to the bound, how many seconds
	$(BUILD)/bench_pack $(ARGS)

$(BUILD)/bench_pack: tools/bench_pack.c $(NO_MODULES) $(LIBRARY)
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC $@")
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP $(ALL_LDFLAGS) -o $@ $< $(NO_MODULES) $(LIBRARY) $(LIBS)

include tools/package/package.mk

.PHONY: clean
clean: ## remove what was built
	rm -rf build stator stator-static stator-mpi

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-19s %s\n", $$1, $$2 }' Makefile tools/package/package.mk tools/zesim/zesim.mk tools/zecuda/zecuda.mk

-include $(OBJECTS:.o=.d) $(MPI_OBJECTS:.o=.d) $(LZ_USERS:src/%.c=$(BUILD)/static/%.d) $(SPIRV:.spv=.d) $(TESTS:=.d) $(REPLAYS:=.d) $(BUILD)/fuzz/replay.d $(BUILD)/bench_kernels.d

endif # one goal
