# `make demo` and `make test` need nothing but make: scripts/setup installs or names the rest and
# prints the PATH to use.
tools = PATH=$$(scripts/setup $(1)) && export PATH

MINUTES ?= 30

.PHONY: help build demo test lint bench soak clean

help:
	@echo 'make demo    build a C project under surmise: look, throw away, run again, commit'
	@echo 'make test    every test'
	@echo 'make lint    format, clippy, tidy'
	@echo 'make build   target/release/surmise'
	@echo 'make bench   compare with peers; results in target/bench/'
	@echo 'make soak    property tests and the demo for MINUTES=30'
	@echo 'make clean   remove target/'

build:
	@$(call tools,build) && cargo build --release --locked

demo:
	@$(call tools,demo) && cargo build --release --locked && target/release/surmise demo

test:
	@$(call tools,test) && cargo test --workspace --locked

lint:
	@$(call tools,lint) && cargo fmt --all --check \
		&& cargo clippy --workspace --all-targets --locked -- -D warnings \
		&& cargo xtask tidy

bench:
	@$(call tools,bench) && cargo build --release --locked \
		&& cargo run --release --locked --package surmise-bench --

soak:
	@$(call tools,test) && cargo build --release --locked && scripts/soak $(MINUTES)

clean:
	rm -rf target
