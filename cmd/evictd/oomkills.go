package main

import (
	"context"
	"errors"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/record"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// openOOMKills prepares the detection of OOM kills: from the counts of the pods' cgroups,
// or, on cgroup v1, from the pods' statuses. Its faults do not end evictd.
func (d *daemon) openOOMKills() (inStatus func(*nodepods.Pod, nodepods.OOMKilled)) {
	var err error
	d.kills, err = usage.NewOOMKills(d.flags.host(cgroupMount), d.host.kubepods)
	switch {
	case errors.Is(err, usage.ErrOnlyUnified):
		return func(pod *nodepods.Pod, killed nodepods.OOMKilled) {
			d.recorder.OOMKilled(pod.Key(), pod.UID, killed.Container, 1)
		}
	case err != nil:
		d.recorder.Failed(record.FailedOOMKills, err)
	}
	return nil
}

// followOOMKills reports the kills that the cgroups count until the context ends.
func (d *daemon) followOOMKills(ctx context.Context) error {
	if d.kills == nil {
		return nil
	}
	d.kills.Run(ctx, func(kill usage.OOMKill) {
		d.recorder.OOMKilled(d.podName(kill.UID), kill.UID, "", kill.Count)
	}, func(err error) { d.recorder.Failed(record.FailedOOMKills, err) })
	return nil
}

// podName returns the namespace/name of the pod whose cgroup has that UID, "" where the
// watch does not list it.
func (d *daemon) podName(uid string) string {
	for _, pod := range d.pods.List() {
		if pod.CgroupUID == uid {
			return pod.Key()
		}
	}
	return ""
}

// oomKills returns the kernel's own count since boot.
func (d *daemon) oomKills() (int64, error) { return pressure.OOMKills(d.flags.hostRoot) }
