# tests.mk - the test programs: which there are, how they are built, and how check, check-gpu, check-memcheck,
# check-tsan and gate run them. Read by the Makefile, which sets BUILD, CC, the flags and the list of examples.
#
#   api/      tests that see only the public headers and run on any device
#   unit/     tests that include private headers: parts of the library, the drivers, every error path
#   models/   random programs that are checked against a model; public headers only
#   cli/      shell scripts that call the command as a user does
#   net/      tests of libleat-net: some with its private headers, some with the public ones only
#   compat/   tests of the compatibility libraries
#   dropin/   programs for the CUDA driver, which cli/cli_run*.sh and cli_programs.sh run with and without "leat run"
#   support/  code that the programs share, libraries to preload, a user's kernels
#   fake/     libraries that stand for the vendors' driver libraries
#   traces/   pieces of recorded traces
#
# All programs are built into build/tests/, whatever the folder of their sources.

test_bin := $(BUILD)/tests

# Programs for any device. They include only the public headers.
test_api := $(addprefix $(test_bin)/,test_device test_memory test_copy test_copy_async test_copy_lifetime \
            test_copy_ticket test_copy_cancel test_copy_broken test_copy_exit test_copy_batch test_copy_rails \
            test_copy_3d test_file test_file_batch test_file_commit test_file_bad test_file_direct \
            test_file_faults test_file_map test_file_wrap test_storage test_model test_model_share test_model_save \
            test_layout test_convert \
            test_layout_lists test_layout_batch test_virtual test_fill \
            test_managed test_stream test_counter test_event test_kernel test_native test_bad_input test_threads test_pool \
            test_pool_stats test_pool_order test_pool_reuse test_pool_pending test_pool_limits \
            test_pool_no_memory test_pool_full test_pool_packing test_pool_plan test_pool_bad test_pool_threads \
            test_pool_share test_share test_pool_guard test_pool_races test_pool_scrub test_pool_reports test_struct_size \
            test_trace test_trace_ends)
# Programs that test copies. They run once more with staged pageable copies on the CPU device.
staged_ends := $(addprefix $(test_bin)/,test_copy_cancel test_copy_broken test_copy_exit)
test_staged := $(staged_ends) $(addprefix $(test_bin)/,test_copy test_copy_async test_copy_lifetime \
               test_copy_ticket test_copy_batch test_copy_rails test_copy_3d test_file test_file_batch \
               test_file_commit test_file_bad test_file_direct test_file_faults test_file_map test_file_wrap \
               test_storage test_model test_model_share test_model_save test_layout test_layout_lists test_layout_batch test_convert \
               test_fill \
               test_bad_input \
               test_stream test_counter test_threads test_trace \
               test_pool_threads \
               order_model unit_copy_calls)
# Random graphs of work. They include only the public headers.
test_order := $(addprefix $(test_bin)/,order_model pool_model)
# Programs that test only the CPU device.
test_cpu := $(test_bin)/test_strict
# A program that crashes child processes on purpose. One run is enough.
test_crash := $(test_bin)/test_kernel_fault
# Programs with private headers: parts of the library, the drivers against fake libraries, every error path.
test_walk := $(test_bin)/fault_walk
unit_src := $(sort $(wildcard $(addprefix tests/unit/,test_*.c unit_*.c fuzz_*.c)))
test_unit := $(unit_src:tests/unit/%.c=$(test_bin)/%)

# Tests of libleat-net. They take from its archive what they need. The first three test everything up to the moment at
# which a connection becomes a link, and have a stand-in for links.
test_net := $(patsubst tests/net/%.c,$(test_bin)/%,$(sort $(wildcard $(addprefix tests/net/,test_*.c fuzz_*.c))))
net_moves := $(addprefix $(test_bin)/,test_message test_message_layout test_message_kill test_region test_broadcast \
               test_link_memory)
test_net_setup := $(addprefix $(test_bin)/,test_listener test_handshake fuzz_handshake)

# A program in C++, for the headers that are C++.
test_cxx := $(test_bin)/test_memory_resource
test_api += $(test_cxx)

test_programs := $(test_api) $(test_order) $(test_cpu) $(test_crash) $(test_unit) $(test_walk) $(test_net)
test_kernels := $(test_bin)/kernels_user.so

# Paths of files that the programs open.
test_defines = -DTEST_KERNELS_SO='"$(abspath $(test_kernels))"' \
               -DTEST_KERNELS_PTX='"$(abspath tests/support/kernels_user.ptx)"' \
               -DTEST_SNAPSHOT='"$(abspath tests/traces/pytorch_snapshot.pickle)"' \
               -DTEST_KERNELS_PLAIN='"$(abspath $(test_kernels_plain))"' \
               -DTEST_KERNELS_STAY='"$(abspath $(test_kernels_stay))"' \
               -DTEST_NSYS='"$(abspath tests/traces/nsys_small.sqlite)"' \
               -DTEST_VERSION='"$(VERSION)"'
test_objects := $(test_bin)/harness.o $(test_bin)/layouts.o

