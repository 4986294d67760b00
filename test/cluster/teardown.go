package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

const (
	stopTimeout = 2 * time.Minute
	// quitGrace is short: what the processes could still save is deleted next.
	quitGrace = 2 * time.Second
)

// ownedFolders are the entries of the state directory, except for the logs. Nothing else in
// it is ever deleted.
func ownedFolders() []string {
	return []string{"pki", "config", "etcd", nodeFolder, diskImage(nodeFolder), diskImage(containerdFolder()), "images", "kubeconfig"}
}

// KeepLogs makes [Cluster.Stop] leave Dir/logs behind.
func (c *Cluster) KeepLogs() error {
	return c.update(func(s *state) { s.KeepLogs = true })
}

// Stop ends every process of the cluster, its containers included, removes its mounts,
// cgroups and files, and restores the kernel's settings. It works from the state on disk, so
// it also works after a crash of the program that started the cluster. It may be called
// again at any time: after an error it continues where it failed, and once everything is
// removed it does nothing.
func (c *Cluster) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	left, err := readState(c.dir)
	if errors.Is(err, ErrNoCluster) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := c.stopNode(ctx, left); err != nil {
		return err
	}
	if err := stopProcesses(ctx, left.Components); err != nil {
		return err
	}
	if left.CgroupRoot != "" {
		if err := RemoveCgroups(ctx, left.CgroupRoot); err != nil {
			return err
		}
		if err := switchControllers("-", left.Enabled); err != nil {
			// Other processes rely on them by now.
			say(c.log, "Leaving cgroup controllers on: %v.", err)
		}
	}
	if err := restoreSysctls(left.Sysctls); err != nil {
		return err
	}
	if err := unmountBelow(c.dir); err != nil {
		return err
	}
	return c.removeFiles(left)
}

// stopNode ends the kubelet, then the containers and their shims, then containerd. None of
// them reacts to the end of another, and containerd still reaps its own children. Then it
// ends all other processes in the cgroup, which the record of a crashed start may lack.
func (c *Cluster) stopNode(ctx context.Context, left *state) error {
	if left.CgroupRoot == "" {
		return nil
	}
	if kubelet, err := left.component(kubeletName); err == nil {
		if err := kubelet.Process.stop(ctx, quitGrace); err != nil {
			return err
		}
	}
	say(c.log, "Ending the containers.")
	var recorded []int
	for _, each := range left.Components {
		if each.Process.Running() {
			recorded = append(recorded, each.Process.PID)
		}
	}
	return emptyCgroups(ctx, left.CgroupRoot, recorded)
}

// stopProcesses ends the recorded processes, all at once.
func stopProcesses(ctx context.Context, components []component) error {
	failures := make([]error, len(components))
	var group sync.WaitGroup
	for i, each := range components {
		group.Go(func() { failures[i] = each.Process.stop(ctx, quitGrace) })
	}
	group.Wait()
	return errors.Join(failures...)
}

// unmountBelow detaches every mount below dir that this program sees. There is none as long
// as the node's namespace was private. If there were one, deleting the directory would
// delete the mounted files.
func unmountBelow(dir string) error {
	for range 2 {
		below, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
			return !strings.HasPrefix(m.Mountpoint, dir+"/"), false
		})
		if err != nil {
			return fmt.Errorf("reading the mounts: %w", err)
		}
		if len(below) == 0 {
			return nil
		}
		for _, each := range slices.Backward(below) {
			if err := unix.Unmount(each.Mountpoint, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
				return fmt.Errorf("unmounting %s: %w", each.Mountpoint, err)
			}
		}
	}
	return fmt.Errorf("unmounting what lies below %s: it comes back", dir)
}

// removeFiles deletes the directory's contents, the state last: until then a failed stop can
// be repeated.
func (c *Cluster) removeFiles(left *state) error {
	names := ownedFolders()
	if !left.KeepLogs {
		names = append(names, "logs")
	}
	for _, name := range names {
		if err := os.RemoveAll(c.path(name)); err != nil {
			return fmt.Errorf("deleting %s: %w", name, err)
		}
	}
	unfinished, err := filepath.Glob(c.path(stateFile) + ".*")
	if err != nil {
		return fmt.Errorf("looking for unfinished state: %w", err)
	}
	for _, path := range append(unfinished, c.path(stateFile)) {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("deleting the state: %w", err)
		}
	}
	if left.OwnsDir {
		_ = os.Remove(c.dir) // stays when it has other files, or the logs are kept
	}
	return nil
}
