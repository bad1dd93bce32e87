# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The module, its provider, and what runs and tests them. The module's own
# Makefile, with which it builds inside a kernel tree, is beside its sources.

MAKEFLAGS += --no-print-directory

top := $(abspath $(dir $(lastword $(MAKEFILE_LIST))))
src := drivers/infiniband/sw/sroce

# The running kernel's headers, or else the newest there are of Debian's for this machine.
debarch := $(shell dpkg --print-architecture 2>/dev/null)
KDIR ?= $(firstword $(wildcard /lib/modules/$(shell uname -r)/build) \
	$(shell ls -d /usr/src/linux-headers-*-$(debarch) 2>/dev/null | grep -v -e -rt- -e -cloud- | sort -Vr))
release = $(shell sed -n 's/.*UTS_RELEASE "\(.*\)"/\1/p' $(KDIR)/include/generated/utsrelease.h 2>/dev/null)

# Where the module is built. Kernels of one name need one each: set it.
BUILD ?= $(if $(release),build/$(release))

# Which kernel demo and check boot; see tools/lab/kernel -h. Of another release than
# this machine's, all is built in that release's root.
KERNEL ?= bookworm
lab_kernel = $(shell tools/lab/kernel $(KERNEL))
in_root = $(if $(filter-out bookworm bookworm-rt,$(KERNEL)),tools/lab/root $(KERNEL))

moddir ?= /lib/modules
sysconfdir ?= /etc
libdir ?= /usr/lib/$(shell $(CC) -print-multiarch)
mandir ?= /usr/share/man
srcdir ?= /usr/src

step = @printf '  %-8s %s\n'

help:
	@echo 'make TARGET [VARIABLE=VALUE...]'
	@echo
	@sed -n 's/^#: \([^ ]*\) */  \1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 17
	@echo
	@echo '  KDIR=$(KDIR)'
	@echo '  BUILD=$(BUILD)   (built sroce.ko)'
	@echo '  DESTDIR=, moddir=$(moddir), libdir=$(libdir), sysconfdir=$(sysconfdir), mandir=$(mandir), srcdir=$(srcdir)'
	@echo '  KERNEL=$(KERNEL)   (booted by demo and check; one of $(shell tools/lab/kernel -l))'

# What is needed, in groups of tools/lab/deps: all of a target at once, as who is not
# root is told a command and starts anew. What is on top of verbs is large, has
# servers, and is for its own tests.
rt := $(filter rt,$(subst -, ,$(KERNEL)))
DEPS ?= build lab static test $(rt) $(if $(LONG)$(findstring apps,$(T))$(findstring ulp,$(T)),apps ulp)
demo: DEPS := build lab test $(rt)
check-debug check-smp check-rt: DEPS += uml
check-static: DEPS += uml cross
bench: export DEPS := build lab test bench uml

#: deps       install what is missing to build and test (apt; asks for root)
deps:
	@tools/lab/deps $(DEPS)

#: modules    build sroce.ko for KDIR, a kernel's headers or build tree; ARCH=um, W=1, C=1 ...
# The sources are linked into BUILD and built there: the tree stays clean, and no
# kernel is in the way of another. OBJECT=sroce.o is for a kernel that was not
# built, with which nothing can be linked.
modules: folder
	@cp -rsf $(top)/$(src)/. '$(BUILD)'
	@find '$(BUILD)' -xtype l -delete
	$(step) MODULE '$(BUILD)/sroce.ko for $(release)'
	+@$(MAKE) -C $(KDIR) M=$(abspath $(BUILD)) CONFIG_INFINIBAND_SROCE=m \
		SROCE_INC='-I$(top)/include -I$(top)/include/uapi' $(if $(V),,-s) $(or $(OBJECT),modules)