# The test programs are linked with a checked build of the library: one with the assertions of src/base/assert.h.
# The tests of the compatibility libraries load checked builds too. Examples and the command use the release build.
checked := $(if $(filter 1,$(CHECKED)),$(BUILD),$(BUILD)/checked)
checked_lib := $(checked)/libleat.a
ifneq ($(checked),$(BUILD))
$(checked_lib): FORCE
	+$(Q)$(MAKE) --no-print-directory CHECKED=1 BUILD=$(checked) lib compat
$(lib_obj:$(BUILD)/%=$(checked)/%): $(checked_lib) ;
endif

$(test_cxx): $(test_bin)/%: tests/api/%.cc $(checked_lib) $(BUILD)/flags
	$(say) CXX $<
	@mkdir -p $(@D)
	$(Q)$(CXX) -std=c++17 -Wall -Wextra -Wshadow -Wconversion -Iinclude $(CPPFLAGS) $(CFLAGS) -pthread -MMD -MP -MF $@.d \
	    $< $(LDFLAGS) $(checked_lib) $(LIB_LIBS) -o $@

# Which headers the objects of a folder see. In support/, only these three see private ones.
test_cflags_api = $(PUBLIC_CFLAGS)
test_cflags_models = $(PUBLIC_CFLAGS)
test_cflags_net = $(PUBLIC_CFLAGS) -Icommon -Inet $(net_cflags)
test_cflags_unit = $(ALL_CFLAGS) -DLEATI_CHECKED
test_cflags_support = $(if $(filter held canonical_cases trace_reader,$*),$(ALL_CFLAGS) -DLEATI_CHECKED,$(PUBLIC_CFLAGS))
define test_object_rule
$$(test_bin)/%.o: tests/$(1)/%.c $$(BUILD)/flags
	$$(say) CC $$<
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(test_cflags_$(1)) -Itests/support $$(test_defines) -MMD -MP -c $$< -o $$@
endef
$(foreach folder,api unit models net support,$(eval $(call test_object_rule,$(folder))))

# Linked with src/staging and src/base alone, so the link fails if the layer refers to anything above it.
test_layer := $(test_bin)/unit_staging $(test_bin)/unit_staging_ends
layer_objects := $(filter $(checked)/obj/src/staging/% $(checked)/obj/src/base/%, \
                          $(lib_obj:$(BUILD)/%=$(checked)/%))
$(test_layer): %: %.o $(layer_objects)
	$(say) LINK $@
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ -lcmocka $(LIB_LIBS) -o $@

$(test_net) $(test_bin)/measure_ucx $(test_bin)/link_peer: %: %.o $(test_objects) $(BUILD)/libleat-net.a $(checked_lib)
	$(say) LINK $@
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(test_wraps) $(filter %.o,$^) $(BUILD)/libleat-net.a $(checked_lib) -lcmocka \
	    $(net_libs) $(test_libs) $(LIB_LIBS) -o $@
$(test_net_setup): $(test_bin)/link_stand_in.o

$(filter-out $(test_layer) $(test_cxx) $(test_net),$(test_programs)): %: %.o $(test_objects) $(checked_lib)
	$(say) LINK $@
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(test_wraps) $(filter %.o,$^) $(checked_lib) -lcmocka $(test_libs) $(LIB_LIBS) \
	    -o $@

# These programs hold up the work that a call waits for (held.h): the linker replaces a function by one that first
# calls code of the test.
$(addprefix $(test_bin)/,unit_copy_waits unit_rails_waits unit_copy_help unit_copy_calls unit_plan unit_spread \
  unit_timeline): $(test_bin)/held.o
$(test_bin)/unit_copy_waits: test_wraps = -Wl,--wrap=leati_timeline_failed
$(test_bin)/unit_workers: test_wraps = -Wl,--wrap=leati_thread_start
plan_wraps := leati_workers_awake leati_eager_in leati_eager_out leati_stage_start leati_stage_reserve \
              leati_region_has_kernel leati_rails_take
$(test_bin)/unit_plan: test_wraps = $(plan_wraps:%=-Wl,--wrap=%)
$(test_bin)/unit_full: test_wraps = -Wl,--wrap=leati_mem_limit_get
$(test_bin)/unit_record: test_wraps = -Wl,--wrap=write
$(test_bin)/test_crypto: test_wraps = -Wl,--wrap=getrandom

# The code of the command that reads traces and pickles.
$(test_bin)/unit_trace: $(addprefix $(BUILD)/obj/cli/,pickle.o trace_choose.o trace_make.o trace_read.o \
                         trace_snapshot.o)
$(test_bin)/unit_trace: test_libs = -lz

# The sequences of allocations of "leat bench" that measure packing.
$(test_bin)/unit_packing: $(BUILD)/obj/cli/packing_plan.o
$(test_bin)/unit_packing: test_libs = $(cli_libs)

