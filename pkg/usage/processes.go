package usage

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/evictd/evictd/internal/filetree"
)

// processesOf returns the processes of containers by the containers' ids, and whether the container of some process
// could not be determined. A process belongs to the container whose id is in the path of its cgroup, the outermost one where there are
// several: a container may make groups below its own.
//
// The list of processes in the container's cgroup would be shorter to read, but it has only
// the numbers of the reader's PID namespace, and 0 for all others. /proc/<pid>/cgroup is
// readable without rights and has the numbers of the /proc that is read.
func processesOf(t *filetree.Turn, proc string, wanted map[string]bool) (found map[string][]int, unread bool, err error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, false, fmt.Errorf("looking for the pods' processes: %w", err)
	}
	found = make(map[string][]int, len(wanted))
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue // not a process
		}
		if late := t.Breathe(); late != nil {
			return nil, false, late
		}
		content, err := os.ReadFile(filepath.Join(proc, entry.Name(), "cgroup")) //nolint:gosec // below the host's /proc
		if err != nil {
			unread = unread || unlessEnded(err) != nil
			continue
		}
		if id := containerIn(string(content), wanted); id != "" {
			found[id] = append(found[id], pid)
		}
	}
	return found, unread, nil
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
