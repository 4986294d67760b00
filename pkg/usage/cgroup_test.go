package usage

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/kernelfile"
)

// cgroupMount is where a node mounts its cgroups.
const cgroupMount = "/sys/fs/cgroup"

// childVariable makes the test binary run as the process in a pod's cgroup.
const childVariable = "EVICTD_USAGE_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		if err := child(); err != nil {
			fmt.Println("fault:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child reads commands from its standard input, one per line, and answers each with a line:
// anonymous MIB, shared MIB, cache MIB FILE, join KIB FILE…. It keeps what it allocated
// until its input ends.
func child() error {
	var kept [][]byte
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		words := strings.Fields(orders.Text())
		n, err := strconv.Atoi(words[1])
		if err != nil {
			return err
		}
		size, flags := n<<20, unix.MAP_ANONYMOUS|unix.MAP_POPULATE|unix.MAP_SHARED
		switch words[0] {
		case "anonymous":
			flags = flags&^unix.MAP_SHARED | unix.MAP_PRIVATE
		case "cache":
			err, size = fillCache(words[2], size), 0
		case "join":
			for _, procs := range words[2:] {
				err = errors.Join(err, os.WriteFile(procs, []byte(strconv.Itoa(os.Getpid())), 0o644))
			}
			size = n << 10
		}
		var memory []byte
		if err == nil && size > 0 {
			memory, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, flags)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", orders.Text(), err)
		}
		kept = append(kept, memory)
		fmt.Println("done")
	}
	for _, memory := range kept {
		if memory != nil {
			_ = unix.Munmap(memory)
		}
	}
	return orders.Err()
}

// fillCache writes a file and reads it again, with little memory of its own.
func fillCache(path string, size int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for range size / len(block) {
		if _, err := f.Write(block); err != nil {
			return err
		}
	}
	for at := int64(0); at < int64(size); at += int64(len(block)) {
		if _, err := f.ReadAt(block, at); err != nil {
			return err
		}
	}
	return nil
}

// realNode is a set of cgroups of this machine below a group of the test.
type realNode struct {
	tb        testing.TB
	hierarchy kernelfile.Hierarchy
	kubepods  string
}

// newRealNode makes a kubepods cgroup, or skips the test where that is not allowed.
func newRealNode(tb testing.TB) *realNode {
	tb.Helper()
	h, err := kernelfile.HierarchyOf(cgroupMount)
	if err != nil {
		tb.Skipf("SKIP: %v", err)
	}
	if os.Geteuid() != 0 {
		tb.Skip("SKIP: only root may make cgroups")
	}
	n := &realNode{tb: tb, hierarchy: h}
	n.kubepods = fmt.Sprintf("/evictd-usage-test-%d-%s/kubepods", os.Getpid(), strings.NewReplacer("/", "-", "#", "-").Replace(tb.Name()))
	for _, class := range []string{"", "/burstable", "/besteffort"} {
		n.group(n.kubepods + class)
	}
	return n
}

// roots returns the directories of the hierarchies that a pod has a group in.
func (n *realNode) roots() []string {
	if n.hierarchy.Unified || n.hierarchy.PIDs == "" {
		return []string{n.hierarchy.Memory}
	}
	return []string{n.hierarchy.Memory, n.hierarchy.PIDs}
}

// group makes a group and its parents; they are removed after the test.
func (n *realNode) group(group string) {
	n.tb.Helper()
	for _, root := range n.roots() {
		dir := root
		for name := range strings.SplitSeq(strings.TrimPrefix(group, "/"), "/") {
			if n.hierarchy.Unified {
				n.enable(dir)
			}
			dir = filepath.Join(dir, name)
			err := os.Mkdir(dir, 0o755)
			if errors.Is(err, os.ErrExist) {
				continue
			}
			if errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) {
				n.tb.Skipf("SKIP: the cgroups cannot be written: %v", err)
			}
			must(n.tb, err)
			made := dir
			n.tb.Cleanup(func() { n.rmdir(made) })
		}
	}
}

// enable switches the controllers on for the groups below a directory of cgroup v2.
func (n *realNode) enable(dir string) {
	n.tb.Helper()
	control := filepath.Join(dir, "cgroup.subtree_control")
	enabled, err := os.ReadFile(control)
	must(n.tb, err)
	for _, controller := range []string{"memory", "pids"} {
		if slices.Contains(strings.Fields(string(enabled)), controller) {
			continue
		}
		if err := os.WriteFile(control, []byte("+"+controller), 0o644); err != nil {
			n.tb.Skipf("SKIP: the controller %s cannot be enabled: %v", controller, err)
		}
	}
}

