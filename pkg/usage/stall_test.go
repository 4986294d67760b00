package usage

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

const psiText = "some avg10=13.22 avg60=8.96 avg300=2.76 total=14917686\nfull avg10=11.28 avg60=5.15 avg300=1.40 total=8154993\n"

// stalledPods are two pods of each version, one of which met its limits.
func stalledPods(v version) files {
	all := v.Mount()
	const calm, bound = "kubepods/podcalm", "kubepods/burstable/podbound"
	if v == v2 {
		all[calm+"/memory.events"] = "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n"
		all[calm+"/memory.pressure"] = "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
		all[bound+"/memory.events"] = "low 9\nhigh 20\nmax 3\noom 9\noom_kill 9\n"
		all[bound+"/memory.pressure"] = psiText
		return all
	}
	const unlimited = "9223372036854771712"
	stallFiles(all, calm, "0", "0", "4096", unlimited)
	stallFiles(all, bound, "3", "5", "67000000", unlimited)
	stallFiles(all, bound+"/c1", "20", "100", "62300000", "62914560")
	stallFiles(all, bound+"/c2", "0", "7", "4096", "62914560")
	return all
}

// stallFiles adds a group of cgroup v1 with its failures, charges, usage and limit.
func stallFiles(f files, name, failures, charges, used, limit string) {
	dir := "memory/" + name + "/memory."
	f[dir+"failcnt"] = failures + "\n"
	f[dir+"stat"] = "cache 4096\npgpgin " + charges + "\ntotal_pgpgin 999\n"
	f[dir+"usage_in_bytes"] = used + "\n"
	f[dir+"limit_in_bytes"] = limit + "\n"
}

func TestStalls(t *testing.T) {
	t.Parallel()
	onV1 := []Stall{{UID: "bound", LimitHits: 23 + 100}, {UID: "calm"}} // c1 is at its limit
	onV2 := []Stall{{UID: "bound", LimitHits: 23, Waited: 14917686, WaitedKnown: true}, {UID: "calm", Waited: 7, WaitedKnown: true}}
	withoutPSI := stalledPods(v2)
	delete(withoutPSI, "kubepods/podcalm/memory.pressure")
	for name, test := range map[string]struct {
		node files
		want []Stall
	}{
		"v1": {stalledPods(v1), onV1}, "v1 without pids": {stalledPods(v1NoPIDs), onV1}, "hybrid": {stalledPods(hybrid), onV1},
		"v2": {stalledPods(v2), onV2}, "v2 without PSI": {withoutPSI, []Stall{onV2[0], {UID: "calm"}}},
	} {
		got, err := mustOpen(t, test.node.Plant(t), "kubepods").Stalls()
		slices.SortFunc(got, func(a, b Stall) int { return cmp.Compare(a.UID, b.UID) })
		if diff := gocmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v, stalls (-want +got):\n%s", name, err, diff)
		}
	}
}

// A pod on cgroup v1 met a limit of its own when the kernel counted it, or when it used all of the
// limit and was charged more.
func TestLimitHitsOnCgroup1(t *testing.T) {
	t.Parallel()
	hits := func(failures, charges, used string) int64 {
		pods := v1.Mount()
		stallFiles(pods, "kubepods/podone", failures, charges, used, "62914560")
		stalls, err := mustOpen(t, pods.Plant(t), "kubepods").Stalls()
		if err != nil || len(stalls) != 1 {
			t.Fatalf("%+v, %v", stalls, err)
		}
		return stalls[0].LimitHits
	}
	const below, at = "50000000", "62300000"
	for name, test := range map[string]struct {
		before, now int64
		want        bool
	}{
		"nothing happened":           {hits("3", "10", at), hits("3", "10", at), false},
		"the kernel counted it":      {hits("3", "10", below), hits("4", "10", below), true},
		"it is charged at its limit": {hits("3", "10", at), hits("3", "11", at), true},
		"it came to its limit":       {hits("3", "10", below), hits("3", "11", at), true},
		"it is charged below it":     {hits("3", "10", below), hits("3", "11", below), false},
	} {
		if got := test.now > test.before; got != test.want {
			t.Errorf("%s: %d, then %d", name, test.before, test.now)
		}
	}
}

// Unknown is never zero: a pod whose files are spoilt is named and left out.
func TestStallsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for file, version := range map[string]version{
		"kubepods/podcalm/memory.events": v2, "kubepods/podcalm/memory.pressure": v2,
		"memory/kubepods/podcalm/memory.failcnt": v1, "memory/kubepods/podcalm/memory.usage_in_bytes": v1,
		"memory/kubepods/podcalm/memory.limit_in_bytes": v1, "memory/kubepods/burstable/podbound/c2/memory.failcnt": v1,
	} {
		for name, spoil := range spoils() {
			t.Run(filepath.Base(file)+"/"+name, func(t *testing.T) {
				t.Parallel()
				root := stalledPods(version).Plant(t)
				tree := mustOpen(t, root, "kubepods")
				spoil(t, filepath.Join(root, file))
				got, err := tree.Stalls()
				if faults := faultsOf(err); len(faults) != 1 || !strings.Contains(faults[0].Error(), filepath.Base(file)) {
					t.Errorf("error %v; want one that names the file", err)
				}
				if len(got) != 1 || strings.Contains(file, got[0].UID) {
					t.Errorf("stalls %+v, want those of the other pod", got)
				}
			})
		}
	}
}
