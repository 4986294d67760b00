package agent

import (
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// resourceOf returns what pods are ranked by when the signal is under pressure.
func resourceOf(s pressure.Signal) rank.Resource {
	return [...]rank.Resource{
		pressure.MemoryKind: rank.Memory,
		pressure.PIDKind:    rank.PIDs,
		pressure.SpaceKind:  rank.Disk,
		pressure.InodeKind:  rank.Inodes,
	}[s.Kind()]
}
