# python.mk - the native parts of the Python package, and its wheel. Read by the Makefile.

PYTHON ?= python3

python-libraries: $(BUILD)/libleat.so $(BUILD)/libleat-files.so $(BUILD)/python/libpyleat.so \
                  $(BUILD)/python/libpyleat-torch.so

$(BUILD)/python/libpyleat.so: python/native/pyleat.c $(BUILD)/flags
	$(say) LINK $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(PUBLIC_CFLAGS) -fPIC -fvisibility=hidden $(LDFLAGS) -shared -Wl,-z,nodelete \
	    -Wl,-soname,libpyleat.so $< -o $@

# PyTorch brings libstdc++ along. The library finds libleat in its own folder, where the wheel has both.
$(BUILD)/python/libpyleat-torch.so: python/native/torch_plug.cc $(BUILD)/libleat.so $(headers) $(BUILD)/flags
	$(say) LINK $@
	@mkdir -p $(@D)
	$(Q)$(CXX) -std=c++11 -Iinclude -Wall -Wextra -Wshadow $(CPPFLAGS) $(CFLAGS) -pthread -fPIC -fvisibility=hidden \
	    $(LDFLAGS) -shared -Wl,-z,nodelete -Wl,-z,defs -Wl,-soname,libpyleat-torch.so -Wl,-rpath,'$$ORIGIN' \
	    $< -L$(BUILD) -lleat -o $@

# The wheel, into $(BUILD)/wheel/. pip fetches setuptools if it is not there.
wheel: python-libraries
	$(Q)PYLEAT_BUILD='$(abspath $(BUILD))' \
	    PYLEAT_MAKE='CC="$(CC)" CXX="$(CXX)" CFLAGS="$(CFLAGS)" CPPFLAGS="$(CPPFLAGS)" LDFLAGS="$(LDFLAGS)"' \
	    $(PYTHON) -m pip wheel --quiet --no-deps $(WHEEL_FLAGS) --wheel-dir '$(BUILD)/wheel' ./python
	$(say) WHEEL "$$(ls -t '$(BUILD)/wheel/'*.whl | head -n 1)"

# leat's names of the CUDA driver over a copy of leat of its own, so that the tests of pyleat can use the driver cuda.
# (libleat-cuda.so shares libleat.so.0 with pyleat, and a library cannot be its own driver.)
$(BUILD)/python/libcuda-alone.so: compat $(BUILD)/libleat.a
	$(say) LINK $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-Bsymbolic -Wl,-z,nodelete -Wl,--whole-archive \
	    $(BUILD)/libleat-cuda.a -Wl,--no-whole-archive $(BUILD)/libleat.a $(LIB_LIBS) -o $@

.PHONY: python-libraries wheel
