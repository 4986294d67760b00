package checks

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

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
	switch {
	case in.Refused != nil:
		return missing(oneLine(in.Refused), "evictd goes on with the last valid configuration in dry run, or evicts no pod; "+defaults,
			"fix each field that is named; evictd config validate checks a file")
	case in.File == "":
		return degraded("no file is named", defaults, "name the file that evictd run gets, as by --config=/etc/evictd/evictd.yaml")
	case len(in.Warnings) > 0:
		return degraded(in.File+" is valid: "+strings.Join(in.Warnings, "; "),
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
	f := in.Followed
	found := fmt.Sprintf("%s, pods: %d", f.Kubepods, f.Pods)
	switch {
	case f.NoPods != nil:
		return missing(oneLine(f.NoPods), "what pods use is not known, and evictd does not start",
			"check that a kubelet runs here, or name the cgroup by --kubepods-cgroup")
	case f.UnreadPods != nil:
		return degraded(found+"; "+oneLine(f.UnreadPods), "a pod without figures is not a candidate", "look at the files that are named")
	case f.Pods == 0:
		return degraded(found, "where pods run on this node, none of them is evicted for memory or PIDs, and evictd does not get ready",
			"name the cgroup that has the pods by --kubepods-cgroup")
	default:
		return ok(found)
	}
}

func (r *Reading) check(_ context.Context, in *Inputs) Result {
	why := "it could not be read"
	if r.Err != nil {
		why = oneLine(r.Err)
	}
	found, uncounted := r.amounts(in.thresholds()), r.uncounted(in)
	switch {
	case r.State == pressure.Absent && r.Signal == pressure.AllocatableMemoryAvailable:
		return ok("not in force: " + why)
	case r.State == pressure.Absent:
		return degraded("this node has no such signal: "+why, "its threshold is never met", "remove the threshold, or leave it to other nodes")
	case r.State != pressure.Known:
		return missing(why, "evictd does not start, or evicts no pod for this signal", "fix what is named; docs/signals.md says what is read")
	case uncounted != "":
		return degraded(found+"; "+uncounted, "evictd may evict pods for memory that could be had without",
			`write memoryAvailable: workingSet; docs/signals.md, "ZFS"`)
	default:
		return ok(found)
	}
}

// uncounted says what else could be had of memory.available and is not counted; "" is nothing.
func (r *Reading) uncounted(in *Inputs) string {
	if r.Signal != pressure.MemoryAvailable || in.Configuration.MemoryDefinition() != pressure.Kernel {
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
func (r *Reading) amounts(thresholds []pressure.Threshold) string {
	text := fmt.Sprintf("%s of %s", wording.Figure(r.Signal, r.Available), wording.Amount(r.Signal, r.Capacity))
	if r.Directory != "" {
		text += fmt.Sprintf(" on the filesystem of %s (device %d)", r.Directory, r.Device)
	}
	lines := ""
	for i := range thresholds {
		if thresholds[i].Signal != r.Signal {
			continue
		}
		kind := "soft"
		if thresholds[i].Hard {
			kind = "hard"
		}
		lines += fmt.Sprintf("; %s threshold %s", kind, wording.Amount(r.Signal, thresholds[i].Quantity.Of(r.Capacity)))
	}
	if lines == "" {
		lines = "; it has no threshold"
	}
	return text + lines
}

func wakeUp(wake *pressure.WakeState) Result {
	if wake.Err != nil {
		return degraded("no trigger: "+oneLine(wake.Err),
			"evictd samples by pacing alone, which is 10 ms near a threshold; evictions do not depend on wake-ups",
			`nothing is needed; docs/signals.md, "Wake-ups", says what each source needs`)
	}
	return ok(fmt.Sprintf("the kernel accepts a trigger on %s, with a window of %v", wake.Path, wake.Window))
}

func podFiles(_ context.Context, in *Inputs) Result {
	if err := in.PodFiles(); err != nil {
		return in.withoutDisk(err, `add the component deploy/components/disk-node; docs/signals.md, "Rights"`)
	}
	return ok("the pods' files can be read")
}

// withoutDisk is the result where the pods' disk use cannot be measured.
func (in *Inputs) withoutDisk(err error, do string) Result {
	result := degraded(oneLine(err), "what pods use of the disks is not known, and no pod is evicted for disk", do)
	if slices.ContainsFunc(in.thresholds(), func(t pressure.Threshold) bool { return t.Signal.OnDisk() }) {
		result.State = Missing
	}
	return result
}

func (in *Inputs) thresholds() []pressure.Threshold {
	thresholds, _ := in.Configuration.Thresholds() // it was validated
	return thresholds
}

func kubeletFile(f *Followed) Result {
	const follows = "whether the kubelet evicts before evictd is not known, and evictd does not know when it would"
	const do = "mount the kubelet's file, as deploy/kubelet-config.patch.yaml does, and name it by --kubelet-config"
	switch {
	case f.NoKubelet != nil && f.KubeletNamed:
		return missing(oneLine(f.NoKubelet), follows, do)
	case f.NoKubelet != nil:
		return degraded(oneLine(f.NoKubelet), follows, do)
	case len(f.Kubelet.Unread) > 0:
		return degraded(strings.Join(f.Kubelet.Files, ", ")+": "+strings.Join(f.Kubelet.Unread, "; "), "that is left out of the comparison",
			"check whether the kubelet reads and understands it; --kubelet-config names one place")
	default:
		return ok(strings.Join(f.Kubelet.Files, ", "))
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
