# What a person types. `make help` lists it.

.DEFAULT_GOAL := help
.PHONY: help run test test-postgres test-long storm bench fuzz check

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 20

run: ## install a Redis server if none is there, build, and start the demo shop on http://127.0.0.1:8080
	@scripts/install-run.sh
	@cargo run --locked --profile quick -- serve --demo

test: ## install what the tests need, build, and run all of them
	@scripts/install-test.sh
	@scripts/test.sh

test-postgres: ## all of them again, on PostgreSQL and a Redis that the shop does not manage
	@scripts/install-test.sh
	@SECKILL_TEST_DATABASE=postgres scripts/test.sh

test-long: ## the same, with long races and the model in full
	@scripts/install-test.sh
	@SECKILL_TEST_LONG=1 scripts/test.sh

storm: ## five minutes of faults at real servers under load, from a printed seed; SECKILL_STORM_SEED repeats one
	@scripts/install-test.sh
	@scripts/storm.sh

bench: ## the shop beside the classic designs, about 15 minutes; writes docs/BENCHMARKS.md; SECKILL_BENCH_SCALE=small only tries it
	@scripts/install-test.sh
	@scripts/bench.sh

fuzz: ## bad input: 200,000 generated requests and more, from a printed seed; SECKILL_FUZZ_CASES, SECKILL_FUZZ_SEED
	@scripts/install-test.sh
	@scripts/fuzz.sh

check: ## formatting, lints, documentation, licences and sources of what we depend on
	cargo fmt --all --check
	cargo clippy --locked --all-targets --all-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --document-private-items
	@scripts/install-deny.sh
	cargo fetch --locked --quiet
	PATH="$(CURDIR)/target/tools/bin:$$PATH" cargo deny --offline check bans licenses sources
