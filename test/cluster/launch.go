package cluster

import (
	"context"
	"errors"
	"path/filepath"
)

// startComponent records a component, starts it and waits until it is ready.
func (c *Cluster) startComponent(ctx context.Context, wanted component) error {
	say(c.log, "Starting %s.", wanted.Name)
	if err := c.update(func(s *state) {
		if wanted.Path == "" {
			wanted.Path = filepath.Join(s.BinDir, wanted.Name)
		}
		s.Components = append(s.Components, wanted)
	}); err != nil {
		return err
	}
	found, read, err := c.find(wanted.Name)
	if err != nil {
		return err
	}
	if err := c.launch(read, found); err != nil {
		return err
	}
	return c.awaitReady(ctx, read, *found)
}

// launch starts the component's process, in the node's namespace and the cluster's cgroup
// where they apply, and records it.
func (c *Cluster) launch(read *state, found *component) error {
	environment := []string{
		"PATH=" + read.BinDir + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + c.dir, "LC_ALL=C.UTF-8",
	}
	var started Process
	run := func() (err error) {
		started, err = launch(found.Path, found.Arguments, environment, c.LogFile(found.Name))
		return err
	}
	var err error
	if found.InNode {
		err = c.inNode(read, run)
	} else {
		err = run()
	}
	if err != nil {
		return err
	}
	// The cgroup comes first: it identifies the process even if this program ends here.
	if read.CgroupRoot != "" {
		err = joinCgroup(read.CgroupRoot, started.PID)
	}
	found.Process = started
	return errors.Join(err, c.update(func(s *state) {
		if record, missing := s.component(found.Name); missing == nil {
			record.Process = started
		}
	}))
}
