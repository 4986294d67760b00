package checks

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/hostinfo"
	"github.com/evictd/evictd/internal/kernelfile"
	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

func configuration(_ context.Context, in *Inputs) Result {
	const defaults = "the checks below are of the default configuration"
	warnings := in.Configuration.Warnings(func(signal pressure.Signal) int64 { return in.Sample.Of(signal).Capacity })
	switch {
	case in.Refused != nil:
		return missing(oneLine(in.Refused), "evictd goes on with the configuration before, and after a start it evicts no pod; "+defaults,
			"fix each field that is named; evictd config validate checks a file")
	case in.File == "":
		return degraded("no file is named", defaults, "name the file that evictd run gets, as by --config=/etc/evictd/evictd.yaml")
	case len(warnings) > 0:
		return degraded(in.File+" is valid: "+strings.Join(warnings, "; "),
			"evictd does what the file says, which is probably not meant", "change the fields that are named")
	case in.Configuration.DryRun:
		return ok(in.File + " is valid; it is a dry run, which evicts no pod")
	default:
		return ok(in.File + " is valid; evictd evicts pods")
	}
}

func cgroups(_ context.Context, in *Inputs) Result {
	h, err := kernelfile.HierarchyOf(filepath.Join("/", in.HostRoot, "sys/fs/cgroup"))
	version := "version 1"
	if h.Unified {
		version = "version 2"
	}
	switch {
	case err != nil:
		return missing(oneLine(err), "what pods use is not known, and evictd does not start",
			"mount the host's /sys/fs/cgroup below --host-root, as deploy/daemonset.yaml does")
	case h.PIDs == "":
		return degraded(version+", with the memory controller and without the pids controller",
			"no pod is evicted for pid.available", "enable the pids controller for the pods' cgroup")
	case !h.Unified:
		return degraded(version+", with the controllers memory and pids",
			"stalls of the pods alone are not seen, and OOM kills only by the pods' statuses",
			"boot the node with cgroup v2; Kubernetes no longer develops version 1")
	default:
		return ok(version + ", with the controllers memory and pids")
	}
}

func kubepods(_ context.Context, in *Inputs) Result {
	found := fmt.Sprintf("%s, pods: %d", in.Kubepods, in.Pods)
	switch {
	case in.NoPods != nil:
		return missing(oneLine(in.NoPods), "what pods use is not known, and evictd does not start",
			"check that a kubelet runs here, or name the cgroup by --kubepods-cgroup")
	case in.UnreadPods != nil:
		return degraded(found+"; "+oneLine(in.UnreadPods), "a pod without figures is not a candidate", "look at the files that are named")
	case in.Pods == 0:
		return degraded(found, "where pods run on this node, none of them is evicted for memory or PIDs, and evictd does not get ready",
			"name the cgroup that has the pods by --kubepods-cgroup")
	default:
		return ok(found)
	}
}

// reading says whether evictd can read a signal.
func (in *Inputs) reading(signal pressure.Signal) Result {
	seen, why := in.Sample.Of(signal), "it could not be read"
	if seen.Err != nil {
		why = oneLine(seen.Err)
	}
	found, uncounted := in.amounts(signal, &seen), in.uncounted(signal)
	switch {
	case seen.State == pressure.Absent && signal == pressure.AllocatableMemoryAvailable:
		return ok("not in force: " + why)
	case seen.State == pressure.Absent:
		return degraded("this node has no such signal: "+why, "its threshold is never met", "remove the threshold, or leave it to other nodes")
	case seen.State != pressure.Known:
		return missing(why, "evictd does not start, or evicts no pod for this signal", "fix what is named; docs/signals.md says what is read")
	case uncounted != "":
		return degraded(found+"; "+uncounted, "evictd may evict pods for memory that could be had without",
			`write memoryAvailable: workingSet; docs/signals.md, "ZFS"`)
	default:
		return ok(found)
	}
}

// uncounted says what else could be had of memory.available and is not counted; "" is nothing.
func (in *Inputs) uncounted(signal pressure.Signal) string {
	if signal != pressure.MemoryAvailable || in.Configuration.MemoryAvailable == pressure.WorkingSet {
		return ""
	}
	bytes, err := hostinfo.ReclaimableARC(in.HostRoot)
	switch {
	case err != nil:
		return err.Error()
	case bytes > 0:
		return "the cache of ZFS (ARC) can give back " + rank.Bytes(bytes) + ", which MemAvailable does not count"
	default:
		return ""
	}
}

