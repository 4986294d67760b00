package cases

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/test/internal/eventually"
	"github.com/evictd/evictd/test/internal/evictdtest"
)

// atOnce is how many cases are played at a time: they wait more than they compute.
const atOnce = "8"

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	isSet := false
	flag.Visit(func(f *flag.Flag) { isSet = isSet || f.Name == "test.parallel" })
	dir, err := os.MkdirTemp("", "evictd-cases-")
	if err == nil {
		defer os.RemoveAll(dir)
		if binary = os.Getenv("EVICTD_BIN"); binary == "" {
			binary = filepath.Join(dir, "evictd")
			err = evictdtest.Build(binary)
		}
	}
	if err == nil && !isSet {
		err = flag.Set("test.parallel", atOnce)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Each file of testdata is a case.
func TestCases(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			c, err := load(file)
			if err != nil {
				t.Fatal(err)
			}
			needsDisk(t, c)
			s := play(t, c)
			if unmet := c.Want.unmet(s); len(unmet) > 0 {
				t.Errorf("%s: what is wanted was not seen:\n    %s\n  about: %s\n  evicted %s, asked for %s\n  what evictd decided or said at the end:%s",
					file, strings.Join(unmet, "\n    "), c.About, list(s.evicted), list(s.asked), s.decisions())
			}
		})
	}
}

// play plays a case to its end.
func play(t *testing.T, c *Case) *Seen {
	t.Helper()
	n := newNode(t, c)
	_, port, err := net.SplitHostPort(newSummary(t, n).Listener.Addr().String())
	n.must(err)
	kubeletPort, err := strconv.ParseInt(port, 10, 32)
	n.must(err)
	api, url := newAPIServer(t, c, n, int32(kubeletPort))
	p := &played{t: t, of: c, node: n, api: api, evictd: start(t, c, n, url)}
	if c.Command != commandRun {
		eventually.Until(t, c.Command+" has ended", func(context.Context) bool { return p.evictd.isOver() }, p.tell)
	} else {
		p.run()
	}
	s := p.seen(p.t.Context())
	if s.ended && s.exit == harnessFailed {
		t.Fatal(s.log)
	}
	return s
}

// played is a case with the processes that it needs.
type played struct {
	t      *testing.T
	of     *Case
	node   *node
	api    *apiServer
	evictd *evictd
}

// run lets happen what happens, until what is expected was seen, or cannot be any more. Then evictd has
// some ticks to do what it should not.
func (p *played) run() {
	p.t.Helper()
	const first = 3 // from then on evictd has readings to compare
	eventually.Until(p.t, "evictd is ready", p.evictd.isReady, p.tell)
	eventually.Ticks(p.t, p.evictd, first, p.tell)
	for i := range p.of.Then {
		if !p.step(&p.of.Then[i]) {
			break
		}
	}
	p.await(func(s *Seen) bool { return len(p.of.Want.unmet(s)) == 0 })
	eventually.Ticks(p.t, p.evictd, p.of.Ticks, p.tell)
}

// await waits until a condition is met, or cannot be any more, and reports whether it is. What it gives up
// with is judged too.
func (p *played) await(met func(*Seen) bool) bool {
	p.t.Helper()
	err := eventually.Poll(p.t.Context(), func(ctx context.Context) bool {
		s := p.seen(ctx)
		return met(s) || s.ended || p.of.Want.contradicted(s)
	})
	if err != nil {
		p.t.Logf("waited %v in vain", eventually.Limit())
	}
	return met(p.seen(p.t.Context()))
}

// step makes a change. It reports false where what it waits for has not come.
func (p *played) step(s *Step) bool {
	p.t.Helper()
	if s.Evicted != "" && !p.await(func(seen *Seen) bool { return slices.Contains(seen.evicted, s.Evicted) }) {
		return false
	}
	if s.Said != "" && !p.await(func(seen *Seen) bool { return contains(seen.said(), s.Said) }) {
		return false
	}
	if s.Available != nil {
		p.node.available(s.Available.Value())
	}
	if s.DiskLeft != nil && !p.evictd.isOver() {
		p.node.fill(s.DiskLeft.Value(), p.evictd.PID())
	}
	for name, text := range s.Files {
		p.node.Write(name, text)
	}
	begun := time.Now()
	for name, over := range s.Pods {
		p.node.must(p.api.change(name, over))
	}
	if s.Ends != "" {
		p.node.ends(s.Ends)
	}
	gone := cmp.Or(s.Ends, s.Deleted)
	if gone != "" {
		p.node.must(p.api.change(gone, nil))
	}
	if len(s.Pods) > 0 || gone != "" {
		eventually.Until(p.t, "evictd knows it", func(ctx context.Context) bool { return p.evictd.watchedSince(ctx, begun) }, p.tell)
	}
	if s.Configuration != nil {
		p.node.must(p.evictd.configure(s.Configuration))
	}
	if s.Ticks > 0 {
		eventually.Ticks(p.t, p.evictd, s.Ticks, p.tell)
	}
	return true
}

func (p *played) seen(ctx context.Context) *Seen {
	s := &Seen{command: p.of.Command}
	p.evictd.seen(ctx, s, p.of, p.node.Root)
	p.api.seen(s)
	return s
}

// tell says what was seen last, for a wait that gives up.
func (p *played) tell() string { return "evictd said last:" + p.seen(p.t.Context()).decisions() }
