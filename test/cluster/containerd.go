package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// containerdConfig is formatted with the directory of the CNI configuration, the path of
// runc, and whether containerd lacks CAP_SYS_RESOURCE.
//
// Features that leave traces outside the node's directories are off: NRI listens in /run,
// the opt plugin creates /opt/containerd, AppArmor profiles stay in the kernel.
const containerdConfig = `version = 3
root = "` + containerdRoot + `"
state = "` + containerdState + `"
disabled_plugins = ["io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]

[grpc]
address = "` + containerdSocket + `"

[plugins.'io.containerd.internal.v1.opt']
path = "` + containerdRoot + `/opt"

[plugins.'io.containerd.nri.v1.nri']
disable = true

[plugins.'io.containerd.cri.v1.images']
snapshotter = "overlayfs"

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "` + PauseImage + `"

[plugins.'io.containerd.cri.v1.runtime']
disable_apparmor = true
cdi_spec_dirs = []
# Without CAP_SYS_RESOURCE runc dies of a score below its own.
restrict_oom_score_adj = %[3]t

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["%[1]s"]
conf_dir = "%[1]s"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = "%[2]s"
SystemdCgroup = false
`

// cniConfig makes containerd report its network as ready. Its plugin need not exist: pods on
// the host's network never use it.
const cniConfig = `{"cniVersion": "1.0.0", "name": "host-network-only", "plugins": [{"type": "loopback"}]}`

func (c *Cluster) containerd() (*component, error) {
	runc, err := findProgram("runc", "runc")
	if err != nil {
		return nil, err
	}
	restricted, err := LacksSysResource()
	if err != nil {
		return nil, err
	}
	cni := c.path("config", "cni")
	if err := os.MkdirAll(cni, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the network's configuration: %w", err)
	}
	files := map[string]string{
		filepath.Join(cni, "10-host-network.conflist"): cniConfig,
		c.path("config", "containerd.toml"):            fmt.Sprintf(containerdConfig, cni, runc, restricted),
	}
	for path, content := range files {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return nil, fmt.Errorf("configuring containerd: %w", err)
		}
	}
	return &component{
		name: containerdName, inNode: true,
		probe: func(ctx context.Context) error {
			_, err := c.ctr(ctx, "version") // it listens on a socket in the node only
			return err
		},
		arguments: []string{"--config", c.path("config", "containerd.toml")},
	}, nil
}

// ctr runs containerd's own client in the node, and returns what it prints.
func (c *Cluster) ctr(ctx context.Context, arguments ...string) (string, error) {
	arguments = append([]string{"--address", containerdSocket, "--namespace", "k8s.io"}, arguments...)
	var printed string
	err := c.node.inside.do(func() error {
		command := exec.CommandContext(ctx, filepath.Join(c.options.BinDir, "ctr"), arguments...) //nolint:gosec // what build.sh built
		output, err := command.CombinedOutput()
		if err != nil {
			return fmt.Errorf("running ctr: %w: %s", err, lastLines(string(output), 5))
		}
		printed = string(output)
		return nil
	})
	return printed, err
}

// ImportImage loads the images of a docker-archive, such as [WriteImage] writes, into the
// node. Pods use them with imagePullPolicy Never.
func (c *Cluster) ImportImage(ctx context.Context, tar string) error {
	tar, err := realPath(tar)
	if err != nil {
		return fmt.Errorf("resolving the image's path: %w", err)
	}
	if _, err := c.ctr(ctx, "images", "import", tar); err != nil {
		return fmt.Errorf("importing image %s: %w", filepath.Base(tar), err)
	}
	return nil
}

// HasImage reports whether the node has an image of that name.
func (c *Cluster) HasImage(ctx context.Context, ref string) (bool, error) {
	names, err := c.namesOf(ctx, ref)
	return len(names) > 0, err
}

// RemoveImage removes an image from the node by all its names, with its files. A missing
// image is not an error.
func (c *Cluster) RemoveImage(ctx context.Context, ref string) error {
	names, err := c.namesOf(ctx, ref)
	if err != nil || len(names) == 0 {
		return err
	}
	if _, err := c.ctr(ctx, append([]string{"images", "rm", "--sync"}, names...)...); err != nil {
		return fmt.Errorf("removing image %s: %w", ref, err)
	}
	return nil
}

// namesOf returns all names of an image. The CRI plugin gives each image a second name, which keeps its files too.
func (c *Cluster) namesOf(ctx context.Context, ref string) ([]string, error) {
	table, err := c.ctr(ctx, "images", "ls")
	if err != nil {
		return nil, fmt.Errorf("listing images: %w", err)
	}
	const name, digest = 0, 2 // the columns of the table start with name, type and digest
	byDigest, of := map[string][]string{}, ""
	for line := range strings.Lines(table) {
		columns := strings.Fields(line)
		if len(columns) <= digest {
			continue
		}
		byDigest[columns[digest]] = append(byDigest[columns[digest]], columns[name])
		if columns[name] == ref {
			of = columns[digest]
		}
	}
	return byDigest[of], nil
}

func (c *Cluster) importPause(ctx context.Context, binDir string) error {
	if err := os.MkdirAll(c.path("images"), 0o700); err != nil {
		return fmt.Errorf("making the folder of images: %w", err)
	}
	tar := c.path("images", "pause.tar")
	files := map[string]string{"/workload": filepath.Join(binDir, "workload")}
	if err := WriteImage(tar, PauseImage, files, ImageConfig{Entrypoint: []string{"/workload"}}); err != nil {
		return err
	}
	return c.ImportImage(ctx, tar)
}

// LacksSysResource reports whether this program, and so its children, may not lower an OOM
// score.
func LacksSysResource() (bool, error) {
	var capabilities [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &capabilities[0]); err != nil {
		return false, fmt.Errorf("reading this program's capabilities: %w", err)
	}
	return capabilities[0].Effective&(1<<unix.CAP_SYS_RESOURCE) == 0, nil
}
