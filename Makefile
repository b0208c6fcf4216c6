# leat: make, make check, make install. See "make help".
VERSION := $(shell cat VERSION)
BUILD ?= build
CC ?= cc
CFLAGS ?= -O3 -g
WARN := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla
ALL_CFLAGS := -std=c11 -D_GNU_SOURCE -DLEAT_VERSION='"$(VERSION)"' -fPIC -fvisibility=hidden -pthread -Iinclude -Isrc \
              $(WARN) $(CFLAGS)

lib_src := $(wildcard src/*/*.c src/driver/*/*.c)
lib_obj := $(lib_src:%.c=$(BUILD)/obj/%.o)
cli_src := $(wildcard cli/*.c)
cli_obj := $(cli_src:%.c=$(BUILD)/obj/%.o)
cli_libs := $(shell pkg-config --libs jansson smartcols)

all: lib $(BUILD)/leat
lib: $(BUILD)/libleat.a $(BUILD)/libleat.so

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/libleat.a: $(lib_obj)
	rm -f $@; ar rcs $@ $^
$(BUILD)/libleat.so: $(lib_obj)
	$(CC) -shared -pthread $(LDFLAGS) $^ -ldl -lm -o $@
$(BUILD)/leat: $(cli_obj) $(BUILD)/libleat.a
	$(CC) -pthread $(LDFLAGS) $^ $(cli_libs) -ldl -lm -o $@

clean:
	rm -rf $(BUILD)
.PHONY: all lib clean
-include $(lib_obj:.o=.d) $(cli_obj:.o=.d)
