package usage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// files is a directory tree: the content of files by path. directory stands for a
// directory.
type files map[string]string

const directory = "\x00directory"

// plant writes the tree to a directory of its own and returns it.
func (f files) plant(tb testing.TB) string {
	tb.Helper()
	root := tb.TempDir()
	for path, content := range f {
		put(tb, filepath.Join(root, path), content)
	}
	return root
}

// put replaces what is at the path.
func put(tb testing.TB, path, content string) {
	tb.Helper()
	remove(tb, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		tb.Fatal(err)
	}
	var err error
	if content == directory {
		err = os.Mkdir(path, 0o755)
	} else {
		err = os.WriteFile(path, []byte(content), 0o644)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

func remove(tb testing.TB, path string) {
	tb.Helper()
	if err := os.RemoveAll(path); err != nil {
		tb.Fatal(err)
	}
}

// version is one of the ways in which a node's cgroups are mounted.
type version int

const (
	v1 version = iota
	v1NoPIDs
	hybrid
	v2
)

func versions() map[string]version {
	return map[string]version{"v1": v1, "v1 without pids": v1NoPIDs, "hybrid": hybrid, "v2": v2}
}

// node returns an empty cgroup mount.
func (v version) node() files {
	switch v {
	case v2:
		return files{"cgroup.controllers": "cpuset cpu io memory pids\n", "memory.stat": "anon 1\n"}
	case hybrid:
		return files{"memory/memory.stat": "cache 1\n", "pids/tasks": "1\n", "unified/cgroup.controllers": "\n"}
	case v1:
		return files{"memory/memory.stat": "cache 1\n", "pids/tasks": "1\n"}
	default:
		return files{"memory/memory.stat": "cache 1\n"}
	}
}

// memoryDir returns where a group accounts for memory.
func (v version) memoryDir(group string) string {
	if v == v2 {
		return group
	}
	return filepath.Join("memory", group)
}

// usageFile returns the name of the file with the usage.
func (v version) usageFile() string {
	if v == v2 {
		return "memory.current"
	}
	return "memory.usage_in_bytes"
}

func (v version) pidsDir(group string) string {
	if v == v2 {
		return group
	}
	return filepath.Join("pids", group)
}

// figures are what a pod's cgroup says.
type figures struct{ usage, anonymous, shared, inactiveFile, tasks int64 }

// add puts a pod's cgroup below the mount.
func (v version) add(f files, group string, n figures) {
	stat := fmt.Sprintf("cache 1\nrss 2\nshmem 3\ninactive_file 4\ntotal_cache 5\ntotal_rss %d\ntotal_rss_huge 6\ntotal_shmem %d\ntotal_inactive_anon 7\ntotal_inactive_file %d\ntotal_active_file 8\n",
		n.anonymous, n.shared, n.inactiveFile)
	if v == v2 {
		stat = fmt.Sprintf("anon %d\nfile 9\nkernel 9\nshmem %d\nanon_thp 9\nshmem_thp 9\ninactive_anon 9\ninactive_file %d\nactive_file 9\n",
			n.anonymous, n.shared, n.inactiveFile)
	}
	f[filepath.Join(v.memoryDir(group), "memory.stat")] = stat
	f[filepath.Join(v.memoryDir(group), v.usageFile())] = fmt.Sprintf("%d\n", n.usage)
	if v != v1NoPIDs {
		f[filepath.Join(v.pidsDir(group), "pids.current")] = fmt.Sprintf("%d\n", n.tasks)
	}
}

// breakages are ways in which a file can be unreadable or make no sense. Each is
// given the path of a good file and spoils it.
func breakages() map[string]func(tb testing.TB, path string) {
	with := func(content string) func(testing.TB, string) {
		return func(tb testing.TB, path string) { tb.Helper(); put(tb, path, content) }
	}
	return map[string]func(testing.TB, string){
		// The kernel answers EIO for the first page of a process's memory, which nothing
		// is mapped at.
		"input/output error": func(tb testing.TB, path string) {
			tb.Helper()
			remove(tb, path)
			if err := os.Symlink("/proc/self/mem", path); err != nil {
				tb.Fatal(err)
			}
		},
		"cut off in a number": func(tb testing.TB, path string) {
			tb.Helper()
			good, err := os.ReadFile(path)
			if err != nil {
				tb.Fatal(err)
			}
			put(tb, path, string(good[:strings.IndexAny(string(good), "0123456789")+1]))
		},
		"negative": func(tb testing.TB, path string) {
			tb.Helper()
			good, err := os.ReadFile(path)
			if err != nil {
				tb.Fatal(err)
			}
			put(tb, path, "-"+strings.ReplaceAll(string(good), " ", " -"))
		},
		"directory": with(directory),
		"empty":     with(""),
		"newline":   with("\n"),
		"NUL bytes": with(strings.Repeat("\x00", 200)),
		"huge":      with(strings.Repeat("total_rss 1\nanon 1\n", 1<<15)),
		"max":       with("max\n"),
		"overflow":  with("99999999999999999999\n"),
		"other":     with("total_rss x\ntotal_shmem y\ntotal_inactive_file z\nanon x\nshmem y\ninactive_file z\n"),
	}
}
