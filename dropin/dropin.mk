# dropin.mk - builds what "leat run" preloads: libleat-run, which replaces functions of the CUDA driver, and
# libleat-run-engine, which contains leat and is loaded at the first copy or allocation that leat makes. The Makefile
# includes this file.
#
# Both are loaded into programs that may use leat, too, so they export only what their .map files list. libleat-run is
# also loaded into programs without any sanitizer, so it is built without. The engine uses structs of libleat's, which
# are larger where assertions are compiled in (CHECKED=1), so it is compiled with the same flag.

run_so := $(BUILD)/libleat-run.so
run_engine := $(BUILD)/libleat-run-engine.so
run_obj := $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out dropin/engine%.c,$(sort $(wildcard dropin/*.c))))
run_engine_obj := $(patsubst %.c,$(BUILD)/obj/%.o,$(sort $(wildcard dropin/engine*.c)))

RUN_CFLAGS = -std=c11 -D_GNU_SOURCE -fPIC -fvisibility=hidden -pthread $(WARN) $(CPPFLAGS)
$(run_obj): $(BUILD)/obj/dropin/%.o: dropin/%.c $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(RUN_CFLAGS) $(filter-out -fsanitize%,$(CFLAGS)) -MMD -MP -c $< -o $@
$(run_engine_obj): $(BUILD)/obj/dropin/%.o: dropin/%.c $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(RUN_CFLAGS) $(CFLAGS) $(checked_flag) -Iinclude -Isrc -MMD -MP -c $< -o $@

# The versions of dlsym() that glibc has on this machine (lookup.c).
$(BUILD)/libleat-run.map: dropin/run.map $(BUILD)/flags
	$(Q)sed "s/FIRST_VERSION/$$(if [ "$$($(CC) -dumpmachine | sed 's/-.*//')" = x86_64 ]; then echo GLIBC_2.2.5; else echo GLIBC_2.17; fi)/" $< >$@
$(run_so): $(run_obj) $(BUILD)/libleat-run.map
	$(say) LINK $@
	$(Q)$(CC) $(filter-out -fsanitize%,$(CFLAGS)) $(filter-out -fsanitize%,$(LDFLAGS)) -shared -Wl,-z,nodelete -Wl,-z,defs \
	    -Wl,-Bsymbolic-functions -Wl,-soname,libleat-run.so -Wl,--version-script=$(BUILD)/libleat-run.map $(run_obj) -pthread -ldl -o $@
$(run_engine): $(run_engine_obj) $(BUILD)/libleat.a dropin/engine.map
	$(say) LINK $@
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-z,nodelete -Wl,-z,now -Wl,-Bsymbolic \
	    $(if $(findstring -fsanitize,$(CFLAGS)),,-Wl,-z,defs) -Wl,-soname,libleat-run-engine.so \
	    -Wl,--version-script=dropin/engine.map $(run_engine_obj) $(BUILD)/libleat.a $(LIB_LIBS) -o $@

dropin: $(run_so) $(run_engine)

install-dropin: dropin
	$(say) INST '$(DESTDIR)$(libdir)/libleat-run.so'
	$(Q)$(INSTALL) -d '$(DESTDIR)$(libdir)'
	$(Q)$(INSTALL) -m 644 $(run_so) $(run_engine) '$(DESTDIR)$(libdir)'

.PHONY: dropin install-dropin
-include $(run_obj:.o=.d) $(run_engine_obj:.o=.d)

# ---- tests: clients of the driver API, and folders with a libcuda.so.1 each ------------------------------------

# The fake driver, and leat's libleat-cuda on the CPU device, as programs find a vendor's driver.
run_test_bin := $(BUILD)/tests/dropin
run_test_drivers := $(addprefix $(run_test_bin)/,fake/libcuda.so.1 names/libcuda.so.1 recorded/libcuda.so.1)
$(run_test_bin)/fake/libcuda.so.1: tests/fake/fake_cuda.c $(wildcard tests/fake/*.h src/driver/cuda/*.h) $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -fsanitize%,$(ALL_CFLAGS)) $(filter-out -fsanitize%,$(LDFLAGS)) -shared -Wl,-Bsymbolic \
	    -Wl,-soname,libcuda.so.1 $< -o $@
$(run_test_bin)/names/libcuda.so.1: $(BUILD)/libleat-cuda.so
	@mkdir -p $(@D)
	$(Q)ln -sf ../../../libleat-cuda.so.$(so_major) $@
# A driver that only answers lookups, as the vendor's did when those of real clients were recorded.
$(run_test_bin)/recorded/libcuda.so.1: tests/dropin/client_lookups.txt tests/dropin/recorded_driver.awk $(BUILD)/flags
	$(say) CC $@
	@mkdir -p $(@D)
	$(Q)awk -f tests/dropin/recorded_driver.awk $< >$(@D)/driver.c
	$(Q)$(CC) $(filter-out -fsanitize%,$(ALL_CFLAGS)) $(filter-out -fsanitize%,$(LDFLAGS)) -fvisibility=default -shared \
	    -Wl,-Bsymbolic -Wl,-soname,libcuda.so.1 $(@D)/driver.c -o $@

run_test_clients := $(addprefix $(run_test_bin)/,client client_linked lookups memory client_static)
$(run_test_bin)/client $(run_test_bin)/lookups $(run_test_bin)/memory: $(run_test_bin)/%: tests/dropin/%.c tests/dropin/client.h $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(PUBLIC_CFLAGS) $(filter %.c %.so,$(filter-out %.h,$^)) $(LDFLAGS) -Wl,-rpath,'$$ORIGIN' -o $@ -ldl -pthread
$(run_test_bin)/lookups: $(run_test_bin)/libnext.so
$(run_test_bin)/libnext.so: tests/dropin/next.c $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(PUBLIC_CFLAGS) -fPIC -shared -Wl,-soname,libnext.so $< $(LDFLAGS) -o $@
$(run_test_bin)/client_linked: tests/dropin/client.c tests/dropin/client.h $(run_test_bin)/fake/libcuda.so.1 $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(PUBLIC_CFLAGS) -DCLIENT_LINKED $< $(LDFLAGS) $(run_test_bin)/fake/libcuda.so.1 -o $@ -ldl
$(run_test_bin)/client_static: tests/dropin/static.c $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -fsanitize%,$(PUBLIC_CFLAGS) $(LDFLAGS)) -static $< -o $@
# A program that is recorded, and CUPTI for it: made by hand, and one that lacks a function.
$(run_test_bin)/traced: tests/dropin/traced.c $(BUILD)/tests/plugin.so $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(PUBLIC_CFLAGS) $< $(LDFLAGS) -rdynamic -o $@ -ldl -pthread
run_test_cupti := $(run_test_bin)/cupti/libcupti.so.13 $(run_test_bin)/cupti-old/libcupti.so.13
$(run_test_cupti): tests/dropin/made_cupti.c $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -fsanitize%,$(ALL_CFLAGS)) $(filter-out -fsanitize%,$(LDFLAGS)) -shared -Wl,-Bsymbolic \
	    $(if $(findstring old,$(@D)),-DMADE_CUPTI_OLD) -Wl,-soname,libcupti.so.13 $< -o $@
run_test_recorder := $(run_test_bin)/record_lookups.so
$(run_test_recorder): tests/dropin/record_lookups.c $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -fsanitize%,$(ALL_CFLAGS)) $(filter-out -fsanitize%,$(LDFLAGS)) -fvisibility=default -shared $< -o $@
run_tests := $(run_test_clients) $(run_test_drivers) $(run_test_recorder) $(run_test_bin)/traced $(run_test_cupti) $(run_so) $(run_engine)

# Times of a program's copies, alone and under leat run: median and longest in microseconds, and the ratio of the medians.
$(BUILD)/bench/run_rates: bench/run_rates.c $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(PUBLIC_CFLAGS) -Iinclude/leat/compat -MMD -MP -MF $@.d $< $(LDFLAGS) -o $@ -ldl -pthread
run-rates: $(BUILD)/bench/run_rates $(BUILD)/leat dropin
	$(Q)$< $(MIB) >$(BUILD)/bench/run_rates.alone && $(BUILD)/leat run $(RUN_OPTIONS) $< $(MIB) >$(BUILD)/bench/run_rates.run
	@printf '%-36s %10s %10s %10s %10s %6s\n' CASE ALONE LONGEST RUN LONGEST RATIO
	@paste $(BUILD)/bench/run_rates.alone $(BUILD)/bench/run_rates.run | \
	    awk '{ printf "%-36s %10s %10s %10s %10s %6.2f\n", $$1, $$2, $$3, $$5, $$6, $$2 / $$5 }'
.PHONY: run-rates
-include $(BUILD)/bench/run_rates.d
