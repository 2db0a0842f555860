# The software Level Zero driver (tools/zesim/README.md): build/libzesim.so, whatever the flags of the product are.
ZESIM := build/libzesim.so
ZESIM_BUILD := build/zesim-$(notdir $(CC))
ZESIM_OBJECTS := $(patsubst tools/zesim/%.c,$(ZESIM_BUILD)/%.o,$(filter-out tools/zesim/builtins.c,$(wildcard tools/zesim/*.c)))
ZESIM_FLAGS := -std=c11 -D_GNU_SOURCE -O2 -g -fPIC -fvisibility=hidden -pthread $(WARNINGS) \
               '-DZE_APIEXPORT=__attribute__((visibility("hidden")))' '-DZE_DLLEXPORT=__attribute__((visibility("default")))'
# What the build and the tests of zesim need, by a file of each package.
ZESIM_NEEDS := libze-dev:/usr/include/level_zero/ze_ddi.h clang-15:/usr/bin/clang-15 llvm-spirv-15:/usr/bin/llvm-spirv-15
ZESIM_MISSING := $(strip $(foreach n,$(ZESIM_NEEDS),$(if $(wildcard $(lastword $(subst :, ,$(n)))),,$(firstword $(subst :, ,$(n))))))

.PHONY: zesim
ifeq ($(ZESIM_MISSING),)
zesim: $(ZESIM) ## build the software Level Zero driver (build/libzesim.so)
ZESIM_IF_POSSIBLE := $(ZESIM)
else
zesim:
	@echo "zesim needs the package(s) $(ZESIM_MISSING): run \`make setup-test\`" >&2; exit 1
ZESIM_IF_POSSIBLE :=
endif

$(ZESIM): $(ZESIM_OBJECTS) tools/zesim/exports.map
	$(if $(V),,@echo "  CC $@")
	$(Q)$(CC) -shared -pthread -o $@ $(ZESIM_OBJECTS) -Wl,--version-script=tools/zesim/exports.map -Wl,-z,defs -ldl

$(ZESIM_BUILD)/%.o: tools/zesim/%.c
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC $@")
	$(Q)$(CC) $(ZESIM_FLAGS) -DZESIM_BUILTINS='"$(ZESIM_BUILD)/builtins.bc"' -MMD -MP -c -o $@ $<

$(ZESIM_BUILD)/compile.o: $(ZESIM_BUILD)/builtins.bc

# For the device's target, so that vectors are passed as kernels pass them; then made host text as translate.c does it. A function
# marked no-builtins (-ffreestanding) would not be inlined into kernels.
$(ZESIM_BUILD)/builtins.bc: tools/zesim/builtins.c tools/zesim/code.h
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC $@")
	$(Q)clang-15 --target=spir64-unknown-unknown -ffreestanding -std=c2x -O1 -ffp-contract=off -fno-math-errno -Wall -Wextra \
	    -Werror -Xclang -fallow-half-arguments-and-returns -emit-llvm -S -o $@.ll $<
	$(Q)sed -E -e '/^target /d' -e 's/ "no-builtins"//' -e 's/ spir_func//; s/ addrspace\([0-9]+\)//g; s/addrspacecast/bitcast/g' \
	    -e 's/\.p[1-4]i8/.p0i8/g' $@.ll >$@.host.ll
	$(Q)clang-15 -x ir -O1 -Xclang -disable-llvm-passes -march=native -Wno-override-module -emit-llvm -c -o $@ $@.host.ll

-include $(ZESIM_OBJECTS:.o=.d)
