# The short way in. Everything behind it is Meson (build/), npm and node; `make help` lists the targets.
BUILD  ?= build
ASAN   ?= build-asan
# Where `make install` puts things; kept from one call to the next, and /usr/local until it is given.
PREFIX ?=

.PHONY: help deps build page demo test busy-tests applications bench rollouts rollout-demo verdicts lint fuzz soak suites docs picture prometheus install clean
.NOTPARALLEL:

help: ## show the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1	/p' Makefile

deps: ## install what building and testing needs (Debian packages and npm packages)
	@tools/install-deps

build: ## build/sonde, runnable in place
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD) -Dbuildtype=release --prefix=$(or $(PREFIX),/usr/local) >/dev/null
	@test -z "$(PREFIX)" || meson configure $(BUILD) | grep -q '^ *prefix  *$(PREFIX) ' || meson configure $(BUILD) --prefix=$(PREFIX)
	@ninja -C $(BUILD)

page: ## build web/page.html from its sources (npm); it is checked in, so that building the program needs no npm
	@tools/install-deps
	@node web/build.mjs

demo: deps build ## trace a small shop with planted faults and print why it is slow
	@tools/demo

test: deps build ## dependency rules, formatting, unit tests (also with sanitizers), system tests
	@test -f $(ASAN)/build.ninja || meson setup $(ASAN) -Dbuildtype=debug -Db_sanitize=address,undefined >/dev/null
	@ninja -C $(ASAN)
	@tools/run-tests

applications: deps build ## how right the findings are on applications that nobody here wrote (10 minutes; goes on where it stopped)
	@tools/install-deps bench
	@node tests/applications/run.mjs

bench: build ## measure, against the peers named in each benchmark (minutes)
	@tools/install-deps bench
	@meson test -C $(BUILD) --benchmark --verbose

rollout-demo: deps build ## a rollout that is slow on one of three hardware generations, stopped by sonde serve
	@tools/rollout-demo

rollouts: deps build ## how right rollouts are judged: made ones with known truth, many times each (SEEDS=N)
	@node bench/rollouts.mjs $(BUILD)/sonde $(or $(SEEDS),5)

verdicts: build ## how right the findings are: generated programs with known faults (15 minutes; SEED=N)
	@tools/install-deps bench
	@node bench/verdicts/run.mjs --seed $(or $(SEED),1) --json verdicts.json

lint: ## formatting and dependency rules
	@tools/check-deps
	@tools/check-circles
	@git ls-files '*.c' '*.h' | xargs clang-format --dry-run -Werror

fuzz: ## run every fuzz target for a minute
	@tools/run-fuzz

prometheus: build ## what profiles tell Prometheus, checked and scraped by Debian's (a minute; unpacks its package into a cache)
	@tools/try-prometheus $(BUILD)/sonde

busy-tests: build ## the timing-sensitive tests ten times beside six busy programs (hours; goes on where it was interrupted)
	@ninja -C $(BUILD)
	@tools/busy-tests

soak: build ## twenty runs of the healthy shop, none of which may warn
	@tools/soak

suites: build ## Redis' and Node's own test suites, with the probe loaded as without (hours)
	@tools/install-deps bench
	@tools/suites install
	@tools/suites run redis
	@tools/suites run node
	@tools/suites compare

docs: build ## write the pages that are printed from tables (doc/events.md, doc/findings.md, doc/documents.md)
	@$(BUILD)/tools/print-events > doc/events.md
	@$(BUILD)/sonde report --kinds > doc/findings.md
	@$(BUILD)/sonde help --documents > doc/documents.md

picture: deps build ## draw doc/report.svg, the picture in README.md, from a real run
	@tools/demo-picture

install: build ## install under PREFIX (default /usr/local)
	@meson install -C $(BUILD) $(if $(DESTDIR),--destdir $(DESTDIR))

clean: ## remove what was built
	@rm -rf $(BUILD) $(ASAN) build-fuzz
