# Passes the output of `go test -bench -benchmem` on, and ends with a table of the benchmarks that have a budget.
# Allocations above it are a fault; times are only shown, because a busy machine is not. `make bench` runs it.
BEGIN {
	# Most allocations of a decision are the maps of k8s.io/component-helpers/resource.
	decision = 13 * 110
	budget("SampleMemory", "one sample, memory", 0, 0)
	budget("Judge", "one judgement", 0, 0)
	budget("TickCalm110", "one tick, calm, 110 pods", 2, 0)
	budget("Collect110/real", "what 110 pods use, real cgroups", 3, 2e6)
	budget("Collect110/charged", "the same, what is charged alone", 3, 5e5)
	budget("Rank110", "ranking of 110 pods", 10, 3e4)
	budget("Rank5000", "ranking of 5,000 pods", 20, 3e6)
	budget("TickWaits110", "one tick under pressure, waiting for a victim", decision, 0)
	budget("TickDecides110", "one tick that decides, to its record", decision, 0)
}

# budget adds one: allocations, and nanoseconds; 0 of these is no limit.
function budget(name, what, allocations, ns) {
	names[++count] = name
	about[name] = what
	most[name] = allocations
	time[name] = ns
}

{ print }
/^(--- )?FAIL/ { failed = 1 }

# BenchmarkJudge-2   139783   401.6 ns/op   0 B/op   0 allocs/op, with other units between, and the number of CPUs
# behind the name.
/^Benchmark.* ns\/op.* allocs\/op/ {
	name = substr($1, length("Benchmark") + 1)
	sub(/-[0-9]+$/, "", name)
	for (i = 3; i < NF; i += 2) seen[name, $(i + 1)] = $i
	ran[name]
}

END {
	print "\n| what | benchmark | µs | budget | B/op | allocations | budget |\n|---|---|---|---|---|---|---|"
	for (i = 1; i <= count; i++) {
		name = names[i]
		if (!(name in ran)) {
			faults = faults "benchmark " name " did not run\n"
			continue
		}
		ns = seen[name, "ns/op"]
		allocations = seen[name, "allocs/op"]
		printf "| %s | Benchmark%s | %.5g | %s | %d | %d | ≤ %d: %s |\n", about[name], name, ns / 1000,
			time[name] ? "≤ " time[name] / 1000 ": " (ns > time[name] ? "MISSED" : "kept") : "",
			seen[name, "B/op"], allocations, most[name], (allocations > most[name] ? "MISSED" : "kept")
		if (allocations > most[name])
			faults = faults name " allocates " allocations " times, at most " most[name] " are allowed\n"
	}
	if (failed) faults = faults "a benchmark failed\n"
	printf "%s", faults >"/dev/stderr"
	exit faults != ""
}
