# files.mk - libleat-files: models by name (leat/model.h), on top of leat's public headers. Read by the Makefile.

files_src := $(sort $(wildcard files/*.c)) common/report.c
files_obj := $(files_src:%.c=$(BUILD)/obj/%.o)
files_real := libleat-files.so.$(VERSION)
files_name := libleat-files.so.$(so_major)

# Like a user's program, it sees only leat's public headers.
FILES_CFLAGS = -std=c11 -D_GNU_SOURCE -fPIC -fvisibility=hidden -pthread -Iinclude -Icommon -Ifiles $(WARN) $(CPPFLAGS) $(CFLAGS)
$(files_obj): $(BUILD)/obj/%.o: %.c $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(FILES_CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/libleat-files.a: $(files_obj)
	$(say) AR $@
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/libleat-files.map: files/files.map tools/exports.sh $(headers)
	@mkdir -p $(@D)
	$(Q)$(call make_map,$<,$(files_header))

$(BUILD)/$(files_real): $(files_obj) $(BUILD)/libleat-files.map $(BUILD)/libleat.so
	$(say) LINK $@
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-rpath,'$$ORIGIN' -Wl,-soname,$(files_name) -Wl,--version-script=$(BUILD)/libleat-files.map \
	    $(if $(findstring -fsanitize,$(CFLAGS)),,-Wl,-z,defs) $(files_obj) -L$(BUILD) -lleat $(LIB_LIBS) -o $@
$(BUILD)/libleat-files.so: $(BUILD)/$(files_real)
	$(Q)ln -sf $(files_real) $(BUILD)/$(files_name)
	$(Q)ln -sf $(files_name) $@

files: $(BUILD)/libleat-files.so $(BUILD)/libleat-files.a
-include $(files_obj:.o=.d)

install-files: files
	$(say) INST '$(DESTDIR)$(libdir)/$(files_real)'
	$(Q)$(INSTALL) -d '$(DESTDIR)$(libdir)' '$(DESTDIR)$(pkgconfigdir)'
	$(Q)$(INSTALL) -m 644 $(BUILD)/$(files_real) '$(DESTDIR)$(libdir)/$(files_real)'
	$(Q)ln -sf $(files_real) '$(DESTDIR)$(libdir)/$(files_name)'
	$(Q)ln -sf $(files_name) '$(DESTDIR)$(libdir)/libleat-files.so'
	$(Q)$(INSTALL) -m 644 $(BUILD)/libleat-files.a '$(DESTDIR)$(libdir)/libleat-files.a'
	$(Q)$(fill_in) packaging/leat-files.pc.in >'$(DESTDIR)$(pkgconfigdir)/leat-files.pc'

.PHONY: files install-files
