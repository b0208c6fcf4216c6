# leat: make, make check, make install. "make help" lists the targets and the variables.
VERSION := $(shell cat VERSION)
so_major := $(firstword $(subst ., ,$(VERSION)))
# The header has the same version in its macros.
header_version := $(shell sed -n 's/^\#define LEAT_VERSION_[MP][A-Z]* \([0-9]*\)$$/\1/p' include/leat/version.h)
ifneq ($(header_version),$(subst ., ,$(VERSION)))
$(error the file VERSION says '$(VERSION)' and the macros in include/leat/version.h say '$(header_version)' (major minor patch))
endif

BUILD ?= build
CFLAGS ?= -O3 -g
CUDA_HOME ?= /usr/local/cuda
PKG_CONFIG ?= pkg-config
CLANG ?= clang-19
CLANG_TIDY ?= clang-tidy-19

prefix ?= /usr/local
exec_prefix ?= $(prefix)
bindir ?= $(exec_prefix)/bin
libdir ?= $(exec_prefix)/lib
includedir ?= $(prefix)/include
mandir ?= $(prefix)/share/man
INSTALL ?= install
AWK ?= awk

# V=1 shows the commands; otherwise each step is one short line.
ifeq ($(V),1)
Q :=
say = @:
else
Q := @
say = @printf '  %-5s %s\n'
endif

# WERROR=-Werror makes warnings errors. It is the only flag whose change builds nothing again.
WARN := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla $(WERROR)
# CHECKED=1 compiles the assertions of src/base/assert.h in: for the library of the tests, and for sanitizer
# builds.
checked_flag = $(if $(filter 1,$(CHECKED)),-DLEATI_CHECKED)
ALL_CFLAGS = -std=c11 -D_GNU_SOURCE -fPIC -fvisibility=hidden -pthread -Iinclude -Isrc $(WARN) $(checked_flag) \
             $(CPPFLAGS) $(CFLAGS)
# The flags for code that sees only the public headers, as a user's program does.
PUBLIC_CFLAGS = -std=c11 -D_GNU_SOURCE -pthread -Iinclude $(WARN) $(CPPFLAGS) $(CFLAGS)
LIB_LIBS := -pthread -ldl -lm
# nodelete: the library stays loaded after dlclose(), because the CPU device's threads run its code while a device
# is open. A library built for a sanitizer may have undefined symbols: the sanitizer's runtime is linked into the
# program.
SO_LDFLAGS = -shared -Wl,-z,nodelete -Wl,-z,now -Wl,-soname,libleat.so.$(so_major) -Wl,--version-script=$(BUILD)/libleat.map \
             $(if $(findstring -fsanitize,$(CFLAGS)),,-Wl,-z,defs)

