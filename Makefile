# pgq_ext: build and install with PGXS; everything else calls a script.

# Targets that need no installed PostgreSQL: their scripts install what is missing.
SCRIPTED = setup quickstart check check-all check-unit check-model check-conventions check-runner check-odr check-clients check-monitoring \
           check-failover check-shards check-web check-regress check-before check-isolation check-tiny check-tap check-pgtap check-torture \
           check-pg_upgrade check-pgmq check-packages ci-push ci-full ci-nightly torture strict bench bench-short bench-tiny bench-rivals bench-rivals-tiny \
           bench-instructions check-instructions format drill deb dist

ifneq ($(filter $(SCRIPTED),$(MAKECMDGOALS)),)

.PHONY: all install clean $(SCRIPTED)

setup:
	script/setup.sh

quickstart:
	quickstart/quickstart.sh $(ARGS)

# The quick check: needs a compiler, PostgreSQL and its test tools, and runs no long test.
check: setup
	test/run.sh quick

# All tests.
check-all: setup
	test/run.sh

# For continuous integration, as root on Debian 12: after each push; before a merge; once a day.
ci-push: check

ci-full:
	.ci/run

ci-nightly:
	.ci/nightly

# One suite: make check-tap. Some of its tests: make check-tap T='crash failover'. If the test tools are missing (the
# quickstart installs none), setup runs first, unless PG_CONFIG names a PostgreSQL.
$(filter-out check-all,$(filter check-%,$(SCRIPTED))): check-%: $(if $(PG_CONFIG)$(shell which spin),,setup)
	test/run.sh $* $(T)

# make bench writes docs/benchmarks.md. Some workloads: make bench-short T='claim batch'.
bench:
	bench/run.sh full $(T)

$(filter-out bench-instructions,$(filter bench-%,$(SCRIPTED))): bench-%:
	bench/run.sh $* $(T)

# Counts the instructions of calls. Writes the counts to bench/instructions.tsv and docs/benchmarks.md; with T='claim + ack', only
# compares those of some calls with the stored ones, as check-instructions does for all.
bench-instructions:
	bench/instructions.sh $(or $(T),baseline)

# Tests on a server with assertions and a library with sanitizers. A part: make strict ARGS='tap crash'.
strict:
	test/strict.sh $(ARGS)

# Runs for hours: make torture ARGS='--kills 1000 --seed 7'
torture: setup
	test/torture.sh $(ARGS)

# Faults on purpose, on a throw-away server. Some of them: make drill ARGS='poison backlog'.
drill: setup
	drills/throw_away.sh $(ARGS)

# Debian packages for this machine's PostgreSQL, or another: make deb PG=17. Needs root or sudo.
deb:
	packaging/deb.sh build/deb $(PG)

# The zip for PGXN.
dist:
	packaging/dist.sh build

format:
	clang-format-14 -i $$(find src shared top web test bench -name '*.cpp' -o -name '*.h')

all install clean:
	$(MAKE) $@

else

EXTENSION = pgq_ext
EXTVERSION := $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" pgq_ext.control)
DATA_built = $(EXTENSION)--$(EXTVERSION).sql
# SQL scripts of released versions, and the updates from each to the next.
DATA = $(wildcard upgrade/$(EXTENSION)--*.sql)

