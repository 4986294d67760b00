package cgrouptest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// childVariable makes the test binary run as the process in a group.
const childVariable = "EVICTD_CGROUP_TEST_CHILD"

// Main runs a package's tests, or the process that one of them has started. The process can carry out one more order of
// the package: it gets the words behind its name.
func Main(m *testing.M, name string, order func(words []string) (answer string, err error)) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	if err := child(name, order); err != nil {
		fmt.Println("fault:", err)
		os.Exit(1)
	}
}

// child reads orders from its standard input, one per line, and answers each with a line:
// anonymous MIB, shared MIB, cache MIB FILE, join FILE…. It keeps what it allocated
// until its input ends.
func child(name string, order func(words []string) (string, error)) error {
	var kept [][]byte
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		what, rest, _ := strings.Cut(orders.Text(), " ")
		words := strings.Fields(rest)
		var memory []byte
		var answer string
		var err error
		switch what {
		case "anonymous":
			memory, err = mapped(words[0], unix.MAP_PRIVATE)
		case "shared":
			memory, err = mapped(words[0], unix.MAP_SHARED)
		case "cache":
			err = fillCache(words[1], words[0])
		case "join":
			for _, procs := range words {
				err = errors.Join(err, os.WriteFile(procs, []byte(strconv.Itoa(os.Getpid())), 0))
			}
		case name:
			answer, err = order(words)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", orders.Text(), err)
		}
		kept = append(kept, memory)
		fmt.Println("done " + answer)
	}
	for _, memory := range kept {
		if memory != nil {
			_ = unix.Munmap(memory) // and so it is in use until now
		}
	}
	return orders.Err()
}

// mapped takes that many MiB.
func mapped(mebibytes string, flags int) ([]byte, error) {
	n, err := strconv.Atoi(mebibytes)
	if err != nil {
		return nil, err
	}
	return unix.Mmap(-1, 0, n<<20, unix.PROT_READ|unix.PROT_WRITE, flags|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
}

// fillCache writes a file and reads it again, with little memory of its own.
func fillCache(path, mebibytes string) error {
	n, err := strconv.Atoi(mebibytes)
	f, fault := os.Create(path) //nolint:gosec // a test's own
	if err = errors.Join(err, fault); err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // a test's own
	block := make([]byte, 1<<20)
	for range n {
		_, fault = f.Write(block)
		err = errors.Join(err, fault)
	}
	_, fault = f.Seek(0, io.SeekStart)
	_, unread := io.Copy(io.Discard, f)
	return errors.Join(err, fault, unread)
}

// Process is a child of the test.
type Process struct {
	testing.TB

	PID     int
	command *exec.Cmd
	orders  io.WriteCloser
	answers *bufio.Scanner
}

// Start starts a process in a group that it makes. It ends before the test does, and before the group is removed.
func (g *Groups) Start(group string) *Process {
	g.Helper()
	g.Make(group)
	self, err := os.Executable()
	if err != nil {
		g.Fatal(err)
	}
	p := &Process{TB: g.TB, command: exec.Command(self)} //nolint:gosec,noctx // the test itself; End ends it
	p.command.Env = append(os.Environ(), childVariable+"=1", "GOGC=off", "GORACE=", "GOCOVERDIR="+g.TempDir())
	p.command.Stderr = os.Stderr
	orders, unwritable := p.command.StdinPipe()
	output, unreadable := p.command.StdoutPipe()
	if err := errors.Join(unwritable, unreadable, p.command.Start()); err != nil {
		g.Fatal(err)
	}
	p.PID, p.orders, p.answers = p.command.Process.Pid, orders, bufio.NewScanner(output)
	g.Cleanup(p.End)
	g.Move(p, group)
	return p
}

// Move moves a process to a group.
func (g *Groups) Move(p *Process, group string) {
	g.Helper()
	var files []string
	for _, root := range g.Roots() {
		files = append(files, filepath.Join(root, group, "cgroup.procs"))
	}
	p.Do("join %s", strings.Join(files, " "))
}

// Do sends an order and waits until it is carried out.
func (p *Process) Do(format string, args ...any) (answer string) {
	p.Helper()
	p.Send(format, args...)
	p.answers.Scan()
	answer, done := strings.CutPrefix(p.answers.Text(), "done ")
	if !done {
		p.Fatalf("the child answers %q, %v", p.answers.Text(), p.answers.Err())
	}
	return answer
}

// Send sends an order.
func (p *Process) Send(format string, args ...any) {
	p.Helper()
	if _, err := fmt.Fprintf(p.orders, format+"\n", args...); err != nil {
		p.Fatal(err)
	}
}

// Wait waits for the end of the process, by whatever else.
func (p *Process) Wait() error { return p.command.Wait() }

// End ends the process; a second call does nothing.
func (p *Process) End() {
	_ = p.orders.Close()
	if p.command.ProcessState != nil {
		return
	}
	if err := p.Wait(); err != nil {
		p.Errorf("the child: %v", err)
	}
}