lib_src := $(sort $(wildcard src/*/*.c src/driver/*/*.c))
lib_obj := $(lib_src:%.c=$(BUILD)/obj/%.o)
cli_src := $(sort $(wildcard cli/*.c))
cli_obj := $(cli_src:%.c=$(BUILD)/obj/%.o)
headers := $(sort $(wildcard include/leat/*.h include/leat/*/*.h include/leat/*/*/*.h include/leat/*/*.hpp))
so_real := libleat.so.$(VERSION)
so_name := libleat.so.$(so_major)

all: lib compat files net dropin $(BUILD)/leat
lib: $(BUILD)/libleat.a $(BUILD)/libleat.so

# All objects depend on this file. Its contents change with the compiler, the flags and the version, so that the
# objects are then built again.
flags_now = $(CC) $(filter-out -Werror,$(ALL_CFLAGS)) $(LDFLAGS) $(VERSION)
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(flags_now))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(flags_now))' >$@

$(BUILD)/obj/cli/%.o: cli/%.c $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(PUBLIC_CFLAGS) $(cli_cflags) -MMD -MP -c $< -o $@

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

# embed.o includes the built device code through the assembler, which writes no dependencies.
$(BUILD)/obj/src/kernels/embed.o: $(wildcard src/kernels/built/*)

$(BUILD)/libleat.a: $(lib_obj)
	$(say) AR $@
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# Symbol versions: the nodes of src/libleat.map, and that of the calls that the headers call experimental.
files_header := include/leat/model.h
net_header := include/leat/link.h
lib_headers := $(filter-out $(files_header) $(net_header),$(sort $(wildcard include/leat/*.h)))
make_map = { cat $(1) && tools/exports.sh --map '$(CC)' $(2:include/%=%); } >$@
$(BUILD)/libleat.map: src/libleat.map tools/exports.sh $(headers)
	@mkdir -p $(@D)
	$(Q)$(call make_map,$<,$(lib_headers))

$(BUILD)/$(so_real): $(lib_obj) $(BUILD)/libleat.map
	$(say) LINK $@
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(SO_LDFLAGS) $(lib_obj) $(LIB_LIBS) -o $@

$(BUILD)/libleat.so: $(BUILD)/$(so_real)
	$(Q)ln -sf $(so_real) $(BUILD)/$(so_name)
	$(Q)ln -sf $(so_name) $@

# ---- compatibility libraries: libleat-cudart and others, on top of the public headers --------------------------

include compat/compat.mk

# ---- libleat-files: models by name ----------------------------------------------------------------------------

include files/files.mk

# ---- libleat-net: links between processes ---------------------------------------------------------------------

include net/net.mk

# ---- libleat-run: what "leat run" preloads --------------------------------------------------------------------

include dropin/dropin.mk

# ---- the Python package ----------------------------------------------------------------------------------

include python/python.mk

# ---- the command ------------------------------------------------------------------------------------------

cli_libs := $(shell $(PKG_CONFIG) --libs jansson smartcols zlib $(net_needs) 2>/dev/null)
cli_cflags := $(shell $(PKG_CONFIG) --cflags jansson smartcols zlib $(net_needs) 2>/dev/null) -Idropin -Isrc/trace -Icli

ifeq ($(cli_libs),)
$(BUILD)/leat: lib files FORCE
	@echo "leat: the command needs libraries for tables, JSON, compressed files and keys, the Debian packages pkg-config," \
	      "libjansson-dev, libsmartcols-dev, zlib1g-dev and libssl-dev; 'make lib' builds the library without them." \
	      >&2; exit 1
else
$(BUILD)/obj/cli/run_program.o: cli_cflags += -DRUN_LIBDIR='"$(libdir)"'
$(BUILD)/obj/cli/run_program.o: $(BUILD)/libdir
# activity_html.o includes the page through the assembler, which writes no dependencies.
$(BUILD)/obj/cli/activity_html.o: cli/activity_page.html
# Where "leat run" looks for its libraries. Changes with libdir, so that the command is then built again.
$(BUILD)/libdir: FORCE
	@mkdir -p $(@D)
	@echo '$(libdir)' | cmp -s - $@ || echo '$(libdir)' >$@
$(BUILD)/leat: $(cli_obj) $(BUILD)/libleat-files.a $(BUILD)/libleat-net.a $(BUILD)/libleat.a
	$(say) LINK $@
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(cli_libs) $(LIB_LIBS) -o $@
endif

# ---- examples: as a user would build them, against the shared library ----------------------------------------

cuda_include := $(if $(wildcard $(CUDA_HOME)/include/cuda.h),-I$(CUDA_HOME)/include)
have_cuda_h := $(shell $(CC) $(cuda_include) -include cuda.h -E -x c /dev/null >/dev/null 2>&1 && echo yes)
# Without an NVIDIA driver, link with the toolkit's stub of libcuda. The program then reports that there is no CUDA
# device.
cuda_libs := $(addprefix -L,$(wildcard $(CUDA_HOME)/lib64/stubs)) -lcuda

# Files named *_device.c are device code: built as a shared object for the CPU device; the PTX beside them is kept
# in the tree.
device_src := $(sort $(wildcard examples/*_device.c))
example_src := $(filter-out $(device_src),$(sort $(wildcard examples/*.c)))
ifneq ($(have_cuda_h),yes)
example_src := $(filter-out examples/interop_cuda.c,$(example_src))
endif
example_cxx := $(sort $(wildcard examples/*.cc))
example_bin := $(example_src:examples/%.c=$(BUILD)/examples/%) $(example_cxx:examples/%.cc=$(BUILD)/examples/%)

device_bin := $(device_src:examples/%.c=$(BUILD)/examples/%.so) $(device_src:examples/%.c=$(BUILD)/examples/%.ptx)

examples: $(example_bin)
$(example_bin): $(device_bin)
$(BUILD)/examples/%: examples/%.c $(BUILD)/libleat.so $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(PUBLIC_CFLAGS) $(example_cflags) -MMD -MP -MF $@.d $< $(LDFLAGS) -L$(BUILD) \
	    -Wl,-rpath,'$$ORIGIN/..' -lleat $(example_libs) -o $@
$(BUILD)/examples/%: examples/%.cc $(BUILD)/libleat.so $(BUILD)/flags
	$(say) CXX $<
	@mkdir -p $(@D)
	$(Q)$(CXX) -std=c++17 -Wall -Wextra -Wshadow -Wconversion -Iinclude $(CPPFLAGS) $(CFLAGS) -pthread -MMD -MP -MF $@.d \
	    $< $(LDFLAGS) -L$(BUILD) -Wl,-rpath,'$$ORIGIN/..' -lleat -o $@
$(BUILD)/examples/%.so: examples/%.c include/leat/device_code.h $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(PUBLIC_CFLAGS) -fPIC -shared $< $(LDFLAGS) -o $@
$(BUILD)/examples/%.ptx: examples/%.ptx
	@mkdir -p $(@D)
	$(Q)cp $< $@
$(BUILD)/examples/interop_cuda: example_cflags = $(addprefix -isystem ,$(cuda_include:-I%=%))
$(BUILD)/examples/interop_cuda: example_libs = $(cuda_libs)
$(BUILD)/examples/models: $(BUILD)/libleat-files.so
$(BUILD)/examples/models: example_libs = -lleat-files
$(BUILD)/examples/send_weights: $(BUILD)/libleat-net.so
$(BUILD)/examples/send_weights: example_libs = -lleat-net

# What a trace costs on the CPU device (bench/trace_cost.c).
$(BUILD)/bench/trace_cost: bench/trace_cost.c $(BUILD)/libleat.a $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(PUBLIC_CFLAGS) -MMD -MP -MF $@.d $< $(LDFLAGS) $(BUILD)/libleat.a $(LIB_LIBS) -o $@
-include $(BUILD)/bench/trace_cost.d
trace-cost: $(BUILD)/bench/trace_cost
	$(Q)$(BUILD)/bench/trace_cost

# Memory that two processes share: copies, hand-overs, and a file that one of them reads for both.
$(BUILD)/bench/share_rates: bench/share_rates.c $(BUILD)/libleat.a $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(PUBLIC_CFLAGS) -Iinclude/leat/compat -MMD -MP -MF $@.d $< $(LDFLAGS) $(BUILD)/libleat.a $(LIB_LIBS) -o $@
-include $(BUILD)/bench/share_rates.d
share-rates: $(BUILD)/bench/share_rates
	$(Q)$(BUILD)/bench/share_rates $(SHARE_OPTIONS)

# Reads of a file to one device or two, beside their bounds.
$(BUILD)/bench/file_bounds: bench/file_bounds.c $(BUILD)/libleat.a $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(PUBLIC_CFLAGS) -MMD -MP -MF $@.d $< $(LDFLAGS) $(BUILD)/libleat.a $(LIB_LIBS) -o $@
-include $(BUILD)/bench/file_bounds.d
file-bounds: $(BUILD)/bench/file_bounds
	$(Q)$(BUILD)/bench/file_bounds

# Programs that "leat trace" gives advice about, and what its forecasts are worth. They export their functions, so that
# traces name these.
trace_programs := $(BUILD)/bench/trace_programs
$(trace_programs): bench/trace_programs.c $(BUILD)/libleat.a $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(PUBLIC_CFLAGS) -MMD -MP -MF $@.d $< $(LDFLAGS) -rdynamic $(BUILD)/libleat.a $(LIB_LIBS) -o $@
-include $(BUILD)/bench/trace_programs.d
trace-savings: $(trace_programs) $(BUILD)/leat
	$(Q)bench/trace_savings.py $(trace_programs) $(BUILD)/leat
.PHONY: file-bounds share-rates trace-cost trace-savings

# ---- tests and checks ---------------------------------------------------------------------------------------

# tests.mk lists the test programs, and has the rules by which check, check-gpu and gate run them.
-include tests/tests.mk

san_flags := -O1 -g -fno-omit-frame-pointer -fno-sanitize-recover=all
# Sanitizers make programs several times slower, above all the fault walk.
asan:
	+$(Q)TEST_TIMEOUT=1800 tests/suites.sh '$(MAKE)' CHECKED=1 BUILD='$(BUILD)/asan' \
	    CFLAGS='$(san_flags) -fsanitize=address,undefined' -- $(asan_suites)
# Huge pages save ThreadSanitizer a part of the time: most of it goes to faults of its shadow memory.
tsan:
	+$(Q)TSAN_OPTIONS=no_huge_pages_for_shadow=0 tests/suites.sh '$(MAKE)' CHECKED=1 BUILD='$(BUILD)/tsan' CFLAGS='$(san_flags) -fsanitize=thread' -- $(tsan_suites)

headers:
	$(Q)tools/check-headers.sh '$(CC)' '$(CXX)'
words:
	$(Q)tools/check-words.py
symbols: $(BUILD)/libleat.so $(BUILD)/libleat-files.so $(BUILD)/libleat-net.so
	$(Q)tools/check-symbols.sh '$(CC)' $(BUILD)/libleat.so $(lib_headers:include/%=%)
	$(Q)tools/check-symbols.sh '$(CC)' $(BUILD)/libleat-files.so $(files_header:include/%=%)
	$(Q)tools/check-symbols.sh '$(CC)' $(BUILD)/libleat-net.so $(net_header:include/%=%)
# The public ABI, compared with the descriptions in tools/abi/ by libabigail.
abi abi-update: $(BUILD)/libleat.so $(BUILD)/libleat-files.so $(BUILD)/libleat-net.so
	$(Q)status=0; mode=$(if $(filter abi,$@),check,update); \
	tools/abi.sh $$mode tools/abi/libleat.abi '$(CC)' $(BUILD)/libleat.so $(lib_headers:include/%=%) || status=1; \
	tools/abi.sh $$mode tools/abi/libleat-files.abi '$(CC)' $(BUILD)/libleat-files.so $(files_header:include/%=%) || status=1; \
	tools/abi.sh $$mode tools/abi/libleat-net.abi '$(CC)' $(BUILD)/libleat-net.so $(net_header:include/%=%) || status=1; \
	exit $$status
abi-gate: $(BUILD)/libleat.so
	$(Q)tests/abi_gate.sh '$(CC)' $(BUILD)/libleat.so tools/abi/libleat.abi $(lib_headers:include/%=%)
layers: $(lib_obj)
	$(Q)tools/check-layers.sh
	$(Q)tools/check-layer-symbols.sh $(lib_obj)

# Checks by clang's thread safety analysis which lock is held where (src/base/lock.h), also in checked builds.
thread_safety_src := $(lib_src) $(sort $(wildcard compat/engine/*.c))
thread-safety:
	$(Q)for checked in 0 1; do \
	    printf '%s\n' $(thread_safety_src) | xargs -n 8 -P $$(nproc) $(CLANG) -fsyntax-only -std=c11 -D_GNU_SOURCE \
	        -pthread -Iinclude -Isrc -Icompat $$([ $$checked = 0 ] || echo -DLEATI_CHECKED) \
	        -Wthread-safety -Werror || exit 1; done
	$(say) LOCKS '$(words $(thread_safety_src)) files have no findings'

# Runs clang-tidy on one file at a time with the checks of .clang-tidy. The kernels of layouts and conversions
# are left out: any change of them would change the built files, and sanitizers test them.
tidy_src := $(filter-out src/kernels/layout_kernels.c src/kernels/convert_kernels.c,$(lib_src) $(cli_src) $(files_src) $(net_src) $(sort $(wildcard compat/*/*.c dropin/*.c)))
tidy: $(tidy_src:%.c=$(BUILD)/tidy/%.done)
	$(say) TIDY '$(words $(tidy_src)) files have no findings'
$(BUILD)/tidy/%.done: %.c .clang-tidy $(sort $(wildcard src/*/*.h src/driver/*/*.h cli/*.h files/*.h net/*.h common/*.h dropin/*.h compat/*/*.h)) $(headers)
	$(say) TIDY $<
	@mkdir -p $(@D)
	$(Q)$(CLANG_TIDY) --quiet $< -- -std=c11 -D_GNU_SOURCE -pthread -Iinclude -Isrc -Icompat -Icommon -Ifiles -Inet -DLEATI_CHECKED $(cli_cflags) $(net_cflags) \
	    2>$@.log || { cat $@.log >&2; exit 1; }
	$(Q)touch $@

