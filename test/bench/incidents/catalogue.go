package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/evictd/evictd/test/internal/node"
)

const (
	megabyte = 1_000_000

	apiServer = "kube-apiserver" // the process of the test cluster

	leakApp = "leak"
	// endMiB is how far evictd's soft line is above the stand-in node's end.
	endMiB = standIn / 10 / mebibyte
	// variesMiB of the start is in place; pastMiB lets a leak reach the end whatever it is.
	pastMiB = 300
)

// aboveMiB is where most scenarios begin.
const aboveMiB = 200

// leaks is a pod that takes memory until it is ended: 500 MiB at once, the rest at a rate.
func leaks(app string, rate, aboveMiB int64) Pod {
	const first = 500
	uses := first + aboveMiB + endMiB + pastMiB
	return Pod{
		Workload: node.Workload{Name: app, UsesMiB: uses, AsksMiB: 100, LimitMiB: uses + 100},
		FirstMiB: first, Rate: rate, Waits: true,
	}
}

// slowly leaks 20 MB a second.
func slowly(app string) Pod { return leaks(app, 20*megabyte, aboveMiB) }

// beside is a pod that uses memory from before the incident.
func beside(app string, usesMiB, asksMiB, limitMiB int64) Pod {
	return Pod{Workload: node.Workload{Name: app, UsesMiB: usesMiB, AsksMiB: asksMiB, LimitMiB: limitMiB}}
}

// ended is a scenario that one pod causes: its end is enough.
func ended(number int, name, what string, culprit Pod, others ...Pod) Scenario {
	return Scenario{
		Number: number, Name: name, What: what, AboveMiB: aboveMiB, Pods: append([]Pod{culprit}, others...),
		Steps: []Step{begin(culprit.Name)}, Smallest: map[string]int{culprit.Name: 1}, Lasts: 120 * time.Second,
	}
}

// endured is a scenario in which a pod does something, and no pod needs to end.
func endured(number int, name, what string, aboveMiB int64, pods ...Pod) Scenario {
	pods[0].Waits = true
	return Scenario{
		Number: number, Name: name, What: what, AboveMiB: aboveMiB, Pods: pods,
		Steps: []Step{begin(pods[0].Name)}, Lasts: 60 * time.Second, Whole: true,
	}
}

// catalogue returns all scenarios, in order of their numbers.
func catalogue() []Scenario {
	all := slices.Concat(leakScenarios(), besideScenarios(), otherScenarios(), faultScenarios(), nodeScenarios(), diskScenarios())
	slices.SortFunc(all, func(a, b Scenario) int { return cmp.Compare(a.Number, b.Number) })
	return all
}

// find returns a scenario by its number; nil when there is none.
func find(number int) *Scenario {
	for _, s := range catalogue() {
		if s.Number == number {
			return &s
		}
	}
	return nil
}

func leakScenarios() []Scenario {
	const fastAbove, toTheEndAbove = 1500, 800
	fast := ended(2, "fast leak", "A pod takes 1 GB a second until it is ended.", leaks(leakApp, 1000*megabyte, fastAbove))
	fast.AboveMiB, fast.Lasts = fastAbove, 60*time.Second
	two := ended(5, "two leaks at once", "Two pods take 20 MB a second each until they are ended.", slowly("leak-a"), slowly("leak-b"))
	two.Steps, two.Smallest, two.Whole = []Step{begin("leak-a", "leak-b")}, map[string]int{"leak-a": 1, "leak-b": 1}, true
	again := leaks(leakApp, 40*megabyte, aboveMiB)
	again.Again = true
	back := ended(9, "it comes back and leaks again",
		"A Deployment whose pod takes 40 MB a second, and so does each of its replacements, for 10 minutes.", again)
	back.Smallest, back.Lasts, back.Whole = map[string]int{leakApp: Any}, 10*time.Minute, true
	toTheEnd := ended(21, "400 MB/s to the end",
		"A pod takes 400 MB a second until it is ended, on a node without swap: does the node respond meanwhile?",
		leaks(leakApp, 400*megabyte, toTheEndAbove))
	toTheEnd.AboveMiB, toTheEnd.Lasts = toTheEndAbove, 60*time.Second
	return []Scenario{ended(1, "slow leak", "A pod takes 20 MB a second until it is ended.", slowly(leakApp)), fast, two, back, toTheEnd}
}

