package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// podDetail holds the cgroup's figures of the pod of --why; nil without a fault means that
// none were requested, as for a record.
type podDetail struct {
	*usage.Detail
	fault error
}

// readDetail reads the cgroup of a pod, where the ranking is of memory.
func (s *sight) readDetail(source nodeSource, key string) {
	if s.ranking.Resource != rank.Memory {
		return
	}
	for _, pod := range s.node.Pods {
		if pod.Key() == key {
			s.detail.Detail, s.detail.fault = source.detail(pod.CgroupUID)
		}
	}
}

// cgroup says what uses the pod's memory.
func (s *story) cgroup() {
	d := s.seen.detail
	switch {
	case d.fault != nil:
		s.say("What its memory is used by is not known: %v.", d.fault)
		return
	case d.Detail == nil:
		return
	}
	var known, unknown []string
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	for _, figure := range []struct {
		name string
		of   *int64
		text func(int64) string
	}{
		{"anonymous", d.Anonymous, rank.Bytes},
		{"files", d.File, rank.Bytes},
		{"tmpfs and shared memory among them", d.Shared, rank.Bytes},
		{"kernel memory", d.Kernel, rank.Bytes},
		{"kernel stacks", d.KernelStacks, rank.Bytes},
		{"page tables", d.PageTables, rank.Bytes},
		{"slab", d.Slab, rank.Bytes},
		{"sockets", d.Sockets, rank.Bytes},
		{"swap", d.Swap, rank.Bytes},
		{"OOM kills so far", d.OOMKills, count},
	} {
		if figure.of == nil {
			unknown = append(unknown, figure.name)
		} else {
			known = append(known, figure.name+" "+figure.text(*figure.of))
		}
	}
	text := fmt.Sprintf("Its cgroup tells: %s.", strings.Join(known, ", "))
	if len(unknown) > 0 {
		text += " None, or not known: " + strings.Join(unknown, ", ") + "."
	}
	s.say("%s", text)
}
