# compat.mk - the libraries of known names: the engine (libleat-compat) and one library for each folder beside it.
# Read by the Makefile.

compat_names := $(filter cudart cuda hip,$(notdir $(patsubst %/,%,$(wildcard compat/*/))))
compat_libs := $(addprefix libleat-,compat $(compat_names))
compat_folder = $(if $(filter compat,$(1)),engine,$(1))
compat_obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(sort $(wildcard compat/$(call compat_folder,$(1))/*.c)))

# Like a program of somebody else's, they see leat's public headers only. Layers export by a list (their .map file).
COMPAT_CFLAGS = -std=c11 -D_GNU_SOURCE -fPIC -pthread -Iinclude -Icompat $(WARN) $(CPPFLAGS) $(CFLAGS)
$(BUILD)/obj/compat/engine/%.o: COMPAT_CFLAGS += -fvisibility=hidden
$(BUILD)/obj/compat/%.o: compat/%.c $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(COMPAT_CFLAGS) -MMD -MP -c $< -o $@

# X.so.VERSION has the soname X.so.MAJOR; the two shorter names are links to it.
compat_real := $(compat_libs:%=$(BUILD)/%.so.$(VERSION))
compat_so := $(compat_libs:%=$(BUILD)/%.so)
compat_a := $(compat_names:%=$(BUILD)/libleat-%.a)
compat: $(compat_so) $(compat_a)

# They stay loaded once they are (nodelete), since threads may end in them, and find each other beside themselves.
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

.PHONY: compat
-include $(patsubst %.o,%.d,$(foreach name,compat $(compat_names),$(call compat_obj,$(name))))

# ---- tests: programs of the known names, as a user would build them, against the shared library -----------------

# tests/compat/test_LAYER_*.c is linked with libleat-LAYER.
compat_layer = $(word 2,$(subst _, ,$(notdir $(1))))
compat_test_src := $(sort $(foreach name,$(compat_names),$(wildcard tests/compat/test_$(name)_*.c)))
compat_tests := $(compat_test_src:tests/compat/%.c=$(BUILD)/tests/compat/%)

$(compat_tests): $(BUILD)/tests/compat/%: tests/compat/%.c $(compat_so) $(BUILD)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(PUBLIC_CFLAGS) -Iinclude/leat/compat $(compat_test_cflags) -MMD -MP -MF $@.d $< $(LDFLAGS) \
	    -L$(BUILD) -Wl,-rpath,'$$ORIGIN/../..' -lleat-$(call compat_layer,$@) -lleat-compat -lleat -lcmocka -o $@
-include $(compat_tests:=.d)