MODULE_big = pgq_ext
# The files of a folder are compiled as one, which takes a quarter of the time. The compiler takes all but one for headers, in
# which a type with a field of a private type would be a fault (-Wsubobject-linkage); "make check-odr" compiles each alone.
ROOMS = $(patsubst %/,%,$(sort $(dir $(wildcard src/*/*.cpp))))
SOURCES = $(wildcard src/*.cpp src/*/*.cpp src/*/*/*.cpp)
OBJS = src/pgq_ext.o $(ROOMS:%=%.o)

# The version before: the library also serves its SQL objects.
BEFORE := $(patsubst upgrade/$(EXTENSION)--%--$(EXTVERSION).sql,%,$(wildcard upgrade/$(EXTENSION)--*--$(EXTVERSION).sql))

# PGDLLEXPORT marks exported symbols; PostgreSQL 15 defines it as empty.
PG_CPPFLAGS = -Isrc -D'PGQ_VERSION="$(EXTVERSION)"' -D'PGQ_VERSION_BEFORE="$(BEFORE)"' -MMD -MP \
              -D'PGDLLEXPORT=__attribute__((visibility("default")))'
PG_CXXFLAGS = -std=gnu++20 -fno-exceptions -fno-rtti -fno-threadsafe-statics -fvisibility=hidden \
              -Wall -Wextra -Wno-register -Wno-unused-parameter -Wno-missing-field-initializers $(COPT)
# For tests: make SANITIZE=address,undefined. -fno-wrapv makes signed overflow an error; the server's flags have
# -fwrapv.
ifneq ($(SANITIZE),)
PG_CXXFLAGS += -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-wrapv
SHLIB_LINK = -fsanitize=$(SANITIZE)
endif
EXTRA_CLEAN = build built_with $(OBJS:.o=.d) $(TOP_OBJS) $(TOP_OBJS:.o=.d) web/page_files.cpp $(wildcard web/*.o web/*.d shared/*.o shared/*.d)

# No bitcode: it would only serve to inline SQL functions into JIT-compiled queries.
override with_llvm = no

# The newest installed PostgreSQL, or the one named: make PG=17. If that is missing, fail (except for clean) rather
# than take another.
named := $(if $(PG),/usr/lib/postgresql/$(PG)/bin/pg_config)
not_there = $(error there is no $(named): install postgresql-server-dev-$(PG))
PG_CONFIG ?= $(or $(wildcard $(named)), \
             $(if $(named),$(if $(filter-out clean,$(or $(MAKECMDGOALS),all)),$(not_there))), \
             $(lastword $(sort $(wildcard /usr/lib/postgresql/*/bin/pg_config))), pg_config)
# "make install" installs pgq-top and pgq-web beside psql, if their libraries are there, and unless TOP=no or WEB=no. (PROGRAM
# would be built from OBJS.)
top_headers := $(shell printf '\043include <libpq-fe.h>\n\043include <curses.h>\n' | \
                    $(CXX) -x c++ -E -I"$$($(PG_CONFIG) --includedir)" - >/dev/null 2>&1 && echo found)
ifeq ($(TOP),no)
else ifeq ($(top_headers),found)
SCRIPTS_built = pgq-top
else
$(info pgq-top is left out: it takes libpq-dev and libncurses-dev)
endif
# The library decides by macros, which pkg-config tells, how its types look.
web_flags := $(shell pkg-config --cflags cpp-httplib 2>/dev/null)
web_headers := $(shell printf '\043include <libpq-fe.h>\n\043include <httplib.h>\n' | \
                    $(CXX) -x c++ -std=c++20 $(web_flags) -E -I"$$($(PG_CONFIG) --includedir)" - >/dev/null 2>&1 && \
                    pkg-config --exists 'cpp-httplib >= 0.11' && echo found)
web_needs = it takes libpq-dev, libcpp-httplib-dev 0.11 or newer, and pkgconf
ifeq ($(WEB),no)
else ifeq ($(web_headers),found)
SCRIPTS_built += pgq-web
else
$(info pgq-web is left out: $(web_needs))
endif

PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# Rebuild objects that were built for another PostgreSQL, or with other sanitizers.
made_for := $(shell $(PG_CONFIG) --version --includedir-server) $(SANITIZE)
ifneq ($(made_for),$(file <built_with))
$(file >built_with,$(made_for))
endif

$(OBJS): Makefile $(EXTENSION).control built_with
-include $(OBJS:.o=.d)

