package usage

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/evictd/evictd/internal/filetree"
)

// processes are the processes of containers.
type processes struct {
	byContainer map[string][]int
	// unread is why each container may have more of them: the container of some process
	// could not be determined.
	unread error
}

// processesOf returns the processes of containers by the containers' ids. A process belongs
// to the container whose id is in the path of its cgroup, the outermost one where there are
// several: a container may make groups below its own.
//
// The list of processes in the container's cgroup would be shorter to read, but it has only
// the numbers of the reader's PID namespace, and 0 for all others. /proc/<pid>/cgroup is
// readable without rights and has the numbers of the /proc that is read.
func processesOf(t *filetree.Turn, proc string, wanted map[string]bool) (*processes, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("looking for the pods' processes: %w", err)
	}
	found := &processes{byContainer: make(map[string][]int, len(wanted))}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue // not a process
		}
		if late := t.Breathe(); late != nil {
			return nil, late
		}
		content, err := os.ReadFile(filepath.Join(proc, entry.Name(), "cgroup")) //nolint:gosec // below the host's /proc
		if err != nil {
			found.unread = cmp.Or(found.unread, unlessEnded(err))
			continue
		}
		if id := containerIn(string(content), wanted); id != "" {
			found.byContainer[id] = append(found.byContainer[id], pid)
		}
	}
	return found, nil
}

// of returns the processes of the pod's containers, and why there may be more. A running
// container has processes. Where none was found they are not visible from here, or the
// runtime names cgroups differently.
func (p *processes) of(pod *NodePod) (all []int, hidden error) {
	for _, container := range pod.Containers {
		its := p.byContainer[container]
		if len(its) == 0 {
			hidden = fmt.Errorf("container %.12s runs, and no process of it was found", container)
		}
		all = append(all, its...)
	}
	if len(pod.Containers) > 0 {
		hidden = cmp.Or(p.unread, hidden)
	}
	return all, hidden
}

// containerIn returns the id of the container that a /proc/<pid>/cgroup belongs to: one
// line on cgroup v2, one for each hierarchy on v1,
//
//	0::/kubepods.slice/kubepods-pod1234.slice/cri-containerd-<id>.scope/below
//	4:memory:/kubepods/burstable/pod1234/<id>
func containerIn(content string, wanted map[string]bool) string {
	for line := range strings.Lines(content) {
		for name := range strings.SplitSeq(strings.TrimSpace(line), "/") {
			name = strings.TrimSuffix(name, ".scope")
			if id := name[strings.LastIndexByte(name, '-')+1:]; wanted[id] {
				return id
			}
		}
	}
	return ""
}