# A folder that was built for another KDIR is emptied, as kbuild does not notice that;
# but not one that holds what is somebody else's.
folder:
	@[ -n '$(release)' ] || { \
		echo "no kernel headers in KDIR='$(KDIR)': apt-get install linux-headers-$$(uname -r), or name a build tree" >&2; exit 1; }
	@[ -f '$(BUILD)/.kdir' ] || [ -z "$$(ls -A '$(BUILD)' 2>/dev/null)" ] || { \
		echo "BUILD='$(BUILD)' has files that were not built here: name another folder, or empty it" >&2; exit 1; }
	@[ "$$(cat '$(BUILD)/.kdir' 2>/dev/null)" = '$(abspath $(KDIR))' ] || rm -rf '$(BUILD)'
	@mkdir -p '$(BUILD)'
	@echo '$(abspath $(KDIR))' >'$(BUILD)/.kdir'

#: kverbs     build what selftests/kverbs loads, for KDIR
kverbs: from := selftests/kverbs

#: ceiling    build what tools/bench loads, for KDIR
ceiling: from := tools/bench/ceiling

#: planted    build the faults that selftests/planted makes, for KDIR
planted: from := selftests/planted

#: wrong      build what selftests/static has sparse find fault with, for KDIR
wrong: from := selftests/static/wrong

kverbs ceiling planted wrong: folder
	@mkdir -p '$(BUILD)/$@'
	@cp -rsf $(top)/$(from)/. '$(BUILD)/$@'
	$(step) MODULE '$(BUILD)/$@ for $(release)'
	+@$(MAKE) -C $(KDIR) M=$(abspath $(BUILD))/$@ $(if $(V),,-s) $(or $(OBJECT),modules)

#: provider   build libsroce, which programs load; RDMA_CORE=DIRECTORY: rdma-core's sources
provider:
	$(step) PROVIDER build/provider
	+@$(MAKE) -s -C tools/provider $(in_provider)

# a path is as seen from here
in_provider = $(if $(RDMA_CORE),RDMA_CORE='$(abspath $(RDMA_CORE))')

#: install    install module and library (or below DESTDIR), building what is missing; install-module, install-provider: one of them
install: install-module install-provider

#: install-dkms  install, but the module by DKMS: built again for each new kernel, signed for Secure Boot

# Wherever a module lies modprobe may take it: so that it takes the one that was
# installed last, those of the other kind go.
define remove_modules
	@for ko in '$(DESTDIR)$(moddir)'/*/updates/sroce.ko; do \
		[ -f "$$ko" ] || continue; \
		printf '  %-8s %s\n' REMOVE "$$ko"; \
		rm -f "$$ko"; \
		rel=$${ko%/updates/sroce.ko}; \
		[ -n '$(DESTDIR)' ] || $(DEPMOD) -a "$${rel##*/}"; \
	done
endef

# Of what DKMS has under this name nothing is left, as it may be of an older tree.
define remove_from_dkms
	@[ -n '$(DESTDIR)' ] || ! command -v $(firstword $(DKMS)) >/dev/null || \
	for v in $$($(DKMS) status sroce | sed -n 's|^sroce/\([^,:]*\).*|\1|p' | sort -u); do \
		printf '  %-8s %s\n' REMOVE "sroce/$$v from DKMS, for all kernels"; \
		$(DKMS) remove "sroce/$$v" --all >/dev/null || exit; \
		rm -rf '$(srcdir)'/"sroce-$$v"; \
	done
endef

install-module:
	@[ -f '$(BUILD)/sroce.ko' ] && [ -z "$$(find '$(top)/$(src)' '$(top)/include' -type f -newer '$(BUILD)/sroce.ko' -print -quit)" ] || \
		$(MAKE) modules
	$(remove_from_dkms)
	$(step) INSTALL '$(DESTDIR)$(moddir)/$(release)/updates/sroce.ko'
	@install -D -m 644 '$(BUILD)/sroce.ko' '$(DESTDIR)$(moddir)/$(release)/updates/sroce.ko'
	@[ -n '$(DESTDIR)' ] || $(DEPMOD) -a '$(release)'
	@[ -n '$(DESTDIR)' ] || [ '$(release)' = "$$(uname -r)" ] || \
		printf '  %-8s %s\n' NOTE "built for $(release), but $$(uname -r) is running: reboot into that, or apt-get install linux-headers-$$(uname -r) and make it again"