.SECONDEXPANSION:
$(ROOMS:%=%.o): %.o: $$(wildcard %/*.cpp %/*/*.cpp) %/. $$(wildcard %/*/.)
	$(COMPILE.cc) -Wno-subobject-linkage $(patsubst %,-include %,$(wildcard $(filter %.cpp,$(wordlist 2,$(words $^),$^)))) -o $@ $<

# A source of the last build may have been deleted since; the date of its folder says so.
src/%.cpp: ;
$(OBJS:.o=.d): ;

# pgq-top is a client program: it uses the C++ library, libpq and ncurses. It is left out if their headers are
# missing.
TOP_OBJS = $(patsubst %.cpp,%.o,$(wildcard top/*.cpp shared/*.cpp))
TOP_CXXFLAGS = -std=c++20 -O2 -g -Wall -Wextra -Wno-missing-field-initializers -MMD -MP -I. -I$(includedir) \
               -D_GNU_SOURCE -D'PGQ_VERSION="$(EXTVERSION)"' $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all) \
               $(COPT)

top/%.o: top/%.cpp Makefile $(EXTENSION).control built_with
	$(CXX) $(TOP_CXXFLAGS) -c -o $@ $<

shared/%.o: shared/%.cpp Makefile $(EXTENSION).control built_with
	$(CXX) $(TOP_CXXFLAGS) -c -o $@ $<

pgq-top: $(TOP_OBJS)
	$(CXX) $(if $(SANITIZE),-fsanitize=$(SANITIZE)) -o $@ $(TOP_OBJS) $(LDFLAGS) -L$(libdir) -lpq -lncursesw

-include $(TOP_OBJS:.o=.d)

# pgq-web serves a page with the queues: it uses the C++ library, libpq and cpp-httplib. It is left out, as pgq-top is, if their
# headers are missing.
WEB_OBJS = $(patsubst %.cpp,%.o,$(filter-out web/page_files.cpp,$(wildcard web/*.cpp))) web/page_files.o $(patsubst %.cpp,%.o,$(wildcard shared/*.cpp))
WEB_CXXFLAGS = $(TOP_CXXFLAGS) $(web_flags)
PAGE_FILES = $(shell find web/page -type f 2>/dev/null)

ifneq ($(filter pgq-web,$(MAKECMDGOALS)),)
ifneq ($(web_headers),found)
$(error pgq-web cannot be built: $(web_needs))
endif
endif

web/page_files.cpp: $(PAGE_FILES) $(if $(PAGE_FILES),web/page/.) web/embed.sh
	web/embed.sh web/page >$@.new && mv $@.new $@

web/%.o: web/%.cpp Makefile $(EXTENSION).control built_with
	$(CXX) $(WEB_CXXFLAGS) -c -o $@ $<

pgq-web: $(WEB_OBJS)
	$(CXX) $(if $(SANITIZE),-fsanitize=$(SANITIZE)) -o $@ $(WEB_OBJS) $(LDFLAGS) -L$(libdir) -lpq -Wl,--as-needed $(shell pkg-config --libs cpp-httplib openssl) -lpthread

-include $(wildcard web/*.d)

install: install-man

.PHONY: install-man
install-man:
ifneq ($(SCRIPTS_built),)
	$(MKDIR_P) '$(DESTDIR)$(mandir)/man1'
	$(INSTALL_DATA) $(foreach program,$(SCRIPTS_built),$(program:pgq-%=%)/$(program).1) '$(DESTDIR)$(mandir)/man1/'
endif

# The checks of .clang-tidy, on all files or some: make tidy T=src/core/cron.cpp
.PHONY: tidy
tidy:
	clang-tidy-14 --quiet $(or $(T),$(SOURCES)) -- $(PG_CXXFLAGS) $(PG_CPPFLAGS) -I$(includedir_server) -I$(includedir_internal) -D_GNU_SOURCE

# The check of the One Definition Rule (test/run.sh odr): the link compares the types of all files, and makes no code. The header
# that most files include is compiled once.
ODR = build/odr
ODR_OBJS = $(SOURCES:src/%.cpp=$(ODR)/%.o)
ODR_FLAGS = -O0 -g0 -flto -U_FORTIFY_SOURCE

.PHONY: odr
odr: $(ODR_OBJS)
	$(CXX) -O0 -flto -r -flinker-output=rel -Werror=odr -Werror=lto-type-mismatch -o $(ODR)/all.o $(ODR_OBJS)

$(ODR_OBJS): $(ODR)/%.o: src/%.cpp $(ODR)/hold.h.gch
	@mkdir -p $(@D)
	$(COMPILE.cc) $(ODR_FLAGS) -include $(ODR)/hold.h -o $@ $<

$(ODR)/hold.h.gch: Makefile $(EXTENSION).control built_with
	@mkdir -p $(@D)
	echo '#include "engine/hold.h"' >$(ODR)/hold.h
	$(COMPILE.cc) $(ODR_FLAGS) -o $@ $(ODR)/hold.h

-include $(ODR_OBJS:.o=.d) $(ODR)/hold.h.d

$(DATA_built): $(sort $(wildcard src/schema/*.sql)) Makefile
	cat $(filter %.sql,$^) < /dev/null > $@

endif
