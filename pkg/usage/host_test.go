package usage

import (
	"github.com/evictd/evictd/internal/testing/kernelfiletest"
	mustbe "github.com/evictd/evictd/internal/testing/must"
)

type (
	files   = kernelfiletest.Tree
	version = kernelfiletest.Version
	figures = kernelfiletest.Group
)

const (
	directory = kernelfiletest.Directory

	v1, v1NoPIDs, hybrid, v2 = kernelfiletest.V1, kernelfiletest.V1NoPIDs, kernelfiletest.Hybrid, kernelfiletest.V2
)

// must ends the test where something failed.
var must = mustbe.Succeed

// spoils are the ways in which a file of a pod can be at fault. A missing file is that of a
// removed pod.
func spoils() map[string]kernelfiletest.Spoil {
	all := kernelfiletest.Spoils()
	all["max"] = kernelfiletest.With("max\n")
	all["other"] = kernelfiletest.With("total_rss x\ntotal_shmem y\ntotal_inactive_file z\nanon x\nshmem y\ninactive_file z\n")
	return all
}
