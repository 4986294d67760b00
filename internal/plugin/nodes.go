package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// Defaults of the flags of `nodes`.
const (
	defaultParallel = 16
	defaultTimeout  = 10 * time.Second
)

// nodesFlags are the flags of `nodes`.
type nodesFlags struct {
	parallel int
	timeout  time.Duration
}

func (p *plugin) newNodesCommand() *cobra.Command {
	var flags nodesFlags
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "Print one line for each node's agent: whether it acts, pressure, the nearest threshold, the last eviction",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return p.Usage(fmt.Errorf("nodes takes no arguments and got %q (see %s --help)", args[0], cmd.CommandPath()))
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.check(); err != nil {
				return p.Usage(err)
			}
			return p.nodes(cmd.Context(), &flags, cmd.OutOrStdout(), newProgress(cmd.ErrOrStderr()))
		},
	}
	p.addNamespace(cmd.Flags())
	cmd.Flags().IntVar(&flags.parallel, "parallel", defaultParallel, "how many agents are asked at a time")
	cmd.Flags().DurationVar(&flags.timeout, "timeout", defaultTimeout, "how long each agent has to answer")
	return cmd
}

func (f *nodesFlags) check() error {
	switch {
	case f.parallel < 1:
		return fmt.Errorf("--parallel %d: write 1 or more", f.parallel)
	case f.timeout <= 0:
		return fmt.Errorf("--timeout %s: write a duration above 0, such as 10s", f.timeout)
	default:
		return nil
	}
}

// nodes asks every agent, prints the answers and returns the faults, each a line of its own.
func (p *plugin) nodes(ctx context.Context, flags *nodesFlags, out io.Writer, progress *progress) error {
	c, err := p.open()
	if err != nil {
		return err
	}
	agents, err := c.agents(ctx, "")
	if err != nil {
		return err
	}
	answers, faults := c.askAll(ctx, agents, flags, progress)
	if err = writeTable(out, answers); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return errors.Join(faults...)
}

// askAll asks the agents, so many at a time. Answers and faults are in the order of the agents. A
// missing right is the same for all and is said once.
func (c *cluster) askAll(ctx context.Context, agents []agent, flags *nodesFlags, progress *progress) (answers []*answer, faults []error) {
	all, failed := make([]*answer, len(agents)), make([]error, len(agents))
	var group errgroup.Group
	group.SetLimit(flags.parallel)
	progress.begin(len(agents))
	defer progress.end()
	for i := range agents {
		group.Go(func() error {
			all[i], failed[i] = c.askOne(ctx, &agents[i], flags.timeout)
			progress.step()
			return nil
		})
	}
	_ = group.Wait() // each keeps its own fault
	forbidden := false
	for i := range agents {
		var missing missingRightError
		switch {
		case failed[i] == nil:
			answers = append(answers, all[i])
		case errors.As(failed[i], &missing):
			if !forbidden {
				faults = append(faults, fmt.Errorf("asking the agents: %w", missing))
			}
			forbidden = true
		default:
			faults = append(faults, failed[i])
		}
	}
	return answers, faults
}

func (c *cluster) askOne(ctx context.Context, a *agent, timeout time.Duration) (*answer, error) {
	switch {
	case a.node == "":
		return nil, fmt.Errorf("pod %s is on no node: %s", a.name(), a.stopped)
	case a.stopped != "":
		return nil, fmt.Errorf("node %s: pod %s does not run: %s", a.node, a.name(), a.stopped)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	got, err := c.ask(ctx, a)
	if err != nil {
		return nil, c.unanswered(a, err, timeout)
	}
	return got, nil
}

// progress says on a terminal how many agents have answered. Its zero value says nothing.
type progress struct {
	w  io.Writer // nil where it is no terminal
	mu sync.Mutex
	// done of total agents have answered or failed.
	done, total int
}

func newProgress(w io.Writer) *progress {
	if !isTerminal(w) {
		return &progress{}
	}
	return &progress{w: w}
}

func (p *progress) begin(total int) {
	p.total = total
	p.show()
}

func (p *progress) step() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	p.show()
}

func (p *progress) show() {
	if p.w != nil {
		_, _ = fmt.Fprintf(p.w, "\rasked %d of %d agents", p.done, p.total) // a terminal that is gone needs no progress
	}
}

// end removes the line.
func (p *progress) end() {
	if p.w != nil {
		_, _ = fmt.Fprint(p.w, "\r\x1b[K")
	}
}
