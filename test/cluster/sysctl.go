package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// kubeletSysctls returns the kernel settings that a kubelet changes for the whole machine at
// its start, as paths below /proc/sys.
func kubeletSysctls() []string {
	return []string{
		"vm/overcommit_memory", "vm/panic_on_oom",
		"kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	}
}

// sysctlsBefore returns the settings as they were before a node that crashed, or as they are.
func sysctlsBefore() (values map[string]string, err error) {
	if recorded, missing := os.ReadFile(nodeLock); missing == nil && json.Unmarshal(recorded, &values) == nil {
		return values, nil
	}
	return readSysctls()
}

func readSysctls() (map[string]string, error) {
	values := make(map[string]string)
	for _, name := range kubeletSysctls() {
		content, err := os.ReadFile(filepath.Join("/proc/sys", name)) //nolint:gosec // a name from the list above
		if errors.Is(err, os.ErrNotExist) {
			continue // this kernel lacks it, and the kubelet will say so
		}
		if err != nil {
			return nil, fmt.Errorf("reading the kernel's settings: %w", err)
		}
		values[name] = strings.TrimSpace(string(content))
	}
	return values, nil
}

func restoreSysctls(values map[string]string) error {
	var failures []error
	for name, value := range values {
		path := filepath.Join("/proc/sys", name)
		content, err := os.ReadFile(path) //nolint:gosec // a name from the list above
		if err == nil && strings.TrimSpace(string(content)) == value {
			continue
		}
		if err := os.WriteFile(path, []byte(value), 0o600); err != nil {
			failures = append(failures, fmt.Errorf("restoring the kernel's setting %s: %w", name, err))
		}
	}
	return errors.Join(failures...)
}
