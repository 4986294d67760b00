// Command demo shows evictd on a real node, in the terminal: a real kubelet, real pods that
// use real memory, a budget that refuses, an eviction, a replacement, and what the kubelet
// does in the same situation. It cleans up after itself. `make demo` runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/node"
)

// namespace is where the demo's pods run.
const namespace = "shop"

func main() { os.Exit(measure.Run("demo", run)) }

func run(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	picture := flags.String("picture", "", "also write the demo's lines, at their times, to this SVG file")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	files, err := node.FilesFromEnvironment()
	if err != nil {
		return err
	}
	d := &demo{terminal: terminal{started: time.Now(), to: os.Stdout}, pods: map[string]corev1.Pod{}}
	err = d.play(ctx, files)
	if err != nil || *picture == "" {
		return err
	}
	if err = os.WriteFile(*picture, d.picture(), 0o644); err != nil { //nolint:gosec // a picture for the README
		return fmt.Errorf("writing the picture: %w", err)
	}
	return nil
}

// demo is one run of the demo.
type demo struct {
	terminal

	node *node.Node
	line int64
	pods map[string]corev1.Pod // by the name of their Deployment
}

// play starts a node, shows every scene on it and removes it.
func (d *demo) play(ctx context.Context, files node.Files) (err error) {
	defer func() { d.say("Everything was removed again: pods, node, cgroups, mounts.") }()
	d.scene(startsIn, "A real Kubernetes node starts on this machine, in a folder of its own.")
	d.node, err = node.Start(ctx, files, d.to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.node.Stop(context.WithoutCancel(ctx))) }()
	for _, s := range scenes() {
		d.scene(s.takes, s.title)
		if err := s.show(d, ctx); err != nil {
			return err
		}
	}
	d.next()
	return nil
}

// startsIn is how long the start of the node takes, about.
const startsIn = 15 * time.Second

// scene is a part of the demo.
type scene struct {
	title string
	takes time.Duration // about, on two cores
	show  func(*demo, context.Context) error
}

func scenes() []scene {
	return []scene{
		{"Install evictd as it ships, in dry run: kubectl apply -f deploy/daemonset.yaml", 5 * time.Second, (*demo).install},
		{"Start three Deployments, and set a threshold that they can cross.", 10 * time.Second, (*demo).press},
		{"In dry run: which pod evictd would evict, and why.", 15 * time.Second, (*demo).dryRun},
		{"Switch dry run off: dryRun: false in the ConfigMap, which the kubelet delivers.", 40 * time.Second, (*demo).forReal},
		{"Afterwards: the Event and the metrics.", 5 * time.Second, (*demo).afterwards},
		{"The same situation without evictd: the kubelet alone, with a threshold of its own.", 30 * time.Second, (*demo).kubeletAlone},
	}
}