kernels-check:
	$(Q)CLANG='$(CLANG)' tools/build-kernels.sh --check
# What the first call of a process waits for leat's kernels.
$(BUILD)/bench/first_use: bench/first_use.c $(BUILD)/libleat.so $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(PUBLIC_CFLAGS) -MMD -MP -MF $@.d $< $(LDFLAGS) -L$(BUILD) -Wl,-rpath,'$$ORIGIN/..' -lleat -o $@
first-use: $(BUILD)/bench/first_use
	$(Q)$(BUILD)/bench/first_use
readme-figures: $(BUILD)/leat
	$(Q)tools/readme-figures.sh $(BUILD)/leat

# ---- install ------------------------------------------------------------------------------------------------

pkgconfigdir ?= $(libdir)/pkgconfig
cmakedir ?= $(libdir)/cmake/leat
under_prefix = $(patsubst $(prefix)/%,$${prefix}/%,$(1))
from_cmakedir = $(shell realpath -m --relative-to='$(cmakedir)' '$(1)')
fill_in = sed -e 's|@VERSION@|$(VERSION)|g' -e 's|@SO_MAJOR@|$(so_major)|g' -e 's|@COMPAT_NAMES@|$(compat_names)|g' -e 's|@SO_REAL@|$(so_real)|g' -e 's|@SO_NAME@|$(so_name)|g' \
    -e 's|@PREFIX@|$(prefix)|g' -e 's|@LIBDIR@|$(call under_prefix,$(libdir))|g' \
    -e 's|@INCLUDEDIR@|$(call under_prefix,$(includedir))|g' -e 's|@PRIVATE_LIBS@|$(LIB_LIBS)|g' \
    -e 's|@LIBDIR_FROM_CMAKE@|$(call from_cmakedir,$(libdir))|g' \
    -e 's|@INCLUDEDIR_FROM_CMAKE@|$(call from_cmakedir,$(includedir))|g'

