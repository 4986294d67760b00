package main

import (
	"context"

	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// followOOMKills tells of the kernel's kills until the context ends. No fault of it is a
// reason to end evictd.
func (d *daemon) followOOMKills(ctx context.Context) error {
	kills, err := usage.NewOOMKills(d.flags.host(cgroupMount), d.host.kubepods)
	if err != nil {
		d.recorder.OOMKillsUnread(err)
		return nil
	}
	kills.Run(ctx, func(kill usage.OOMKill) { d.recorder.OOMKilled(d.podName(kill.UID), kill.UID, kill.Count) }, d.recorder.OOMKillsUnread)
	return nil
}

// podName returns the namespace/name of the pod whose cgroup has that UID, "" where the watch
// does not list it.
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
