# To be installed: make install, the Debian package, and the proof that a build depends on its sources alone.
# `prefix` and the folders below it as GNU has them; PREFIX is the same as prefix.
PREFIX ?= /usr/local
prefix ?= $(PREFIX)
bindir ?= $(prefix)/bin
mandir ?= $(prefix)/share/man
includedir ?= $(prefix)/include
libdir ?= $(prefix)/lib
sysconfdir ?= $(prefix)/etc
unitdir ?= $(prefix)/lib/systemd/system
DESTDIR ?=
INSTALLED_PROGRAM := $(bindir)/stator $(mandir)/man1/stator.1 $(sysconfdir)/stator/example.cfg $(unitdir)/stator.service
INSTALLED_LIBRARY := $(includedir)/stator.h $(libdir)/libstator.a $(libdir)/pkgconfig/stator.pc

.PHONY: install install-program install-library uninstall
install: install-program install-library ## install program, manual page, example config, systemd unit, stator.h and libstator.a to $(DESTDIR)$(prefix)
install-program: $(BUILD)/stator $(BUILD)/stator.1
	$(Q)install -D -m 755 $(BUILD)/stator "$(DESTDIR)$(bindir)/stator"
	$(Q)install -D -m 644 $(BUILD)/stator.1 "$(DESTDIR)$(mandir)/man1/stator.1"
	$(Q)install -D -m 644 configs/example.cfg "$(DESTDIR)$(sysconfdir)/stator/example.cfg"
	$(Q)install -d "$(DESTDIR)$(unitdir)"
	$(Q)sed 's,/usr/bin/,$(bindir)/,; s,/etc/stator/,$(sysconfdir)/stator/,' configs/stator.service >"$(DESTDIR)$(unitdir)/stator.service"
	$(Q)chmod 644 "$(DESTDIR)$(unitdir)/stator.service"
install-library: $(LIBRARY) $(MODULES) FORCE
	$(Q)install -D -m 644 include/stator.h "$(DESTDIR)$(includedir)/stator.h"
	$(Q)install -D -m 644 $(LIBRARY) "$(DESTDIR)$(libdir)/libstator.a"
	$(Q)ar rD "$(DESTDIR)$(libdir)/libstator.a" $(MODULES)
	$(Q)install -d "$(DESTDIR)$(libdir)/pkgconfig"
	$(Q)printf '%s\n' 'libdir=$(libdir)' 'includedir=$(includedir)' '' 'Name: stator' \
	    'Description: large language models in memory that is planned to the byte' 'Version: $(VERSION)' \
	    'Cflags: -I$${includedir}' 'Libs: -L$${libdir} -lstator $(STATIC_LIBS) -lm -pthread' \
	    >"$(DESTDIR)$(libdir)/pkgconfig/stator.pc"
	$(Q)chmod 644 "$(DESTDIR)$(libdir)/pkgconfig/stator.pc"

uninstall: ## remove what `make install` with the same prefix has installed
	rm -f $(foreach f,$(INSTALLED_PROGRAM) $(INSTALLED_LIBRARY),"$(DESTDIR)$f")
	-@rmdir "$(DESTDIR)$(sysconfdir)/stator" 2>/dev/null || :

$(BUILD)/stator.1: $(BUILD)/stator
	$(Q)$< help --man >$@.new && mv $@.new $@

DEB := build/stator_$(VERSION)_amd64.deb
.PHONY: deb check-deb check-reproducible
deb: ## build a Debian package of the full binary (build/*.deb)
	$(if $(CL_MISSING),@echo "deb: a package holds the GPU kernels: $(CL_MISSING)" >&2; exit 1)
	@$(MAKE) --no-print-directory deb-of-build
.PHONY: deb-of-build
deb-of-build: $(BUILD)/stator $(BUILD)/stator.1
	@BUILD=$(BUILD) VERSION=$(VERSION) MAKE="$(MAKE)" tools/package/make_deb $(DEB)

check-deb: deb ## the package: lintian, then installed, run and purged on a minimal Debian 12
	lintian --allow-root --fail-on error,warning,info $(DEB)
	@tools/check_fresh --deb $(DEB)

check-reproducible: ## two builds in different folders give the same bytes
	@tools/package/check_reproducible