# What "leat receive" accepts as names of files.
$(test_bin)/unit_transfer_name.o: CPPFLAGS += -Icli
$(test_bin)/unit_transfer_name: $(BUILD)/obj/cli/transfer_name.o

# Who may connect as the plain socket of "leat bench net".
$(test_bin)/unit_net_plain.o: CPPFLAGS += $(filter -I%,$(cli_cflags))
$(test_bin)/unit_net_plain: $(BUILD)/obj/cli/net_plain.o

# The code of "leat trace", without the files that print.
activity_tests := $(addprefix $(test_bin)/,unit_activity unit_activity_read unit_activity_advice fuzz_activity)
activity_objects := $(addprefix $(BUILD)/obj/cli/,activity.o activity_advice.o activity_breakdown.o activity_html.o \
                    activity_chunks.o activity_join.o activity_json.o activity_names.o activity_perfetto.o \
                    activity_perfetto_pass.o activity_read.o activity_read_kineto.o activity_read_leat.o \
                    activity_read_nsys.o activity_rules_copy.o activity_rules_host.o perfetto.o sqlite.o text.o text_json.o)
$(activity_tests): $(activity_objects)
$(activity_tests): test_libs = $(cli_libs)
$(test_bin)/unit_base: test_wraps = -Wl,--wrap=calloc
$(test_bin)/unit_blocks $(test_bin)/test_file_map: test_wraps = -Wl,--wrap=mmap
$(test_bin)/unit_process: test_wraps = -Wl,--wrap=pthread_create
cpu_wraps := pthread_cond_wait pthread_join cpu_managed_add mmap mprotect
$(test_bin)/unit_cpu: test_wraps = $(cpu_wraps:%=-Wl,--wrap=%)

# Programs whose system calls about files can be made to fail.
bad_disk_tests := $(addprefix $(test_bin)/,test_file_bad test_file_direct test_file_faults test_file_map \
                  test_model_share)
$(bad_disk_tests): $(test_bin)/bad_disk.o

# Objects that the tests of the CUDA driver and of the HIP driver share.
$(addprefix $(test_bin)/,test_cuda_loader test_hip_loader): $(test_bin)/loaded.o | $(compat_so)
$(addprefix $(test_bin)/,test_cuda_fake test_hip_fake): $(test_bin)/fakes.o

# Programs of several files: the fault walk and its scenarios, the two models and what they share.
walk_objects := $(addprefix $(test_bin)/,fault_public.o fault_traces.o fault_pools.o fault_shares.o fault_copies.o \
                fault_files.o)
$(test_walk): $(walk_objects) $(files_obj)
model_objects := $(addprefix $(test_bin)/,model.o vector_clocks.o clock_steps.o pool_checks.o pool_steps.o)
$(test_order): $(test_bin)/model.o
$(test_bin)/order_model: $(addprefix $(test_bin)/,vector_clocks.o clock_steps.o)
$(test_bin)/pool_model: $(addprefix $(test_bin)/,pool_checks.o pool_steps.o)

# Reads the files of traces.
$(addprefix $(test_bin)/,test_trace test_trace_ends): $(test_bin)/trace_reader.o

# Random canonical layouts, and the plain loops that they are compared with.
$(addprefix $(test_bin)/,unit_layout_host unit_layout_gpu): $(test_bin)/canonical_cases.o

# The translator of "leat cu" without the rest of the command.
$(test_bin)/unit_cu_source.o: CPPFLAGS += -Icli
$(test_bin)/unit_cu_source: $(BUILD)/obj/cli/cu_source.o $(BUILD)/obj/cli/cu_tokens.o $(BUILD)/obj/cli/cu_query.o

# Models by name, linked with the objects of libleat-files.
$(addprefix $(test_bin)/,unit_model_parse fuzz_model test_model test_model_share test_model_save): $(files_obj)
comma := ,
fuzz_model_wraps := $(patsubst %,-Wl$(comma)--wrap=%,malloc calloc realloc free strdup)
$(test_bin)/fuzz_model: test_wraps = $(fuzz_model_wraps)
$(test_bin)/test_model: test_wraps = -Wl,--wrap=leat_file_read_batch_start

# Kernels of the tests, built as a user builds kernels.
$(test_kernels): tests/support/kernels_user.c include/leat/device_code.h $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(PUBLIC_CFLAGS) -fPIC -shared $< -o $@

# A library whose constructor calls a function of the program.
$(test_bin)/plugin.so: tests/support/plugin.c $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -fsanitize%,$(PUBLIC_CFLAGS)) -fPIC -shared $< -o $@

# Writes traces of any length for cli_trace.sh.
$(test_bin)/large_trace: tests/unit/large_trace.c $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -MF $@.d $< $(LDFLAGS) -o $@
-include $(test_bin)/large_trace.d

# A program whose allocations cli_record.sh records, and one that cli_top.sh looks at while it runs.
cli_programs := $(addprefix $(test_bin)/,recorded live)
$(cli_programs): $(test_bin)/%: tests/cli/%.c $(BUILD)/libleat.a $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(PUBLIC_CFLAGS) -MMD -MP -MF $@.d $< $(LDFLAGS) $(BUILD)/libleat.a $(LIB_LIBS) -o $@
-include $(cli_programs:%=%.d)

