# compat.mk - builds the compatibility libraries: the engine (libleat-compat), and one library for each folder beside
# it. The Makefile includes this file.

compat_names := $(filter cudart cuda hip cufile,$(notdir $(patsubst %/,%,$(wildcard compat/*/))))
compat_libs := $(addprefix libleat-,compat $(compat_names))
compat_folder = $(if $(filter compat,$(1)),engine,$(1))
# The engine uses the handle tables and assertions of src/base. Their sources are compiled into it once more, with
# hidden symbols.
compat_base := src/base/handles.c src/base/addresses.c src/base/assert.c
compat_obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(sort $(wildcard compat/$(call compat_folder,$(1))/*.c)) \
               $(if $(filter compat,$(1)),$(compat_base)))

# Like a user's program, the layers include only leat's public headers; the engine also includes base/handles.h and a
# few other headers of src/base. A layer exports the symbols that its .map file lists.
COMPAT_CFLAGS = -std=c11 -D_GNU_SOURCE -fPIC -pthread -Iinclude -Icompat $(WARN) $(checked_flag) $(CPPFLAGS) $(CFLAGS)
$(BUILD)/obj/compat/engine/%.o: COMPAT_CFLAGS += -fvisibility=hidden -Isrc
$(BUILD)/obj/compat/%.o: compat/%.c $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(COMPAT_CFLAGS) -MMD -MP -c $< -o $@

# X.so.VERSION has the soname X.so.MAJOR; the two shorter names are links to it.
compat_real := $(compat_libs:%=$(BUILD)/%.so.$(VERSION))
compat_so := $(compat_libs:%=$(BUILD)/%.so)
compat_a := $(compat_names:%=$(BUILD)/libleat-%.a)
compat: $(compat_so) $(compat_a)

# nodelete: the libraries stay loaded after dlclose(), because ending threads still call their destructors.
# $ORIGIN: each library finds the others in its own folder.
define compat_rules
$$(BUILD)/libleat-$(1).so.$$(VERSION): $$(call compat_obj,$(1)) $$(wildcard compat/$(1)/$(1).map) $$(BUILD)/libleat.so \
    $(if $(filter compat,$(1)),,$$(BUILD)/libleat-compat.so)
	$$(say) LINK $$@
	$$(Q)$$(CC) $$(CFLAGS) $$(LDFLAGS) -shared -Wl,-z,nodelete -Wl,-Bsymbolic-functions -Wl,-rpath,'$$$$ORIGIN' \
	    -Wl,-soname,libleat-$(1).so.$$(so_major) $$(if $$(findstring -fsanitize,$$(CFLAGS)),,-Wl,-z,defs) \
	    $$(addprefix -Wl$$(comma)--version-script=,$$(filter %.map,$$^)) $$(filter %.o,$$^) -L$$(BUILD) \
	    $(if $(filter compat,$(1)),,-lleat-compat) -lleat $$(LIB_LIBS) -o $$@
$$(BUILD)/libleat-$(1).so: $$(BUILD)/libleat-$(1).so.$$(VERSION)
	$$(Q)ln -sf libleat-$(1).so.$$(VERSION) $$(BUILD)/libleat-$(1).so.$$(so_major)
	$$(Q)ln -sf libleat-$(1).so.$$(so_major) $$@
$$(BUILD)/libleat-$(1).a: $$(call compat_obj,$(1)) $$(call compat_obj,compat)
	$$(say) AR $$@
	$$(Q)rm -f $$@ && $$(AR) rcs $$@ $$^
endef
comma := ,
$(foreach name,compat $(compat_names),$(eval $(call compat_rules,$(name))))

# ---- faces: the libraries under the vendor's file names, for programs that were linked with NVIDIA's -----------

# A program that runs with LD_LIBRARY_PATH=$(faces_dir) loads these in place of NVIDIA's libraries. They have the
# vendor's sonames and symbol versions, and use libleat-compat and libleat. leat's own libraries never load them.
faces_dir := $(BUILD)/faces
faces := $(if $(filter cudart,$(compat_names)),$(if $(filter cuda,$(compat_names)),\
           $(addprefix $(faces_dir)/,libcudart.so.12 libcudart.so.13 libcuda.so.1 libnvidia-ml.so.1 \
             $(if $(filter cufile,$(compat_names)),libcufile.so.0))))
faces: $(faces)
compat: $(faces)

# The files of compat/cudart once more, with some functions in the form of CUDA 12.
cudart12_obj := $(patsubst compat/cudart/%.c,$(BUILD)/obj/compat/faces/cudart12/%.o,$(sort $(wildcard compat/cudart/*.c)))
$(cudart12_obj): $(BUILD)/obj/compat/faces/cudart12/%.o: compat/cudart/%.c $(BUILD)/flags
	$(say) CC '$< (CUDA 12)'
	@mkdir -p $(@D)
	$(Q)$(CC) $(COMPAT_CFLAGS) -include compat/faces/cudart12_names.h -MMD -MP -c $< -o $@

$(faces_dir)/libcudart.so.12: $(cudart12_obj) $(BUILD)/obj/compat/faces/cudart12.o compat/faces/cudart12.map
$(faces_dir)/libcudart.so.13: $(call compat_obj,cudart) compat/faces/cudart13.map
$(faces_dir)/libcuda.so.1: $(call compat_obj,cuda) compat/faces/cuda.map
$(faces_dir)/libcufile.so.0: $(call compat_obj,cufile) compat/cufile/cufile.map
$(faces_dir)/libnvidia-ml.so.1: $(BUILD)/obj/compat/faces/nvml.o compat/faces/nvml.map
# $ORIGIN: libleat-compat is one folder up where it was built, and two where it is installed (lib/leat/faces).
$(faces): $(BUILD)/libleat-compat.so
	$(say) LINK $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-z,nodelete -Wl,-Bsymbolic-functions -Wl,-rpath,'$$ORIGIN/..:$$ORIGIN/../..' \
	    -Wl,-soname,$(@F) $(if $(findstring -fsanitize,$(CFLAGS)),,-Wl,-z,defs) \
	    $(addprefix -Wl$(comma)--version-script=,$(filter %.map,$^)) $(filter %.o,$^) -L$(BUILD) \
	    -lleat-compat -lleat $(LIB_LIBS) -o $@
-include $(cudart12_obj:.o=.d) $(addprefix $(BUILD)/obj/compat/faces/,cudart12.d nvml.d)

.PHONY: compat faces
-include $(patsubst %.o,%.d,$(foreach name,compat $(compat_names),$(call compat_obj,$(name))))

# ---- tests: programs of the compatibility libraries, built as a user builds them, with the shared libraries ----

# Programs tests/compat/test_LAYER_*.c are linked with libleat-LAYER.
compat_layer = $(word 2,$(subst _, ,$(notdir $(1))))
compat_test_src := $(sort $(foreach name,$(compat_names),$(wildcard tests/compat/test_$(name)_*.c)))
compat_cxx_src := $(sort $(foreach name,$(compat_names),$(wildcard tests/compat/test_$(name)_*.cc)))
compat_cxx_tests := $(compat_cxx_src:tests/compat/%.cc=$(BUILD)/tests/compat/%)
# Programs in the style of public samples, built as a user builds .cu files.
compat_samples := $(if $(filter cudart,$(compat_names)),$(patsubst tests/compat/%.cu,$(BUILD)/tests/compat/%,\
                    $(sort $(wildcard tests/compat/sample_*.cu))))
compat_tests := $(compat_test_src:tests/compat/%.c=$(BUILD)/tests/compat/%) $(compat_cxx_tests) $(compat_samples)

$(filter-out $(compat_cxx_tests) $(compat_samples),$(compat_tests)): $(BUILD)/tests/compat/%: tests/compat/%.c $(compat_so) $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(PUBLIC_CFLAGS) -Iinclude/leat/compat $(compat_test_cflags) -MMD -MP -MF $@.d $< $(filter %.o,$^) $(LDFLAGS) \
	    -L$(BUILD) -Wl,-rpath,'$$ORIGIN/../..' -lleat-$(call compat_layer,$@) $(compat_test_libs) -lleat-compat -lleat \
	    -lcmocka -o $@
# The tests of cuFile use memory and streams of the runtime.
$(filter $(BUILD)/tests/compat/test_cufile_%,$(compat_tests)): compat_test_libs = -lleat-cudart
$(BUILD)/tests/compat/test_cufile_batch: $(BUILD)/tests/bad_disk.o
# Code that the tests *_ordering share: they run graphs of work and compare the results with a model.
$(BUILD)/tests/compat/%.o: tests/compat/%.c $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(PUBLIC_CFLAGS) -MMD -MP -c $< -o $@
ordering_objects := $(addprefix $(BUILD)/tests/compat/,ordering.o ordering_clocks.o ordering_steps.o)
$(filter %_ordering,$(compat_tests)): $(ordering_objects) $(BUILD)/tests/model.o $(BUILD)/tests/harness.o
-include $(ordering_objects:.o=.d)
# These tests load this shared object as a module.
$(addprefix $(BUILD)/tests/compat/test_,cuda_library cudart_nodes cudart_program hip_launch hip_nodes): $(BUILD)/tests/kernels_user.so
# This test loads plugin.so, which calls a function of the program.
$(BUILD)/tests/compat/test_cudart_plugin: $(BUILD)/tests/plugin.so
$(BUILD)/tests/compat/test_cudart_plugin: compat_test_libs = -rdynamic
$(compat_cxx_tests): $(BUILD)/tests/compat/%: tests/compat/%.cc $(compat_so) $(BUILD)/flags
	$(say) CXX $<
	@mkdir -p $(@D)
	$(Q)$(CXX) -std=c++14 -Wall -Wextra -pthread $(CPPFLAGS) $(CFLAGS) -Iinclude -Iinclude/leat/compat -MMD -MP -MF $@.d \
	    $< $(LDFLAGS) -L$(BUILD) -Wl,-rpath,'$$ORIGIN/../..' -lleat-$(call compat_layer,$@) -lleat-compat -lleat -o $@
cu_headers := $(wildcard include/leat/compat/*.h include/leat/compat/*/*.h include/leat/device_code.h tests/compat/*.cuh)
$(compat_samples): $(BUILD)/tests/compat/%: tests/compat/%.cu tests/compat/sample.h $(cu_headers) $(BUILD)/leat $(compat_so) $(BUILD)/flags
	$(say) CU $<
	@mkdir -p $(@D)
	$(Q)CXX='$(CXX)' $(BUILD)/leat cu -Wall -Wextra $(CPPFLAGS) $(CFLAGS) $< $(LDFLAGS) -o $@
-include $(compat_tests:=.d)

# libleat-cufile.a over a second leat, which stands in for NVIDIA's libraries. AddressSanitizer would take the variables
# of the two for one.
compat_vendor := $(if $(findstring -fsanitize,$(CFLAGS)),,$(if $(filter cufile,$(compat_names)),$(BUILD)/tests/compat/vendor_cufile))
$(compat_vendor): tests/compat/vendor_cufile.c $(BUILD)/libleat-cufile.a $(BUILD)/libleat.a $(compat_so) $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(PUBLIC_CFLAGS) -Iinclude/leat/compat -MMD -MP -MF $@.d $< $(LDFLAGS) -Wl,-rpath,'$$ORIGIN/../..' \
	    $(BUILD)/libleat-cufile.a $(BUILD)/libleat.a -lcmocka -pthread $(LIB_LIBS) -o $@
-include $(compat_vendor:=.d)
compat_tests += $(compat_vendor)

# Programs that are linked with the vendor's library names, which faces.sh runs.
face_clients := $(if $(faces),$(BUILD)/tests/compat/face_client12 $(BUILD)/tests/compat/face_client13)
$(BUILD)/tests/compat/face_client12: face_libs = -l:libcudart.so.12
$(BUILD)/tests/compat/face_client13: face_libs = -l:libcudart.so.13 -l:libcuda.so.1
$(face_clients): $(BUILD)/tests/compat/%: tests/compat/%.c $(faces) $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(PUBLIC_CFLAGS) -Iinclude/leat/compat -MMD -MP -MF $@.d $< $(LDFLAGS) -L$(faces_dir) \
	    -Wl,-rpath-link,$(BUILD) $(face_libs) -lcmocka -o $@
-include $(face_clients:=.d)
compat_scripts := $(if $(faces),tests/compat/faces.sh)

# A program whose allocations tests/cli/cli_record.sh records.
compat_recorded := $(if $(filter cudart,$(compat_names)),$(BUILD)/tests/compat/recorded_cudart)
$(compat_recorded): tests/compat/recorded_cudart.c $(compat_so) $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(PUBLIC_CFLAGS) -Iinclude/leat/compat $< $(LDFLAGS) -L$(BUILD) -Wl,-rpath,'$$ORIGIN/../..' -lleat-cudart \
	    -lleat-compat -lleat -o $@

# The prefix of an example's name selects its library.
compat_example_src := $(sort $(foreach prefix,$(if $(filter cudart,$(compat_names)),cuda_) $(if $(filter hip,$(compat_names)),hip_),\
                        $(wildcard examples/compat/$(prefix)*.c)))
compat_examples := $(compat_example_src:examples/compat/%.c=$(BUILD)/examples/compat/%)
$(BUILD)/examples/compat/cuda_%: compat_example_libs = -lleat-cudart
$(BUILD)/examples/compat/hip_%: compat_example_libs = -lleat-hip
$(compat_examples): $(BUILD)/examples/compat/%: examples/compat/%.c examples/compat/kernel.h $(compat_so) $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(PUBLIC_CFLAGS) -Iinclude/leat/compat -MMD -MP -MF $@.d $< $(LDFLAGS) -L$(BUILD) \
	    -Wl,-rpath,'$$ORIGIN/../..' $(compat_example_libs) -lleat-compat -lleat -o $@
-include $(compat_examples:=.d)
cu_examples := $(if $(filter cudart,$(compat_names)),$(patsubst examples/compat/%.cu,$(BUILD)/examples/compat/%,\
                 $(sort $(wildcard examples/compat/*.cu))))
$(cu_examples): $(BUILD)/examples/compat/%: examples/compat/%.cu $(cu_headers) $(BUILD)/leat $(compat_so) $(BUILD)/flags
	$(say) CU $<
	@mkdir -p $(@D)
	$(Q)CXX='$(CXX)' $(BUILD)/leat cu $(CPPFLAGS) $(CFLAGS) $< $(LDFLAGS) -o $@
compat_examples += $(cu_examples)

# The same sources built with NVIDIA's compiler and library, to compare their output.
NVCC ?= $(CUDA_HOME)/bin/nvcc
nvcc_examples := $(patsubst examples/compat/%.c,$(BUILD)/examples/nvcc/%,$(wildcard examples/compat/cuda_*.c))
nvcc_cu_examples := $(patsubst examples/compat/%.cu,$(BUILD)/examples/nvcc/%,$(wildcard examples/compat/*.cu))
$(nvcc_examples): $(BUILD)/examples/nvcc/%: examples/compat/%.c examples/compat/kernel.h
	$(say) NVCC $<
	@mkdir -p $(@D)
	$(Q)$(NVCC) -x cu -Iinclude $< -o $@
$(nvcc_cu_examples): $(BUILD)/examples/nvcc/%: examples/compat/%.cu
	$(say) NVCC $<
	@mkdir -p $(@D)
	$(Q)$(NVCC) $< -o $@
examples-nvcc: $(nvcc_examples) $(nvcc_cu_examples)

# Measures how much longer a call of a compatibility library takes than leat's own call.
$(BUILD)/bench/compat_cost: bench/compat_cost.c $(compat_so) $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(PUBLIC_CFLAGS) -Iinclude/leat/compat $< $(LDFLAGS) -L$(BUILD) -Wl,-rpath,'$$ORIGIN/..' \
	    -lleat-cudart -lleat-compat -lleat -o $@
compat-cost: $(BUILD)/bench/compat_cost
	$(Q)$<

# Measures how long the threads of a block take for a barrier.
$(BUILD)/bench/barrier_cost: bench/barrier_cost.cc $(cu_headers) $(compat_so) $(BUILD)/flags
	$(say) CXX $<
	@mkdir -p $(@D)
	$(Q)$(CXX) -std=c++14 -Wall -Wextra -pthread $(CPPFLAGS) $(CFLAGS) -Iinclude -Iinclude/leat/compat $< $(LDFLAGS) \
	    -L$(BUILD) -Wl,-rpath,'$$ORIGIN/..' -lleat-cudart -lleat-compat -lleat -o $@
barrier-cost: $(BUILD)/bench/barrier_cost
	$(Q)LEAT_DEVICE=cpu:0 $<

tests: $(compat_tests) $(compat_recorded) $(face_clients)
examples: $(compat_examples)

# These tests always run on the CPU device: they test what the calls mean, not a GPU. The tests use the libraries with
# assertions (tests.mk), the examples use the release libraries.
check-compat: $(compat_tests) $(compat_examples) $(face_clients) $(BUILD)/leat
	$(Q)LEAT_DEVICE=cpu:0 TEST_UNDER='env LD_LIBRARY_PATH=$(abspath $(checked))' tests/run.sh '$(BUILD)' cpu:0 $(compat_tests) \
	    $(compat_scripts)
	$(Q)LEAT_DEVICE=cpu:0 tests/run.sh '$(BUILD)' cpu:0 $(compat_examples)
compat-symbols: $(compat_so)
	$(Q)tools/check-compat-symbols.sh '$(BUILD)'
compat-abi:
	$(Q)tools/check-compat-abi.sh '$(CC)'

.PHONY: examples-nvcc compat-cost barrier-cost check-compat compat-symbols compat-abi

# ---- install ----------------------------------------------------------------------------------------------------

vendor_of = $(if $(filter cudart,$(1)),the CUDA runtime,$(if $(filter cuda,$(1)),the CUDA driver,$(if $(filter hip,$(1)),HIP,cuFile)))
install-compat: compat
	$(say) INST '$(DESTDIR)$(libdir)/libleat-compat.so.$(VERSION)'
	$(Q)$(INSTALL) -d '$(DESTDIR)$(libdir)' '$(DESTDIR)$(pkgconfigdir)'
	$(Q)set -e; for name in $(compat_libs); do \
	    $(INSTALL) -m 644 "$(BUILD)/$$name.so.$(VERSION)" '$(DESTDIR)$(libdir)'/"$$name.so.$(VERSION)"; \
	    ln -sf "$$name.so.$(VERSION)" '$(DESTDIR)$(libdir)'/"$$name.so.$(so_major)"; \
	    ln -sf "$$name.so.$(so_major)" '$(DESTDIR)$(libdir)'/"$$name.so"; done
	$(Q)set -e; for face in $(faces); do \
	    $(INSTALL) -D -m 644 "$$face" '$(DESTDIR)$(libdir)/leat/faces'/"$${face##*/}"; done
	$(Q)$(foreach name,$(compat_names),$(INSTALL) -m 644 $(BUILD)/libleat-$(name).a '$(DESTDIR)$(libdir)' && \
	    $(fill_in) -e 's|@NAMES@|$(name)|g' -e 's|@VENDOR@|$(call vendor_of,$(name))|g' packaging/leat-names.pc.in \
	    >'$(DESTDIR)$(pkgconfigdir)/leat-$(name).pc' && ):
