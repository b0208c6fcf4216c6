# net.mk - libleat-net: links between processes (leat/link.h), on top of leat's public headers. Read by the Makefile.
#
# It uses libcrypto of OpenSSL 3 for the proofs of the key and for encrypted links (net/crypto.h). Why OpenSSL: of the
# libraries that every distribution has, it is the one with the fastest ChaCha20-Poly1305.

# common/report.c is compiled by the rule of files/files.mk.
net_src := $(sort $(wildcard net/*.c)) common/report.c
net_obj := $(net_src:%.c=$(BUILD)/obj/%.o)
net_real := libleat-net.so.$(VERSION)
net_name := libleat-net.so.$(so_major)
net_needs := 'libcrypto >= 3.0'
net_libs := $(shell $(PKG_CONFIG) --libs $(net_needs) 2>/dev/null)
net_cflags := $(shell $(PKG_CONFIG) --cflags $(net_needs) 2>/dev/null)

# Like a user's program, it sees only leat's public headers.
NET_CFLAGS = -std=c11 -D_GNU_SOURCE -fPIC -fvisibility=hidden -pthread -Iinclude -Icommon -Inet $(WARN) $(net_cflags) $(CPPFLAGS) $(CFLAGS)

ifeq ($(net_libs),)
$(filter-out %/common/report.o,$(net_obj)) $(BUILD)/libleat-net.a $(BUILD)/libleat-net.so: FORCE
	@echo "leat: libleat-net needs libcrypto of OpenSSL 3, the Debian packages pkg-config and libssl-dev; 'make lib' builds" \
	      "libleat without them." >&2; exit 1
else
$(BUILD)/obj/net/%.o: net/%.c $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(NET_CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/libleat-net.a: $(net_obj)
	$(say) AR $@
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/libleat-net.map: net/net.map tools/exports.sh $(headers)
	@mkdir -p $(@D)
	$(Q)$(call make_map,$<,$(net_header))

# nodelete: the library stays loaded after dlclose(), because its thread runs while a link or a listener is open.
$(BUILD)/$(net_real): $(net_obj) $(BUILD)/libleat-net.map $(BUILD)/libleat.so
	$(say) LINK $@
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-z,nodelete -Wl,-rpath,'$$ORIGIN' -Wl,-soname,$(net_name) -Wl,--version-script=$(BUILD)/libleat-net.map \
	    $(if $(findstring -fsanitize,$(CFLAGS)),,-Wl,-z,defs) $(net_obj) -L$(BUILD) -lleat $(net_libs) $(LIB_LIBS) -o $@
$(BUILD)/libleat-net.so: $(BUILD)/$(net_real)
	$(Q)ln -sf $(net_real) $(BUILD)/$(net_name)
	$(Q)ln -sf $(net_name) $@
endif

net: $(BUILD)/libleat-net.so $(BUILD)/libleat-net.a
-include $(net_obj:.o=.d)

install-net: net
	$(say) INST '$(DESTDIR)$(libdir)/$(net_real)'
	$(Q)$(INSTALL) -d '$(DESTDIR)$(libdir)' '$(DESTDIR)$(pkgconfigdir)'
	$(Q)$(INSTALL) -m 644 $(BUILD)/$(net_real) '$(DESTDIR)$(libdir)/$(net_real)'
	$(Q)ln -sf $(net_real) '$(DESTDIR)$(libdir)/$(net_name)'
	$(Q)ln -sf $(net_name) '$(DESTDIR)$(libdir)/libleat-net.so'
	$(Q)$(INSTALL) -m 644 $(BUILD)/libleat-net.a '$(DESTDIR)$(libdir)/libleat-net.a'
	$(Q)$(fill_in) packaging/leat-net.pc.in >'$(DESTDIR)$(pkgconfigdir)/leat-net.pc'

.PHONY: net install-net
