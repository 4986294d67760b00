package agent

import (
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// resourceOf returns what pods are ranked by when the signal is under pressure.
func resourceOf(s pressure.Signal) rank.Resource {
	switch s {
	case pressure.NodeFSAvailable, pressure.ImageFSAvailable, pressure.ContainerFSAvailable:
		return rank.Disk
	case pressure.NodeFSInodesFree, pressure.ImageFSInodesFree, pressure.ContainerFSInodesFree:
		return rank.Inodes
	case pressure.PIDAvailable:
		return rank.PIDs
	default:
		return rank.Memory
	}
}
