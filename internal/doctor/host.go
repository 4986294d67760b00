package doctor

import (
	"fmt"

	"github.com/evictd/evictd/internal/kernelfile"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
)

// Host is the node, as the running evictd reads it.
type Host struct {
	// Cgroups returns where the node accounts for memory and tasks.
	Cgroups func() (kernelfile.Hierarchy, error)
	// Kubepods returns the pods' cgroup.
	Kubepods func() (Pods, error)
	// Signal reads one signal, now.
	Signal func(pressure.Signal) Reading
	// WakeUps opens the kernel's wake-ups and returns what became of them.
	WakeUps func() []pressure.WakeState
	// Kubelet returns the kubelet's configuration beside evictd's.
	Kubelet func() Kubelet
	// PodFiles tries to read the pods' files; nil where they are not the source of their disk use.
	PodFiles func() error
	// StateDir is where evictd keeps its state; "" where it keeps none.
	StateDir string
	// TryStateDir writes and removes a file in StateDir.
	TryStateDir func(dir string) error
}

// Pods are the pods' cgroups.
type Pods struct {
	// Group is the cgroup of all pods, relative to the cgroup mount.
	Group string
	// Count is how many pods were read.
	Count int
	// Unread is why some of them could not be read; otherwise nil.
	Unread error
}

// Reading is one reading of a signal.
type Reading struct {
	pressure.Observation
	// Directory is where the filesystem was looked up; "" for other signals.
	Directory string
	// Lacks says what else could be had of memory.available and is not counted; "" is nothing.
	Lacks string
}

func cgroups(look func() (kernelfile.Hierarchy, error)) Finding {
	const name = "cgroups"
	h, err := look()
	version := "version 1"
	if h.Unified {
		version = "version 2"
	}
	switch {
	case err != nil:
		return Finding{
			name, Missing, oneLine(err), "what pods use is not known, and evictd does not start",
			"mount the host's /sys/fs/cgroup below --host-root, as deploy/daemonset.yaml does",
		}
	case h.PIDs == "":
		return Finding{
			name, Degraded, version + ", with the memory controller and without the pids controller",
			"no pod is evicted for pid.available", "enable the pids controller for the pods' cgroup",
		}
	case !h.Unified:
		return Finding{
			name, Degraded, version + ", with the controllers memory and pids",
			"stalls of the pods alone are not seen, and OOM kills only by the pods' statuses",
			"boot the node with cgroup v2; Kubernetes no longer develops version 1",
		}
	default:
		return fine(name, version+", with the controllers memory and pids")
	}
}

func kubepods(look func() (Pods, error)) Finding {
	const name = "kubepods"
	pods, err := look()
	found := fmt.Sprintf("%s, pods: %d", pods.Group, pods.Count)
	switch {
	case err != nil:
		return Finding{
			name, Missing, oneLine(err), "what pods use is not known, and evictd does not start",
			"check that a kubelet runs here, or name the cgroup by --kubepods-cgroup",
		}
	case pods.Unread != nil:
		return Finding{
			name, Degraded, found + "; " + oneLine(pods.Unread), "a pod without figures is not a candidate",
			"look at the files that are named",
		}
	case pods.Count == 0:
		return Finding{
			name, Degraded, found, "where pods run on this node, none of them is evicted for memory or PIDs, and evictd does not get ready",
			"name the cgroup that has the pods by --kubepods-cgroup",
		}
	default:
		return fine(name, found)
	}
}

// signals reads memory.available and each signal that has a threshold.
func signals(thresholds []pressure.Threshold, read func(pressure.Signal) Reading) []Finding {
	var findings []Finding
	for _, signal := range pressure.Signals() {
		var lines []pressure.Threshold
		for _, t := range thresholds {
			if t.Signal == signal {
				lines = append(lines, t)
			}
		}
		if len(lines) > 0 || signal == pressure.MemoryAvailable {
			seen := read(signal)
			findings = append(findings, signalFinding(signal, lines, &seen))
		}
	}
	return findings
}

func signalFinding(signal pressure.Signal, lines []pressure.Threshold, seen *Reading) Finding {
	name := "signal/" + signal.String()
	switch {
	case seen.State == pressure.Absent && signal == pressure.AllocatableMemoryAvailable:
		return fine(name, "not in force: "+reason(seen.Err))
	case seen.State == pressure.Absent:
		return Finding{
			name, Degraded, "this node has no such signal: " + reason(seen.Err),
			"its threshold is never met", "remove the threshold, or leave it to other nodes",
		}
	case seen.State != pressure.Known:
		return Finding{
			name, Missing, reason(seen.Err), "evictd does not start, or evicts no pod for this signal",
			"fix what is named; docs/signals.md says what is read",
		}
	case seen.Lacks != "":
		return Finding{
			name, Degraded, amounts(signal, lines, seen) + "; " + seen.Lacks, "evictd may evict pods for memory that could be had without",
			"write memoryAvailable: workingSet; docs/signals.md, \"ZFS\"",
		}
	default:
		return fine(name, amounts(signal, lines, seen))
	}
}

// amounts says what there is, where, and where the thresholds are.
func amounts(signal pressure.Signal, lines []pressure.Threshold, seen *Reading) string {
	text := fmt.Sprintf("%s of %s", wording.Figure(signal, seen.Available), wording.Amount(signal, seen.Capacity))
	if seen.Directory != "" {
		text += fmt.Sprintf(" on the filesystem of %s (device %d)", seen.Directory, seen.Device)
	}
	if len(lines) == 0 {
		return text + "; it has no threshold"
	}
	for i := range lines {
		kind := "soft"
		if lines[i].Hard {
			kind = "hard"
		}
		text += fmt.Sprintf("; %s threshold %s", kind, wording.Amount(signal, lines[i].Quantity.Of(seen.Capacity)))
	}
	return text
}

func reason(err error) string {
	if err == nil {
		return "it could not be read"
	}
	return oneLine(err)
}

func wakeUps(open func() []pressure.WakeState) []Finding {
	var findings []Finding
	for _, state := range open() {
		name := "wake-up/" + string(state.Source)
		if state.Err != nil {
			findings = append(findings, Finding{
				name, Degraded, "no trigger: " + oneLine(state.Err),
				"evictd samples by pacing alone, which is 10 ms near a threshold; evictions do not depend on wake-ups",
				"nothing is needed; docs/signals.md, \"Wake-ups\", says what each source needs",
			})
			continue
		}
		findings = append(findings, fine(name, fmt.Sprintf("the kernel accepts a trigger on %s, with a window of %v", state.Path, state.Window)))
	}
	return findings
}

func stateDir(dir string, try func(string) error) Finding {
	const name, follows = "state-dir", "after a restart of the container limits and back-offs begin anew, and the start is a careful one"
	if dir == "" {
		return Finding{name, Degraded, "no directory is named", follows, "name a directory in a volume by --state-dir, as deploy/daemonset.yaml does"}
	}
	if err := try(dir); err != nil {
		return Finding{name, Missing, oneLine(err), follows, "mount a volume there that evictd's user may write to, with 1 MiB of free space"}
	}
	return fine(name, dir+" can be written to")
}