// rmdir removes a group. An ended process may occupy it for a moment.
func (n *realNode) rmdir(dir string) {
	n.tb.Helper()
	var err error
	if !patiently(func() bool {
		err = os.Remove(dir)
		return err == nil || errors.Is(err, os.ErrNotExist)
	}) {
		n.tb.Errorf("removing the group: %v", err)
	}
}

// patiently looks again and again whether the kernel has done something, for 2 minutes.
func patiently(done func() bool) bool {
	for end := time.Now().Add(2 * time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// procs returns the files through which a process joins a group.
func (n *realNode) procs(group string) []string {
	files := make([]string, 0, 2)
	for _, root := range n.roots() {
		files = append(files, filepath.Join(root, group, "cgroup.procs"))
	}
	return files
}

// process is a child of the test.
type process struct {
	tb      testing.TB
	command *exec.Cmd
	orders  io.WriteCloser
	answers *bufio.Scanner
}

// start starts a child. It ends before the test does, and before earlier groups are removed.
func start(tb testing.TB) *process {
	tb.Helper()
	self, err := os.Executable()
	must(tb, err)
	p := &process{tb: tb, command: exec.Command(self)}
	p.command.Env = append(os.Environ(), childVariable+"=1", "GOGC=off", "GORACE=", "GOCOVERDIR="+tb.TempDir())
	p.command.Stderr = os.Stderr
	p.orders, err = p.command.StdinPipe()
	must(tb, err)
	output, err := p.command.StdoutPipe()
	must(tb, err)
	p.answers = bufio.NewScanner(output)
	must(tb, p.command.Start())
	tb.Cleanup(p.end)
	return p
}

// do sends a command and waits until it is done.
func (p *process) do(format string, args ...any) {
	p.tb.Helper()
	if _, err := fmt.Fprintf(p.orders, format+"\n", args...); err != nil {
		p.tb.Fatal(err)
	}
	if !p.answers.Scan() || p.answers.Text() != "done" {
		p.tb.Fatalf("the child answers %q, %v", p.answers.Text(), p.answers.Err())
	}
}

// end ends the child; a second call does nothing.
func (p *process) end() {
	_ = p.orders.Close()
	if p.command.ProcessState != nil {
		return
	}
	if err := p.command.Wait(); err != nil {
		p.tb.Errorf("the child: %v", err)
	}
}

// threads returns how many threads the child has.
func (p *process) threads() int64 {
	p.tb.Helper()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.command.Process.Pid))
	must(p.tb, err)
	return int64(len(tasks))
}

