package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// ErrNotBuilt says that [Build] has not run for this directory of binaries.
var ErrNotBuilt = errors.New("not built")

// binary is one program to build, from a package of one of the modules.
type binary struct {
	name   string
	module string // directory of the module, relative to this one
	pkg    string
	node   bool // needed by a node only
}

func binaries() []binary {
	const (
		kubernetes = "k8s.io/kubernetes/cmd/"
		containerd = "github.com/containerd/containerd/v2/cmd/"
	)
	return []binary{
		{name: "workload", module: ".", pkg: "github.com/evictd/evictd/test/cluster/cmd/workload"},
		{name: "etcd", module: "containerd", pkg: "go.etcd.io/etcd/server/v3"},
		{name: "kube-apiserver", module: "kubernetes", pkg: kubernetes + "kube-apiserver"},
		{name: "kube-controller-manager", module: "kubernetes", pkg: kubernetes + "kube-controller-manager"},
		{name: "kubectl", module: "kubernetes", pkg: kubernetes + "kubectl"},
		{name: "kube-scheduler", module: "kubernetes", pkg: kubernetes + "kube-scheduler", node: true},
		{name: "kubelet", module: "kubernetes", pkg: kubernetes + "kubelet", node: true},
		{name: "containerd", module: "containerd", pkg: containerd + "containerd", node: true},
		{name: "containerd-shim-runc-v2", module: "containerd", pkg: containerd + "containerd-shim-runc-v2", node: true},
		{name: "ctr", module: "containerd", pkg: containerd + "ctr", node: true},
	}
}

// pinned reports whether go.mod and go.sum alone determine the binary, so that a stamp of
// them names it in the cache.
func (b binary) pinned() bool {
	return b.module != "."
}

// Build compiles into binDir what a control plane needs, and with node also what a node
// needs. It builds only what no checkout on this machine has built yet: the first time takes
// minutes, a later one less than a second. It must run within this repository, whose go.mod
// files pin every version.
func Build(ctx context.Context, binDir string, node bool, log io.Writer) error {
	source, err := sourceDir()
	if err != nil {
		return err
	}
	if log == nil {
		log = io.Discard
	}
	if binDir, err = realPath(binDir); err != nil {
		return fmt.Errorf("resolving folder of binaries: %w", err)
	}
	if err := os.MkdirAll(binDir, 0o755); err != nil { //nolint:gosec // containers' images are made from these files: they are no secret
		return fmt.Errorf("making folder of binaries: %w", err)
	}
	wanted := slices.DeleteFunc(binaries(), func(b binary) bool { return b.node && !node })
	started := time.Now()
	for i, b := range wanted {
		progress := fmt.Sprintf("%d of %d, %v so far", i+1, len(wanted), time.Since(started).Round(time.Second))
		if err := b.build(ctx, source, binDir, progress, log); err != nil {
			return fmt.Errorf("building %s: %w", b.name, err)
		}
	}
	return nil
}

// checkBuilt reports what is missing in binDir before anything is started.
func checkBuilt(binDir string, node bool) error {
	if missing := Missing(binDir, node); len(missing) > 0 {
		return fmt.Errorf("looking for binaries in %s: %w: %s", binDir, ErrNotBuilt, strings.Join(missing, ", "))
	}
	return nil
}

// Missing returns the binaries of a control plane, with node also those of a node, that are not in
// binDir. It does not see whether one that is there is out of date.
func Missing(binDir string, node bool) []string {
	var missing []string
	for _, wanted := range binaries() {
		if (node || !wanted.node) && !isFile(filepath.Join(binDir, wanted.name)) {
			missing = append(missing, wanted.name)
		}
	}
	return missing
}

// DefaultBinDir is bin/cluster in the repository that holds the working directory.
func DefaultBinDir() (string, error) {
	source, err := sourceDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(source, "..", "..", "bin", "cluster"), nil
}

// sourceDir finds the directory of this module: upwards from the working directory. The
// build's own paths are hidden by -trimpath, and nested modules are not in the module cache.
func sourceDir() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the sources of the cluster: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		candidates := []string{dir, filepath.Join(dir, "test", "cluster")}
		for _, candidate := range candidates {
			if isFile(filepath.Join(candidate, "kubernetes", "go.mod")) && isFile(filepath.Join(candidate, "containerd", "go.mod")) {
				return candidate, nil
			}
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("finding the sources of the cluster: no test/cluster in or above %s", start)
		}
	}
}

func isFile(path string) bool {
	info, err := os.Stat(path) //nolint:gosec // looks, and reads nothing
	return err == nil && info.Mode().IsRegular()
}