install-provider:
	@$(MAKE) -s -C tools/provider fits $(in_provider) 2>/dev/null || $(MAKE) provider
	+@$(MAKE) -s -C tools/provider install $(in_provider) DESTDIR='$(DESTDIR)' libdir='$(libdir)' sysconfdir='$(sysconfdir)'
	$(step) INSTALL '$(DESTDIR)$(mandir)/man7/sroce.7'
	@install -D -m 644 Documentation/sroce.7 '$(DESTDIR)$(mandir)/man7/sroce.7'

# The module says which version this is.
version := $(shell sed -n 's/^MODULE_VERSION("\(.*\)");/\1/p' $(top)/$(src)/main.c)
dkms_src = $(DESTDIR)$(srcdir)/sroce-$(version)
DKMS ?= dkms
DEPMOD ?= depmod

# What make install put there goes when this is built; DKMS's own first, as it may be this version.
install-dkms:
	@[ -n '$(DESTDIR)' ] || command -v $(firstword $(DKMS)) >/dev/null || { echo "there is no dkms: apt-get install dkms" >&2; exit 1; }
	+@$(MAKE) install-provider
	$(remove_from_dkms)
	$(step) INSTALL '$(dkms_src)'
	@rm -rf '$(dkms_src)'
	@install -d '$(dkms_src)/$(src)' '$(dkms_src)/include'
	@cp -r Makefile LICENSES '$(dkms_src)'
	@sed 's/#MODULE_VERSION#/$(version)/' dkms.conf >'$(dkms_src)/dkms.conf'
	@cp -r include/. '$(dkms_src)/include'
	@cp -r $(src)/. '$(dkms_src)/$(src)'
	@[ -n '$(DESTDIR)' ] || $(DKMS) build sroce/$(version) -k '$(release)'
	$(remove_modules)
	@[ -n '$(DESTDIR)' ] || $(DKMS) install --force sroce/$(version) -k '$(release)'

#: uninstall  remove everything that these have installed, for all kernels
uninstall:
	$(remove_modules)
	$(remove_from_dkms)
	$(step) REMOVE 'the library, the manual page and what DKMS builds from'
	@rm -rf '$(dkms_src)' \
		'$(DESTDIR)$(libdir)'/libibverbs/libsroce-rdmav*.so \
		'$(DESTDIR)$(sysconfdir)/libibverbs.d/sroce.driver' \
		'$(DESTDIR)$(mandir)/man7/sroce.7'

#: demo       boot a VM and send messages between two hosts in it
demo: lab
	@tools/lab/vm -i -k $(lab_kernel) -- tools/lab/demo.sh

#: check      run the tests, in VMs where they need one; T=subject/name for one; KERNEL=trixie, sid, bookworm-rt or trixie-arm64
check: tests
	@selftests/run -k $(KERNEL) $(T)

#: check-long check, with more rounds and up to the last object of each limit
check-long:
	+@LONG=1 $(MAKE) check

#: check-all  check, check-apps and static/build; tests that depend on the kernel on trixie and sid, too
check-all: on_others := provider verbs states errors xfer/random netem rings doorbell link life cm mr \
	srq kverbs pingpong perftest/rxe pyverbs static
check-all:
	+@$(MAKE) check KERNEL=bookworm
	+@$(MAKE) check T=static/build
	+@$(MAKE) check-apps
	+@$(MAKE) check KERNEL=trixie T='$(on_others)'
	+@$(MAKE) check KERNEL=sid T='$(on_others)'

#: check-apps what runs on a link: storage, file systems, MPI and others, from packages
check-apps:
	+@$(MAKE) check T='apps ulp cm/tools cm/rxe perftest/rxe'

