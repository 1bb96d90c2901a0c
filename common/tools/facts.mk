# build/facts.json has everything in the rows. It is compiled without any kernel, without a device, and without the CPU
# backend's library. Functions that would launch or ask a device stay unresolved, and nothing here calls them.

# Tools that know no step by name find the steps by their numbers.
EACH_STEP := '-DEACH_STEP(X)=$(patsubst %,X(step_%),$(STEP_NUMBERS))'
FACTS_SOURCES := common/tools/facts.c $(addprefix common/harness/,ladder.c problem.c cases.c inputs.c refusal.c report.c output.c) \
    $(addprefix common/problems/,matmul.c softmax.c attention.c) $(wildcard 0?_*/*_step.c)

build/facts/obj/%.c.o: %.c | packages-cpu
	@mkdir -p $(@D)
	$(quiet)$(call compiled,$(C_COMPILE) -O0 -fno-pie $(include_cpu) $(EACH_STEP) -c $<)

build/facts/facts: $(FACTS_SOURCES:%=build/facts/obj/%.o) common/tools/facts.mk
	$(quiet)$(call whole,$(CC) -no-pie $(filter %.o,$^) -Wl$(comma)--unresolved-symbols=ignore-all -lm)

build/facts.json: build/facts/facts
	$(quiet)trap 'rm -f $(part)' EXIT; $< > $(part) && mv -f $(part) $@
