package main

import (
	"cmp"
	"context"
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

// leaks is a pod that takes memory until it is ended: 500 MiB at once, the rest at a rate.
func leaks(app string, rate, asksMiB, aboveMiB int64) Pod {
	const first = 500
	uses := first + aboveMiB + endMiB + pastMiB
	return Pod{
		Workload: node.Workload{Name: app, UsesMiB: uses, AsksMiB: asksMiB, LimitMiB: uses + 100},
		FirstMiB: first, Rate: rate, Waits: true,
	}
}

// catalogue returns all scenarios, in order of their numbers.
func catalogue() []Scenario {
	var all []Scenario
	for _, group := range [][]Scenario{leakScenarios(), cacheScenarios(), budgetScenarios(), tenantScenarios(), otherScenarios(), faultScenarios(), diskScenarios()} {
		all = append(all, group...)
	}
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
	const above = 200
	return []Scenario{
		{
			Number: 1, Name: "slow leak", What: "A pod takes 20 MB a second until it is ended.",
			AboveMiB: above, Pods: []Pod{leaks(leakApp, 20*megabyte, 100, above)}, Steps: []Step{begin(leakApp)},
			Smallest: map[string]int{leakApp: 1}, Lasts: 120 * time.Second,
		},
		{
			Number: 2, Name: "fast leak", What: "A pod takes 1 GB a second until it is ended.",
			AboveMiB: 1500, Pods: []Pod{leaks(leakApp, 1000*megabyte, 100, 1500)}, Steps: []Step{begin(leakApp)},
			Smallest: map[string]int{leakApp: 1}, Lasts: 60 * time.Second,
		},
		{
			Number: 5, Name: "two leaks at once", What: "Two pods take 20 MB a second each until they are ended.",
			AboveMiB: above, Pods: []Pod{leaks("leak-a", 20*megabyte, 100, above), leaks("leak-b", 20*megabyte, 100, above)},
			Steps:    []Step{begin("leak-a", "leak-b")},
			Smallest: map[string]int{"leak-a": 1, "leak-b": 1}, Lasts: 120 * time.Second, Whole: true,
		},
		{
			Number: 21, Name: "400 MB/s to the end", What: "A pod takes 400 MB a second until it is ended, on a node without swap: does the node respond meanwhile?",
			AboveMiB: 800, Pods: []Pod{leaks(leakApp, 400*megabyte, 100, 800)}, Steps: []Step{begin(leakApp)},
			Smallest: map[string]int{leakApp: 1}, Lasts: 60 * time.Second,
		},
	}
}

func cacheScenarios() []Scenario {
	const above = 200
	storm := Pod{
		Workload: node.Workload{Name: "storm", UsesMiB: 20, AsksMiB: 2000, LimitMiB: 2200},
		CacheMiB: 2000, Waits: true,
	}
	within := leaks(leakApp, 20*megabyte, 0, above)
	within.AsksMiB = within.UsesMiB
	return []Scenario{
		{
			Number: 3, Name: "page-cache storm",
			What:     "A pod within its request reads 2 GB again and again, more than is left, beside pods that are over their requests. Page cache is available memory: no pod needs to be evicted.",
			AboveMiB: above, Pods: []Pod{
				storm,
				{Workload: node.Workload{Name: "over-a", UsesMiB: 250, AsksMiB: 100, LimitMiB: 300}},
				{Workload: node.Workload{Name: "over-b", UsesMiB: 200, AsksMiB: 50, LimitMiB: 300}},
			},
			Steps:     []Step{begin("storm")},
			Innocents: []string{"storm", "over-a", "over-b"}, Lasts: 60 * time.Second, Whole: true,
		},
		{
			Number: 4, Name: "leak within its request, cache beside",
			What:     "A pod leaks 20 MB a second within its request, beside an idle pod whose page cache is far over its own.",
			AboveMiB: above, Pods: []Pod{
				within,
				{Workload: node.Workload{Name: "holder", UsesMiB: 10, AsksMiB: 8, LimitMiB: 900}, CacheMiB: 600},
			},
			Steps:    []Step{begin(leakApp)},
			Smallest: map[string]int{leakApp: 1}, Innocents: []string{"holder"}, Lasts: 120 * time.Second,
		},
		{
			Number: 18, Name: "a pod thrashes in its own limit",
			What:     "A pod with a limit of 200 MiB reads 600 MiB again and again, while 60 % of the node's memory is in use. With evictd's memoryStall. The node is short of nothing.",
			AboveMiB: standIn*4/10/mebibyte - endMiB, Pods: []Pod{
				{Workload: node.Workload{Name: "reader", UsesMiB: 50, AsksMiB: 100, LimitMiB: 200}, CacheMiB: 600, Waits: true},
			},
			Steps: []Step{begin("reader")}, Config: "memoryStall: {type: full, threshold: 10%, window: 2s}\n",
			Innocents: []string{"reader"}, Lasts: 60 * time.Second, Whole: true,
		},
	}
}

func tenantScenarios() []Scenario {
	const above = 200
	tenant := leaks("tenant", 20*megabyte, 100, above)
	tenant.Top = true
	again := leaks(leakApp, 40*megabyte, 100, above)
	again.Again = true
	return []Scenario{
		{
			Number: 8, Name: "a tenant with top priorities",
			What:     "The pod that leaks 20 MB a second has the highest priority there is; a neighbour without priority is a little over its request. With evictd, a fence is around the tenant.",
			AboveMiB: above, Pods: []Pod{tenant, {Workload: node.Workload{Name: "neighbour", UsesMiB: 300, AsksMiB: 200, LimitMiB: 400}}},
			Steps:    []Step{begin("tenant")},
			Config:   "queues:\n- {name: tenant, podSelector: {matchLabels: {app: tenant}}, properties: {priority.policy: fence}}\n",
			Smallest: map[string]int{"tenant": 1}, Innocents: []string{"neighbour"}, Lasts: 120 * time.Second,
		},
		{
			Number: 9, Name: "it comes back and leaks again",
			What:     "A Deployment whose pod takes 40 MB a second, and so does each of its replacements, for 10 minutes.",
			AboveMiB: above, Pods: []Pod{again}, Steps: []Step{begin(leakApp)},
			Smallest: map[string]int{leakApp: Any}, Lasts: 10 * time.Minute, Whole: true,
		},
	}
}

func otherScenarios() []Scenario {
	const above = 200
	return []Scenario{
		{
			Number: 16, Name: "fork bomb",
			What:     "A pod starts processes without end, below its limits of PIDs and memory. No pod needs to be evicted.",
			AboveMiB: 1000, Pods: []Pod{
				{Workload: node.Workload{Name: "forker", AsksMiB: 400, LimitMiB: 800, Flags: []string{"--forks=100000"}}, Waits: true},
			},
			Steps:     []Step{begin("forker")},
			Innocents: []string{"forker"}, Lasts: 40 * time.Second, Whole: true,
		},
		{
			Number: 17, Name: "a host process takes the memory",
			What:     "A process outside of the pods takes 40 MB a second, to below the kubelet's line, and keeps it. Three pods within their requests are beside it: one of them would be enough. Replacements have another node.",
			AboveMiB: above, Elsewhere: true, Pods: []Pod{
				{Workload: node.Workload{Name: "within", Replicas: 3, UsesMiB: 750, AsksMiB: 800, LimitMiB: 850}},
			},
			Steps: []Step{{What: "the incident begins", Do: func(_ context.Context, t *turn) error {
				return t.hostTakes(above+endMiB-50, 40*megabyte)
			}}},
			Exact: true, Smallest: map[string]int{"within": 1}, Lasts: 60 * time.Second, Whole: true,
		},
	}
}

func faultScenarios() []Scenario {
	const above = 200
	hooked := leaks(leakApp, 20*megabyte, 100, above)
	hooked.PreStop = 10 * time.Second
	return []Scenario{
		{
			Number: 19, Name: "the API server is away",
			What:     "A pod leaks 20 MB a second. 8 s later the API server is killed, and is away for 20 s.",
			AboveMiB: above, Pods: []Pod{leaks(leakApp, 20*megabyte, 100, above)},
			Steps: []Step{
				begin(leakApp),
				{What: "the API server is killed", Wait: after(8 * time.Second), Do: func(_ context.Context, t *turn) error {
					return t.Node.Cluster.Signal(apiServer, syscall.SIGKILL)
				}},
				{What: "the API server starts again", Wait: after(20 * time.Second), Do: func(ctx context.Context, t *turn) error {
					return t.Node.Cluster.StartProcess(ctx, apiServer)
				}},
			},
			Smallest: map[string]int{leakApp: 1}, Lasts: 120 * time.Second,
		},
		{
			Number: 20, Name: "evictd is killed",
			What:     "A pod leaks 20 MB a second, with a preStop hook of 10 s. As soon as it is ended, evictd is killed.",
			AboveMiB: above, Pods: []Pod{hooked},
			Steps:    []Step{begin(leakApp), {What: "evictd is killed, where it runs", Wait: untilEnding, Do: killEvictd}},
			Smallest: map[string]int{leakApp: 1}, Lasts: 120 * time.Second,
		},
	}
}

func budgetScenarios() []Scenario {
	const above = 200
	// It takes all but 60 MiB: less than the kubelet's line leaves.
	second := Pod{
		Workload: node.Workload{Name: "second", UsesMiB: 300 + above + endMiB - 60, AsksMiB: 50, LimitMiB: 1500},
		FirstMiB: 300, Rate: 100 * megabyte, Waits: true,
	}
	polite := leaks(leakApp, 20*megabyte, 100, above)
	polite.PreStop, polite.Grace = 25*time.Second, 40*time.Second
	return []Scenario{
		{
			Number: 6, Name: "the greedy pod has a budget",
			What:     "A pod far over its request has a budget that allows nothing; a second one over its request, without a budget, takes memory to below the kubelet's line and stops.",
			AboveMiB: above, Pods: []Pod{
				{Workload: node.Workload{Name: "greedy", UsesMiB: 1600, AsksMiB: 50, LimitMiB: 1700}, Keeps: 1}, second,
			},
			Exact: true, Steps: []Step{begin("second")},
			Smallest: map[string]int{"second": 1}, Innocents: []string{"greedy"}, Lasts: 60 * time.Second,
		},
		{
			Number: 7, Name: "a preStop hook of 25 s",
			What:     "The pod that leaks 20 MB a second has a preStop hook of 25 s, and goes on leaking meanwhile.",
			AboveMiB: above, Pods: []Pod{polite}, Steps: []Step{begin(leakApp)},
			Smallest: map[string]int{leakApp: 1}, Lasts: 150 * time.Second,
		},
	}
}

// killEvictd ends evictd's process as a crash would; without evictd nothing happens.
func killEvictd(ctx context.Context, t *turn) error {
	if t.arm == kubeletArm {
		return nil
	}
	return t.Node.Kill(ctx)
}