# The same kernels without sanitizer code, for tests that read the file's bytes.
test_kernels_plain := $(test_bin)/kernels_plain.so
$(test_kernels_plain): tests/support/kernels_user.c include/leat/device_code.h $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -fsanitize%,$(PUBLIC_CFLAGS)) -fPIC -shared $< -o $@

# A kernel that dlclose() does not unload.
test_kernels_stay := $(test_bin)/kernels_stay.so
$(test_kernels_stay): tests/support/kernels_stay.c include/leat/device_code.h $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(PUBLIC_CFLAGS) -fPIC -shared -Wl,-z,nodelete $< -o $@

# Libraries that stand for libcuda.so.1 and libamdhip64.so. Their sources include the drivers' lists of functions.
fake_headers := $(wildcard tests/fake/*.h src/driver/cuda/*.h src/driver/hip/*.h)
test_fakes := $(patsubst tests/fake/%.c,$(test_bin)/fake/%.so,$(sort $(wildcard tests/fake/*.c)))
$(test_bin)/fake/%.so: tests/fake/%.c $(fake_headers) $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -shared $< -o $@
# These compare leat's declarations with the vendor's cuda.h, where that is installed.
$(test_bin)/test_cuda_abi.o $(test_bin)/test_cuda_names.o: CPPFLAGS += $(addprefix -isystem ,$(cuda_include:-I%=%))

# Libraries to preload: jitter.so delays threads at random, keys.so emulates memory protection keys, bad_disk.so
# makes system calls about files fail.
test_jitter := $(test_bin)/jitter.so
test_keys := $(test_bin)/keys.so
test_bad_disk := $(test_bin)/bad_disk.so
$(test_jitter) $(test_keys) $(test_bad_disk): $(test_bin)/%.so: tests/support/%.c $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -fsanitize% -fvisibility=hidden,$(ALL_CFLAGS)) -shared $< -o $@ -ldl
$(test_bad_disk): tests/support/bad_disk.h

tests: $(test_programs) $(test_kernels) $(test_kernels_plain) $(test_kernels_stay) $(test_fakes) $(test_jitter) \
       $(test_keys) $(test_bad_disk) $(cli_programs) $(test_bin)/large_trace $(trace_programs) $(run_tests)

# Tests of the command, run as a user calls it, on the device under test.
test_cli := $(addprefix tests/cli/,tutorial.sh cli_replay.sh cli_record.sh cli_bench.sh cli_layout.sh cli_load.sh \
            cli_cu.sh cli_completion.sh cli_run.sh cli_run_pool.sh cli_run_trace.sh cli_programs.sh cli_trace.sh \
            cli_advice.sh cli_top.sh cli_net.sh)
export LEAT_COMMAND = $(abspath $(BUILD))/leat
export LEAT_TEST_CFLAGS = $(filter -fsanitize%,$(CFLAGS))

# The tests of the scripts that run and count tests, and of the model of several machines (bench/machines).
test_runners := tests/runners.sh tests/machines.sh

cpu_examples := $(filter-out %/interop_cuda %/interop_nccl,$(example_bin))

check_needs := tests $(cpu_examples) $(BUILD)/leat
check-compat: $(checked_lib)

# Suites may run at the same time ("make -j"); the programs of one suite run one after the other. suites.sh makes
# every suite, also when another one fails, and counts the results of all. asan leaves out check-strict, which
# tests access rights and no bytes.
check_suites := check-plain check-cli check-compat check-net check-strict check-staged check-unit check-prefetch \
                check-names-hip check-names-cuda check-jitter check-bad-disk check-mapped check-python
asan_suites := check-plain check-cli check-compat check-net check-staged check-unit check-prefetch check-mapped
tsan_suites := check-tsan-plain check-tsan-staged check-tsan-compat check-tsan-net check-tsan-unit
# run.sh notes results under the name in TEST_SUITE; suite-X notes that suite X ran to its end.
check-%: export TEST_SUITE = $@
suite-%: %
	$(Q)echo 'end $*' >>"$$TEST_RESULTS"

check:
	+$(Q)tests/suites.sh '$(MAKE)' -- $(check_suites)
# Prints the suites of "./dev test": those of "make check", and quick checks of the tree.
suites:
	@echo $(check_suites) words layers symbols

# Takes less than a minute on two idle cores after the build: runs each program that is not slow once, and the
# random ones for two seconds. Lines "note: ..." name what is left out.
quick_slow := $(test_walk) $(addprefix $(test_bin)/,test_pool_order test_pool_guard test_pool_reports \
              test_copy_broken test_copy_exit) \
              $(test_bin)/compat/test_cudart_ipc \
              $(filter %/cli_record.sh %/cli_bench.sh %/cli_run.sh %/cli_run_pool.sh %/cli_run_trace.sh \
                %/cli_programs.sh,$(test_cli))
quick_suites := check-quick-api check-quick-unit check-quick-compat
check-quick:
	+$(Q)tests/suites.sh '$(MAKE)' $(if $(filter -j%,$(MAKEFLAGS)),,-j2) -- $(quick_suites)
quick_run = ORDER_MODEL_SECONDS=2 tests/run.sh '$(BUILD)' cpu:0 $(filter-out $(quick_slow),$(1))
check-quick-api: tests
	$(Q)$(call quick_run,$(test_api) $(test_order))
check-quick-unit: tests
	$(Q)$(call quick_run,$(test_unit) $(test_net))
check-quick-compat: tests compat $(BUILD)/leat
	$(Q)echo 'note: check-quick leaves out these programs: $(notdir $(quick_slow) $(test_runners)) and the examples'
	$(Q)echo 'note: check-quick leaves out $(filter-out check-plain check-unit check-cli check-compat check-net,$(check_suites))'
	$(Q)echo 'note: make check runs all of them'
	$(Q)LEAT_DEVICE=cpu:0 $(call quick_run,$(compat_tests) $(compat_scripts) $(test_cli))

check-plain: tests
	$(Q)tests/run.sh '$(BUILD)' cpu:0 $(test_walk) $(test_crash) $(test_api) $(test_order)
check-unit: tests
	$(Q)tests/run.sh '$(BUILD)' cpu:0 $(test_unit)
# Links between processes: only loopback and Unix sockets, and ports that the system chooses.
# The tests of messages and regions run once more with the payload by UCX; without UCX they are skipped. They also run
# once more over encrypted links, and with links that keep little payload. Sanitizers' builds leave some of it out,
# because they are slow.
check-net: $(test_net) $(test_jitter) $(test_bin)/link_peer
	$(Q)status=0; export LEAT_PEER='$(abspath $(test_bin)/link_peer)'; \
	tests/run.sh '$(BUILD)' cpu:0 $(test_net) tests/net/namespaces.sh || status=1; \
	TEST_LINK_UCX=1 tests/run.sh '$(BUILD)' cpu:0 $(addprefix $(test_bin)/,test_message test_message_layout \
	    test_region test_link_memory) || status=1; \
	ASAN_OPTIONS=fast_unwind_on_malloc=0 TEST_LINK_ENCRYPT=1 tests/run.sh '$(BUILD)' cpu:0 $(net_moves) || status=1; \
	echo 'once more, staged as on a GPU, then with threads that rest at random:'; \
	$(staged) tests/run.sh '$(BUILD)' cpu:0 $(net_moves) || status=1; \
	case '$(CFLAGS)' in *-fsanitize*) exit $$status ;; esac; \
	TEST_LINK_MEMORY=100000 tests/run.sh '$(BUILD)' cpu:0 $(addprefix $(test_bin)/,test_message test_region \
	    test_broadcast) || status=1; \
	$(staged) LEAT_COPY_MEMORY=16M tests/run.sh '$(BUILD)' cpu:0 $(test_bin)/test_message_layout || status=1; \
	$(under_jitter) tests/run.sh '$(BUILD)' cpu:0 $(net_moves) || status=1; \
	exit $$status
check-cli: $(check_needs) compat
	$(Q)tests/run.sh '$(BUILD)' cpu:0 $(cpu_examples) $(test_cli) $(test_runners)

# Strict mode needs a processor with memory protection keys. Without them programs exit with 77, and
# tests/support/keys.c emulates the keys.
strict := $(test_cpu) $(addprefix $(test_bin)/,unit_bytes unit_bytes_faults) $(test_api) $(test_order) \
          $(cpu_examples)
check-strict: $(check_needs)
	$(Q)echo 'once more, with device memory out of reach for host threads (LEAT_STRICT=1):'
	$(Q)export LEAT_STRICT=1 ORDER_MODEL_SECONDS=3; \
	LEAT_TEST_DEVICE=cpu:0 $(test_bin)/test_event >/dev/null 2>&1; \
	if [ $$? -eq 77 ]; then \
	    echo 'note: strict mode ran with tests/support/keys.c: this machine has no memory protection keys'; \
	    export TEST_UNDER='env LD_PRELOAD=$(abspath $(test_keys))'; \
	fi; \
	tests/run.sh '$(BUILD)' cpu:0 $(strict)

# leat's drivers for GPUs, over leat's compatibility libraries in place of the vendors' libraries: the tests of the
# API run on hip:0, which calls libleat-hip, which calls the CPU device. Programs that take long and test code
# above all drivers are left out.
above_drivers := $(staged_ends) $(addprefix $(test_bin)/,test_pool_order test_pool_reuse test_pool_pending \
                 test_pool_guard test_pool_races test_pool_scrub test_pool_reports)
# test_file_map needs leat's handler of SIGBUS, but here a second leat, that of the library, installs its own later. It
# would also write to the file of LEAT_TRACE, which test_trace_ends sets.
test_names := $(test_bin)/order_model $(filter-out $(above_drivers) %/test_file_map %/test_trace_ends,$(test_api))
check-names: check-names-hip check-names-cuda
check-names-hip: tests compat
	$(Q)echo 'once more, on the driver hip over libleat-hip:'
	$(Q)LEAT_HIP_LIBRARY='$(abspath $(checked))/libleat-hip.so' LEAT_REQUIRE=hip ORDER_MODEL_SECONDS=3 \
	    tests/run.sh '$(BUILD)' hip:0 $(test_names)

# The same on cuda:0, which calls libleat-cuda, and the fault walk without pools. libleat-cuda cannot run PTX: for
# the kernels of a PTX module it uses the shared objects in LEAT_CPU_KERNELS.
cuda_names := LEAT_CUDA_LIBRARY='$(abspath $(checked))/libleat-cuda.so' LEAT_DRIVERS=cuda,cpu \
              LEAT_CPU_KERNELS='$(abspath $(test_kernels))'
check-names-cuda: tests compat
	$(Q)echo 'once more, on the driver cuda over libleat-cuda:'
	$(Q)$(cuda_names) LEAT_REQUIRE=cuda ORDER_MODEL_SECONDS=3 FAULT_WALK_POOLS=0 \
	    tests/run.sh '$(BUILD)' cuda:0 $(test_walk) $(test_names)

# Stage pageable copies and plan layouts as on a GPU. The rings have few slots, so that each slot is reused often.
# First three workers, so few that waiting threads help to copy; then four, so that they do not.
staged := LEAT_COPY_STAGE=1 LEAT_LAYOUT_AS_GPU=1 LEAT_COPY_RING=1M LEAT_COPY_WORKERS=3

check-staged: $(check_needs)
	$(Q)echo 'once more, with pageable copies staged as on a GPU, through small rings (LEAT_COPY_STAGE=1):'
	$(Q)status=0; export $(staged); \
	ORDER_MODEL_SECONDS=5 tests/run.sh '$(BUILD)' cpu:0 $(test_staged) || status=1; \
	LEAT_COPY_WORKERS=4 tests/run.sh '$(BUILD)' cpu:0 \
	    $(staged_ends) $(addprefix $(test_bin)/,test_copy test_copy_async test_copy_lifetime \
	    test_copy_ticket) || status=1; \
	LEAT_LAYOUT_AS_GPU=0 tests/run.sh '$(BUILD)' cpu:0 $(test_bin)/unit_copy_calls || status=1; \
	HELD_WITHOUT_WORDS=1 tests/run.sh '$(BUILD)' cpu:0 $(test_bin)/unit_copy_calls || status=1; \
	exit $$status

# Programs with several threads, which jitter.so delays at random: staged, and over both drivers for GPUs.
jittered := $(addprefix $(test_bin)/,test_threads test_pool_threads test_copy_async test_copy_lifetime \
            test_copy_ticket test_event test_stream order_model)
under_jitter = TEST_UNDER='env LD_PRELOAD=$(abspath $(test_jitter))' ORDER_MODEL_SECONDS=3
check-jitter: tests compat
	$(Q)echo 'once more, with threads that rest at random (tests/support/jitter.c):'
	$(Q)status=0; export $(under_jitter); \
	$(staged) tests/run.sh '$(BUILD)' cpu:0 $(jittered) || status=1; \
	LEAT_HIP_LIBRARY='$(abspath $(checked))/libleat-hip.so' LEAT_REQUIRE=hip \
	    tests/run.sh '$(BUILD)' hip:0 $(jittered) || status=1; \
	$(cuda_names) LEAT_REQUIRE=cuda tests/run.sh '$(BUILD)' cuda:0 $(jittered) || status=1; \
	LEAT_DEVICE=cpu:0 tests/run.sh '$(BUILD)' cpu:0 \
	    $(filter %_threads %_ordering %_peers,$(compat_tests)) || status=1; \
	exit $$status

# The tests of files on a system without the newer calls about files, then on a disk that moves few bytes at once.
# The sanitizers' suites leave this out: their runtimes must be loaded before any other library.
old_calls := cachestat=ENOSYS,nowait=ENOSYS,statx=ENOSYS,open-direct=EINVAL,open-tmpfile=EOPNOTSUPP,rename-keep=EINVAL
short_calls := read=3000,read-direct=512,write=5000,write-direct=4096,read=EINTR@3+5,write=EINTR@2+7
check-bad-disk: tests
	$(Q)echo 'once more, on an old system and on a disk that moves few bytes at once (tests/support/bad_disk.c):'
	$(Q)status=0; export TEST_UNDER='env LD_PRELOAD=$(abspath $(test_bad_disk))'; \
	for rules in '$(old_calls)' '$(short_calls)'; do \
	    BAD_DISK=$$rules tests/run.sh '$(BUILD)' cpu:0 \
	        $(addprefix $(test_bin)/,test_file test_file_batch test_file_commit test_model) || status=1; \
	done; \
	exit $$status

# The tests of files once more with writes through mappings, which need four processors to be chosen; then with other
# defaults of the system's cache.
mapped_tests := $(addprefix $(test_bin)/,test_file test_file_batch test_file_commit test_file_faults \
                test_file_wrap test_model_save)
check-mapped: tests
	$(Q)echo 'once more, with files written through mappings (LEAT_IO_MAP), then with LEAT_IO_CACHE:'
	$(Q)status=0; \
	LEAT_IO_MAP=always tests/run.sh '$(BUILD)' cpu:0 $(mapped_tests) || status=1; \
	LEAT_IO_MAP=always LEAT_COPY_STAGE=1 tests/run.sh '$(BUILD)' cpu:0 $(mapped_tests) || status=1; \
	for cache in cached direct; do \
	    LEAT_IO_CACHE=$$cache tests/run.sh '$(BUILD)' cpu:0 \
	        $(addprefix $(test_bin)/,test_file test_file_batch) || status=1; \
	done; \
	exit $$status

# The Python package: builds the wheel, and tests it in a new virtual environment. pip fetches what that needs;
# without Python, its module venv or a network the suite is skipped.
check-python: python-libraries $(BUILD)/python/libcuda-alone.so
	@mkdir -p $(test_bin)
	$(Q)LEAT_PYTHON_MAKE='$(MAKE)' LEAT_PYTHON_BUILD='$(abspath $(BUILD))' CC='$(CC)' CXX='$(CXX)' \
	    CFLAGS='$(CFLAGS)' TEST_TIMEOUT=1800 tests/run.sh '$(BUILD)' cpu:0 tests/python.sh

check-prefetch: $(check_needs)
	$(Q)echo 'once more, with prefetches in chunks over several streams (LEAT_PREFETCH_STREAMS_IN and _OUT):'
	$(Q)LEAT_PREFETCH_STREAMS_IN=3 LEAT_PREFETCH_STREAMS_OUT=2 LEAT_PREFETCH_CHUNK=64K \
	    tests/run.sh '$(BUILD)' cpu:0 $(test_bin)/test_managed

# The GPU to test, of any driver. Another one: GPU=hip:1.
GPU ?= cuda:0

check-gpu: tests $(example_bin) $(BUILD)/leat
	$(Q)LEAT_REQUIRE=$(firstword $(subst :, ,$(GPU))) tests/run.sh '$(BUILD)' $(GPU) $(test_api) \
	    $(test_bin)/unit_virtual $(test_walk) $(test_order) $(example_bin) $(test_cli)

# Runs tests under compute-sanitizer, which finds wrong accesses on the GPU. It does not report calls that CUDA
# refuses, since the tests of bad input make such calls on purpose.
check-memcheck: tests
	$(Q)LEAT_TEST_MEMCHECK=1 \
	    TEST_UNDER='compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 9' \
	    tests/run.sh '$(BUILD)' $(GPU) $(test_api)

# Long programs with one host thread are left out, and the fault walk: under this sanitizer they take many minutes.
test_tsan := $(filter-out $(filter-out $(staged_ends),$(above_drivers)) %/test_pool_threads,$(test_api))
# Pools reserve addresses for all memory of a device, and ThreadSanitizer leaves few addresses.
few_addresses := LEAT_CPU_MEMORY=2G
check-tsan-plain: tests
	$(Q)TEST_TIMEOUT=1800 tests/run.sh '$(BUILD)' cpu:0 $(test_tsan) $(test_order)
# ThreadSanitizer calls dlopen() in place of the library, so the run path of the library is not searched.
check-tsan-compat: tests
	$(Q)$(few_addresses) TEST_TIMEOUT=1800 LEAT_DEVICE=cpu:0 LD_LIBRARY_PATH='$(abspath $(BUILD))' \
	    tests/run.sh '$(BUILD)' cpu:0 $(compat_tests)
check-tsan-net: $(test_net)
	$(Q)TEST_TIMEOUT=1800 tests/run.sh '$(BUILD)' cpu:0 $(test_net)
check-tsan-unit: tests
	$(Q)$(few_addresses) TEST_TIMEOUT=1800 tests/run.sh '$(BUILD)' cpu:0 $(addprefix $(test_bin)/,test_pool_threads \
	    unit_bytes unit_bytes_faults unit_copy_help unit_copy_waits unit_cpu unit_layout unit_layout_calls \
	    unit_layout_plans unit_rails_waits)
check-tsan-staged: tests
	$(Q)$(staged) $(few_addresses) TEST_TIMEOUT=1800 tests/run.sh '$(BUILD)' cpu:0 \
	    $(filter-out %/test_bad_input,$(test_staged))

# Fuzzes the arithmetic of layouts by libFuzzer for FUZZ_SECONDS, starting from the inputs that earlier runs found.
FUZZ_SECONDS ?= 60
fuzz_dir := $(BUILD)/fuzz/layout
fuzz_src := tests/unit/fuzz_layout.c tests/support/layouts.c $(sort $(wildcard src/layout/*.c src/base/*.c))
fuzz-layout:
	$(Q)mkdir -p $(fuzz_dir)/found
	$(Q)$(CLANG) $(filter-out $(CFLAGS),$(ALL_CFLAGS)) -O1 -g -DLEATI_CHECKED -fsanitize=fuzzer,address,undefined \
	    -fno-sanitize-recover=all -Itests/support -DLEAT_LIBFUZZER $(fuzz_src) \
	    $(LIB_LIBS) -o $(fuzz_dir)/fuzz_layout
	$(Q)$(fuzz_dir)/fuzz_layout -max_total_time=$(FUZZ_SECONDS) -max_len=400 -artifact_prefix=$(fuzz_dir)/ \
	    $(fuzz_dir)/found

# The parsers of leat/model.h under libFuzzer, for FUZZ_SECONDS; the rest of the library is not instrumented. The
# search starts from the files of fuzz_model.
fuzz_model_dir := $(BUILD)/fuzz/model
fuzz-model: $(test_bin)/fuzz_model
	$(Q)mkdir -p $(fuzz_model_dir)/found $(fuzz_model_dir)/seeds
	$(Q)$(CLANG) $(filter-out $(CFLAGS),$(PUBLIC_CFLAGS)) -Icommon -Ifiles -O1 -g -Itests/support -DLEAT_LIBFUZZER \
	    -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all tests/unit/fuzz_model.c $(files_src) \
	    $(checked_lib) $(fuzz_model_wraps) $(LIB_LIBS) -o $(fuzz_model_dir)/fuzz_model
	$(Q)$(test_bin)/fuzz_model --write $(fuzz_model_dir)/seeds
	$(Q)$(fuzz_model_dir)/fuzz_model -max_total_time=$(FUZZ_SECONDS) -max_len=4096 \
	    -artifact_prefix=$(fuzz_model_dir)/ $(fuzz_model_dir)/found $(fuzz_model_dir)/seeds

# The handshake of libleat-net and its parser of addresses under libFuzzer, for FUZZ_SECONDS.
fuzz_handshake_dir := $(BUILD)/fuzz/handshake
fuzz-handshake: $(checked_lib)
	$(Q)mkdir -p $(fuzz_handshake_dir)/found
	$(Q)$(CLANG) $(filter-out $(CFLAGS),$(PUBLIC_CFLAGS)) -Icommon -Inet -O1 -g -Itests/support -DLEAT_LIBFUZZER \
	    -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all tests/net/fuzz_handshake.c \
	    net/address.c net/crypto.c net/handshake.c net/net_helpers.c net/net_socket.c common/report.c $(checked_lib) $(net_cflags) $(net_libs) $(LIB_LIBS) \
	    -o $(fuzz_handshake_dir)/fuzz_handshake
	$(Q)$(fuzz_handshake_dir)/fuzz_handshake -max_total_time=$(FUZZ_SECONDS) -max_len=400 \
	    -artifact_prefix=$(fuzz_handshake_dir)/ $(fuzz_handshake_dir)/found

# A link whose other end sends any bytes, under libFuzzer, for FUZZ_SECONDS; libleat is not instrumented.
fuzz_link_dir := $(BUILD)/fuzz/link
fuzz-link: $(checked_lib)
	$(Q)mkdir -p $(fuzz_link_dir)/found
	$(Q)$(CLANG) $(filter-out $(CFLAGS),$(PUBLIC_CFLAGS)) -Icommon -Inet -O1 -g -Itests/support -DLEAT_LIBFUZZER \
	    $(test_defines) -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all tests/net/fuzz_link.c tests/support/harness.c \
	    $(net_src) $(checked_lib) $(net_cflags) -lcmocka $(net_libs) $(LIB_LIBS) -o $(fuzz_link_dir)/fuzz_link
	$(Q)$(fuzz_link_dir)/fuzz_link -max_total_time=$(FUZZ_SECONDS) -max_len=4096 \
	    -artifact_prefix=$(fuzz_link_dir)/ $(fuzz_link_dir)/found

# The gate puts faults into copies, fills and order. Programs that test other things would only take time, so they
# are left out.
not_gated := $(staged_ends) $(addprefix $(test_bin)/,test_pool_limits test_pool_no_memory test_pool_bad \
             test_pool_threads test_pool_guard test_pool_races test_pool_scrub test_pool_reports test_pool_share \
             test_copy_rails)
test_gate := $(filter-out $(not_gated),$(test_api)) $(test_order)
gate: tests
	$(Q)tests/gate.sh $(test_gate)

.PHONY: tests check check-quick $(quick_suites) suites check-gpu check-memcheck check-names $(check_suites) \
        $(tsan_suites) fuzz-layout fuzz-model fuzz-handshake fuzz-link gate
-include $(test_programs:=.d) $(test_objects:.o=.d) $(walk_objects:.o=.d) $(model_objects:.o=.d) \
         $(addprefix $(test_bin)/,held.d loaded.d canonical_cases.d fakes.d bad_disk.d trace_reader.d link_stand_in.d)
