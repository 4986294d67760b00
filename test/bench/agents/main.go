// Command agents measures what many calm agents cost one real API server and its etcd: memory, CPU and
// requests of each, without and with pods that are replaced; how long a stop takes; and what happens when
// the API server is killed and returns. Each agent is a process `evictd run` in dry run, with a node of its
// own, which exists in the API alone, and with the shipped account, rights and policies. `make bench-agents`
// runs it; docs/results has its tables.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/audit"
	"github.com/evictd/evictd/test/internal/evictdtest"
	"github.com/evictd/evictd/test/internal/measure"
)

func main() { os.Exit(measure.Run("agents", run)) }

// bench is one run.
type bench struct {
	agents, pods, stops, restarts int
	window                        time.Duration

	cluster  *cluster.Cluster
	client   kubernetes.Interface // the administrator's
	dir      string               // of the agents' files
	host     *evictdtest.Host
	journal  journal
	running  []*agent
	names    [][]string // by node: its pods
	replaced int        // pods so far
}

func run(ctx context.Context, arguments []string) error {
	const agents, pods, stops, restarts = 200, 10, 5, 3
	b := &bench{}
	flags := flag.NewFlagSet("agents", flag.ContinueOnError)
	flags.IntVar(&b.agents, "agents", agents, "agents at the last level, each on a node of its own; the others are 0 and half")
	flags.IntVar(&b.pods, "pods", pods, "pods on each node, beside the agent's")
	flags.DurationVar(&b.window, "window", time.Minute, "how long each level is measured, and once more while pods are replaced; 0 leaves the levels out")
	flags.IntVar(&b.stops, "stops", stops, "how often all agents are stopped, and let go on")
	flags.IntVar(&b.restarts, "restarts", restarts, "how often the API server is killed")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if b.agents < 2 || b.pods < 1 || b.window < 0 {
		return errors.New("at least 2 agents, 1 pod, and no window below 0")
	}
	return measure.OnCluster(ctx, "agents", func(c *cluster.Cluster, dir string) (err error) {
		b.cluster, b.dir, b.names = c, dir, make([][]string, b.agents)
		b.journal = journal{log: audit.Log{Path: c.AuditLog()}, received: map[string]time.Time{}, watches: map[string]*audit.Event{}}
		b.client, err = kubernetes.NewForConfig(c.RESTConfig())
		if err == nil {
			b.host, err = evictdtest.MakeHost(filepath.Join(dir, "host"))
		}
		defer func() { err = errors.Join(err, b.end()) }()
		for _, part := range []func(context.Context) error{b.manifest, b.nodes, b.levels, b.stop, b.kill} {
			if err == nil {
				err = part(ctx)
			}
		}
		return err
	})
}

// manifest applies the shipped manifest. Its DaemonSet goes before there is a node: without a kubelet the
// agents' pods are made here.
func (b *bench) manifest(ctx context.Context) error {
	if _, err := b.cluster.Kubectl(ctx, "", "apply", "-f", "../deploy/daemonset.yaml"); err != nil {
		return err
	}
	return b.client.AppsV1().DaemonSets(evictdtest.AccountName).Delete(ctx, evictdtest.AccountName, metav1.DeleteOptions{})
}

// nodes makes all nodes and their pods.
func (b *bench) nodes(ctx context.Context) error {
	for i := range b.agents {
		if err := b.makeNode(ctx, i); err != nil {
			return err
		}
	}
	fmt.Printf("\n%s; %d nodes with %d pods each\n", measure.Machine(), b.agents, b.pods)
	return nil
}
