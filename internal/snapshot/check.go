package snapshot

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// check says what is wrong with the values, taken together.
func (s *NodeSnapshot) check() error {
	if s.NodeName == "" {
		return errors.New("nodeName: is empty; save the snapshot again")
	}
	for _, part := range []func() error{s.checkPods, s.checkSignals, s.checkUsage, s.checkDisk, s.checkBudgets} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

func (s *NodeSnapshot) checkPods() error {
	places, names := map[string]string{}, map[string]string{}
	for i, pod := range s.Pods {
		here := at("pods", i)
		if pod.Name == "" || pod.Namespace == "" || pod.UID == "" {
			return fmt.Errorf("%s: name, namespace and uid must be there; save the snapshot again", here)
		}
		if err := once(here+".uid", pod.UID, places); err != nil {
			return err
		}
		if err := once(here+".name", pod.Key(), names); err != nil {
			return err
		}
		if err := figures(here, map[string]*int64{
			"gracePeriodSeconds": &pod.GraceSeconds, "deletionGracePeriodSeconds": pod.DeletionGraceSeconds,
			"memoryRequest": &pod.MemoryRequest, "ephemeralStorageRequest": &pod.StorageRequest,
		}); err != nil {
			return err
		}
	}
	return nil
}

// once refuses a key that an earlier entry has too.
func once(path, key string, places map[string]string) error {
	if first, twice := places[key]; twice {
		return fmt.Errorf("%s: %q is that of %s too; keep one", path, key, first)
	}
	places[key] = path
	return nil
}

func (s *NodeSnapshot) checkSignals() error {
	places := map[string]string{}
	for i := range s.Signals {
		signal, here := &s.Signals[i], at("signals", i)
		if _, err := pressure.ParseSignal(signal.Name); err != nil {
			return fmt.Errorf("%s.name: %w", here, err)
		}
		if err := once(here+".name", signal.Name, places); err != nil {
			return err
		}
		if err := signal.check(here); err != nil {
			return err
		}
	}
	return nil
}

func (s *Signal) check(path string) error {
	switch s.State {
	case pressure.Known.String():
		if s.Available == nil || s.Capacity == nil {
			return fmt.Errorf("%s: is known and lacks available or capacity; write state: unknown, or both", path)
		}
		if *s.Capacity < 0 { // a working set may be above its limit, so available may be below 0
			return fmt.Errorf("%s.capacity: %d is negative; save the snapshot again", path, *s.Capacity)
		}
	case pressure.Unknown.String(), pressure.Absent.String():
		if s.Available != nil || s.Capacity != nil {
			return fmt.Errorf("%s: is %s and has figures; write state: known, or none", path, s.State)
		}
	default:
		return fmt.Errorf("%s.state: %q is none of known, unknown and absent; write one of them", path, s.State)
	}
	return nil
}

func (s *NodeSnapshot) checkUsage() error {
	known, places := s.cgroups(), map[string]string{}
	for i := range s.Usage {
		u, here := &s.Usage[i], at("usage", i)
		if err := entry(here, u.UID, known, places); err != nil {
			return err
		}
		if err := figures(here, map[string]*int64{
			"workingSet": &u.WorkingSet, "anonymous": &u.Anonymous, "shared": &u.Shared, "kernel": u.Kernel, "tasks": u.Tasks,
		}); err != nil {
			return err
		}
	}
	return nil
}

// figures checks those that are known, in the order of their names.
func figures(path string, all map[string]*int64) error {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] == nil {
			continue
		}
		if err := figure(below(path, name), *all[name]); err != nil {
			return err
		}
	}
	return nil
}

// entry makes sure that an entry is the only one of a pod that is in the snapshot.
func entry(path, uid string, known map[string]bool, places map[string]string) error {
	if !known[uid] {
		return fmt.Errorf("%s.uid: no pod of the snapshot has %q; remove the entry, or add the pod", path, uid)
	}
	return once(path+".uid", uid, places)
}

func (s *NodeSnapshot) checkDisk() error {
	known, places := s.uids(), map[string]string{}
	for i := range s.Disk {
		d, here := &s.Disk[i], at("disk", i)
		if err := entry(here, d.UID, known, places); err != nil {
			return err
		}
		if err := figures(here, map[string]*int64{
			"nodefs.bytes": d.NodeFS.Bytes, "nodefs.inodes": d.NodeFS.Inodes,
			"imagefs.bytes": d.ImageFS.Bytes, "imagefs.inodes": d.ImageFS.Inodes,
		}); err != nil {
			return err
		}
	}
	if s.Disk != nil && s.DiskUnmeasured != "" {
		return errors.New("diskUnmeasured: disk is there too; keep one")
	}
	return nil
}

func (s *NodeSnapshot) checkBudgets() error {
	known, places := s.uids(), map[string]string{}
	for i := range s.Budgets {
		b, here := &s.Budgets[i], at("budgets", i)
		if err := entry(here, b.UID, known, places); err != nil {
			return err
		}
		if b.Outcome.Accepted() && b.Outcome != evict.WouldEvict || !slices.Contains(evict.Outcomes(), b.Outcome) {
			return fmt.Errorf("%s.outcome: %s is no answer to a dry run; save the snapshot again", here, shown(string(b.Outcome)))
		}
	}
	return nil
}