#: check-static warnings of compilers, sparse and cppcheck with the kernels of Debian 12, 13 and sid, and for big-endian
s390 := build/s390

# (deps first: apt can't run twice at a time)
$(s390)/ready: $(addprefix tools/lab/,rdma.config s390.config) | deps
	@tools/lab/linux s390 $(s390)

check-static: $(s390)/ready
	+@$(MAKE) check KERNEL=bookworm T=static
	+@$(MAKE) check KERNEL=trixie T=static
	+@$(MAKE) check KERNEL=sid T=static

#: check-debug as check, in a kernel that looks for faults (KASAN, UBSAN, lockdep ...), which is built first
debug := build/uml-debug

$(debug)/linux: $(addprefix tools/lab/,rdma.config uml.config uml-debug.config) | deps
	@tools/lab/uml build $(debug) debug

check-debug: $(debug)/linux
	+@$(MAKE) built planted KDIR=$(debug)/obj ARCH=um
	+@$(MAKE) -s -C selftests
	@selftests/run -k $(debug) $(T)

#: check-smp  those tests where processors meet, in a kernel for several that reports data races (KCSAN), which is built first
#: check-rt   the same tests in such a kernel for real time (PREEMPT_RT), where all can be preempted
on_smp := planted xfer/many xfer/random xfer/two rings doorbell cq srq errors mr life/kill life/remove link netem recovery/recovery \
	gaps/gaps kept kverbs hostile threads

smp := build/smp
rt_smp := build/smp-rt

$(smp)/vmlinuz $(rt_smp)/vmlinuz: $(addprefix tools/lab/,rdma.config smp.config) | deps
	@tools/lab/linux $(notdir $(@D)) $(@D)
$(rt_smp)/vmlinuz: tools/lab/smp-rt.config

check-smp: on := $(smp)
check-rt: on := $(rt_smp)
check-smp: $(smp)/vmlinuz
check-rt: $(rt_smp)/vmlinuz
check-smp check-rt:
	+@$(MAKE) built planted KDIR=$(on)/obj
	+@$(MAKE) -s -C selftests
	@selftests/run -j 1 -k $(on) $(or $(T),$(on_smp))

#: check-model the model of the recovery alone: a million schedules
check-model:
	@LONG=1 selftests/model/model.t

#: bench      measure it beside others, on a native kernel and in VMs: hours; QUICK=1 for minutes, NETWORKS=1 for lossy ones
# BENCH is for more options, see tools/bench/bench -h.
bench: deps
	@tools/bench/bench $(if $(QUICK),-q) $(if $(NETWORKS),-n) $(BENCH)

#: lab        what demo and check boot: the machine ready, the kernel there, and both halves built for it (built: that alone)
lab: deps
	@tools/lab/kernel $(KERNEL) >/dev/null
	+@$(in_root) $(MAKE) built KDIR=/usr/src/linux-headers-$(lab_kernel)

built: modules
	+@$(MAKE) kverbs ceiling provider

#: tests      and the programs that test and measure them
tests: lab
	+@$(in_root) $(MAKE) -s -C selftests
	+@$(in_root) $(MAKE) -s -C tools/bench

#: clean      remove what was built
clean:
	@find build -mindepth 1 -maxdepth 1 ! -name lab ! -name dl ! -name 'uml*' ! -name smp ! -name smp-rt ! -name s390 -exec rm -rf {} + 2>/dev/null || true
	@rm -rf build/lab/out.* build/lab/vm.* build/lab/tmp.*

#: distclean  remove build altogether: downloads and kernels too
distclean:
	rm -rf build

.PHONY: help deps modules folder kverbs ceiling planted wrong provider install install-module install-provider install-dkms uninstall demo check check-long check-all check-apps \
	check-static check-debug check-smp check-rt check-model bench lab built tests clean distclean
.DEFAULT_GOAL := help
