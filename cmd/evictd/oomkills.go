package main

import (
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
)

// oomKilled records a container that the kernel has killed for want of memory, by its pod's status.
func (d *daemon) oomKilled(pod *nodepods.Pod, killed nodepods.OOMKilled) {
	d.recorder.OOMKilled(pod.Key(), pod.UID, killed.Container)
}

// oomKills returns the kernel's own count since boot.
func (d *daemon) oomKills() (int64, error) { return pressure.OOMKills(d.flags.hostRoot) }