// build builds one of the binaries; progress says how far all of them are. What is pinned is built once
// for all checkouts, in the cache.
func (b binary) build(ctx context.Context, source, binDir, progress string, log io.Writer) error {
	module, target := filepath.Join(source, b.module), filepath.Join(binDir, b.name)
	flags, err := linkFlags(module)
	if err != nil {
		return err
	}
	if !b.pinned() {
		return b.compile(ctx, module, flags, target)
	}
	stamp, err := stampOf(ctx, module, flags)
	if err != nil {
		return err
	}
	cached, err := cachedPath(stamp, b.name)
	if err != nil {
		return err
	}
	if !isFile(cached) {
		say(log, "Building %s (%s), which takes minutes when the build cache is cold.", b.name, progress)
		fresh := fmt.Sprintf("%s.%d", cached, os.Getpid()) // another checkout may build the same
		if err := b.compile(ctx, module, flags, fresh); err != nil {
			return err
		}
		if err := os.Rename(fresh, cached); err != nil {
			return fmt.Errorf("keeping the binary in the cache: %w", err)
		}
	}
	return place(cached, target)
}

func (b binary) compile(ctx context.Context, module, flags, target string) error {
	_, err := goCommand(ctx, module, "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", target, b.pkg)
	return err
}

// cachedPath returns where a binary of that stamp is kept, below $EVICTD_CACHE or evictd in the user's
// cache directory. The directory may be deleted at any time: the next build fills it again.
func cachedPath(stamp, name string) (string, error) {
	cache := os.Getenv("EVICTD_CACHE")
	if cache == "" {
		users, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("finding the cache of binaries: %w; set EVICTD_CACHE to a directory", err)
		}
		cache = filepath.Join(users, "evictd")
	}
	dir := filepath.Join(cache, "cluster-"+stamp[:16])
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // another user may run what this one built
		return "", fmt.Errorf("making the cache of binaries: %w", err)
	}
	return filepath.Join(dir, name), nil
}

// place makes target the file that is cached: a hard link, or a copy of the same time where the two are
// not on one filesystem. No symbolic link: the virtual machines' disks are made of these files.
func place(cached, target string) error {
	wanted, err := os.Stat(cached)
	if err != nil {
		return fmt.Errorf("reading the cache of binaries: %w", err)
	}
	if there, missing := os.Lstat(target); missing == nil && there.Size() == wanted.Size() && there.ModTime().Equal(wanted.ModTime()) {
		return nil
	}
	fresh := fmt.Sprintf("%s.%d", target, os.Getpid()) // another build may do the same: never write to a link
	_ = os.Remove(fresh)                               // of a build that was killed
	if os.Link(cached, fresh) != nil {
		content, err := os.ReadFile(cached) //nolint:gosec // what build wrote
		if err != nil {
			return fmt.Errorf("reading the cache of binaries: %w", err)
		}
		err = errors.Join(os.WriteFile(fresh, content, 0o755), os.Chtimes(fresh, time.Time{}, wanted.ModTime())) //nolint:gosec // programs
		if err != nil {
			return fmt.Errorf("copying from the cache of binaries: %w", err)
		}
	}
	if err := os.Rename(fresh, target); err != nil {
		return fmt.Errorf("placing a binary of the cache: %w", err)
	}
	return nil
}

// linkFlags strips the binaries, and for Kubernetes adds the version: without it the servers
// report v0.0.0-master and clients reject the skew.
func linkFlags(module string) (string, error) {
	content, err := os.ReadFile(filepath.Join(module, "go.mod")) //nolint:gosec // a file of this repository
	if err != nil {
		return "", fmt.Errorf("reading the pinned versions: %w", err)
	}
	flags := "-s -w"
	version := regexp.MustCompile(`(?m)\bk8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)`).FindSubmatch(content)
	if version == nil {
		return flags, nil
	}
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags += fmt.Sprintf(" -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s", pkg, version[1], version[2], version[3])
	}
	return flags, nil
}

// stampOf returns a word that identifies the pinned sources of a binary.
func stampOf(ctx context.Context, module, flags string) (string, error) {
	toolchain, err := goCommand(ctx, module, "env", "GOVERSION", "GOOS", "GOARCH", "GOAMD64", "GOARM64", "GOEXPERIMENT", "GOFLAGS")
	if err != nil {
		return "", fmt.Errorf("asking for the Go version: %w", err)
	}
	sum := sha256.New()
	toolchain = strings.TrimSpace(strings.ReplaceAll(toolchain, "-trimpath", "")) // compile sets it anyway
	sum.Write([]byte(toolchain + "\n" + flags + "\n"))
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(module, name)) //nolint:gosec // a file of this repository
		if err != nil {
			return "", fmt.Errorf("reading the pinned versions: %w", err)
		}
		sum.Write(content)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// goCommand runs the go command for one module, ignoring the caller's workspace, and returns
// its output.
func goCommand(ctx context.Context, module string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, "go", arguments...) //nolint:gosec // the arguments are constants of this file and paths
	command.Dir = module
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "PWD="+module)
	var output, complaint bytes.Buffer
	command.Stdout, command.Stderr = &output, &complaint
	err := command.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("looking for the go command, which compiles the cluster: %w", err)
	}
	if err != nil {
		return "", fmt.Errorf("running go %s: %w: %s", arguments[0], err, lastLines(complaint.String(), 20))
	}
	return strings.TrimSpace(output.String()), nil
}

// say writes one sentence of progress. A writer that fails must not fail the cluster.
func say(log io.Writer, format string, arguments ...any) {
	_, _ = fmt.Fprintf(log, format+"\n", arguments...)
}

func lastLines(text string, count int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}