// besideScenarios are those of a leak beside a pod that looks like a better victim.
func besideScenarios() []Scenario {
	within := slowly(leakApp)
	within.AsksMiB = within.UsesMiB
	holder := beside("holder", 10, 8, 900)
	holder.CacheMiB = 600
	greedy := beside("greedy", 1600, 50, 1700)
	greedy.Keeps = 1
	// It takes all but 60 MiB: less than the kubelet's line leaves.
	second := beside("second", 300+aboveMiB+endMiB-60, 50, 1500)
	second.FirstMiB, second.Rate, second.Waits = 300, 100*megabyte, true
	budget := ended(6, "the greedy pod has a budget",
		"A pod far over its request has a budget that allows nothing; a second one over its request, without a budget, takes memory to below the kubelet's line and stops.",
		second, greedy)
	budget.Exact, budget.Lasts = true, 60*time.Second
	tenant := slowly("tenant")
	tenant.Top = true
	top := ended(8, "a tenant with top priorities",
		"The pod that leaks 20 MB a second has the highest priority there is; a neighbour without priority is a little over its request. With evictd, a fence is around the tenant.",
		tenant, beside("neighbour", 300, 200, 400))
	top.Config = "queues:\n- {name: tenant, podSelector: {matchLabels: {app: tenant}}, properties: {priority.policy: fence}}\n"
	return []Scenario{
		ended(4, "leak within its request, cache beside",
			"A pod leaks 20 MB a second within its request, beside an idle pod whose page cache is far over its own.", within, holder),
		budget, top,
	}
}

func otherScenarios() []Scenario {
	storm, reader, forker := beside("storm", 20, 2000, 2200), beside("reader", 50, 100, 200), beside("forker", 0, 400, 800)
	storm.CacheMiB, reader.CacheMiB, forker.Flags = 2000, 600, []string{"--forks=100000"}
	thrashes := endured(18, "a pod thrashes in its own limit",
		"A pod with a limit of 200 MiB reads 600 MiB again and again, while 60 % of the node's memory is in use. With evictd's memoryStall. The node is short of nothing.",
		standIn*4/10/mebibyte-endMiB, reader)
	thrashes.Config = "memoryStall: {type: full, threshold: 10%, window: 2s}\n"
	bomb := endured(16, "fork bomb", "A pod starts processes without end, below its limits of PIDs and memory. No pod needs to be evicted.", 1000, forker)
	bomb.Lasts = 40 * time.Second
	three := beside("within", 750, 800, 850)
	three.Replicas = 3
	host := ended(17, "a host process takes the memory",
		"A process outside of the pods takes 40 MB a second, to below the kubelet's line, and keeps it. Three pods within their requests are beside it: one of them would be enough. Replacements have another node.",
		three)
	host.Steps = []Step{{What: "the incident begins", Do: func(_ context.Context, t *turn) error {
		return t.hostRuns(fmt.Sprintf("--memory=%dMi", aboveMiB+endMiB-50), "--memory-rate=40000000")
	}}}
	host.Elsewhere, host.Exact, host.Lasts, host.Whole = true, true, 60*time.Second, true
	return []Scenario{
		endured(3, "page-cache storm",
			"A pod within its request reads 2 GB again and again, more than is left, beside pods that are over their requests. Page cache is available memory: no pod needs to be evicted.",
			aboveMiB, storm, beside("over-a", 250, 100, 300), beside("over-b", 200, 50, 300)),
		thrashes, bomb, host,
	}
}

