package main

import (
	"cmp"
	"context"
	"time"

	"github.com/evictd/evictd/test/internal/node"
)

const (
	fillerApp = "filler"
	// fastFill is the rate of what fills the disk, in bytes a second.
	fastFill = 200 * megabyte
	// diskAboveMiB and diskVariesMiB are how far above evictd's line a run begins: 5 to 15 s of
	// the fast fill, so that the kubelet, which looks every 10 s, looks at different moments.
	diskAboveMiB, diskVariesMiB = 1000, 2000
	// roomMiB is memory that no scenario of the disk uses up.
	roomMiB = 3000
	// stopsAtPercent is where a fill ends that does not fill the whole disk: below all lines.
	stopsAtPercent = 8
)

// diskScenarios are those of the node's filesystem.
func diskScenarios() []Scenario {
	all := append(fillScenarios(), unusedImages(), hostFile(), deletedFile())
	for i := range all {
		s := &all[i]
		s.Signal, s.AboveMiB = node.ImageSpace, roomMiB
		s.DiskAboveMiB, s.DiskVariesMiB = cmp.Or(s.DiskAboveMiB, diskAboveMiB), cmp.Or(s.DiskVariesMiB, diskVariesMiB)
		s.Pods = append(s.Pods, keepers()...)
	}
	return all
}

// keepers are pods that have held some of the disk for long.
func keepers() []Pod {
	return []Pod{
		{Workload: node.Workload{Name: "keeper-volume", AsksMiB: 20, LimitMiB: 100}, Grows: &Growth{Path: "/data/kept", MiB: 500}},
		{Workload: node.Workload{Name: "keeper-layer", AsksMiB: 20, LimitMiB: 100}, Grows: &Growth{Path: "/kept", MiB: 300}},
	}
}

// fills is a pod that fills the disk until it is ended.
func fills(flags []string, grows *Growth) Pod {
	return Pod{Workload: node.Workload{Name: fillerApp, AsksMiB: 50, LimitMiB: 400, Flags: flags}, Grows: grows, Waits: true}
}

// fillScenarios are one pod that fills the disk, by each of the ways that count for the pod.
func fillScenarios() []Scenario {
	const whole = diskSize / mebibyte
	scenario := func(number int, name, what string, filler Pod) Scenario {
		return ended(number, name,
			"A pod fills the disk at 200 MB a second with "+what+", until it is ended. Two others have held 500 and 300 MiB of it for long.", filler)
	}
	return []Scenario{
		scenario(10, "an emptyDir fills the disk", "a file in an emptyDir", fills(nil, &Growth{Path: "/data/fill", MiB: whole, Rate: fastFill})),
		scenario(11, "a log fills the disk", "its log, as fast as the runtime takes it", fills([]string{"--output-bytes=32Gi", "--output-rate=200M"}, nil)),
		scenario(12, "a writable layer fills the disk", "a file in its writable layer", fills(nil, &Growth{Path: "/fill", MiB: whole, Rate: fastFill})),
	}
}

// unusedImages is space that the kubelet gives back by itself.
func unusedImages() Scenario {
	const old, fresh, pause = 12, 8, 3 * time.Second
	return Scenario{
		Number: 13, Name: "unused images fill the disk",
		What:         "The node has 1.5 GiB of old images that no pod uses, and further ones come, 1 GiB in all, to below the kubelet's line. The kubelet removes the old ones by itself: no pod needs to be evicted.",
		DiskAboveMiB: 200, DiskVariesMiB: 200,
		Before: hadImages(old),
		Steps: []Step{{What: "the incident begins", Do: func(ctx context.Context, t *turn) error {
			return t.imports(ctx, fresh, pause)
		}}},
		Lasts: 90 * time.Second, Whole: true,
	}
}

// hostFile is space that belongs to no pod.
func hostFile() Scenario {
	return Scenario{
		Number: 14, Name: "a host file fills the disk",
		What: "A process of the host fills the disk at 200 MB a second, to 8 % of it, with a file that stays. In the end all pods together hold less than what is missing: no eviction would help.",
		Steps: []Step{{What: "the incident begins", Do: func(_ context.Context, t *turn) error {
			return t.hostRuns(t.growth(&Growth{Path: t.hostsFile(), Rate: fastFill, StopsAtPercent: stopsAtPercent})...)
		}}},
		Lasts: 90 * time.Second, Whole: true,
	}
}

// deletedFile is space of a pod that the kubelet does not count for it.
func deletedFile() Scenario {
	filler := fills(nil, &Growth{Path: "/data/fill", Rate: fastFill, Deleted: true, StopsAtPercent: stopsAtPercent})
	s := ended(15, "a deleted file is held open",
		"A pod fills the disk at 200 MB a second, to 8 % of it, with a file in its emptyDir that is deleted and still open. No directory has it: neither the kubelet nor evictd by its default source counts it for the pod. Its end alone would help; that of any other pod would not.",
		filler)
	s.Lasts = 90 * time.Second
	return s
}
