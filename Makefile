# `make demo` and `make test` need nothing but make: scripts/setup installs or names the rest and
# prints the PATH to use.
tools = PATH=$$(scripts/setup $(1)) && export PATH

# Linked statically: it starts sooner, and every process of a domain is a copy of it.
release = cargo rustc --release --locked --package surmise --bin surmise -- \
	-C target-feature=+crt-static

MINUTES ?= 30
SEEDS ?= 50
STATES ?= 2000
SECONDS ?= 60
CAP ?= 60
CALLS ?= 100000
COMMIT = $(shell git describe --always --dirty)

.PHONY: help build install deb deb-test demo demo-remote demo-rpc test lint bench bench-net bench-sync bench-remote bench-rpc bench-server \
	bench-rollback bench-speculation torture fuzz soak soak-crash soak-far soak-rpc clean

help:
	@echo 'make demo       build a C project under surmise: look, throw away, run again, commit'
	@echo 'make test       every test'
	@echo 'make lint       format, clippy, tidy'
	@echo 'make build      target/release/surmise'
	@echo 'make install    what was built, below PREFIX=/usr/local (root); DESTDIR=... for packages'
	@echo 'make deb        target/deb/surmise_VERSION_ARCHITECTURE.deb'
	@echo 'make deb-test   install it in a copy-on-write picture of this machine, use it, remove it (root)'
	@echo 'make bench      compare with peers; table, JSON and pictures in target/bench/'
	@echo 'make bench-net  the same for the network boundary, and for memory'
	@echo 'make bench-sync fsyncs put off, beside real ones and eatmydata, on disks that flush in 0, 1 and 8 ms (root)'
	@echo 'make bench-remote  programs on a directory 30 ms away, beside sshfs, stopped after CAP=60 seconds, and the directory itself (root)'
	@echo 'make bench-server  what a server of a far directory takes: time and memory by files of the export and by clients'
	@echo 'make demo-remote  unpack 1000 files and build Lua in a directory 30 ms away, beside sshfs, and compare what the server has (root)'
	@echo 'make demo-rpc   three nodes of etcd 50 ms from each other: ten dependent reads, plainly and running ahead'
	@echo 'make bench-rpc  what running ahead saves calls that depend on each other, and what it costs'
	@echo 'make torture    real programs (scripts, git, builds, servers, test suites) mispredicted and rolled back, SEEDS=50 times each, as each user'
	@echo 'make bench-rollback  what checkpoints and rollbacks take, by their targets and beside CRIU'
	@echo 'make bench-speculation  what right predictions cost that are decided 30 ms later, and how long calls waited for that'
	@echo 'make fuzz       every decoder is given bytes that libFuzzer makes up, SECONDS=60 each'
	@echo 'make soak       real programs, 1e6 random calls, pjdfstest, stress-ng, 8 domains at once, then ten minutes of torture and of fuzzing a decoder, property tests and the demo for MINUTES=30'
	@echo 'make soak-crash  power lost in STATES=2000 states of six programs under surmise sync, where it goes on when it was cut short, and of the server of a far directory'
	@echo 'make soak-far   CALLS=100000 calls on three mounts of one directory, checked against one copy; 1000 connections cut, 200 servers and 200 clients killed'
	@echo 'make soak-rpc   a fault at every frame, 100,000 calls, 10,000 held open, 10,000 chains while others write, the guide'
	@echo 'make clean      remove target/'

build:
	@$(call tools,build) && $(release)

# Not built here: root need not be who builds.
install:
	@DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" scripts/install

deb:
	@$(call tools,build) && $(release) && scripts/deb

deb-test:
	@$(call tools,deb-test) && $(release) && scripts/deb && scripts/deb-test

demo:
	@$(call tools,demo) && $(release) && target/release/surmise demo

# Many tests of real programs wait for disks, and for guesses that are decided late. With one for each processor there would be
# processors that have nothing to do. The second call is of the whole workspace, too: for one package cargo would choose other features of
# what it depends on, and compile fifty crates again.
test:
	@$(call tools,test) && export RUST_TEST_THREADS=$${RUST_TEST_THREADS:-$$((2 * $$(nproc)))} && { status=0; \
		cargo test --workspace --locked --no-fail-fast || status=$$?; \
		cargo test --workspace --locked --features surmise-grpc/explored --lib explored || status=$$?; \
		exit $$status; }

lint:
	@$(call tools,lint) && cargo fmt --all --check && cargo fmt --check --manifest-path fuzz/Cargo.toml \
		&& cargo clippy --workspace --all-targets --locked --features surmise-grpc/explored -- -D warnings \
		&& cargo xtask tidy

# As whoever calls it, and when that is root, as an ordinary user too.
bench:
	@$(call tools,bench) && $(release) \
		&& cargo build --release --locked --package surmise-bench \
		&& { status=0; \
			target/release/surmise-bench --suite run --suite programs --suite files || status=$$?; \
			if [ "$$(id -u)" = 0 ]; then \
				echo "as an ordinary user:"; \
				scripts/as-ordinary-user target/bench/user target/release/surmise-bench \
					--directory target/bench/user --suite run --suite programs --suite files || status=$$?; \
			fi; exit $$status; }

bench-net:
	@$(call tools,bench) && $(release) \
		&& cargo run --release --locked --package surmise-bench -- --suite network

bench-sync:
	@$(call tools,bench) && $(release) \
		&& cargo run --release --locked --package surmise-bench -- --suite sync --pairs 5

