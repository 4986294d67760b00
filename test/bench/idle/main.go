// Command idle measures what calm agents cost, with a real API server. Each is the real binary in dry run, with the
// shipped account, rights and policies, and with a token and a node of its own, which exists in the API alone.
//
// `make bench-idle` measures one agent, whose node has as many pods as a kubelet accepts, each with a pod cgroup.
// `make bench-agents` measures the API server of many.
package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/evictdtest"
	"github.com/evictd/evictd/test/internal/measure"
)

// bench is one run.
type bench struct {
	window       time.Duration // how long one measurement takes
	agents, pods int           // pods are those of each node, beside the agent's
	dir          string
	cluster      *cluster.Cluster
}

func main() { os.Exit(measure.Run("idle", run)) }

func run(ctx context.Context, arguments []string) error {
	const maxPods = 110 // what a kubelet takes by default
	b := &bench{}
	flags := flag.NewFlagSet("idle", flag.ContinueOnError)
	flags.DurationVar(&b.window, "window", time.Minute, "how long one measurement takes")
	flags.IntVar(&b.agents, "agents", 1, "agents, each on a node of its own: of one its own cost is measured, of more the API server's")
	flags.IntVar(&b.pods, "pods", maxPods, "pods on each node, beside the agent's")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if b.window < time.Second || b.agents < 1 || b.pods < 0 {
		return errors.New("a window of at least one second, and at least one agent")
	}
	return cluster.With(ctx, "idle", func(c *cluster.Cluster, dir string) (err error) {
		b.cluster, b.dir = c, dir
		// The DaemonSet goes before there is a node: without a kubelet the agents' pods are made here.
		if _, err = c.Kubectl(ctx, "", "apply", "-f", "../deploy/daemonset.yaml"); err != nil {
			return err
		}
		err = b.cluster.Client().AppsV1().DaemonSets(evictdtest.AccountName).Delete(ctx, evictdtest.AccountName, metav1.DeleteOptions{})
		if err != nil {
			return err
		}
		if b.agents > 1 {
			return b.measureServer(ctx)
		}
		return b.measureAgent(ctx)
	})
}
