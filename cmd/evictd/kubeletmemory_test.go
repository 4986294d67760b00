package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	eventrecord "k8s.io/client-go/tools/record"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/record"
	"github.com/evictd/evictd/internal/testing/kernelfiletest"
)

// cachedHost is a host of 16 GiB whose root cgroup, of v2, uses 1 GiB of anonymous memory and page
// cache. MemAvailable is 15 GiB throughout.
type cachedHost struct{ root string }

func newCachedHost(t *testing.T) *cachedHost {
	t.Helper()
	h := &cachedHost{kernelfiletest.Tree{
		"proc/meminfo":                     "MemTotal: 16777216 kB\nMemAvailable: 15728640 kB\nHugetlb: 0 kB\n",
		"sys/fs/cgroup/cgroup.controllers": "memory\n",
		"var/lib/kubelet/config.yaml":      "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nevictionHard: {memory.available: 100Mi}\n",
	}.Plant(t)}
	h.leave(t, 8<<30)
	return h
}

// leave has page cache in use leave so much by the kubelet's measure.
func (h *cachedHost) leave(t *testing.T, bytes int64) {
	t.Helper()
	const total, anonymous, idle = 16 << 30, 1 << 30, 1 << 20
	kernelfiletest.Put(t, filepath.Join(h.root, "sys/fs/cgroup/memory.stat"),
		fmt.Sprintf("anon %d\nfile %d\ninactive_file %d\n", int64(anonymous), total-bytes-anonymous+idle, int64(idle)))
}

// TestKubeletsLineIsWatched: page cache brings the kubelet's figure near its threshold while
// MemAvailable is ample. That is logged once, with an Event on the node, until it is over; what
// cannot be read ends nothing, and has no figure.
func TestKubeletsLineIsWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newCachedHost(t)
		core, logged := observer.New(zap.InfoLevel)
		registry, events := prometheus.NewRegistry(), eventrecord.NewFakeRecorder(10)
		flags := &runFlags{hostRoot: h.root}
		d := &daemon{
			flags: flags, host: &host{flags: flags},
			recorder: record.New(zap.New(core), registry, events, record.Settings{NodeName: "node-1", Now: time.Now}),
		}
		c := config.Default()
		c.EvictionHard, c.EvictionSoft, c.EvictionSoftGracePeriod = map[string]string{"memory.available": "5%"}, nil, nil
		d.inForce.Store(c)
		policy := policyOf(c)
		sampler, err := d.host.openSampler(c, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sampler.Close() })
		if d.checkKubeletThresholds(c, &policy, sampler); len(policy.KubeletHard) == 0 {
			t.Fatalf("the kubelet's configuration was not read: %v", logged.All())
		}
		logged.TakeAll()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.followKubeletMemory(ctx) }()
		const mebibyte = 1 << 20
		for _, step := range []struct {
			name     string
			left     int64 // MiB; -1 is not readable
			headroom string
			says     string // "" says nothing
		}{
			{"far", 8192, "8.485076992e+09", ""},
			{"near", 190, "9.437184e+07", "is near and evictd's is not"},
			{"nearer", 90, "-1.048576e+07", ""},
			{"unread", -1, "", ""},
			{"near still", 290, "1.9922944e+08", ""},
			{"over", 301, "2.10763776e+08", "is not near any more"},
		} {
			if step.left < 0 {
				kernelfiletest.Put(t, filepath.Join(h.root, "sys/fs/cgroup/memory.stat"), "anon")
			} else {
				h.leave(t, step.left*mebibyte)
			}
			time.Sleep(kubeletMemoryEvery)
			synctest.Wait()
			if got := headroomOf(t, registry); got != step.headroom {
				t.Errorf("%s: the headroom is %q, want %q", step.name, got, step.headroom)
			}
			lines := logged.TakeAll()
			if said := len(lines) == 1 && strings.Contains(lines[0].Message, step.says); said != (step.says != "") || len(lines) > 1 {
				t.Errorf("%s: it says %v", step.name, lines)
			}
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := len(events.Events); n != 1 {
			t.Errorf("%d Events, want one", n)
		} else if told := <-events.Events; !strings.Contains(told, "kubeletMemory.available: 200Mi") {
			t.Errorf("Event %q", told)
		}
	})
}

// headroomOf returns the metric's figure; "" where there is none.
func headroomOf(t *testing.T, registry *prometheus.Registry) string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "evictd_kubelet_memory_headroom_bytes" {
			return fmt.Sprint(family.GetMetric()[0].GetGauge().GetValue())
		}
	}
	return ""
}
