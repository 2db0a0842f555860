# Level Zero over CUDA (tools/zecuda/README.md): build/libzecuda.so and build/ptx/.
ZECUDA := build/libzecuda.so
ZECUDA_BUILD := build/zecuda-$(notdir $(CC))
ZECUDA_OBJECTS := $(patsubst tools/zecuda/%.c,$(ZECUDA_BUILD)/%.o,$(filter-out tools/zecuda/builtins.c,$(wildcard tools/zecuda/*.c)))
ZECUDA_FLAGS := -std=c11 -D_GNU_SOURCE -O2 -g -fPIC -fvisibility=hidden -pthread $(WARNINGS) \
               '-DZE_APIEXPORT=__attribute__((visibility("hidden")))' '-DZE_DLLEXPORT=__attribute__((visibility("default")))'
# Sub-groups are of 16 here.
ZECUDA_MODULES := $(foreach r,$(CL_LIST),$(if $(filter 8,$(call CL_FIELD,3,$r)),,$(call CL_FIELD,1,$r)))
PTX := $(patsubst %,build/ptx/%.ptx,$(ZECUDA_MODULES))

.PHONY: zecuda ptx
ifeq ($(CL_MISSING),)
ptx: $(PTX) build/ptx/zecuda_exchange.ptx ## build PTX of the portable GPU kernels (build/ptx)
	@for m in $(ZECUDA_MODULES); do ln -sf $$m.ptx build/ptx/$$(cksum <build/spirv/$$m.spv | tr ' ' -).ptx; done
zecuda: $(ZECUDA) ptx ## build the Level Zero driver over CUDA (build/libzecuda.so)
else
ptx zecuda:
	@echo "$@: $(CL_MISSING)" >&2; exit 1
endif

$(ZECUDA): $(ZECUDA_OBJECTS) tools/zecuda/exports.map
	$(if $(V),,@echo "  CC $@")
	$(Q)$(CC) -shared -pthread -o $@ $(ZECUDA_OBJECTS) -Wl,--version-script=tools/zecuda/exports.map -Wl,-z,defs -ldl

$(ZECUDA_BUILD)/%.o: tools/zecuda/%.c
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC $@")
	$(Q)$(CC) $(ZECUDA_FLAGS) -MMD -MP -c -o $@ $<

# An instruction in assembler counts as one that may not return, over which loads are not joined, unless its mark says otherwise.
build/ptx/builtins.bc build/ptx/fragments.bc: build/ptx/%.bc: tools/zecuda/builtins.c tools/zecuda/zecuda.mk
	@mkdir -p $(@D)
	$(Q)$(CLANG_CL) --target=nvptx64-nvidia-cuda -Xclang -target-cpu -Xclang sm_80 -Xclang -target-feature -Xclang +ptx70 \
	    -DFRAGMENTS=$(if $(filter fragments,$*),1,0) -ffreestanding -O2 -ffp-contract=off -Wall -Wextra -Werror -emit-llvm -S -o $@.ll $<
	$(Q)sed -i 's/{ nounwind readnone }/{ nounwind readnone willreturn }/' $@.ll
	$(Q)$(CLANG_CL) -x ir $@.ll --target=nvptx64-nvidia-cuda -Wno-override-module -Xclang -disable-llvm-passes -emit-llvm -c -o $@

build/ptx/zecuda_exchange.ptx: tools/zecuda/exchange.cl tools/zecuda/exchange.h
	@mkdir -p $(@D)
	$(if $(V),,@echo "  PTX $@")
	$(Q)$(CLANG_CL) -x cl --target=nvptx64-nvidia-cuda -Xclang -target-cpu -Xclang sm_80 -Xclang -target-feature -Xclang +ptx70 \
	    -cl-std=CL2.0 -O2 -Wall -Wextra -Werror -S -o $@ $<

build/ptx/%.ptx: build/spirv/%.spv build/ptx/builtins.bc build/ptx/fragments.bc tools/zecuda/ptx_of
	$(if $(V),,@echo "  PTX $@")
	$(Q)tools/zecuda/ptx_of $(if $(filter dpas16_% dealt16_% each_dpas16_%,$*),build/ptx/fragments.bc,build/ptx/builtins.bc) $< $@

-include $(ZECUDA_OBJECTS:.o=.d)
