package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/node"
)

// lines ends the name of the file to which a pod writes its steps.
const lines = ".lines"

// stage is where one scenario plays: a namespace, and a directory by which its pods are told to
// begin, without the API server.
type stage struct {
	*soak
	namespace string
	control   string
}

// round plays one scenario while one fault is injected, and waits until the node is calm again.
func (s *soak) round(ctx context.Context) (err error) {
	played, meanwhile := pick(s.random, scenarios()), s.pickFault()
	s.say("round %d: %s; meanwhile %s", len(s.rounds)+1, played.name, meanwhile.name)
	st := &stage{soak: s}
	if st.control, err = os.MkdirTemp("", "evictd-soak-"); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer os.RemoveAll(st.control)                     //nolint:errcheck // a temporary folder
	if err = os.Chmod(st.control, 0o755); err != nil { //nolint:gosec // a container looks into it
		return fmt.Errorf("opening a folder to containers: %w", err)
	}
	ns, err := s.node.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "soak-"},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making a namespace: %w", err)
	}
	st.namespace = ns.Name
	if err = st.play(ctx, &played, &meanwhile); err != nil {
		return fmt.Errorf("round %d (%s, %s): %w", len(s.rounds)+1, played.name, meanwhile.name, err)
	}
	if err = st.clear(ctx); err != nil {
		return err
	}
	result := roundResult{scenario: played.name, fault: meanwhile.name}
	if result.evicted, result.wrong, err = st.evicted(played.victims); err != nil {
		return err
	}
	s.rounds = append(s.rounds, result)
	if meanwhile.restarts { // the kubelet delays the restart of a container that has ended twice
		if err := s.node.Renew(ctx); err != nil {
			return fmt.Errorf("replacing evictd's pod: %w", err)
		}
	}
	return s.vitals.take(ctx, s.node)
}

// play prepares a scenario, lets it begin together with the fault, and waits until the fault is over
// and as many victims have gone as the scenario has.
func (st *stage) play(ctx context.Context, played *scenario, fault *fault) error {
	if err := played.prepare(ctx, st); err != nil {
		return fmt.Errorf("preparing: %w", err)
	}
	over := make(chan error, 1)
	go func() { over <- fault.inject(ctx, st.node) }()
	begun := st.begin(ctx, played.begin)
	if err := errors.Join(begun, <-over); err != nil {
		return err
	}
	return st.settle(ctx, played)
}

// begin tells pods to take what they take, one after the other, each when the one before has. Their
// replacements are not told.
func (st *stage) begin(ctx context.Context, names []string) error {
	for _, name := range names {
		file := filepath.Join(st.control, name)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			return fmt.Errorf("telling %s to begin: %w", name, err)
		}
		err := node.Until(ctx, time.Minute, func(context.Context) bool {
			text, unread := os.ReadFile(file + lines)                   //nolint:gosec // of the stage's own directory
			return unread == nil && bytes.Count(text, []byte("\n")) > 1 // the first line is its start
		})
		if err != nil {
			return fmt.Errorf("waiting for %s to take what it takes: %w", name, err)
		}
		if err := os.Remove(file); err != nil {
			return fmt.Errorf("ending the signal to %s: %w", name, err)
		}
	}
	return nil
}

// settle waits until the scenario's victims have gone, and where it has none for as long as a wrong
// decision would take.
func (st *stage) settle(ctx context.Context, played *scenario) error {
	if played.atLeast == 0 {
		return measure.Sleep(ctx, played.calm)
	}
	gone := 0
	err := node.Until(ctx, played.within, func(context.Context) bool {
		var unread error
		gone, _, unread = st.evictedSoFar(played.victims)
		return unread == nil && gone >= played.atLeast
	})
	if err != nil {
		return fmt.Errorf("waiting for %d evictions of %s, seen %d: %w", played.atLeast, strings.Join(played.victims, ", "), gone, err)
	}
	return measure.Sleep(ctx, played.calm)
}

// clear removes the namespace, and waits until its pods have gone and no incident is open.
func (st *stage) clear(ctx context.Context) error {
	if err := st.node.Client.CoreV1().Namespaces().Delete(ctx, st.namespace, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("removing a namespace: %w", err)
	}
	err := node.Until(ctx, 2*time.Minute, func(ctx context.Context) bool {
		list, err := st.node.Client.CoreV1().Pods(st.namespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 0 && len(st.log.openIncidents()) == 0
	})
	if err != nil {
		return fmt.Errorf("waiting for the pods and the incidents of the round to end: %w; open: %v", err, st.log.openIncidents())
	}
	return nil
}

// evictedSoFar counts the pods of the stage for which an eviction was accepted, and names those that
// belong to no app of the list. It reads the audit log again from where the round began.
func (st *stage) evictedSoFar(apps []string) (count int, wrong []string, err error) {
	log := st.audit
	return st.count(&log, apps)
}

// evicted is the same, and ends the round in the log.
func (st *stage) evicted(apps []string) (count int, wrong []string, err error) {
	return st.count(&st.audit, apps)
}

// appOf returns the app that a pod's name begins with; "" when it is none of them.
func appOf(pod string, apps []string) string {
	at := slices.IndexFunc(apps, func(app string) bool { return pod == app || strings.HasPrefix(pod, app+"-") })
	if at < 0 {
		return ""
	}
	return apps[at]
}