// faultScenarios are those of a leak in which something else goes wrong, or holds it up.
func faultScenarios() []Scenario {
	polite, hooked := slowly(leakApp), slowly(leakApp)
	polite.PreStop, polite.Grace = 25*time.Second, 40*time.Second
	hook := ended(7, "a preStop hook of 25 s",
		"The pod that leaks 20 MB a second has a preStop hook of 25 s, and goes on leaking meanwhile.", polite)
	hook.Lasts = 150 * time.Second
	away := ended(19, "the API server is away",
		"A pod leaks 20 MB a second. 8 s later the API server is killed, and is away for 20 s.", slowly(leakApp))
	away.Steps = append(away.Steps,
		Step{What: "the API server is killed", Wait: after(8 * time.Second), Do: func(_ context.Context, t *turn) error {
			return t.Node.Cluster.Signal(apiServer, syscall.SIGKILL)
		}},
		Step{What: "the API server starts again", Wait: after(20 * time.Second), Do: func(ctx context.Context, t *turn) error {
			return t.Node.Cluster.StartProcess(ctx, apiServer)
		}})
	hooked.PreStop = 10 * time.Second
	killed := ended(20, "evictd is killed",
		"A pod leaks 20 MB a second, with a preStop hook of 10 s. As soon as it is ended, evictd is killed.", hooked)
	killed.Steps = append(killed.Steps, Step{What: "evictd is killed, where it runs", Wait: untilEnding, Do: killEvictd})
	return []Scenario{hook, away, killed}
}

// nodeScenarios are those of a whole node: by what it is configured, what all its pods do, and how busy it is.
func nodeScenarios() []Scenario {
	const databaseMiB = 4300 // with which the limit of all pods is the stand-in node's
	reserved := ended(22, "a node with reservations, all by default",
		"The limit of all pods is about 6 GiB, and the machine itself is short of nothing, as on a node that reserves memory. Both have their default configuration. A pod takes 20 MB a second until it is ended, beside a large one within its request.",
		slowly(leakApp), beside("database", databaseMiB, databaseMiB+100, databaseMiB+200))
	reserved.ByDefault = true
	const teethMiB, belowMiB = 220, 30
	heap := beside("heap", 500+teethMiB, 100, 800)
	heap.FirstMiB, heap.Rate, heap.DropsMiB = 500, 10*megabyte, teethMiB
	teeth := endured(23, "garbage collection",
		"A heap takes 10 MB a second and gives 220 MiB back each time it has 720: for 3 s of every 23 s the node is below evictd's soft line, for 10 minutes. No pod needs to be evicted.",
		teethMiB-belowMiB, heap)
	teeth.Exact, teeth.Lasts = true, 10*time.Minute
	fresh := beside("rollout", 600, 20, 650)
	fresh.Replicas, fresh.FirstMiB, fresh.Rate, fresh.Waits, fresh.Again = 10, 50, 10*megabyte, true, true
	rollout := ended(24, "a rollout whose ten pods leak",
		"All ten pods of a Deployment take 10 MB a second each, and so does each of their replacements, for 3 minutes.", fresh)
	rollout.Smallest, rollout.Lasts, rollout.Whole = map[string]int{fresh.Name: Any}, 3*time.Minute, true
	return []Scenario{reserved, teeth, rollout, crowded()}
}

// crowded is a leak on a node with many pods, which use its CPUs.
func crowded() Scenario {
	crowd, hog := beside("crowd", 1, 4, 16), leaks(leakApp, 100*megabyte, aboveMiB)
	crowd.Replicas, hog.CPU = 110, "300m"
	busy := Pod{Workload: node.Workload{Name: "busy", AsksMiB: 16, LimitMiB: 64, Flags: []string{"--spins=1"}}, CPU: "600m", Waits: true}
	busy.Replicas = int32(runtime.NumCPU()) //nolint:gosec // no machine has two billion
	s := ended(25, "110 small pods and a hog on busy CPUs",
		"Pods with CPU requests of 600m use all CPUs, beside 110 small pods. A pod takes 100 MB a second until it is ended. How late is the eviction?",
		hog, busy, crowd)
	saturate, leak := begin(busy.Name), begin(hog.Name)
	saturate.What, leak.Wait = "all CPUs are in use", after(10*time.Second)
	s.Steps = []Step{saturate, leak}
	return s
}

// killEvictd ends evictd's process as a crash would; without evictd nothing happens.
func killEvictd(ctx context.Context, t *turn) error {
	if t.arm == kubeletArm {
		return nil
	}
	return t.Node.Kill(ctx)
}