// TestRealPod compares the kernel's accounting with what processes in a pod's containers were told to use. Tasks in
// groups that a container has made below its own belong to the pod, with all their threads. Page cache is neither
// anonymous nor shared.
func TestRealPod(t *testing.T) {
	const anonymous, shared, cache, withCache = 64, 32, 128, "with page cache" // MiB
	// The kernel adds the counts of each CPU in batches (MEMCG_CHARGE_BATCH, 64 pages), so a figure may lack the most
	// recent ones.
	const batches = mib
	const more, slack = (podSlack - batches) / 2, (podSlack + batches) / 2
	n := newRealNode(t)
	pod, tree := n.kubepods+"/burstable/pod"+burstableUID, mustOpen(t, cgroupMount, n.kubepods)
	n.group(pod + "/container")
	// The kernel may charge a group for the group below it.
	if pods, err := tree.Collect(nil); err != nil || len(pods) > 1 || len(pods) == 1 && pods[0].Anonymous+pods[0].Shared+pods[0].Tasks > 0 {
		t.Errorf("without a process: %+v, %v", pods, err)
	}
	n.group(pod + "/other/inner/deeper")
	p, nested := n.inhabit(pod), start(t)
	nested.do("join 64 %s", strings.Join(n.procs(pod+"/other/inner/deeper"), " "))
	p.do("anonymous %d", anonymous)
	p.do("shared %d", shared)
	for _, step := range []string{"at first", withCache} {
		if step == withCache {
			p.do("cache %d %s", cache, filepath.Join(disk(t), "file"))
		}
		few := p.threads() + nested.threads()
		// While another reader on the machine adds up the counts of the CPUs, the kernel does
		// not wait for it (mm/memcontrol.c, mem_cgroup_flush_stats) and shows the previous sum,
		// at most two seconds old.
		var use Pod
		patiently(func() bool { use = podOf(t, tree, burstableUID); return use.Shared >= (shared-1)*mib })
		many := p.threads() + nested.threads()
		near(t, step+", anonymous", use.Anonymous, anonymous*mib+more, slack)
		near(t, step+", shared", use.Shared, shared*mib+more, slack)
		if use.WorkingSet < use.Anonymous+use.Shared {
			t.Errorf("%s, the working set %d is less than anonymous %d plus shared %d", step, use.WorkingSet, use.Anonymous, use.Shared)
		}
		if counted := n.hierarchy.PIDs != ""; use.TasksKnown != counted || counted && (use.Tasks < few || use.Tasks > many) {
			t.Errorf("%s, tasks are %d, known %t; want %d to %d", step, use.Tasks, use.TasksKnown, few, many)
		}
	}
	p.end()
	nested.end()
	for _, group := range []string{"/container", "/other/inner/deeper", "/other/inner", "/other", ""} {
		n.rmdir(filepath.Join(n.hierarchy.Memory, pod, group))
	}
	if pods, err := tree.Collect(nil); err != nil || len(pods) != 0 {
		t.Errorf("after its end: %+v, %v", pods, err)
	}
	if present, err := tree.Present(burstableUID); err != nil || present {
		t.Errorf("after its end, Present is %t, %v", present, err)
	}
}

// TestRealPodsComeAndGo makes and removes pods, each with a UID of its own, while they are read: none of
// them is ever a fault, and one that stays is always found.
func TestRealPodsComeAndGo(t *testing.T) {
	n := newRealNode(t)
	n.group(n.kubepods + "/pod" + guaranteedUID)
	if n.hierarchy.Unified {
		n.enable(filepath.Join(cgroupMount, n.kubepods, "burstable")) // as the kubelet does
	}
	p := start(t)
	p.do("join 64 %s", strings.Join(n.procs(n.kubepods+"/pod"+guaranteedUID), " "))
	tree := mustOpen(t, cgroupMount, n.kubepods)
	churned := make(chan error, 1)
	go func() {
		for i := range 300 {
			for _, root := range n.roots() {
				dir := filepath.Join(root, n.kubepods, "burstable", fmt.Sprintf("pod%d", i))
				if err := errors.Join(os.Mkdir(dir, 0o755), os.Remove(dir)); err != nil {
					churned <- err
					return
				}
			}
		}
		churned <- nil
	}()
	var pods []Pod
	for rounds := 1; ; rounds++ {
		var err error
		if pods, err = tree.Collect(pods); err != nil {
			t.Errorf("round %d: %v", rounds, err)
		}
		pods = slices.DeleteFunc(pods, func(p Pod) bool { return p.Unused })
		if len(pods) != 1 || pods[0].UID != guaranteedUID {
			t.Errorf("round %d: pods are %+v", rounds, pods)
		}
		select {
		case err := <-churned:
			if err != nil {
				t.Error(err)
			}
			t.Logf("read in %d rounds", rounds)
			return
		default:
		}
	}
}

// BenchmarkCollect110 reads 110 pods of this machine.
func BenchmarkCollect110(b *testing.B) {
	const count = 110
	b.Run("real", func(b *testing.B) {
		n, groups := newRealNode(b), make([]string, count)
		for i := range groups {
			groups[i] = fmt.Sprintf("%s/burstable/pod%08d-aaaa-4bbb-8ccc-%012d", n.kubepods, i, i)
			n.group(groups[i])
		}
		p := start(b)
		for _, group := range groups {
			p.do("join 64 %s", strings.Join(n.procs(group), " "))
		}
		tree := mustOpen(b, cgroupMount, n.kubepods)
		pods, err := tree.Collect(nil) // which opens the files
		must(b, err)
		b.ReportAllocs()
		for b.Loop() {
			if pods, err = tree.Collect(pods); err != nil || len(pods) != count {
				b.Fatalf("%d pods, %v", len(pods), err)
			}
		}
	})
}