// amounts says what there is, where, and where the thresholds are.
func (in *Inputs) amounts(signal pressure.Signal, seen *pressure.Observation) string {
	text := fmt.Sprintf("%s of %s", wording.Figure(signal, seen.Available), wording.Amount(signal, seen.Capacity))
	if directory := in.Directories[signal]; directory != "" {
		text += fmt.Sprintf(" on the filesystem of %s (device %d)", directory, seen.Device)
	}
	parts := []string{text}
	for _, t := range in.Configuration.Thresholds() {
		if t.Signal == signal {
			parts = append(parts, strings.ToLower(t.Kind())+" threshold "+wording.Amount(signal, t.Quantity.Of(seen.Capacity)))
		}
	}
	return strings.Join(parts, "; ")
}

func wakeUp(wake *pressure.WakeState) Result {
	if wake.Err != nil {
		return degraded("no trigger: "+oneLine(wake.Err),
			"evictd samples by pacing alone, which is 10 ms near a threshold; evictions do not depend on wake-ups",
			`nothing is needed; docs/signals.md, "Wake-ups", says what each source needs`)
	}
	return ok(fmt.Sprintf("the kernel accepts a trigger on %s, with a window of %v", wake.Path, wake.Window))
}

// podDisk tries the source of the pods' disk use.
func podDisk(ctx context.Context, in *Inputs) Result {
	const follows = "what pods use of the disks is not known, and no pod is evicted for disk"
	do := `README.md, "Platform notes", says what to do about the kubelet's certificate; see right/get nodes/stats`
	if in.Configuration.Disk.Source == config.DiskNode {
		do = `add the component deploy/components/disk-node; docs/signals.md, "Rights"`
	}
	unseen, err := in.Disk(ctx)
	switch {
	case err != nil && slices.ContainsFunc(in.Configuration.Thresholds(), func(t pressure.Threshold) bool { return t.Signal.OnDisk() }):
		return missing(oneLine(err), follows, do)
	case err != nil:
		return degraded(oneLine(err), follows, do)
	case unseen:
		return degraded("by the kubelet's Summary images are on a filesystem that evictd does not see",
			"imagefs.available and imagefs.inodesFree are read of nodefs, and the images' filesystem is left to the kubelet",
			`mount the images' directory; README.md, "Platform notes", says where`)
	default:
		return ok("what pods use of the disks can be measured")
	}
}

func kubeletFile(_ context.Context, in *Inputs) Result {
	const follows = "whether the kubelet evicts before evictd is not known, and evictd does not know when it would"
	const do = "mount the kubelet's file, as deploy/kubelet-config.patch.yaml does, and name it by --kubelet-config"
	switch {
	case in.NoKubelet != nil && in.KubeletNamed:
		return missing(oneLine(in.NoKubelet), follows, do)
	case in.NoKubelet != nil:
		return degraded(oneLine(in.NoKubelet), follows, do)
	case len(in.Kubelet.Unread) > 0:
		return degraded(strings.Join(in.Kubelet.Files, ", ")+": "+strings.Join(in.Kubelet.Unread, "; "), "that is left out of the comparison",
			"check whether the kubelet reads and understands it; --kubelet-config names one place")
	default:
		return ok(strings.Join(in.Kubelet.Files, ", "))
	}
}

// kubeletThresholds says whether evictd acts first for one signal.
func kubeletThresholds(f *kubeletconfig.Finding) Result {
	const do = `write the threshold that is named; docs/runbook.md, "Beside the kubelet"`
	switch {
	case f.First:
		return missing(f.Detail, "the kubelet evicts pods before evictd does", do)
	case f.Maybe:
		return degraded(f.Detail, "the kubelet may evict pods before evictd does", do)
	default:
		return ok("evictd acts before the kubelet")
	}
}

func stateDir(_ context.Context, in *Inputs) Result {
	const follows = "after a restart of the container limits and back-offs begin anew, and the start is a careful one"
	if in.StateDir == "" {
		return degraded("no directory is named", follows, "name a directory in a volume by --state-dir, as deploy/daemonset.yaml does")
	}
	if err := state.Try(in.StateDir); err != nil {
		return missing(oneLine(err), follows, "mount a volume there that evictd's user may write to, with 1 MiB of free space")
	}
	return ok(in.StateDir + " can be written to")
}