completiondir ?= $(prefix)/share/bash-completion/completions
suppdir ?= $(prefix)/share/leat

# Manual pages of the public headers: one for each function and one for each header.
man3_headers := $(sort $(wildcard include/leat/*.h))
$(BUILD)/man3/made: tools/man3.awk $(man3_headers) VERSION
	$(say) MAN $(@D)
	$(Q)rm -rf $(@D) && mkdir -p $(@D)
	$(Q)set -e; for header in $(man3_headers); do \
	    $(AWK) -v header="$${header#include/}" -v out=$(@D) -v version='$(VERSION)' -f tools/man3.awk "$$header"; done
	$(Q)touch $@
man: $(BUILD)/man3/made

install: install-lib install-net $(BUILD)/leat
	$(say) INST '$(DESTDIR)$(bindir)/leat'
	$(Q)$(INSTALL) -d '$(DESTDIR)$(bindir)' '$(DESTDIR)$(mandir)/man1' '$(DESTDIR)$(completiondir)'
	$(Q)$(INSTALL) -m 644 packaging/leat.bash '$(DESTDIR)$(completiondir)/leat'
	$(Q)$(INSTALL) -m 755 $(BUILD)/leat '$(DESTDIR)$(bindir)/leat'
	$(Q)$(INSTALL) -m 644 man/leat.1 '$(DESTDIR)$(mandir)/man1/leat.1'

# The last line runs ldconfig so that programs find the library at once. It needs root, and is not done for a
# package (DESTDIR).
install-lib: lib install-compat install-files install-dropin $(BUILD)/man3/made
	$(say) INST '$(DESTDIR)$(libdir)/$(so_real)'
	$(Q)$(INSTALL) -d '$(DESTDIR)$(libdir)' '$(DESTDIR)$(pkgconfigdir)' '$(DESTDIR)$(cmakedir)' \
	    '$(DESTDIR)$(includedir)/leat/interop' '$(DESTDIR)$(mandir)/man3' '$(DESTDIR)$(suppdir)'
	$(Q)$(INSTALL) -m 644 packaging/tsan.supp '$(DESTDIR)$(suppdir)/tsan.supp'
	$(Q)$(INSTALL) -m 644 $(BUILD)/man3/*.3 '$(DESTDIR)$(mandir)/man3'
	$(Q)$(INSTALL) -m 644 $(BUILD)/$(so_real) '$(DESTDIR)$(libdir)/$(so_real)'
	$(Q)ln -sf $(so_real) '$(DESTDIR)$(libdir)/$(so_name)'
	$(Q)ln -sf $(so_name) '$(DESTDIR)$(libdir)/libleat.so'
	$(Q)$(INSTALL) -m 644 $(BUILD)/libleat.a '$(DESTDIR)$(libdir)/libleat.a'
	$(Q)set -e; for header in $(headers:include/%=%); do \
	    $(INSTALL) -D -m 644 "include/$$header" '$(DESTDIR)$(includedir)'/"$$header"; done
	$(Q)$(fill_in) packaging/leat.pc.in >'$(DESTDIR)$(pkgconfigdir)/leat.pc'
	$(Q)$(fill_in) packaging/leat-config.cmake.in >'$(DESTDIR)$(cmakedir)/leat-config.cmake'
	$(Q)$(fill_in) packaging/leat-config-version.cmake.in >'$(DESTDIR)$(cmakedir)/leat-config-version.cmake'
	$(Q)if [ -z '$(DESTDIR)' ] && [ "$$(id -u)" = 0 ]; then PATH="$$PATH:/sbin:/usr/sbin" ldconfig || :; fi

uninstall: $(BUILD)/man3/made
	$(say) RM '$(DESTDIR)$(prefix)'
	$(Q)for page in $(BUILD)/man3/*.3; do rm -f '$(DESTDIR)$(mandir)/man3'/"$${page##*/}"; done
	$(Q)rm -f '$(DESTDIR)$(bindir)/leat' '$(DESTDIR)$(completiondir)/leat' '$(DESTDIR)$(mandir)/man1/leat.1' '$(DESTDIR)$(pkgconfigdir)/leat.pc' \
	    '$(DESTDIR)$(libdir)/$(so_real)' '$(DESTDIR)$(libdir)/$(so_name)' '$(DESTDIR)$(libdir)/libleat.so' \
	    '$(DESTDIR)$(libdir)/libleat.a' $(foreach name,$(compat_libs),'$(DESTDIR)$(libdir)/$(name).so.$(VERSION)' \
	    '$(DESTDIR)$(libdir)/$(name).so.$(so_major)' '$(DESTDIR)$(libdir)/$(name).so' \
	    '$(DESTDIR)$(libdir)/$(name).a' '$(DESTDIR)$(pkgconfigdir)/$(name:lib%=%).pc')
	$(Q)rm -f '$(DESTDIR)$(libdir)/$(files_real)' '$(DESTDIR)$(libdir)/$(files_name)' '$(DESTDIR)$(libdir)/libleat-files.so' \
	    '$(DESTDIR)$(libdir)/libleat-files.a' '$(DESTDIR)$(pkgconfigdir)/leat-files.pc' \
	    '$(DESTDIR)$(libdir)/$(net_real)' '$(DESTDIR)$(libdir)/$(net_name)' '$(DESTDIR)$(libdir)/libleat-net.so' \
	    '$(DESTDIR)$(libdir)/libleat-net.a' '$(DESTDIR)$(pkgconfigdir)/leat-net.pc' \
	    '$(DESTDIR)$(libdir)/libleat-run.so' '$(DESTDIR)$(libdir)/libleat-run-engine.so'
	$(Q)rm -rf '$(DESTDIR)$(cmakedir)' '$(DESTDIR)$(includedir)/leat' '$(DESTDIR)$(suppdir)' '$(DESTDIR)$(libdir)/leat/faces'
	$(Q)rmdir '$(DESTDIR)$(libdir)/leat' 2>/dev/null || :

define help_text
make                 $(BUILD)/leat, $(BUILD)/libleat.so, $(BUILD)/libleat.a
make lib             the two libraries only; needs nothing but a C compiler
make dropin          $(BUILD)/libleat-run.so and its engine: what leat run preloads
make files           $(BUILD)/libleat-files.so and .a: models by name (leat/model.h)
make net             $(BUILD)/libleat-net.so and .a: links between processes (leat/link.h); needs libcrypto
make wheel           the wheel of the Python package pyleat, into $(BUILD)/wheel/ (docs/python.md)
make examples        the programs of examples/, into $(BUILD)/examples/
make check           the tests on the CPU device; every suite runs, and the last lines name all that failed
make check-quick     most of them once, in less than a minute on two cores; says what it leaves out
make check-gpu       the same on a GPU; a test that would be skipped fails
make check-memcheck  the tests of the API on a GPU, under compute-sanitizer
make gate            proves the tests: switches faults on, and each must be noticed
make asan            the tests with address and undefined behaviour sanitizers
make tsan            the tests of order and threads with the thread sanitizer
make fuzz-layout     random bytes as layouts, by $(CLANG)'s libFuzzer, for FUZZ_SECONDS (60)
make fuzz-model      random bytes as files of tensors, by $(CLANG)'s libFuzzer, for FUZZ_SECONDS (60)
make fuzz-handshake  random bytes as handshakes and addresses of links, by $(CLANG)'s libFuzzer, for FUZZ_SECONDS (60)
make headers         each public header compiles alone, in C and in C++
make symbols         libleat.so, libleat-files.so and libleat-net.so export what the headers declare, under the
                     right symbol version, and nothing else
make abi             the public ABI is as described in tools/abi/; needs abidw and abidiff (abigail-tools)
make abi-update      writes these descriptions anew
make abi-gate        proves make abi: each change of an ABI must be noticed
make examples-nvcc   examples/compat/cuda_*.c with NVIDIA's compiler and library, into $(BUILD)/examples/nvcc/
make compat-cost      what a call by a name of the CUDA runtime costs on top of leat's own, on the CPU device
make barrier-cost    what threads of a kernel pay to wait for one another, on the CPU device
make trace-cost      what recording a trace costs, on the CPU device
make trace-savings   what the advice of "leat trace" promises and what it saves
make run-rates       copies of a CUDA program alone and under leat run, on a GPU; MIB=16: up to 16 MiB
make share-rates     copies, hand-overs and a broadcast of two processes that share memory, on the best devices;
                     SHARE_OPTIONS='cuda:0 cuda:1 --quick': these devices, a short run
make file-bounds     reads of a file to cuda:0 and cuda:1 beside what the link, the host's threads, and plain threads with
                     pinned chunks of their own reach
make first-use       how long the first call of a process waits for leat's kernels, on cuda:0
make compat-symbols     libleat-cudart.so and the like export what docs/compatibility.md lists and nothing else
make compat-abi      the compatibility headers agree with the vendor's, where those are installed
make thread-safety   $(CLANG)'s analysis of locks: each function is called with the locks that it requires
make words           no identifier or file has a word that was renamed, no two structs have one tag
make layers          no file includes what its layer must not know, and no object refers to a layer above
make tidy            clang's analyzer has no findings; the first run takes minutes, needs $(CLANG_TIDY)
make kernels-check   the device code in the tree is what $(CLANG) makes of its sources, and ptxas of its PTX where that
                     is installed (tools/build-kernels.sh)
make man             the manual pages of the public headers, into $(BUILD)/man3/
make install         command, library, headers, pkg-config and CMake files, man pages, completion for bash; honours
                     prefix and DESTDIR
make install-lib     the same without the command, its man page and completion, and without libleat-net, so that
                     nothing but a C compiler is needed
make uninstall       takes away what install put there
make clean           removes $(BUILD)/

Variables: V=1 shows the commands; CHECKED=1 compiles assertions in; BUILD=folder; CC, CXX, CFLAGS, CPPFLAGS, LDFLAGS; prefix (/usr/local), libdir,
includedir, DESTDIR; CUDA_HOME (/usr/local/cuda) for the one example that uses cuda.h; CLANG (clang-19), CLANG_TIDY
(clang-tidy-19).
endef

# ---- the rest -----------------------------------------------------------------------------------------------

clean:
	rm -rf $(BUILD)

help:
	$(info $(help_text))@:

FORCE:
.PHONY: all lib install-compat examples asan tsan headers words symbols abi abi-update abi-gate layers thread-safety tidy kernels-check first-use \
        readme-figures man install install-lib uninstall clean help FORCE
.DELETE_ON_ERROR:
-include $(lib_obj:.o=.d) $(cli_obj:.o=.d) $(example_bin:=.d)
