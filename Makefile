# The short way in. Everything behind it is Meson (build/), npm and node; `make help` lists the targets.
BUILD ?= build
ASAN  ?= build-asan

.PHONY: help deps build demo test bench lint fuzz soak install clean

help: ## show the targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' Makefile

deps: ## install what building and testing needs (Debian packages and npm packages)
	@tools/install-deps

build: ## build/sonde, runnable in place
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD) -Dbuildtype=release >/dev/null
	@ninja -C $(BUILD)

test: deps ## unit tests (with sanitizers) and system tests
	@$(MAKE) --no-print-directory build
	@test -f $(ASAN)/build.ninja || meson setup $(ASAN) -Dbuildtype=debug -Db_sanitize=address,undefined >/dev/null
	@ninja -C $(ASAN)
	@tools/run-tests

lint: ## formatting and dependency rules
	@tools/check-deps
	@git ls-files '*.c' '*.h' | xargs clang-format --dry-run -Werror

install: build ## install under PREFIX (default /usr/local)
	@meson install -C $(BUILD) $(if $(DESTDIR),--destdir $(DESTDIR))

clean: ## remove what was built
	@rm -rf $(BUILD) $(ASAN)