bench-remote:
	@$(call tools,bench-remote) && $(release) \
		&& cargo run --release --locked --package surmise-bench -- --suite remote --pairs 5 --cap $(CAP)

bench-server:
	@$(call tools,bench) && cargo bench --locked --package surmise-server --bench scale

# Each sample ends with a comparison of what is at the server.
demo-remote:
	@$(call tools,bench-remote) && $(release) \
		&& cargo run --release --locked --package surmise-bench -- --suite remote --pairs 1 --cap $(CAP) \
			list-30ms tar-30ms make-lua-30ms

# The example is one of the programs that are measured.
bench-rpc:
	@$(call tools,bench) && $(release) && cargo build --release --locked --package surmise-grpc --example etcd \
		&& cargo run --release --locked --package surmise-bench -- --suite rpc --pairs 5

demo-rpc:
	@$(call tools,build) && scripts/fetch-peer etcd target/peers/etcd \
		&& cargo run --release --locked --quiet --package surmise-grpc --example etcd -- \
			--etcd target/peers/etcd/usr/bin/etcd

# Takes many hours. What was tried of this very binary is not tried again, so it can be cut short at any time.
torture:
	@$(call tools,torture) && SURMISE_SEEDS=$(SEEDS) cargo test --release --locked --package surmise \
		--test promises -- --nocapture torture::
	@$(call tools,torture) && $(release) \
		&& { status=0; \
			scripts/torture-programs --seeds $(SEEDS) || status=$$?; \
			if [ "$$(id -u)" = 0 ]; then \
				echo "as an ordinary user:"; \
				scripts/as-ordinary-user target/torture/user scripts/torture-programs \
					--directory target/torture/user --seeds $(SEEDS) || status=$$?; \
			fi; exit $$status; }

bench-rollback:
	@$(call tools,bench) && cargo bench --locked --package surmise-checkpoint --bench rollback

bench-speculation:
	@$(call tools,bench) && $(release) \
		&& cargo run --release --locked --package surmise-bench -- --suite speculation --pairs 5

fuzz:
	@$(call tools,fuzz) && scripts/fuzz $(SECONDS)

soak:
	@$(call tools,torture) && $(release) && scripts/try-programs \
		&& scripts/exercise-files \
		&& scripts/compare-posix && scripts/soak-stress 10 \
		&& SURMISE_LISTED=1000000 cargo test --release --locked --package surmise \
			--test promises names_behave \
		&& scripts/soak-domains 10 \
		&& scripts/torture-programs --minutes 10 \
		&& SURMISE_KILLS=200 cargo test --locked --package surmise-launch --test launch -- \
			--test-threads 3 at_random \
		&& SURMISE_BIRTHS=10000 cargo test --release --locked --package surmise --test promises -- \
			--nocapture torture::kin \
		&& SURMISE_SEEDS=10000 cargo test --release --locked --package surmise-supervisor --lib simulation \
		&& SURMISE_SEEDS=10000 cargo test --release --locked --package surmise-remote --test simulation \
		&& SURMISE_STATES=2000 cargo test --release --locked --package surmise-sync --test order \
		&& $(MAKE) soak-crash && $(MAKE) soak-far && $(MAKE) soak-rpc \
		&& SURMISE_EVERY_STEP=1 cargo test --release --locked --package surmise-commit --test trees -- \
			--nocapture kills:: power:: \
		&& SURMISE_EVERY_STEP=1 cargo test --release --locked --package surmise --test promises -- \
			--nocapture damage:: \
		&& $(MAKE) fuzz SECONDS=600 \
		&& scripts/soak $(MINUTES)

# What was tried of this very commit is not tried again, so it can be cut short at any time.
soak-crash:
	@$(call tools,test) && mkdir -p target/soak \
		&& SURMISE_LEDGER=$(CURDIR)/target/soak/power-losses-$(COMMIT) SURMISE_STATES=$(STATES) \
			cargo test --release --locked --package surmise --test promises -- \
			--nocapture --test-threads 1 --skip table synchrony::crash:: \
		&& SURMISE_STATES=60 cargo test --release --locked --package surmise --test promises -- \
			--nocapture synchrony::crash::table \
		&& SURMISE_STATES=$(STATES) cargo test --release --locked --package surmise --test promises -- \
			--nocapture far::power::

# The histories have connections cut and servers killed, too: some 1,000 and 350 in 100,000 calls.
soak-far:
	@$(call tools,test) && SURMISE_OPERATIONS=$(CALLS) cargo test --release --locked --package surmise --test promises -- \
			--nocapture far::histories:: \
		&& SURMISE_CUTS=1000 SURMISE_KILLS=200 cargo test --release --locked --package surmise --test promises -- \
			--nocapture --test-threads 2 killed_client_leaves connections_that_are_cut \
		&& SURMISE_KILLS=200 cargo test --release --locked --package surmise-server --test server -- \
			a_server_that_is_killed_loses_nothing \
		&& SURMISE_SEEDS=1000 cargo test --release --locked --package surmise-server --test server -- whatever_both

soak-rpc:
	@$(call tools,test) && SURMISE_CALLS=100000 SURMISE_HELD=10000 SURMISE_CHAINS=10000 \
		cargo test --release --locked --package surmise-grpc --test loopback -- \
			--nocapture faults:: many:: writers:: \
		&& scripts/follow-guide

clean:
	rm -rf target
